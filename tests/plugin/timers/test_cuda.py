"""The CUDA timer on a simulated device: what it times, when it notices that it timed launches, what it learns."""

from __future__ import annotations

from types import SimpleNamespace

import fake_cuda
import pytest

from plugin.timers.cuda import CudaEventTimer, clock_rate_hz
from plugin.timers.cuda_blocker import MIN_BLOCK_S, Blocker
from roofline_model.core.errors import InvalidValueError


def timer_with(**settings):
    torch = fake_cuda.fake_torch(**settings)
    cuda = torch.cuda
    return CudaEventTimer(torch, cuda.max_clock_hz, host_clock=cuda.now, sleep=cuda.sleep), cuda


def true_s(cuda, seconds, calls):
    """What the simulated device needs per queued call: the kernel, the gap before it, and a share of the end event."""
    return seconds + cuda.kernel_gap_s + cuda.event_s / calls


def test_short_kernels_are_timed_without_their_launches():
    timer, cuda = timer_with(launch_s=8e-6)
    value = timer.sample(lambda: cuda.launch(3e-6), [()] * 200)
    assert value == pytest.approx(true_s(cuda, 3e-6, 200), abs=1e-8)  # and not 8 µs, the launch
    assert timer.last_is_queued
    assert timer.unqueued_count == 0


def test_without_the_block_the_same_kernels_would_be_their_launches():
    _, cuda = timer_with(launch_s=8e-6)
    start, stop = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    cuda.launch(3e-6)
    cuda.synchronize()
    start.record()
    for _ in range(200):
        cuda.launch(3e-6)
    stop.record()
    stop.synchronize()
    assert start.elapsed_time(stop) * 1e-3 / 200 == pytest.approx(8e-6, rel=0.05)


def test_a_block_that_was_too_short_is_noticed_and_the_sample_taken_anew():
    timer, cuda = timer_with()
    timer.sample(lambda: None, [()])  # learn the device
    calls = []

    def kernel():
        calls.append(1)
        cuda.launch(2e-6, host_s=60e-6)  # six times what the timer expects of a new case

    value = timer.sample(kernel, [()] * 20)
    assert timer.retake_count == 1
    assert timer.last_is_queued
    assert value == pytest.approx(true_s(cuda, 2e-6, 20), abs=3e-8)
    before = len(calls)
    timer.sample(kernel, [()] * 20)
    assert len(calls) - before == 20  # learned: no second retake


def test_the_host_s_time_to_issue_a_call_is_known_where_all_calls_were_queued():
    timer, cuda = timer_with(launch_s=4e-6)
    timer.sample(lambda: cuda.launch(2e-6, host_s=60e-6), [()] * 20)
    timer.sample(lambda: cuda.launch(2e-6, host_s=60e-6), [()] * 20)
    assert timer.last_issue_s == pytest.approx(64e-6)  # and not 2 µs, the kernel, nor what the block takes
    timer.begin_case("next", None)
    assert timer.last_issue_s is None


def test_the_issue_of_a_schedule_in_batches_is_that_of_all_its_calls():
    timer, cuda = timer_with(loaded={"kernel"})
    timer._batch_calls = 3
    costs_s = iter([10e-6] * 3 + [20e-6] * 3 + [30e-6] * 2)
    timer.sample(lambda: cuda.launch(1e-6, host_s=next(costs_s)), [()] * 8)
    assert timer.last_issue_s == pytest.approx(4e-6 + (3 * 10e-6 + 3 * 20e-6 + 2 * 30e-6) / 8)


def test_the_issue_is_unknown_where_the_host_is_part_of_the_sample():
    timer, cuda = timer_with()
    timer.sample(lambda: cuda.launch(5e-6, host_s=0.2), [()] * 2)
    assert timer.last_issue_s is None
    timer, cuda = timer_with()
    timer.sample(lambda: [cuda.launch(2e-6) for _ in range(1400)], [()])  # a pass of 32 layers fills the queue
    assert timer.unqueued_count == 1
    assert timer.last_issue_s is None
    timer, cuda = timer_with()

    def waits():
        cuda.launch(5e-6)
        cuda.item()

    timer.sample(waits, [()] * 3)
    assert timer.waits_for_device
    assert timer.last_issue_s is None


def test_the_lesson_of_one_case_is_forgotten_at_the_next():
    timer, cuda = timer_with()
    timer.sample(lambda: cuda.launch(2e-6, host_s=60e-6), [()] * 20)
    assert timer.retake_count
    timer.begin_case("next", None)
    assert (timer.retake_count, timer.unqueued_count, timer.last_clock_hz) == (0, 0, None)
    begin = cuda.log.count("block")
    timer.sample(lambda: cuda.launch(2e-6), [()] * 20)
    assert cuda.log.count("block") - begin == 2
    assert timer.retake_count == 0


