"""The sentences of a verdict: predicted against measured, what quantising cost in quality, what to doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_cases.pipeline.recommend import PipelineRecommendation, host_time_s, memory_bytes
from bench_cases.pipeline.settings import PipelineLimits
from bench_cases.pipeline.verdict import LimitExcess, MeasuredOption, Verdict, memory_excess
from results.cases.case_result import CaseResult
from results.records.model_figures import Interval, ModelFigures
from roofline_model.core.answer import Option
from roofline_model.core.finding import findings_text, short_text
from roofline_model.core.units import format_time
from roofline_model.models.issue_bound import issue_bound

if TYPE_CHECKING:
    from bench_cases.pipeline.facts import SavedModel
    from bench_cases.pipeline.result import PipelineResult

DOUBTS = {
    "contended": "other work",
    "noisy": "a wide spread",
    "drift": "a drifting median",
    "few-samples": "few samples",
}
"""Flags of a measurement that put its time in doubt → in words; every other flag is told by its name."""
AGREES_RATIO = 0.1
"""Up to this relative difference a prediction is said to agree with the clock."""


def sentences(result: PipelineResult) -> tuple[str, ...]:
    """Return everything to be said beside the table: verdict, predictions against the clock, quality, what is saved,
    doubts.
    """
    lines = [result.sentence]
    verdict = result.verdict
    described = (
        [verdict.winner]
        if verdict.winner is not None
        else [option for option in verdict.judged if option.speedup is not None][:1]
    )
    for option in described:
        lines.append(prediction_sentence(option, result.recommendation.baseline, result.wide))
        figures = None if option.measured is None else option.measured.model
        if figures is not None:
            quality = quality_sentence(figures, result.limits, is_seeded=result.facts.is_seeded)
            lines.append(f"quality of {option.name}: {quality}")
            if figures.fallbacks:
                lines.append(f"not every layer of {option.name} became it: {findings_text(figures.fallbacks[:3])}")
    if result.saved is not None:
        lines.append(saved_sentence(result.saved, result.folder))
    lines.append(issue_sentence(verdict, result.settings.phase, result.wide))
    doubt = doubt_sentence(verdict.baseline, *(option.measured for option in verdict.judged))
    if doubt:
        lines.append(f"doubts about the times: {doubt}; the intervals hold what they did to the ratios")
    return tuple(line for line in lines if line)


def verdict_sentence(
    verdict: Verdict, recommendation: PipelineRecommendation, limits: PipelineLimits, wide: str
) -> str:
    """Return the recommendation for the model, in one sentence."""
    if verdict.winner is not None:
        if verdict.outcome == "faster":
            return _faster_sentence(verdict.winner, wide)
        return _fits_sentence(verdict.winner, verdict.baseline_misses, wide)
    if verdict.outcome == "nothing-helps":
        return _nothing_helps_sentence(verdict.judged, recommendation, wide)
    return _nothing_fits_sentence(verdict.judged, verdict.baseline_misses, recommendation, limits, wide)


def _faster_sentence(winner: MeasuredOption, wide: str) -> str:
    figures, memory = None if winner.measured is None else winner.measured.model, ""
    if figures is not None and figures.held_bytes and figures.original_bytes:
        memory = f" and holds {figures.held_bytes / 1e6:.4g} MB in place of {figures.original_bytes / 1e6:.4g} MB"
    return f"take {winner.name}: measured {winner.speedup} as fast as {wide}{memory}"


def _fits_sentence(winner: MeasuredOption, misses: Sequence[LimitExcess], wide: str) -> str:
    return (
        f"take {winner.name}: {wide} {misses_text(misses)}, and {winner.name} keeps the limits; "
        f"it is measured {winner.speedup} as fast"
    )


def _nothing_helps_sentence(judged: Sequence[MeasuredOption], recommendation: PipelineRecommendation, wide: str) -> str:
    timed = [option for option in judged if option.speedup is not None]
    text = f"nothing helps: keep {wide}"
    barred = [option for option in timed if option.misses and option.speedup is not None and option.speedup.is_faster]
    usable = [option for option in timed if option.is_usable]
    if usable:
        text += f"; nearest is {usable[0].name}, {how_it_misses(usable[0])}"
    if barred:
        text += f"; {barred[0].name} is faster, {barred[0].speedup}, but {misses_text(barred[0].misses)}"
    if not timed:
        reasons = [f"{option.name}: {option.reason}" for option in judged]
        reasons += [f"{large.label} is too large" for large in recommendation.too_large]
        text += f"; no candidate could be measured ({'; '.join(reasons) or 'there is none'})"
    return text


def how_it_misses(option: MeasuredOption) -> str:
    """Return the reason why a candidate is no improvement: its slow-down, or a difference within the noise."""
    speedup = option.speedup
    assert speedup is not None, "only of a measured candidate"
    if speedup.is_slower:
        return f"measured {speedup} as fast: {100 * (1 / speedup.value - 1):.3g} % slower"
    if speedup.low_value is None:
        return f"measured {speedup} as fast, from too few samples to rely on"
    if speedup.value > 1:
        return (
            f"measured {speedup} as fast: the interval reaches down to {speedup.low_value:.2f}, so that it is not "
            "faster beyond the noise; "
            "more processes (--processes) narrow it"
        )
    return f"measured {speedup} as fast: no gain, within the noise"


def _nothing_fits_sentence(
    judged: Sequence[MeasuredOption],
    base_misses: Sequence[LimitExcess],
    recommendation: PipelineRecommendation,
    limits: PipelineLimits,
    wide: str,
) -> str:
    nearest: list[tuple[float, str]] = []
    for option in judged:
        if option.misses and all(miss.excess_ratio is not None for miss in option.misses):
            worst = max(miss.excess_ratio or 0.0 for miss in option.misses)
            nearest.append((worst, f"{option.name} {misses_text(option.misses)}"))
    if limits.memory_bytes is not None:
        for large in recommendation.too_large:
            excess = memory_excess(memory_bytes(large) or 0.0, limits.memory_bytes)
            nearest.append(
                (excess.excess_ratio or 0.0, f"{large.label} {short_text(excess.finding)} (by its formats' sizes)")
            )
    baseline_text = f"{wide} {misses_text(base_misses)}"
    nearest.append((max(miss.excess_ratio or 0.0 for miss in base_misses), baseline_text))
    ordered = sorted(nearest)
    text = f"nothing keeps the limits; nearest: {ordered[0][1]}"
    if ordered[0][1] != baseline_text:
        text += f"; {baseline_text}"
    failed = [f"{option.name}: {option.reason}" for option in judged if not option.is_measured]
    return text + (f"; not measured: {'; '.join(failed)}" if failed else "")


def misses_text(misses: Sequence[LimitExcess]) -> str:
    """Return the limits that a model misses, and by how much."""
    return findings_text(miss.finding for miss in misses)


def saved_sentence(saved: SavedModel, folder: Path) -> str:
    """Return where the model is, what was compared after reloading it, and who can load it."""
    alike = {
        True: "the measured model digit by digit",
        False: "not the measured model in every digit (other threads or another library)",
    }
    compared = alike.get(saved.is_as_measured, "") if saved.is_as_measured is not None else ""
    engines = [name for name, answer, _ in saved.engines if answer == "yes"]
    unsure = [name for name, answer, _ in saved.engines if answer == "unverified"]
    text = f"saved in {folder / saved.folder} ({saved.saved_bytes / 1e6:.4g} MB), reloaded with equal logits"
    text += f": {compared}" if compared else ""
    text += f"; loads in {', '.join(engines)}" if engines else ""
    return text + (f"; unverified: {', '.join(unsure)}" if unsure else "")


def prediction_sentence(option: MeasuredOption, baseline: Option, wide: str) -> str:
    """Return predicted and measured speed-up of a candidate in one sentence, and where the difference went.

    The ideal counts bytes alone; kernels are what the library runs here; the rest is the framework's own time, which no
    format shrinks. Told is what the recommendation promised; where it knew no time (a model of unknown shape), what was
    predicted with the model at hand. Empty for a candidate without a measured speed-up.
    """
    if option.speedup is None:
        return ""
    base, own_predictions = _predictions(baseline, option.pair.baseline), _predictions(option.option, option.measured)
    steps = []
    ideal = _divided(base.ideal_s, own_predictions.ideal_s)
    kernels, expected = (
        _divided(base.kernels_s, own_predictions.kernels_s),
        _divided(base.expected_s, own_predictions.expected_s),
    )
    if ideal is not None:
        steps.append(f"the formats alone allow {ideal:.2f}×")
    if kernels is not None:
        steps.append(f"the kernels that run here {kernels:.2f}×")
    if expected is not None and kernels is not None:
        steps.append(
            f"{expected:.2f}× was expected with the framework's own time ({format_time(base.host_s, 3)} of a {wide} "
            f"pass, {format_time(own_predictions.host_s, 3)} of this)"
        )
    elif expected is not None:
        steps.append(f"{expected:.2f}× was expected, without the framework's own time")
    elif ideal is not None:
        steps.append("no time of these kernels could be predicted")
    text = f"{option.name}: {', '.join(steps)}" if steps else f"{option.name}: nothing was predicted"
    return f"{text}; the clock says {option.speedup}{_gap(expected, option.speedup.value)}"


def quality_sentence(quality: ModelFigures, limits: PipelineLimits, *, is_seeded: bool) -> str:
    """Return the loss, the text it was measured on, and whether it meets the limit."""
    if quality.quality_source == "reference":
        return "the 16-bit model itself: nothing is lost"
    if quality.quality_source != "measured" or quality.loss is None:
        return f"loss not measured: {quality.quality_reason or 'nobody looked'}"
    parts = [] if quality.kl_nats_per_token is None else [f"KL {_spread(quality.kl_nats_per_token)} nats per token"]
    if quality.top1_agreement_ratio is not None:
        parts.append(f"{100 * quality.top1_agreement_ratio.value:.3g} % of the first choices unchanged")
    if quality.perplexity_ratio is not None and quality.is_language:
        parts.append(f"perplexity × {_spread(quality.perplexity_ratio)}")
    cosine, ranks, nearest = (quality.embedding_cosine_ratio, quality.rank_agreement_ratio, quality.nearest_kept_ratio)
    if cosine is not None and ranks is not None and nearest is not None:
        parts.append(f"embeddings' cosine {_spread(cosine)}, rank agreement of their similarities {_spread(ranks)}")
        parts.append(f"{100 * nearest.value:.3g} % keep their nearest neighbour")
    text = f"{', '.join(parts)} on {quality.quality_tokens_count or 0:,} tokens of {quality.quality_text}"
    if not quality.is_language:
        why = "the weights are drawn from a seed, untrained" if is_seeded else "the model came without a tokenizer"
        text += f"; {why}: the figures tell formats apart and say nothing about language"
    return text + _loss_text(quality.loss, limits)


def issue_sentence(verdict: Verdict, phase: str, wide: str) -> str:
    """Return that the times are the GPU's alone and what the host takes to issue a pass; empty where that is less."""
    cases = {wide: verdict.baseline} | {option.name: option.measured for option in verdict.judged}
    times = [
        (name, case.model.issue_s, case.measured_s)
        for name, case in cases.items()
        if case is not None and case.model is not None
    ]
    item = issue_bound(phase, times)
    return "" if item is None else f"times are the GPU's alone; {short_text(item)}"


