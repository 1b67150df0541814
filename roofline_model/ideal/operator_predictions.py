"""Ideal predictions of a decoder layer's operators by name, beside `predict_gemv` and `predict_gemm` of
`ideal/roofline.py`.

Argument order and defaults follow the original documents: the chip first, sizes, then one `precision` for everything;
keywords give weights, cache and output formats of their own. For other operators: `predict(rope(…), "gb10")`.
"""

from __future__ import annotations

from roofline_model.chips.hardware import Device
from roofline_model.ideal.operator_sequence import SequencePrediction, predict_operator, predict_sequence
from roofline_model.ideal.roofline import Prediction
from roofline_model.operators.attention import attention, unfused_attention_parts
from roofline_model.operators.elementwise import residual_add, rmsnorm, rope, silu_mul, softmax
from roofline_model.operators.kv_cache import kv_read, kv_write
from roofline_model.operators.layers import embedding, ffn_parts, lm_head, projections
from roofline_model.operators.product import FormatLike, check_dimension
from roofline_model.operators.quantize import dequantize, quantize


def predict_attention(
    hardware: Device | str,
    batch: int,
    num_heads: int,
    seq_len: int,
    head_dim: int,
    precision: FormatLike = "FP16",
    *,
    kv_len: int | None = None,
    num_kv_heads: int | None = None,
    kv_precision: FormatLike | None = None,
    output_precision: FormatLike | None = None,
    causal: bool = False,
    window: int | None = None,
    page_tokens: int | None = None,
    cache: str = "cold",
) -> Prediction:
    """Return the ideal prediction of fused attention: `seq_len` new tokens against `kv_len` keys (default: as many).

    Q is (B, Hq, Sq, D), K and V are (B, Hkv, Skv, D). Decode is seq_len=1 with kv_len=context. `num_kv_heads` defaults
    to `num_heads` (no grouping).
    """
    work = attention(
        batch,
        num_heads,
        num_heads if num_kv_heads is None else num_kv_heads,
        seq_len,
        seq_len if kv_len is None else kv_len,
        head_dim,
        q=precision,
        kv=kv_precision,
        o=output_precision,
        causal=causal,
        window=window,
        page_tokens=page_tokens,
    )
    return predict_operator(work, hardware, cache=cache)


def predict_unfused_attention(
    hardware: Device | str,
    batch: int,
    num_heads: int,
    seq_len: int,
    head_dim: int,
    precision: FormatLike = "FP16",
    *,
    kv_len: int | None = None,
    num_kv_heads: int | None = None,
    kv_precision: FormatLike | None = None,
    output_precision: FormatLike | None = None,
    causal: bool = False,
    window: int | None = None,
    cache: str = "cold",
) -> SequencePrediction:
    """Return the ideal prediction of QKᵀ, softmax and score×V as three kernels: what fused attention saves."""
    parts = unfused_attention_parts(
        batch,
        num_heads,
        num_heads if num_kv_heads is None else num_kv_heads,
        seq_len,
        seq_len if kv_len is None else kv_len,
        head_dim,
        q=precision,
        kv=kv_precision,
        o=output_precision,
        causal=causal,
        window=window,
    )
    return predict_sequence(parts, hardware, cache=cache)


def predict_ffn(
    hardware: Device | str,
    batch: int,
    seq_len: int,
    hidden: int,
    ffn_dim: int,
    precision: FormatLike = "FP16",
    gate: bool = True,
    *,
    weight_precision: FormatLike | None = None,
    output_precision: FormatLike | None = None,
    fused: bool = False,
    dynamic_activation_quantization: bool = False,
    cache: str = "cold",
) -> SequencePrediction:
    """Return the ideal prediction of a feed-forward block over batch·seq_len tokens, kernel by kernel.

    `gate`: SwiGLU with gate, up and down projection; without: up and down with GELU. `fused` and
    `dynamic_activation_quantization` as in `layer_ops.ffn_parts`.
    """
    parts = ffn_parts(
        _tokens(batch, seq_len),
        hidden,
        ffn_dim,
        a=precision,
        b=weight_precision,
        c=output_precision,
        gated=gate,
        fused=fused,
        dynamic_activation_quantization=dynamic_activation_quantization,
    )
    return predict_sequence(parts, hardware, cache=cache)


def predict_projections(
    hardware: Device | str,
    batch: int,
    seq_len: int,
    hidden: int,
    num_heads: int,
    head_dim: int,
    precision: FormatLike = "FP16",
    *,
    num_kv_heads: int | None = None,
    weight_precision: FormatLike | None = None,
    output_precision: FormatLike | None = None,
    fused: bool = False,
    cache: str = "cold",
) -> SequencePrediction:
    """Return the ideal prediction of the Q, K, V and O projections over batch·seq_len tokens."""
    kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    parts = projections(
        _tokens(batch, seq_len),
        hidden,
        num_heads,
        kv_heads,
        head_dim,
        a=precision,
        b=weight_precision,
        c=output_precision,
        fused=fused,
    )
    return predict_sequence(parts, hardware, cache=cache)


