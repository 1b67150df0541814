"""Diffs and histories: false alarms and how soon a change is seen."""
