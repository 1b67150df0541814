"""Quantise and dequantise as kernels of their own: what dynamic activation quantisation adds to a product.

A kernel that finds one scale for the whole tensor reads it twice, once for the maximum and once to cast; one scale per
row or per block is found and applied in one pass. Source: torchao's roofline helpers count the same passes (tensorwise
2, rowwise and MX 1, dynamic NVFP4 2, static 1; research/models.md §1.2, repository pytorch/ao).
"""

from __future__ import annotations

from roofline_model.core.cost import OpCost
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.operand_formats import activation_format, is_wide_float, vector_format
from roofline_model.operators.product import FormatLike, Operator, check_dimension

SCALES = ("row", "tensor", "block", "static")
"""Where a quantised tensor's scale comes from: each row (token), the tensor, each block, or known beforehand."""

SCALE_BYTES = 4
"""One FP32 scale per row or tensor, where the format itself counts none."""

SCALE_SEARCH_FLOPS_PER_ELEMENT = 2
"""Absolute value and running maximum."""

CAST_FLOPS_PER_ELEMENT = 2
"""Division by the scale and rounding."""


def quantize(
    rows: int, width: int, source: FormatLike = "BF16", target: FormatLike = "FP8_E4M3", *, scale: str | None = None
) -> Operator:
    """Return the kernel that casts `rows` by `width` elements from `source` to the narrower `target`.

    `scale`: `row`, `tensor`, `block` or `static` (known, nothing is searched); None takes what the target asks for:
    block formats find a scale per block (NVFP4 the one of the tensor, too), plain ones per row.
    Counts: the source once, twice where the scale of the tensor is searched; the target once, with its scales.
    Raises `InvalidValueError` naming the field when the target is not narrower, the source is no plain float, or a
    block format is asked for the scale of a row.
    """
    check_dimension("rows", rows)
    check_dimension("width", width)
    fs, ft = get_format(source), get_format(target)
    if not is_wide_float(fs):
        raise InvalidValueError(f"source={fs.key}: quantize starts from a float of 16 bits or more, e.g. BF16")
    if ft.element_bits >= fs.element_bits:
        raise InvalidValueError(f"target={ft.key} is not narrower than source={fs.key}: nothing is quantised")
    chosen = _scale(ft, scale)
    elements = rows * width
    passes = 2 if chosen == "tensor" or (chosen == "block" and _has_tensor_scale(ft)) else 1
    writes = {"Y": elements * ft.traffic_bytes_per_element}
    if chosen in ("row", "tensor"):
        writes["scales"] = SCALE_BYTES * (rows if chosen == "row" else 1)
    cost = OpCost(
        flops={vector_format(fs): elements * cast_flops_per_element(chosen)},
        read_bytes={"X": passes * elements * fs.traffic_bytes_per_element},
        write_bytes=writes,
    )
    return Operator("quantize", (("rows", rows), ("width", width)), (("x", fs.key), ("o", ft.key)), cost)


def dequantize(rows: int, width: int, source: FormatLike = "FP8_E4M3", target: FormatLike = "BF16") -> Operator:
    """Return the kernel that widens `rows` by `width` elements from `source` to the plain float `target`.

    Counts: the source with its scales once, the target once, one product per element.
    """
    check_dimension("rows", rows)
    check_dimension("width", width)
    fs, ft = get_format(source), activation_format("target", target)
    if not is_wide_float(ft):
        raise InvalidValueError(f"target={ft.key}: dequantize ends in a float of 16 bits or more, e.g. BF16")
    if fs.element_bits >= ft.element_bits:
        raise InvalidValueError(f"target={ft.key} is not wider than source={fs.key}: nothing is dequantised")
    elements = rows * width
    cost = OpCost(
        flops={vector_format(ft): elements},
        read_bytes={"X": elements * fs.traffic_bytes_per_element},
        write_bytes={"Y": elements * ft.traffic_bytes_per_element},
    )
    return Operator("dequantize", (("rows", rows), ("width", width)), (("x", fs.key), ("o", ft.key)), cost)


def cast_flops_per_element(scale: str) -> int:
    """Return the FLOPs that quantising one element takes with this `scale`."""
    return CAST_FLOPS_PER_ELEMENT + (0 if scale == "static" else SCALE_SEARCH_FLOPS_PER_ELEMENT)


def _scale(target: NumberFormat, requested: str | None) -> str:
    if requested is not None and requested not in SCALES:
        raise InvalidValueError(f"scale must be one of {', '.join(SCALES)}, got {requested!r}")
    has_blocks = target.block_elems is not None
    if requested is None:
        return "block" if has_blocks else "row"
    if has_blocks and requested in ("row", "tensor"):
        raise InvalidValueError(
            f"scale={requested} contradicts target={target.key}, which has a scale per block of {target.block_elems}; use "
            "block or static"
        )
    if requested == "block" and not has_blocks:
        raise InvalidValueError(
            f"scale=block contradicts target={target.key}, which has no blocks; use row, tensor or static, or "
            f"{target.key}.grouped(…)"
        )
    return requested


def _has_tensor_scale(fmt: NumberFormat) -> bool:
    return any(level.block_elems is None for level in fmt.scales)
