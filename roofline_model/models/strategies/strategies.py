"""The six strategies of the original document 004 by name, and gradients over the depth of a model.

The document gives each a row of claims and, for two of them, the formats; what it leaves open is decided here and said
in the description. All keep the embeddings, the output head, norms and softmax in 16 bit, as published checkpoints do;
the document's "memory savings" count the matrices of the layers only (docs/theory/math.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil

from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.models.strategies.config import MixedPrecisionConfig, StrategyClaims
from roofline_model.models.strategies.layer_precisions import LayerPrecisions
from roofline_model.models.strategies.operator_type import (
    ATTENTION_PROJECTIONS,
    FFN_PROJECTIONS,
    PROJECTIONS,
    OperatorType,
)

DOCUMENT_SOURCE = 'an early design document of this project ("Available Strategies"), without a source'
DEFAULT_LAYERS = 32
GRADIENT = ("FP16", "FP8_E4M3", "NVFP4")
"""Formats of the first, middle and last third of the layers."""


def create_fp16_baseline() -> MixedPrecisionConfig:
    """Return the reference: everything in FP16."""
    return _strategy(
        "fp16_baseline",
        "FP16",
        "FP16",
        StrategyClaims(1.0, "none", 0.0, "accuracy reference", source=DOCUMENT_SOURCE),
        description="Everything in FP16: the reference for speed, memory and quality.",
    )


def create_fp8_balanced() -> MixedPrecisionConfig:
    """Return W8A8 in FP8: weights and activations of all projections, and the cache.

    The document names no activation format; twice the compute rate, which it counts on, takes FP8 activations.
    """
    return _strategy(
        "fp8_balanced",
        "FP8_E4M3.FP8_E4M3",
        "FP8_E4M3",
        StrategyClaims(2.0, "<1%", 0.50, "Hopper/Blackwell, balanced", source=DOCUMENT_SOURCE),
        description="FP8 weights, activations and KV cache; runs on FP8 units (Ada, Hopper, Blackwell).",
    )


def create_w4a16_aggressive() -> MixedPrecisionConfig:
    """Return INT4 weights under FP16 activations: weights are widened to 16 bit before every product."""
    return _strategy(
        "w4a16_aggressive",
        "INT4",
        "FP16",
        StrategyClaims(4.0, "2-5%", 0.75, "max speed, decode", source=DOCUMENT_SOURCE),
        description="INT4 weights, FP16 activations: least weight traffic, 16-bit arithmetic.",
    )


def create_nvfp4_blackwell() -> MixedPrecisionConfig:
    """Return NVFP4 weights and cache under FP16 activations.

    With 16-bit activations the FP4 units stay idle: the products run in FP16 on every chip, the document's
    "1000 TFLOPS" do not apply.
    """
    return _strategy(
        "nvfp4_blackwell",
        "NVFP4",
        "NVFP4",
        StrategyClaims(4.0, "<1%", 0.72, "GB10/B200, best accuracy/speed", source=DOCUMENT_SOURCE),
        description="NVFP4 weights and KV cache, FP16 activations for quality; products run in 16 bit.",
    )


def create_hybrid_long_context() -> MixedPrecisionConfig:
    """Return FP8 attention, NVFP4 FFN and an NVFP4 cache under FP16 activations.

    The document says only "aggressive KV cache"; the projections are those of its custom example.
    """
    formats: dict[str, str] = {
        **dict.fromkeys(ATTENTION_PROJECTIONS, "FP8_E4M3"),
        **dict.fromkeys(FFN_PROJECTIONS, "NVFP4"),
    }
    return MixedPrecisionConfig(
        "hybrid_long_context",
        description="FP8 attention weights, NVFP4 FFN weights and KV cache, FP16 activations: for contexts beyond 8K.",
        operator_precisions={**_wide_operators(), **formats},
        kv_cache_precision="NVFP4",
        claims=StrategyClaims(3.0, "1-2%", 0.60, ">8K context, aggressive KV cache", source=DOCUMENT_SOURCE),
    )


def create_layerwise_gradient(
    num_layers: int = DEFAULT_LAYERS, precisions: Sequence[str] = GRADIENT, *, kv_cache_precision: str | None = None
) -> MixedPrecisionConfig:
    """Return a strategy whose projections get narrower with depth: `precisions` in equal parts, first layers first.

    32 layers in the default thirds are layers 0–10, 11–21 and 22–31, as in the document. Of n layers in k parts, part i
    begins at ⌈i·n/k⌉; with fewer layers than parts the last formats are not reached. Activations and cache stay in
    FP16. Raises `InvalidValueError` for a depth below 1 or no precision.
    """
    if isinstance(num_layers, bool) or not isinstance(num_layers, int) or not 1 <= num_layers < 10_000:
        raise InvalidValueError(f"num_layers must be a whole number from 1 to 9,999, got {str(num_layers)[:40]}")
    chosen = [precisions] if isinstance(precisions, str) else list(precisions)
    if not chosen:
        raise InvalidValueError("precisions is empty; name at least one format, first layers first")
    claims = StrategyClaims(2.5, "0.5-1%", 0.55, "progressive quantization", source=DOCUMENT_SOURCE)
    return MixedPrecisionConfig(
        "layerwise_gradient",
        description=f"{' → '.join(chosen)} weights from the first to the last of {num_layers} layers, FP16 activations.",
        operator_precisions={**_wide_operators(), **dict.fromkeys(PROJECTIONS, chosen[0])},
        kv_cache_precision=kv_cache_precision or "FP16",
        layers=tuple(_parts(num_layers, chosen)),
        layer_count=num_layers,
        claims=claims if tuple(chosen) == GRADIENT else None,
    )


STRATEGIES: dict[str, Callable[..., MixedPrecisionConfig]] = {
    "fp16_baseline": create_fp16_baseline,
    "fp8_balanced": create_fp8_balanced,
    "w4a16_aggressive": create_w4a16_aggressive,
    "nvfp4_blackwell": create_nvfp4_blackwell,
    "hybrid_long_context": create_hybrid_long_context,
    "layerwise_gradient": create_layerwise_gradient,
}
"""Name → the function that makes it, in the document's order."""


