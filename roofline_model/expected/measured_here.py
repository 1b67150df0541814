"""Transferred constants with what is known of this chip's own DRAM put in their place: measured here, or published.

Only the DRAM share moves: what `roofline calibrate` reads back is the same number that fits find (on five chips the fitted
share agrees with read micro-benchmarks). Its smallest launch is shorter than the floor of a library call, and its products
are whole kernels: neither is a constant of the model. Products and attention share the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.attention.fitted.constants import FittedAttention, constant_ranges
from roofline_model.expected.products.fitted.constants import FITTED_BOUNDS, FittedGemm

MEASURED_HERE = "measured-here"


@dataclass(frozen=True, slots=True)
class KnownDram:
    """What is known of the DRAM share that a chip reaches, beyond the constants it was lent."""

    share_ratio: float
    """Of the specified bandwidth."""
    is_measured: bool
    """Measured on this very machine; else the most that anybody has published for the chip."""
    lender_ratio: float | None
    """The same published share of the chip that lends the constants; None where there is none."""
    published_for: str = ""
    """Key of the chip that the share was published for; empty where it was measured."""

    def applied(self, lent_ratio: float, bounds: tuple[float, float]) -> float:
        """Return the share to use in place of a lent one.

        A measured share replaces it, within the bounds of a fit. A published one only limits it: a share near 1 means that
        the source chip's kernel was never bound by DRAM, which says nothing about slower memory. Where the lender's kernels
        beat what was published for the lender (a copy, an older kernel), the limit is as much higher.
        """
        if self.is_measured:
            return min(max(self.share_ratio, bounds[0]), bounds[1])
        beaten = 1.0 if self.lender_ratio is None else max(1.0, lent_ratio / self.lender_ratio)
        return min(lent_ratio, self.share_ratio * beaten)

    def finding_over(self, provenance: str) -> Finding:
        """Return what replaces the DRAM share of constants of a provenance."""
        if self.is_measured:
            return finding("dram-share-measured", dram_share_ratio=self.share_ratio, provenance=provenance)
        return finding("dram-share-limited", dram_share_ratio=self.share_ratio, hardware=self.published_for)


def known_dram(device: Device, bandwidth_bytes_per_s: float, lenders: Sequence[str]) -> KnownDram | None:
    """Return what this machine measured, else what was published, over `bandwidth_bytes_per_s`; None where nothing is known."""
    share = measured_share(device, bandwidth_bytes_per_s)
    if share is not None:
        return KnownDram(share, True, None)
    if device.bandwidth_achieved is None:
        return None
    most = device.bandwidth_achieved.value / bandwidth_bytes_per_s
    published = [ratio for key in lenders if (ratio := _published_ratio(key)) is not None]
    return KnownDram(most, False, min(published, default=None), device.key)


def _published_ratio(key: str) -> float | None:
    """Return the published share of a registry chip's bandwidth, or None where there is none."""
    try:
        lender = get_hardware(key)
    except RooflineError:
        return None  # constants of a chip that only the caller's file describes
    return None if lender.bandwidth_achieved is None else lender.bandwidth_achieved.value / lender.bandwidth.value


def measured_share(device: Device, bandwidth_bytes_per_s: float) -> float | None:
    """Return the share of `bandwidth_bytes_per_s` that this machine reads at, or None where it was never measured."""
    known = device.calibration
    read = None if known is None else known.dram.get("read")
    if known is None or read is None:
        return None
    return (read.best_value if known.disturbed_by else read.median_value) / bandwidth_bytes_per_s


def with_measured_bandwidth(found: FittedGemm, device: Device) -> FittedGemm:
    """Return transferred constants of products with the chip's own DRAM share; unchanged where nothing is known of it.

    Constants fitted on this chip stay: rows of whole kernels say more than a micro-kernel.
    """
    known = (
        None if found.provenance == "fitted" else known_dram(device, found.chip.bandwidth_bytes_per_s, found.sources)
    )
    if known is None:
        return found
    before, gemv = found.constants.dram_ratio, found.constants.gemv_dram_ratio
    share = known.applied(before, FITTED_BOUNDS["dram_ratio"])
    if gemv is not None and known.is_measured:
        # The kernel for few rows keeps its ratio to the others.
        gemv = min(gemv * share / before, FITTED_BOUNDS["gemv_dram_ratio"][1])
    elif gemv is not None:
        gemv = known.applied(gemv, FITTED_BOUNDS["gemv_dram_ratio"])
    constants = replace(found.constants, dram_ratio=share, gemv_dram_ratio=gemv)
    if constants == found.constants and not known.is_measured:
        return found
    if known.is_measured:
        findings = (known.finding_over(found.provenance), *found.findings)
        return replace(found, constants=constants, provenance=MEASURED_HERE, findings=findings)
    return replace(found, constants=constants, findings=(*found.findings, known.finding_over(found.provenance)))


def attention_with_measured_bandwidth(found: FittedAttention, device: Device) -> FittedAttention:
    """Return transferred constants of attention with the chip's own DRAM share, by the same rule."""
    known = (
        None if found.provenance == "fitted" else known_dram(device, found.chip.bandwidth_bytes_per_s, found.sources)
    )
    if known is None:
        return found
    one = constant_ranges(found.phase)["dram_ratio"]
    share = known.applied(found.values["dram_ratio"], (one.low_value, one.high_value))
    values = {**found.values, "dram_ratio": share}
    if known.is_measured:
        findings = (known.finding_over(found.provenance), *found.findings)
        return replace(found, values=values, provenance=MEASURED_HERE, findings=findings)
    if share == found.values["dram_ratio"]:
        return found
    return replace(found, values=values, findings=(*found.findings, known.finding_over(found.provenance)))
