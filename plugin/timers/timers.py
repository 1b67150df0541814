"""Timers: how one sample is taken. Real clocks, the simulated device and a replay behave alike to the runner.

A timer is handed the schedule of argument tuples of one sample and returns the seconds per call. The loop over the
schedule is the only Python inside the timed region. The others: `cuda.py`, `cuda_graph.py`, `replay.py` and
`simulate/simulated_timer.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from plugin.timers.clock import time
from plugin.timers.host_speed import HOST_SPEED, HostSpeed

Kernel = Callable[..., Any]
Schedule = Sequence[tuple[Any, ...]]
Prepare = Callable[[], None]


class Timer(Protocol):
    """One way of timing. `name` is stored with every result; results of different timers are never compared.

    A timer of a device whose work outlasts the call has `outputs(kernel, schedule) -> list[Any]`: it makes the calls
    untimed and returns their finished outputs. One whose calls are done when they return has `last_output`, that of
    the last call of the last sample, and `speed`, the host's. A timer that can replay a graph also has `capture(kernel,
    schedule) -> list[Any]`: it captures the schedule's calls and returns their outputs; from then on `sample` replays
    that graph whole and ignores `kernel`.
    """

    name: str
    min_sample_s: float
    """A sample shorter than this is dominated by the timer itself: the runner puts more calls into it."""
    runs_kernel: bool
    """False where samples are invented or replayed and the kernel is only run for its correctness check."""
    last_clock_hz: float | None
    """SM clock during the last sample; None where it is unknown."""

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Prepare for the samples of one case."""
        ...

    def sample(self, kernel: Kernel, schedule: Schedule, prepare: Prepare | None = None) -> float:
        """Run `kernel(*args)` for each entry of `schedule` and return seconds per call.

        `prepare` (a cache flush) runs before the calls, outside the timed region, on the same stream.
        """
        ...

    def synchronize(self) -> None:
        """Wait until all work issued so far is done."""
        ...

    def now(self) -> float:
        """Return the time, in seconds, on the clock that budgets are kept on."""
        ...

    def idle(self, seconds: float) -> None:
        """Let the device rest."""
        ...


@dataclass(slots=True)
class MonotonicTimer:
    """The host's monotonic clock; right for work that is done when the call returns."""

    name: str = "monotonic"
    min_sample_s: float = 50e-6
    """The clock costs about 50 ns and steps in nanoseconds: below 0.2 % of this."""
    runs_kernel: bool = True
    last_clock_hz: float | None = None
    last_output: Any = None
    speed: HostSpeed = field(default_factory=lambda: HOST_SPEED)

    def begin_case(self, case_key: str, ideal_s: float | None) -> None:
        """Nothing to prepare."""

    def sample(self, kernel: Kernel, schedule: Schedule, prepare: Prepare | None = None) -> float:
        """Return the mean seconds per call over the schedule."""
        self.last_output = None  # its memory is free again before the first call
        before, last = schedule[:-1], schedule[-1]
        if prepare is not None:
            prepare()
        begin = time.perf_counter_ns()
        for args in before:
            kernel(*args)
        output = kernel(*last)
        end = time.perf_counter_ns()
        self.last_output = output
        return (end - begin) * 1e-9 / len(schedule)

    def synchronize(self) -> None:
        """The host's work is always done."""

    def now(self) -> float:
        """Return the monotonic clock."""
        return time.perf_counter()

    def idle(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(max(0.0, seconds))
