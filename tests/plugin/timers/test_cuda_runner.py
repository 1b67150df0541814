"""The runner with the CUDA timers on a simulated device: every mode and cache state, and a graph that lost its
kernel.
"""

from __future__ import annotations

from functools import partial

import fake_cuda
import numpy as np
import pytest

from plugin.run.runner import run_interleaved
from plugin.samples.correctness import WrongResultError
from plugin.samples.kernel_call import make_kernel_call
from plugin.samples.plan import MeasurePlan
from plugin.samples.series import MedianInterval
from plugin.timers.cuda import CudaEventTimer
from plugin.timers.cuda_graph import CudaGraphTimer

KERNEL_S = 3e-6
CACHE_BYTES = 64 * 1024.0


def doubled(cuda, array, is_lost=False):
    """A kernel of 3 µs whose launch costs more than itself; a lost one computes eagerly and is absent from a graph."""
    output = np.zeros_like(array)
    compute = partial(np.multiply, array, 2.0, out=output)
    if is_lost:
        compute()
        cuda.launch(KERNEL_S)
    else:
        cuda.launch(KERNEL_S, run=compute)
        if cuda.current_stream().graph is not None:
            output[...] = -1.0  # captured, not run: the memory holds anything
    return output


def measured(kind, *, mode="eager", cache="cold", is_lost=False, flush_s=None):
    torch = fake_cuda.fake_torch(launch_s=7e-6, loaded={"kernel", "graph", "flush"})
    cuda = torch.cuda
    timer = kind(torch, cuda.max_clock_hz, host_clock=cuda.now, sleep=cuda.sleep)
    call = make_kernel_call(
        lambda array: doubled(cuda, array, is_lost),
        args=None,
        make_args=lambda _: (np.arange(4096.0),),
        reference=lambda array: array * 2.0,
        tolerance=1e-9,
    )
    flush = None if flush_s is None else lambda: cuda.launch(flush_s, "flush")
    plan = MeasurePlan(cache=cache, mode=mode, cache_bytes=CACHE_BYTES, free_bytes=1e12, flush=flush)
    rule = MedianInterval(max_seconds=0.02)
    return run_interleaved({"": (call, timer, rule)}, plan)[""], timer, cuda


def test_eager_and_cold():
    timing, timer, cuda = measured(CudaEventTimer)
    assert timing.measurement.median_s == pytest.approx(KERNEL_S + cuda.kernel_gap_s, rel=0.02)
    assert len(timing.rotation.sets) == 4  # 32 KiB each against twice 64 KiB
    assert timing.measurement.calls_per_sample % 4 == 0
    assert timing.measurement.clocks_hz
    assert all(clock == pytest.approx(1.6e9, rel=0.02) for clock in timing.measurement.clocks_hz)
    assert timer.unqueued_count == 0
    assert timing.issue_s == pytest.approx(7e-6)  # the launch, which is not in the time


def test_flushed_calls_are_timed_without_their_flush():
    timing, _, cuda = measured(CudaEventTimer, cache="flushed", flush_s=400e-6)
    assert timing.measurement.calls_per_sample == 1
    assert timing.measurement.median_s < KERNEL_S + cuda.kernel_gap_s + 2 * cuda.step_s
    assert cuda.log.count("flush") >= len(timing.measurement.samples_s)


def test_burst_rests_between_samples():
    timing, _, cuda = measured(CudaEventTimer, mode="burst")
    assert sum(1 for entry in cuda.log if isinstance(entry, tuple) and entry[0] == "idle") >= len(
        timing.measurement.samples_s
    )


def test_graph_replays_whole_turns_and_is_no_slower_than_eager():
    graph, _, cuda = measured(CudaGraphTimer, mode="graph")
    eager, _, _ = measured(CudaEventTimer)
    assert graph.measurement.calls_per_sample % len(graph.rotation.sets) == 0
    assert graph.measurement.median_s == pytest.approx(KERNEL_S + cuda.kernel_gap_s / 2, rel=0.02)
    assert graph.measurement.median_s <= eager.measurement.median_s
    assert graph.issue_s == pytest.approx(7e-6 / graph.measurement.calls_per_sample)  # one launch for all of them
    assert graph.measurement.max_error == 0


def test_a_kernel_that_is_missing_from_the_graph_is_found():
    with pytest.raises(WrongResultError, match="in graph replay"):
        measured(CudaGraphTimer, mode="graph", is_lost=True)
