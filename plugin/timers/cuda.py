"""CUDA timing: events on the device's own clock, with launches queued behind a blocking kernel.

Without the block a 3 µs kernel is timed as its 5–10 µs launch. The block must last until the host has queued every call
of the sample; whether it did is not assumed but asked: the event right behind the block is not complete yet when the
last call is queued. Where it is, the sample holds launch gaps: the block is made longer and the sample taken anew, then
the calls are split into batches (the driver queues about 1024 launches and then makes the host wait). DeepGEMM blocks
in the same way, nvbench with a kernel that spins on a host flag, which would deadlock a kernel that waits for the
device; `_sleep` ends by itself. On an H200 the times were those of CUPTI and a launch gap of 1.3 µs
(docs/theory/validation.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from plugin.timers.clock import time
from plugin.timers.cuda_blocker import MIN_BLOCK_S, Blocker
from plugin.timers.timers import Kernel, Schedule
from roofline_model.chips.free_memory import free_device_bytes
from roofline_model.core.errors import InvalidValueError, UnsupportedError

_MAX_BLOCK_S = 50e-3
_SAFETY = 1.5
_MAX_SCALE = 8.0
_TRIES = 3
_FIRST_ISSUE_S = 10e-6
_MAX_BATCH_CALLS = 512
"""Half of the driver's queue of about 1024 launches: a call may be two kernels."""
_PROBE_BLOCK_S = 5e-3
_shared_blockers: dict[int, Blocker] = {}


