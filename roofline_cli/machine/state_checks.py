"""The checks of `roofline doctor` on the machine's state: what makes a time wrong or unrepeatable, and what mends it."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline_cli.machine.machine_checks import Check
from roofline_cli.machine.packages import installed_version

if TYPE_CHECKING:
    from plugin.machine.facts import Machine
    from plugin.machine.load import LoadWatch
    from roofline_model.chips.machine_constants import Calibration

OLD_AFTER_DAYS = 90
"""A calibration older than this is worth repeating: drivers, firmware and neighbours change."""
_PROCESSES = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"

LOOK_S = 0.3
"""How long the load of the machine is watched."""


def state_checks(machine: Machine, load: LoadWatch | None = None) -> list[Check]:
    """Look at calibration, clocks, load, energy counters and profilers. `load` is a window that has ended; None: look now."""
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

    device, why = open_nvml_device()
    if device is None:
        return [
            Check(
                "gpu sensors",
                "warn",
                f"not readable ({why}): clocks, throttling and energy stay empty",
                "pip install nvidia-ml-py",
            )
        ]
    sensors = bounded(device)
    facts = sensors.ask(device.facts) or {}
    if sensors.is_frozen:
        return [
            Check(
                "gpu sensors", "warn", "do not answer: state, power and energy stay empty", "look with: nvidia-smi -q"
            )
        ]
    return [
        *gpu_state(facts, sensors.other_process_count()),
        Check("energy", "ok", "the GPU has an energy counter")
        if sensors.total_energy_j() is not None
        else Check("energy", "info", "the GPU gives no energy counter: power is sampled instead"),
    ]


def gpu_state(facts: Mapping[str, Any], other_processes: int | None) -> list[Check]:
    """Return the checks of a GPU's settings from `NvmlDevice.facts`."""
    checks = []
    lock_hz, max_hz = facts.get("clock_lock_hz"), facts.get("max_clock_hz")
    if lock_hz is not None:
        checks.append(Check("clocks", "ok", f"set to {lock_hz / 1e6:.0f} MHz"))
    else:
        wanted = "MHZ" if max_hz is None else f"{max_hz / 1e6:.0f}"
        checks.append(
            Check(
                "clocks",
                "warn",
                "no lock shows: the SM clock moves with heat and power (a lock by -lgc shows under load only)",
                f"sudo nvidia-smi -lgc {wanted}, a clock it can hold (sudo nvidia-smi -rgc undoes it)",
            )
        )
    persistence = facts.get("persistence")
    if persistence is False:
        detail = "off: the driver unloads between runs and clocks start cold"
        checks.append(Check("persistence", "warn", detail, "sudo nvidia-smi -pm 1"))
    else:
        checks.append(
            Check("persistence", "ok" if persistence else "info", "on" if persistence else "not told by the driver")
        )
    if other_processes:
        noun = "process has" if other_processes == 1 else "processes have"
        detail = f"{other_processes} other {noun} work on this GPU: times are too long"
        checks.append(Check("gpu processes", "warn", detail, f"name them, then stop them or wait: {_PROCESSES}"))
    else:
        is_known = other_processes is not None
        checks.append(
            Check("gpu processes", "ok" if is_known else "info", "no other" if is_known else "not told by the driver")
        )
    limit_w, default_w = facts.get("power_limit_w"), facts.get("power_limit_default_w")
    if limit_w is not None and default_w is not None and limit_w < default_w:
        detail = f"limit {limit_w:.0f} W, the default is {default_w:.0f} W"
        checks.append(Check("power limit", "warn", detail, f"sudo nvidia-smi -pl {default_w:.0f}"))
    return checks


def _cpu_checks(load: LoadWatch | None) -> list[Check]:
    from plugin.machine.cpu_state import cpu_facts
    from plugin.sensors.rapl import open_cpu_sensors

    sensors, why = open_cpu_sensors()
    readable = sensors is not None and not why and sensors.total_energy_j() is not None
    fix = why.split("`")[1] if why.count("`") >= 2 else ""
    return [
        governor_check(cpu_facts()),
        *load_checks(load if load is not None else _look()),
        Check("cpu energy", "ok", "energy counter (RAPL) readable")
        if readable
        else Check(
            "cpu energy", "info", why.partition(";")[0] if fix else why or "the energy counter does not answer", fix
        ),
    ]


def governor_check(facts: Mapping[str, Any]) -> Check:
    """Return the check of the CPUs' clock policy."""
    governor = facts.get("governor")
    boost = "" if facts.get("boost") is None else f", boost {'on' if facts['boost'] else 'off'}"
    if governor is None:
        machine = " (a virtual machine: the host decides)" if facts.get("hypervisor") else ""
        return Check("governor", "info", f"not told by the system{machine}{boost}")
    if governor != "performance":
        detail = f"{governor}{boost}: the clock follows the load, so short kernels are timed while it rises"
        return Check("governor", "warn", detail, "sudo cpupower frequency-set -g performance")
    return Check("governor", "ok", f"{governor}{boost}")


def load_checks(load: LoadWatch) -> list[Check]:
    """Return the checks of what others use of the CPUs, from a window that has ended."""
    from plugin.machine.load import CONTENDED_RATIO, STOLEN_RATIO

    others, stolen = load.others_ratio, load.stolen_ratio
    if others is None or stolen is None:
        return [Check("cpu load", "info", "not told by the system: other processes and stolen time go unseen")]
    checks = []
    if others > CONTENDED_RATIO:
        detail = f"other processes use {others:.0%} of the CPUs now: times are too long"
        checks.append(Check("cpu load", "warn", detail, "name them, then stop them or wait: top -o %CPU"))
    else:
        checks.append(Check("cpu load", "ok", f"other processes use {others:.0%} of the CPUs"))
    if stolen > STOLEN_RATIO:
        detail = f"the hypervisor gives {stolen:.0%} of our CPUs to other machines"
        checks.append(Check("steal", "warn", detail, "use a dedicated host or instance type; watch it with: vmstat 1"))
    else:
        checks.append(Check("steal", "ok", f"{stolen:.1%} of the CPUs go to other machines"))
    return checks


def _look() -> LoadWatch:
    import time

    from plugin.machine.load import LoadWatch

    load = LoadWatch()
    with load:
        time.sleep(LOOK_S)
    return load


def _tools(machine: Machine) -> list[Check]:
    """Return what helps and may be missing; without a GPU its tools are not missed."""
    needs_gpu = "" if machine.kind == "cuda" else " (it needs a GPU anyway)"
    cupti, ncu, xdist = installed_version("cupti-python"), shutil.which("ncu"), installed_version("pytest-xdist")
    return [
        Check("cupti-python", "ok", cupti)
        if cupti
        else _missing(
            "cupti-python",
            f"not installed: no --roofline-attribution cupti{needs_gpu}",
            "pip install cupti-python",
            needs_gpu,
        ),
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


def _missing(name: str, detail: str, fix: str, needs_gpu: str) -> Check:
    return Check(name, "info", detail, "" if needs_gpu else fix)
