"""This machine's CPU as a `Device`: measured ceilings and constants, cached by a fingerprint of everything that moves
them.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from plugin.calibrate.cpu_ceilings import measure_cpu_ceilings
from plugin.calibrate.readings import TABLES, Readings
from plugin.machine.cpu_state import LoadWatch, cpu_facts
from plugin.machine.facts import Machine
from roofline_model.chips.curve import TimedCall, kernel_curves
from roofline_model.chips.free_memory import free_system_bytes
from roofline_model.chips.hardware import ComputePath, Device, MemoryLevel, Quantity, doubts_of
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.errors import DefinitionError
from roofline_model.core.finding import advice_text, finding, short_text, unsupported
from roofline_model.core.units import counted
from roofline_model.core.whole_file import write_whole
from roofline_model.operators.case import short_hash

CEILINGS_VERSION = 2
"""Changes whenever the micro-kernels would measure something else. 2: sizes that no benchmark case has; spreads;
constants.
"""

FIRST_BUDGET_S = 12.0
"""What `--hw auto` spends on a machine it does not know yet."""
FULL_BUDGET_S = 40.0
"""What a longer look spends on the ceilings, where nobody says otherwise."""

CALIBRATION_SHAPES = "calibration"
"""The set of shapes at which `roofline calibrate` times the kernels."""

Report = Callable[[str], None]

# What a CPU does with formats it has no kernels for; torch widens them first.
_WIDENED = {
    "dequantize": (
        "INT4",
        "INT2",
        "NF4",
        "NVFP4",
        "MXFP4",
        "MXFP6_E3M2",
        "MXFP6_E2M3",
        "MXFP8_E4M3",
        "MXFP8_E5M2",
        "MXINT8",
    ),
    "emulated": ("FP8_E4M3", "FP8_E5M2"),
}


def cpu_device(
    machine: Machine,
    report: Report,
    *,
    refresh: bool = False,
    forget: bool = False,
    budget_s: float = FIRST_BUDGET_S,
    with_scaling: bool = False,
) -> Device:
    """Return this CPU's profile from the cache, or measure it now (about `budget_s` seconds) and cache it.

    `refresh` measures in any case. A ceiling is the best this machine has shown while quiet: a later, lower value (a
    busy neighbour, throttling) does not lower it, unless `forget` starts anew. Medians and spreads are the newest.
    Raises `UnsupportedError` as `merge` does.
    """
    file = cache_file("cpu", cpu_fingerprint(machine))
    with one_calibration_at_a_time(file):
        cached = read_cache(file)
        if cached is not None and not refresh and not forget:
            return build_device(machine, cached)
        report(short_text(finding("measuring-ceilings", budget_s=budget_s)))
        with LoadWatch() as load:
            readings = measure_cpu_ceilings(
                machine.cache_bytes,
                report,
                budget_s,
                free_bytes=free_system_bytes(),
                with_scaling=with_scaling,
            )
        calibration = merge(_calibration(machine, readings, load), cached, report, forget=forget)
        write_cache(file, calibration, report)
        return build_device(machine, calibration)


def keep_kernel_times(
    machine: Machine,
    ceilings: Calibration,
    calls: Iterable[TimedCall],
    report: Report,
    *,
    disturbed_by: tuple[str, ...] = (),
    forget: bool = False,
) -> Device:
    """Add one look at this CPU's kernels to its cached calibration and return the profile; `forget` drops earlier
    looks.

    `ceilings`: what was just measured, for a machine that keeps no cache. Raises `UnsupportedError` for a look that
    other work disturbed, and keeps nothing of it: that makes times longer by any factor.
    """
    file = cache_file("cpu", cpu_fingerprint(machine))
    with one_calibration_at_a_time(file):
        calibration = read_cache(file) or ceilings
        if disturbed_by:
            raise unsupported(finding("look-left-out", "kernels", disturbed_by=disturbed_by))
        is_first = forget or bool(calibration.kernels_disturbed_by)
        kernels = kernel_curves(calls, () if is_first else calibration.kernels)
        calibrated = replace(calibration, kernels=kernels, kernels_disturbed_by=())
        write_cache(file, calibrated, report)
        return build_device(machine, calibrated)


def cached_cpu_device(machine: Machine) -> Device | None:
    """Return this CPU's profile if its ceilings were measured before, else None.

    Never measures, never imports torch.
    """
    calibration = read_cache(cache_file("cpu", cpu_fingerprint(machine)))
    return None if calibration is None else build_device(machine, calibration)


def calibration_note(device: Device, *, is_timing_kernels: bool = False) -> str:
    """Return the header line on the measured constants in use; empty without any.

    Of a CPU whose kernels nobody timed it says so: ceilings alone are no expected times, and nothing else would tell a
    newcomer. `is_timing_kernels`: this very session is the one that times them.
    """
    text = calibration_text(device)
    return (
        f"{text}; {advice_text(finding('ceilings-alone'))}"
        if has_ceilings_only(device) and not is_timing_kernels and not doubts_of(device)
        else text
    )


def calibration_text(device: Device) -> str:
    """Return when and with what a chip's constants were measured: `calibrated 2026-11-21 (driver 580.142, torch
    2.13.0+cu130)`.
    """
    calibration = device.calibration
    if calibration is None:
        return ""
    facts = [f"{name} {calibration.conditions[name]}" for name in ("driver", "torch") if name in calibration.conditions]
    facts += [calibration.threads_text] if calibration.threads_text else []
    return f"calibrated {calibration.date}" + (f" ({', '.join(facts)})" if facts else "")


def has_kernel_times(device: Device | None) -> bool:
    """Return whether kernels of this CPU have expected times: ceilings and kernels were measured while it was quiet."""
    return (
        device is not None
        and device.calibration is not None
        and bool(device.calibration.kernels)
        and not doubts_of(device)
    )


def has_ceilings_only(device: Device) -> bool:
    """Return whether a CPU's ceilings were measured here and none of its kernels was timed."""
    calibration = device.calibration
    return (
        device.kind == "cpu"
        and calibration is not None
        and calibration.provenance == "measured-here"
        and not calibration.kernels
    )


def cpu_fingerprint(machine: Machine) -> str:
    """Return sixteen hex digits over everything that moves a CPU's ceilings."""
    return short_hash(
        [
            CEILINGS_VERSION,
            machine.cpu_name,
            machine.cpu_count,
            machine.thread_count,
            machine.cache_bytes,
            machine.memory_bytes,
            machine.torch_version,
            *([machine.cpu_model] if machine.cpu_model else []),
        ]
    )


def _calibration(machine: Machine, readings: Readings, load: LoadWatch) -> Calibration:
    return Calibration(
        measured_at=now_utc(),
        subject=machine.cpu_name,
        kind="cpu",
        cache_capacity_bytes=None if machine.cache_bytes is None else float(machine.cache_bytes),
        conditions=known_conditions({**_cpu_conditions(machine), **load_conditions(load)}),
        disturbed_by=load.flags(),
        fingerprint=cpu_fingerprint(machine),
        **readings.tables,  # type: ignore[arg-type]  # every table's name is a field that holds one
    )


def now_utc() -> str:
    """Return the moment as it is stored with a calibration: UTC to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def known_conditions(facts: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    """Return the known conditions as plain values; unknown ones are left out."""
    return {name: value for name, value in facts.items() if isinstance(value, str | int | float | bool) and value != ""}


def load_conditions(load: LoadWatch) -> dict[str, float | None]:
    """Return the load of other processes while measuring, as shares of this process's CPUs."""
    shares = {"others_ratio": load.others_ratio, "stolen_ratio": load.stolen_ratio}
    return {name: None if share is None else round(share, 4) for name, share in shares.items()}


def _cpu_conditions(machine: Machine) -> dict[str, Any]:
    facts = cpu_facts()
    cpu_conditions = ("governor", "boost", "smt", "cpu_clock_hz", "cpu_quota_ratio", "hypervisor")
    return {
        "torch": machine.torch_version,
        "threads": machine.thread_count,
        **{name: facts[name] for name in cpu_conditions},
    }


def merge(new: Calibration, stored: Calibration | None, report: Report, *, forget: bool = False) -> Calibration:
    """Return the newest measuring with the best of both as ceilings, or with `forget` the newest alone.

    Raises `UnsupportedError` where a busy machine would join, or replace, what a quiet one showed.
    """
    if new.disturbed_by and stored is not None and not stored.disturbed_by:
        raise unsupported(finding("look-left-out", "ceilings", disturbed_by=new.disturbed_by))
    if new.disturbed_by:
        report(advice_text(finding("ceilings-disturbed", disturbed_by=new.disturbed_by)))
    if stored is None or forget:
        return new
    kernels = {"kernels": stored.kernels, "kernels_disturbed_by": stored.kernels_disturbed_by}
    if stored.disturbed_by and not new.disturbed_by:
        return replace(new, **kernels)  # type: ignore[arg-type]  # both are fields
    tables: dict[str, dict[str, Constant]] = {}
    for name in TABLES:
        new_value, stored_value = getattr(new, name), getattr(stored, name)
        tables[name] = {
            key: new_value[key].merged(stored_value[key])
            if key in new_value and key in stored_value
            else new_value.get(key) or stored_value[key]
            for key in dict.fromkeys([*new_value, *stored_value])
        }
    return replace(new, **kernels, **tables)  # type: ignore[arg-type]  # every table's name is a field that holds one


def build_device(machine: Machine, calibration: Calibration) -> Device:
    """Return the `Device` of a measured CPU: its ceilings as roofs, its calibration beside them."""
    source = (
        f"micro-kernels of roofline-bench {CEILINGS_VERSION}, torch {machine.torch_version}, "
        f"{counted(machine.thread_count, 'thread')}"
    )

    def measured(value: float, unit: str, note: str = "") -> Quantity:
        return Quantity(value, unit, "measured-here", source=source, note=note)

    best = calibration.best_bandwidth()
    assert best is not None  # a calibration without bandwidth is refused where it is read
    _, dram = best
    return Device(
        key=f"cpu-{re.sub(r'[^a-z0-9.]+', '-', machine.cpu_name.lower()).strip('-')[:40] or 'unknown'}-{machine.thread_count}t",
        name=f"{machine.cpu_name}, {counted(machine.thread_count, 'thread')}",
        kind="cpu",
        bandwidth=measured(dram.best_value, "B/s", f"best of read, write, copy and triad: {dram.kernel}"),
        paths=_compute_paths(calibration, measured),
        capacity=None
        if machine.memory_bytes is None
        else Quantity(machine.memory_bytes, "B", "measured-here", "/proc/meminfo"),
        levels=_levels(calibration, dram, measured),
        chip={"core_count": Quantity(machine.thread_count, "", "measured-here", "threads torch uses for one kernel")},
        notes=("Ceilings were measured on this machine; another machine of the same model may differ.",),
        calibration=calibration,
    )


def _compute_paths(calibration: Calibration, measured: Callable[..., Quantity]) -> dict[str, ComputePath]:
    note = "best of square products and a matrix-vector product from cache"
    paths = {
        key: ComputePath(key, "native", key, measured(peak.best_value, "FLOP/s", f"{note}: {peak.kernel}"))
        for key, peak in calibration.peaks.items()
    }
    for kind, keys in _WIDENED.items():
        wide = "FP32" if kind == "emulated" else "BF16" if "BF16" in paths else "FP32"
        for key in keys:
            reason = f"no CPU unit for {key}: computed in {wide}"
            paths[key] = ComputePath(key, kind, wide, paths[wide].dense, reason=reason)  # type: ignore[arg-type]
    return paths


def _levels(calibration: Calibration, dram: Constant, measured: Callable[..., Quantity]) -> tuple[MemoryLevel, ...]:
    if not calibration.cache_capacity_bytes:
        return ()
    best = calibration.best_bandwidth(of_cache=True)
    # Memory may have shown a better moment since: a cache is never told to be slower than what is behind it.
    is_faster = best is not None and best[1].best_value > dram.best_value
    bandwidth = measured(best[1].best_value, "B/s", best[1].kernel) if best is not None and is_faster else None
    return (MemoryLevel("LLC", calibration.cache_capacity_bytes, bandwidth),)


# The cache -------------------------------------------------------------------------------------------------------


def cache_file(kind: str, fingerprint: str) -> Path:
    """Return where the calibration of one machine and software is kept: $ROOFLINE_CACHE, else the user's cache
    folder.
    """
    base = os.environ.get("ROOFLINE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "roofline-bench"
    )
    return Path(base) / f"{kind}-{fingerprint}.json"


def read_cache(file: Path) -> Calibration | None:
    """Return the stored calibration; None if it is absent, damaged or of another version: measure anew."""
    try:
        stored = json.loads(file.read_text())
        calibration = Calibration.from_dict(stored["calibration"], str(file))
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError, DefinitionError):
        return None
    if file.name.startswith("cpu-"):
        return calibration if calibration.kind == "cpu" and "FP32" in calibration.peaks else None
    return calibration if calibration.kind == "cuda" else None


def write_cache(file: Path, calibration: Calibration, report: Report) -> None:
    """Write the calibration for the next run; without a writable home the machine measures each time, with a
    warning.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Two runs at once: the last one wins, neither reads a half-written file.
        write_whole(file, json.dumps({"calibration": calibration.to_dict()}, indent=1))
    except OSError as error:
        report(advice_text(finding("calibration-unwritable", folder=str(file.parent), error=error.strerror or "")))


@contextlib.contextmanager
def one_calibration_at_a_time(file: Path) -> Iterator[None]:
    """Let the second of two processes wait and read what the first measured, instead of both disturbing each other."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.with_suffix(".lock").open("w")
    except OSError:  # nowhere to lock, nowhere to cache
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
