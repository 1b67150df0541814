"""Diffs that can be trusted: what changed between two runs by more than noise. Pure statistics over records.

`compare_suites` judges, `gate` turns its verdicts into an exit code, `baseline` says which runs to compare with.
`stored_sides` alone reads the database.
"""
