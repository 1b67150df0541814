"""Elementwise operators of a decoder layer: softmax, RMSNorm, residual, RoPE, the FFN's activation.

Each reads its input once and writes its output once; arithmetic is FP32 (`operand_formats.VECTOR_FORMAT`).
FLOP counts per element are those of the original documents (002, "Elementwise Operations" and "FFN Block"); a
transcendental function counts as one FLOP. All of them stay far below every chip's ridge, so the time does not depend
on them.
"""

from __future__ import annotations

from roofline_model.core.cost import OpCost
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.operand_formats import activation_format, vector_format
from roofline_model.operators.product import FormatLike, Operator, check_dimension

SOFTMAX_FLOPS_PER_ELEMENT = 5
"""Maximum, subtraction, exp, sum, division."""

RMSNORM_FLOPS_PER_ELEMENT = 5
"""Square, sum, the root's share, scaling by the root, scaling by the gain (document 002)."""

ROPE_FLOPS_PER_ELEMENT = 6
"""Document 002. A rotation by given sines and cosines takes 6 per pair, 3 per element: memory decides either way."""

SILU_MUL_FLOPS_PER_ELEMENT = 3
"""Sigmoid, times the gate, times the up projection (document 002)."""

GELU_FLOPS_PER_ELEMENT = 9
"""Hand count of the tanh form, x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))): eight products and sums, and the tanh."""


def softmax(rows: int, width: int, *, a: FormatLike = "BF16", o: FormatLike | None = None) -> Operator:
    """Return softmax over each of `rows` rows of `width` scores; attention has B·Hq·Sq rows of Skv."""
    return _elementwise("softmax", rows, width, SOFTMAX_FLOPS_PER_ELEMENT, ("X",), ("Y",), a, o)


def rmsnorm(
    rows: int, width: int, *, a: FormatLike = "BF16", o: FormatLike | None = None, gain: FormatLike | None = None
) -> Operator:
    """Return RMSNorm of `rows` vectors of `width`.

    `gain` is the format of the learned vector; None leaves it out, as the original documents do (it is `width` elements
    in all, and is often folded into the next weight). `o` is the output's format where a cast is fused.
    """
    done = _elementwise("rmsnorm", rows, width, RMSNORM_FLOPS_PER_ELEMENT, ("X",), ("Y",), a, o)
    return done if gain is None else _with_gain(done, width, get_format(gain))


def residual_add(rows: int, width: int, *, a: FormatLike = "BF16") -> Operator:
    """Return the addition of two tensors of `rows` by `width` into a third."""
    return _elementwise("residual_add", rows, width, 1, ("X", "residual"), ("Y",), a, None)


def residual_rmsnorm(
    rows: int, width: int, *, a: FormatLike = "BF16", o: FormatLike | None = None, gain: FormatLike | None = None
) -> Operator:
    """Return residual addition and RMSNorm in one kernel: the sum is written for the next residual and not read
    again.
    """
    check_dimension("rows", rows)
    check_dimension("width", width)
    fa = activation_format("a", a)
    fo = fa if o is None else activation_format("o", o)
    elements, size = rows * width, rows * width * fa.traffic_bytes_per_element
    cost = OpCost(
        flops={vector_format(fa, fo): (1 + RMSNORM_FLOPS_PER_ELEMENT) * elements},
        read_bytes={"X": size, "residual": size},
        write_bytes={"sum": size, "Y": elements * fo.traffic_bytes_per_element},
    )
    done = Operator("residual_rmsnorm", (("rows", rows), ("width", width)), (("x", fa.key), ("o", fo.key)), cost)
    return done if gain is None else _with_gain(done, width, get_format(gain))


def rope(rows: int, width: int, *, a: FormatLike = "BF16") -> Operator:
    """Return the rotary embedding of `rows` tokens; `width` = rotated elements of a token, (Hq + Hkv)·D as a rule.

    Ignores: the table of sines and cosines, which all heads of a token share.
    """
    return _elementwise("rope", rows, width, ROPE_FLOPS_PER_ELEMENT, ("X",), ("Y",), a, None)


def silu_mul(rows: int, width: int, *, a: FormatLike = "BF16", o: FormatLike | None = None) -> Operator:
    """Return SiLU(gate)·up of a SwiGLU feed-forward block; `o` is the output's format where a cast is fused."""
    return _elementwise("silu_mul", rows, width, SILU_MUL_FLOPS_PER_ELEMENT, ("gate", "up"), ("Y",), a, o)


def gelu(rows: int, width: int, *, a: FormatLike = "BF16", o: FormatLike | None = None) -> Operator:
    """Return GELU of a feed-forward block without a gate (Phi-2)."""
    return _elementwise("gelu", rows, width, GELU_FLOPS_PER_ELEMENT, ("X",), ("Y",), a, o)


def _elementwise(
    op: str,
    rows: int,
    width: int,
    flops_per_element: int,
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    a: FormatLike,
    o: FormatLike | None,
) -> Operator:
    check_dimension("rows", rows)
    check_dimension("width", width)
    fa = activation_format("a", a)
    fo = fa if o is None else activation_format("o", o)
    elements = rows * width
    cost = OpCost(
        flops={vector_format(fa, fo): flops_per_element * elements},
        read_bytes=dict.fromkeys(reads, elements * fa.traffic_bytes_per_element),
        write_bytes=dict.fromkeys(writes, elements * fo.traffic_bytes_per_element),
    )
    return Operator(op, (("rows", rows), ("width", width)), (("x", fa.key), ("o", fo.key)), cost)


def _with_gain(operator: Operator, width: int, gain: NumberFormat) -> Operator:
    cost = operator.cost + OpCost(read_bytes={"gain": width * gain.traffic_bytes_per_element})
    return Operator(operator.op, operator.shape, (*operator.formats, ("gain", gain.key)), cost)
