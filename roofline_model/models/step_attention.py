"""The attention half of a decoder layer as kernels: grouped-query attention, and latent attention (MLA) both ways.

Attention multiplies in the residual stream's format unless the plan says a narrower one: then queries are cast first (the
cache is stored in that format or a narrower one), as FlashAttention-3 and FlashInfer do in FP8.
MLA in prefill expands keys and values of every head from the cached latent and runs ordinary attention; in decode it
moves the expansion into the query and the output ("absorbed"), so that all heads read the latent itself, once.
Source: DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, §2.1.2; the same split as in vLLM's and FlashInfer's MLA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from roofline_model.formats.catalog import get_format
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.model_shapes import LatentAttention, ModelShape
from roofline_model.models.plan_parts import QKV
from roofline_model.operators.attention import attention
from roofline_model.operators.elementwise import rmsnorm, rope
from roofline_model.operators.kv_cache import kv_write
from roofline_model.operators.product import Operator, batched_gemm, gemm
from roofline_model.operators.quantize import quantize

if TYPE_CHECKING:
    from roofline_model.models.decoder_step import Workload


def attention_kernels(
    shape: ModelShape, workload: Workload, plan: FormatPlan, layer: int
) -> Iterator[tuple[str, Operator]]:
    """Yield the kernels from behind the layer's norm up to the output projection."""
    if shape.latent is None:
        yield from _grouped(shape, workload, plan, layer)
    else:
        yield from _latent(shape, shape.latent, workload, plan, layer)
    formats, rows = plan.of("o_proj", layer), workload.row_count
    yield from _cast(rows, shape.attention_width, plan.wide, formats.activations)
    yield (
        "o_proj",
        gemm(
            rows,
            shape.hidden_size,
            shape.attention_width,
            a=formats.activations,
            b=plan.stored(formats.weights),
            c=plan.wide,
        ),
    )


def _grouped(shape: ModelShape, workload: Workload, plan: FormatPlan, layer: int) -> Iterator[tuple[str, Operator]]:
    rows, wide, kv = workload.row_count, plan.wide, plan.kv_of(layer)
    batch, new, context = workload.batch_count, workload.new_count, workload.context_count
    widths = dict(zip(QKV, (shape.query_width, shape.kv_width, shape.kv_width), strict=True))
    for parts, formats in plan.agreeing(QKV, layer):
        a, b, width = formats.activations, plan.stored(formats.weights), sum(widths[part] for part in parts)
        name = "".join(part.removesuffix("_proj") for part in parts)  # qkv; q and kv, …
        yield f"{name}_proj", gemm(rows, width, shape.hidden_size, a=a, b=b, c=wide)
    heads = shape.query_heads + shape.kv_heads
    if shape.has_qk_norm:
        yield "qk_norm", rmsnorm(rows * heads, shape.head_dim, a=wide)
    rotated = round(shape.head_dim * shape.rotary_ratio)
    if rotated:
        yield "rope", rope(rows, heads * rotated, a=wide)
    yield "kv_write", kv_write(batch, shape.kv_heads, new, shape.head_dim, source=wide, kv=kv)
    qk, sv = plan.products_of(layer)
    yield from _cast(rows, shape.query_width, wide, qk, name="quantize_query")
    window = shape.window_size if shape.is_windowed(layer) else None
    name = "attention" if window is None else f"attention[{window}]"
    yield (
        name,
        attention(
            batch,
            shape.query_heads,
            shape.kv_heads,
            new,
            context,
            shape.head_dim,
            q=qk,
            kv=kv,
            p=sv,
            o=wide,
            causal=new > 1,
            window=window,
        ),
    )


def _latent(
    shape: ModelShape, latent: LatentAttention, workload: Workload, plan: FormatPlan, layer: int
) -> Iterator[tuple[str, Operator]]:
    rows, wide, kv, hidden = workload.row_count, plan.wide, plan.kv_of(layer), shape.hidden_size
    batch, new, context, heads = workload.batch_count, workload.new_count, workload.context_count, shape.query_heads
    query, keys = plan.of("q_proj", layer), plan.of("k_proj", layer)  # a latent's keys and values share one matrix
    a, b = keys.activations, plan.stored(keys.weights)
    queries = heads * latent.query_dim
    down_width = queries if latent.query_rank is None else latent.query_rank
    if query == keys:
        yield "qkv_a_proj", gemm(rows, down_width + latent.cached_dim, hidden, a=a, b=b, c=wide)
    else:
        name = "q_proj" if latent.query_rank is None else "q_a_proj"
        yield name, gemm(rows, down_width, hidden, a=query.activations, b=plan.stored(query.weights), c=wide)
        yield "kv_a_proj", gemm(rows, latent.cached_dim, hidden, a=a, b=b, c=wide)
    if latent.query_rank is not None:
        read = query.activations if is_narrower(query.activations, wide) else wide
        yield "q_a_norm", rmsnorm(rows, latent.query_rank, a=wide, o=read, gain=wide)
        yield (
            "q_b_proj",
            gemm(rows, queries, latent.query_rank, a=query.activations, b=plan.stored(query.weights), c=wide),
        )
    yield "kv_a_norm", rmsnorm(rows, latent.kv_rank, a=wide, gain=wide)
    yield "rope", rope(rows, (heads + 1) * latent.rope_dim, a=wide)
    yield "kv_write", kv_write(batch, 1, new, latent.cached_dim, source=wide, kv=kv, shared_kv=True)
    product, _ = plan.products_of(layer)  # both are equal here: `checked_plan`
    if workload.phase == "decode":
        # The up-projections of keys and values are applied to query and output, one small product per head; these run
        # in 16 bit in the engines that absorb them, with the weights as stored.
        yield "absorb_k", batched_gemm(heads, rows, latent.kv_rank, latent.nope_dim, a=wide, b=b, c=wide)
        yield from _cast(rows, heads * latent.cached_dim, wide, product, name="quantize_query")
        yield (
            "attention",
            attention(
                batch,
                heads,
                1,
                new,
                context,
                latent.cached_dim,
                q=product,
                kv=kv,
                o=wide,
                causal=new > 1,
                Dv=latent.kv_rank,
                shared_kv=True,
            ),
        )
        yield "absorb_v", batched_gemm(heads, rows, latent.value_dim, latent.kv_rank, a=wide, b=b, c=wide)
        return
    yield from _cast(batch * context, latent.kv_rank, wide, a)
    expanded = heads * (latent.nope_dim + latent.value_dim)
    yield "kv_b_proj", gemm(batch * context, expanded, latent.kv_rank, a=a, b=b, c=wide)
    yield from _cast(rows, queries, wide, product, name="quantize_query")
    keys_and_values = heads * (latent.query_dim + latent.value_dim)
    yield from _cast(batch * context, keys_and_values, wide, product, name="quantize_kv")
    yield (
        "attention",
        attention(
            batch,
            heads,
            heads,
            new,
            context,
            latent.query_dim,
            q=product,
            kv=product,
            o=wide,
            causal=new > 1,
            Dv=latent.value_dim,
        ),
    )


def _cast(rows: int, width: int, wide: str, target: str, *, name: str = "quantize") -> Iterator[tuple[str, Operator]]:
    """Yield the kernel that casts from the wide format, or nothing where the target is no narrower."""
    if is_narrower(target, wide):
        yield name, quantize(rows, width, wide, target)


def is_narrower(key: str, wide: str) -> bool:
    """Return whether values in the wide format have to be cast for a reader of `key`."""
    return get_format(key).element_bits < get_format(wide).element_bits
