"""One forward pass of a decoder as the kernels an inference engine runs, each with its counted work.

The kernels are those of a good engine: query, key and value in one product, gate and up in one product, the residual
addition fused with the norm behind it, one attention kernel that reads the cache as it is stored, logits of the last
token only. Matrices whose formats differ are products of their own. Biases are not counted (a thousandth of a weight's
bytes).
Quantised activations: their cast is fused into the norm or activation function that writes them where every reader
wants the same format; before the output projection, and where readers differ, it is a kernel of its own.

Attention is grouped-query attention, or latent attention (MLA) both ways. It multiplies in the residual stream's format
unless the plan says a narrower one: then queries are cast first (the cache is stored in that format or a narrower one),
as FlashAttention-3 and FlashInfer do in FP8. MLA in prefill expands keys and values of every head from the cached
latent and runs ordinary attention; in decode it moves the expansion into the query and the output ("absorbed"), so that
all heads read the latent itself, once. Source: DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, §2.1.2; the same split as
in vLLM's and FlashInfer's MLA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format
from roofline_model.models.experts import combine_experts, expert_product
from roofline_model.models.format_plan import QKV, FormatPlan, PartFormats, ffn_parts_of
from roofline_model.models.model_shapes import Experts, LatentAttention, ModelShape
from roofline_model.operators.attention import attention
from roofline_model.operators.elementwise import gelu, residual_add, residual_rmsnorm, rmsnorm, rope, silu_mul
from roofline_model.operators.kv_cache import kv_write
from roofline_model.operators.layers import embedding, lm_head
from roofline_model.operators.product import Operator, batched_gemm, check_dimension, gemm
from roofline_model.operators.quantize import quantize

Phase = Literal["prefill", "decode"]
PHASES: tuple[str, ...] = ("prefill", "decode")

Kernel = tuple[str, Operator]
"""Name in the step, and its work."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What one forward pass has to do."""

    phase: Phase
    """decode or prefill."""
    batch_count: int
    """Sequences, count."""
    context_count: int
    """Tokens each new token may see in the end, itself among them: the cache's length after the pass; count."""
    new_count: int
    """New tokens of each sequence, count: 1 in decode, more for speculative decoding; the prompt, or a chunk of it, in
    prefill.
    """

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise InvalidValueError(f"phase must be prefill or decode, got {self.phase!r}")
        for name, size in (
            ("batch", self.batch_count),
            ("context", self.context_count),
            ("new_tokens", self.new_count),
        ):
            check_dimension(name, size)
        if self.new_count > self.context_count:
            raise InvalidValueError(
                f"new_tokens {self.new_count} must not exceed context {self.context_count}: the context counts the new "
                "tokens, too"
            )

    @classmethod
    def of(cls, phase: str, batch: int, context: int, new_tokens: int | None = None) -> Workload:
        """Return a workload; `new_tokens` defaults to 1 in decode and to the whole context in prefill."""
        if phase not in PHASES:
            raise InvalidValueError(f"phase must be prefill or decode, got {phase!r}")
        default = 1 if phase == "decode" else context
        return cls(
            "decode" if phase == "decode" else "prefill", batch, context, default if new_tokens is None else new_tokens
        )

    @property
    def row_count(self) -> int:
        """Tokens computed in the pass."""
        return self.batch_count * self.new_count


@dataclass(frozen=True, slots=True)
class StepKernel:
    """One kernel of the pass: what it is, one call's work, and how often it is called."""

    name: str
    work: Operator
    calls_count: int


def check_context(shape: ModelShape, workload: Workload) -> None:
    """Raise `InvalidValueError` when the context is longer than the model was made for."""
    if workload.context_count > shape.max_context_size:
        raise InvalidValueError(
            f"context {workload.context_count:,} is more than {shape.name} declares: max_position_embeddings "
            f"{shape.max_context_size:,}; "
            "give a shorter context, or max_context (--max-context) where a checkpoint extends it"
        )


