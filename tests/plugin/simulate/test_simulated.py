from __future__ import annotations

import itertools
import math
import statistics

import pytest

from plugin.samples.stats import correlation_time, summarize
from plugin.sensors.protocol import Sensors
from plugin.sensors.throttle import ThrottleWatch, is_capped
from plugin.simulate.simulated_device import SimulatedDevice
from plugin.simulate.simulated_noise import NoiseSeries
from plugin.simulate.simulated_sensors import SimulatedSensors
from plugin.simulate.simulated_settings import FAULTS, KINDS, SimulatedSettings
from plugin.simulate.simulated_timer import SimulatedTimer
from roofline_model.core.errors import InvalidValueError


def timer_of(text, case="case", ideal_s=None):
    timer = SimulatedTimer.from_text(text)
    timer.begin_case(case, ideal_s)
    return timer


def take(timer, count, calls=1):
    return [timer.sample(None, [()] * calls) for _ in range(count)]


def factors(text, count, case="case"):
    noise = NoiseSeries(SimulatedSettings.from_text(text), case)
    return [noise.next() for _ in range(count)]


# Settings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["noise", "noise=x", "speed=3", "noise=nan", "noise=inf", "=1", "seed=1.5", "noise=0.1;x=2"]
)
def test_bad_settings_name_the_known_ones(text):
    with pytest.raises(InvalidValueError, match=r"simulated:noise=0\.02,seed=1.*fault_share") as caught:
        SimulatedSettings.from_text(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "noise=-1",
        "efficiency=0",
        "true_s=-1",
        "true_s=0",
        "bimodal=2",
        "drift=1e300",
        "true_s=1e308",
        "correlation=1",
        "throttle_clock=2",
        "spike_share=0.5",
        "sensor_share=0",
        "state_factor=0.5",
        "slow=gemv*:0",
        "process_noise=2",
    ],
)
def test_settings_out_of_range_are_refused(text):
    with pytest.raises(InvalidValueError, match="must be from"):
        SimulatedSettings.from_text(text)


def test_words_out_of_range_name_the_known_words():
    with pytest.raises(InvalidValueError, match=f"kind must be one of {', '.join(KINDS)}"):
        SimulatedSettings.from_text("kind=gauss")
    with pytest.raises(InvalidValueError, match=f"fault must be one of {', '.join(FAULTS)}"):
        SimulatedSettings.from_text("fault=maybe")
    with pytest.raises(InvalidValueError, match=r"refuse takes some of power, energy, .* got 'colour'"):
        SimulatedSettings.from_text("refuse=power+colour")
    assert SimulatedSettings.from_text("refuse=power+energy").refuse == ("power", "energy")


def test_simulation_without_any_truth_is_refused():
    with pytest.raises(InvalidValueError, match="true_s"):
        SimulatedTimer().begin_case("x", None)


# Noise and shapes ----------------------------------------------------------------------------------------------------


def test_samples_are_deterministic_per_case_and_find_the_true_time():
    def series(case):
        return take(timer_of("noise=0.02,seed=5", case, 7e-6), 500)

    assert series("a") == series("a")
    assert series("a") != series("b")
    assert summarize(series("a")).median_s == pytest.approx(1e-5, rel=0.01)  # 7 µs at the default efficiency of 0.7


@pytest.mark.parametrize(
    "text",
    [
        "noise=0.1",
        "noise=0.1,kind=student",
        "noise=0.1,kind=spikes",
        "noise=0.1,correlation=0.5",
        "noise=0.1,correlation=0.5,slow_share=0.3",
    ],
)
def test_population_median_is_one(text):
    # 1.25 · 0.1 / √20000 ≈ 0.09 % standard error, autocorrelation makes it 1.5 times that
    assert statistics.median(factors(text, 20_000)) == pytest.approx(1.0, abs=0.005)


def test_spikes_go_up_only_and_have_their_share():
    values = factors("noise=0.01,kind=spikes,spike_share=0.1", 20_000)
    assert sum(value > 1.03 for value in values) / 20_000 == pytest.approx(0.1, abs=0.01)
    assert max(values) > 1.5
    assert min(values) > 0.94


