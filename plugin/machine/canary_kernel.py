"""The canary's kernel: a matrix-vector product that reads a matrix larger than the cache, the same on every run.

A matrix-vector product, because the slow state it must find leaves copies alone (GB10). On a CPU in a suite that does
not use torch it is a copy by numpy, so that torch is not loaded for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

CALLS = 10
_MIN_BYTES = 64 * 1024**2
_MAX_BYTES = 512 * 1024**2
_COLUMNS = 4096


def make_canary_kernel(device: str, cache_bytes: float | None) -> tuple[str, Callable[[], float]]:
    """Return the kernel's name and a function that runs it `CALLS` times and returns the fastest call's seconds.

    The matrix takes twice the cache, from 64 to 512 MiB; it is made by the first call and kept.
    """
    size = min(_MAX_BYTES, max(_MIN_BYTES, 2 * int(cache_bytes or 0)))
    if device == "cuda":
        rows = size // (2 * _COLUMNS)
        return f"gemv-bf16-{rows}x{_COLUMNS}-cuda", _TorchGemv(rows, "cuda", "bfloat16")
    if "torch" in sys.modules:
        rows = size // (4 * _COLUMNS)
        return f"gemv-fp32-{rows}x{_COLUMNS}-torch", _TorchGemv(rows, "cpu", "float32")
    return f"copy-{size // 1024**2}MiB-numpy", _NumpyCopy(size)


class _TorchGemv:
    def __init__(self, rows: int, device: str, dtype: str) -> None:
        self._rows, self._device, self._dtype = rows, device, dtype
        self._operands: tuple[Any, Any] | None = None

    def __call__(self) -> float:
        import torch

        if self._operands is None:
            dtype = getattr(torch, self._dtype)
            matrix = torch.ones(self._rows, _COLUMNS, dtype=dtype, device=self._device)
            self._operands = matrix, torch.ones(_COLUMNS, dtype=dtype, device=self._device)
            torch.mv(*self._operands)  # lazy loading
        matrix, vector = self._operands
        if self._device == "cpu":
            return _fastest(lambda: torch.mv(matrix, vector))
        from plugin.timers.cuda import CudaEventTimer

        timer = CudaEventTimer.create()
        timer.begin_case("canary", None)
        return min(timer.sample(torch.mv, [(matrix, vector)]) for _ in range(CALLS))


class _NumpyCopy:
    def __init__(self, size: int) -> None:
        self._size = size
        self._arrays: tuple[Any, Any] | None = None

    def __call__(self) -> float:
        import numpy as np

        if self._arrays is None:
            self._arrays = np.ones(self._size, np.uint8), np.ones(self._size, np.uint8)  # every page written
        source, target = self._arrays
        return _fastest(lambda: np.copyto(target, source))


def _fastest(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)
