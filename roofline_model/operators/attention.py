"""Attention as one fused kernel, and as the three kernels it replaces.

FLOPs are those of the two products, 2 for each MAC, over the pairs of query and key that the mask leaves; this is the
convention of the FlashAttention papers (arXiv 2205.14135, 2307.08691). The softmax of a fused kernel runs beside the
tensor cores and is no FLOP of the product's unit; what it can cost is modelled in `expected/attention/flash/`.
"""

from __future__ import annotations

from roofline_model.core.cost import OpCost
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.attention_shape import check_attention_shape, keys_read, pages_read, visible_pairs
from roofline_model.operators.elementwise import softmax
from roofline_model.operators.operand_formats import activation_format, product_format
from roofline_model.operators.product import FormatLike, Operator, check_dimension, default_output_format

PAGE_NUMBER_BYTES = 4
"""One entry of a block table: int32, as in vLLM's and FlashInfer's paged attention."""


def attention(
    B: int,
    Hq: int,
    Hkv: int,
    Sq: int,
    Skv: int,
    D: int,
    *,
    q: FormatLike = "BF16",
    kv: FormatLike | None = None,
    o: FormatLike | None = None,
    causal: bool = False,
    window: int | None = None,
    fused: bool = True,
    Dv: int | None = None,
    shared_kv: bool = False,
    page_tokens: int | None = None,
    p: FormatLike | None = None,
) -> Operator:
    """Return softmax(Q·Kᵀ)·V of Q (B, Hq, Sq, D), K (B, Hkv, Skv, D), V (B, Hkv, Skv, Dv) into O (B, Hq, Sq, Dv).

    Counts, fused: 2·B·Hq·pairs·(D + Dv) FLOPs in the wider of `q` and `kv`; Q read and O written once; of K and V the
    rows that some query sees, once for each key/value head, in the cache's format with its scales; one page number per
    page read when the cache is paged. Ignores: re-reads of K and V by the query tiles of one head, partial results of
    a split cache.

    `fused=False` is the sum of `qk_scores`, `softmax` and `scores_value` over the keys that some query sees: plain
    products compute the masked scores, too. Its op is `unfused_attention`.

    `kv` defaults to `q`; `o` to the convention of products (FP8 in, FP16 out). `p` is the format in which the softmax's
    result meets V inside a fused kernel, where it is not that of `q` (SageAttention's INT8 scores and FP16 values).
    `window` = keys that a query sees, itself among them (see `attention_shape.visible_pairs`). `Dv` is V's head size
    where it differs from K's; `shared_kv` says that V is a part of K's rows, as in MLA's latent cache, and is not read
    again. Raises `InvalidValueError` naming the field: Hq no multiple of Hkv, window below 1, Sq above Skv under a
    mask, formats that contradict each other.
    """
    check_attention_shape(B, Hq, Hkv, Sq, Skv, D, causal=causal, window=window)
    value_size = _value_size(D, Dv, shared_kv)
    fq = activation_format("q", q)
    fkv = fq if kv is None else get_format(kv)
    fo = default_output_format(fq) if o is None else activation_format("o", o)
    fp = fq if p is None else activation_format("p", p)
    computed, weighted = product_format("q", fq, "kv", fkv), product_format("p", fp, "kv", fkv)
    if fused:
        pairs = B * Hq * visible_pairs(Sq, Skv, causal=causal, window=window)
        flops = {computed: 2 * pairs * D}
        flops[weighted] = flops.get(weighted, 0) + 2 * pairs * value_size
        cost = OpCost(
            flops=flops,
            read_bytes={
                "Q": B * Hq * Sq * D * fq.traffic_bytes_per_element,
                **_cache_bytes(B, Hkv, Sq, Skv, D, value_size, fkv, window, shared_kv, page_tokens),
            },
            write_bytes={"O": B * Hq * Sq * value_size * fo.traffic_bytes_per_element},
        )
    else:
        _check_plain_tensors(has_own_scores=fp != fq, shared_kv=shared_kv, page_tokens=page_tokens)
        parts = unfused_attention_parts(
            B, Hq, Hkv, Sq, Skv, D, q=fq, kv=fkv, o=fo, causal=causal, window=window, Dv=value_size
        )
        cost = parts["qk_scores"].cost + parts["softmax"].cost + parts["scores_value"].cost
    shape = [("B", B), ("Hq", Hq), ("Hkv", Hkv), ("Sq", Sq), ("Skv", Skv), ("D", D)]
    shape += [("causal", int(causal)), ("window", window or 0)]
    shape += [("Dv", value_size)] if value_size != D else []
    shape += [("page", page_tokens)] if page_tokens is not None else []
    formats = (("q", fq.key), ("kv", fkv.key), ("o", fo.key), *((("p", fp.key),) if fp != fq else ()))
    return Operator("attention" if fused else "unfused_attention", tuple(shape), formats, cost)


def _check_plain_tensors(*, has_own_scores: bool, shared_kv: bool, page_tokens: int | None) -> None:
    """Raise `InvalidValueError` for what three kernels on plain tensors cannot have."""
    if has_own_scores:
        raise InvalidValueError(
            "p is a format inside the fused kernel; unfused, the scores are written in q's convention"
        )
    if shared_kv or page_tokens is not None:
        raise InvalidValueError(
            "fused=False reads K and V as plain tensors: leave out shared_kv and page_tokens, or add kv_read for "
            "the gather"
        )


