"""`run_movement_variance`: what all cases of a run have in common raises the floor of a diff against several runs."""

from __future__ import annotations

import math

import diff_runs as runs
import numpy as np
import pytest

from results.diff.rules import DiffRules
from results.diff.run_movement import run_movement_variance
from results.diff.side_facts import judged, side_cases
from results.diff.suites import SuiteSide, compare_suites


def nights(count: int, moved_sd: float, *, cases: int = 40, seed: int = 3) -> list[SuiteSide]:
    rng = np.random.default_rng(seed)
    return [
        runs.side(runs.noisy(rng, cases, 3) + moved_sd * rng.standard_normal(), label=f"n{number}")
        for number in range(count)
    ]


def pooled(sides: list[SuiteSide]) -> SuiteSide:
    return SuiteSide(tuple(side.runs[0] for side in sides), tuple(record for side in sides for record in side.records))


def movement_of(sides: list[SuiteSide]) -> float:
    return run_movement_variance([judged(case) for case in side_cases(pooled(sides).records)[0].values()])


def test_the_common_movement_is_found_and_the_spread_of_the_cases_is_none():
    movements = [math.sqrt(movement_of(nights(12, 0.02, seed=seed))) for seed in range(10)]
    assert np.mean(movements) == pytest.approx(0.02, rel=0.2)
    still = [math.sqrt(movement_of(nights(12, 0.0, seed=seed))) for seed in range(10)]
    assert np.mean(still) < 0.001  # a tenth of the spread between processes


def test_two_runs_are_too_few_and_one_run_knows_nothing():
    assert movement_of(nights(2, 0.05)) == 0.0
    assert movement_of(nights(1, 0.05)) == 0.0
    assert run_movement_variance([]) == 0.0


def test_one_case_alone_is_no_suite_that_moves():
    # All of its movement is its own spread: nothing is left for the machine.
    assert movement_of(nights(8, 0.02, cases=1)) == 0.0


def test_a_night_like_any_other_is_not_called_slower_in_every_case():
    before, after = nights(6, 0.02, cases=40), nights(1, 0.0, cases=40, seed=9)[0]
    logs = np.log([record.measurement.median_s * 1e3 for record in after.records]).reshape(40, 3)
    after = runs.side(logs + 0.03, run=after.runs[0])
    with_movement = compare_suites(pooled(before), after, {}, DiffRules())
    without = compare_suites(pooled(nights(6, 0.0, cases=40)), after, {}, DiffRules())
    assert len(without.of("SLOWER")) > 30
    assert len(with_movement.of("SLOWER")) == 0
    first, second = (next(case.floor_ratio for case in suite_diff.cases) for suite_diff in (with_movement, without))
    assert first > 2 * second
