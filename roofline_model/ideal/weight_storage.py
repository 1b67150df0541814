"""How the weight of a product lies in memory where its format alone does not say: one account for every prediction.

The catalog's INT4 and INT2 carry no scales, as the original documents count them, and a product of two such operands is
counted like that. A weight-only pair (`INT4.BF16`) runs on a kernel that reads scales: one of 16 bits per 128 weights,
4.125 bits an element, as the kernels behind the expected time store them and as `predict model` counts. A zero point is
the kernel's own affair: a kernel that was measured is predicted with its own layout (`KernelSpec.weight_format`).
"""

from __future__ import annotations

from dataclasses import replace

from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.ideal.roofline import Prediction
from roofline_model.operators.product import FormatLike, Operator, gemm

WEIGHT_GROUP_ELEMS, WEIGHT_SCALE_BITS = 128, 16
"""Weights that share a scale, and its bits: the layout of the measured W4A16 kernels (TensorRT-LLM, groups of 128)."""


def with_group_scales(fmt: NumberFormat) -> NumberFormat:
    """Return INT4 and INT2 with the group scales that weight-only kernels read; other formats unchanged."""
    if fmt.kind != "int" or not fmt.is_sub_byte or fmt.scales:
        return fmt
    return fmt.grouped(WEIGHT_GROUP_ELEMS, scale_bits=WEIGHT_SCALE_BITS)


def stored_weight(weight: NumberFormat, activation: NumberFormat) -> NumberFormat:
    """Return the weight of a pair as it lies in memory: with group scales where it is widened to a wider activation."""
    return with_group_scales(weight) if activation.element_bits > weight.element_bits else weight


def product_of_pair(M: int, N: int, K: int, *, weight: FormatLike, activation: FormatLike) -> Operator:
    """Return C(M×N) = A(M×K)·B(K×N) of a weight and an activation format, the weight as `stored_weight` has it."""
    fa = get_format(activation)
    return gemm(M, N, K, a=fa, b=stored_weight(get_format(weight), fa))


def with_storage(prediction: Prediction, weight: FormatLike, activation: FormatLike) -> Prediction:
    """Return the ideal prediction of `product_of_pair` with a finding on how its weight is counted, where that needs one.

    A unit that multiplies the format takes it as it is: none.
    """
    if prediction.path == "native" and get_format(weight) == get_format(activation):
        return prediction
    counted = weight_counting(get_format(weight), get_format(activation))
    return prediction if counted is None else replace(prediction, findings=(*prediction.findings, counted))


def weight_counting(weight: NumberFormat, activation: NumberFormat) -> Finding | None:
    """Return how the weight of a pair is counted; None where its format says it all."""
    grouped = with_group_scales(weight)
    if grouped == weight:
        return None
    if stored_weight(weight, activation) == weight:
        return finding("scales-not-counted", format=weight.key)
    return finding(
        "group-scales",
        format=weight.key,
        scale_bits=WEIGHT_SCALE_BITS,
        group_count=WEIGHT_GROUP_ELEMS,
        bits=grouped.nominal_bits,
    )
