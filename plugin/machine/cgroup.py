"""The CPU limit of this container or unit, and how long it has stopped us: cgroup version 2, else version 1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """The tightest limit over this process's groups, and the longest time any of them has stood still. None: not told."""

    quota_ratio: float | None = None
    """CPUs' worth of time that may be used; None without a limit."""
    throttled_s: float | None = None
    """Cumulative; it adds up over the group's CPUs."""
    throttled_count: int | None = None
    """Periods in which the group was stopped."""


def read_quota(root: Path = Path("/")) -> CpuQuota:
    """Return the limits of this process's control groups, from its own up to the root."""
    ratios, times, counts = [], [], []
    for folder in _folders(root):
        ratio = _ratio(folder)
        if ratio is not None:
            ratios.append(ratio)
        statistics = dict(re.findall(r"^(\w+) (\d+)$", _read(folder / "cpu.stat") or "", re.MULTILINE))
        if "nr_throttled" in statistics:
            counts.append(int(statistics["nr_throttled"]))
        if "throttled_usec" in statistics:  # version 2
            times.append(int(statistics["throttled_usec"]) / 1e6)
        elif "throttled_time" in statistics:  # version 1, nanoseconds
            times.append(int(statistics["throttled_time"]) / 1e9)
    return CpuQuota(min(ratios, default=None), max(times, default=None), max(counts, default=None))


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's CPU groups; a path that lies outside the container's view is cut to its root."""
    mount = root / "sys/fs/cgroup"
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            base = mount
        elif "cpu" in controllers.split(","):
            base = next((mount / name for name in (controllers, "cpu") if (mount / name).is_dir()), mount / "cpu")
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for length in range(len(parts), -1, -1):
            folder = base.joinpath(*parts[:length])
            if (folder / "cpu.stat").is_file():
                yield folder


def _ratio(folder: Path) -> float | None:
    """Return the group's own limit as a number of CPUs, or None."""
    both = (_read(folder / "cpu.max") or "").split()
    if not both:
        both = [_read(folder / "cpu.cfs_quota_us") or "", _read(folder / "cpu.cfs_period_us") or ""]
    if len(both) != 2 or not both[0].isdecimal() or not both[1].isdecimal() or int(both[1]) == 0:
        return None  # `max` and -1 are no limit
    return int(both[0]) / int(both[1])


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
