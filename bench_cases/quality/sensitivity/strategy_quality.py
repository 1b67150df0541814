"""Measured quality of a whole strategy: weights, activations, cache and attention's products narrow at once."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from bench_cases.quality.model_quality import ModelQuality, summary_of
from bench_cases.quality.texts.token_windows import TextWindows
from bench_cases.quality.variants import score_variants
from bench_cases.quality.whole_plan import WholePlan, plan_of_formats, plan_of_strategy, whole_variant
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.strategies.config import MixedPrecisionConfig


@dataclass(frozen=True, slots=True)
class StrategyQuality:
    """A strategy against the model in its own 16 bit, on the same tokens."""

    plan: WholePlan
    """What was narrow."""
    quality: ModelQuality


def measure_strategy(
    model: nn.Module, strategy: MixedPrecisionConfig | FormatPlan, windows: TextWindows
) -> StrategyQuality:
    """Measure a strategy, or a format plan such as a search's choice, as a whole; the model is left as it was.

    Formats as the codecs store them; caches INT8, FP8_E4M3 and NVFP4. Norms, softmax and the residual stream stay in
    the model's dtype, which stands for the strategy's 16-bit format. Raises `UnsupportedError` for what cannot be
    simulated: no part of a strategy is left wide in silence. Otherwise errors as of `compare_models`.
    """
    plan = (
        plan_of_strategy(strategy, model)
        if isinstance(strategy, MixedPrecisionConfig)
        else plan_of_formats(strategy, model)
    )
    scores = score_variants(model, windows, {plan.name: whole_variant(model, plan)})[plan.name]
    return StrategyQuality(plan, summary_of(scores, windows))
