from __future__ import annotations

import itertools
import math

import pytest

from plugin.run.runner import STEADY_LIMIT_S, Steadiness, warm_up
from plugin.samples.plan import MeasurePlan
from plugin.timers.rotation import Rotation

ROTATION = Rotation(((),))


class Sensed:
    """A device whose clock and power follow functions of the fake timer's clock."""

    def __init__(self, timer, clock=lambda t: None, power=lambda t: None):
        self.timer, self.clock, self.power = timer, clock, power

    def sm_clock_hz(self):
        return self.clock(self.timer.clock_s)

    def power_w(self):
        return self.power(self.timer.clock_s)


def settled(fake_timer, sensors, spend=lambda t: 0.01, mode="sustained"):
    kernel = lambda: fake_timer.spend(spend(fake_timer.clock_s))  # noqa: E731
    before = fake_timer.clock_s
    warmed = warm_up(kernel, fake_timer, ROTATION, MeasurePlan(mode=mode), sensors)
    return warmed, fake_timer.clock_s - before


def test_eager_does_not_wait_for_the_sensors(fake_timer):
    warmed, _ = settled(fake_timer, Sensed(fake_timer, power=lambda t: 100 + 50 * t), mode="eager")
    assert warmed.is_steady


def test_sustained_waits_until_power_is_flat(fake_timer):
    sensors = Sensed(fake_timer, power=lambda t: 700 * (1 - math.exp(-(t - began) / 0.5)))
    fake_timer.runs_kernel = True
    began = 0.0
    warmed, took = settled(fake_timer, sensors)
    assert warmed.is_steady
    assert took > 1.0  # 700 W × e^(-t/0.5) moves by less than 1 % in half a second only after about 2 s


def test_a_clock_that_keeps_falling_is_said_and_not_waited_for(fake_timer):
    began = fake_timer.clock_s
    sensors = Sensed(fake_timer, clock=lambda t: 2e9 * math.exp(-(t - began) / 5))
    warmed, took = settled(fake_timer, sensors)
    assert not warmed.is_steady
    assert took >= STEADY_LIMIT_S


def test_without_sensors_the_times_must_be_flat(fake_timer):
    slow_start = lambda t: 0.01 * (1 + math.exp(-t))  # noqa: E731
    warmed, took = settled(fake_timer, None, slow_start)
    assert warmed.is_steady
    assert took > 1.0


@pytest.mark.parametrize(("seconds", "is_flat"), [(0.3, False), (0.7, True)])
def test_less_than_a_window_is_never_flat(seconds, is_flat):
    steadiness = Steadiness()
    for at in itertools.takewhile(lambda t: t <= seconds, itertools.count(0, 0.02)):
        steadiness.add(at, 1.0, 2e9, 300.0)
    assert steadiness.is_flat is is_flat
