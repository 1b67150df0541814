"""What this machine measured about itself, by the key of its chip: where `roofline calibrate` has run on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device


def calibrated_machines() -> dict[str, Device]:
    """Return {chip key: chip with its calibration} of this machine; empty without a calibrated GPU. Never measures."""
    from plugin.calibrate.gpu_calibration import calibrated_gpu
    from plugin.machine.facts import find_machine

    here = find_machine()
    if here.kind != "cuda":
        return {}
    chip, _ = here.match()
    if chip is None:
        return {}
    chip = calibrated_gpu(here, chip)
    return {} if chip.calibration is None else {chip.key: chip}
