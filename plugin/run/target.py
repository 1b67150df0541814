"""Which chip the predictions are for, which device the kernels run on, and whether this machine may measure at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from plugin.calibrate.gpu_calibration import calibrated_gpu
from plugin.calibrate.profile_file import DeviceKind, mismatch, read_profile, use_here
from plugin.machine.facts import Machine, find_machine
from plugin.run.options import BenchOptions
from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.chips.machine_constants import Calibration
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding, short_text


@dataclass
class Target:
    """The decision. `device` is known at collection; `hardware` of a CPU may have to be measured first."""

    device: DeviceKind
    """The kind of kernels to collect."""
    load_hardware: Callable[[], Device]
    why_not: Finding | None = None
    """Why this machine may not measure for that chip; None where it may."""
    is_forced: bool = False

    @property
    def can_measure(self) -> bool:
        """Whether this machine measures for that chip, be it forced to."""
        return self.why_not is None

    @cached_property
    def hardware(self) -> Device:
        """The chip of the predictions; the first use on a CPU reads or measures its ceilings."""
        return self.load_hardware()


def resolve_target(
    options: BenchOptions, calibrate_cpu: Callable[[], Device], machine: Machine | None = None
) -> Target:
    """Decide chip and device; raises a `RooflineError` when the options cannot be met on this machine.

    `calibrate_cpu` gives the profile of this machine's CPU (cached ceilings, or measured on the spot); a profile file
    takes its place.
    """
    this_machine = machine or find_machine()
    if (
        options.device == "cuda"
        and this_machine.kind != "cuda"
        and not options.is_simulated
        and not options.predict_only
        and options.hw == "auto"
    ):
        raise UnsupportedError(
            f"--roofline-device cuda: this machine has no NVIDIA device ({short_text(this_machine.reason)}); use --roofline-device "
            "cpu"
        )
    if options.hw == "auto":
        return _this_machine(options, this_machine, calibrate_cpu)
    chip = get_hardware(options.hw)
    device: DeviceKind = "cpu" if chip.kind == "cpu" or options.device == "cpu" else "cuda"
    if options.profile_file is not None:
        chip = _same_chip(options.profile_file, chip)
    if options.is_simulated:
        return Target(device, lambda: chip)
    if chip.calibration is not None and chip.kind == "cpu":
        return _own_cpu_file(options, this_machine, chip, chip.calibration)
    matched, _ = this_machine.match()
    if matched is not None and matched.key == chip.key:
        return Target(device, _gpu_profile(options, this_machine, chip))
    if options.force_measure:
        own_kind: DeviceKind = this_machine.kind if options.device is None else device
        return Target(own_kind, lambda: chip, is_forced=True)
    return Target(device, lambda: chip, _no_match(chip, matched, this_machine))


def _this_machine(options: BenchOptions, machine: Machine, calibrate_cpu: Callable[[], Device]) -> Target:
    if machine.kind == "cpu" or options.device == "cpu":
        if options.device == "cuda":
            raise UnsupportedError("--roofline-device cuda needs --hw NAME on a machine without an NVIDIA device")
        profile = _from_file(options, machine, "cpu")
        return profile or Target("cpu", calibrate_cpu)
    assert machine.facts is not None
    if machine.torch_version is not None and machine.torch_version.endswith("+cpu"):
        raise UnsupportedError(
            f"{machine.facts.name} is present, but the installed torch {machine.torch_version} has no CUDA: install a "
            "CUDA build of torch "
            "(`roofline doctor` prints the command), or measure the CPU with --roofline-device cpu"
        )
    profile = _from_file(options, machine, "cuda")
    if profile is not None:
        return profile
    chip, why = machine.match()
    if chip is None:
        raise UnsupportedError(
            f"--hw auto: {short_text(why)}; describe this chip in a TOML file and pass it with --hw FILE.toml "
            "--roofline-force-measure"
        )
    return Target("cuda", _gpu_profile(options, machine, chip))


def _from_file(options: BenchOptions, machine: Machine, device: DeviceKind) -> Target | None:
    """Return the target of --roofline-profile-file, None without one.

    The file is read now, so that errors come first.
    """
    path = options.profile_file
    if path is None:
        return None
    chip, calibration = read_profile(path)
    wrong = mismatch(path, calibration, machine, device)
    if wrong is not None and not options.force_measure:
        raise UnsupportedError(
            f"--roofline-profile-file: {short_text(wrong)}, or use it all the same with --roofline-force-measure"
        )
    calibrated = use_here(chip, calibration, machine, device)
    return Target(device, lambda: calibrated, is_forced=wrong is not None)


def _same_chip(path: Path, chip: Device) -> Device:
    """Return the chip of a profile file that stands for the chip asked for with --hw."""
    profile, _ = read_profile(path)
    if profile.key != chip.key:
        raise UnsupportedError(
            f"--roofline-profile-file {path} is of {profile.key}, --hw names {chip.key}: leave one of them out"
        )
    return profile


def _own_cpu_file(options: BenchOptions, machine: Machine, chip: Device, calibration: Calibration) -> Target:
    """Return the target of `--hw FILE` where the file is a CPU's calibration: measured here if it is this CPU's."""
    wrong = mismatch(Path(options.hw), calibration, machine, "cpu")
    if wrong is None:
        calibrated = use_here(chip, calibration, machine, "cpu")
        return Target("cpu", lambda: calibrated)
    if options.force_measure:
        return Target("cpu", lambda: chip, is_forced=True)
    return Target("cpu", lambda: chip, wrong)


def _gpu_profile(options: BenchOptions, machine: Machine, chip: Device) -> Callable[[], Device]:
    """Return how to get this GPU's chip: with a file's constants, with its own measured ones, or as the datasheet has
    it.
    """
    profile = _from_file(options, machine, "cuda")
    return (lambda: calibrated_gpu(machine, chip)) if profile is None else profile.load_hardware


def _no_match(chip: Device, matched: Device | None, machine: Machine) -> Finding:
    if machine.facts is None:
        return finding("other-machine", cpu=machine.cpu_name, hardware=chip.key)
    own_hardware = matched.key if matched is not None else machine.facts.name
    return finding("other-machine", own_hardware=own_hardware, hardware=chip.key)