@dataclass(slots=True)
class CudaEventTimer:
    """CUDA events around a queue of calls on the current stream of the current device; one sample is the mean per call.

    Work that a kernel leaves on a stream of its own, without making the current stream wait for it, is not seen.
    CUDA's own errors (a lost device, a sticky fault, out of memory) come through as they are.
    """

    torch: Any
    clock_hz: float
    """The device's maximum SM clock; turns seconds into `_sleep` cycles."""
    name: str = "cuda-event"
    min_sample_s: float = 500e-6
    """Event times step by about 0.5 µs, 0.1 % of this; the two events themselves (`overhead_s`, 1–2 µs) are below 0.4
    %.
    """
    runs_kernel: bool = True
    last_clock_hz: float | None = None
    """SM clock right before the last sample's calls, good to `clock_accuracy_ratio`; None where it cannot be told."""
    last_is_queued: bool = True
    """Whether every call of the last sample was queued before the first one started; if not, it holds launch gaps."""
    waits_for_device: bool = False
    """Whether this case's kernel makes the host wait for the device (`.item()`, `nonzero`, a full queue): its calls
    cannot be queued, and a sample is what the caller sees, host included."""
    last_issue_s: float | None = None
    """Host seconds per call to queue the last sample; None where the host had to wait meanwhile."""
    retake_count: int = 0
    """Samples or batches of this case that were taken anew because the block had been too short."""
    unqueued_count: int = 0
    """Samples of this case that hold launch gaps in spite of that."""
    host_clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    _blockers: dict[int, Blocker] = field(default_factory=dict)
    _issue_s: float = _FIRST_ISSUE_S
    """Host seconds to queue one call, learned from the calls themselves: the block is long enough for it."""
    _took_s: float = 0.0
    """Host seconds to queue all calls of the last batch."""
    _scale: float = 1.0
    _batch_calls: int = _MAX_BATCH_CALLS
    _is_probed: bool = False
    _is_unqueueable: bool = False
    _clocks: list[float] = field(default_factory=list)

    @classmethod
    def create(cls) -> CudaEventTimer:
        """Build the timer for the current device; raises `UnsupportedError` where torch sees no GPU.

        The blocker's constants are learned once per process and device.
        """
        import torch

        if not torch.cuda.is_available():
            raise UnsupportedError(
                f"torch {torch.__version__} sees no CUDA device; install a CUDA build (`roofline doctor`) or use "
                "--roofline-device cpu"
            )
        torch.cuda.init()
        return cls(torch, clock_rate_hz(torch), _blockers=_shared_blockers)

    @property
    def overhead_s(self) -> float:
        """Device seconds that an empty schedule takes: measured, part of every sample, not subtracted."""
        return self._blocker().overhead_s

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Forget what the last case taught: its launch cost, batch size and whether it waited for the device."""
        self._issue_s, self._scale, self._batch_calls = _FIRST_ISSUE_S, 1.0, _MAX_BATCH_CALLS
        self._is_probed = self._is_unqueueable = self.waits_for_device = False
        self.retake_count = self.unqueued_count = 0
        self.last_clock_hz, self.last_is_queued, self.last_issue_s = None, True, None

    def sample(self, kernel: Kernel, schedule: Schedule, prepare: Callable[[], None] | None = None) -> float:
        """Return device seconds per call over the schedule; `prepare` runs on the same stream, before the block.

        A sample that is taken anew is prepared anew.
        """
        if not schedule:
            raise InvalidValueError("a CUDA sample needs at least one call; the schedule is empty")
        self._clocks.clear()
        self.last_is_queued = True
        total_s, issued_s, position = 0.0, 0.0, 0
        while position < len(schedule):
            batch = schedule[position : position + self._batch_calls]
            elapsed_s = self._batch(kernel, batch, None if position else prepare)
            if elapsed_s is not None:
                total_s += elapsed_s
                issued_s += self._took_s
                position += len(batch)
        self.last_issue_s = issued_s / len(schedule) if self.last_is_queued else None
        self.last_clock_hz = median(self._clocks) if self._clocks else None
        self.unqueued_count += not self.last_is_queued
        return total_s / len(schedule)

    def outputs(self, kernel: Kernel, schedule: Schedule) -> list[Any]:
        """Make the calls untimed and return their outputs, which are done."""
        outputs = [kernel(*args) for args in schedule]
        self.torch.cuda.synchronize()
        return outputs

    def synchronize(self) -> None:
        """Wait for the device."""
        self.torch.cuda.synchronize()

    def now(self) -> float:
        """Return the host's monotonic clock: budgets are kept in the user's time."""
        return self.host_clock()

    def idle(self, seconds: float) -> None:
        """Let the device rest: wait until it has nothing to do, then sleep."""
        self.torch.cuda.synchronize()
        self.sleep(max(0.0, seconds))

    def _batch(self, kernel: Kernel, calls: Schedule, prepare: Callable[[], None] | None) -> float | None:
        """Return the device seconds of the calls, or None when they must be taken in smaller batches."""
        for _ in range(_TRIES):
            elapsed_s, is_queued = self._take(kernel, calls, prepare)
            if is_queued:
                return elapsed_s
            if self.waits_for_device or self._is_unqueueable:
                self.last_is_queued = False
                return elapsed_s
            self.retake_count += 1
            if not self._is_probed:
                self._probe(kernel, calls[0])
            self._scale = min(2 * self._scale, _MAX_SCALE)
        if self.waits_for_device:
            return None  # found out at the last try: once more, as it is
        if len(calls) > 1:
            self._batch_calls = -(-len(calls) // 4)
        else:  # one call alone keeps the host busy for longer than any block
            self._is_unqueueable, self._batch_calls = True, _MAX_BATCH_CALLS
        return None

    def _take(self, kernel: Kernel, calls: Schedule, prepare: Callable[[], None] | None) -> tuple[float, bool]:
        """Return the device seconds between the events, and whether all calls were queued behind the block."""
        cuda, blocker = self.torch.cuda, self._blocker()
        cuda.synchronize()
        if prepare is not None:
            prepare()
        wanted_s = 0.0 if self.waits_for_device else _SAFETY * self._scale * self._issue_s * len(calls)
        blocker.queue(min(_MAX_BLOCK_S, max(MIN_BLOCK_S, wanted_s)))
        if self.waits_for_device:
            blocker.start.synchronize()  # the first call must not be the only one without its launch
        begin = self.host_clock()
        for args in calls:
            kernel(*args)
        self._took_s = self.host_clock() - begin
        blocker.stop.record(cuda.current_stream())
        is_queued = not blocker.start.query()
        blocker.stop.synchronize()
        if is_queued:  # while it had to wait for a full queue, the host's time was not its own
            self._issue_s = max(self._took_s / len(calls), 0.9 * self._issue_s)
        clock_hz = blocker.block_clock_hz()
        if clock_hz is not None:
            self._clocks.append(clock_hz)
        return float(blocker.start.elapsed_time(blocker.stop)) * 1e-3, is_queued

    def _probe(self, kernel: Kernel, args: tuple[Any, ...]) -> None:
        """Find out, once per case, what one call costs the host, and whether it returns only when the device is done.

        The block is four times as long as the call alone keeps the host busy: a call that comes back after the block,
        twice in a row, has waited for it.
        """
        self._is_probed = True
        self.torch.cuda.synchronize()
        begin = self.host_clock()
        kernel(*args)
        self._issue_s = max(_FIRST_ISSUE_S, self.host_clock() - begin)
        self.waits_for_device = all(self._returns_after_block(kernel, args) for _ in range(2))
        self.torch.cuda.synchronize()

    def _returns_after_block(self, kernel: Kernel, args: tuple[Any, ...]) -> bool:
        self.torch.cuda.synchronize()
        blocker = self._blocker()
        blocker.queue(max(_PROBE_BLOCK_S, 4 * self._issue_s))
        kernel(*args)
        return bool(blocker.start.query())

    def _blocker(self) -> Blocker:
        """Return the blocker of the current device: events belong to the device that first records them."""
        device = self.torch.cuda.current_device()
        if device not in self._blockers:
            self._blockers[device] = Blocker.create(self.torch, self.clock_hz)
        return self._blockers[device]


def clock_rate_hz(torch: Any) -> float:
    """Return the device's maximum SM clock; 2 GHz where this torch does not tell."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    kilohertz = getattr(properties, "clock_rate", 0) or 0
    return kilohertz * 1e3 if kilohertz else 2.0e9


def l2_cache_bytes() -> int | None:
    """Return the L2 size of the current device as the driver reports it."""
    import torch

    size = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0)
    return int(size) or None


def free_bytes() -> int:
    """Return the device memory that can still be used (`free_device_bytes`)."""
    import torch

    return free_device_bytes(torch.cuda)
