"""One recommendation for a whole model and workload: a strategy, its attention kernel, its run-time quantisation, and
why.

The original document 004's engine: a face of the one ranking, under its policy `quality`. The strategies are predicted
on the chip for the very phase and context, and the fastest within the quality limit is taken, of level ones that which
loses least. The limit is held against measured losses where the caller has them; otherwise against the claims of
document 004, which stand there without a source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.chips.usable_memory import usable_bytes
from roofline_model.core.answer import Exclusion, Loss, Option, Question, Ranking, Times
from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.attention.flash.config import AttentionShape, FlashAttentionConfig, FlashAttentionVersion
from roofline_model.expected.attention.flash.model import predict_flash_attention
from roofline_model.expected.predict import predict_expected
from roofline_model.models.llm import ModelPrediction, predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.models.step_expected import ExpectedStep, expected_step
from roofline_model.models.strategies.chip_check import check_strategy, validate_strategy
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.dynamic_config import DynamicQuantConfig, check_number
from roofline_model.models.strategies.model_plan import strategy_plan
from roofline_model.models.strategies.operator_type import OperatorType
from roofline_model.models.strategies.precision_selector import AdaptiveQuantConfig
from roofline_model.models.strategies.strategies import create_fp16_baseline, list_strategies
from roofline_model.recommend.loss import PERPLEXITY, REFERENCE, UNKNOWN
from roofline_model.recommend.options import speedups
from roofline_model.recommend.plan_formats import formats_of, plan_formats, plan_parts
from roofline_model.recommend.plan_loss import claimed_pct
from roofline_model.recommend.plan_options import execution_of, held_memory, plan_methods
from roofline_model.recommend.ranking import Limits, positive_limit, rank

MAX_QUALITY_LOSS_PCT = 1.0
"""Default limit: what document 004 calls `<1%` passes, its `1-2%` and `2-5%` do not."""
LONG_CONTEXT_TOKENS = 16384
"""Tokens beyond which document 004 names block sparsity ("very long context (>16K)")."""
_SIZES = {
    "L": "layer_count",
    "H": "hidden_size",
    "nh": "query_heads",
    "nkv": "kv_heads",
    "dh": "head_dim",
    "dff": "ffn_size",
}


@dataclass(frozen=True, slots=True)
class IntegratedQuantConfig:
    """Settings that run the recommendation: strategy, attention kernel, cache, run-time quantisation."""

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
class QuantizationRecommendation:
    """The engine's answer: ranking, settings, prediction, confidence. Properties have the names of document 004."""

    ranking: Ranking
    """Its options are the strategies, by name; policy `quality`."""
    config: IntegratedQuantConfig
    prediction: ModelPrediction
    """The pass with the chosen strategy."""
    confidence: str
    """high: measured quality and fitted times; medium: one of them; low: neither, or a placeholder chip."""

    @property
    def mixed_precision(self) -> MixedPrecisionConfig:
        """The strategy."""
        return self.config.mixed_precision

    @property
    def fa_config(self) -> FlashAttentionConfig | None:
        """The attention kernel; None where the chip runs none of the four."""
        return self.config.fa_config

    @property
    def predicted_speedup(self) -> float:
        """Against the FP16 baseline on the same chip, times of one kind."""
        return self._baseline.estimate.time_s / self._choice.estimate.time_s

    @property
    def predicted_time_us(self) -> float:
        """Time of the pass, µs."""
        return self._choice.estimate.time_s * 1e6

    @property
    def baseline_time_us(self) -> float:
        """Time of the FP16 pass, µs."""
        return self._baseline.estimate.time_s * 1e6

    @property
    def memory_savings_pct(self) -> float:
        """Share saved of weights and KV cache together, against FP16, percent."""
        return 100 * (1 - _held_bytes(self._choice) / _held_bytes(self._baseline))

    @property
    def kv_cache_bytes(self) -> int:
        """Size of the cache at this context."""
        return round(self.prediction.memory.kv_bytes)

    @property
    def expected_quality_loss(self) -> str:
        """Loss with its source: `claimed: <1%` (document 004), `measured: 0.42%`, or reference."""
        loss, claims = self._choice.loss, self.mixed_precision.claims
        if loss.source == "measured":
            return f"measured: {loss.pct:.3g}%"
        return loss.source if loss.source != "claimed" or claims is None else f"claimed: {claims.quality_loss}"

    @property
    def reason(self) -> str:
        """Findings about the choice, in words."""
        return self.ranking.reason

    @property
    def bottleneck_analysis(self) -> Mapping[str, Mapping[str, Any]]:
        """Kernel of the pass → bound, time_us, share_pct (of the ideal pass), arithmetic_intensity."""
        return _bottlenecks(self.prediction)

    @property
    def _choice(self) -> Option:
        choice = self.ranking.choice
        assert choice is not None  # the engine raises where no strategy meets the limits
        return choice

    @property
    def _baseline(self) -> Option:
        baseline = self.ranking.baseline
        assert baseline is not None  # the engine raises where the chip cannot run FP16
        return baseline


