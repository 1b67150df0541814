"""What a calibration on a busy machine leaves open of its times: the same findings in every prediction, answer and report."""

from __future__ import annotations

from roofline_model.chips.hardware import Device
from roofline_model.chips.machine_constants import Calibration
from roofline_model.core.finding import Finding, finding


def doubt_of_ideals(device: Device) -> Finding | None:
    """Return what weakens every ideal time of a CPU whose ceilings were measured while it was busy; None where nothing does.

    A GPU's ideals are of its data sheet.
    """
    known = device.calibration
    if known is None or known.kind != "cpu" or not known.disturbed_by:
        return None
    return ceilings_doubt(device.key, known)


def ceilings_doubt(hardware: str, calibration: Calibration) -> Finding:
    """Return that other work ran while the ceilings of a machine were measured."""
    return finding("ceilings-contended", hardware=hardware, disturbed_by=calibration.disturbed_by)


def doubt_of_times(device: Device) -> Finding | None:
    """Return what weakens every expected time of a machine whose kernels were timed while it was busy; None where nothing does."""
    known = device.calibration
    if known is None or not known.kernels_disturbed_by:
        return None
    return finding("kernels-contended", hardware=device.key, disturbed_by=known.kernels_disturbed_by)


def doubts_of(device: Device) -> list[Finding]:
    """Return both, those that there are: for beside whatever a machine's predictions are printed in."""
    return [doubt for doubt in (doubt_of_ideals(device), doubt_of_times(device)) if doubt is not None]
