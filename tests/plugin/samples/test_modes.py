"""Cold, flushed, warm, graph, burst and sustained: what each mode does to the calls, on a clock that is told what to
say.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from plugin.run.runner import BURST_S, run_interleaved
from plugin.samples.correctness import WrongResultError
from plugin.samples.kernel_call import KernelCall
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import BURST_REST_S, MedianInterval
from roofline_model.core.errors import UnsupportedError


class GraphTimer:
    """Wraps the fake timer: captures calls by running them once, and replays them on the same memory."""

    def __init__(self, timer, drops=()):
        self.timer, self.drops = timer, drops
        self.captured = []
        self.replays = 0

    def __getattr__(self, name):
        return getattr(self.timer, name)

    def capture(self, kernel, schedule):
        outputs = [kernel(*args) for args in schedule]
        self.captured = [(kernel, args, output) for args, output in zip(schedule, outputs, strict=True)]
        return outputs

    def sample(self, kernel, schedule, prepare=None):
        if not self.captured:
            return self.timer.sample(kernel, schedule, prepare)
        self.replays += 1
        begin = self.timer.clock_s
        for index, (captured, args, output) in enumerate(self.captured):
            fresh = captured(*args)
            if index not in self.drops and output is not None:
                output[...] = fresh
        return (self.timer.clock_s - begin) / len(self.captured)


def measured(timer, kernel, plan, make_args=lambda i: (), can_rotate=False, **more):
    call = KernelCall(kernel, make_args, can_rotate, **more)
    return run_interleaved({"": (call, timer, MedianInterval(max_seconds=30.0))}, plan)[""]


def doubling(fake_timer, seconds=0.5):
    def kernel(x):
        fake_timer.spend(seconds)
        return 2 * x

    return kernel


def arrays(index):
    return (np.full(128, 3.0),)  # 1 KiB, equal data, distinct memory


def test_a_flush_stands_before_every_single_call(fake_timer):
    fake_timer.min_sample_s = 1.0
    flushes = []
    plan = MeasurePlan(cache="flushed", flush=lambda: flushes.append(fake_timer.spend(5.0)))
    timing = measured(fake_timer, lambda: fake_timer.spend(1e-3), plan)
    assert timing.measurement.calls_per_sample == 1
    assert timing.measurement.median_s == pytest.approx(1e-3)  # the flush is never in it
    assert len(flushes) == timing.measurement.sample_count + timing.measurement.warmup_calls


def test_cold_samples_hold_whole_turns_of_the_rotation(fake_timer):
    fake_timer.min_sample_s = 12.0
    plan = MeasurePlan(cache="cold", cache_bytes=5 * 1024)
    timing = measured(fake_timer, doubling(fake_timer, 1.0), plan, arrays, True)
    assert len(timing.rotation.sets) == 10
    assert timing.measurement.calls_per_sample == 20  # 12 calls would be enough; two turns of ten


def test_a_graph_holds_whole_turns_and_is_checked_with_poison(fake_timer):
    timer = GraphTimer(fake_timer)
    plan = MeasurePlan(cache="cold", mode="graph", cache_bytes=2 * 1024)
    timing = measured(timer, doubling(fake_timer), plan, arrays, True, reference=np.full(128, 6.0))
    assert len(timer.captured) == timing.measurement.calls_per_sample == 4
    assert timer.replays == timing.measurement.sample_count + 2  # the upload before, the checked one after
    assert timing.measurement.max_error == 0.0
    assert timing.graph_schedule is not None


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_a_kernel_missing_from_the_graph_is_found(fake_timer, missing):
    timer = GraphTimer(fake_timer, drops=(missing,))
    plan = MeasurePlan(cache="cold", mode="graph", cache_bytes=2 * 1024)
    with pytest.raises(
        WrongResultError, match=rf"graph replay {missing}( has written nothing|: the call did not write its output)"
    ):
        measured(timer, doubling(fake_timer), plan, arrays, True, reference=np.full(128, 6.0))


def test_a_timer_without_graphs_says_so(fake_timer):
    with pytest.raises(UnsupportedError, match="cannot replay graphs"):
        measured(fake_timer, lambda: fake_timer.spend(1.0), MeasurePlan(mode="graph"))


def test_a_burst_rests_before_every_sample_and_stays_short(fake_timer):
    fake_timer.min_sample_s = 1.0
    timing = measured(fake_timer, lambda: fake_timer.spend(1e-3), MeasurePlan(mode="burst"))
    rests = [event for event in fake_timer.events if event == ("idle", BURST_REST_S)]
    assert len(rests) == timing.measurement.sample_count
    assert timing.measurement.calls_per_sample * timing.measurement.median_s <= BURST_S


def test_a_short_kernel_is_woken_after_the_rest(fake_timer):
    fake_timer.min_sample_s = 1e-4
    timing = measured(fake_timer, lambda: fake_timer.spend(1e-5), MeasurePlan(mode="burst"))
    events = fake_timer.events[fake_timer.events.index(("idle", BURST_REST_S)) :]
    kinds = ["idle" if event[0] == "idle" else event[0] for event in events if isinstance(event, tuple)]
    assert kinds[:6] == ["idle", "sample", "sample", "idle", "sample", "sample"]
    assert timing.measurement.median_s == pytest.approx(1e-5)


def test_sustained_is_flagged_when_the_machine_never_settles(fake_timer):
    began = fake_timer.clock_s

    def kernel():
        fake_timer.spend(0.001 * math.exp(0.3 * (fake_timer.clock_s - began)))

    timing = measured(fake_timer, kernel, MeasurePlan(mode="sustained"))
    assert "not-steady" in timing.measurement.flags
