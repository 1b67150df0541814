"""Graph mode on a simulated device: what is captured and replayed, and what is left behind by a capture that fails."""

from __future__ import annotations

import gc

import fake_cuda
import pytest

from plugin.timers.cuda import CudaEventTimer
from plugin.timers.cuda_graph import WARMUP_CALLS, CudaGraphTimer
from roofline_model.core.errors import InvalidValueError, UnsupportedError


def timer_with(kind=CudaGraphTimer, **settings):
    torch = fake_cuda.fake_torch(loaded={"kernel", "graph"}, **settings)
    return kind(torch, torch.cuda.max_clock_hz, host_clock=torch.cuda.now, sleep=torch.cuda.sleep), torch.cuda


def turns(sets, count):
    """`count` turns over `sets` argument tuples, each the same object in every turn, as a rotation gives them."""
    distinct = [(index,) for index in range(sets)]
    return [args for _ in range(count) for args in distinct]


def test_a_replay_is_the_device_time_of_all_its_calls():
    timer, cuda = timer_with(launch_s=9e-6)
    schedule = turns(4, 25)
    outputs = timer.capture(lambda i: cuda.launch(3e-6) or f"out{i}", schedule)
    assert outputs == [f"out{i}" for (i,) in schedule]
    value = timer.sample(None, schedule)  # the kernel is not asked any more
    assert value == pytest.approx(3e-6 + cuda.kernel_gap_s / 2, rel=0.02)
    eager, cuda = timer_with(CudaEventTimer, launch_s=9e-6)
    assert value <= eager.sample(lambda i: cuda.launch(3e-6), schedule)  # graph ≤ hot


def test_the_graph_holds_exactly_the_schedule_after_a_warm_up_on_its_stream():
    timer, cuda = timer_with()
    schedule = turns(2, 3)
    streams = []
    timer.capture(lambda i: streams.append(cuda.current_stream()) or cuda.launch(1e-6), schedule)
    assert len(timer._graph.nodes) == len(schedule)
    assert len(streams) == WARMUP_CALLS + len(schedule)
    assert len(set(map(id, streams))) == 1
    assert streams[0] is not cuda.current_stream()
    assert "graph" in cuda.log  # replayed once: the upload is no sample


def test_before_the_capture_calls_are_timed_eagerly():
    timer, cuda = timer_with(launch_s=5e-6)
    value = timer.sample(lambda i: cuda.launch(20e-6), turns(1, 10))
    assert value == pytest.approx(21e-6, rel=0.02)
    assert "graph" not in cuda.log


@pytest.mark.parametrize("schedule", [[], turns(4, 1) + turns(4, 1)[:2], [(1,), (1,), (2,)]])
def test_only_whole_turns_are_captured(schedule):
    if schedule and len({id(args) for args in schedule}) == len(schedule):
        schedule = [schedule[0], *schedule]  # one set twice, the others once: no rotation
    timer, cuda = timer_with()
    with pytest.raises(InvalidValueError, match="whole turns of the rotation"):
        timer.capture(lambda i: cuda.launch(1e-6), schedule)


def test_a_graph_is_replayed_whole():
    timer, cuda = timer_with()
    timer.capture(lambda i: cuda.launch(1e-6), turns(2, 2))
    with pytest.raises(InvalidValueError, match="holds 4 calls, asked for 2"):
        timer.sample(None, turns(2, 1))


def test_prepare_runs_before_a_replay_and_is_not_timed():
    timer, cuda = timer_with()
    schedule = turns(1, 10)
    timer.capture(lambda i: cuda.launch(3e-6), schedule)
    plain = timer.sample(None, schedule)
    cuda.loaded.add("flush")
    flushed = timer.sample(None, schedule, lambda: cuda.launch(500e-6, "flush"))
    assert flushed == pytest.approx(plain, rel=0.02)
    assert cuda.log.count("flush") == 1


