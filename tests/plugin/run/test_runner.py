from __future__ import annotations

import numpy as np
import pytest

from plugin.run.runner import run_interleaved
from plugin.samples.correctness import WrongResultError
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MedianInterval
from plugin.simulate.simulated_timer import SimulatedTimer
from roofline_model.core.errors import InvalidValueError, UnsupportedError


def call(kernel, make_args=lambda i: (), can_rotate=False, **more):
    return KernelCall(kernel, make_args, can_rotate, **more)


def run(kernel_call, timer, plan=None, sensors=None, **rule):
    rule = MedianInterval(**{"max_seconds": 5.0, **rule})
    return run_interleaved({"": (kernel_call, timer, rule)}, plan or MeasurePlan(), sensors)[""]


def cold(cache_bytes, **more):
    return MeasurePlan(cache="cold", cache_bytes=cache_bytes, **more)


def test_set_up_is_never_timed_and_the_first_call_is_apart(fake_timer):
    calls = {"n": 0}

    def kernel():
        calls["n"] += 1
        fake_timer.spend(100.0 if calls["n"] == 1 else 0.25)

    timing = run(call(kernel, setup=lambda: fake_timer.spend(1000.0)), fake_timer, max_seconds=60)
    assert set(timing.measurement.samples_s) == {0.25}
    assert timing.measurement.warmup_calls >= 3
    assert timing.measurement.stop_reason == "converged"


def test_warm_up_is_not_among_the_samples(fake_timer):
    calls = {"n": 0}

    def kernel():
        calls["n"] += 1
        fake_timer.spend(0.25 if calls["n"] <= 4 else 0.125)

    timing = run(call(kernel), fake_timer, max_seconds=20)
    assert set(timing.measurement.samples_s) == {0.125}


def test_a_kernel_of_half_a_minute_is_called_once_before_its_samples(fake_timer):
    timing = run(call(lambda: fake_timer.spend(30.0)), fake_timer, max_seconds=0.7)
    assert (timing.measurement.warmup_calls, timing.measurement.sample_count, timing.measurement.stop_reason) == (
        1,
        3,
        "budget",
    )


def test_wrong_result_is_never_timed(fake_timer):
    with pytest.raises(WrongResultError, match="before timing: relative error"):
        run(call(lambda: np.array([1.0, 2.0]), reference=np.array([1.0, 3.0])), fake_timer)
    assert not [event for event in fake_timer.events if isinstance(event, tuple)]


def test_kernel_that_becomes_wrong_while_timed_is_caught(fake_timer):
    calls = {"n": 0}

    def kernel():
        calls["n"] += 1
        fake_timer.spend(1.0)
        return np.array([1.0 if calls["n"] < 5 else 7.0])

    with pytest.raises(WrongResultError, match="relative error"):
        run(call(kernel, reference=np.array([1.0])), fake_timer, max_seconds=8)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_never_pass(fake_timer, bad):
    with pytest.raises(WrongResultError, match="NaN or Inf"):
        run(call(lambda: np.array([bad]), check=lambda out: float(out[0])), fake_timer)


def test_mutated_argument_is_restored_for_every_check(fake_timer):
    accumulator = np.zeros(2)

    def kernel(out):
        fake_timer.spend(1.0)
        out += 1.0
        return out

    with pytest.raises(WrongResultError, match="all numbers are"):
        run(call(kernel, lambda i: (accumulator,), reference=np.ones(2)), fake_timer, max_seconds=5)
    accumulator[:] = 0.0
    timing = run(call(kernel, lambda i: (accumulator,), reference=np.ones(2), mutates=(0,)), fake_timer, max_seconds=5)
    assert timing.measurement.max_error == 0.0
    assert accumulator.tolist() == [0.0, 0.0]


def test_set_up_resets_what_a_kernel_changes(fake_timer):
    accumulator = np.zeros(2)

    def kernel(out):
        fake_timer.spend(1.0)
        out += 1.0
        return out

    timing = run(
        call(kernel, lambda i: (accumulator,), reference=np.ones(2), mutates=(0,), setup=lambda: accumulator.fill(0.0)),
        fake_timer,
        max_seconds=5,
    )
    assert timing.measurement.max_error == 0.0


