"""Transferred constants held to the tensor rate that somebody has reached on the chip itself.

A lender's board says nothing about another's power, clock or accumulator rate: constants of a 350 W L40S throttle where a
450 W RTX 4090 does not, and an RTX 5090 runs above its rated boost clock. A rate published for the chip (`achieved` in its
file) is a proof that it can be reached, so large products are not expected to be slower. It is no upper limit: one
library's best says nothing against a faster kernel (the published bandwidth, a micro-benchmark, is one: `measured_here`).
Published rates are the best over shapes; where the lenders' fitted kernels stay below what was published for the lenders
(B200: 0.84 in 16 bit, 0.73 in NVFP4), so will the chip's. Constants fitted on a chip's own rows stay as they are for that reason.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.products.fitted.constants import FittedGemm
from roofline_model.expected.products.fitted.library import find_gemm
from roofline_model.expected.products.formats import GemmFormats
from roofline_model.expected.products.formula import product_times
from roofline_model.expected.products.parameters import ProductParameters
from roofline_model.expected.products.rotation import COLD
from roofline_model.ideal.published_rate import published_rate

LARGE_SIZE = 8192
"""M = N = K of the product that stands for large ones; published best rates come from 4096³ to 16384³."""
CLOCKED = ("tensor_ratio", "l2_ratio", "sm_ratio")
"""Constants of what runs at the SMs' clock: a product bound by the tensor units needs all three."""
_STEPS_COUNT = 6
"""Corrections until launch and DRAM, which do not scale, have been made up for; each leaves about a tenth of the rest."""


def with_published_rate(found: FittedGemm, device: Device, formats: GemmFormats) -> FittedGemm:
    """Return transferred constants that reach the chip's published rate in large products; others unchanged.

    Kernels that widen their weights are left alone: nothing published is of them.
    """
    if found.provenance == "fitted" or formats.is_weight_only:
        return found
    best = published_rate(device, formats.compute_format)
    if best is None:
        return found
    wanted = best.value * min([1.0, *filter(None, (_lender_share(key, formats) for key in found.sources))])
    reached = finding("published-rate-reached", rate_flops_per_s=best.value, hardware=device.key)
    return _raised(found, formats, wanted, reached)


@lru_cache(maxsize=256)
def _raised(found: FittedGemm, formats: GemmFormats, wanted: float, reached: Finding) -> FittedGemm:
    if wanted <= _large_rate(found, formats):
        return found
    # The lender's loss of clock in long kernels is its board's power limit.
    raised = replace(found, constants=replace(found.constants, clock_loss_ratio=0.0))
    for _ in range(_STEPS_COUNT):
        gain = wanted / _large_rate(raised, formats)
        scaled = {name: getattr(raised.constants, name) * gain for name in CLOCKED}
        raised = replace(raised, constants=replace(raised.constants, **scaled))
    return replace(raised, findings=(*found.findings, reached))


@lru_cache(maxsize=64)
def _lender_share(key: str, formats: GemmFormats) -> float | None:
    """Return what the lender's own constants expect of a large product, over what was published for the lender."""
    try:
        device = get_hardware(key)
        best = published_rate(device, formats.compute_format)
        if best is None:
            return None
        fitted = find_gemm(ChipSpec.of(device, formats.compute_format), formats.family)
    except RooflineError:
        return None  # a chip that only the caller's file describes, or one without the format
    return _large_rate(fitted, formats, ChipSpec.of(device, formats.compute_format)) / best.value


def _large_rate(found: FittedGemm, formats: GemmFormats, chip: ChipSpec | None = None) -> float:
    """Return FLOP/s of the large product, weights cold."""
    size = float(LARGE_SIZE)
    parameters = ProductParameters.of(chip or found.chip, formats, found)
    return float(2.0 * size**3 / product_times(parameters, size, size, size, COLD).time_s)
