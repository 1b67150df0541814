"""What a run's command selects by, and that a case left out on purpose is not called GONE."""

from __future__ import annotations

from dataclasses import replace

import diff_runs as runs
import pytest
from diff_runs import pair

from reports.present.answers.diff import DiffAnswer
from reports.present.encoder import answer_json
from reports.present.words.diff_text import counts_text, headline
from results.diff.gate import gate, parse_fail_on
from results.diff.rules import DiffRules
from results.diff.selection import selection_text, selection_words
from results.diff.suites import compare_suites

GONE = parse_fail_on(["slower,gone"])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pytest bench_cases --roofline-processes 3 --roofline-db r.db", ()),
        ("pytest bench_cases -k 'gemv and 1x1024x1024' -q", ("-k 'gemv and 1x1024x1024'",)),
        ("pytest -kgemv -m=full", ("-k gemv", "-m full")),
        ("__main__.py bench_cases -k gemv and not 1x1024 --roofline-db r.db", ("-k 'gemv and not 1x1024'",)),
        ("__main__.py -k gemv bench_cases", ("-k gemv",)),
        ("python -m roofline_cli pipeline bench_cases", ()),
        ("pytest bench_cases/test_gemv.py::test_gemv[1x2]", ("'bench_cases/test_gemv.py::test_gemv[1x2]'",)),
        ("pytest -v test_a.py -p plugin.py --roofline-hw chip.py", ("test_a.py",)),
        ("pytest --lf --deselect a.py::b --roofline-shapes=quick", ("--lf", "--deselect a.py::b", "--roofline-shapes quick")),
        ("pytest -k 'gemv and", ("-k 'gemv and'",)),  # cut within quotes
        ("pytest bench_cases -k ''", ()),
        ("roofline import a.json -k x", ()),
        ("", ()),
    ],
)  # fmt: skip
def test_what_a_command_selects_by(command, words):
    assert selection_words(command) == words


def compared(before_command: str, after_command: str, lost: str = ""):
    """Three of twelve cases are not in the newer run; one of the three was `lost` there instead."""
    before, after = pair({})
    before = replace(before, runs=(replace(before.runs[0], command=before_command),))
    records = [record for record in after.records if record.case not in [runs.case(number) for number in (1, 2, 3)]]
    records += [runs.lost(after.runs[0], 1, lost, "why")] if lost else []
    after = replace(after, runs=(replace(after.runs[0], command=after_command),), records=tuple(records))
    return compare_suites(before, after, {}, DiffRules())


def test_what_a_selection_leaves_out_is_one_line_and_fails_nothing():
    suite_diff = compared("pytest bench_cases", "pytest bench_cases -k 'gemv and 1x1024'")
    assert not suite_diff.of("GONE")
    assert (suite_diff.unselected_count, len(suite_diff.cases)) == (3, 9)
    result = gate(suite_diff, GONE)
    assert result.exit_code == 0
    assert headline(suite_diff, result) == "nothing changed by more than noise in 9 cases"
    assert counts_text(suite_diff) == "9 same, 3 not selected by -k 'gemv and 1x1024'"
    document = answer_json(DiffAnswer(suite_diff, result, GONE))
    assert (document["unselected_count"], document["selection"]) == (3, "-k 'gemv and 1x1024'")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pytest bench_cases", "pytest bench_cases"),
        ("pytest bench_cases -k gemv", "pytest bench_cases"),
        ("pytest bench_cases -k gemv", "pytest ./bench_cases -k gemv"),  # the same words lost the case
    ],
)
def test_what_a_whole_run_or_the_same_selection_lacks_is_gone(before, after):
    suite_diff = compared(before, after)
    assert (len(suite_diff.of("GONE")), suite_diff.unselected_count, suite_diff.selection) == (3, 0, "")
    assert gate(suite_diff, GONE).exit_code == 1


def test_a_case_that_the_selection_took_and_that_failed_there_is_gone():
    suite_diff = compared("pytest bench_cases", "pytest bench_cases -k gemv", lost="failed")
    assert [case.reason for case in suite_diff.of("GONE")] == ["failed"]
    assert suite_diff.unselected_count == 2


def test_of_several_newer_runs_one_that_was_whole_makes_the_side_whole():
    some = [runs.run_info(command=f"pytest -k {name}") for name in ("a", "b")]
    assert selection_text(some) == "-k a; -k b"
    assert selection_text([*some, runs.run_info(command="pytest")]) == ""