def predict_softmax(hardware: Device | str, rows: int, width: int, precision: FormatLike = "FP16") -> Prediction:
    """Return the ideal prediction of softmax over `rows` rows of `width`."""
    return predict_operator(softmax(rows, width, a=precision), hardware)


def predict_rmsnorm(hardware: Device | str, rows: int, width: int, precision: FormatLike = "FP16") -> Prediction:
    """Return the ideal prediction of RMSNorm over `rows` tokens of `width` (without the gain's few bytes)."""
    return predict_operator(rmsnorm(rows, width, a=precision), hardware)


def predict_residual_add(hardware: Device | str, rows: int, width: int, precision: FormatLike = "FP16") -> Prediction:
    """Return the ideal prediction of the addition of two tensors of `rows` by `width`."""
    return predict_operator(residual_add(rows, width, a=precision), hardware)


def predict_rope(hardware: Device | str, rows: int, width: int, precision: FormatLike = "FP16") -> Prediction:
    """Return the ideal prediction of the rotary embedding of `rows` tokens with `width` rotated elements each."""
    return predict_operator(rope(rows, width, a=precision), hardware)


def predict_silu_mul(hardware: Device | str, rows: int, width: int, precision: FormatLike = "FP16") -> Prediction:
    """Return the ideal prediction of SiLU(gate)·up over `rows` tokens of `width`."""
    return predict_operator(silu_mul(rows, width, a=precision), hardware)


def predict_embedding(
    hardware: Device | str, rows: int, vocabulary: int, hidden: int, precision: FormatLike = "FP16"
) -> Prediction:
    """Return the ideal prediction of looking `rows` tokens up in a table of `vocabulary` by `hidden`."""
    return predict_operator(embedding(rows, vocabulary, hidden, b=precision), hardware)


def predict_lm_head(
    hardware: Device | str,
    rows: int,
    vocabulary: int,
    hidden: int,
    precision: FormatLike = "FP16",
    *,
    weight_precision: FormatLike | None = None,
    output_precision: FormatLike | None = None,
) -> Prediction:
    """Return the ideal prediction of the logits of `rows` tokens."""
    work = lm_head(rows, vocabulary, hidden, a=precision, b=weight_precision, c=output_precision)
    return predict_operator(work, hardware)


def predict_kv_write(
    hardware: Device | str,
    batch: int,
    num_kv_heads: int,
    seq_len: int,
    head_dim: int,
    precision: FormatLike = "FP16",
    *,
    kv_precision: FormatLike | None = None,
    page_tokens: int | None = None,
) -> Prediction:
    """Return the ideal prediction of appending K and V of `seq_len` tokens to the cache of one layer."""
    work = kv_write(batch, num_kv_heads, seq_len, head_dim, source=precision, kv=kv_precision, page_tokens=page_tokens)
    return predict_operator(work, hardware)


def predict_kv_read(
    hardware: Device | str,
    batch: int,
    num_kv_heads: int,
    kv_len: int,
    head_dim: int,
    kv_precision: FormatLike = "FP16",
    *,
    precision: FormatLike | None = None,
    page_tokens: int | None = None,
) -> Prediction:
    """Return the ideal prediction of gathering the cache of one layer into plain tensors in `precision`."""
    work = kv_read(batch, num_kv_heads, kv_len, head_dim, kv=kv_precision, target=precision, page_tokens=page_tokens)
    return predict_operator(work, hardware)


def predict_quantize(
    hardware: Device | str,
    rows: int,
    width: int,
    source: FormatLike = "FP16",
    target: FormatLike = "FP8_E4M3",
    *,
    scale: str | None = None,
) -> Prediction:
    """Return the ideal prediction of a quantise kernel (`quantize_ops.quantize`)."""
    return predict_operator(quantize(rows, width, source, target, scale=scale), hardware)


def predict_dequantize(
    hardware: Device | str, rows: int, width: int, source: FormatLike = "FP8_E4M3", target: FormatLike = "FP16"
) -> Prediction:
    """Return the ideal prediction of a dequantise kernel (`quantize_ops.dequantize`)."""
    return predict_operator(dequantize(rows, width, source, target), hardware)


def _tokens(batch: int, seq_len: int) -> int:
    check_dimension("batch", batch)
    check_dimension("seq_len", seq_len)
    return batch * seq_len
