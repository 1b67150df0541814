from __future__ import annotations

import bisect
import dataclasses
import math
import threading
import time

import pytest

from plugin.sensors import energy
from plugin.sensors.energy import disagrees, measure_energy, measure_idle_power
from plugin.sensors.energy_math import (
    change_times_s,
    counter_edges,
    counter_power_w,
    infer_period_s,
    integrate_j,
)
from plugin.simulate.simulated_timer import SimulatedTimer


class SimulatedGpu:
    """Power and a stepping counter of a device whose true energy is known; its clock moves when it works."""

    counter_source, samples_source, scope = "nvml-energy-counter", "nvml-power-samples", "gpu"

    def __init__(self, step_s=0.1, period_s=0.1, phase_s=0.0, duty=1.0, lag_s=0.0, has_counter=True, has_power=True):
        self.step_s, self.period_s, self.phase_s, self.duty, self.lag_s = step_s, period_s, phase_s, duty, lag_s
        self.has_counter, self.has_power = has_counter, has_power
        self.times, self.energies = [-1000.0, 0.0], [-50.0 * 1000, 0.0]  # 50 W before anything began
        self.counter_of = lambda time_s, value: value

    def now(self):
        return self.times[-1]

    def work(self, seconds, power_w):
        self.times.append(self.times[-1] + seconds)
        self.energies.append(self.energies[-1] + seconds * power_w)

    def true_j(self, time_s):
        place = min(max(1, bisect.bisect_left(self.times, time_s)), len(self.times) - 1)
        (t0, t1), (e0, e1) = self.times[place - 1 : place + 1], self.energies[place - 1 : place + 1]
        return e0 + (e1 - e0) * (time_s - t0) / (t1 - t0)

    def _step(self, length_s):
        return math.floor((self.now() - self.phase_s) / length_s + 1e-9) * length_s + self.phase_s

    def total_energy_j(self):  # in whole millijoules, as NVML counts
        return (
            self.counter_of(self.now(), round(5000.0 + self.true_j(self._step(self.step_s)), 3))
            if self.has_counter
            else None
        )

    def power_w(self):
        if not self.has_power:
            return None
        end = self._step(self.period_s)
        span = self.lag_s or self.duty * self.period_s
        return (self.true_j(end) - self.true_j(end - span)) / span


class Kernel:
    """Ten calls of a millisecond per stretch, drawing `watts` with a ripple around it that averages out."""

    def __init__(self, gpu, watts=300.0, ripple=10.0, stretch_s=0.01):
        self.gpu, self.watts, self.ripple, self.stretch_s, self.count = gpu, watts, ripple, stretch_s, 0

    def __call__(self):
        self.count += 1
        # seven stretches up, seven down: no whole number of them fits into a sensor's period
        self.gpu.work(self.stretch_s, self.watts + (self.ripple if self.count % 14 < 7 else -self.ripple))
        return 10


def measured(gpu, **changes):
    return measure_energy(Kernel(gpu), gpu, now=gpu.now, **changes)


# Pure functions --------------------------------------------------------------------------------------------------