def test_mutates_outside_the_arguments_is_named(fake_timer):
    with pytest.raises(InvalidValueError, match="argument 3"):
        run(call(lambda x: x, lambda i: (np.zeros(1),), mutates=(3,)), fake_timer)


def test_cold_goes_round_enough_sets(fake_timer):
    seen = []

    def kernel(array):
        seen.append(array[0])
        fake_timer.spend(0.0625)

    def make_args(index):
        return (np.full(128, float(index)),)  # 1 KiB each

    timing = run(call(kernel, make_args, can_rotate=True), fake_timer, cold(5 * 1024), max_seconds=30)
    assert len(timing.rotation.sets) == 10  # 2 × 5 KiB / 1 KiB
    assert timing.rotation.defeats(5 * 1024)
    assert "cold-unproven" not in timing.measurement.flags
    body = seen[1:]  # after the first, checked call
    assert [int(value) for value in body[:20]] == [i % 10 for i in range(20)]


def test_fixed_arguments_are_never_called_cold(fake_timer):
    with pytest.raises(UnsupportedError, match=r"1 set of operands .* cannot be cold"):
        run(call(lambda: fake_timer.spend(1.0)), fake_timer, cold(1024))


def test_sets_that_share_memory_are_no_rotation(fake_timer):
    shared = np.zeros(128)
    with pytest.raises(InvalidValueError, match=r"10 sets of operands .* share memory"):
        run(call(lambda x: fake_timer.spend(1.0), lambda i: (shared,), can_rotate=True), fake_timer, cold(5 * 1024))


def test_cold_with_an_unknown_cache_is_said(fake_timer):
    kernel = call(lambda x: fake_timer.spend(1.0), lambda i: (np.zeros(128),), can_rotate=True)
    assert "cold-unproven" in run(kernel, fake_timer, cold(None), max_seconds=20).measurement.flags


def test_short_kernels_share_a_sample(fake_timer):
    fake_timer.min_sample_s = 1.0
    timing = run(call(lambda: fake_timer.spend(1 / 128)), fake_timer, max_seconds=30)
    assert timing.measurement.calls_per_sample == 128
    assert timing.measurement.median_s == pytest.approx(1 / 128)


def test_backwards_clock_gives_a_clear_error_and_ends(fake_timer):
    with pytest.raises(UnsupportedError, match="zero, negative or infinite"):
        run(call(lambda: fake_timer.spend(-1.0)), fake_timer)


def test_clock_that_stands_still_ends_too(fake_timer):
    with pytest.raises(UnsupportedError, match="0 of 21"):
        run(call(lambda: None), fake_timer)


def test_slow_kernel_gets_three_samples(fake_timer):
    timing = run(call(lambda: fake_timer.spend(30.0)), fake_timer, max_seconds=1.0)
    assert (timing.measurement.sample_count, timing.measurement.stop_reason) == (3, "budget")
    assert timing.measurement.ci_low_s is None
    assert "few-samples" in timing.measurement.flags
    assert "noisy" not in timing.measurement.flags  # nothing is known of its interval


def test_simulated_device_runs_the_kernel_only_to_check_it():
    calls = {"n": 0}

    def kernel():
        calls["n"] += 1
        return np.array([1.0])

    timer = SimulatedTimer.from_text("true_s=0.001,noise=0.005")
    timer.begin_case("k", None)
    timing = run(call(kernel, reference=np.array([1.0])), timer)
    assert calls["n"] == 2
    assert timing.measurement.median_s == pytest.approx(0.001, rel=0.01)


def test_interleaved_kernels_take_turns(fake_timer):
    order = []

    def make(name, seconds):
        def kernel():
            order.append(name)
            fake_timer.spend(seconds)

        return kernel

    rule = lambda: MedianInterval(max_seconds=1e9)  # noqa: E731
    measured = run_interleaved(
        {"a": (call(make("a", 1.0)), fake_timer, rule()), "b": (call(make("b", 3.0)), fake_timer, rule())},
        MeasurePlan(),
    )
    assert measured["b"].measurement.median_s / measured["a"].measurement.median_s == pytest.approx(3.0)
    assert order[-24:] == ["a", "b"] * 12  # twelve samples of each, in turn
