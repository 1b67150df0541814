"""A GPU's measured constants beside its datasheet: the ideal keeps the speed of light, what was reached stands next to
it.

The micro-kernels are in `cuda_ceilings.py`; what an H200 gave is in examples/runs/h200-sxm/calibrated.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from plugin.calibrate.cpu_calibration import (
    CEILINGS_VERSION,
    FULL_BUDGET_S,
    cache_file,
    known_conditions,
    load_conditions,
    merge,
    now_utc,
    one_calibration_at_a_time,
    read_cache,
    write_cache,
)
from plugin.calibrate.readings import Readings
from plugin.machine.cpu_state import LoadWatch
from plugin.machine.facts import Machine
from plugin.sensors.nvml import NvmlDevice, open_nvml_device
from roofline_model.chips.hardware import ComputePath, Device, Quantity
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.errors import UnsupportedError
from roofline_model.operators.case import short_hash

Report = Callable[[str], None]

_MOVERS = ("driver", "vbios", "power_limit_w", "application_clock_hz", "ecc", "mig")
"""NVML facts that move what a GPU reaches."""


def gpu_device(
    machine: Machine,
    chip: Device,
    report: Report,
    *,
    forget: bool = False,
    budget_s: float = FULL_BUDGET_S,
    measure: Callable[[Report, float], Readings] | None = None,
) -> Device:
    """Measure this GPU's constants, keep them, and return the chip with them. `measure` replaces the micro-kernels in
    tests.
    """
    assert machine.facts is not None
    nvml, _ = open_nvml_device()
    facts = _facts(nvml)
    fingerprint = gpu_fingerprint(machine, facts)
    file = cache_file("gpu", fingerprint)
    with one_calibration_at_a_time(file):
        cached = read_cache(file)
        with LoadWatch() as load:
            readings = (measure or _cuda_ceilings)(report, budget_s)
        new = Calibration(
            measured_at=now_utc(),
            subject=machine.facts.name,
            kind="cuda",
            cache_capacity_bytes=None if readings.cache_bytes is None else float(readings.cache_bytes),
            **readings.tables,  # type: ignore[arg-type]  # every table's name is a field that holds one
            conditions=known_conditions(
                {"torch": machine.torch_version, **facts, **_clocks(nvml, readings), **load_conditions(load)}
            ),
            disturbed_by=("shared-device",) if nvml is not None and nvml.other_process_count() else (),
            fingerprint=fingerprint,
        )
        calibration = merge(new, cached, report, forget=forget)
        write_cache(file, calibration, report)
    return with_calibration(chip, calibration)


def calibrated_gpu(machine: Machine, chip: Device) -> Device:
    """Return the chip with what was measured on this GPU before, or as it is. Never measures, never imports torch."""
    calibration = read_cache(cache_file("gpu", own_fingerprint(machine)))
    return chip if calibration is None else with_calibration(chip, calibration)


def with_calibration(chip: Device, calibration: Calibration) -> Device:
    """Return the chip with measured constants: `achieved` numbers become this machine's own where it was quiet, peaks
    stay the datasheet's.
    """
    if calibration.disturbed_by:
        return replace(chip, calibration=calibration)
    when = f"roofline calibrate on {calibration.date}, torch {calibration.conditions.get('torch', '?')}"

    def measured(constant: Constant) -> Quantity:
        return Quantity(constant.best_value, constant.unit, "measured-here", source=when, note=constant.kernel)

    best = calibration.best_bandwidth()
    # What a chip file would refuse as a slip of unit is not put into one (see device_check).
    is_sane = best is not None and 0.3 <= best[1].best_value / chip.bandwidth.value <= 1.02
    paths: dict[str, ComputePath] = {}
    for key, path in chip.paths.items():
        peak = calibration.peaks.get(key) if path.kind == "native" else None
        paths[key] = path if peak is None else replace(path, achieved=measured(peak))
    return replace(
        chip,
        bandwidth_achieved=measured(best[1]) if best is not None and is_sane else chip.bandwidth_achieved,
        paths=paths,
        calibration=calibration,
    )


def gpu_fingerprint(machine: Machine, facts: Mapping[str, Any]) -> str:
    """Return sixteen hex digits over everything that moves what a GPU reaches."""
    assert machine.facts is not None
    gpu = machine.facts
    moved_by = {name: facts.get(name) for name in _MOVERS}
    return short_hash(
        [CEILINGS_VERSION, gpu.name, gpu.compute_capability, gpu.memory_bytes, machine.torch_version, moved_by]
    )


def own_fingerprint(machine: Machine) -> str:
    """Return this GPU's fingerprint as the driver answers now; empty on a machine without one."""
    return gpu_fingerprint(machine, _facts(open_nvml_device()[0])) if machine.facts else ""


def _facts(nvml: NvmlDevice | None) -> dict[str, Any]:
    if nvml is None:
        return {}
    facts = nvml.facts() | {"application_clock_hz": nvml.application_clock_hz()}
    return {name: facts.get(name) for name in (*_MOVERS, "persistence", "clock_lock_hz")}


def _clocks(nvml: NvmlDevice | None, readings: Readings) -> dict[str, float | None]:
    """Return the SM clock over the products, and memory clock and temperature right after them."""
    return {
        "sm_clock_hz": readings.clock_hz,
        "memory_clock_hz": None if nvml is None else nvml.memory_clock_hz(),
        "temperature_c": None if nvml is None else nvml.temperature_c(),
    }


def _cuda_ceilings(report: Report, budget_s: float) -> Readings:
    try:
        from plugin.calibrate.cuda_ceilings import measure_cuda_ceilings
    except ImportError as error:
        raise UnsupportedError(f"measuring a GPU's ceilings is not possible here ({error})") from None
    return measure_cuda_ceilings(report, budget_s)
