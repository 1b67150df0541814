"""One recommendation for a whole model and workload: a strategy, its attention kernel, its run-time quantisation, and why.

Every figure is computed: the strategies are predicted on the chip for the very phase and context, and the fastest within
the quality limit wins. The limit is held against measured losses where the caller has them; otherwise against the claims of
the original document 004, which stand there without a source and are shown as claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roofline_model.decoder.llm import ModelPrediction, predict_model
from roofline_model.decoder.model_registry import get_model
from roofline_model.decoder.model_shapes import ModelShape
from roofline_model.decoder.step_expected import expected_step
from roofline_model.errors import InvalidValueError, RooflineError
from roofline_model.expected.attention.flash.config import AttentionShape, FlashAttentionConfig, FlashAttentionVersion
from roofline_model.expected.attention.flash.model import predict_flash_attention
from roofline_model.hardware import Device, get_hardware
from roofline_model.mixed_precision.chip_check import check_strategy, validate_strategy
from roofline_model.mixed_precision.claimed_loss import claimed_loss
from roofline_model.mixed_precision.config import MixedPrecisionConfig
from roofline_model.mixed_precision.dynamic_config import DynamicQuantConfig, check_number
from roofline_model.mixed_precision.model_plan import strategy_plan
from roofline_model.mixed_precision.operator_type import OperatorType
from roofline_model.mixed_precision.precision_selector import AdaptiveQuantConfig
from roofline_model.mixed_precision.strategies import create_fp16_baseline, list_strategies
from roofline_model.tie_ranking import LEVEL_RATIO
from roofline_model.units import format_time

MAX_QUALITY_LOSS_PCT = 1.0
"""Default limit: what document 004 calls `<1%` passes, its `1-2%` and `2-5%` do not."""
_SIZES = {
    "L": "layer_count",
    "H": "hidden_size",
    "nh": "query_heads",
    "nkv": "kv_heads",
    "dh": "head_dim",
    "dff": "ffn_size",
}
_NO_VOCABULARY = "model_config gives no vocabulary (V): embedding and output head are not counted"


@dataclass(frozen=True, slots=True)
class IntegratedQuantConfig:
    """Everything that has to be set up together to run the recommendation."""

    strategy_name: str
    mixed_precision: MixedPrecisionConfig
    fa_config: FlashAttentionConfig | None
    """None: the chip runs none of the four FlashAttention kernels."""
    kv_cache_precision: str
    dynamic: DynamicQuantConfig | None = None
    """Quantisation of activations at run time; None where it was not asked for, or no activation is narrow."""
    adaptive: AdaptiveQuantConfig | None = None
    """Choice of an activation's format at run time; None where it was not asked for."""


@dataclass(frozen=True, slots=True)
class StrategyOutcome:
    """One strategy that was weighed."""

    name: str
    time_s: float | None
    """Of one pass; None for one that cannot run."""
    speedup: float | None
    memory_bytes: float | None
    """Weights, cache and working buffers."""
    quality: str
    """`claimed: <1%`, `measured: 0.42%`, or reference."""
    reason: str
    """Why it was not taken; empty for the one that was."""


@dataclass(frozen=True, slots=True)
class QuantizationRecommendation:
    """The answer. The names are those of the original document 004; further fields say where the numbers are from."""

    config: IntegratedQuantConfig
    mixed_precision: MixedPrecisionConfig
    fa_config: FlashAttentionConfig | None
    predicted_speedup: float
    """Against the FP16 baseline on the same chip, times of one kind."""
    predicted_time_us: float
    baseline_time_us: float
    memory_savings_pct: float
    """Share saved of weights and KV cache together, against FP16."""
    kv_cache_bytes: int
    expected_quality_loss: str
    """With its source: `claimed: <1%` (document 004) or `measured: …`."""
    confidence: str
    """high: measured quality and fitted times; medium: one of them; low: neither, or a placeholder chip."""
    reason: str
    bottleneck_analysis: Mapping[str, Mapping[str, Any]]
    """Kernel of the pass → bound, time_us, share_pct (of the ideal pass), arithmetic_intensity."""
    time_source: str = "ideal"
    """expected or ideal, for recommendation and baseline alike."""
    provenance: str = ""
    """Of an expected time: fitted, transferred-…; of an ideal one, the status of the chip's weakest number."""
    outcomes: tuple[StrategyOutcome, ...] = ()
    """Every strategy that was weighed, fastest first."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A strategy with its prediction and its loss, before the choice."""

    config: MixedPrecisionConfig
    prediction: ModelPrediction
    time_s: float
    loss_pct: float | None
    quality: str
    provenance: str = field(default="")


