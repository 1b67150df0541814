from __future__ import annotations

import math

import pytest

from plugin import timers
from plugin.stats import summarize
from plugin.timers import MonotonicTimer, ReplayTimer, SimulatedTimer
from roofline_model.errors import InvalidValueError, UnsupportedError


def test_monotonic_timer_times_the_calls_and_nothing_else(monkeypatch):
    clock = {"ns": 0}
    monkeypatch.setattr(timers.time, "perf_counter_ns", lambda: clock["ns"])

    def kernel(_):
        clock["ns"] += 400

    assert MonotonicTimer().sample(kernel, [(0,)] * 5) == pytest.approx(400e-9, rel=1e-12)


def test_simulated_timer_is_deterministic_per_case_and_finds_its_true_time():
    def series(case):
        timer = SimulatedTimer.from_text("noise=0.02,seed=5")
        timer.begin_case(case, 7e-6)
        return [timer.sample(None, [()]) for _ in range(500)]

    assert series("a") == series("a")
    assert series("a") != series("b")
    assert summarize(series("a")).median_s == pytest.approx(1e-5, rel=0.01)  # 7 µs at the default efficiency of 0.7


def test_simulated_drift_and_second_mode_show():
    drifting = SimulatedTimer.from_text("noise=0,drift=1,true_s=1")
    drifting.begin_case("x", None)
    assert [drifting.sample(None, [()]) for _ in range(101)][-1] == pytest.approx(2.0)
    bimodal = SimulatedTimer.from_text("noise=0,bimodal=0.5,slow_factor=3,true_s=1")
    bimodal.begin_case("x", None)
    assert {bimodal.sample(None, [()]) for _ in range(50)} == {1.0, 3.0}


def test_simulated_clock_advances_by_what_was_returned():
    timer = SimulatedTimer.from_text("noise=0,true_s=0.25")
    timer.begin_case("x", None)
    timer.sample(None, [()] * 4)
    assert timer.now() == pytest.approx(1.0)


@pytest.mark.parametrize("text", ["noise", "noise=x", "speed=3", "noise=nan", "=1"])
def test_bad_settings_name_the_known_ones(text):
    with pytest.raises(InvalidValueError, match="efficiency, noise"):
        SimulatedTimer.from_text(text)


@pytest.mark.parametrize(
    "text", ["noise=-1", "efficiency=0", "true_s=-1", "true_s=0", "bimodal=2", "drift=1e300", "true_s=1e308"]
)
def test_settings_out_of_range_are_refused(text):
    with pytest.raises(InvalidValueError, match="must be from"):
        SimulatedTimer.from_text(text)


def test_simulation_without_any_truth_is_refused():
    with pytest.raises(InvalidValueError, match="true_s"):
        SimulatedTimer().begin_case("x", None)


def test_replay_gives_back_the_samples_and_then_ends():
    timer = ReplayTimer({"k": (0.5, 0.25)}, "run.json")
    timer.begin_case("k", None)
    assert [timer.sample(None, [()]), timer.sample(None, [()])] == [0.5, 0.25]
    with pytest.raises(StopIteration):
        timer.sample(None, [()])
    with pytest.raises(UnsupportedError, match=r"run\.json holds no samples of this case"):
        timer.begin_case("p", None)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"records": [{"measurement": {"samples_s": [1]}}]}'])
def test_replay_of_something_else_is_refused(tmp_path, content):
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(InvalidValueError, match=r"replay: .*x\.json"):
        ReplayTimer.from_file(file)


def test_every_timer_states_its_name_and_whether_it_runs_the_kernel():
    assert (MonotonicTimer().name, MonotonicTimer().runs_kernel) == ("monotonic", True)
    assert (SimulatedTimer().name, SimulatedTimer().runs_kernel) == ("simulated", False)
    assert math.isfinite(MonotonicTimer().min_sample_s)