@dataclass(frozen=True, slots=True)
class _Strategy:
    """A strategy that the chip can run, with its prediction."""

    config: MixedPrecisionConfig
    prediction: ModelPrediction
    step: ExpectedStep | None


class IntegratedQuantizationEngine:
    """Recommends a mixed-precision strategy for one chip (seeds' name)."""

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
        sparsity_ratio: float | None = None,
    ) -> QuantizationRecommendation:
        """Return the fastest strategy within the quality limit and the memory for one workload.

        `model_config`: the seeds' letters (H, L, nh, nkv, dh, dff, and V for the vocabulary), a model's name or a
        shape. Decode: one new token at a context of `seq_len`; prefill: a prompt of `seq_len` tokens. `memory_limit_gb`
        is decimal and defaults to the chip's memory. `measured_loss_pct`: strategy name → loss in percent of
        perplexity, in place of the claims. `strategies` are weighed instead of the six of document 004; the FP16
        baseline always takes part.

        `enable_dynamic`: expected times include the kernels that quantise narrow activations. `enable_adaptive`: the
        formats that the chip computes to choose between at run time. `sparsity_ratio`: share of the blocks of keys that
        the model's own mask skips; None: dense attention, as a mask that a model was not made for changes its answers.
        Raises a `RooflineError` naming the field: sizes, phase, formats the chip cannot run
        at all, nothing that fits.
        """
        check_number("max_quality_loss_pct", max_quality_loss_pct, 0, 1e6)
        measured = dict(measured_loss_pct or {})
        for name, value in measured.items():
            check_number(f"measured_loss_pct of {name}", value, -100, 1e6)
        shape, findings = _shape_of(model_config, seq_len)
        limit_bytes = usable_bytes(self.hardware)
        if memory_limit_gb is not None:
            limit_bytes = positive_limit("memory_limit_gb", memory_limit_gb, below=1e9) * 1e9
        limits = Limits(memory_bytes=limit_bytes, loss_pct=max_quality_loss_pct, is_loss_given=True)
        configs = list(list_strategies(num_layers=shape.layer_count) if strategies is None else strategies)
        usable, excluded = self._usable(configs, shape, phase, batch_size, seq_len, quantizes=enable_dynamic)
        options = _options(usable, shape, measured)
        question = Question(
            subject="model",
            hardware=self.hardware.key,
            name=shape.name,
            sizes=(("batch", batch_size), ("context", seq_len)),
            phase=phase,
            policy="quality",
            limits=limits.values,
        )
        ranking = rank(question, options, options[0], limits=limits, excluded=excluded)
        if ranking.choice is None:
            raise InvalidValueError(
                f"no strategy meets both limits: {ranking}. "
                "Give more memory, a shorter context, a smaller batch, or a higher max_quality_loss_pct"
            )
        chosen = next(each for each in usable if each.config.name == ranking.choice.key)
        return self._answer(ranking, chosen, findings, enable_dynamic, enable_adaptive, sparsity_ratio)

    def _usable(
        self,
        configs: Sequence[MixedPrecisionConfig],
        shape: ModelShape,
        phase: str,
        batch: int,
        context: int,
        *,
        quantizes: bool,
    ) -> tuple[list[_Strategy], list[Exclusion]]:
        """Return the strategies that the chip and the model can take, FP16 first, and the others.

        `quantizes`: activations are quantised at run time, which takes kernels of its own.
        """
        estimate = partial(predict_expected, dynamic_activation_quantization=True) if quantizes else None
        baseline = create_fp16_baseline()
        validate_strategy(baseline, self.hardware)
        usable: list[_Strategy] = []
        excluded: list[Exclusion] = []
        for config in [baseline, *(config for config in configs if config.name != baseline.name)]:
            try:
                validate_strategy(config, self.hardware)
                plan = strategy_plan(config, shape)
                prediction = predict_model(self.hardware, shape, phase, batch=batch, context=context, formats=plan)
            except RooflineError as error:
                if config is baseline:
                    raise
                excluded.append(Exclusion(config.name, (finding("cannot-run", config.name, error=str(error)),)))
                continue
            usable.append(_Strategy(config, prediction, expected_step(prediction, self.hardware, estimate=estimate)))
        return usable, excluded

    def _answer(
        self,
        ranking: Ranking,
        chosen: _Strategy,
        findings: Sequence[Finding],
        enable_dynamic: bool,
        enable_adaptive: bool,
        sparsity_ratio: float | None,
    ) -> QuantizationRecommendation:
        notes = list(findings)
        fa_config = _fastest_attention(self.hardware, chosen, notes, sparsity_ratio)
        config = IntegratedQuantConfig(
            chosen.config.name,
            chosen.config,
            fa_config,
            chosen.prediction.plan.kv,
            _dynamic(chosen, notes) if enable_dynamic else None,
            _adaptive(self.hardware, notes) if enable_adaptive else None,
        )
        if self.hardware.is_placeholder:
            notes.append(finding("placeholder-chip", self.hardware.key))
        if decoded := check_strategy(chosen.config, self.hardware).dequantized:
            notes.append(finding("engine-remark", kind="decoded", operators=tuple(path.label for path in decoded)))
        assert ranking.choice is not None  # the caller raises without one
        return QuantizationRecommendation(
            ranking=replace(ranking, findings=(*ranking.findings, *notes)),
            config=config,
            prediction=chosen.prediction,
            confidence=_confidence(self.hardware, ranking.choice),
        )


