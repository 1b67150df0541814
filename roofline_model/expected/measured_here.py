"""Constants of a chip with what this very machine measured about itself put in their place.

Only the DRAM share moves: what `roofline calibrate` reads back is the same number that fits find (on five chips the fitted
share agrees with read micro-benchmarks). Its smallest launch is shorter than the floor of a library call, and its products
are whole kernels: neither is a constant of the model.
"""

from __future__ import annotations

from dataclasses import replace

from roofline_model.expected.gemm.constants import FITTED_BOUNDS, FittedGemm
from roofline_model.hardware import Device

MEASURED_HERE = "measured-here"


def with_measured_bandwidth(found: FittedGemm, device: Device) -> FittedGemm:
    """Return transferred constants with this machine's own read bandwidth; unchanged where it was never measured."""
    share = measured_share(device, found.chip.bandwidth_bytes_per_s)
    if found.provenance == "fitted":
        return found  # rows of whole kernels on this chip say more than a micro-kernel
    if share is None:
        return _within_published(found, device)
    low, high = FITTED_BOUNDS["dram_ratio"]
    share = min(max(share, low), high)
    note = f"DRAM share {share:.2f} measured on this machine; the rest: {found.note or found.provenance}"
    constants = replace(found.constants, dram_ratio=share)
    if constants.gemv_dram_ratio is not None:
        # The kernel for few rows keeps its ratio to the others.
        reached = constants.gemv_dram_ratio * share / found.constants.dram_ratio
        constants = replace(constants, gemv_dram_ratio=min(reached, FITTED_BOUNDS["gemv_dram_ratio"][1]))
    return replace(found, constants=constants, provenance=MEASURED_HERE, note=note)


def _within_published(found: FittedGemm, device: Device) -> FittedGemm:
    """Return transferred constants that reach no more of the DRAM than anybody has published for this chip.

    A share near 1 means that the source chip's kernel was never bound by DRAM: it says nothing about slower memory.
    """
    if device.bandwidth_achieved is None:
        return found
    most = device.bandwidth_achieved.value / device.bandwidth.value
    constants = found.constants
    gemv = constants.gemv_dram_ratio
    if constants.dram_ratio <= most and (gemv is None or gemv <= most):
        return found
    capped = replace(constants, dram_ratio=min(constants.dram_ratio, most), gemv_dram_ratio=None if gemv is None else min(gemv, most))  # fmt: skip
    note = f"DRAM share held to the {most:.2f} published for {device.key}"
    return replace(found, constants=capped, note="; ".join(filter(None, [found.note, note])))


def measured_share(device: Device, bandwidth_bytes_per_s: float) -> float | None:
    """Return the share of `bandwidth_bytes_per_s` that this machine reads at, or None where it was never measured."""
    known = device.calibration
    read = None if known is None else known.dram.get("read")
    if known is None or read is None:
        return None
    return (read.best_value if known.disturbed_by else read.median_value) / bandwidth_bytes_per_s
