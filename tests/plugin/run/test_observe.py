"""`observe`: what belongs to a kernel of a comparison, and what to all of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from plugin.run.observe import observe, with_attribution
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MedianInterval
from plugin.simulate.simulated_timer import SimulatedTimer

INSTRUMENTS = SimpleNamespace(
    sensors=None,
    make_rule=lambda mode, share: MedianInterval(max_seconds=0.5, max_samples=30),
    watched_device=lambda timer: None,
)


def observed(**settings):
    """Kernels side by side, each on a simulated device of its own; the sensors are those of the first."""
    kernels = {}
    for name, text in settings.items():
        timer = SimulatedTimer.from_text(f"true_s=1e-3,noise=0,{text}")
        timer.begin_case(name, None)
        kernels[name] = (KernelCall(lambda: None, lambda index: (), can_rotate=False), timer)
    return observe("case", kernels, MeasurePlan(), INSTRUMENTS)


def test_each_kernel_of_a_comparison_has_the_clock_of_its_own_samples():
    kernels = observed(slowed="throttle_after=0.001,throttle_clock=0.5", steady="throttle_after=1e6")
    slowed, steady = kernels["slowed"].measurement, kernels["steady"].measurement
    assert slowed.sm_clock_hz == min(slowed.clocks_hz)
    assert steady.sm_clock_hz == max(steady.clocks_hz) == steady.state.rated_clock_hz
    assert slowed.sm_clock_hz < 0.9 * steady.sm_clock_hz
    # Held down is the one whose clock was low, though the sensors are read beside both.
    assert ("capped" in slowed.flags, "capped" in steady.flags) == (True, False)
    assert slowed.state.retry_count == steady.state.retry_count > 0


def test_kernels_that_cannot_be_traced_cost_no_time(monkeypatch):
    """What was timed stays; seen on an H200 where another profiler held CUPTI, and every case was skipped."""
    monkeypatch.setitem(sys.modules, "cupti", None)
    timed = observed(kernel="")["kernel"]
    call = KernelCall(lambda: None, lambda index: (), can_rotate=False)
    with pytest.warns(UserWarning, match="needs cupti-python"):
        untraced = with_attribution(timed, call, SimulatedTimer.from_text("true_s=1e-3"), MeasurePlan())
    flags = (*timed.measurement.flags, "not-attributed")
    assert untraced == replace(timed, measurement=replace(timed.measurement, flags=flags))
    assert untraced.measurement.attribution is None
