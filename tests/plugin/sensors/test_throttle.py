from __future__ import annotations

import pytest

from plugin.sensors.throttle import ThrottleWatch, gained_s, is_capped

RATED_HZ = 2.0e9


@pytest.mark.parametrize(
    ("throttled_s", "clock_hz", "rated_hz", "capped"),
    [
        ({"power cap": 0.3}, 1.5e9, RATED_HZ, True),
        ({"power cap": 0.3}, 1.98e9, RATED_HZ, False),  # at full boost the power bit is ordinary regulation
        ({"power cap": 0.3}, 0.985 * RATED_HZ, RATED_HZ, False),
        ({"power cap": 0.3}, 0.984 * RATED_HZ, RATED_HZ, True),
        ({}, 1.0e9, RATED_HZ, False),  # low without a reason: idle, or a lock
        ({"software thermal": 0.0}, 1.0e9, RATED_HZ, False),
        (None, 1.0e9, RATED_HZ, False),
        ({"power cap": 0.3}, None, RATED_HZ, False),
        ({"software thermal": 0.3}, None, RATED_HZ, True),
        ({"hardware power brake": 0.3}, 1.0e9, None, True),
        ({"package thermal": 0.1}, None, None, True),
        ({"power cap": 0.3}, 1.0e9, 0.0, False),
        ({"cgroup quota": 0.1}, 2.0e9, RATED_HZ, True),  # the threads stood still, whatever the clock
        ({"cgroup quota": 0.1}, None, None, True),
        ({"cgroup quota": 0.0}, None, None, False),
    ],
)
def test_capped_is_a_reason_and_a_low_clock(throttled_s, clock_hz, rated_hz, capped):
    assert is_capped(throttled_s, clock_hz, rated_hz) is capped


@pytest.mark.parametrize(
    ("active", "clock_hz", "capped"),
    [
        (("software thermal",), 1.0e9, True),  # half the clock, and the counter's step was longer than the case
        (("power cap",), 0.984 * RATED_HZ, True),
        (("power cap",), 0.985 * RATED_HZ, False),
        (("hardware thermal",), None, False),  # seen at one moment, at a clock nobody knows
        ((), 1.0e9, False),
    ],
)
def test_a_reason_active_at_the_end_counts_with_a_low_clock(active, clock_hz, capped):
    for throttled_s in ({}, None, {"power cap": 0.0}):
        assert is_capped(throttled_s, clock_hz, RATED_HZ, active) is capped


def test_what_was_active_at_the_end_without_what_the_user_has_set():
    watch = ThrottleWatch(
        Counters({}, {}, reasons=("idle", "application clocks", "display clocks", "software thermal"))
    )
    with watch:
        assert watch.active == ()
    assert watch.active == ("software thermal",)


def test_gained_by_hand():
    assert gained_s({"a": 1.0, "b": 2.0}, {"a": 1.5, "b": 2.0}) == {"a": 0.5}
    assert gained_s({"a": 1.0}, {"a": 1.0}) == {}
    assert gained_s({"a": 5.0, "b": 1.0}, {"a": 0.1, "b": 1.2}) == {"b": pytest.approx(0.2)}  # a was reset
    assert gained_s({"a": 5.0}, {"a": 0.1}) is None
    assert gained_s({"a": 1.0}, {"b": 1.0}) is None
    assert gained_s(None, {"a": 1.0}) is None
    assert gained_s({"a": 1.0}, None) is None


class Counters:
    """Counters read in turn, and the reasons active now."""

    def __init__(self, *readings, reasons=()):
        self.readings = list(readings)
        self.reasons = reasons

    def throttle_s(self):
        return self.readings.pop(0)

    def throttle_reasons(self):
        return self.reasons


def watched(sensors):
    pauses = []
    watch = ThrottleWatch(sensors, pause=pauses.append)
    with watch:
        pass
    return watch.throttled_s, pauses


def test_what_was_gained_in_the_window():
    assert watched(Counters({"power cap": 1.0}, {"power cap": 1.4})) == ({"power cap": pytest.approx(0.4)}, [])
    assert watched(Counters({"power cap": 1.0}, {"power cap": 1.0})) == ({}, [])
    assert watched(Counters(None, None)) == (None, [])
    assert watched(None) == (None, [])


def test_a_step_that_comes_late_is_waited_for_once():
    late = Counters({"power cap": 1.0}, {"power cap": 1.0}, {"power cap": 1.1}, reasons=("power cap",))
    assert watched(late) == ({"power cap": pytest.approx(0.1)}, [0.1])
    never = Counters({"power cap": 1.0}, {"power cap": 1.0}, {"power cap": 1.0}, reasons=("power cap",))
    assert watched(never) == ({}, [0.1])


def test_no_wait_when_nothing_is_late():
    booked = Counters({"power cap": 1.0}, {"power cap": 1.1}, reasons=("power cap",))
    assert watched(booked) == ({"power cap": pytest.approx(0.1)}, [])
    uncounted = Counters({"power cap": 1.0}, {"power cap": 1.0}, reasons=("idle", "application clocks"))
    assert watched(uncounted) == ({}, [])
    silent = Counters({"power cap": 1.0}, {"power cap": 1.0}, reasons=None)
    assert watched(silent) == ({}, [])