def test_autocorrelation_is_the_one_asked_for():
    def settings_of(text):
        return statistics.median(correlation_time(factors(text, 2000, f"case {n}")) for n in range(20))

    assert settings_of("noise=0.05,correlation=0.8") == pytest.approx(6.4, rel=0.2)
    assert settings_of("noise=0.05,correlation=0.8,slow_share=0.3") == pytest.approx(2.6, rel=0.3)


def test_drift_modes_and_waves_show():
    assert factors("noise=0,drift=1", 101)[-1] == pytest.approx(2.0)
    assert set(factors("noise=0,bimodal=0.5,slow_factor=3", 50)) == {1.0, 3.0}
    assert set(factors("noise=0,bimodal=1,slow_factor=3,bimodal_run=5", 50)) == {3.0}
    wave = factors("noise=0,wave=0.1,wave_period=10", 20)
    assert wave[:10] == pytest.approx(wave[10:])
    assert max(wave) > 1.09


def test_modes_in_runs_keep_their_share_and_length():
    slow = [value > 1 for value in factors("noise=0,bimodal=0.3,slow_factor=2,bimodal_run=20", 60_000)]
    assert sum(slow) / 60_000 == pytest.approx(0.3, abs=0.04)
    changes = sum(a and not b for a, b in itertools.pairwise(slow))
    assert sum(slow) / changes == pytest.approx(20, rel=0.15)


def of_process(text, number, count=200):
    timer = SimulatedTimer(SimulatedDevice(SimulatedSettings.from_text(text)), pass_number=number)
    timer.begin_case("case", 7e-6)
    return take(timer, count)


def test_fresh_processes_draw_noise_of_their_own_and_the_first_draws_what_a_single_one_does():
    first, second = of_process("noise=0.02", 1), of_process("noise=0.02", 2)
    assert first == take(timer_of("noise=0.02", "case", 7e-6), 200)
    assert set(first).isdisjoint(second)
    assert second == of_process("noise=0.02", 2)


def test_process_noise_is_how_far_processes_differ():
    levels = [math.log(of_process("noise=0,process_noise=0.02", number, 1)[0] / 1e-5) for number in range(1, 801)]
    assert statistics.median(levels) == pytest.approx(0, abs=0.003)
    assert statistics.stdev(levels) == pytest.approx(0.02, rel=0.1)


def test_cases_can_be_made_slow_by_name():
    settings = SimulatedSettings.from_text("noise=0,true_s=1,slow=gemv 1x4096*:1.05")
    for name, ratio in (("gemv 1x4096x64-cold", 1.05), ("gemv 1x64x64-cold", 1.0), ("gemm 1x4096x64", 1.0)):
        timer = SimulatedTimer(SimulatedDevice(settings), case_name=name)
        timer.begin_case("case", None)
        assert take(timer, 1) == [pytest.approx(ratio)]
    brackets = SimulatedSettings.from_text("slow=* t[1-2]:3")
    assert (brackets.slow_ratio("op t[1-2]"), brackets.slow_ratio("op t1")) == (3.0, 1.0)


@pytest.mark.parametrize("text", ["slow=gemv", "slow=:2", "slow=gemv:fast", "slow=gemv:nan"])
def test_slow_without_case_or_size_is_no_setting(text):
    with pytest.raises(InvalidValueError, match="is not a setting"):
        SimulatedSettings.from_text(text)


# The clock ------------------------------------------------------------------------------------------------------------


def test_clock_advances_by_work_rest_and_preparation():
    timer = timer_of("noise=0,true_s=0.25,prepare=0.125")
    ran = []
    assert take(timer, 1, 4) == [pytest.approx(0.25)]
    assert timer.now() == pytest.approx(1.0)
    timer.idle(0.5)
    timer.sample(None, [()], lambda: ran.append(1))
    assert ran == [1]
    assert timer.now() == pytest.approx(1.5 + 0.125 + 0.25)


def test_launch_hides_short_kernels_until_they_are_captured():
    timer = timer_of("noise=0,true_s=2e-6,launch=5e-6")
    assert take(timer, 1, 10) == [pytest.approx(5e-6)]
    assert timer.capture(lambda x: x + 1, [(1,), (2,)]) == [2, 3]
    assert take(timer, 1, 10) == [pytest.approx(2e-6)]
    timer.begin_case("next", None)
    assert take(timer, 1, 10) == [pytest.approx(5e-6)]


