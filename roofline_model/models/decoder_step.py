"""One forward pass of a decoder as the kernels an inference engine runs, each with its counted work.

The kernels are those of a good engine: query, key and value in one product, gate and up in one product, the residual
addition fused with the norm behind it, one attention kernel that reads the cache as it is stored, logits of the last
token only. Matrices whose formats differ are products of their own. Biases are not counted (a thousandth of a weight's
bytes).
Quantised activations: their cast is fused into the norm or activation function that writes them where every reader
wants the same format; before the output projection, and where readers differ, it is a kernel of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from roofline_model.core.errors import InvalidValueError
from roofline_model.models.experts import combine_experts, expert_product
from roofline_model.models.format_plan import FormatPlan, PartFormats
from roofline_model.models.model_shapes import Experts, ModelShape
from roofline_model.models.plan_parts import QKV, ffn_parts_of
from roofline_model.models.step_attention import attention_kernels, is_narrower
from roofline_model.operators.elementwise import gelu, residual_add, residual_rmsnorm, rmsnorm, silu_mul
from roofline_model.operators.layers import embedding, lm_head
from roofline_model.operators.product import Operator, check_dimension, gemm
from roofline_model.operators.quantize import quantize

Phase = Literal["prefill", "decode"]
PHASES: tuple[str, ...] = ("prefill", "decode")

Kernel = tuple[str, Operator]
"""Name in the step, and its work."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What one forward pass has to do."""

    phase: Phase
    batch_count: int
    """Sequences."""
    context_count: int
    """Tokens each new token may see in the end, itself among them: the cache's length after the pass."""
    new_count: int
    """New tokens of each sequence: 1 in decode, more for speculative decoding; the prompt, or a chunk of it, in prefill."""

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
                f"new_tokens {self.new_count} must not exceed context {self.context_count}: the context counts the new tokens, too"
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
            f"context {workload.context_count:,} is more than {shape.name} declares: max_position_embeddings {shape.max_context_size:,}; "
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
    merged, known, end = list(order), set(order), len(order)
    for kernel in reversed(kernels):
        if kernel in known:
            end = min(end, merged.index(kernel))  # one that runs twice in a layer stands where it runs last
        else:
            merged.insert(end, kernel)
            known.add(kernel)
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
    """Yield a norm, with the residual addition before it if `is_fused`, and the casts its readers need, one per format."""
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
