"""This machine's CPU as a `Device`: measured ceilings, cached by a fingerprint of everything that moves them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from plugin.ceilings import Ceilings, measure_cpu_ceilings
from plugin.load import LoadWatch
from plugin.machine import Machine
from roofline_model.case import short_hash
from roofline_model.hardware import ComputePath, Device, MemoryLevel, Quantity

CEILINGS_VERSION = 1
"""Changes whenever the micro-kernels would measure something else."""

BUSY_NOTE = "Ceilings may be too low: other work ran while they were measured"

# What a CPU does with formats it has no kernels for; torch widens them first.
_WIDENED = {
    "dequantize": ("INT4", "INT2", "NF4", "NVFP4", "MXFP4", "MXFP6_E3M2", "MXFP6_E2M3", "MXFP8_E4M3", "MXFP8_E5M2", "MXINT8"),
    "emulated": ("FP8_E4M3", "FP8_E5M2"),
}  # fmt: skip


def cpu_device(
    machine: Machine, report: Callable[[str], None], *, refresh: bool = False, forget: bool = False
) -> Device:
    """Return this CPU's profile from the cache, or measure it now (about 12 s) and cache it.

    `refresh` measures in any case. A ceiling is the best this machine has shown: a later, lower value (a busy
    neighbour, throttling) does not lower it, unless `forget` starts anew.
    """
    with _one_calibration_at_a_time(machine):
        known = None if forget else _read_cache(machine)
        if known is not None and not refresh:
            return build_device(machine, known)
        return _calibrate(machine, report, known)


def _calibrate(machine: Machine, report: Callable[[str], None], known: Ceilings | None) -> Device:
    report("measuring this CPU's ceilings, once (about 12 s)")
    with LoadWatch() as load:
        ceilings = measure_cpu_ceilings(machine.cache_bytes, report)
    ceilings = replace(ceilings, disturbed_by=load.flags())
    if ceilings.disturbed_by:
        report(
            f"this machine was busy ({', '.join(load.flags())}): ceilings may be too low; `roofline calibrate` measures again"
        )
    ceilings = ceilings if known is None else _envelope(ceilings, known)
    _write_cache(machine, ceilings)
    return build_device(machine, ceilings)


def cached_cpu_device(machine: Machine) -> Device | None:
    """Return this CPU's profile if its ceilings were measured before, else None. Never measures, never imports torch."""
    ceilings = _read_cache(machine)
    return None if ceilings is None else build_device(machine, ceilings)


def _read_cache(machine: Machine) -> Ceilings | None:
    try:
        stored = json.loads(_cache_file(machine).read_text())["ceilings"]
        ceilings = Ceilings(**{**stored, "disturbed_by": tuple(stored["disturbed_by"])})
        rates = [ceilings.dram_bytes_per_s, *ceilings.flops_per_s.values()]
        rates += [rate for rate in (ceilings.cache_bytes_per_s, ceilings.cache_capacity_bytes) if rate is not None]
        usable = "FP32" in ceilings.flops_per_s and all(isinstance(rate, float) and 1e3 < rate < 1e18 for rate in rates)
        return ceilings if usable else None
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # absent, or written by another version: measure again
        return None


def _envelope(new: Ceilings, known: Ceilings) -> Ceilings:
    """Return the better of each."""
    memory = new if new.dram_bytes_per_s >= known.dram_bytes_per_s else known
    caches = [rate for rate in (new.cache_bytes_per_s, known.cache_bytes_per_s) if rate is not None]
    keys = dict.fromkeys([*new.flops_per_s, *known.flops_per_s])
    return replace(
        new,
        dram_bytes_per_s=memory.dram_bytes_per_s,
        dram_kernel=memory.dram_kernel,
        cache_bytes_per_s=max(caches, default=None),
        disturbed_by=new.disturbed_by if known.disturbed_by else (),  # one quiet look is enough
        flops_per_s={key: max(new.flops_per_s.get(key, 0.0), known.flops_per_s.get(key, 0.0)) for key in keys},
    )


def build_device(machine: Machine, ceilings: Ceilings) -> Device:
    """Return the `Device` of measured ceilings."""
    source = f"micro-kernels of roofline-bench {CEILINGS_VERSION}, torch {machine.torch_version}, {machine.thread_count} threads"

    def measured(value: float, unit: str, note: str = "") -> Quantity:
        return Quantity(value, unit, "measured-here", source, note=note)

    paths = {
        key: ComputePath(
            key,
            "native",
            key,
            measured(rate, "FLOP/s", "best of square products and a matrix-vector product from cache"),
        )
        for key, rate in ceilings.flops_per_s.items()
    }
    for kind, keys in _WIDENED.items():
        wide = "FP32" if kind == "emulated" else "BF16" if "BF16" in paths else "FP32"
        for key in keys:
            reason = f"no CPU unit for {key}: computed in {wide}"
            paths[key] = ComputePath(key, kind, wide, paths[wide].dense, reason=reason)  # type: ignore[arg-type]
    levels: tuple[MemoryLevel, ...] = ()
    if ceilings.cache_capacity_bytes:
        bandwidth = None if ceilings.cache_bytes_per_s is None else measured(ceilings.cache_bytes_per_s, "B/s")
        levels = (MemoryLevel("LLC", ceilings.cache_capacity_bytes, bandwidth),)
    return Device(
        key=f"cpu-{re.sub(r'[^a-z0-9.]+', '-', machine.cpu_name.lower()).strip('-')[:40] or 'unknown'}-{machine.thread_count}t",
        name=f"{machine.cpu_name}, {machine.thread_count} threads",
        kind="cpu",
        bandwidth=measured(
            ceilings.dram_bytes_per_s,
            "B/s",
            f"best of copy, triad, dot, sum and matrix-vector: {ceilings.dram_kernel}",
        ),
        paths=paths,
        capacity=None
        if machine.memory_bytes is None
        else Quantity(machine.memory_bytes, "B", "measured-here", "/proc/meminfo"),
        levels=levels,
        chip={"core_count": Quantity(machine.thread_count, "", "measured-here", "threads torch uses for one kernel")},
        notes=(
            "Ceilings were measured on this machine; another machine of the same model may differ.",
            *([f"{BUSY_NOTE} ({', '.join(ceilings.disturbed_by)})"] if ceilings.disturbed_by else []),
        ),
    )


def _cache_file(machine: Machine) -> Path:
    base = os.environ.get("ROOFLINE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "roofline-bench"
    )
    fingerprint = short_hash(
        [
            CEILINGS_VERSION,
            machine.cpu_name,
            machine.cpu_count,
            machine.thread_count,
            machine.cache_bytes,
            machine.memory_bytes,
            machine.torch_version,
        ]
    )
    return Path(base) / f"cpu-{fingerprint}.json"


@contextlib.contextmanager
def _one_calibration_at_a_time(machine: Machine) -> Iterator[None]:
    """Let the second of two processes wait and read what the first measured, instead of both disturbing each other."""
    file = _cache_file(machine).with_suffix(".lock")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.open("w")
    except OSError:  # nowhere to lock, nowhere to cache
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write_cache(machine: Machine, ceilings: Ceilings) -> None:
    """Keep the ceilings for the next run; a machine without a writable home measures again each time."""
    file = _cache_file(machine)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.tmp")
        partial.write_text(json.dumps({"cpu": machine.cpu_name, "ceilings": asdict(ceilings)}, indent=1))
        partial.replace(file)  # two runs at once: the last one wins, neither reads a half-written file
    except OSError:
        return
