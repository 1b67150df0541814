"""Clocks that lie and kernels of every length: the run ends with a measurement or with one line that says why not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from plugin.run import runner
from plugin.run.runner import run_interleaved
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MedianInterval
from plugin.simulate.simulated_timer import SimulatedTimer
from roofline_model.core.errors import UnsupportedError


def nothing():
    return None


def call_of(kernel=nothing):
    return KernelCall(kernel, lambda index: (), False)


def simulated(text, case="case"):
    timer = SimulatedTimer.from_text(text)
    timer.begin_case(case, None)
    return timer


def timed(timer, mode="eager", sensors=None, **rule):
    contestants = {"": (call_of(), timer, MedianInterval(**rule))}
    return run_interleaved(contestants, MeasurePlan(mode=mode), sensors)[""]


def measure(text, mode="eager"):
    timer = simulated(text)
    return timed(timer, mode, timer.sensors)


@dataclass
class LyingTimer:
    """Runs the kernel, and says of each sample what it was told to; its clock goes on by `tick_s` per look."""

    answers: list[float]
    tick_s: float = 0.01
    name: str = "lying"
    min_sample_s: float = 50e-6
    runs_kernel: bool = True
    last_clock_hz: float | None = None
    clock_s: float = 0.0
    count: int = 0
    schedules: list[int] = field(default_factory=list)

    def begin_case(self, case_key, ideal_s): ...

    def sample(self, kernel, schedule, prepare=None):
        self.schedules.append(len(schedule))
        self.count += 1
        return self.answers[(self.count - 1) % len(self.answers)]

    def synchronize(self): ...

    def now(self):
        self.clock_s += self.tick_s
        return self.clock_s

    def idle(self, seconds): ...


@pytest.mark.parametrize("true_s", [1e-12, 1e-9, 1e-6, 1.0, 30.0, 3600.0])
def test_kernels_of_every_length_are_measured(true_s):
    timing = measure(f"true_s={true_s},noise=0.002")
    assert timing.measurement.median_s == pytest.approx(true_s, rel=0.01)
    assert timing.measurement.sample_count >= 3
    assert timing.measurement.stop_reason in ("converged", "budget", "max-samples")


def test_a_kernel_of_thirty_seconds_is_called_three_times():
    timing = measure("true_s=30,noise=0.01")
    assert (timing.measurement.sample_count, timing.measurement.stop_reason) == (3, "budget")
    assert timing.measurement.ci_low_s is None
    assert "few-samples" in timing.measurement.flags
    assert "noisy" not in timing.measurement.flags  # nothing is known of its interval


@pytest.mark.parametrize("fault", ["backwards", "still", "zero", "infinite"])
def test_a_clock_that_always_lies_ends_in_one_line(fault):
    with pytest.raises(UnsupportedError, match="0 of 21") as caught:
        measure(f"true_s=1e-3,fault={fault}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fault", ["backwards", "still", "zero", "infinite"])
def test_a_clock_that_lies_now_and_then_costs_those_samples_only(fault):
    timing = measure(f"true_s=1e-3,noise=0.002,fault={fault},fault_share=0.05")
    assert timing.measurement.median_s == pytest.approx(1e-3, rel=0.01)
    assert all(0 < sample < 1 for sample in timing.measurement.samples_s)


def test_a_clock_that_jumps_makes_outliers_that_are_kept():
    timing = measure("true_s=1e-3,noise=0.002,fault=jump,fault_share=0.1")
    assert timing.measurement.median_s == pytest.approx(1e-3, rel=0.01)
    assert timing.measurement.max_s > 3600
    assert timing.measurement.outlier_count >= 1
    assert {"outliers", "bimodal"} & set(
        timing.measurement.flags
    )  # an hour away, a tenth of them may count as a second mode


@pytest.mark.parametrize("mode", ["eager", "burst", "sustained"])
@pytest.mark.parametrize("answers", [[0.0], [-1.0], [math.inf], [math.nan], [-1.0, 0.0, math.nan]], ids=str)
def test_real_kernels_under_a_lying_clock_end_in_one_line(answers, mode):
    timer = LyingTimer(answers)
    with pytest.raises(UnsupportedError, match="0 of 21"):
        timed(timer, mode)
    assert max(timer.schedules) <= 100_000


@pytest.mark.parametrize("tick_s", [-0.5, 0.0], ids=["backwards", "still"])
def test_budget_clock_that_does_not_advance_ends_with_the_samples(tick_s):
    answers = [1.0 + n * 7919 % 1000 / 1000 for n in range(1000)]
    timing = timed(LyingTimer(answers, tick_s), max_samples=200)
    assert timing.measurement.stop_reason == "max-samples"


def test_waiting_for_a_steady_machine_ends_although_its_clock_stands_still(monkeypatch):
    monkeypatch.setattr(runner, "STEADY_LIMIT_S", 0.05)
    timing = timed(LyingTimer([1.0], 0.0), "sustained", max_samples=20)
    assert "not-steady" in timing.measurement.flags


def test_a_kernel_shorter_than_the_clock_can_tell_gets_many_calls_but_not_endless_ones():
    timer = LyingTimer([1e-12])
    timing = timed(timer)
    assert timing.measurement.calls_per_sample == 100_000
    assert timing.measurement.median_s == 1e-12


def test_one_broken_clock_does_not_hide_behind_a_good_one():
    contestants = {
        "good": (call_of(), simulated("true_s=1e-3,noise=0.001"), MedianInterval()),
        "bad": (call_of(), simulated("true_s=1e-3,fault=still", "bad"), MedianInterval()),
    }
    with pytest.raises(UnsupportedError, match="usable"):
        run_interleaved(contestants, MeasurePlan())
