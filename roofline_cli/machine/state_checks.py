"""The checks of `roofline doctor` on the machine's state: what makes a time wrong or unrepeatable, and what mends
it.
"""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from roofline_cli.machine.machine_checks import Check
from roofline_cli.machine.packages import installed_version
from roofline_model.core.finding import Finding, finding, fix_text, short_text

if TYPE_CHECKING:
    from plugin.machine.cpu_state import LoadWatch
    from plugin.machine.facts import Machine
    from roofline_model.chips.machine_constants import Calibration

OLD_AFTER_DAYS = 90
"""A calibration older than this is worth repeating: drivers, firmware and neighbours change."""

LOOK_S = 0.3
"""How long the load of the machine is watched."""


def state_checks(machine: Machine, load: LoadWatch | None = None) -> list[Check]:
    """Look at calibration, clocks, load, energy counters and profilers. `load` is a window that has ended; None: look
    now.
    """
    gpu = _gpu_checks(machine) if machine.kind == "cuda" else []
    return [_calibration(machine), *gpu, *_cpu_checks(load), *_tools(machine)]


def _calibration(machine: Machine) -> Check:
    from plugin.calibrate.cpu_calibration import calibration_text, has_ceilings_only

    chip = _calibrated_chip(machine)
    calibration = None if chip is None else chip.calibration
    if chip is None or calibration is None:
        does_itself = "; the first measuring run looks for 12 s" if machine.kind == "cpu" else ""
        return Check(
            "calibration", "info", f"this machine has not measured its own constants{does_itself}", "roofline calibrate"
        )
    days = calibration_age_days(calibration)
    age = "today" if days == 0 else "yesterday" if days == 1 else f"{days} days ago"
    detail = f"{calibration_text(chip)}, {age}"
    if calibration.disturbed_by:
        detail += f", while the machine was busy ({', '.join(calibration.disturbed_by)})"
        return Check("calibration", "warn", detail, "measure again when the machine is idle: roofline calibrate")
    if calibration.kernels_disturbed_by:
        return Check(
            "calibration", "warn", detail, "time the kernels again when the machine is idle: roofline calibrate"
        )
    if days > OLD_AFTER_DAYS:
        return Check("calibration", "warn", detail, "measure again: roofline calibrate")
    if has_ceilings_only(chip):
        return Check("calibration", "info", f"{detail}; ceilings only", "time the kernels too: roofline calibrate")
    return Check("calibration", "ok", detail)


def _calibrated_chip(machine: Machine) -> Any:
    if machine.kind == "cpu":
        from plugin.calibrate.cpu_calibration import cached_cpu_device

        return cached_cpu_device(machine)
    from plugin.calibrate.gpu_calibration import calibrated_gpu

    chip, _ = machine.match()
    return None if chip is None else calibrated_gpu(machine, chip)


def calibration_age_days(calibration: Calibration, now: datetime.datetime | None = None) -> int:
    """Return how many whole days ago it was measured; a clock set back gives 0."""
    measured = datetime.datetime.fromisoformat(calibration.measured_at)
    if measured.tzinfo is None:
        measured = measured.replace(tzinfo=datetime.UTC)
    return max(0, ((now or datetime.datetime.now(datetime.UTC)) - measured).days)


def _gpu_checks(machine: Machine) -> list[Check]:
    from plugin.sensors.bounded_sensors import bounded
    from plugin.sensors.nvml import open_nvml_device

    device, reason = open_nvml_device()
    if device is None:
        return [_doubt("gpu sensors", reason or finding("sensors-frozen"))]
    sensors = bounded(device)
    facts = sensors.ask(device.facts) or {}
    if sensors.is_frozen:
        return [_doubt("gpu sensors", finding("sensors-frozen"))]
    return [
        *gpu_state(facts, device.name() or "", sensors.other_process_count()),
        Check("energy", "ok", "the GPU has an energy counter")
        if sensors.total_energy_j() is not None
        else Check("energy", "info", "the GPU gives no energy counter: power is sampled instead"),
    ]


_GPU_CHECKS = {
    "clock-unlocked": "clocks",
    "persistence-off": "persistence",
    "shared-device": "gpu processes",
    "power-limited": "power limit",
    "mig-on": "MIG",
    "ecc-on": "ECC",
    "ecc-changes": "ECC",
}
"""Finding → the check that it belongs to."""