def step_kernels(shape: ModelShape, workload: Workload, plan: FormatPlan) -> tuple[StepKernel, ...]:
    """Return the kernels of one pass; equal calls of all layers are one entry.

    In the order of a layer: what only some layers run stands where it runs there (full beside windowed attention).
    """
    counted: Counter[Kernel] = Counter()
    order: list[Kernel] = []
    for layer, times in layer_kinds(shape, plan):
        kernels = list(layer_kernels(shape, workload, plan, layer))
        order = _merged(order, kernels)
        for kernel in kernels:
            counted[kernel] += times
    first, last = _embedding(shape, workload, plan), tuple(_head(shape, workload, plan))
    counted.update((first, *last))
    return tuple(StepKernel(name, work, counted[name, work]) for name, work in dict.fromkeys((first, *order, *last)))


def _merged(order: list[Kernel], kernels: list[Kernel]) -> list[Kernel]:
    """Return `order` with the kernels of one more kind of layer, each new one before the known one it runs ahead of."""
    merged, names, end = list(order), set(order), len(order)
    for kernel in reversed(kernels):
        if kernel in names:
            end = min(end, merged.index(kernel))  # one that runs twice in a layer stands where it runs last
        else:
            merged.insert(end, kernel)
            names.add(kernel)
    return merged


@lru_cache(maxsize=256)
def layer_kinds(shape: ModelShape, plan: FormatPlan) -> tuple[tuple[int, int], ...]:
    """Return one layer of each kind, and how many are like it: same window, same FFN, same formats."""
    first: dict[tuple[object, ...], int] = {}
    counts: Counter[tuple[object, ...]] = Counter()
    for layer, formats in enumerate(plan.layer_keys(shape.layer_count)):
        kind = (shape.is_windowed(layer), shape.has_experts(layer), formats)
        first.setdefault(kind, layer)
        counts[kind] += 1
    return tuple((layer, counts[kind]) for kind, layer in first.items())


def layer_kernels(shape: ModelShape, workload: Workload, plan: FormatPlan, layer: int) -> Iterator[Kernel]:
    """Yield the kernels of one layer in the order they run."""
    rows, hidden, wide = workload.row_count, shape.hidden_size, plan.wide
    attention_readers = _readers(plan, QKV, layer)
    ffn_readers = _ffn_readers(shape, plan, layer)
    if shape.is_parallel:
        yield from _norm("input_norm", rows, hidden, wide, [*attention_readers, *ffn_readers], is_fused=True)
        yield from attention_kernels(shape, workload, plan, layer)
        yield from _ffn(shape, rows, plan, layer)
        yield "residual_add", residual_add(rows, hidden, a=wide)
        return
    yield from _norm("input_norm", rows, hidden, wide, attention_readers, is_fused=True)
    yield from attention_kernels(shape, workload, plan, layer)
    if shape.norm_count == 4:
        yield "post_attention_norm", rmsnorm(rows, hidden, a=wide, gain=wide)
    yield from _norm("ffn_norm", rows, hidden, wide, ffn_readers, is_fused=True)
    yield from _ffn(shape, rows, plan, layer)
    if shape.norm_count == 4:
        yield "post_ffn_norm", rmsnorm(rows, hidden, a=wide, gain=wide)


def _embedding(shape: ModelShape, workload: Workload, plan: FormatPlan) -> Kernel:
    table = plan.stored(plan.of("lm_head" if shape.has_tied_embedding else "embedding").weights)
    return "embedding", embedding(workload.row_count, shape.vocab_size, shape.hidden_size, b=table, o=plan.wide)


def _head(shape: ModelShape, workload: Workload, plan: FormatPlan) -> Iterator[Kernel]:
    """Yield the last norm over all tokens and the logits of each sequence's last one (of all in decode)."""
    formats = plan.of("lm_head")
    rows = workload.row_count if workload.phase == "decode" else workload.batch_count
    yield from _norm("final_norm", rows, shape.hidden_size, plan.wide, [formats], is_fused=False)
    yield (
        "lm_head",
        lm_head(
            rows,
            shape.vocab_size,
            shape.hidden_size,
            a=formats.activations,
            b=plan.stored(formats.weights),
            c=plan.wide,
        ),
    )


def _norm(
    name: str, rows: int, width: int, wide: str, readers: list[PartFormats], *, is_fused: bool
) -> Iterator[Kernel]:
    """Yield a norm, with the residual addition before it if `is_fused`, and the casts its readers need, one per
    format.
    """
    wanted = list(dict.fromkeys(reader.activations for reader in readers))
    narrow = [key for key in wanted if is_narrower(key, wide)]
    output = narrow[0] if len(wanted) == 1 and narrow else wide
    operator = residual_rmsnorm if is_fused else rmsnorm
    yield name, operator(rows, width, a=wide, o=output, gain=wide)
    if output == wide:
        for key in narrow:
            yield "quantize", quantize(rows, width, wide, key)