def test_a_kernel_that_waits_is_unsupported_and_leaves_the_stream_usable():
    timer, cuda = timer_with()
    before = cuda.current_stream()
    is_capturing = lambda: cuda.current_stream().graph is not None  # noqa: E731

    def kernel(i):
        cuda.launch(1e-6)
        if is_capturing():
            cuda.item()

    with pytest.raises(UnsupportedError) as caught:
        timer.capture(kernel, turns(1, 3))
    message = str(caught.value)
    assert "operation not permitted when stream is capturing" in message  # the first cause, not capture_end's own
    assert "\n" not in message
    assert cuda.current_stream() is before
    assert timer.sample(lambda i: cuda.launch(30e-6), turns(1, 5)) == pytest.approx(31e-6, rel=0.02)
    assert timer.capture(lambda i: cuda.launch(1e-6) or i, turns(1, 3)) == [0, 0, 0]


def test_a_capture_that_fails_only_at_its_end_is_unsupported_too():
    timer, cuda = timer_with()

    def kernel(i):
        cuda.current_stream().is_broken = cuda.current_stream().graph is not None  # work on an uncaptured stream

    before = cuda.current_stream()
    with pytest.raises(UnsupportedError, match="previous error during capture"):
        timer.capture(kernel, turns(1, 3))
    assert cuda.current_stream() is before


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            fake_cuda.AcceleratorError(
                "CUDA error: operation would make the legacy stream depend on a capturing blocking stream"
            ),
            UnsupportedError,
        ),
        (RuntimeError("Cannot set current seed during CUDA graph capture."), UnsupportedError),
        (fake_cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), fake_cuda.OutOfMemoryError),
        (TypeError("the kernel's own mistake"), TypeError),
    ],
)
def test_errors_inside_the_capture(error, expected):
    timer, cuda = timer_with()

    def kernel(i):
        if cuda.current_stream().graph is not None:
            raise error

    before = cuda.current_stream()
    with pytest.raises(expected, match=str(error)[:30]):
        timer.capture(kernel, turns(1, 3))
    assert cuda.current_stream() is before
    assert timer._graph is None


def test_errors_of_the_uncaptured_kernel_come_through():
    timer, _ = timer_with()

    def kernel(i):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        timer.capture(kernel, turns(1, 3))


def test_a_lost_device_is_no_unsupported_kernel():
    timer, cuda = timer_with()

    def kernel(i):
        if cuda.current_stream().graph is not None:
            cuda.error = fake_cuda.ILLEGAL_ADDRESS
            cuda.check()

    with pytest.raises(fake_cuda.AcceleratorError, match="illegal memory access"):
        timer.capture(kernel, turns(1, 3))


def test_a_new_case_frees_the_graph():
    timer, cuda = timer_with()
    timer.capture(lambda i: cuda.launch(1e-6), turns(1, 3))
    graph = timer._graph
    timer.begin_case("next", None)
    assert graph.is_reset
    assert timer.sample(lambda i: cuda.launch(40e-6), turns(1, 3)) == pytest.approx(41e-6, rel=0.02)


def test_nothing_is_collected_during_the_capture():
    timer, cuda = timer_with()
    seen = []

    def kernel(i):
        if cuda.current_stream().graph is not None:
            seen.append(gc.isenabled())

    assert gc.isenabled()
    timer.capture(kernel, turns(1, 2))
    assert seen == [False, False]
    assert gc.isenabled()


def test_a_checked_replay_is_exactly_one():
    timer, cuda = timer_with()
    with pytest.raises(InvalidValueError, match="capture one first"):
        timer.replay()
    timer.capture(lambda i: cuda.launch(1e-6), turns(1, 2))
    before = cuda.log.count("graph")
    timer.replay()
    assert cuda.log.count("graph") == before + 1
    assert cuda.host_s >= cuda.current_stream().free_s  # and it is over


def test_graph_results_carry_their_own_timer_name():
    assert CudaGraphTimer(None, 1e9).name != CudaEventTimer(None, 1e9).name
    assert CudaGraphTimer(None, 1e9).min_sample_s == CudaEventTimer(None, 1e9).min_sample_s
