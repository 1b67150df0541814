"""A calibration as a file: written by `roofline calibrate -o FILE`, used with `--roofline-profile-file FILE`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from plugin.calibrate.cpu_calibration import cpu_fingerprint
from plugin.machine.facts import Machine
from roofline_model.chips.device_text import device_text
from roofline_model.chips.hardware import Device, Quantity, read_device_file
from roofline_model.chips.machine_constants import Calibration
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding

DeviceKind = Literal["cpu", "cuda"]


def profile_text(device: Device) -> str:
    """Return a calibrated device as the text of a chip file: `--hw FILE` and `roofline hardware check FILE` read it,
    too.
    """
    calibration = device.calibration
    if calibration is None:
        raise UnsupportedError(f"{device.key} has no measured constants to write; run `roofline calibrate` first")
    return device_text(
        device,
        heading=(
            f"Measured by `roofline calibrate` on {calibration.measured_at} on {calibration.subject}.\n"
            "[calibration]: rates in B/s and FLOP/s, times in seconds per call (floors) or per element (casts);\n"
            "best, median and slow (95th percentile) over the repetitions, sd_ratio = standard deviation / mean."
        ),
    )


def read_profile(path: Path) -> tuple[Device, Calibration]:
    """Return the chip of a profile file and its constants.

    Raises `DefinitionError` for a file that cannot be accepted, `UnsupportedError` for one without a [calibration].
    """
    chip = read_device_file(path)
    if chip.calibration is None:
        raise UnsupportedError(
            f"{path} has no [calibration] table: `roofline calibrate -o FILE` writes one; a plain chip file goes to "
            "--hw"
        )
    return chip, chip.calibration


def mismatch(path: Path, calibration: Calibration, machine: Machine, device: DeviceKind) -> Finding | None:
    """Return why these constants are not of this machine's CPU or GPU, naming both, or None when they are."""
    machine_name = machine.facts.name if device == "cuda" and machine.facts else machine.cpu_name
    if calibration.kind != device or calibration.subject != machine_name:
        return finding(
            "profile-of-other-machine",
            kind="chip",
            file=str(path),
            subject=calibration.subject,
            device=calibration.kind,
            own_subject=machine_name,
            own_device=device,
        )
    threads = calibration.conditions.get("threads")
    if device == "cpu" and threads is not None and threads != machine.thread_count:
        return finding(
            "profile-of-other-machine",
            kind="threads",
            file=str(path),
            threads=calibration.threads_text,
            thread_count=threads,
            own_thread_count=machine.thread_count,
        )
    return None


def use_here(chip: Device, calibration: Calibration, machine: Machine, device: DeviceKind) -> Device:
    """Return the chip as this machine may tell it: a GPU of the registry keeps its datasheet.

    What another machine or other software of the same model measured is `measured`, not `measured-here`.
    """
    if device == "cpu":
        return chip if calibration.fingerprint == cpu_fingerprint(machine) else _of_another_machine(chip)
    from plugin.calibrate.gpu_calibration import own_fingerprint, with_calibration

    matched, _ = machine.match()
    calibrated = chip if matched is None or matched.key != chip.key else with_calibration(matched, calibration)
    return calibrated if calibration.fingerprint == own_fingerprint(machine) else _of_another_machine(calibrated)


def _of_another_machine(chip: Device) -> Device:
    """Return the chip with `measured-here` turned into `measured`: somebody measured it, but not here."""

    def settled(quantity: Quantity | None) -> Quantity | None:
        if quantity is None or quantity.status != "measured-here":
            return quantity
        return replace(quantity, status="measured")

    paths = {
        key: replace(path, dense=settled(path.dense) or path.dense, achieved=settled(path.achieved))
        for key, path in chip.paths.items()
    }
    return replace(
        chip,
        bandwidth=settled(chip.bandwidth) or chip.bandwidth,
        bandwidth_achieved=settled(chip.bandwidth_achieved),
        capacity=settled(chip.capacity),
        paths=paths,
        levels=tuple(replace(level, bandwidth=settled(level.bandwidth)) for level in chip.levels),
        chip={name: settled(quantity) or quantity for name, quantity in chip.chip.items()},
        calibration=None if chip.calibration is None else replace(chip.calibration, provenance="measured"),
    )