def gpu_state(facts: Mapping[str, Any], name: str, other_processes: int | None) -> list[Check]:
    """Return the checks of a GPU's settings from `NvmlDevice.facts`: what is in order, then what is not."""
    from plugin.machine.state_warnings import gpu_warnings

    checks = [_doubt(_GPU_CHECKS[item.code], item) for item in gpu_warnings(facts, name, other_processes)]
    doubtful = {check.name for check in checks}
    lock_hz, persistence = facts.get("clock_lock_hz"), facts.get("persistence")
    states = {
        "clocks": None if lock_hz is None else f"set to {lock_hz / 1e6:.0f} MHz",
        "persistence": None if persistence is None else "on",
        "gpu processes": None if other_processes is None else "no other",
    }
    in_order = [
        Check(check, "info" if text is None else "ok", text or "not told by the driver")
        for check, text in states.items()
        if check not in doubtful
    ]
    return [*in_order, *checks]


def _doubt(name: str, item: Finding) -> Check:
    """Return the check of a finding: a warning, or information where the finding is."""
    return Check(name, "info" if item.severity == "info" else "warn", short_text(item), fix_text(item))


def _cpu_checks(load: LoadWatch | None) -> list[Check]:
    from plugin.machine.cpu_state import cpu_facts, load_over
    from plugin.sensors.rapl import open_cpu_sensors

    sensors, reason = open_cpu_sensors()
    if reason is not None:
        energy = Check("cpu energy", "info", short_text(reason), fix_text(reason))
    elif sensors is None or sensors.total_energy_j() is None:
        energy = Check("cpu energy", "info", "the energy counter does not answer")
    else:
        energy = Check("cpu energy", "ok", "energy counter (RAPL) readable")
    return [governor_check(cpu_facts()), *load_checks(load if load is not None else load_over(LOOK_S)), energy]


def governor_check(facts: Mapping[str, Any]) -> Check:
    """Return the check of the CPUs' clock policy."""
    governor = facts.get("governor")
    boost = "" if facts.get("boost") is None else f", boost {'on' if facts['boost'] else 'off'}"
    if governor is None:
        machine = " (a virtual machine: the host decides)" if facts.get("hypervisor") else ""
        return Check("governor", "info", f"not told by the system{machine}{boost}")
    if governor != "performance":
        return _doubt("governor", finding("governor-unsteady", governor=f"{governor}{boost}"))
    return Check("governor", "ok", f"{governor}{boost}")


def load_checks(load: LoadWatch) -> list[Check]:
    """Return the checks of what others use of the CPUs, from a window that has ended."""
    from plugin.machine.state_warnings import load_warnings

    others, stolen = load.others_ratio, load.stolen_ratio
    if others is None or stolen is None:
        return [Check("cpu load", "info", "not told by the system: other processes and stolen time go unseen")]
    doubts = {item.code: item for item in load_warnings(load)}
    return [
        _doubt("cpu load", doubts["contended"])
        if "contended" in doubts
        else Check("cpu load", "ok", f"other processes use {others:.0%} of the CPUs"),
        _doubt("steal", doubts["stolen"])
        if "stolen" in doubts
        else Check("steal", "ok", f"{stolen:.1%} of the CPUs go to other machines"),
    ]


def _tools(machine: Machine) -> list[Check]:
    """Return what helps and may be missing; without a GPU its tools are not missed."""
    needs_gpu = "" if machine.kind == "cuda" else " (it needs a GPU anyway)"
    ncu, xdist = shutil.which("ncu"), installed_version("pytest-xdist")
    return [
        _cupti(needs_gpu),
        Check("ncu", "ok", ncu)
        if ncu
        else _missing(
            "ncu",
            f"Nsight Compute is not on the PATH: it runs what --roofline-profile ncu prints{needs_gpu}",
            "install the CUDA toolkit, or add its bin folder to PATH",
            needs_gpu,
        ),
        Check(
            "pytest-xdist", "ok", f"{xdist}; with -n each GPU needs a worker of its own, a CPU is measured without -n"
        )
        if xdist
        else _missing(
            "pytest-xdist",
            f"not installed: it measures several GPUs at once (-n){needs_gpu}",
            "pip install pytest-xdist",
            needs_gpu,
        ),
    ]


def _cupti(needs_gpu: str) -> Check:
    from plugin.timers.cupti import INSTALL

    version = installed_version("cupti-python")
    if not version:
        return _missing(
            "cupti-python", f"not installed: no --roofline-attribution cupti{needs_gpu}", INSTALL, needs_gpu
        )
    try:
        import_module("cupti")
    except ImportError as error:
        return Check("cupti-python", "warn", f"{version} cannot be imported: {error}", INSTALL)
    return Check("cupti-python", "ok", version)


def _missing(name: str, detail: str, fix: str, needs_gpu: str) -> Check:
    return Check(name, "info", detail, "" if needs_gpu else fix)