class IntegratedQuantizationEngine:
    """Recommends for one chip (seeds' name)."""

    def __init__(self, hardware: Device | str) -> None:
        self.hardware = get_hardware(hardware)

    def recommend(
        self,
        model_config: Mapping[str, int] | ModelShape | str,
        phase: str = "decode",
        seq_len: int = 4096,
        enable_dynamic: bool = False,
        enable_adaptive: bool = False,
        *,
        batch_size: int = 1,
        memory_limit_gb: float | None = None,
        max_quality_loss_pct: float = MAX_QUALITY_LOSS_PCT,
        measured_loss_pct: Mapping[str, float] | None = None,
        strategies: Sequence[MixedPrecisionConfig] | None = None,
    ) -> QuantizationRecommendation:
        """Return the fastest strategy within the quality limit and the memory for one workload.

        `model_config`: the seeds' letters (H, L, nh, nkv, dh, dff, and V for the vocabulary), a model's name or a shape.
        Decode: one new token at a context of `seq_len`; prefill: a prompt of `seq_len` tokens. `memory_limit_gb` is decimal
        and defaults to the chip's memory. `measured_loss_pct`: strategy name → loss in percent of perplexity, in place of
        the claims. `strategies` are weighed instead of the six of document 004; the FP16 baseline always takes part.
        Raises a `RooflineError` naming the field: sizes, phase, formats the chip cannot run at all, nothing that fits.
        """
        check_number("max_quality_loss_pct", max_quality_loss_pct, 0, 1e6)
        for name, value in (measured_loss_pct or {}).items():
            check_number(f"measured_loss_pct of {name}", value, -100, 1e6)
        shape, notes = _shape_of(model_config, seq_len)
        limit_bytes = self._limit_bytes(memory_limit_gb)
        configs = list(list_strategies(num_layers=shape.layer_count) if strategies is None else strategies)
        baseline_config = create_fp16_baseline()
        validate_strategy(baseline_config, self.hardware)
        known: list[ModelPrediction] = []
        usable, outcomes = [], []
        for config in [baseline_config, *(one for one in configs if one.name != baseline_config.name)]:
            try:
                validate_strategy(config, self.hardware)
                plan = strategy_plan(config, shape)
                known.append(
                    predict_model(self.hardware, shape, phase, batch=batch_size, context=seq_len, formats=plan)
                )
                usable.append(config)
            except RooflineError as error:
                if config.name == baseline_config.name:
                    raise
                outcomes.append(
                    StrategyOutcome(config.name, None, None, None, _quality(config, measured_loss_pct)[1], str(error))
                )
        weighed = self._weighed(usable, known, measured_loss_pct)
        chosen, refused = _chosen(weighed, max_quality_loss_pct, limit_bytes)
        baseline = weighed[0]
        rest = sorted(weighed, key=lambda one: one.time_s)
        outcomes = [
            StrategyOutcome(
                one.config.name,
                one.time_s,
                baseline.time_s / one.time_s,
                one.prediction.memory.total_bytes,
                one.quality,
                refused.get(one.config.name, ""),
            )
            for one in rest
        ] + outcomes
        return self._answer(chosen, baseline, tuple(outcomes), notes, enable_dynamic, enable_adaptive)

    def _limit_bytes(self, memory_limit_gb: float | None) -> float | None:
        if memory_limit_gb is None:
            return None if self.hardware.capacity is None else self.hardware.capacity.value
        if (
            isinstance(memory_limit_gb, bool)
            or not isinstance(memory_limit_gb, int | float)
            or not 0 < memory_limit_gb < 1e9
        ):
            raise InvalidValueError(f"memory_limit_gb must be a positive number, got {str(memory_limit_gb)[:40]!r}")
        return memory_limit_gb * 1e9

    def _weighed(
        self, configs: list[MixedPrecisionConfig], known: list[ModelPrediction], measured: Mapping[str, float] | None
    ) -> list[_Weighed]:
        """Return the strategies with times of one kind: expected where every pass has one, else ideal."""
        expected = [expected_step(one, self.hardware) for one in known]
        is_expected = all(one is not None for one in expected)
        found = []
        for config, ideal, better in zip(configs, known, expected, strict=True):
            loss_pct, quality = _quality(config, measured)
            if is_expected and better is not None:
                found.append(_Weighed(config, ideal, better.time_s, loss_pct, quality, better.provenance))
            else:
                found.append(_Weighed(config, ideal, ideal.time_s, loss_pct, quality))
        return found

    def _answer(
        self,
        chosen: _Weighed,
        baseline: _Weighed,
        outcomes: tuple[StrategyOutcome, ...],
        notes: list[str],
        enable_dynamic: bool,
        enable_adaptive: bool,
    ) -> QuantizationRecommendation:
        ours, theirs = chosen.prediction.memory, baseline.prediction.memory
        fa_config = _fastest_attention(self.hardware, chosen, notes)
        config = IntegratedQuantConfig(
            chosen.config.name,
            chosen.config,
            fa_config,
            chosen.prediction.plan.kv,
            _dynamic(chosen, notes) if enable_dynamic else None,
            AdaptiveQuantConfig() if enable_adaptive else None,
        )
        if self.hardware.is_placeholder:
            notes.append(
                f"{self.hardware.key} is a placeholder chip with invented numbers; use the real chip for a decision"
            )
        decoded = check_strategy(chosen.config, self.hardware).dequantized
        if decoded:
            notes.append(
                f"decoded to 16 bit before the product: {', '.join(path.label for path in decoded)}; bytes are saved, not arithmetic"
            )
        return QuantizationRecommendation(
            config=config,
            mixed_precision=chosen.config,
            fa_config=fa_config,
            predicted_speedup=baseline.time_s / chosen.time_s,
            predicted_time_us=chosen.time_s * 1e6,
            baseline_time_us=baseline.time_s * 1e6,
            memory_savings_pct=100
            * (1 - (ours.weights_bytes + ours.kv_bytes) / (theirs.weights_bytes + theirs.kv_bytes)),
            kv_cache_bytes=round(ours.kv_bytes),
            expected_quality_loss=chosen.quality,
            confidence=_confidence(self.hardware, chosen),
            reason=_reason(chosen, baseline, outcomes),
            bottleneck_analysis=_bottlenecks(chosen.prediction),
            time_source="expected" if chosen.provenance else "ideal",
            provenance=chosen.provenance or chosen.prediction.provenance,
            outcomes=outcomes,
            notes=tuple(notes),
        )


