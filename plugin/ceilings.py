"""This CPU's own ceilings by micro-kernels: DRAM and cache bandwidth, and the best matrix product per format.

A roof must be an envelope: bandwidth is the best of several access mixes (copy, triad, read, dot, matrix-vector),
because a roof from copy alone would be beaten by kernels that only read. Every page is written before it is read:
never-written pages are all one page, and reading them measures a cache (395 GB/s on a machine whose memory does 76).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

_DRAM_MULTIPLE = 4
"""Each DRAM array is this many times the last-level cache: at twice the cache a victim cache still served half of it."""
_LARGEST_ARRAY_BYTES = 1024**3
_DEFAULT_CACHE_BYTES = 32 * 1024**2
_CACHE_SHARE = 0.08
"""Cache arrays are this share of it: three of them together stay well inside."""
_MATRIX_SIZES = (256, 512, 1024, 2048)

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What the micro-kernels reached, SI."""

    dram_bytes_per_s: float
    dram_kernel: str
    cache_bytes_per_s: float | None
    cache_capacity_bytes: float | None
    flops_per_s: dict[str, float]
    """Best matrix product (square, or matrix times vector) by format key."""
    seconds: float
    disturbed_by: tuple[str, ...] = ()
    """Flags of `load.LoadWatch` while measuring: contended, stolen."""


def measure_cpu_ceilings(cache_bytes: int | None, report: Report, budget_s: float = 12.0) -> Ceilings:
    """Measure this CPU within about `budget_s` seconds; `report` gets one short line per stage."""
    import torch

    began = time.perf_counter()
    cache = cache_bytes or _DEFAULT_CACHE_BYTES
    share = budget_s / 10
    with torch.inference_mode():
        dram, kernel = _best_bandwidth(torch, min(_DRAM_MULTIPLE * cache, _LARGEST_ARRAY_BYTES), share)
        report(f"memory {dram / 1e9:.0f} GB/s ({kernel})")
        cached, _ = _best_bandwidth(torch, int(_CACHE_SHARE * cache), share / 2)
        usable = cached if cached > 1.1 * dram else None
        report("no cache faster than memory was seen" if usable is None else f"cache {usable / 1e9:.0f} GB/s")
        rates: dict[str, float] = {}
        for key in ("FP32", "BF16", "FP16", "INT8"):
            rate = _best_matmul(torch, key, share)
            if rate is not None:
                rates[key] = rate
                report(f"{key} {rate / 1e9:.0f} GFLOP/s")
        # Neighbours on the host come and go: a second look some seconds later finds the better of two moments.
        again, kernel_again = _best_bandwidth(torch, min(_DRAM_MULTIPLE * cache, _LARGEST_ARRAY_BYTES), share)
        if again > dram:
            dram, kernel = again, kernel_again
            report(f"memory {dram / 1e9:.0f} GB/s ({kernel}), second look")
    return Ceilings(dram, kernel, usable, float(cache) if cache_bytes else None, rates, time.perf_counter() - began)


def _best_bandwidth(torch: Any, array_bytes: int, seconds: float) -> tuple[float, str]:
    """Return the best bandwidth over several access mixes on arrays of `array_bytes` each."""
    t = torch
    count = max(4096, array_bytes // 4)
    a = t.ones(count, dtype=t.float32)
    b = t.full((count,), 2.0, dtype=t.float32)
    c = t.zeros(count, dtype=t.float32)
    c.fill_(1.0)  # write every page
    rows = count // 4096
    matrix = a[: rows * 4096].view(rows, 4096)
    vector = t.ones(4096, dtype=t.float32)
    half = t.ones(2 * rows, 4096, dtype=t.float16)  # as many bytes, so that no mix fits into the cache
    half_vector = vector.to(t.float16)
    mixes: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (lambda: c.copy_(a), 8 * count),
        "triad": (lambda: t.add(a, b, alpha=3.0, out=c), 12 * count),
        "dot": (lambda: t.dot(a, b), 8 * count),
        "sum": (lambda: a.sum(), 4 * count),
        "mv": (lambda: t.mv(matrix, vector), 4 * rows * 4096),
        "mv-fp16": (lambda: t.mv(half, half_vector), 4 * rows * 4096),
    }
    rates = {name: moved / _best_time(call, seconds / len(mixes)) for name, (call, moved) in mixes.items()}
    best = max(rates, key=lambda name: rates[name])
    return rates[best], best


def _best_matmul(torch: Any, key: str, seconds: float) -> float | None:
    """Return the best rate of products in one format, or None where this torch cannot run it.

    Sizes grow only while the next one fits into the time: without the instructions a format can be a hundred times
    slower than FP32. Both layouts of B are tried, because some formats have a fast kernel for one of them only.
    """
    dtype = getattr(torch, {"FP32": "float32", "BF16": "bfloat16", "FP16": "float16", "INT8": "int8"}[key])
    product = torch._int_mm if key == "INT8" else torch.mm
    best = [0.0, 0.0]  # B as stored, B transposed
    for size in _MATRIX_SIZES:
        a = torch.ones(size, size).to(dtype)
        b = torch.ones(size, size).to(dtype)
        for layout, operand in enumerate((b, b.t())):
            if best[layout] and 2 * size**3 / best[layout] > seconds / 2:
                continue
            try:
                elapsed = _best_time(partial(product, a, operand), seconds / 8)
            except RuntimeError:  # the format has no CPU kernel in this build
                continue
            best[layout] = max(best[layout], 2 * size**3 / elapsed)
    return max(*best, _best_matvec(torch, dtype, seconds / 8)) or None


def _best_matvec(torch: Any, dtype: Any, seconds: float) -> float:
    """Return the rate of a matrix-vector product from cache: without matrix instructions it can beat the products."""
    size = _MATRIX_SIZES[1]
    matrix, vector = torch.ones(size, size).to(dtype), torch.ones(size).to(dtype)
    if not dtype.is_floating_point:
        return 0.0
    return 2 * size**2 / _best_time(partial(torch.mv, matrix, vector), seconds)


def _best_time(call: Callable[[], object], seconds: float) -> float:
    """Return the shortest of repeated calls: a ceiling is what the machine can do when nobody disturbs it."""
    call()
    best = float("inf")
    deadline = time.perf_counter() + seconds
    for _ in range(10_000):
        begin = time.perf_counter()
        call()
        end = time.perf_counter()
        best = min(best, end - begin)
        if end >= deadline:
            break
    return best
