"""The benchmark of stopping rules: its arithmetic by hand, and every contestant on the simulated clock."""

from __future__ import annotations

import pytest

from benchmarks import loop_overhead
from benchmarks.precision_contestants import (
    CONTESTANTS,
    PRECISE,
    SIMULATED,
    SIMULATED_TRUE_S,
    SimulatedKernel,
    estimate,
)
from benchmarks.time_to_precision import Standing, kernel_rows, set_rows, standings

KERNEL = "simulated, independent 5 %"


def test_each_round_is_held_against_its_own_truth():
    found = [(turn, "k", who, 1.0 + turn, value) for who in CONTESTANTS for turn, value in ((0, 1.1), (1, 3.0))]
    ours = standings("k", found, {(0, "k"): 1.0, (1, "k"): 2.0})["ours"]
    assert ours.seconds == 1.5
    assert ours.errors == pytest.approx((0.1, 0.5))
    assert ours.p90_error == pytest.approx(0.5)


def test_a_rival_twice_as_far_off_needs_four_times_its_time():
    kernels = [dict.fromkeys(CONTESTANTS, Standing(1.0, (0.02,))) | {"ours": Standing(0.5, (0.01,))} for _ in range(3)]
    row = set_rows("kernels", kernels, 9)[0]
    assert (row.measured_s, row.rival_s, row.aim_s) == (1.5, pytest.approx(12.0), pytest.approx(6.0))
    assert row.verdict == "pass"
    assert "worst p90 |error| 1.00%" in row.note


def test_lines_of_a_kernel_are_what_was_spent():
    rows = kernel_rows("k", dict.fromkeys(CONTESTANTS, Standing(2.0, (0.02, 0.01))), 2)
    assert [row.rival for row in rows] == list(CONTESTANTS[1:])
    assert all((row.measured_s, row.rival_s, row.aim_s) == (2.0, 2.0, None) for row in rows)


@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_every_contestant_measures_the_simulated_kernel(contestant, benchmark):
    if contestant.startswith("torch"):
        pytest.importorskip("torch")
    found = estimate(contestant, KERNEL, "test", benchmark)
    assert found.median_s == pytest.approx(SIMULATED_TRUE_S, rel=0.1)
    assert 0.003 < found.seconds < 11
    if not contestant.startswith("pytest"):
        benchmark.pedantic(lambda: None)  # a fixture that was asked for and left warns


def test_simulated_kernels_are_the_same_for_equal_cases():
    def times(case):
        kernel = SimulatedKernel.create(SIMULATED[KERNEL], case)
        for _ in range(5):
            kernel()
        return kernel.timer.now()

    assert times("a") == times("a") != times("b")
    assert PRECISE in CONTESTANTS


def test_loop_overhead_tells_one_figure_with_an_aim(tmp_path):
    (row,) = loop_overhead.measure(tmp_path, quick=True)
    assert row.aim_s == 100e-9
    assert 0 < row.measured_s < 1e-5
    assert row.rival_s > 0