def test_period_is_the_shortest_interval_between_changes():
    times = [0.001 * k for k in range(1000)]
    values = [k // 20 for k in range(1000)]  # a new value every 20 ms
    assert infer_period_s(times, values) == pytest.approx(0.020)
    assert change_times_s(times, values)[:2] == pytest.approx([0.020, 0.040])


def test_a_late_reading_is_not_a_short_period():
    updates = [0.1 * k for k in range(1, 20)]
    times = sorted([*(0.001 * k for k in range(1990) if not 399 < k < 499), 0.4985])  # one read took 99 ms
    values = [bisect.bisect(updates, t) for t in times]
    shortest = min(
        b - a for a, b in zip(change_times_s(times, values), change_times_s(times, values)[1:], strict=False)
    )
    assert shortest < 0.05  # what a bare minimum would say
    assert infer_period_s(times, values) == pytest.approx(0.1, abs=0.002)


def test_the_first_readings_are_dropped_and_few_changes_say_nothing():
    values = [float(k % 2) for k in range(10)] + [0.0] * 50
    assert infer_period_s([0.001 * k for k in range(60)], values) is None
    assert infer_period_s([0.0, 1.0, 2.0], [1.0, 1.0, 2.0], drop=0) is None
    assert infer_period_s([], []) is None
    times = [0.01 * k for k in range(40)]
    assert infer_period_s(times, [None if k % 3 else float(k) for k in range(40)], drop=0) == pytest.approx(0.03)


def test_trapezoid_by_hand():
    times, powers = [0.0, 0.1, 0.2, 0.3], [100.0, 100.0, 200.0, 200.0]
    assert integrate_j(times, powers, 0.0, 0.3) == pytest.approx(10 + 15 + 20)
    assert integrate_j(times, powers, 0.15, 0.25) == pytest.approx((150 + 200) / 2 * 0.05 + 200 * 0.05)
    assert integrate_j(times, [100.0, None, 200.0, 200.0], 0.0, 0.3) == pytest.approx(30 + 20)
    assert integrate_j(times, powers, -0.1, 0.4) == pytest.approx(45 + 10 + 20)  # held beyond the ends


def test_an_integral_with_a_hole_or_without_readings_is_none():
    assert integrate_j([0.0, 0.1, 1.0, 1.1], [100.0] * 4, 0.0, 1.1) is None
    assert integrate_j([0.0, 0.1, 0.2], [100.0] * 3, 0.0, 2.0) is None  # the sensor froze
    assert integrate_j([], [], 0.0, 1.0) is None
    assert integrate_j([0.5], [None], 0.0, 1.0) is None
    assert integrate_j([0.5], [100.0], 1.0, 1.0) is None
    assert integrate_j([0.1, 0.2], [math.nan, math.inf], 0.0, 0.3) is None


def test_edges_lie_halfway_between_readings():
    edges = counter_edges([0.0, 0.1, 0.2, 0.4], [5.0, 5.0, 7.0, 9.0])
    assert [(edge.time_s, edge.energy_j, edge.uncertainty_s) for edge in edges] == [
        (pytest.approx(0.15), 7.0, pytest.approx(0.05)),
        (pytest.approx(0.3), 9.0, pytest.approx(0.1)),
    ]
    assert counter_edges([0.0, 0.1, 0.2], [5.0, 9.0, 1.0]) is None


def test_counter_power_has_no_quantisation():
    """30 J steps every 100 ms, read every 10 ms: read at the ends it is 5 % off, between its steps within the bound."""
    worst_naive = worst = 0.0
    for offset in range(10):
        begin = 0.003 + offset * 0.01
        end = begin + 1.992
        times = [begin + 0.01 * k for k in range(int((end - begin) / 0.01) + 1)]
        counters = [30.0 * math.floor(t / 0.1) for t in times]
        power_w = counter_power_w(times, counters, begin, end)
        worst_naive = max(worst_naive, abs((counters[-1] - counters[0]) / (end - begin) / 300 - 1))
        worst = max(worst, abs(power_w / 300 - 1))
    assert worst_naive > 0.04
    assert worst < 0.006  # 10 ms of 1.8 s


@pytest.mark.parametrize(
    ("counters", "why"),
    [
        (lambda t: 5.0, "stands still"),
        (lambda t: math.floor(10 * min(t, 1.0)), "stops half-way"),
        (lambda t: math.floor(10 * max(t, 1.0)), "begins half-way"),
        (lambda t: math.floor(10 * t) if t < 1 else math.floor(10 * t) - 9, "was reset"),
        (lambda t: math.floor(3 * t), "too slow"),
        (lambda t: None, "absent"),
    ],
)
def test_a_counter_that_cannot_be_trusted_is_none(counters, why):
    times = [0.01 * k for k in range(201)]
    assert counter_power_w(times, [counters(t) for t in times], 0.0, 2.0) is None, why


# Measuring -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase_s", [0.0, 0.013, 0.037, 0.071, 0.099])
@pytest.mark.parametrize("step_s", [0.02, 0.1])
def test_counter_first_and_the_integral_beside_it(step_s, phase_s):
    reading = measured(SimulatedGpu(step_s=step_s, phase_s=phase_s), idle_power_w=50.0)
    assert (reading.source, reading.scope, reading.window_count) == ("nvml-energy-counter", "gpu", 3)
    assert reading.energy_j == pytest.approx(0.3, rel=0.01)
    assert reading.power_w == pytest.approx(300.0, rel=0.01)
    assert reading.cross_check_j == pytest.approx(0.3, rel=0.01)
    assert reading.net_energy_j == pytest.approx(0.25, rel=0.01)  # 50 W of 1 ms a call
    assert (reading.window_s, reading.call_count) == (pytest.approx(2.0, rel=0.01), pytest.approx(6000, rel=0.02))
    assert reading.std_j < 0.003
    assert reading.sensor_period_s == pytest.approx(0.1, abs=0.011)
    assert not disagrees(reading)


def test_without_a_counter_power_is_integrated():
    reading = measured(SimulatedGpu(has_counter=False))
    assert reading.source == "nvml-power-samples"
    assert reading.energy_j == pytest.approx(0.3, rel=0.02)
    assert (reading.cross_check_j, reading.net_energy_j) == (None, None)


def test_without_power_the_counter_stands_alone():
    reading = measured(SimulatedGpu(has_power=False))
    assert (reading.source, reading.cross_check_j, reading.sensor_period_s) == ("nvml-energy-counter", None, None)


@pytest.mark.parametrize(
    "counter_of",
    [
        lambda time_s, value: 7.0,
        lambda time_s, value: value if time_s < 2.0 else min(value, 5400.0),
        lambda time_s, value: value % 100,
    ],
    ids=["stands still", "stops", "wraps again and again"],
)
def test_an_untrustworthy_counter_falls_back_to_power(counter_of):
    gpu = SimulatedGpu()
    gpu.counter_of = counter_of
    reading = measured(gpu)
    assert reading.source == "nvml-power-samples"
    assert reading.energy_j == pytest.approx(0.3, rel=0.02)


def test_one_reset_costs_one_window():
    gpu = SimulatedGpu()
    gpu.counter_of = lambda time_s, value: value if time_s < 4.0 else value - 6000
    reading = measured(gpu)
    assert (reading.source, reading.window_count) == ("nvml-energy-counter", 2)
    assert reading.energy_j == pytest.approx(0.3, rel=0.01)


def test_no_sensor_is_none_at_once():
    gpu = SimulatedGpu(has_counter=False, has_power=False)
    kernel = Kernel(gpu)
    assert measure_energy(kernel, gpu, now=gpu.now) is None
    assert kernel.count == 0
    assert measure_idle_power(gpu, now=gpu.now, pause=pytest.fail) is None


def test_a_power_reading_that_never_changes_is_a_frozen_one():
    gpu = SimulatedGpu(has_counter=False)
    gpu.power_w = lambda: 123.0
    assert measured(gpu) is None


def test_a_window_too_short_for_its_source_is_none():
    assert measured(SimulatedGpu(), window_s=0.5) is None
    assert measured(SimulatedGpu(step_s=0.02), window_s=0.5).source == "nvml-energy-counter"


def test_a_quarter_duty_sensor_that_beats_with_the_kernel_is_seen():
    """A100 and H100 sense 25 ms of every 100: work with that very rhythm is read wrong, the counter shows it."""
    gpu = SimulatedGpu(duty=0.25)
    count = [0]

    def run():
        count[0] += 1
        gpu.work(0.025, 500.0 + count[0] % 3 if count[0] % 4 == 0 else 200.0)  # 275 W on average
        return 25

    reading = measure_energy(run, gpu, now=gpu.now, pause=lambda seconds: None)
    assert reading.energy_j == pytest.approx(0.275, rel=0.02)
    assert abs(reading.disagreement_ratio) > 0.10
    assert disagrees(reading)


def test_a_quarter_duty_sensor_on_steady_work_agrees():
    assert abs(measured(SimulatedGpu(duty=0.25)).disagreement_ratio) < 0.03


def test_an_average_that_lags_is_waited_for():
    gpu = SimulatedGpu(lag_s=2.0, has_counter=False)
    gpu.power_lag_s = 2.0
    assert measured(gpu).energy_j == pytest.approx(0.3, rel=0.02)
    unaware = SimulatedGpu(lag_s=1.0)  # one that hides its lag: the windows begin on the rise of the average
    unaware.work(1.0, 50.0)
    settled = {"FIRST_SETTLE_S": 0.1}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settled.items():
            patch.setattr(energy, name, value)
        reading = measured(unaware, windows=1)
    assert reading.disagreement_ratio < -0.10


def test_idle_above_the_load_gives_no_net_energy():
    reading = measured(SimulatedGpu(), idle_power_w=400.0)
    assert (reading.idle_power_w, reading.net_energy_j) == (400.0, None)


@pytest.mark.parametrize("has_counter", [True, False])
def test_idle_power(has_counter):
    gpu = SimulatedGpu(has_counter=has_counter)
    pause = Kernel(gpu, watts=50.0, ripple=2.0)
    assert measure_idle_power(gpu, now=gpu.now, pause=lambda seconds: pause()) == pytest.approx(50.0, rel=0.02)


def test_the_windows_start_at_different_phases():
    gpu, pauses = SimulatedGpu(), []
    measured(gpu, pause=pauses.append)
    assert pauses == pytest.approx([0.1 / 3, 0.2 / 3], rel=0.15)


def test_derived_power_does_not_check_the_counter_it_comes_from():
    gpu = SimulatedGpu(step_s=0.001)
    gpu.power_is_derived, gpu.counter_source = True, "rapl"
    reading = measured(gpu)
    assert (reading.source, reading.cross_check_j) == ("rapl", None)
    gpu.has_counter = False
    assert measured(gpu) is None


def test_a_kernel_of_thirty_seconds_is_not_run_for_ever():
    gpu = SimulatedGpu()
    kernel = Kernel(gpu, stretch_s=30.0)
    assert measure_energy(kernel, gpu, now=gpu.now) is None  # nobody read the sensors meanwhile
    assert kernel.count == 2


@pytest.mark.parametrize("direction", [0.0, -0.001])
def test_a_broken_clock_ends_with_none(direction):
    gpu, clock = SimulatedGpu(), [50.0]

    def now():
        clock[0] += direction
        return clock[0]

    gpu.power_w = lambda: 100.0
    gpu.total_energy_j = lambda: 100.0
    assert measure_energy(lambda: 1, gpu, now=now) is None


def test_no_calls_is_none():
    gpu = SimulatedGpu()
    assert measure_energy(lambda: gpu.work(0.01, 300.0) or 0, gpu, now=gpu.now) is None


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("power=300", "simulated"),
        ("power=300,refuse=power", "simulated"),
        ("power=300,refuse=energy", "simulated"),
        ("power=300,refuse=power+energy", None),
        ("power=300,freeze_at=4", None),
    ],
)
def test_the_simulated_device_tells_the_same(text, source):
    timer = SimulatedTimer.from_text(f"{text},true_s=0.001")
    timer.begin_case("case", None)

    def run():
        timer.sample(lambda: None, [()] * 20)
        return 20

    idle_w = measure_idle_power(timer.sensors, now=timer.now, pause=timer.idle)
    reading = measure_energy(run, timer.sensors, now=timer.now, pause=timer.idle, idle_power_w=idle_w)
    assert (reading and reading.source) == source
    if reading is not None:
        assert reading.energy_j == pytest.approx(0.3, rel=0.02)
        assert reading.net_energy_j == pytest.approx(0.24, rel=0.03)