def unfused_attention_parts(
    B: int,
    Hq: int,
    Hkv: int,
    Sq: int,
    Skv: int,
    D: int,
    *,
    q: FormatLike = "BF16",
    kv: FormatLike | None = None,
    o: FormatLike | None = None,
    causal: bool = False,
    window: int | None = None,
    Dv: int | None = None,
) -> dict[str, Operator]:
    """Return the three kernels of attention without fusion by name: `qk_scores`, `softmax`, `scores_value`.

    A mask makes them no cheaper, but for the keys that no query sees: a plain product computes every score.
    """
    check_attention_shape(B, Hq, Hkv, Sq, Skv, D, causal=causal, window=window)
    keys = keys_read(Sq, Skv, window=window)
    fq = activation_format("q", q)
    scores = default_output_format(fq)
    fo = scores if o is None else o
    fkv = fq if kv is None else kv
    return {
        "qk_scores": qk_scores(B, Hq, Hkv, Sq, keys, D, q=fq, kv=fkv, scores=scores),
        "softmax": softmax(B * Hq * Sq, keys, a=scores),
        "scores_value": scores_value(B, Hq, Hkv, Sq, keys, D if Dv is None else Dv, scores=scores, kv=fkv, o=fo),
    }


def qk_scores(
    B: int,
    Hq: int,
    Hkv: int,
    Sq: int,
    Skv: int,
    D: int,
    *,
    q: FormatLike = "BF16",
    kv: FormatLike | None = None,
    scores: FormatLike | None = None,
) -> Operator:
    """Return Q·Kᵀ as a kernel of its own: scores (B, Hq, Sq, Skv) from Q (B, Hq, Sq, D) and K (B, Hkv, Skv, D).

    Counts: 2·B·Hq·Sq·Skv·D FLOPs; Q and K read once, all scores written (document 002, "Attention Score Computation").
    """
    check_attention_shape(B, Hq, Hkv, Sq, Skv, D)
    fq = activation_format("q", q)
    fkv = fq if kv is None else get_format(kv)
    fs = default_output_format(fq) if scores is None else activation_format("scores", scores)
    cost = OpCost(
        flops={product_format("q", fq, "kv", fkv): 2 * B * Hq * Sq * Skv * D},
        read_bytes={
            "Q": B * Hq * Sq * D * fq.traffic_bytes_per_element,
            "K": B * Hkv * Skv * D * fkv.traffic_bytes_per_element,
        },
        write_bytes={"scores": B * Hq * Sq * Skv * fs.traffic_bytes_per_element},
    )
    return Operator(
        "qk_scores", _shape(B, Hq, Hkv, Sq, Skv, D), (("q", fq.key), ("kv", fkv.key), ("scores", fs.key)), cost
    )


def scores_value(
    B: int,
    Hq: int,
    Hkv: int,
    Sq: int,
    Skv: int,
    D: int,
    *,
    scores: FormatLike = "BF16",
    kv: FormatLike | None = None,
    o: FormatLike | None = None,
) -> Operator:
    """Return softmax(scores)·V as a kernel of its own: O (B, Hq, Sq, D) from scores (B, Hq, Sq, Skv), V (B, Hkv, Skv,
    D).

    Counts: 2·B·Hq·Sq·Skv·D FLOPs; all scores and V read once, O written (document 002, "Score × V"). D is V's head
    size.
    """
    check_attention_shape(B, Hq, Hkv, Sq, Skv, D)
    fs = activation_format("scores", scores)
    fkv = fs if kv is None else get_format(kv)
    fo = default_output_format(fs) if o is None else activation_format("o", o)
    cost = OpCost(
        flops={product_format("scores", fs, "kv", fkv): 2 * B * Hq * Sq * Skv * D},
        read_bytes={
            "scores": B * Hq * Sq * Skv * fs.traffic_bytes_per_element,
            "V": B * Hkv * Skv * D * fkv.traffic_bytes_per_element,
        },
        write_bytes={"O": B * Hq * Sq * D * fo.traffic_bytes_per_element},
    )
    return Operator(
        "scores_value", _shape(B, Hq, Hkv, Sq, Skv, D), (("scores", fs.key), ("kv", fkv.key), ("o", fo.key)), cost
    )


def _shape(B: int, Hq: int, Hkv: int, Sq: int, Skv: int, D: int) -> tuple[tuple[str, int], ...]:
    return (("B", B), ("Hq", Hq), ("Hkv", Hkv), ("Sq", Sq), ("Skv", Skv), ("D", D))


def _value_size(D: int, Dv: int | None, shared_kv: bool) -> int:
    if Dv is None:
        return D
    check_dimension("Dv", Dv)
    if shared_kv and Dv > D:
        raise InvalidValueError(f"Dv must not exceed D with shared_kv, got Dv={Dv} and D={D}: V is a part of K's rows")
    return Dv


def _cache_bytes(
    B: int,
    Hkv: int,
    Sq: int,
    Skv: int,
    D: int,
    Dv: int,
    kv: NumberFormat,
    window: int | None,
    shared_kv: bool,
    page_tokens: int | None,
) -> dict[str, float]:
    rows = B * Hkv * keys_read(Sq, Skv, window=window)
    cache_bytes = {"K": rows * D * kv.traffic_bytes_per_element}
    if not shared_kv:
        cache_bytes["V"] = rows * Dv * kv.traffic_bytes_per_element
    if page_tokens is not None:
        cache_bytes["block_table"] = B * pages_read(Sq, Skv, page_tokens, window=window) * PAGE_NUMBER_BYTES
    return cache_bytes