def test_clock_steps_at_its_time():
    timer = timer_of("noise=0,true_s=0.1,clock=1e9,clock_step_at=1,clock_step=0.5")
    samples = []
    clocks = []
    for _ in range(12):
        samples += take(timer, 1)
        clocks.append(timer.last_clock_hz)
    assert samples[:9] == pytest.approx([0.1] * 9)
    assert samples[-1] == pytest.approx(0.2)
    assert (clocks[0], clocks[-1]) == (1e9, 5e8)


def test_clock_of_a_sample_is_cycles_over_time():
    timer = timer_of("noise=0,true_s=1,clock=1e9,clock_step_at=0.5,clock_step=0.5")
    assert take(timer, 1) == [pytest.approx(1.5)]  # half the work takes twice as long
    assert timer.last_clock_hz == pytest.approx(1e9 / 1.5)


@pytest.mark.parametrize(
    ("fault", "first"),
    [("backwards", -1.0), ("still", 0.0), ("zero", 0.0), ("infinite", float("inf")), ("jump", 3601.0)],
)
def test_faults_of_the_clock(fault, first):
    assert take(timer_of(f"noise=0,true_s=1,fault={fault}"), 1) == [first]
    some = take(timer_of(f"noise=0,true_s=1,fault={fault},fault_share=0.3"), 300)
    assert some.count(1.0) / 300 == pytest.approx(0.7, abs=0.1)


# Heat, power and sensors ---------------------------------------------------------------------------------------------


def test_a_device_without_device_settings_has_no_sensors():
    timer = timer_of("noise=0.1,true_s=1")
    assert timer.sensors is None
    take(timer, 1)
    assert timer.last_clock_hz is None


def test_hot_chip_throttles_books_the_time_and_recovers_at_rest():
    timer = timer_of("noise=0,true_s=0.1,throttle_after=0.5,throttle_clock=0.5,recover_after=0.4,clock=2e9")
    with ThrottleWatch(timer.sensors, timer.idle) as watch:
        samples = take(timer, 10)
    assert samples[:5] == pytest.approx([0.1] * 5)
    assert samples[6:] == pytest.approx([0.2] * 4)
    assert timer.last_clock_hz == pytest.approx(1e9)
    assert watch.throttled_s == {"software thermal": pytest.approx(1.0)}  # five samples of 0.2 s, in steps of 0.1 s
    assert is_capped(watch.throttled_s, timer.last_clock_hz, timer.sensors.rated_clock_hz())
    timer.idle(0.1)
    assert take(timer, 1) == [pytest.approx(0.2)]  # not yet half-way
    timer.idle(0.4)
    with ThrottleWatch(timer.sensors, timer.idle) as watch:
        assert take(timer, 1) == [pytest.approx(0.1)]
    assert watch.throttled_s == {}


def test_throttle_counter_moves_in_whole_steps():
    device = SimulatedDevice(SimulatedSettings(throttle_after=1e-6, throttle_clock=1.0, read_cost=0.0))
    sensors = SimulatedSensors(device)
    device.work(0.0999)
    assert sensors.throttle_s() == {"software thermal": 0.0}
    device.work(0.0502)
    assert sensors.throttle_s() == {"software thermal": pytest.approx(0.1)}


def test_timers_share_a_device_as_cases_share_a_chip():
    settings = SimulatedSettings.from_text("noise=0,true_s=0.1,throttle_after=0.3,throttle_clock=0.5")
    device = SimulatedDevice(settings)
    first, second = SimulatedTimer(device), SimulatedTimer(device)
    first.begin_case("a", None)
    second.begin_case("b", None)
    take(first, 4)
    assert take(second, 1) == [pytest.approx(0.2)]
    assert second.now() == first.now()


def test_power_reading_changes_with_its_period_and_covers_its_share():
    device = SimulatedDevice(
        SimulatedSettings(power=200.0, idle_power=50.0, sensor_period=0.1, sensor_share=0.25, read_cost=0.0)
    )
    sensors = SimulatedSensors(device)
    device.rest(0.1)
    device.work(0.08)
    assert sensors.power_w() == pytest.approx(50.0)  # the period before was rest
    device.rest(0.0201)
    # Only the last quarter of [0.1, 0.2] is covered: 5 of its 25 ms were work
    assert sensors.power_w() == pytest.approx(50 + 150 * 5 / 25, rel=0.01)
    first = sensors.power_w()
    device.work(0.05)
    assert sensors.power_w() == first


