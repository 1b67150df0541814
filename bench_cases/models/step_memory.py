"""Memory of a model and one of its steps: bytes held, peak bytes, and resident bytes of the process."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch


def measure_memory(step: Callable[[], Any], device: str) -> dict[str, int | None]:
    """Run `step` once under the allocator's own count; return bytes, None where nobody counts.

    peak_bytes: the largest sum of what the step allocates beside what was there before it. process_bytes: resident
    memory of the process (CPU), or memory the allocator holds on the device (CUDA), freed blocks given back.
    """
    step()  # lazy buffers of a first call are not the step's
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        peak_bytes = torch.cuda.max_memory_allocated() - before
        return {"peak_bytes": peak_bytes, "process_bytes": torch.cuda.memory_reserved()}
    return {"peak_bytes": _cpu_peak_bytes(step), "process_bytes": resident_bytes()}


def resident_bytes() -> int | None:
    """Return the process's resident memory after unused heap was given back; None where the system does not tell."""
    gc.collect()
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # another C library: its heap may keep freed blocks
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        except (OSError, ValueError, IndexError):
            return None
        import resource

        return pages * resource.getpagesize()
    return None


def _cpu_peak_bytes(step: Callable[[], Any]) -> int | None:
    """Return the highest sum of allocations less releases during the step, from the events of torch's own allocator."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step()
    recorder = getattr(profile, "profiler", None)
    results = getattr(recorder, "kineto_results", None)
    if results is None:
        return None
    changes = [
        (event.start_ns(), event.nbytes())
        for event in results.events()
        if event.name() == "[memory]" and event.device_type() == torch.autograd.DeviceType.CPU
    ]
    peak = allocated = 0
    for _, change in sorted(changes, key=lambda dated_change: dated_change[0]):
        allocated += change
        peak = max(peak, allocated)
    return peak if changes else None