def _shape_of(model: Mapping[str, int] | ModelShape | str, seq_len: int) -> tuple[ModelShape, list[Finding]]:
    if not isinstance(model, Mapping):
        return get_model(model), []
    size_names = {**_SIZES, "V": "vocab_size"}
    unknown = sorted(str(key) for key in model if key not in size_names)
    missing = [key for key in _SIZES if key not in model]
    if unknown or missing:
        what = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown)}, which nobody knows"
        raise InvalidValueError(f"model_config {what}; its letters are {', '.join(_SIZES)} and V for the vocabulary")
    sizes: dict[str, Any] = {name: model[key] for key, name in size_names.items() if key in model}
    findings = [] if "V" in model else [finding("engine-remark", kind="vocabulary")]
    sizes.setdefault("vocab_size", 1)
    context = seq_len if isinstance(seq_len, int) and seq_len > 0 else 1
    return ModelShape(name="model_config", source="the caller", max_context_size=context, **sizes), findings


def _options(usable: Sequence[_Strategy], shape: ModelShape, measured: Mapping[str, float]) -> list[Option]:
    """Return the strategies as options with times of one kind: expected where every pass has one, else ideal."""
    has_expected = all(each.step is not None for each in usable)
    options: list[Option] = []
    for each in usable:
        prediction = each.prediction
        expected = each.step.estimate if has_expected and each.step is not None else None
        times = Times.of(prediction.time_s, expected, provenance=prediction.provenance)
        formats = plan_formats(prediction.plan, shape)
        speedup_ratio, ideal_speedup_ratio = speedups(times, options[0] if options else None)
        options.append(
            Option(
                key=each.config.name,
                formats=formats_of(plan_parts(formats), formats.wide),
                method="+".join(plan_methods(formats)) or "none",
                path=execution_of([prediction]).path,
                bound=prediction.bound,
                times=times,
                memory=held_memory(prediction.memory),
                loss=_loss(each.config, measured),
                speedup_ratio=speedup_ratio,
                ideal_speedup_ratio=ideal_speedup_ratio,
                tokens_per_s=prediction.token_count / times.best.time_s,
                findings=(_pass_finding(each),),
            )
        )
    return options


def _pass_finding(each: _Strategy) -> Finding:
    """Return what limits the pass, and how much of what it holds is the cache."""
    work, memory = each.prediction.workload, each.prediction.memory
    share = memory.kv_bytes / (memory.weights_bytes + memory.kv_bytes)
    return finding(
        "bound-by",
        each.config.name,
        kind="pass",
        bound=each.prediction.bound,
        phase=work.phase,
        context=work.context_count,
        cache_ratio=share,
    )


def _loss(config: MixedPrecisionConfig, measured: Mapping[str, float]) -> Loss:
    """Return a strategy's loss: measured, else claimed by document 004, else unknown."""
    if config.name in measured:
        return Loss("measured", measured[config.name], metric=PERPLEXITY)
    claims = config.claims
    if claims is None:
        return UNKNOWN
    if claims.quality_loss == "none":
        return REFERENCE
    pct = claimed_pct(claims)
    return Loss("unknown" if pct is None else "claimed", pct, citation=claims.source)


