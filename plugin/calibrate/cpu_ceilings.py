"""This CPU's own ceilings and constants by micro-kernels: bandwidth, products per format, fixed costs, casts, scaling.

A roof must be an envelope: bandwidth is the best of several access mixes (copy, triad, read, write, matrix-vector),
because a roof from copy alone would be beaten by kernels that only read. Every page is written before it is read:
never-written pages are all one page, and reading them measures a cache (395 GB/s on a machine whose memory does 76).
No size here is one of a benchmark case (tested): a constant must not be fitted to what it will be asked to predict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from plugin.calibrate.readings import Readings
from plugin.timers.clock import time
from roofline_model.chips.machine_constants import Constant, constant_of_flops, constant_of_times
from roofline_model.core.units import format_time

_DRAM_MULTIPLE = 4
"""Each DRAM array is this many times the last-level cache: at twice the cache a victim cache still served half of
it.
"""
_LARGEST_ARRAY_BYTES = 1024**3
_DEFAULT_CACHE_BYTES = 32 * 1024**2
_CACHE_SHARE = 0.08
"""Cache arrays are this share of it: three of them together stay well inside."""
MATRIX_SIZES = (320, 704, 1216, 2176)
MATVEC_SIZE = 448
READ_COLUMNS = 4160
"""Multiples of 64 like real layers, so that kernels run at their best, but no layer's dimension."""

_GRAIN = 32768
"""at::internal::GRAIN_SIZE: an element-wise operation on so many elements stays on one thread."""
_MIXES = {
    "copy": "copy",
    "triad": "triad",
    "write": "write",
    "dot": "read",
    "sum": "read",
    "mv": "read",
    "mv-fp16": "read",
}
"""Micro-kernel → access mix; several kernels of one mix compete."""
_FLOOR_WORDS = {"call": "smallest call", "fork-join": "waking all threads"}
_CASTS = (("BF16", "FP32"), ("FP16", "FP32"), ("INT8", "BF16"), ("FP8_E4M3", "BF16"), ("FP8_E5M2", "BF16"))
_DTYPES = {
    "FP32": "float32",
    "BF16": "bfloat16",
    "FP16": "float16",
    "INT8": "int8",
    "FP8_E4M3": "float8_e4m3fn",
    "FP8_E5M2": "float8_e5m2",
}

Report = Callable[[str], None]


