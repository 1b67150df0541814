"""The CPU's speed between samples: which of them found it as fast as usual."""

from __future__ import annotations

import pytest

from plugin.timers import host_speed
from plugin.timers.host_speed import HostSpeed, loop_s
from plugin.timers.replay import ReplayTimer
from plugin.timers.timers import MonotonicTimer


@pytest.fixture
def readings(monkeypatch):
    """Give the loop these times, one after the other; the clock runs 1 ms with each look at it."""
    times_s, now_s = [], [0.0]

    class Clock:
        @staticmethod
        def perf_counter():
            now_s[0] += 1e-3
            return now_s[0]

    monkeypatch.setattr(host_speed, "loop_s", lambda: times_s.pop(0))
    monkeypatch.setattr(host_speed, "time", Clock)
    return times_s


def test_the_loop_takes_some_time_and_its_fastest_is_repeatable():
    fastest_s = [min(loop_s() for _ in range(200)) for _ in range(3)]
    assert min(fastest_s) > 1e-6
    assert max(fastest_s) < 3 * min(fastest_s)  # under any load


def test_a_sample_counts_where_the_cpu_was_fast_before_and_after_it(readings):
    readings += [20e-6, 20.4e-6, 27e-6, 20.2e-6, 20e-6]
    speed = HostSpeed()
    marks = [speed.mark() for _ in range(5)]
    assert marks == [0, 1, 2, 3, 4]
    assert speed.are_fast(marks) == [True, False, False, True, False]  # nothing follows the last


def test_what_a_clock_reaches_for_a_moment_is_not_its_usual_speed(readings):
    """A laptop's first second: 40 % faster than what it can keep."""
    readings += [14e-6] * 5 + [20e-6] * 95
    speed = HostSpeed()
    for _ in range(100):
        speed.read()
    assert speed.fast_s == pytest.approx(20e-6, rel=0.01)
    assert speed.are_fast([50]) == [True]


def test_readings_of_long_ago_are_forgotten(readings, monkeypatch):
    monkeypatch.setattr(host_speed, "MAX_READINGS", 3)
    readings += [20e-6] * 5
    speed = HostSpeed()
    for _ in range(5):
        speed.read()
    assert speed.are_fast([0, 1, 2, 3, 4]) == [False, False, True, True, False]


def test_waiting_ends_with_the_slow_spell_or_when_its_time_is_over(readings):
    speed = HostSpeed()
    readings += [20e-6, 30e-6, 30e-6, 20e-6, 99.0]
    speed.read()
    speed.wait(1.0)
    assert readings == [99.0]
    readings[:] = [30e-6] * 100
    speed.wait(0.01)
    assert 80 < len(readings) < 99


def test_every_case_of_a_process_adds_to_what_is_known_of_its_cpu():
    assert MonotonicTimer().speed is MonotonicTimer().speed
    assert not hasattr(ReplayTimer({}), "speed")