def _held_bytes(option: Option) -> float:
    """Return the bytes of weights and cache."""
    memory = option.memory
    assert memory is not None  # of a strategy it is known
    return (memory.weight_bytes or 0.0) + (memory.cache_bytes or 0.0)


def _fastest_attention(
    device: Device, chosen: _Strategy, notes: list[Finding], sparsity_ratio: float | None
) -> FlashAttentionConfig | None:
    """Return the fastest FlashAttention kernel the chip can run on the strategy's cache; of equal ones the oldest.

    `sparsity_ratio`: blocks that the model's mask skips, which a kernel leaves out where that is faster.
    """
    shape, work, plan = chosen.prediction.model, chosen.prediction.workload, chosen.prediction.plan
    if shape.latent is not None:
        notes.append(finding("engine-remark", shape.name, kind="latent-attention"))
        return None
    sizes = AttentionShape(
        work.batch_count, shape.query_heads, shape.kv_heads, work.new_count, work.context_count, shape.head_dim
    )
    best: tuple[float, FlashAttentionConfig] | None = None
    masks = (None,) if not sparsity_ratio else (None, sparsity_ratio)
    for version, ratio in product(FlashAttentionVersion, masks):
        config = FlashAttentionConfig(
            version,
            qkv_precision=plan.wide,
            kv_cache_precision=plan.kv,
            causal=True,
            block_sparse=ratio is not None,
            sparsity_ratio=ratio or 0.0,
        )
        prediction = predict_flash_attention(device, sizes, config)
        if prediction.why_unavailable is not None or prediction.time_s is None:
            if ratio is None:
                notes.append(
                    finding("engine-remark", version.value, kind="kernel-unavailable", error=prediction.reason)
                )
        elif best is None or prediction.time_s < best[0] * (1 - 1e-9):
            best = prediction.time_s, config
    if sparsity_ratio is None and work.context_count > LONG_CONTEXT_TOKENS:
        notes.append(finding("engine-remark", kind="sparsity-unasked", context=work.context_count))
    return None if best is None else best[1]


def _adaptive(device: Device, notes: list[Finding]) -> AdaptiveQuantConfig | None:
    """Return the formats of document 004 that the chip multiplies by a unit of its own; None where one is left."""
    formats = tuple(name for name in AdaptiveQuantConfig().precision_candidates if device.path(name).kind == "native")
    if len(formats) < 2:
        notes.append(finding("engine-remark", device.key, kind="one-format"))
        return None
    return AdaptiveQuantConfig(formats)


def _dynamic(chosen: _Strategy, notes: list[Finding]) -> DynamicQuantConfig | None:
    formats = chosen.config.formats(OperatorType.FFN_UP)
    if formats.activations == chosen.config.wide_precision:
        notes.append(
            finding("engine-remark", chosen.config.name, kind="activations-wide", activation=formats.activations)
        )
        return None
    return DynamicQuantConfig(precision=formats.label)


def _confidence(device: Device, choice: Option) -> str:
    if device.is_placeholder:
        return "low"
    # The baseline loses nothing by definition.
    is_quality_known = choice.loss.source in ("reference", "measured")
    time = choice.estimate
    is_time_known = (
        time.source == "expected" and bool(time.provenance) and not time.provenance.startswith("transferred")
    )
    return ("low", "medium", "high")[is_quality_known + is_time_known]


def _bottlenecks(prediction: ModelPrediction) -> dict[str, dict[str, Any]]:
    times: dict[str, float] = {}
    bounds: dict[str, dict[str, float]] = {}
    work: dict[str, tuple[float, float]] = {}
    for kernel in prediction.kernels:
        name = kernel.kernel.name
        times[name] = times.get(name, 0.0) + kernel.time_s
        by_bound = bounds.setdefault(name, {})
        by_bound[kernel.prediction.bound] = by_bound.get(kernel.prediction.bound, 0.0) + kernel.time_s
        flops, moved = work.get(name, (0.0, 0.0))
        work[name] = flops + kernel.flops, moved + kernel.moved_bytes
    return {
        name: {
            "bound": max(bounds[name], key=lambda bound: bounds[name][bound]),
            "time_us": time_s * 1e6,
            "share_pct": 100 * time_s / prediction.time_s,
            "arithmetic_intensity": work[name][0] / work[name][1] if work[name][1] else None,
        }
        for name, time_s in times.items()
    }
