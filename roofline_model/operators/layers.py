"""The products of a decoder layer and around it: projections, feed-forward block, embedding, lm_head.

Every product is a `gemm` (`gemv` up to 16 rows) with the letters of `operators`: a activation, b weight, c output, each
in its own format. `rows` is the number of tokens, B·T. Kernels that fuse an elementwise operation into a product count
the product's FLOPs only: the rest runs beside the tensor cores.
"""

from __future__ import annotations

from roofline_model.core.cost import OpCost
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.attention_shape import check_heads
from roofline_model.operators.elementwise import gelu, silu_mul
from roofline_model.operators.operand_formats import activation_format, product_format
from roofline_model.operators.product import FormatLike, Operator, check_dimension, default_output_format, gemm
from roofline_model.operators.quantize import quantize


def projections(
    rows: int,
    hidden: int,
    Hq: int,
    Hkv: int,
    D: int,
    *,
    a: FormatLike = "BF16",
    b: FormatLike | None = None,
    c: FormatLike | None = None,
    fused: bool = False,
) -> dict[str, Operator]:
    """Return the projections of attention by name: q_proj, k_proj, v_proj, o_proj; fused: qkv_proj, o_proj.

    Q is hidden → Hq·D, K and V are hidden → Hkv·D, O is Hq·D → hidden: Hq·D need not equal `hidden`. Fused, one product
    reads the tokens once for Q, K and V.
    """
    check_heads(Hq, Hkv)
    check_dimension("D", D)
    fa, fb, fc = _formats(a, b, c)
    o_proj = _product(rows, hidden, Hq * D, fa, fb, fc)
    if fused:
        return {"qkv_proj": _product(rows, (Hq + 2 * Hkv) * D, hidden, fa, fb, fc), "o_proj": o_proj}
    key = _product(rows, Hkv * D, hidden, fa, fb, fc)
    return {"q_proj": _product(rows, Hq * D, hidden, fa, fb, fc), "k_proj": key, "v_proj": key, "o_proj": o_proj}


def ffn_parts(
    rows: int,
    hidden: int,
    intermediate: int,
    *,
    a: FormatLike = "BF16",
    b: FormatLike | None = None,
    c: FormatLike | None = None,
    gated: bool = True,
    fused: bool = False,
    dynamic_activation_quantization: bool = False,
) -> dict[str, Operator]:
    """Return the kernels of a feed-forward block by name, in the order they run.

    Gated (SwiGLU, Llama): gate_proj, up_proj, silu_mul, down_proj; without a gate (Phi-2): up_proj, gelu, down_proj.
    `fused`: gate, up and the activation in one kernel (gate_up_silu_mul or up_gelu) that writes only what the down
    projection reads. The products write `c`; the activation function writes `a`, its cast fused.
    `dynamic_activation_quantization`: the casts are kernels of their own (quantize_input, quantize_hidden), because the
    scales are not known before.
    """
    fa, fb, fc = _formats(a, b, c)
    is_narrow = fa.element_bits < fc.element_bits
    if dynamic_activation_quantization and not is_narrow:
        raise InvalidValueError(
            f"dynamic_activation_quantization contradicts a={fa.key}: activations as wide as the output c={fc.key} are "
            "not quantised"
        )
    written = fc if dynamic_activation_quantization else fa
    parts: dict[str, Operator] = {}
    if dynamic_activation_quantization:
        parts["quantize_input"] = quantize(rows, hidden, fc, fa)
    if fused:
        name = "gate_up_silu_mul" if gated else "up_gelu"
        parts[name] = _fused_up(name, rows, intermediate, hidden, (fa, fb, written), 2 if gated else 1)
    else:
        up = _product(rows, intermediate, hidden, fa, fb, fc)
        if gated:
            parts |= {"gate_proj": up, "up_proj": up, "silu_mul": silu_mul(rows, intermediate, a=fc, o=written)}
        else:
            parts |= {"up_proj": up, "gelu": gelu(rows, intermediate, a=fc, o=written)}
    if dynamic_activation_quantization:
        parts["quantize_hidden"] = quantize(rows, intermediate, fc, fa)
    parts["down_proj"] = _product(rows, hidden, intermediate, fa, fb, fc)
    return parts


def embedding(
    rows: int, vocabulary: int, hidden: int, *, b: FormatLike = "BF16", o: FormatLike | None = None
) -> Operator:
    """Return the lookup of `rows` tokens in a table of `vocabulary` rows of `hidden` elements.

    Counts: a table row per token, but no more rows than the table has; the output once. Ignores: the token ids.
    """
    for name, size in (("rows", rows), ("vocabulary", vocabulary), ("hidden", hidden)):
        check_dimension(name, size)
    fb = get_format(b)
    fo = default_output_format(fb) if o is None else activation_format("o", o)
    cost = OpCost(
        read_bytes={"table": min(rows, vocabulary) * hidden * fb.traffic_bytes_per_element},
        write_bytes={"Y": rows * hidden * fo.traffic_bytes_per_element},
    )
    shape = (("rows", rows), ("vocabulary", vocabulary), ("hidden", hidden))
    return Operator("embedding", shape, (("table", fb.key), ("o", fo.key)), cost)


def lm_head(
    rows: int,
    vocabulary: int,
    hidden: int,
    *,
    a: FormatLike = "BF16",
    b: FormatLike | None = None,
    c: FormatLike | None = None,
) -> Operator:
    """Return the product of `rows` tokens with the output table: logits (rows, vocabulary).

    Prefill needs one row each.
    """
    return _product(rows, vocabulary, hidden, *_formats(a, b, c))


def _formats(
    a: FormatLike, b: FormatLike | None, c: FormatLike | None
) -> tuple[NumberFormat, NumberFormat, NumberFormat]:
    fa = activation_format("a", a)
    fb = fa if b is None else get_format(b)
    product_format("a", fa, "b", fb)
    return fa, fb, default_output_format(fa) if c is None else activation_format("c", c)


def _product(rows: int, columns: int, inner: int, a: NumberFormat, b: NumberFormat, c: NumberFormat) -> Operator:
    return gemm(rows, columns, inner, a=a, b=b, c=c)


def _fused_up(
    name: str,
    rows: int,
    columns: int,
    inner: int,
    formats: tuple[NumberFormat, NumberFormat, NumberFormat],
    matrices: int,
) -> Operator:
    """Return `matrices` products of the same tokens whose results leave the kernel as one tensor of `columns`."""
    a, b, written = formats
    both = gemm(rows, matrices * columns, inner, a=a, b=b)
    cost = OpCost(both.cost.flops, both.cost.read_bytes, {"C": rows * columns * written.traffic_bytes_per_element})
    return Operator(name, both.shape, (("a", a.key), ("b", b.key), ("c", written.key)), cost)