def doubt_sentence(*cases: CaseResult | None) -> str:
    """Return the harness's doubts about the times, or an empty text."""
    flags = dict.fromkeys(flag for case in cases if case is not None for flag in case.flags)
    return ", ".join(DOUBTS.get(flag, flag) for flag in flags)


def _loss_text(loss: Interval, limits: PipelineLimits) -> str:
    if limits.loss_pct is None:
        return f"; a loss of {_spread(loss)} %, and no limit was given"
    loss_text = f"{_spread(loss)} %"
    if loss.value > limits.loss_pct:
        return f"; quality not kept: {loss_text} lost, {limits.loss_pct:g} % allowed"
    if loss.high_value is not None and loss.high_value > limits.loss_pct:
        return (
            f"; quality kept, but not surely: {loss_text} lost, {limits.loss_pct:g} % allowed; a longer text (--text) "
            "tells"
        )
    return f"; quality kept: {loss_text} lost, {limits.loss_pct:g} % allowed"


@dataclass(frozen=True, slots=True)
class _Predictions:
    """Predicted times of one model; None: not predicted."""

    ideal_s: float | None
    expected_s: float | None
    host_s: float | None

    @property
    def kernels_s(self) -> float | None:
        """The expected time without the framework's own."""
        return None if self.expected_s is None or self.host_s is None else self.expected_s - self.host_s


def _predictions(promised: Option, measured: CaseResult | None) -> _Predictions:
    ideal_s, expected = (None, None) if measured is None else (measured.ideal_s, measured.expected)
    times = promised.times
    if times.expected is None and expected is not None:
        return _Predictions(ideal_s, expected.time_s, (expected.terms_s or {}).get("host"))
    return _Predictions(times.ideal_s or ideal_s, times.expected_s, host_time_s(promised))


def _divided(top: float | None, bottom: float | None) -> float | None:
    return None if top is None or not bottom or bottom <= 0 else top / bottom


def _gap(expected: float | None, measured: float) -> str:
    if expected is None:
        return ""
    error = (expected - measured) / measured
    if abs(error) <= AGREES_RATIO:
        return ", as expected"
    return f", which the expectation {'over' if error > 0 else 'under'}states by {100 * abs(error):.0f} %"


def _spread(spread: Interval) -> str:
    if spread.low_value is None or spread.high_value is None:
        return f"{spread.value:.3g}"
    return f"{spread.value:.3g} [{spread.low_value:.3g}, {spread.high_value:.3g}]"
