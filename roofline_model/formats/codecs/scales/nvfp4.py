"""NVFP4: an E4M3 scale per block of 16 and one FP32 scale per tensor.

tensor scale = largest magnitude / (448 · 6), so that the block with the maximum has the scale 448; block scale = block
maximum / 6 / tensor scale, rounded to E4M3 and not below its smallest normal number 2^−6, as torchao does it (a
subnormal scale could be off by half of itself). Values are multiplied by (1 / tensor scale) / block scale, the order
that torchao and its GPU kernel share. Source: torchao 0.18, prototype/mx_formats/nvfp4_tensor.py; compared bit for bit.

`four_over_six`: a block may put its maximum at 4 instead of 6 (scale 1.5 times larger) where that has the smaller
squared error, because E2M1 has no number between 4 and 6. The tensor scale then leaves room: largest magnitude / (256 ·
6), 384 being exact in E4M3. Source: Cook et al., Four Over Six, arXiv 2512.02010, and its code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.formats.codecs.layout import Layout, ScaleRule, float_limits
from roofline_model.formats.codecs.scales.scaled import Numbers, cast, encode_blocks, number_for, squared_errors

Array = NDArray[Any]

FOUR_OVER_SIX_TARGET = 256.0
FOUR_OVER_SIX_FACTOR = 1.5
LARGEST_FACTOR = 2.0**127
"""1 / tensor scale / block scale stays finite in float32: a tensor below 1e-33 keeps a larger tensor scale for it."""


def encode_two_level(
    blocks: Array, largest: Array, layout: Layout, rule: ScaleRule, absmax: float | None
) -> tuple[Array, Array, float]:
    """Return codes (blocks, n), block scales (blocks,) in their own type, and the tensor scale.

    `absmax`: a calibrated largest magnitude of the tensor instead of its own; blocks beyond it saturate.
    """
    tensor_scale = tensor_scale_for(largest.max() if absmax is None else number_for(largest, absmax), layout, rule)
    wanted = wanted_scales(largest, tensor_scale, layout)
    scales = block_scales(wanted, layout)
    codes = encode_blocks(blocks, layout.element, element_factors(tensor_scale, scales), is_factor=True)
    if rule == "four_over_six":
        others = block_scales(wanted * number_for(wanted, FOUR_OVER_SIX_FACTOR), layout)
        other_codes = encode_blocks(blocks, layout.element, element_factors(tensor_scale, others), is_factor=True)
        error_at_six, error_at_four = (
            squared_errors(blocks, c, layout.element, combined_scales(float(tensor_scale), s))
            for c, s in ((codes, scales), (other_codes, others))
        )
        is_better = error_at_four < error_at_six
        codes[is_better], scales[is_better] = other_codes[is_better], others[is_better]
    return codes, scales, float(tensor_scale)


def tensor_scale_for(peak: Numbers, layout: Layout, rule: ScaleRule = "six") -> Numbers:
    """Return the scale of a tensor whose largest magnitude is `peak`: one float32, as `peak` is. Takes torch tensors,
    too.
    """
    smallest_scale, largest_scale = float_limits(layout.scale_dtype)
    target = FOUR_OVER_SIX_TARGET if rule == "four_over_six" else largest_scale
    smallest = number_for(peak, 1 / (LARGEST_FACTOR * smallest_scale))
    return (peak / number_for(peak, target * layout.element.max_value)).clip(min=smallest)


def wanted_scales(largest: Numbers, tensor_scale: Numbers, layout: Layout) -> Numbers:
    """Return the scales that would map each block's largest magnitude to the largest element, before they are
    rounded.
    """
    return largest / number_for(largest, layout.element.max_value) / tensor_scale


def block_scales(wanted: Numbers, layout: Layout) -> Numbers:
    """Return wanted scales in the type they are stored in, within its normal numbers."""
    smallest, largest = (number_for(wanted, limit) for limit in float_limits(layout.scale_dtype))
    return cast(wanted.clip(min=smallest, max=largest), layout.scale_dtype)


def element_factors(tensor_scale: Numbers, scales: Numbers) -> Numbers:
    """Return what the values of each block are multiplied by before they are rounded to elements (float32)."""
    return (number_for(tensor_scale, 1.0) / tensor_scale) / cast(scales, "float32")


def combined_scales(tensor_scale: float, scales: Array) -> Array:
    """Return tensor scale · block scale in float32: what a decoded element is multiplied by."""
    return np.float32(tensor_scale) * scales.astype(np.float32)
