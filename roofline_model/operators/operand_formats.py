"""Which formats can meet in one operator: contradictions are refused by the name of the operand."""

from __future__ import annotations

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.product import FormatLike, compute_format

VECTOR_FORMAT = "FP32"
"""Softmax, norms and other elementwise arithmetic run on the ordinary cores in single precision, whatever is stored."""


def activation_format(name: str, given: FormatLike) -> NumberFormat:
    """Return the format of an activation; raises `InvalidValueError` for a code table, which only weights are kept
    in.
    """
    fmt = get_format(given)
    if fmt.kind == "table":
        raise InvalidValueError(
            f"{name}={fmt.key}: a code table is a format of weights or caches; a float or an integer format is needed "
            f"for {name}"
        )
    return fmt


def product_format(a_name: str, a: NumberFormat, b_name: str, b: NumberFormat) -> str:
    """Return the format that a product of `a` and `b` is computed in: the wider one's, as `operators.compute_format`.

    Raises `InvalidValueError` for two operands of equal width and different kind (FP8 by INT8): neither is the wider
    one, and no unit multiplies a float by an integer.
    """
    if a.kind != b.kind and a.element_bits == b.element_bits:
        raise InvalidValueError(
            f"{a_name}={a.key} and {b_name}={b.key} contradict each other: no unit multiplies {_kind(a)} by {_kind(b)} "
            f"of the same width; give both the same kind, or use 16-bit activations"
        )
    return compute_format(a, b)


def vector_format(*formats: NumberFormat) -> str:
    """Return the format of elementwise arithmetic on these operands: FP32, or FP64 where one of them is FP64."""
    return "FP64" if any(fmt.key == "FP64" for fmt in formats) else VECTOR_FORMAT


def is_wide_float(fmt: NumberFormat) -> bool:
    """Return True for a plain float of 16 bits or more: what kernels compute on without scales."""
    return fmt.kind == "float" and not fmt.scales and fmt.element_bits >= 16


def _kind(fmt: NumberFormat) -> str:
    return {"float": "a float", "int": "an integer", "table": "a table index"}[fmt.kind]
