"""What a calibration on a busy machine leaves open of its times: one home for the words of every prediction, answer and report."""

from __future__ import annotations

from roofline_model.hardware import Device


def doubt_of_ideals(device: Device) -> str:
    """Return what weakens every ideal time of a CPU whose ceilings were measured while it was busy; empty where nothing does.

    A GPU's ideals are of its data sheet.
    """
    known = device.calibration
    if known is None or known.kind != "cpu" or not known.disturbed_by:
        return ""
    return (
        f"ideal times are doubtful, most too long: other work ran while the ceilings of {device.key} were measured "
        f"({', '.join(known.disturbed_by)}); `roofline calibrate` on a quiet machine measures them again"
    )


def doubt_of_times(device: Device) -> str:
    """Return what weakens every expected time of a machine whose kernels were timed while it was busy; empty where nothing does."""
    known = device.calibration
    if known is None or not known.kernels_disturbed_by:
        return ""
    return (
        f"expected times are doubtful, most too long: other work ran while the kernels of {device.key} were timed "
        f"({', '.join(known.kernels_disturbed_by)}); `roofline calibrate` on a quiet machine times them again"
    )


def doubts_of(device: Device) -> list[str]:
    """Return both, those that there are: the notes beside whatever a machine's predictions are printed in."""
    return [doubt for doubt in (doubt_of_ideals(device), doubt_of_times(device)) if doubt]
