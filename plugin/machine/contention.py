"""Was the machine ours while we measured? CPU time of everybody else, from the kernel's own counters.

Two threads that wait for each other at a barrier lose whole scheduler slices (8 ms on one machine) as soon as one
other process runs: the median is then tight, repeatable and wrong. No statistic of the samples can show that.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

CONTENDED_RATIO = 0.10
"""Share of this process's CPUs that others may use before a case is flagged."""
STOLEN_RATIO = 0.02
SHORTEST_WINDOW_S = 0.05
"""The counters step in hundredths of a second; a shorter window tells nothing."""

_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Counters since boot, in seconds, over the CPUs this process may use."""

    wall_s: float
    busy_s: float
    stolen_s: float
    own_s: float


class LoadWatch:
    """Watches the CPUs between `with` and its end; everything is None where the kernel does not tell."""

    def __init__(self) -> None:
        self._before: CpuTimes | None = None
        self._after: CpuTimes | None = None
        self._cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def __enter__(self) -> LoadWatch:
        self._before = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._after = self._read()

    def _read(self) -> CpuTimes | None:
        try:
            busy_s, stolen_s = parse_stat(_STAT.read_text(), self._cpus)
        except (OSError, ValueError):
            return None
        process_times = os.times()
        return CpuTimes(time.perf_counter(), busy_s, stolen_s, process_times.user + process_times.system)

    @property
    def others_ratio(self) -> float | None:
        """Share of our CPUs' time that other processes used in the window, 0 to 1."""
        if self._window is None:
            return None
        # Counters step in hundredths of a second, so that a short window can add up to more than there is.
        return min(1.0, max(0.0, self._share(self._window.busy_s - self._window.own_s)))

    @property
    def stolen_ratio(self) -> float | None:
        """Share of our CPUs' time that the hypervisor gave to other machines."""
        return None if self._window is None else min(1.0, max(0.0, self._share(self._window.stolen_s)))

    def flags(self) -> tuple[str, ...]:
        """Return `contended` and `stolen` where the window was not ours."""
        load_flags = []
        if self.others_ratio is not None and self.others_ratio > CONTENDED_RATIO:
            load_flags.append("contended")
        if self.stolen_ratio is not None and self.stolen_ratio > STOLEN_RATIO:
            load_flags.append("stolen")
        return tuple(load_flags)

    @property
    def _window(self) -> CpuTimes | None:
        before, after = self._before, self._after
        if before is None or after is None or not self._cpus or after.wall_s - before.wall_s < SHORTEST_WINDOW_S:
            return None
        return CpuTimes(
            after.wall_s - before.wall_s,
            after.busy_s - before.busy_s,
            after.stolen_s - before.stolen_s,
            after.own_s - before.own_s,
        )

    def _share(self, seconds: float) -> float:
        assert self._window is not None
        return seconds / (self._window.wall_s * len(self._cpus))


def parse_stat(text: str, cpus: list[int]) -> tuple[float, float]:
    """Return (busy, stolen) seconds summed over `cpus` from the text of /proc/stat; raises `ValueError` if one is
    missing.

    Columns (man 5 proc): user nice system idle iowait irq softirq steal guest guest_nice, in clock ticks.
    Guest time is inside user time already; stolen time is nobody's work here and counted apart.
    """
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    cpu_names = {f"cpu{cpu}" for cpu in cpus}
    busy = stolen = 0
    for line in text.splitlines():
        name, *fields = line.split()
        if name in cpu_names:
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(value) for value in fields[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
            cpu_names.discard(name)
    if cpu_names:
        raise ValueError(f"no counters for {sorted(cpu_names)}")
    return busy * tick_s, stolen * tick_s
