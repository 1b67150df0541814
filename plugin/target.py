"""Which chip the predictions are for, which device the kernels run on, and whether this machine may measure at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from plugin.machine import Machine, find_machine
from plugin.options import BenchOptions
from roofline_model.errors import UnsupportedError
from roofline_model.hardware import Device, get_hardware


@dataclass(slots=True)
class Target:
    """The decision. `device` is known at collection; `hardware` of a CPU may have to be measured first."""

    device: Literal["cpu", "cuda"]
    """The kind of kernels to collect."""
    can_measure: bool
    reason: str
    """Why this machine may measure for that chip, or why not."""
    is_forced: bool
    load_hardware: Callable[[], Device]
    _hardware: Device | None = field(default=None)

    @property
    def hardware(self) -> Device:
        """The chip of the predictions; the first use on a CPU reads or measures its ceilings."""
        if self._hardware is None:
            self._hardware = self.load_hardware()
        return self._hardware


def resolve_target(
    options: BenchOptions, calibrate_cpu: Callable[[], Device], machine: Machine | None = None
) -> Target:
    """Decide chip and device; raises a `RooflineError` when the options cannot be met on this machine.

    `calibrate_cpu` gives the profile of this machine's CPU (cached ceilings, or measured on the spot).
    """
    here = machine or find_machine()
    simulates = options.timer.partition(":")[0] in ("simulated", "replay")
    if (
        options.device == "cuda"
        and here.kind != "cuda"
        and not simulates
        and not options.predict_only
        and options.hw == "auto"
    ):
        raise UnsupportedError(
            f"--roofline-device cuda: this machine has no NVIDIA device ({here.reason}); use --roofline-device cpu"
        )
    if options.hw == "auto":
        return _this_machine(options, here, calibrate_cpu)
    chip = get_hardware(options.hw)
    device: Literal["cpu", "cuda"] = "cpu" if chip.kind == "cpu" or options.device == "cpu" else "cuda"
    if simulates:
        return Target(device, True, f"{options.timer.partition(':')[0]} timer", False, lambda: chip)
    matched, why = here.match()
    if matched is not None and matched.key == chip.key:
        return Target(device, True, why, False, lambda: chip)
    if options.force_measure:
        own: Literal["cpu", "cuda"] = here.kind if options.device is None else device
        return Target(own, True, f"forced: {_no_match(chip, matched, here)}", True, lambda: chip)
    return Target(device, False, _no_match(chip, matched, here), False, lambda: chip)


def _this_machine(options: BenchOptions, here: Machine, calibrate_cpu: Callable[[], Device]) -> Target:
    if here.kind == "cpu" or options.device == "cpu":
        if options.device == "cuda":
            raise UnsupportedError("--roofline-device cuda needs --hw NAME on a machine without an NVIDIA device")
        return Target("cpu", True, f"this machine's CPU, {here.cpu_name}", False, calibrate_cpu)
    assert here.facts is not None
    if here.torch_version is not None and here.torch_version.endswith("+cpu"):
        raise UnsupportedError(
            f"{here.facts.name} is present, but the installed torch {here.torch_version} has no CUDA: install a CUDA build of torch "
            "(`roofline doctor` prints the command), or measure the CPU with --roofline-device cpu"
        )
    chip, why = here.match()
    if chip is None:
        raise UnsupportedError(
            f"--hw auto: {why}; describe this chip in a TOML file and pass it with --hw FILE.toml --roofline-force-measure"
        )
    return Target("cuda", True, why, False, lambda: chip)


def _no_match(chip: Device, matched: Device | None, here: Machine) -> str:
    own = matched.key if matched else (here.facts.name if here.facts else f"a CPU ({here.cpu_name})")
    return f"this machine is {own}, not {chip.key}"
