"""Which chip `--hw` means: a registry name, a file, or `auto` for this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device


def find_chip(name: str) -> Device:
    """Return the chip named by `--hw`; raises a `RooflineError` that says what to type instead."""
    if name.strip().lower() == "auto":
        return this_chip()
    from roofline_model.chips.hardware import get_hardware

    return get_hardware(name)


def this_chip() -> Device:
    """Return this machine's chip: the registry's entry for its GPU, or the measured profile of its CPU."""
    from plugin.calibrate.cpu_calibration import cached_cpu_device
    from plugin.calibrate.gpu_calibration import calibrated_gpu
    from plugin.machine.facts import find_machine
    from roofline_model.core.errors import UnsupportedError

    here = find_machine()
    if here.kind == "cuda":
        chip, why = here.match()
        if chip is None:
            raise UnsupportedError(
                f"--hw auto: {why}; name a chip with --hw, or describe this one in a TOML file: --hw FILE.toml"
            )
        return calibrated_gpu(here, chip)
    profile = cached_cpu_device(here)
    if profile is None:
        raise UnsupportedError(
            f"--hw auto: this machine is a CPU ({here.cpu_name}) whose ceilings have not been measured yet; name a chip, e.g. --hw gb10, "
            "or measure: roofline calibrate"
        )
    return profile