def measure_cpu_ceilings(
    cache_bytes: int | None,
    report: Report,
    budget_s: float = 12.0,
    *,
    free_bytes: int | None = None,
    with_scaling: bool = False,
) -> Readings:
    """Measure this CPU within about `budget_s` seconds; `report` gets one short line per stage.

    `free_bytes` limits the arrays to a machine with little memory; `with_scaling` adds bandwidth against active cores.
    """
    import torch

    began = time.perf_counter()
    cache = cache_bytes or _DEFAULT_CACHE_BYTES
    array_bytes = min(_DRAM_MULTIPLE * cache, _LARGEST_ARRAY_BYTES, (free_bytes or 2**63) // 8)
    share = budget_s / (14 if with_scaling else 11)
    with torch.inference_mode():
        times = _bandwidth_times(torch, array_bytes, share)
        report(f"memory {_gigabytes(_rates(times))}")
        cached = _rates(_bandwidth_times(torch, int(_CACHE_SHARE * cache), share / 2))
        peaks: dict[str, Constant] = {}
        for key in ("FP32", "BF16", "FP16", "INT8"):
            peak = _best_matmul(torch, key, share)
            if peak is not None:
                peaks[key] = peak
                report(f"{key} {peak.best_value / 1e9:.0f} GFLOP/s")
        floors = _floors(torch, share / 2)
        report(
            ", ".join(
                f"{_FLOOR_WORDS.get(name, name)} {format_time(floor.median_value, 2)}" for name, floor in floors.items()
            )
        )
        casts = _casts(torch, max(int(_CACHE_SHARE * cache / 4), 4 * _GRAIN), share / 2)
        report(
            "casts, per element: "
            + ", ".join(
                f"{name.replace('>', ' to ')} {format_time(cast.median_value, 2)}" for name, cast in casts.items()
            )
        )
        scaling = _scaling(torch, array_bytes, 3 * share) if with_scaling else {}
        if scaling:
            report("read " + ", ".join(f"{n} thr. {c.best_value / 1e9:.0f} GB/s" for n, c in scaling.items()))
        # Neighbours on the host come and go: a second look some seconds later finds the better of two moments.
        for name, (moved, seconds) in _bandwidth_times(torch, array_bytes, share).items():
            times[name] = (moved, times[name][1] + seconds)
        dram = _rates(times)
        full_scaling = scaling.get(str(torch.get_num_threads()))
        if full_scaling is not None and full_scaling.best_value > dram["read"].best_value:
            dram["read"] = full_scaling  # the same kernels on all threads, at another moment
        report(f"memory, second look: {_gigabytes(dram)}")
    # On a shared host a moment can be so bad that memory looks faster than the cache: then the cache was not seen.
    cached = {mix: rate for mix, rate in cached.items() if rate.best_value > 1.1 * _best(dram).best_value}
    report(f"cache {_gigabytes(cached)}" if cached else "no faster cache")
    return Readings(dram, cached, peaks, floors, casts, scaling, seconds=time.perf_counter() - began)


def _bandwidth_times(
    torch: Any, array_bytes: int, seconds: float, only: tuple[str, ...] = tuple(_MIXES)
) -> dict[str, tuple[float, list[float]]]:
    """Return (bytes moved per call, seconds of each call) of each micro-kernel on arrays of `array_bytes` each."""
    t = torch
    count = max(READ_COLUMNS, array_bytes // 4)
    a = t.ones(count, dtype=t.float32)
    b = t.full((count,), 2.0, dtype=t.float32)
    c = t.zeros(count, dtype=t.float32)
    c.fill_(1.0)  # write every page
    rows = count // READ_COLUMNS
    matrix = a[: rows * READ_COLUMNS].view(rows, READ_COLUMNS)
    vector = t.ones(READ_COLUMNS, dtype=t.float32)
    half = t.ones(2 * rows, READ_COLUMNS, dtype=t.float16)  # as many bytes, so that no mix fits into the cache
    half_vector = vector.to(t.float16)
    kernels: dict[str, tuple[Callable[[], object], int]] = {
        "copy": (lambda: c.copy_(a), 8 * count),
        "triad": (lambda: t.add(a, b, alpha=3.0, out=c), 12 * count),
        "write": (lambda: c.fill_(1.0), 4 * count),
        "dot": (lambda: t.dot(a, b), 8 * count),
        "sum": (lambda: a.sum(), 4 * count),
        "mv": (lambda: t.mv(matrix, vector), 4 * rows * READ_COLUMNS),
        "mv-fp16": (lambda: t.mv(half, half_vector), 4 * rows * READ_COLUMNS),
    }
    return {name: (kernels[name][1], _times(kernels[name][0], seconds / len(only))) for name in only}


def _rates(times: Mapping[str, tuple[float, list[float]]]) -> dict[str, Constant]:
    """Return the best kernel of each access mix."""
    rates: dict[str, Constant] = {}
    for name, (moved, seconds) in times.items():
        rate = constant_of_times(seconds, moved, kernel=name)
        mix = _MIXES[name]
        if mix not in rates or rate.best_value > rates[mix].best_value:
            rates[mix] = rate
    return rates


def _best_matmul(torch: Any, key: str, seconds: float) -> Constant | None:
    """Return the best product in one format, or None where this torch cannot run it.

    Sizes grow only while the next one fits into the time: without the instructions a format can be a hundred times
    slower than FP32. Both layouts of B are tried, because some formats have a fast kernel for one of them only.
    """
    dtype = getattr(torch, _DTYPES[key])
    product = torch._int_mm if key == "INT8" else torch.mm
    best: list[Constant | None] = [None, None]  # B as stored, B transposed
    for size in MATRIX_SIZES:
        a = torch.ones(size, size).to(dtype)
        b = torch.ones(size, size).to(dtype)
        for layout, operand in enumerate((b, b.t())):
            best_rate = best[layout]
            if best_rate is not None and 2 * size**3 / best_rate.best_value > seconds / 2:
                continue
            try:
                times = _times(partial(product, a, operand), seconds / 8)
            except RuntimeError:  # the format has no CPU kernel in this build
                continue
            best[layout] = _better(best_rate, constant_of_flops(times, 2 * size**3, kernel=f"{size} square"))
    return _better(_better(*best), _matvec(torch, dtype, seconds / 8))


def _matvec(torch: Any, dtype: Any, seconds: float) -> Constant | None:
    """Return a matrix-vector product from cache: without matrix instructions it can beat the products."""
    if not dtype.is_floating_point:
        return None
    matrix, vector = torch.ones(MATVEC_SIZE, MATVEC_SIZE).to(dtype), torch.ones(MATVEC_SIZE).to(dtype)
    times = _times(partial(torch.mv, matrix, vector), seconds)
    return constant_of_flops(times, 2 * MATVEC_SIZE**2, kernel="matrix-vector from cache")


def _floors(torch: Any, seconds: float) -> dict[str, Constant]:
    """Return the cost of the smallest call, and of waking all threads and waiting for them.

    The second is the difference between an operation of one grain per thread and one of a single grain: equal work
    per thread, measured in turns. It is left out where it drowns in the noise, or where there is one thread.
    """
    tiny, grain = torch.ones(1), torch.ones(_GRAIN)
    floors = {"call": constant_of_times([s / 200 for s in _times(_batch(tiny.add_, 200), seconds / 2)], kernel="add")}
    threads = torch.get_num_threads()
    if threads < 2:
        return floors
    serial, threaded = _batch(grain.add_, 20), _batch(torch.ones(threads * _GRAIN).add_, 20)
    differences: list[float] = []
    deadline = time.perf_counter() + seconds / 2
    while time.perf_counter() < deadline or len(differences) < 3:
        serial_s, all_of_them = _times(serial, 0.0, most=1), _times(threaded, 0.0, most=1)
        differences.append((all_of_them[0] - serial_s[0]) / 20)
    positive = [difference for difference in differences if difference > 0]
    if 2 * len(positive) > len(differences):
        floors["fork-join"] = constant_of_times(positive, kernel=f"add on {threads} threads")
    return floors


def _batch(add: Callable[[float], object], count: int) -> Callable[[], None]:
    """Return a call that adds `count` times: one alone is as short as the clock's own cost."""

    def run() -> None:
        for _ in range(count):
            add(1.0)

    return run


def _casts(torch: Any, count: int, seconds: float) -> dict[str, Constant]:
    """Return seconds per element of each conversion that this build has, operands in cache, all threads."""
    casts: dict[str, Constant] = {}
    for source, target in _CASTS:
        try:
            narrow = torch.ones(count).to(getattr(torch, _DTYPES[source]))
            wide = torch.empty(count, dtype=getattr(torch, _DTYPES[target]))
            times = _times(partial(wide.copy_, narrow), seconds / len(_CASTS))
        except (RuntimeError, AttributeError):  # no such type, or no such conversion in this build
            continue
        casts[f"{source}>{target}"] = constant_of_times([s / count for s in times], kernel="copy")
    return casts


def _scaling(torch: Any, array_bytes: int, seconds: float) -> dict[str, Constant]:
    """Return DRAM read bandwidth by number of threads: 1, 2, 4, … and all of them, in this process."""
    most = torch.get_num_threads()
    steps = sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})
    constants: dict[str, Constant] = {}
    try:
        for step in steps:
            torch.set_num_threads(step)
            constants[str(step)] = _best(
                _rates(_bandwidth_times(torch, array_bytes, seconds / len(steps), ("sum", "mv")))
            )
    finally:
        torch.set_num_threads(most)
    return constants


def _times(call: Callable[[], object], seconds: float, most: int = 10_000) -> list[float]:
    """Return the seconds of each repeated call after one that is not counted; at least three, at most `most`."""
    call()
    times: list[float] = []
    deadline = time.perf_counter() + seconds
    for _ in range(most):
        begin = time.perf_counter()
        call()
        end = time.perf_counter()
        times.append(max(end - begin, 1e-9))
        if end >= deadline and len(times) >= 3:
            break
    return times


def _better(constant: Constant | None, other: Constant | None) -> Constant | None:
    rates = [rate for rate in (constant, other) if rate is not None]
    return max(rates, key=lambda rate: rate.best_value, default=None)


def _best(rates: Mapping[str, Constant]) -> Constant:
    return max(rates.values(), key=lambda rate: rate.best_value)


def _gigabytes(rates: Mapping[str, Constant]) -> str:
    best = _best(rates)
    return f"{best.best_value / 1e9:.0f} GB/s ({best.kernel})"