def test_energy_counter_steps_and_adds_up():
    device = SimulatedDevice(SimulatedSettings(power=200.0, idle_power=50.0, energy_step=0.1, read_cost=0.0))
    sensors = SimulatedSensors(device)
    device.work(0.05)
    assert sensors.total_energy_j() == 0.0
    device.work(0.07)
    assert sensors.total_energy_j() == pytest.approx(20.0, abs=0.002)
    device.rest(0.9)
    assert sensors.total_energy_j() == pytest.approx(0.12 * 200 + 0.88 * 50, abs=0.01)


def test_energy_is_remembered_through_many_short_kernels():
    device = SimulatedDevice(SimulatedSettings(power=100.0, idle_power=0.0, read_cost=0.0))
    for _ in range(50_000):
        device.work(1e-5)
    assert device.now_s == pytest.approx(0.5)
    assert SimulatedSensors(device).total_energy_j() == pytest.approx(50.0, rel=1e-3)
    assert SimulatedSensors(device).power_w() == pytest.approx(100.0, rel=1e-6)


def test_slow_state_shows_in_time_and_power_only():
    timer = timer_of(
        "noise=0,true_s=0.1,power=300,idle_power=60,state_at=1,state_until=3,state_power=0.5,throttle_after=1e6"
    )
    healthy = take(timer, 9)
    watts = timer.sensors.power_w()
    before = timer.sensors.throttle_s()
    timer.idle(0.15)
    slow = take(timer, 3)
    assert slow == pytest.approx([0.33] * 3)
    assert healthy == pytest.approx([0.1] * 9)
    assert timer.sensors.sm_clock_hz() == timer.sensors.rated_clock_hz()
    assert timer.sensors.throttle_s() == before
    assert timer.sensors.power_w() == pytest.approx(60 + 0.5 * 240)
    assert watts == pytest.approx(300)
    timer.idle(2.0)
    assert take(timer, 1) == [pytest.approx(0.1)]


def test_frozen_sensors_repeat_themselves_and_refused_ones_say_nothing():
    timer = timer_of("noise=0,true_s=0.5,power=300,freeze_at=2,refuse=memory+memory_clock,sensor_period=0.1")
    take(timer, 2)
    seen = timer.sensors.power_w(), timer.sensors.total_energy_j()
    take(timer, 10)
    timer.idle(5.0)
    assert (timer.sensors.power_w(), timer.sensors.total_energy_j()) == seen
    assert timer.sensors.memory_used_bytes() is None
    assert timer.sensors.memory_clock_hz() is None
    assert timer.sensors.temperature_c() == 40.0


@pytest.mark.parametrize(
    "name", [name for name in vars(Sensors) if not name.startswith("_") and callable(vars(Sensors)[name])]
)
def test_every_sensor_answers_and_costs_device_time(name):
    timer = timer_of("true_s=1e-3,power=200,read_cost=0.001")
    take(timer, 300)
    before = timer.now()
    assert getattr(timer.sensors, name)() is not None
    assert timer.now() == pytest.approx(before + 0.001)


def test_utilization_and_temperature_follow_the_work():
    timer = timer_of("noise=0,true_s=0.1,power=300,throttle_after=10,recover_after=1")
    take(timer, 50)
    assert timer.sensors.utilization_ratio() == pytest.approx(1.0)
    assert timer.sensors.temperature_c() == pytest.approx(65.0, abs=0.1)
    timer.idle(2.0)
    assert timer.sensors.utilization_ratio() == pytest.approx(0.0, abs=1e-9)
    assert timer.sensors.temperature_c() == 40.0


@pytest.mark.parametrize("true_s", [1e-12, 1e-9, 30.0, 1e4])
def test_a_nanosecond_and_an_hour_are_exact(true_s):
    timer = timer_of(
        f"noise=0,true_s={true_s},throttle_after=0.5,throttle_clock=0.5,power=100,clock_step_at=0.3,clock_step=1"
    )
    assert take(timer, 1)[0] == pytest.approx(true_s if true_s < 0.5 else 2 * true_s - 0.5)
