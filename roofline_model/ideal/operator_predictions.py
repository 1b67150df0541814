"""The original documents' ideal predictions of attention and of a feed-forward block, beside `predict_gemv` and
`predict_gemm` of `ideal/roofline.py`.

Argument order and defaults follow the documents: the chip first, sizes, then one `precision` for everything; keywords
give weights, cache and output formats of their own. Other operators: `predict_operator(rope(32, 4096), "gb10")`;
kernels that run one after the other: `predict_sequence(projections(…), "gb10")`.
"""

from __future__ import annotations

from roofline_model.chips.hardware import Device
from roofline_model.ideal.operator_sequence import SequencePrediction, predict_operator, predict_sequence
from roofline_model.ideal.roofline import Prediction
from roofline_model.operators.attention import attention
from roofline_model.operators.layers import ffn_parts
from roofline_model.operators.product import FormatLike, check_dimension


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
    `dynamic_activation_quantization` as in `ffn_parts`.
    """
    check_dimension("batch", batch)
    check_dimension("seq_len", seq_len)
    parts = ffn_parts(
        batch * seq_len,
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