def test_more_launches_than_the_queue_holds_are_split_into_batches():
    timer, cuda = timer_with()

    def kernel():
        for _ in range(8):
            cuda.launch(1e-6)

    value = timer.sample(kernel, [()] * 400)  # 3200 launches against a queue of 1024
    assert timer.last_is_queued
    assert timer._batch_calls == 100  # a quarter of what did not fit
    assert value == pytest.approx(8 * (1e-6 + cuda.kernel_gap_s), rel=0.01)
    retakes = timer.retake_count
    timer.sample(kernel, [()] * 400)
    assert timer.retake_count == retakes  # the size is learned


def test_every_call_is_made_in_order_when_a_schedule_is_split():
    timer, cuda = timer_with(loaded={"kernel"})
    timer._batch_calls = 3
    seen = []
    timer.sample(lambda i: seen.append(i) or cuda.launch(1e-6), [(i,) for i in range(10)])
    assert seen == list(range(10))


def test_a_call_that_outlasts_every_block_is_timed_with_its_gaps_and_says_so():
    timer, cuda = timer_with()
    kernel = lambda: cuda.launch(5e-6, host_s=0.2)  # noqa: E731
    value = timer.sample(kernel, [()] * 2)
    assert not timer.last_is_queued
    assert timer.unqueued_count == 1
    assert value >= 0.1
    retakes = timer.retake_count
    timer.sample(kernel, [()] * 2)
    assert timer.retake_count == retakes  # it is not tried again in every sample
    blocks = cuda.log.count("block")
    timer.sample(kernel, [()] * 2)
    assert cuda.log.count("block") - blocks == 2  # nor split any more
    assert timer.unqueued_count == 3


def test_a_kernel_that_waits_for_the_device_is_found_out():
    timer, cuda = timer_with()

    def kernel():
        cuda.launch(5e-6)
        cuda.item()

    value = timer.sample(kernel, [()] * 50)
    assert timer.waits_for_device
    assert not timer.last_is_queued
    # Each call as its caller sees it: launch, latency, kernel, in turn; nothing is hidden behind the block.
    assert value == pytest.approx(cuda.launch_s + cuda.latency_s + 5e-6, rel=0.05)
    assert timer.unqueued_count == 1


def test_a_waiting_kernels_first_call_is_not_hidden_behind_the_block():
    timer, cuda = timer_with(loaded={"kernel"})

    def kernel():
        cuda.launch(5e-6)
        cuda.item()

    timer.sample(kernel, [()] * 8)
    alone = timer.sample(kernel, [()])  # the only call: behind the block it would lose its launch
    end_event_s = cuda.record_s + cuda.latency_s + cuda.event_s  # recorded when the host has come back
    assert alone == pytest.approx(cuda.launch_s + cuda.latency_s + 5e-6 + end_event_s, abs=1e-6)


def test_the_launch_cost_is_learned_from_samples_that_went_well():
    timer, cuda = timer_with(loaded={"kernel"})
    slow = lambda: cuda.launch(2e-6, host_s=20e-6)  # noqa: E731
    timer.sample(slow, [()] * 2)  # the shortest block is long enough for two
    timer.sample(slow, [()] * 20)  # and from 10 µs a call it would be too short for twenty
    assert timer.retake_count == 0


def test_a_slow_launch_is_not_taken_for_waiting():
    timer, cuda = timer_with()
    timer.sample(lambda: cuda.launch(5e-6, host_s=2e-3), [()] * 3)
    assert not timer.waits_for_device
    assert timer.last_is_queued


def test_prepare_runs_once_per_take_before_the_block_and_is_not_timed():
    timer, cuda = timer_with(loaded={"kernel", "flush"})
    timer.sample(lambda: None, [()])
    cuda.log.clear()
    value = timer.sample(lambda: cuda.launch(3e-6), [()] * 4, lambda: cuda.launch(900e-6, "flush"))
    assert cuda.log.count("flush") == 1
    assert cuda.log[0] == "synchronize"  # a flush meets an idle device and an empty queue
    order = [entry for entry in cuda.log if entry in ("flush", "block", "kernel")]
    assert order == ["flush", "block", "block", *["kernel"] * 4]
    assert value < 10e-6
    timer._issue_s = 1e-9  # a new case whose block is too short
    slow = lambda: cuda.launch(3e-6, host_s=200e-6)  # noqa: E731
    cuda.log.clear()
    timer.sample(slow, [()] * 4, lambda: cuda.launch(1e-6, "flush"))
    assert cuda.log.count("flush") == 1 + timer.retake_count


@pytest.mark.parametrize("clock_hz", [0.8e9, 1.6e9, 1.98e9])
def test_the_clock_is_read_from_the_block(clock_hz):
    timer, cuda = timer_with(clock_hz=clock_hz)
    timer.sample(lambda: cuda.launch(50e-6), [()] * 20)
    assert timer.last_clock_hz == pytest.approx(clock_hz, rel=0.01)
    assert timer._blocker().accuracy_ratio() <= 0.02


