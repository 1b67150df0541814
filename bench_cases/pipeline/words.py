"""The sentences of a verdict: predicted against measured, what quantising cost in quality, what to doubt."""

from __future__ import annotations

from dataclasses import dataclass

from bench_cases.pipeline.recommend import PipelineCandidate
from bench_cases.pipeline.records import DOUBTS, MeasuredCase, MeasuredQuality, Spread
from bench_cases.pipeline.settings import PipelineLimits
from bench_cases.pipeline.verdict import JudgedCandidate
from roofline_model.core.units import format_time

AGREES_RATIO = 0.1
"""Up to this relative difference a prediction is said to agree with the clock."""


def prediction_sentence(one: JudgedCandidate, baseline: PipelineCandidate, wide: str) -> str:
    """Return predicted and measured speed-up of a candidate in one sentence, and where the difference went.

    The ideal counts bytes alone; kernels are what the library runs here; the rest is the framework's own time, which no
    format shrinks. Told is what the recommendation promised; where it knew no time (a model of unknown shape), what was
    predicted with the model at hand. Empty for a candidate without a measured speed-up.
    """
    if one.speedup is None:
        return ""
    base, own = _predictions(baseline, one.pair.baseline), _predictions(one.predicted, one.measured)
    steps = []
    ideal = _divided(base.ideal_s, own.ideal_s)
    kernels, expected = _divided(base.kernels_s, own.kernels_s), _divided(base.expected_s, own.expected_s)
    if ideal is not None:
        steps.append(f"the formats alone allow {ideal:.2f}×")
    if kernels is not None:
        steps.append(f"the kernels that run here {kernels:.2f}×")
    if expected is not None and kernels is not None:
        steps.append(
            f"{expected:.2f}× was expected with the framework's own time ({format_time(base.host_s, 3)} of a {wide} pass, {format_time(own.host_s, 3)} of this)"
        )
    elif expected is not None:
        steps.append(f"{expected:.2f}× was expected, without the framework's own time")
    elif ideal is not None:
        steps.append("no time of these kernels could be predicted")
    text = f"{one.name}: {', '.join(steps)}" if steps else f"{one.name}: nothing was predicted"
    return f"{text}; the clock says {one.speedup}{_gap(expected, one.speedup.value)}"


def quality_sentence(measured: MeasuredCase, limits: PipelineLimits, *, is_seeded: bool) -> str:
    """Return what was lost, on which text, and whether the limit is kept."""
    quality = measured.quality
    if quality.source == "reference":
        return "the 16-bit model itself: nothing is lost"
    if quality.source != "measured" or quality.loss_pct is None:
        return f"loss not measured: {quality.reason or 'nobody looked'}"
    parts = [] if quality.kl is None else [f"KL {_spread(quality.kl)} nats per token"]
    if quality.top1 is not None:
        parts.append(f"{100 * quality.top1.value:.3g} % of the first choices unchanged")
    if quality.perplexity is not None and quality.is_language:
        parts.append(f"perplexity × {_spread(quality.perplexity)}")
    if quality.cosine is not None and quality.ranks is not None and quality.nearest is not None:
        parts.append(
            f"embeddings' cosine {_spread(quality.cosine)}, rank agreement of their similarities {_spread(quality.ranks)}"
        )
        parts.append(f"{100 * quality.nearest.value:.3g} % keep their nearest neighbour")
    text = f"{', '.join(parts)} on {quality.tokens_count or 0:,} tokens of {quality.text}"
    if not quality.is_language:
        why = "the weights are drawn from a seed, untrained" if is_seeded else "the model came without a tokenizer"
        text += f"; {why}: the figures tell formats apart and say nothing about language"
    return text + _kept(quality, limits)


def doubt_sentence(*cases: MeasuredCase) -> str:
    """Return what the harness doubts about the times, or nothing."""
    flags = dict.fromkeys(flag for case in cases for flag in case.flags)
    return ", ".join(DOUBTS.get(flag, flag) for flag in flags)


def _kept(quality: MeasuredQuality, limits: PipelineLimits) -> str:
    loss = quality.loss_pct
    if limits.loss_pct is None or loss is None:
        return "" if loss is None else f"; a loss of {_spread(loss)} %, and no limit was given"
    told = f"{_spread(loss)} %"
    if loss.value > limits.loss_pct:
        return f"; quality not kept: {told} lost, {limits.loss_pct:g} % allowed"
    if loss.high_value is not None and loss.high_value > limits.loss_pct:
        return (
            f"; quality kept, but not surely: {told} lost, {limits.loss_pct:g} % allowed; a longer text (--text) tells"
        )
    return f"; quality kept: {told} lost, {limits.loss_pct:g} % allowed"


@dataclass(frozen=True, slots=True)
class _Predictions:
    """What was predicted of one model; None: nothing."""

    ideal_s: float | None
    expected_s: float | None
    host_s: float | None

    @property
    def kernels_s(self) -> float | None:
        """The expected time without the framework's own."""
        return None if self.expected_s is None or self.host_s is None else self.expected_s - self.host_s


def _predictions(promised: PipelineCandidate, measured: MeasuredCase) -> _Predictions:
    ideal, expected = measured.ideal, measured.expected
    ideal_s = None if ideal is None else ideal.time_s
    if promised.expected_s is None and expected is not None:
        return _Predictions(ideal_s, expected.time_s, expected.host_s)
    return _Predictions(promised.ideal_s or ideal_s, promised.expected_s, promised.host_s)


def _divided(top: float | None, bottom: float | None) -> float | None:
    return None if top is None or not bottom or bottom <= 0 else top / bottom


def _gap(expected: float | None, measured: float) -> str:
    if expected is None:
        return ""
    error = (expected - measured) / measured
    if abs(error) <= AGREES_RATIO:
        return ", as expected"
    return f", which the expectation {'over' if error > 0 else 'under'}states by {100 * abs(error):.0f} %"


def _spread(spread: Spread) -> str:
    if spread.low_value is None or spread.high_value is None:
        return f"{spread.value:.3g}"
    return f"{spread.value:.3g} [{spread.low_value:.3g}, {spread.high_value:.3g}]"
