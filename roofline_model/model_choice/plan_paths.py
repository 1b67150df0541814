"""How a chip runs a plan, and what it takes to get there: execution path, method, and why it is as fast as it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from roofline_model.decoder.llm import KernelPrediction, ModelPrediction
from roofline_model.formats import get_format
from roofline_model.model_choice.plan_formats import CACHE, PlanFormats
from roofline_model.pareto.losses import parse_formats
from roofline_model.quantization_method import AWQ_NOTE, method_of

_RUNS_AS = {"native": "native {}", "emulated": "emulated in {}", "dequantize": "decoded to {}"}


def plan_methods(formats: PlanFormats) -> tuple[str, ...]:
    """Return the methods that a plan's weights need, each once: weight_only, AWQ, PTQ, native_fp8, …; empty: none."""
    labels = {label for layer in formats.layers for part, label in layer if part != CACHE} | {formats.head}
    found = []
    for label in sorted(labels - {formats.wide}):
        pair = parse_formats(label)
        found.append(method_of(pair.weights, is_both=pair.activations == pair.weights))
    return tuple(dict.fromkeys(found))


def execution_path(passes: Sequence[ModelPrediction]) -> str:
    """Return how the products with narrow operands run, longest first: `native FP8_E4M3`, `decoded to BF16`, …

    A plan without any runs natively in 16 bit. A narrow cache that is widened before the product is told behind it.
    """
    times: dict[str, float] = {}
    is_cache_decoded = False
    for found in passes:
        for one in found.kernels:
            formats = dict(one.kernel.work.formats)
            if "b" in formats and _is_product(one) and _is_narrow(formats, found.plan.wide):
                text = _RUNS_AS.get(one.prediction.path, one.prediction.path).format(one.prediction.compute_format)
                times[text] = times.get(text, 0.0) + one.time_s
            if one.kernel.work.op == "attention" and one.prediction.path == "dequantize":
                is_cache_decoded = True
    wide = passes[0].plan.wide
    said = sorted(times, key=lambda text: -times[text]) or [f"native {wide}"]
    return " + ".join(said) + (", cache decoded" if is_cache_decoded else "")


def plan_reason(
    passes: Sequence[ModelPrediction],
    baseline: Sequence[ModelPrediction],
    shares: Sequence[float],
    methods: Sequence[str],
) -> str:
    """Say in one sentence what limits a plan on this chip and what it asks for; `shares` weigh the passes."""
    wide, bound = passes[0].plan.wide, plan_bound(passes, shares)
    if passes[0].plan == baseline[0].plan:
        return f"the 16-bit baseline, {bound}-bound"
    if bound == "memory":
        moved = _weighed(shares, (one.moved_bytes for one in passes))
        text = f"memory-bound: moves {moved / _weighed(shares, (one.moved_bytes for one in baseline)):.2f}x the bytes of {wide}"
    elif any(_is_fast(one, wide) for found in passes for one in found.kernels):
        text = "compute-bound: narrow operands have a unit of their own"
    else:
        text = f"compute-bound: weights are widened, so the arithmetic costs as much as {wide}"
    return f"{text}; {AWQ_NOTE}" if "AWQ" in methods else text


def plan_bound(passes: Sequence[ModelPrediction], shares: Sequence[float]) -> str:
    """Return what limits the kernels that take most of the time: memory or compute."""
    compute_s = _weighed(
        shares,
        (math.fsum(one.time_s for one in found.kernels if one.prediction.bound == "compute") for found in passes),
    )
    return "compute" if compute_s > _weighed(shares, (found.time_s for found in passes)) / 2 else "memory"


def _weighed(shares: Sequence[float], values: Iterable[float]) -> float:
    return math.fsum(share * value for share, value in zip(shares, values, strict=True))


def _is_product(one: KernelPrediction) -> bool:
    return one.kernel.work.op in ("gemv", "gemm", "grouped_gemm", "batched_gemm")


def _is_narrow(formats: dict[str, str], wide: str) -> bool:
    """Return whether a product's weight (B) or activation (A) takes fewer bits than the 16-bit format."""
    bits = get_format(wide).element_bits
    return any(get_format(formats[name]).element_bits < bits for name in ("a", "b") if name in formats)


def _is_fast(one: KernelPrediction, wide: str) -> bool:
    """Return whether a product of narrow operands runs on a unit of theirs."""
    return one.prediction.path == "native" and _is_product(one) and _is_narrow(dict(one.kernel.work.formats), wide)
