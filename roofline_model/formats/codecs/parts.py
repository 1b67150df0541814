"""What a codec computes in the order of blocks, put back into the tensor's order of axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline_model.formats.catalog import NumberFormat
from roofline_model.formats.codecs.arrays import back_from_rows
from roofline_model.formats.codecs.quantized import Quantized
from roofline_model.formats.codecs.scales.blocks import from_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Parts:
    """Codes (rows, n) or (blocks, n), one scale and zero point per block, and the outer levels; see `Quantized`."""

    codes: Array
    scales: Array | None = None
    zero_points: Array | None = None
    tensor_scale: float | None = None
    group_scales: Array | None = None
    mean_scale: float | None = None


def assemble(parts: Parts, fmt: NumberFormat, shape: tuple[int, ...], axis: int) -> Quantized:
    """Return the tensor of `shape` whose blocks ran along `axis`."""
    axis_elems = shape[axis]
    rows = math.prod(shape) // axis_elems
    has_one_scale = bool(fmt.scales) and fmt.scales[0].block_elems is None

    def in_place(per_block: Array | None) -> Array | None:
        if per_block is None:
            return None
        if has_one_scale:
            return per_block.reshape((1,) * len(shape))
        return back_from_rows(per_block.reshape(rows, -1), shape, axis)

    return Quantized(
        format=fmt,
        shape=shape,
        axis_index=axis,
        codes=back_from_rows(from_blocks(parts.codes, rows, axis_elems), shape, axis),
        scales=in_place(parts.scales),
        zero_points=in_place(parts.zero_points),
        tensor_scale=parts.tensor_scale,
        group_scales=in_place(parts.group_scales),
        mean_scale=parts.mean_scale,
    )
