from __future__ import annotations

import threading
import time

import pytest

from plugin.run import observe
from plugin.run.observe import Telemetry, median_of
from results.records.records import TelemetrySample


class FakeSensors:
    """Sensors whose power is a new value every `every` readings; `enough` is set after `count` readings."""

    scope = "gpu"

    def __init__(self, count=3, every=1):
        self.count, self.every, self.readings, self.enough = count, every, 0, threading.Event()

    def power_w(self):
        self.readings += 1
        if self.readings >= self.count:
            self.enough.set()
        return 100.0 + self.readings // self.every

    def sm_clock_hz(self):
        return 1.5e9

    def memory_clock_hz(self):
        return None

    temperature_c = utilization_ratio = memory_used_bytes = memory_clock_hz


def test_without_sensors_there_is_nothing():
    with Telemetry(None) as meter:
        pass
    assert meter.samples == ()


def test_samples_are_readings_in_order_and_none_where_refused():
    sensors = FakeSensors()
    with Telemetry(sensors, period_s=0.001) as meter:
        assert sensors.enough.wait(10)
    times = [sample.time_s for sample in meter.samples]
    assert times == sorted(times)
    assert times[0] >= 0
    assert [sample.power_w for sample in meter.samples[:2]] == [101.0, 102.0]
    assert (meter.samples[0].sm_clock_hz, meter.samples[0].temperature_c) == (1.5e9, None)


def test_thread_ends_with_the_window_and_the_next_begins_anew():
    sensors = FakeSensors()
    meter = Telemetry(sensors, period_s=0.001)
    with meter:
        assert sensors.enough.wait(10)
    first = meter.samples
    count = sensors.readings
    time.sleep(0.02)
    assert (meter.samples, sensors.readings) == (first, count)
    assert not [thread for thread in threading.enumerate() if thread.name == "roofline-telemetry"]
    sensors.enough.clear()
    with meter:
        assert sensors.enough.wait(10)
    assert meter.samples[0].power_w > first[-1].power_w


@pytest.mark.parametrize(
    ("period_s", "expected_s"), [(0.025, 0.025), (0.3, observe.MAX_PERIOD_S), (0.001, observe.PERIOD_S)]
)
def test_the_period_becomes_the_sensors_own_and_is_remembered(period_s, expected_s):
    sensors = FakeSensors()
    meter = Telemetry(sensors)
    assert meter.period_s == observe.PERIOD_S
    samples = [TelemetrySample(0.001 * k, power_w=float(k * 0.001 // period_s)) for k in range(2000)]
    meter._learn(samples)
    assert meter.period_s == pytest.approx(expected_s, abs=0.0011)
    assert Telemetry(sensors).period_s == meter.period_s
    assert Telemetry(sensors, period_s=0.05).period_s == 0.05
    assert Telemetry(FakeSensors()).period_s == observe.PERIOD_S


def test_a_reading_that_never_changes_teaches_nothing():
    sensors = FakeSensors()
    meter = Telemetry(sensors)
    meter._learn([TelemetrySample(0.01 * k, power_w=100.0) for k in range(200)])
    assert meter.period_s == Telemetry(sensors).period_s == observe.PERIOD_S


def test_learning_happens_by_itself_once(monkeypatch):
    learnt = []
    monkeypatch.setattr(observe, "PERIOD_S", 0.0005)
    monkeypatch.setattr(observe, "LEARNING_READINGS", 20)
    monkeypatch.setattr(Telemetry, "_learn", lambda self, samples: learnt.append(len(samples)))
    sensors = FakeSensors(count=60)
    with Telemetry(sensors):
        assert sensors.enough.wait(20)
    assert learnt == [20]


def test_sensors_that_raise_end_the_thread_and_nothing_else():
    class Raising(FakeSensors):
        def power_w(self):
            self.enough.set()
            raise ValueError("broken")

    sensors = Raising()
    with Telemetry(sensors, period_s=0.001) as meter:
        assert sensors.enough.wait(10)
    assert meter.samples == ()


def test_sensors_that_tell_nothing_are_not_read_on():
    class Silent(FakeSensors):
        def power_w(self):
            super().power_w()

        sm_clock_hz = FakeSensors.memory_clock_hz

    sensors = Silent()
    with Telemetry(sensors, period_s=0.001) as meter:
        assert sensors.enough.wait(10)
        time.sleep(0.02)
    assert (meter.samples, sensors.readings) == ((), observe.SILENT_READINGS)


def test_sensors_may_name_their_own_period():
    sensors = FakeSensors()
    sensors.reading_period_s = 0.1
    assert Telemetry(sensors).period_s == 0.1
    assert Telemetry(sensors, period_s=0.02).period_s == 0.02


def test_median_ignores_what_was_refused():
    samples = (TelemetrySample(0.0, power_w=1.0), TelemetrySample(0.1), TelemetrySample(0.2, power_w=3.0))
    assert median_of(samples, "power_w") == 2.0
    assert median_of(samples, "temperature_c") is None
