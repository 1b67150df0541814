"""The kernel that blocks a stream while the host queues the calls behind it, and the SM clock that it reveals.

`torch.cuda._sleep(cycles)` spins one thread until `clock64()`, the SM's own cycle counter, has advanced by `cycles`
(ATen/cuda/Sleep.cu). Timed between events it therefore gives the clock: cycles / elapsed. A constant part, the launch
and the events themselves, is learned from two lengths. On a cool H200 it read 1,979 MHz; NVML names 1,980 as the
highest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

EVENT_STEP_S = 0.5e-6
"""Resolution of `cudaEventElapsedTime` as the CUDA runtime's manual states it ("around 0.5 microseconds")."""
LEAD_S = 30e-6
"""A first, untimed block: behind it the timed one is queued whole, so that no launch gap lies between its events."""
MIN_BLOCK_S = 100e-6
"""One event step is 0.5 % of this: the accuracy of the clock read from one block."""
_PAIRS = 5
_EMPTY_SAMPLES = 9
_MAX_OFFSET_S = 20e-6
_CLOCK_RANGE_HZ = (5e7, 5e9)


@dataclass(slots=True)
class Blocker:
    """Three reusable events and the learned constants of one device; made and used while that device is current."""

    torch: Any
    clock_hz: float
    """The device's maximum SM clock: turns seconds into cycles. A lower real clock only blocks longer."""
    offset_s: float | None = None
    """Constant part of a timed block: launch and events. None where the two lengths contradict each other."""
    offset_spread_s: float = 0.0
    """Median distance of one pair's offset from the median of all."""
    overhead_s: float = 0.0
    """Device seconds between two events with nothing between them: part of every sample, never subtracted."""
    begin: Any = None
    start: Any = None
    """Recorded right after the block: complete when the block is over."""
    stop: Any = None
    _cycles: int = field(default=0)

    @classmethod
    def create(cls, torch: Any, clock_hz: float) -> Blocker:
        """Warm up (kernels and events are loaded on first use) and learn the constants; takes about 3 ms."""
        begin, start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        blocker = cls(torch, clock_hz, begin=begin, start=start, stop=stop)
        for _ in range(3):
            blocker._empty_sample_s()
        blocker._learn_offset()
        blocker.overhead_s = median(blocker._empty_sample_s() for _ in range(_EMPTY_SAMPLES))
        return blocker

    def queue(self, seconds: float) -> None:
        """Block the current stream for about `seconds` (longer below the maximum clock) and record `start` behind
        it.
        """
        cuda = self.torch.cuda
        stream = cuda.current_stream()
        self._cycles = max(1, int(seconds * self.clock_hz))
        cuda._sleep(max(1, int(LEAD_S * self.clock_hz)))
        self.begin.record(stream)
        cuda._sleep(self._cycles)
        self.start.record(stream)

    def block_clock_hz(self) -> float | None:
        """Return the mean SM clock over the last block, once `start` is complete; None where the offset is unknown.

        Accuracy: one event step and the spread of the offset over the block's length (`accuracy_ratio`). It is the
        clock right before the sample's calls: a kernel that draws much power may bring it down after that.
        """
        if self.offset_s is None:
            return None
        elapsed_s = self._block_s() - self.offset_s
        if elapsed_s <= 0:
            return None
        clock_hz = self._cycles / elapsed_s
        return clock_hz if _CLOCK_RANGE_HZ[0] <= clock_hz <= _CLOCK_RANGE_HZ[1] else None

    def accuracy_ratio(self, block_s: float = MIN_BLOCK_S) -> float:
        """Return how far a clock read from one block of that length may be off."""
        return (EVENT_STEP_S + self.offset_spread_s) / block_s

    def _block_s(self) -> float:
        return float(self.begin.elapsed_time(self.start)) * 1e-3

    def _empty_sample_s(self) -> float:
        self.torch.cuda.synchronize()
        self.queue(MIN_BLOCK_S)
        self.stop.record(self.torch.cuda.current_stream())
        self.stop.synchronize()
        return float(self.start.elapsed_time(self.stop)) * 1e-3

    def _learn_offset(self) -> None:
        """Time blocks of two lengths in turn: t = offset + cycles / clock, and the clock is the same within a pair."""
        offsets = []
        for _ in range(_PAIRS):
            short_s, short = self._timed_block(MIN_BLOCK_S)
            long_s, long = self._timed_block(4 * MIN_BLOCK_S)
            offsets.append((short_s * long - long_s * short) / (long - short))
        middle = median(offsets)
        if abs(middle) <= _MAX_OFFSET_S:
            self.offset_s = middle
            self.offset_spread_s = sorted(abs(offset - middle) for offset in offsets)[_PAIRS // 2]

    def _timed_block(self, seconds: float) -> tuple[float, int]:
        self.torch.cuda.synchronize()
        self.queue(seconds)
        self.start.synchronize()
        return self._block_s(), self._cycles