def test_the_offset_of_the_block_is_learned_and_without_it_the_clock_would_be_wrong():
    timer, _ = timer_with(sleep_offset_s=6e-6)
    timer.sample(lambda: None, [()])
    blocker = timer._blocker()
    assert blocker.offset_s == pytest.approx(6e-6 + 1e-6 + 0.4e-6, abs=0.8e-6)  # kernel, gap, event
    assert timer.last_clock_hz == pytest.approx(1.6e9, rel=0.012)
    uncorrected = blocker._cycles / blocker._block_s()
    assert uncorrected < 0.97 * 1.6e9


def test_a_clock_that_changes_is_seen_in_the_next_sample():
    timer, cuda = timer_with()
    timer.sample(lambda: cuda.launch(9e-6), [()] * 20)
    cuda.clock_hz = 1.2e9  # throttled
    timer.sample(lambda: cuda.launch(9e-6), [()] * 20)
    assert timer.last_clock_hz == pytest.approx(1.2e9, rel=0.01)


def test_a_block_without_a_sensible_clock_gives_none():
    blocker = Blocker(SimpleNamespace(), 2e9)
    assert blocker.block_clock_hz() is None  # no offset was learned
    torch = fake_cuda.fake_torch(sleep_offset_s=0.0, clock_hz=9e9)
    timer = CudaEventTimer(torch, 2e9, host_clock=torch.cuda.now)
    timer.sample(lambda: torch.cuda.launch(9e-6), [()])
    assert timer.last_clock_hz is None


def test_the_overhead_of_an_empty_sample_is_told_and_not_subtracted():
    timer, cuda = timer_with(event_s=2e-6)
    assert timer.overhead_s == pytest.approx(2e-6, abs=0.5e-6)
    value = timer.sample(lambda: cuda.launch(10e-6), [()])
    assert value == pytest.approx(true_s(cuda, 10e-6, 1), abs=0.6e-6)


def test_loading_the_blocker_is_no_part_of_a_sample():
    timer, cuda = timer_with(load_s=50e-3)
    cuda.loaded.add("kernel")
    timer.sample(lambda: cuda.launch(3e-6), [()] * 10)
    assert timer.retake_count == 0  # the block's own loading happened before


def test_events_are_made_once_and_per_device():
    timer, cuda = timer_with()
    made = []
    original = cuda.Event
    cuda.Event = lambda enable_timing: made.append(1) or original(enable_timing)
    for _ in range(5):
        timer.sample(lambda: cuda.launch(3e-6), [()] * 5)
    assert len(made) == 3
    cuda.device = 1  # recording the first device's events here raises
    timer.sample(lambda: cuda.launch(3e-6), [()] * 5)
    assert len(made) == 6


def test_the_current_stream_is_the_one_that_is_timed():
    timer, cuda = timer_with()
    side = cuda.Stream()
    with cuda.stream(side):
        value = timer.sample(lambda: cuda.launch(30e-6), [()] * 10)
    assert value == pytest.approx(true_s(cuda, 30e-6, 10), abs=1e-7)


def test_a_lost_device_is_raised_as_it_is():
    timer, cuda = timer_with()
    timer.sample(lambda: None, [()])

    def kernel():
        cuda.error = fake_cuda.ILLEGAL_ADDRESS

    with pytest.raises(fake_cuda.AcceleratorError, match="illegal memory access"):
        timer.sample(kernel, [()])
    with pytest.raises(fake_cuda.AcceleratorError, match="illegal memory access"):
        timer.synchronize()


def test_an_empty_schedule_is_refused():
    timer, _ = timer_with()
    with pytest.raises(InvalidValueError, match="at least one call"):
        timer.sample(lambda: None, [])


def test_idle_waits_for_the_device_first():
    timer, cuda = timer_with()
    cuda.launch(1.0)
    before = timer.now()
    timer.idle(0.25)
    assert timer.now() - before >= 1.25
    timer.idle(-1.0)
    assert cuda.log[-1] == ("idle", 0.0)


def test_blocks_are_bounded():
    timer, cuda = timer_with()
    timer.sample(lambda: None, [()])
    cycle_counts = []
    original = cuda._sleep
    cuda._sleep = lambda cycles: cycle_counts.append(cycles) or original(cycles)
    timer._issue_s = 10.0
    timer.sample(lambda: cuda.launch(1e-6), [()])
    assert cycle_counts[-1] == int(50e-3 * cuda.max_clock_hz)
    timer._issue_s = 0.0
    timer.sample(lambda: cuda.launch(1e-6), [()])
    assert cycle_counts[-1] == int(MIN_BLOCK_S * cuda.max_clock_hz)


def test_clock_falls_back_where_torch_does_not_tell():
    def torch_with(**properties):
        cuda = SimpleNamespace(current_device=lambda: 0, get_device_properties=lambda _: SimpleNamespace(**properties))
        return SimpleNamespace(cuda=cuda)

    assert clock_rate_hz(torch_with(clock_rate=1_980_000)) == 1.98e9
    assert clock_rate_hz(torch_with()) == 2.0e9