def _readers(plan: FormatPlan, parts: tuple[str, ...], layer: int) -> list[PartFormats]:
    return [formats for _, formats in plan.agreeing(parts, layer)]


def _ffn_readers(shape: ModelShape, plan: FormatPlan, layer: int) -> list[PartFormats]:
    is_gated = shape.ffn == "gated"
    if not shape.has_experts(layer):
        return _readers(plan, ffn_parts_of("", is_gated=is_gated), layer)
    readers = [plan.of("router", layer), *_readers(plan, ffn_parts_of("experts_", is_gated=True), layer)]
    if shape.experts is not None and shape.experts.shared_ffn_size:
        readers += _readers(plan, ffn_parts_of("shared_", is_gated=is_gated), layer)
    return readers


def _ffn(shape: ModelShape, rows: int, plan: FormatPlan, layer: int) -> Iterator[Kernel]:
    if shape.experts is not None and shape.has_experts(layer):
        yield from _experts(shape, shape.experts, rows, plan, layer)
    else:
        yield from _dense(shape, rows, shape.ffn_size, plan, layer, "")


def _dense(shape: ModelShape, rows: int, width: int, plan: FormatPlan, layer: int, prefix: str) -> Iterator[Kernel]:
    """Yield a feed-forward block of inner size `width`; `prefix` is that of its parts and kernels."""
    wide, hidden, is_gated = plan.wide, shape.hidden_size, shape.ffn == "gated"
    for parts, formats in plan.agreeing(ffn_parts_of(prefix, is_gated=is_gated), layer):
        a, b = formats.activations, plan.stored(formats.weights)
        yield f"{prefix}{_joined(parts)}_proj", gemm(rows, len(parts) * width, hidden, a=a, b=b, c=wide)
    down = plan.of(f"{prefix}down_proj", layer)
    activation = ("silu_mul", silu_mul) if is_gated else ("gelu", gelu)
    yield f"{prefix}{activation[0]}", activation[1](rows, width, a=wide, o=_written(down.activations, wide))
    yield f"{prefix}down_proj", gemm(rows, hidden, width, a=down.activations, b=plan.stored(down.weights), c=wide)


def _experts(shape: ModelShape, experts: Experts, rows: int, plan: FormatPlan, layer: int) -> Iterator[Kernel]:
    hidden, wide, router = shape.hidden_size, plan.wide, plan.of("router", layer)
    yield (
        "router",
        gemm(rows, experts.expert_count, hidden, a=router.activations, b=plan.stored(router.weights), c=wide),
    )
    visits = rows * experts.active_count
    for parts, formats in plan.agreeing(ffn_parts_of("experts_", is_gated=True), layer):
        a, b = formats.activations, plan.stored(formats.weights)
        work = expert_product(rows, experts, len(parts) * experts.ffn_size, hidden, a=a, b=b, c=wide)
        yield f"experts_{_joined(parts)}", work
    down = plan.of("experts_down_proj", layer)
    a, b = down.activations, plan.stored(down.weights)
    yield "experts_silu_mul", silu_mul(visits, experts.ffn_size, a=wide, o=_written(a, wide))
    yield "experts_down", expert_product(rows, experts, hidden, experts.ffn_size, a=a, b=b, c=wide)
    if experts.shared_ffn_size:
        yield from _dense(shape, rows, experts.shared_ffn_size, plan, layer, "shared_")
    inputs = experts.active_count + (1 if experts.shared_ffn_size else 0)
    yield "combine_experts", combine_experts(rows, hidden, inputs, a=wide)


def _joined(parts: tuple[str, ...]) -> str:
    """Return the name of the product of some input matrices: gate_up, gate or up."""
    return "_".join(part.removesuffix("_proj").rpartition("_")[2] for part in parts)


def _written(activation: str, wide: str) -> str:
    """Return the format an activation function writes: what the next product reads."""
    return activation if is_narrower(activation, wide) else wide


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