def _shape_of(model: Mapping[str, int] | ModelShape | str, seq_len: int) -> tuple[ModelShape, list[str]]:
    if not isinstance(model, Mapping):
        return get_model(model), []
    known = {**_SIZES, "V": "vocab_size"}
    unknown = sorted(str(key) for key in model if key not in known)
    missing = [key for key in _SIZES if key not in model]
    if unknown or missing:
        what = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown)}, which nobody knows"
        raise InvalidValueError(f"model_config {what}; its letters are {', '.join(_SIZES)} and V for the vocabulary")
    sizes: dict[str, Any] = {name: model[key] for key, name in known.items() if key in model}
    notes = [] if "V" in model else [_NO_VOCABULARY]
    sizes.setdefault("vocab_size", 1)
    context = seq_len if isinstance(seq_len, int) and seq_len > 0 else 1
    return ModelShape(name="model_config", source="the caller", max_context_size=context, **sizes), notes


def _quality(config: MixedPrecisionConfig, measured: Mapping[str, float] | None) -> tuple[float | None, str]:
    """Return a strategy's loss in percent, None where nobody says, and how to show it."""
    if measured is not None and config.name in measured:
        value = measured[config.name]
        return value, f"measured: {value:.3g}%"
    return claimed_loss(config.claims)


def _chosen(weighed: list[_Weighed], max_loss_pct: float, limit_bytes: float | None) -> tuple[_Weighed, dict[str, str]]:
    """Return the strategy to take, and why each other one was not."""
    refused: dict[str, str] = {}
    for one in weighed:
        size = one.prediction.memory.total_bytes
        if limit_bytes is not None and size > limit_bytes:
            refused[one.config.name] = (
                f"needs {size / 1e9:.3g} GB, {(size - limit_bytes) / 1e9:.3g} GB more than there is"
            )
        elif one.loss_pct is None:
            refused[one.config.name] = "its loss is neither measured nor claimed"
        elif one.loss_pct > max_loss_pct:
            refused[one.config.name] = f"{one.quality}: above the limit of {max_loss_pct:g}%"
    left = [one for one in weighed if one.config.name not in refused]
    if not left:
        smallest = min(weighed, key=lambda one: one.prediction.memory.total_bytes)
        raise InvalidValueError(
            f"no strategy meets both limits: {smallest.config.name} is the smallest with "
            f"{smallest.prediction.memory.total_bytes / 1e9:.3g} GB ({refused[smallest.config.name]}). "
            "Give more memory, a shorter context, a smaller batch, or a higher max_quality_loss_pct"
        )
    fastest = min(one.time_s for one in left)
    near = [one for one in left if one.time_s <= fastest * (1 + LEVEL_RATIO)]
    chosen = min(near, key=lambda one: (one.loss_pct, one.prediction.memory.total_bytes, one.time_s))
    for one in left:
        if one is not chosen:
            refused[one.config.name] = (
                f"as fast as the fastest within {LEVEL_RATIO:.0%}, but it loses more or takes more memory"
                if one in near
                else f"{one.time_s / chosen.time_s:.2f} times as long as {chosen.config.name}"
            )
    return chosen, refused


