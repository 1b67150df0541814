"""The CUDA timer against a torch that only writes down what it was asked to do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from plugin.cuda import CudaEventTimer, clock_rate_hz


class FakeCuda:
    def __init__(self, elapsed_ms=1.5):
        self.log = []
        self.elapsed_ms = elapsed_ms

    def synchronize(self):
        self.log.append("synchronize")

    def _sleep(self, cycles):
        self.log.append(("block", cycles))

    def Event(self, enable_timing):
        assert enable_timing
        cuda = self

        class Event:
            def record(self):
                cuda.log.append("record")

            def synchronize(self):
                cuda.log.append("wait")

            def elapsed_time(self, other):
                return cuda.elapsed_ms

        return Event()


def timer_with(cuda):
    return CudaEventTimer(SimpleNamespace(cuda=cuda), clock_hz=2e9)


def test_calls_are_queued_between_events_behind_a_block():
    cuda = FakeCuda()
    calls = []
    value = timer_with(cuda).sample(lambda x: calls.append(x) or cuda.log.append("kernel"), [(1,), (2,), (3,)])
    assert value == pytest.approx(1.5e-3 / 3)  # events give milliseconds for the whole queue
    assert calls == [1, 2, 3]
    names = [entry if isinstance(entry, str) else entry[0] for entry in cuda.log]
    assert names == ["synchronize", "block", "record", "kernel", "kernel", "kernel", "record", "wait"]


def test_block_is_long_enough_for_the_queue_and_never_endless():
    cuda = FakeCuda()
    timer = timer_with(cuda)
    timer.sample(lambda: None, [()] * 100)
    assert cuda.log[1] == ("block", int(1.5 * 10e-6 * 100 * 2e9))  # 10 µs a launch until learned
    timer._issue_s = 1.0
    timer.sample(lambda: None, [()])
    assert cuda.log[-4] == ("block", int(20e-3 * 2e9))


def test_clock_falls_back_where_torch_does_not_tell():
    def torch_with(**properties):
        cuda = SimpleNamespace(current_device=lambda: 0, get_device_properties=lambda _: SimpleNamespace(**properties))
        return SimpleNamespace(cuda=cuda)

    assert clock_rate_hz(torch_with(clock_rate=1_980_000)) == 1.98e9
    assert clock_rate_hz(torch_with()) == 2.0e9
