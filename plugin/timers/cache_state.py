"""Cache state `flushed`: overwrite twice the cache before a call, so that its operands come from memory.

The buffer is written and then read. What a write leaves in a cache is dirty: the timed kernel would have to write it
back to memory while it loads its own operands. Reading the buffer once leaves clean lines behind.
The CUDA part ran on an H200 (docs/theory/validation.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

from roofline_model.core.errors import InvalidValueError

FLUSH_MULTIPLE = 2
_CPU_FOLDER = Path("/sys/devices/system/cpu")
_LIMIT_PERSISTING_L2 = 0x06
"""cudaLimitPersistingL2CacheSize of enum cudaLimit."""


def make_flush(device: Literal["cpu", "cuda"], cache_bytes: float) -> Callable[[], None]:
    """Return a function that overwrites `FLUSH_MULTIPLE` × the cache; the buffer is allocated once, here.

    On CUDA it runs on the current stream and does not wait. On a CPU it uses torch's threads, each of which overwrites
    a share of the buffer, so that the private caches of all cores are replaced as well, and returns when it is done.
    Raises `InvalidValueError` for a size that is none.
    """
    if not (math.isfinite(cache_bytes) and cache_bytes > 0):
        raise InvalidValueError(f"the cache to flush must have a size above 0 bytes, got {cache_bytes!r}")
    return _cuda_flush(int(cache_bytes)) if device == "cuda" else _cpu_flush(int(cache_bytes))


def _cuda_flush(cache_bytes: int) -> Callable[[], None]:
    import torch

    buffer = torch.zeros(FLUSH_MULTIPLE * cache_bytes // 4 + 1, dtype=torch.int32, device="cuda")
    total = torch.zeros((), dtype=torch.int64, device="cuda")
    reset_persisting = persisting_reset(torch)

    def flush() -> None:
        reset_persisting()
        buffer.zero_()
        torch.sum(buffer, dim=0, dtype=torch.int64, out=total)

    return flush


def _cpu_flush(cache_bytes: int) -> Callable[[], None]:
    import torch

    size = cpu_flush_bytes(cache_bytes, torch.get_num_threads(), *_cache_layout())
    buffer = torch.zeros(size // 4 + 1, dtype=torch.float32)
    total = torch.zeros(())

    def flush() -> None:
        buffer.fill_(1.0)
        torch.sum(buffer, dim=0, out=total)

    return flush


def cpu_flush_bytes(cache_bytes: int, thread_count: int, last_level_count: int, private_bytes: int) -> int:
    """Return the bytes to overwrite: 2× every last-level cache, and 2× the private cache of each thread's core.

    A server chip has several last-level caches (`last_level_count`), each as big as `cache_bytes`; with many cores a
    thread's share of them can be smaller than its core's own cache (`private_bytes`).
    """
    return FLUSH_MULTIPLE * max(cache_bytes * max(1, last_level_count), private_bytes * max(1, thread_count))


def _cache_layout() -> tuple[int, int]:
    """Return how many last-level caches the usable CPUs have, and the largest private cache; (1, 0) where not told."""
    groups: set[str] = set()
    private_bytes = 0
    for cpu in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1):
        levels: list[tuple[int, str, int]] = []
        for index in (_CPU_FOLDER / f"cpu{cpu}" / "cache").glob("index*"):
            with contextlib.suppress(OSError, ValueError):
                size = re.fullmatch(r"(\d+)([KMG])", (index / "size").read_text().strip())
                shared = (index / "shared_cpu_list").read_text().strip()
                if size:
                    scale = {"K": 1024, "M": 1024**2, "G": 1024**3}[size[2]]
                    levels.append((int((index / "level").read_text()), shared, int(size[1]) * scale))
        if levels:
            last = max(levels)
            groups.add(last[1])
            private_bytes = max([private_bytes, *(size for level, _, size in levels if level < last[0])])
    return max(1, len(groups)), private_bytes


def persisting_reset(torch: Any) -> Callable[[], None]:
    """Return a call that gives persisting L2 lines back to the ordinary ones; it does nothing where nobody set any
    aside.

    Lines that a kernel marked as persisting survive an ordinary overwrite. torch.cuda.cudart() does not bind
    `cudaCtxResetPersistingL2Cache` (torch 2.13), so the CUDA runtime that torch has loaded is asked itself.
    """
    bound = getattr(torch.cuda.cudart(), "cudaCtxResetPersistingL2Cache", None)
    if bound is not None:
        return cast(Callable[[], None], bound)
    library = _loaded_runtime()
    if library is None:
        return lambda: None

    def reset() -> None:
        limit = ctypes.c_size_t(0)
        if library.cudaDeviceGetLimit(ctypes.byref(limit), _LIMIT_PERSISTING_L2) == 0 and limit.value == 0:
            return
        if library.cudaCtxResetPersistingL2Cache() != 0:
            library.cudaGetLastError()  # below compute capability 8.0: torch must not find this error later

    return reset


def _loaded_runtime(maps: Path = Path("/proc/self/maps")) -> Any:
    """Return the CUDA runtime library this process has loaded, or None: a second copy would have a state of its own."""
    with contextlib.suppress(OSError, AttributeError):
        match = re.search(r"(/\S*libcudart[^/\s]*\.so\S*)$", maps.read_text(), re.MULTILINE)
        if match:
            library = ctypes.CDLL(match[1])
            library.cudaCtxResetPersistingL2Cache  # noqa: B018  (raises AttributeError before CUDA 11)
            return library
    return None
