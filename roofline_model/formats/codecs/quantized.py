"""A quantised tensor as a value, in its order of axes: codes, scales, and everything needed to read it again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from roofline_model.formats.catalog import NumberFormat
from roofline_model.formats.codecs.arrays import back_from_rows
from roofline_model.formats.codecs.scales.blocks import from_blocks

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Quantized:
    """Codes and scales of one tensor. `dequantize` gives the numbers back, `pack` the bytes.

    value = (element(code) − zero_point) · scale · tensor_scale, every factor that is None left out.
    """

    format: NumberFormat
    """The format that is really stored: the one asked for, with the scales that were added (INT4 becomes grouped)."""
    shape: tuple[int, ...]
    axis_index: int
    """The axis along which blocks run, counted from the front."""
    codes: Array
    """In the tensor's shape: bit patterns (uint8…uint64) of floats, indices of a table, or signed integers."""
    scales: Array | None = None
    """In the type they are stored in; the tensor's shape with the axis cut to its number of blocks, or all ones."""
    zero_points: Array | None = None
    """Signed integers beside the scales, one each; None: symmetric."""
    tensor_scale: float | None = None
    """The second level of NVFP4: one FP32 number."""
    group_scales: Array | None = None
    """Doubly quantised scales only: FP32, one per 256 scales of a row."""
    mean_scale: float | None = None
    """Doubly quantised scales only: added to every scale."""

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape with the blocked axis last: how `pack` walks through the tensor."""
        rest = [n for i, n in enumerate(self.shape) if i != self.axis_index]
        return (*rest, self.shape[self.axis_index])

    @property
    def element_count(self) -> int:
        """Elements of the tensor."""
        return int(self.codes.size)

    @property
    def packed_bytes(self) -> int:
        """Bytes of the packed tensor, scales, zero points and the padding of the last byte of each part included."""
        return self.format.storage_bytes(self.stored_shape)

    @property
    def bits_per_element(self) -> float:
        """What one element really costs in this tensor."""
        return 8 * self.packed_bytes / self.element_count


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
