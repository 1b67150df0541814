from __future__ import annotations

import math

import pytest

from plugin.simulate.simulated_timer import SimulatedTimer
from plugin.timers import timers
from plugin.timers.replay import ReplayTimer
from plugin.timers.timers import MonotonicTimer


def test_monotonic_timer_times_the_calls_and_nothing_else(monkeypatch):
    clock = {"ns": 0}
    monkeypatch.setattr(timers.time, "perf_counter_ns", lambda: clock["ns"])

    def spend(ns):
        clock["ns"] += ns

    taken = MonotonicTimer().sample(lambda _: spend(400), [(0,)] * 5, lambda: spend(10**9))
    assert taken == pytest.approx(400e-9, rel=1e-12)


def test_monotonic_timer_rests_by_sleeping(monkeypatch):
    slept = []
    monkeypatch.setattr(timers.time, "sleep", slept.append)
    MonotonicTimer().idle(0.5)
    MonotonicTimer().idle(-1.0)
    assert slept == [0.5, 0.0]


@pytest.mark.parametrize("timer", [MonotonicTimer(), SimulatedTimer(), ReplayTimer({})], ids=lambda timer: timer.name)
def test_every_timer_has_what_the_runner_needs(timer):
    assert isinstance(timer.name, str)
    assert math.isfinite(timer.min_sample_s)
    assert timer.last_clock_hz is None
    assert timer.runs_kernel is (timer.name == "monotonic")
    assert hasattr(timer, "capture") is (timer.name != "monotonic")
    for name in ("begin_case", "sample", "synchronize", "now", "idle"):
        assert callable(getattr(timer, name))