def get_strategy(name: str, *, num_layers: int | None = None) -> MixedPrecisionConfig:
    """Return the strategy called `name`, any case, spaces and dashes as underscores.

    `num_layers` sets the depth of a strategy that varies with it (default 32); others are the same at any depth.
    Raises `UnknownNameError` with the nearest names.
    """
    wanted = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    if wanted not in STRATEGIES:
        raise UnknownNameError(
            "strategy", str(name), STRATEGIES, fix="A path ending in .toml or .json names a strategy of your own."
        )
    if wanted == "layerwise_gradient" and num_layers is not None:
        return create_layerwise_gradient(num_layers)
    return STRATEGIES[wanted]()


def list_strategies(*, num_layers: int | None = None) -> list[MixedPrecisionConfig]:
    """Return the six strategies in the document's order."""
    return [get_strategy(name, num_layers=num_layers) for name in STRATEGIES]


def _strategy(
    name: str, projections: str, cache: str, claims: StrategyClaims, *, description: str
) -> MixedPrecisionConfig:
    return MixedPrecisionConfig(
        name,
        description,
        {**_wide_operators(), **dict.fromkeys(PROJECTIONS, projections)},
        kv_cache_precision=cache,
        claims=claims,
    )


def _wide_operators() -> dict[str, str]:
    rest = [
        operator for operator in OperatorType if operator not in PROJECTIONS and operator is not OperatorType.KV_CACHE
    ]
    return dict.fromkeys(rest, "FP16")


def _parts(num_layers: int, precisions: Sequence[str]) -> Iterator[LayerPrecisions]:
    """Yield the ranges behind the first part, whose formats are those outside all ranges."""
    starts = [ceil(i * num_layers / len(precisions)) for i in range(len(precisions))] + [num_layers]
    for i, precision in enumerate(precisions):
        if i and starts[i] < starts[i + 1]:
            yield LayerPrecisions(starts[i], starts[i + 1] - 1, dict.fromkeys(PROJECTIONS, precision))
