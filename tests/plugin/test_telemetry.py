from __future__ import annotations

import time

import pytest

from plugin import telemetry
from plugin.telemetry import Telemetry, median_of
from results.records import TelemetrySample


class FakeDevice:
    def __init__(self, energies=(), power=100.0):
        self.energies = list(energies)
        self.power = power

    def total_energy_j(self):
        return self.energies.pop(0) if self.energies else None

    def power_w(self):
        return self.power

    def sm_clock_hz(self):
        return 1.5e9

    def memory_clock_hz(self):
        return None

    temperature_c = utilization_ratio = memory_used_bytes = memory_clock_hz


def window(device, seconds, monkeypatch, readings_s=0.06):
    """Run a window that seems to last `seconds` while the thread really samples for a moment."""
    meter = Telemetry(device, period_s=0.001)
    with meter:
        time.sleep(readings_s)
        meter._began_s = time.perf_counter() - seconds
    return meter


def test_without_a_device_there_is_nothing():
    with Telemetry(None) as meter:
        pass
    assert (meter.samples, meter.power(4)) == ((), None)


def test_short_window_gives_no_power(monkeypatch):
    assert window(FakeDevice([0.0, 500.0]), 1.0, monkeypatch).power(4) is None


def test_energy_counter_comes_first(monkeypatch):
    reading = window(FakeDevice([1000.0, 1600.0]), 3.0, monkeypatch).power(4)
    assert reading.source == "nvml-energy-counter"
    assert reading.power_w == pytest.approx(200.0, rel=0.01)
    assert reading.energy_per_call_j == pytest.approx(150.0)  # 600 J over 4 calls


@pytest.mark.parametrize("energies", [(), (1000.0, 1000.0)])
def test_frozen_or_absent_counter_falls_back_to_power_samples(monkeypatch, energies):
    reading = window(FakeDevice(energies), 3.0, monkeypatch).power(4)
    assert reading.source == "nvml-power-samples"
    assert reading.power_w == pytest.approx(100.0)


def test_no_sensor_at_all_is_none_never_zero(monkeypatch):
    assert window(FakeDevice(power=None), 3.0, monkeypatch).power(4) is None


def test_thread_ends_with_the_window():
    meter = Telemetry(FakeDevice(), period_s=0.001)
    with meter:
        time.sleep(0.02)
    count = len(meter.samples)
    assert count > 0
    time.sleep(0.02)
    assert len(meter.samples) == count


def test_median_ignores_what_was_refused():
    samples = (TelemetrySample(0.0, power_w=1.0), TelemetrySample(0.1), TelemetrySample(0.2, power_w=3.0))
    assert median_of(samples, "power_w") == 2.0
    assert median_of(samples, "temperature_c") is None


def test_minimum_window_is_twenty_counter_steps():
    assert telemetry.MIN_POWER_WINDOW_S >= 20 * 0.1


def test_power_window_holds_the_kernel_alone_and_counts_its_calls(monkeypatch, fake_timer):
    """The timer is not asked for samples there: its blocking kernel would burn power inside the window."""
    from types import SimpleNamespace

    from plugin import fixtures

    monkeypatch.setattr(fixtures, "MIN_POWER_WINDOW_S", -0.15)
    monkeypatch.setattr(telemetry, "MIN_POWER_WINDOW_S", 0.0)
    calls = []
    device = FakeDevice([0.0, 10.0])
    fixture = object.__new__(fixtures.RooflineFixture)
    fixture._session = SimpleNamespace(options=SimpleNamespace(power=True), nvml=device)
    call = SimpleNamespace(kernel=lambda x: calls.append(x))
    timing = SimpleNamespace(
        stats=SimpleNamespace(median_s=0.01), rotation=SimpleNamespace(schedule=lambda start, n: [(1,)] * n)
    )
    reading = fixture._power_window(call, fake_timer, timing)
    assert reading.call_count == len(calls) > 0
    assert len(calls) % 20 == 0  # 0.2 s of a 10 ms kernel at a time
    assert reading.energy_per_call_j == pytest.approx(10.0 / len(calls))
    assert set(fake_timer.events) == {"synchronize"}