def _fastest_attention(device: Device, chosen: _Weighed, notes: list[str]) -> FlashAttentionConfig | None:
    """Return the fastest FlashAttention kernel the chip can run on the strategy's cache; of equal ones the oldest."""
    shape, work, plan = chosen.prediction.model, chosen.prediction.workload, chosen.prediction.plan
    if shape.latent is not None:
        notes.append("multi-head latent attention has kernels of its own; no FlashAttention version is named")
        return None
    sizes = AttentionShape(
        work.batch_count, shape.query_heads, shape.kv_heads, work.new_count, work.context_count, shape.head_dim
    )
    reasons, best = [], None
    for version in FlashAttentionVersion:
        config = FlashAttentionConfig(version, qkv_precision=plan.wide, kv_cache_precision=plan.kv, causal=True)
        found = predict_flash_attention(device, sizes, config)
        if not found.available or found.time_s is None:
            reasons.append(f"{version.value}: {found.reason}")
        elif best is None or found.time_s < best[0] * (1 - 1e-9):
            best = found.time_s, config
    notes += reasons
    return None if best is None else best[1]


def _dynamic(chosen: _Weighed, notes: list[str]) -> DynamicQuantConfig | None:
    formats = chosen.config.formats(OperatorType.FFN_UP)
    if formats.activations == chosen.config.wide_precision:
        notes.append(
            f"{chosen.config.name} keeps activations in {formats.activations}: there is nothing to quantise at run time"
        )
        return None
    return DynamicQuantConfig(precision=formats.label)


def _confidence(device: Device, chosen: _Weighed) -> str:
    if device.is_placeholder:
        return "low"
    # The baseline loses nothing by definition.
    is_quality_known = chosen.quality == "reference" or chosen.quality.startswith("measured")
    is_time_known = bool(chosen.provenance) and not chosen.provenance.startswith("transferred")
    return ("low", "medium", "high")[is_quality_known + is_time_known]


def _reason(chosen: _Weighed, baseline: _Weighed, outcomes: Iterable[StrategyOutcome]) -> str:
    """Say what the pass is limited by, what the strategy gains there, and what faster ones were refused."""
    found, memory = chosen.prediction, chosen.prediction.memory
    share = memory.kv_bytes / (memory.weights_bytes + memory.kv_bytes)
    what = f"{found.workload.phase} at {found.workload.context_count:,} tokens is {found.bound}-bound"
    if found.bound == "memory":
        what += f", the cache is {share:.0%} of weights and cache"
    if chosen is baseline:
        gain = "nothing within the limits is faster than FP16"
    else:
        gain = f"{chosen.config.name} takes {format_time(chosen.time_s)}, {baseline.time_s / chosen.time_s:.2f} times as fast as FP16, loss {chosen.quality}"
    faster = [
        f"{one.name} ({one.reason})"
        for one in outcomes
        if one.time_s is not None and one.reason and one.time_s < chosen.time_s
    ]
    return f"{what}; {gain}" + (f"; faster but refused: {', '.join(faster)}" if faster else "")


def _bottlenecks(found: ModelPrediction) -> dict[str, dict[str, Any]]:
    times: dict[str, float] = {}
    bounds: dict[str, dict[str, float]] = {}
    work: dict[str, tuple[float, float]] = {}
    for one in found.kernels:
        name = one.kernel.name
        times[name] = times.get(name, 0.0) + one.time_s
        by_bound = bounds.setdefault(name, {})
        by_bound[one.prediction.bound] = by_bound.get(one.prediction.bound, 0.0) + one.time_s
        flops, moved = work.get(name, (0.0, 0.0))
        work[name] = flops + one.flops, moved + one.moved_bytes
    return {
        name: {
            "bound": max(bounds[name], key=lambda bound: bounds[name][bound]),
            "time_us": time_s * 1e6,
            "share_pct": 100 * time_s / found.time_s,
            "arithmetic_intensity": work[name][0] / work[name][1] if work[name][1] else None,
        }
        for name, time_s in times.items()
    }
