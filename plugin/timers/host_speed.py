"""How fast the CPU is at each moment, by a fixed loop of integer arithmetic timed between the samples of kernels.

A core that another guest shares, or a clock that drops, makes everything 15 to 60 % slower for milliseconds to seconds,
and no counter of a virtual machine shows it. The loop does: on one such machine (two virtual CPUs, 2026-11-27) the
median of 50 ms of a kernel moved by 2 to 60 % from visit to visit, and by 0.3 % over the samples between two fast
loops. Only the thread that measures is seen: what slows another CPU that the kernel uses is not.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from plugin.timers.clock import time

ITERATIONS, REPEATS = 500, 3
"""Some 20 µs a time, the fastest of three: the first finds the branch predictor full of the kernel's branches."""
EVERY_S = 1e-3
SLOW_RATIO = 1.08
"""A reading this many times the usual fast one is slow: fast ones lie within 3 % of each other, slow ones begin at
15 %.
"""
FAST_SHARE = 0.1
"""The usual fast reading is the one that a tenth of all readings reach: a burst of the clock that lasts for less is not
what the machine can keep.
"""
MAX_READINGS = 200_000
"""Kept, of minutes of sampling: a suite that runs for hours would fill the memory with them."""
_STEP_LOG = 0.005


def loop_s() -> float:
    """Return the seconds that the loop takes now."""
    fastest_ns = 2**63
    for _ in range(REPEATS):
        begin_ns = time.perf_counter_ns()
        total = 0
        for number in range(ITERATIONS):
            total += number * number
        fastest_ns = min(fastest_ns, time.perf_counter_ns() - begin_ns)
    return fastest_ns * 1e-9


@dataclass(slots=True)
class HostSpeed:
    """The readings of one process, in order."""

    count: int = 0
    """Readings taken."""
    _latest_s: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_READINGS))
    _read_at_s: float = -math.inf
    _counts: dict[int, int] = field(default_factory=dict)
    """Readings by the step of their logarithm."""

    def mark(self) -> int:
        """Return the number of the reading before what comes next; a new one where the last is older than `EVERY_S`."""
        if time.perf_counter() - self._read_at_s >= EVERY_S:
            self.read()
        return self.count - 1

    def read(self) -> None:
        """Take a reading."""
        reading_s = loop_s()
        self.count += 1
        self._latest_s.append(reading_s)
        step = round(math.log(reading_s) / _STEP_LOG)
        self._counts[step] = self._counts.get(step, 0) + 1
        self._read_at_s = time.perf_counter()

    def wait(self, longest_s: float) -> float:
        """Wait until the CPU is fast again, for so long at most, and return the seconds that took: a slow spell mostly
        ends after some tens of ms.
        """
        began_s = time.perf_counter()
        self.read()
        while self._latest_s[-1] > SLOW_RATIO * self.fast_s and time.perf_counter() - began_s < longest_s:
            self.read()
        return time.perf_counter() - began_s

    @property
    def fast_s(self) -> float:
        """The usual fast reading."""
        wanted = FAST_SHARE * self.count
        for step in sorted(self._counts):
            wanted -= self._counts[step]
            if wanted <= 0:
                return math.exp(step * _STEP_LOG)
        return math.inf

    def are_fast(self, marks: Sequence[int]) -> list[bool]:
        """Return for each mark whether the CPU was fast before and after it; what no reading follows, and what is too
        long ago, was not.
        """
        most_s = SLOW_RATIO * self.fast_s
        first = self.count - len(self._latest_s)
        fast = {  # many samples lie between two readings
            mark: first <= mark < self.count - 1
            and max(self._latest_s[mark - first], self._latest_s[mark - first + 1]) <= most_s
            for mark in set(marks)
        }
        return [fast[mark] for mark in marks]


HOST_SPEED = HostSpeed()
"""Of this process: every case adds to what is known of the machine."""
