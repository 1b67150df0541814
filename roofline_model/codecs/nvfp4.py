"""NVFP4: an E4M3 scale per block of 16 and one FP32 scale per tensor.

tensor scale = largest magnitude / (448 · 6), so that the block with the maximum has the scale 448; block scale = block
maximum / 6 / tensor scale, rounded to E4M3 and not below its smallest normal number 2^−6, as torchao does it (a
subnormal scale could be off by half of itself). Values are multiplied by (1 / tensor scale) / block scale, the order that
torchao and its GPU kernel share. Source: torchao 0.18, prototype/mx_formats/nvfp4_tensor.py; compared bit for bit.

`four_over_six`: a block may put its maximum at 4 instead of 6 (scale 1.5 times larger) where that has the smaller squared
error, because E2M1 has no number between 4 and 6. The tensor scale then leaves room: largest magnitude / (256 · 6), 384
being exact in E4M3. Source: Cook et al., Four Over Six, arXiv 2512.02010, and its code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline_model.codecs.layout import Layout, float_limits, numpy_dtype
from roofline_model.codecs.options import ScaleRule
from roofline_model.codecs.scaled import encode_blocks, squared_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

FOUR_OVER_SIX_TARGET = 256.0
FOUR_OVER_SIX_FACTOR = 1.5
LARGEST_FACTOR = 2.0**127
"""1 / tensor scale / block scale stays finite in float32: a tensor below 1e-33 keeps a larger tensor scale for it."""


def encode_two_level(blocks: Array, largest: Array, layout: Layout, rule: ScaleRule, absmax: float | None) -> tuple[Array, Array, float]:  # fmt: skip
    """Return codes (blocks, n), block scales (blocks,) in their own type, and the tensor scale.

    `absmax`: a calibrated largest magnitude of the tensor instead of its own; blocks beyond it saturate.
    """
    import numpy as np

    smallest_scale, largest_scale = float_limits(layout.scale_dtype)
    target = FOUR_OVER_SIX_TARGET if rule == "four_over_six" else largest_scale
    peak = np.float32(largest.max() if absmax is None else absmax)
    smallest = np.float32(1 / (LARGEST_FACTOR * smallest_scale))
    tensor_scale = max(peak / np.float32(target * layout.element.max_value), smallest)
    wanted = largest / np.float32(layout.element.max_value) / tensor_scale
    scales = _block_scales(wanted, layout)
    codes = encode_blocks(blocks, layout.element, _factors(tensor_scale, scales), is_factor=True)
    if rule == "four_over_six":
        others = _block_scales(wanted * np.float32(FOUR_OVER_SIX_FACTOR), layout)
        other_codes = encode_blocks(blocks, layout.element, _factors(tensor_scale, others), is_factor=True)
        error_at_six, error_at_four = (
            squared_errors(blocks, c, layout.element, combined_scales(float(tensor_scale), s))
            for c, s in ((codes, scales), (other_codes, others))
        )
        is_better = error_at_four < error_at_six
        codes[is_better], scales[is_better] = other_codes[is_better], others[is_better]
    return codes, scales, float(tensor_scale)


def combined_scales(tensor_scale: float, scales: Array) -> Array:
    """Return tensor scale · block scale in float32: what a decoded element is multiplied by."""
    import numpy as np

    return np.float32(tensor_scale) * scales.astype(np.float32)


def _block_scales(wanted: Array, layout: Layout) -> Array:
    import numpy as np

    smallest, largest = float_limits(layout.scale_dtype)
    return np.asarray(
        np.clip(wanted, np.float32(smallest), np.float32(largest)).astype(numpy_dtype(layout.scale_dtype))
    )


def _factors(tensor_scale: Any, scales: Array) -> Array:
    import numpy as np

    return np.asarray((np.float32(1) / np.float32(tensor_scale)) / scales.astype(np.float32))
