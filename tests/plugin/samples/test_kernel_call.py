"""Slips of a kernel author are named in one line; kernels that write to their arguments are checked all the same."""

from __future__ import annotations

import numpy as np
import pytest

from plugin.run.runner import run_interleaved
from plugin.samples.correctness import WrongResultError
from plugin.samples.kernel_call import make_kernel_call
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MedianInterval
from roofline_model.core.errors import InvalidValueError


def nothing():
    return None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"args": np.ones(3)}, r"args must give a tuple of arguments, got ndarray; for one argument write \(x,\)"),
        ({"args": (1,), "make_args": lambda i: (1,)}, "give either args= .* or make_args="),
        ({"make_args": (1,)}, "make_args must be a function of the set's number, got tuple; use args="),
        ({"mutates": 0}, r"mutates must be positions of arguments such as \(0,\), got 0"),
        ({"mutates": ("x",)}, "mutates must be positions"),
    ],
)
def test_slips_are_named(given, message):
    with pytest.raises(InvalidValueError, match=message):
        make_kernel_call(nothing, **{"args": None, "make_args": None, **given})


def test_a_set_that_is_no_tuple_is_named_when_it_is_made():
    call = make_kernel_call(nothing, args=None, make_args=lambda i: np.ones((4, 4)))
    with pytest.raises(InvalidValueError, match="make_args"):
        call.make_args(0)


def test_something_not_callable_is_no_kernel():
    with pytest.raises(InvalidValueError, match="the kernel must be callable, got int"):
        make_kernel_call(3, args=(), make_args=None)


def measured(timer, fn, **given):
    call = make_kernel_call(fn, **{"args": None, "make_args": None, **given})
    rule = MedianInterval(max_samples=4, min_samples=2)
    return run_interleaved({"": (call, timer, rule)}, MeasurePlan())[""]


def incrementing(timer, returns):
    def kernel(x):
        timer.spend(0.01)
        x += 1
        return x if returns else None

    return kernel


@pytest.mark.parametrize("returns", [True, False])
def test_a_kernel_in_place_is_checked_on_fresh_input_before_and_after(fake_timer, returns):
    x = np.ones(8)
    timing = measured(
        fake_timer, incrementing(fake_timer, returns), args=(x,), mutates=(0,), reference=2 * np.ones(8), tolerance=0
    )
    assert timing.measurement.max_error == 0
    assert (x == 1).all()  # given back as it was


def test_a_kernel_that_returns_nothing_cannot_be_checked(fake_timer):
    with pytest.raises(WrongResultError, match="mutates="):
        measured(fake_timer, lambda x: fake_timer.spend(0.01), args=(np.ones(8),), reference=np.ones(8))


def test_writing_in_secret_is_found_after_timing_with_a_hint(fake_timer):
    with pytest.raises(WrongResultError, match="give their positions in mutates="):
        measured(fake_timer, incrementing(fake_timer, True), args=(np.ones(8),), reference=2 * np.ones(8))


def test_a_kernel_that_leaves_its_arguments_alone_is_not_asked_about_them(fake_timer):
    calls = []

    def kernel(x):
        fake_timer.spend(0.01)
        calls.append(1)
        return x + len(calls)

    with pytest.raises(WrongResultError) as failure:
        measured(fake_timer, kernel, args=(np.ones(8),), reference=2 * np.ones(8))
    assert "mutates" not in str(failure.value)


def test_a_call_that_returns_its_old_buffer_unwritten_is_called_that(fake_timer):
    buffers = []

    def kernel(x):
        fake_timer.spend(0.01)
        buffers[:] = buffers or [2 * x]
        return buffers[0]

    fake_timer.last_output = buffers
    with pytest.raises(WrongResultError, match="the call did not write its output: it returned an old buffer"):
        measured(fake_timer, kernel, args=(np.ones(8),), reference=2 * np.ones(8))


def test_another_shape_is_said_in_numbers(fake_timer):
    def kernel(x):
        fake_timer.spend(0.01)
        return x.sum(axis=0)

    with pytest.raises(WrongResultError, match="the output has shape 3, the reference has 2×3"):
        measured(fake_timer, kernel, args=(np.ones((2, 3)),), reference=np.ones((2, 3)))


def test_the_second_of_two_kernels_gets_the_arguments_as_they_were(fake_timer):
    x = np.ones(8)
    calls = {
        name: make_kernel_call(
            incrementing(fake_timer, True),
            args=(x,),
            make_args=None,
            mutates=(0,),
            reference=2 * np.ones(8),
            tolerance=0,
            label=name,
        )
        for name in ("first", "second")
    }
    rules = {name: MedianInterval(max_samples=4, min_samples=2) for name in calls}
    timings = run_interleaved({name: (call, fake_timer, rules[name]) for name, call in calls.items()}, MeasurePlan())
    assert {name: timing.measurement.max_error for name, timing in timings.items()} == {"first": 0, "second": 0}


def test_the_wrong_one_of_two_kernels_is_named(fake_timer):
    def kernel(step):
        def added(x):
            fake_timer.spend(0.01)
            return x + step

        return added

    calls = {
        name: make_kernel_call(kernel(step), args=(np.ones(8),), make_args=None, reference=2 * np.ones(8), label=name)
        for name, step in {"good": 1, "bad": 2}.items()
    }
    contestants = {name: (call, fake_timer, MedianInterval()) for name, call in calls.items()}
    with pytest.raises(WrongResultError, match=r"bad: before timing: all numbers are 1\.5 times"):
        run_interleaved(contestants, MeasurePlan())
