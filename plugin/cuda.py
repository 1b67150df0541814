"""CUDA timing: events on the device's own clock, with launches queued behind a blocking kernel.

Without the block a 3 µs kernel is timed as its 5–10 µs launch. The blocker is `torch.cuda._sleep`, long enough that
the host has queued all calls of the sample before the first one starts. Unproven on hardware until a run under
examples/runs/ says otherwise.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from plugin.timers import Kernel, Schedule
from roofline_model.errors import UnsupportedError

_MIN_BLOCK_S = 20e-6
_MAX_BLOCK_S = 20e-3
_SAFETY = 1.5


@dataclass(slots=True)
class CudaEventTimer:
    """CUDA events around a queue of calls; one sample is the mean per call of its queue."""

    torch: Any
    clock_hz: float
    """SM clock used to turn seconds into `_sleep` cycles; the maximum is right: a lower clock only blocks longer."""
    name: str = "cuda-event"
    min_sample_s: float = 200e-6
    """Event timestamps step by about 0.5 µs: below 0.3 % of this."""
    runs_kernel: bool = True
    _issue_s: float = 10e-6
    """Host seconds to queue one call, learned from the calls themselves."""

    @classmethod
    def create(cls) -> CudaEventTimer:
        """Build the timer for the current device; raises `UnsupportedError` where torch sees no GPU."""
        import torch

        if not torch.cuda.is_available():
            raise UnsupportedError(
                f"torch {torch.__version__} sees no CUDA device; install a CUDA build (`roofline doctor`) or use --roofline-device cpu"
            )
        torch.cuda.init()
        return cls(torch, clock_rate_hz(torch))

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Forget the last case's launch cost."""
        self._issue_s = 10e-6

    def sample(self, kernel: Kernel, schedule: Schedule) -> float:
        """Return device seconds per call over the schedule."""
        cuda = self.torch.cuda
        start, stop = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        block_s = min(_MAX_BLOCK_S, max(_MIN_BLOCK_S, _SAFETY * self._issue_s * len(schedule)))
        cuda.synchronize()
        cuda._sleep(int(block_s * self.clock_hz))
        start.record()
        begin = time.perf_counter()
        for args in schedule:
            kernel(*args)
        self._issue_s = (time.perf_counter() - begin) / len(schedule)
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) * 1e-3 / len(schedule)

    def synchronize(self) -> None:
        """Wait for the device."""
        self.torch.cuda.synchronize()

    def now(self) -> float:
        """Return the host's monotonic clock: budgets are kept in the user's time."""
        return time.perf_counter()


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


def free_device_bytes() -> int:
    """Return the device memory that is free now."""
    import torch

    return int(torch.cuda.mem_get_info()[0])
