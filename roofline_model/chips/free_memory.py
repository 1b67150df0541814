"""Memory that can still be used: of a machine, or of its GPU. The one answer that rotation, guards, ceilings and
loading ask for.

No torch here: a caller that has it hands `torch.cuda` over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def free_device_bytes(cuda: Any) -> int:
    """Return the bytes that kernels on the current GPU can still be given; `cuda` is `torch.cuda`.

    Counts: what the driver calls free, and what torch keeps of tensors that are gone and hands out again. Where memory
    is shared with the CPU (GB10, Thor, Orin) the driver counts the page cache as used, which the system gives back when
    asked: the system's own figure stands, if it is larger. Source: CUDA's note on cudaMemGetInfo for Tegra and DGX
    Spark.
    """
    free, _ = cuda.mem_get_info()
    if getattr(cuda.get_device_properties(cuda.current_device()), "is_integrated", 0):
        free = max(free, free_system_bytes() or 0)
    reserved, allocated = getattr(cuda, "memory_reserved", None), getattr(cuda, "memory_allocated", None)
    cached_bytes = max(0, int(reserved()) - int(allocated())) if reserved is not None and allocated is not None else 0
    return int(free) + cached_bytes


def free_system_bytes() -> int | None:
    """Return the bytes that can be used without swapping, of the machine or of the container if that has less; None:
    not told.

    A container's page cache does not count as used: the kernel takes it back first.
    """
    of_machine = _available_bytes()
    of_container = _container_bytes()
    figures = [figure for figure in (of_machine, of_container) if figure is not None]
    return min(figures, default=None)


def _available_bytes() -> int | None:
    match = re.search(r"^MemAvailable:\s*(\d+) kB", _read(MEMINFO) or "", re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _container_bytes() -> int | None:
    limit, used = (_read(CGROUP / name) for name in ("memory.max", "memory.current"))
    if limit is None or used is None or not limit.isdecimal() or not used.isdecimal():
        return None  # no cgroup v2 here, or no limit ("max")
    return max(0, int(limit) - int(used) + _counters(CGROUP / "memory.stat").get("inactive_file", 0))


def _counters(path: Path) -> Mapping[str, int]:
    return {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", _read(path) or "", re.MULTILINE)}


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
