"""A precision as a strategy writes it: one format, or WEIGHT.ACTIVATION for a projection."""

from __future__ import annotations

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format, split_precision
from roofline_model.models.format_plan import PartFormats, check_pair
from roofline_model.models.strategies.operator_type import (
    ATTENTION_PRODUCTS,
    PROJECTIONS,
    VECTOR_OPERATORS,
    OperatorType,
)
from roofline_model.operators.operand_formats import activation_format, is_wide_float


def canonical_precision(operator: OperatorType, text: str) -> str:
    """Return a precision in canonical spelling (`fp8` → `FP8_E4M3`, `int4.bf16` → `INT4.BF16`).

    Raises `UnknownNameError` for a format nobody knows and `InvalidValueError` for one the operator cannot have.
    """
    weight, activation = split_precision(text)
    if activation is not None:
        if operator not in PROJECTIONS:
            raise InvalidValueError(
                f"{operator.value}={text}: WEIGHT.ACTIVATION is for projections ({', '.join(PROJECTIONS)}); give one "
                "format"
            )
        check_pair(operator.value, weight, activation)
        return f"{weight.key}.{activation.key}"
    if operator in VECTOR_OPERATORS and not is_wide_float(weight):
        raise InvalidValueError(
            f"{operator.value}={weight.key}: norms and softmax need a plain float of 16 bits or more, e.g. FP16"
        )
    if operator in ATTENTION_PRODUCTS:
        activation_format(operator.value, weight)
    return weight.key


def part_formats(operator: OperatorType, text: str, default_activation: str) -> PartFormats:
    """Return the formats behind a precision; the activation is the default's unless the text names one.

    A weight wider than the default activation keeps its own format on both sides: the operator is not quantised.
    """
    weight, activation = split_precision(text)
    if activation is None:
        default = get_format(default_activation)
        activation = default if default.element_bits >= weight.element_bits else weight
        check_pair(operator.value, weight, activation)
    return PartFormats(weight.key, activation.key)