def energy_threads():
    return [thread for thread in threading.enumerate() if thread.name == "roofline-energy"]


def test_what_the_kernel_raises_passes_through_and_leaves_no_thread():
    class Steady(SimulatedGpu):
        power_w = total_energy_j = staticmethod(lambda: 1.0)

    def run():
        assert energy_threads()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measure_energy(run, Steady())
    assert not energy_threads()


def test_on_the_real_clock_a_thread_reads_meanwhile(monkeypatch):
    monkeypatch.setattr(energy, "FIRST_SETTLE_S", 0.02)
    monkeypatch.setattr(energy, "SETTLE_S", 0.02)

    class Steady(SimulatedGpu):
        def total_energy_j(self):
            return 250.0 * math.floor(time.perf_counter() / 0.004) * 0.004

        def power_w(self):
            return 250.0 + time.perf_counter() % 0.01

    def run():
        time.sleep(0.1)
        return 5

    reading = measure_energy(run, Steady(), windows=2, window_s=0.25)
    assert reading.power_w == pytest.approx(250.0, rel=0.1)
    assert reading.energy_j == pytest.approx(
        reading.power_w * reading.window_s * reading.window_count / reading.call_count, rel=0.01
    )
    assert dataclasses.replace(reading, cross_check_j=reading.energy_j).disagreement_ratio == 0
    assert not energy_threads()
