"""`baseline_side`: which runs, and which of their cases, stand on the older side; out of a real database."""

from __future__ import annotations

from dataclasses import replace

import diff_runs as runs
import numpy as np
import pytest

from results.diff.rules import DiffRules
from results.diff.stored_sides import baseline_side, named_side, side_of
from results.diff.suites import SuiteSide
from results.records.records import Method
from results.store.store import open_store
from roofline_model.core.errors import StoreError, UnknownNameError

OTHER = Method("monotonic", "2", {"target_ci_ratio": 0.05})


def side_of_day(day: int, cases=range(4), *, method: Method | None = None, **changes) -> SuiteSide:
    rng = np.random.default_rng(day)
    run = runs.run_info(f"night-{day}", started_at=f"2026-03-{day:02d}T01:00:00.000000+00:00", **changes)
    records = [runs.record(run, case, process, 0.005 * rng.standard_normal()) for case in cases for process in range(3)]
    if method is not None:
        records = [replace(record, method=method) for record in records]
    return SuiteSide((run,), tuple(records))


def compared(tmp_path, against: str, *sides: SuiteSide, after: SuiteSide | None = None) -> SuiteSide | None:
    after = after or sides[-1]
    path = runs.stored(tmp_path / "r.db", *sides)
    with open_store(path, create=False, read_only=True) as store:
        return baseline_side(store, against, after, {}, DiffRules())


def days(side: SuiteSide | None, case: int | None = None) -> list[int]:
    """Days of the runs of the side; of those that hold a case."""
    assert side is not None
    held = {record.run_id for record in side.records if case is None or record.case == runs.case(case)}
    return [int(run.started_at[8:10]) for run in side.runs if run.run_id in held]


def test_runs_of_a_part_of_the_suite_do_not_push_the_nights_out(tmp_path):
    part = [side_of_day(day, [0]) for day in (4, 5, 6, 7, 8)]
    baseline = compared(tmp_path, "baseline", side_of_day(1), side_of_day(2), side_of_day(3), *part, side_of_day(9))
    assert days(baseline, 0) == [8, 7, 6, 5, 4]  # the newest five that hold it
    for case in (1, 2, 3):
        assert days(baseline, case) == [3, 2, 1]


def test_a_case_that_is_new_takes_no_run_in(tmp_path):
    baseline = compared(
        tmp_path, "baseline:2", side_of_day(1), side_of_day(2), side_of_day(3), side_of_day(4, range(6))
    )
    assert days(baseline) == [3, 2]
    assert {record.case for record in baseline.records} == {runs.case(number) for number in range(4)}


def test_latest_passes_over_a_run_that_measured_in_another_way(tmp_path):
    sides = [side_of_day(1), side_of_day(2), side_of_day(3, method=OTHER), side_of_day(4)]
    assert days(compared(tmp_path, "latest", *sides)) == [2]


def test_latest_passes_over_a_run_that_has_no_case_in_common(tmp_path):
    sides = [side_of_day(1), side_of_day(2), side_of_day(3, [8, 9]), side_of_day(4)]
    assert days(compared(tmp_path, "latest~1", *sides)) == [2]
    assert days(compared(tmp_path, "latest~2", *sides)) == [1]


def test_a_rolling_baseline_takes_nights_of_the_same_method_only(tmp_path):
    baseline = compared(
        tmp_path, "BASELINE:2", side_of_day(1), side_of_day(2), side_of_day(3, method=OTHER), side_of_day(4)
    )
    assert days(baseline) == [2, 1]


def test_where_no_run_measured_the_same_way_the_newest_is_given_so_that_the_diff_says_what_differs(tmp_path):
    baseline = compared(tmp_path, "latest", side_of_day(1, method=OTHER), side_of_day(2, method=OTHER), side_of_day(3))
    assert days(baseline) == [2]


def failed(side: SuiteSide) -> SuiteSide:
    records = [
        replace(record, status="failed", reason="wrong", measurement=None, method=None) for record in side.records
    ]
    return replace(side, records=tuple(records))


@pytest.mark.parametrize("against", ["baseline", "latest", "branch:main"])
def test_nights_in_which_every_kernel_failed_are_no_baseline(tmp_path, against):
    sides = [failed(side_of_day(1)), failed(side_of_day(2)), side_of_day(3)]
    assert compared(tmp_path, against, *sides) is None


def test_a_night_in_which_every_kernel_failed_hides_no_older_one(tmp_path):
    sides = [side_of_day(1), failed(side_of_day(2)), side_of_day(3)]
    assert days(compared(tmp_path, "baseline", *sides)) == [1]


def test_several_newer_runs_are_all_left_out(tmp_path):
    sides = [side_of_day(1), side_of_day(2), side_of_day(3), side_of_day(4)]
    path = runs.stored(tmp_path / "r.db", *sides)
    with open_store(path, create=False, read_only=True) as store:
        after = side_of(store, (sides[3].runs[0], sides[1].runs[0]))
        assert days(baseline_side(store, "baseline", after, {}, DiffRules())) == [1]


def test_no_run_yet_is_none_and_a_branch_nobody_knows_is_an_error(tmp_path):
    sides = [side_of_day(1), side_of_day(2)]
    assert compared(tmp_path, "baseline", sides[0], after=sides[0]) is None
    path = runs.stored(tmp_path / "more.db", *sides)
    with open_store(path, create=False, read_only=True) as store:
        with pytest.raises(UnknownNameError, match=r"'typo'.*main"):
            baseline_side(store, "branch:typo", sides[1], {}, DiffRules())
        # The very first night of a database cannot know any branch.
        assert baseline_side(store, "branch:typo", sides[0], {}, DiffRules()) is None


def test_a_branch_is_not_known_outside_a_checkout(tmp_path):
    with pytest.raises(StoreError, match="no run of branch 'main' is stored: the older runs were taken outside a git"):
        compared(tmp_path, "branch:main", side_of_day(1, git_branch=None), side_of_day(2, git_branch=None))


def test_a_named_side_is_complete(tmp_path):
    cut = side_of_day(1, status="interrupted")
    path = runs.stored(tmp_path / "r.db", cut, side_of_day(2))
    with open_store(path, create=False, read_only=True) as store, pytest.raises(StoreError, match="was cut short"):
        named_side(store, cut.runs)
