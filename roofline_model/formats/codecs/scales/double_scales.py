"""Double quantisation of NF4's scales: 8 bits each, in groups of 256 that share one FP32 number.

The mean of all scales is taken off first, so that the rest is centred and small (QLoRA §3). The paper stores “8-bit
floats” without naming them; we store INT8, as torchao does. Groups do not cross rows, so that a row stays readable alone.
Elements are encoded with the scales as they will be decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline_model.formats.codecs.elements.elements import IntElement
from roofline_model.formats.codecs.layout import DOUBLE_GROUP_SCALES
from roofline_model.formats.codecs.scales.blocks import from_blocks, to_blocks
from roofline_model.formats.codecs.scales.scaled import decode_blocks, encode_blocks, symmetric_scales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_INT8 = IntElement(8, 127.0)


def quantize_scales(scales: Array) -> tuple[Array, Array, float]:
    """Return INT8 codes (rows, blocks), FP32 group scales (rows, groups) and the FP32 mean of scales (rows, blocks)."""
    import numpy as np

    mean = np.float32(scales.mean(dtype=np.float64))
    groups = to_blocks(scales - mean, DOUBLE_GROUP_SCALES)
    group_scales = symmetric_scales(np.abs(groups).max(axis=1), _INT8, "float32")
    codes = from_blocks(encode_blocks(groups, _INT8, group_scales), *scales.shape)
    return codes, group_scales.reshape(len(scales), -1), float(mean)


def dequantize_scales(codes: Array, group_scales: Array, mean_scale: float) -> Array:
    """Return the FP32 scales (rows, blocks); what rounding pushed below zero is zero."""
    import numpy as np

    centred = decode_blocks(to_blocks(codes, DOUBLE_GROUP_SCALES), _INT8, group_scales.reshape(-1))
    return np.maximum(from_blocks(centred, *codes.shape) + np.float32(mean_scale), np.float32(0))
