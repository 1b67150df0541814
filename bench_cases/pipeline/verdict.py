"""The verdict: the fastest candidate that was measured within the limits, or that nothing helps, and by how much it misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bench_cases.pipeline.measure import MeasuredPair
from bench_cases.pipeline.recommend import PipelineCandidate, PipelineRecommendation
from bench_cases.pipeline.records import MeasuredCase
from bench_cases.pipeline.settings import PipelineLimits
from bench_cases.pipeline.speedup import MeasuredSpeedup, measured_speedup

Outcome = Literal["faster", "fits", "nothing-helps", "nothing-fits"]
"""faster: a candidate wins; fits: none is faster, but the 16-bit model misses a limit that the candidate keeps;
nothing-helps: the 16-bit model is the recommendation; nothing-fits: no model keeps the limits."""


@dataclass(frozen=True, slots=True)
class LimitExcess:
    """A limit that a model does not keep."""

    limit: str
    """memory, latency, quality."""
    excess_ratio: float | None
    """Part by which it is exceeded; None where nothing was measured to hold against it."""
    text: str


@dataclass(frozen=True, slots=True)
class JudgedCandidate:
    """One measured candidate with everything that decides about it."""

    predicted: PipelineCandidate
    pair: MeasuredPair
    speedup: MeasuredSpeedup | None
    """None: it was not measured, or not beside the 16-bit model."""
    misses: tuple[LimitExcess, ...]

    @property
    def measured(self) -> MeasuredCase:
        """What was measured of it."""
        return self.pair.candidate

    @property
    def name(self) -> str:
        """Precision, and the method where it is none of every day."""
        method = self.measured.method or self.predicted.method
        return (
            self.predicted.precision if method in ("", "round-to-nearest") else f"{self.predicted.precision} ({method})"
        )

    @property
    def is_usable(self) -> bool:
        """Whether it was measured and keeps every limit."""
        return self.speedup is not None and not self.misses


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with the model."""

    outcome: Outcome
    winner: JudgedCandidate | None
    """None: keep the 16-bit model."""
    baseline: MeasuredCase
    """Pooled over all processes."""
    baseline_misses: tuple[LimitExcess, ...]
    judged: tuple[JudgedCandidate, ...]
    """Fastest first, what was not measured at the end."""
    sentence: str

    @property
    def is_within_limits(self) -> bool:
        """Whether the recommendation keeps every limit."""
        return self.outcome != "nothing-fits"


def judge(
    recommendation: PipelineRecommendation, pairs: Sequence[MeasuredPair], limits: PipelineLimits, wide: str
) -> Verdict:
    """Return the verdict on what was measured. `pairs`: one per candidate of the recommendation, in its order.

    A candidate wins when its speed-up's whole interval is above 1 and it keeps the limits; where the 16-bit model misses a
    limit, the fastest one that keeps them wins whether it is faster or not.
    """
    judged = sorted(
        (_judged(one, pair, limits) for one, pair in zip(recommendation.candidates, pairs, strict=True)),
        key=lambda one: -one.speedup.value if one.speedup is not None else 0.0,
    )
    baseline = _pooled([pair.baseline for pair in pairs], wide)
    base_misses = limit_excesses(baseline, PipelineLimits(limits.memory_bytes, limits.latency_s))
    if not pairs:
        base_misses = _misses_in_theory(recommendation.baseline, limits)
    usable = [one for one in judged if one.is_usable]
    faster = [one for one in usable if one.speedup is not None and one.speedup.is_faster]
    if faster:
        return _verdict("faster", faster[0], baseline, base_misses, judged, _faster_sentence(faster[0], baseline, wide))
    if not base_misses:
        sentence = _nothing_helps_sentence(judged, recommendation, wide)
        return _verdict("nothing-helps", None, baseline, base_misses, judged, sentence)
    if usable:
        sentence = _fits_sentence(usable[0], base_misses, wide)
        return _verdict("fits", usable[0], baseline, base_misses, judged, sentence)
    sentence = _nothing_fits_sentence(judged, base_misses, recommendation, limits, wide)
    return _verdict("nothing-fits", None, baseline, base_misses, judged, sentence)


def limit_excesses(measured: MeasuredCase, limits: PipelineLimits) -> tuple[LimitExcess, ...]:
    """Return the limits that a measured model does not keep."""
    excesses: list[LimitExcess] = []
    if not measured.is_measured:
        return ()
    resident, median_s = measured.resident_bytes, measured.median_s
    if limits.memory_bytes is not None and resident is not None and resident > limits.memory_bytes:
        excesses.append(_excess("memory", resident, limits.memory_bytes, 1e-9, "GB"))
    if limits.latency_s is not None and median_s is not None and median_s > limits.latency_s:
        excesses.append(_excess("latency", median_s, limits.latency_s, 1e3, "ms"))
    if limits.loss_pct is not None:
        loss = measured.quality.loss_pct
        if loss is None:
            why = measured.quality.reason or "nobody measured it"
            excesses.append(LimitExcess("quality", None, f"its loss is not known ({why}) and a limit was given"))
        elif loss.value > limits.loss_pct:
            over = loss.value / limits.loss_pct - 1 if limits.loss_pct else float("inf")
            excesses.append(
                LimitExcess("quality", over, f"loses {loss.value:.3g} %, the limit is {limits.loss_pct:g} %")
            )
    return tuple(excesses)


def _verdict(
    outcome: Outcome,
    winner: JudgedCandidate | None,
    baseline: MeasuredCase,
    misses: tuple[LimitExcess, ...],
    judged: Sequence[JudgedCandidate],
    sentence: str,
) -> Verdict:
    return Verdict(outcome, winner, baseline, misses, tuple(judged), sentence)


def _judged(predicted: PipelineCandidate, pair: MeasuredPair, limits: PipelineLimits) -> JudgedCandidate:
    speedup = measured_speedup(pair.baseline, pair.candidate)
    return JudgedCandidate(predicted, pair, speedup, limit_excesses(pair.candidate, limits))


def _pooled(cases: Sequence[MeasuredCase], wide: str) -> MeasuredCase:
    """Return the 16-bit model over the processes of all pairs."""
    measured = [case for case in cases if case.is_measured]
    if not measured:
        return cases[0] if cases else MeasuredCase(wide, "skipped", "nothing was measured")
    times = tuple(time for one in measured for time in one.times)
    flags = tuple(dict.fromkeys(flag for one in measured for flag in one.flags))
    return replace(measured[0], times=times, flags=flags)


def _excess(limit: str, value: float, most: float, scale: float, unit: str) -> LimitExcess:
    over = value / most - 1
    verb = "needs" if limit == "memory" else "takes"
    return LimitExcess(
        limit,
        over,
        f"{verb} {value * scale:.3g} {unit}, {100 * over:.3g} % more than the limit of {most * scale:.3g} {unit}",
    )


def _misses_in_theory(baseline: PipelineCandidate, limits: PipelineLimits) -> tuple[LimitExcess, ...]:
    """Return what the 16-bit model misses where nothing was measured, because every candidate is too large."""
    needed, most = baseline.memory_bytes, limits.memory_bytes
    if needed is None or most is None or needed <= most:
        return ()
    return (_excess("memory", needed, most, 1e-9, "GB"),)


def _faster_sentence(winner: JudgedCandidate, baseline: MeasuredCase, wide: str) -> str:
    held, original = winner.measured.held_bytes, winner.measured.original_bytes
    memory = f" and holds {held / 1e6:.4g} MB in place of {original / 1e6:.4g} MB" if held and original else ""
    return f"take {winner.name}: measured {winner.speedup} as fast as {wide}{memory}"


def _fits_sentence(winner: JudgedCandidate, misses: Sequence[LimitExcess], wide: str) -> str:
    return (
        f"take {winner.name}: {wide} {'; '.join(miss.text for miss in misses)}, and {winner.name} keeps the limits; "
        f"it is measured {winner.speedup} as fast"
    )


def _nothing_helps_sentence(
    judged: Sequence[JudgedCandidate], recommendation: PipelineRecommendation, wide: str
) -> str:
    timed = [one for one in judged if one.speedup is not None]
    text = f"nothing helps: keep {wide}"
    barred = [one for one in timed if one.misses and one.speedup is not None and one.speedup.is_faster]
    usable = [one for one in timed if one.is_usable]
    if usable:
        text += f"; nearest is {usable[0].name}, {how_it_misses(usable[0])}"
    if barred:
        text += f"; {barred[0].name} is faster, {barred[0].speedup}, but {'; '.join(m.text for m in barred[0].misses)}"
    if not timed:
        reasons = [f"{one.name}: {one.measured.reason}" for one in judged]
        reasons += [f"{one.precision} is too large" for one in recommendation.too_large]
        text += f"; no candidate could be measured ({'; '.join(reasons) or 'there is none'})"
    return text


def how_it_misses(one: JudgedCandidate) -> str:
    """Return in words why a candidate is no improvement: slower by so much, or not told apart from the noise."""
    speedup = one.speedup
    assert speedup is not None, "only of a measured candidate"
    if speedup.is_slower:
        return f"measured {speedup} as fast: {100 * (1 / speedup.value - 1):.3g} % slower"
    if speedup.low_value is None:
        return f"measured {speedup} as fast, from too few samples to rely on"
    if speedup.value > 1:
        return (
            f"measured {speedup} as fast: the interval reaches down to {speedup.low_value:.2f}, so that it is not faster beyond the noise; "
            "more processes (--processes) narrow it"
        )
    return f"measured {speedup} as fast: no gain, within the noise"


def _nothing_fits_sentence(
    judged: Sequence[JudgedCandidate],
    base_misses: Sequence[LimitExcess],
    recommendation: PipelineRecommendation,
    limits: PipelineLimits,
    wide: str,
) -> str:
    nearest: list[tuple[float, str]] = []
    for one in judged:
        if one.misses and all(miss.excess_ratio is not None for miss in one.misses):
            worst = max(miss.excess_ratio or 0.0 for miss in one.misses)
            nearest.append((worst, f"{one.name} {'; '.join(miss.text for miss in one.misses)}"))
    if limits.memory_bytes is not None:
        for large in recommendation.too_large:
            excess = _excess("memory", large.memory_bytes or 0.0, limits.memory_bytes, 1e-9, "GB")
            nearest.append((excess.excess_ratio or 0.0, f"{large.precision} {excess.text} (by its formats' sizes)"))
    told = f"{wide} {'; '.join(miss.text for miss in base_misses)}"
    nearest.append((max(miss.excess_ratio or 0.0 for miss in base_misses), told))
    ordered = sorted(nearest)
    text = f"nothing keeps the limits; nearest: {ordered[0][1]}"
    if ordered[0][1] != told:
        text += f"; {told}"
    failed = [f"{one.name}: {one.measured.reason}" for one in judged if not one.measured.is_measured]
    return text + (f"; not measured: {'; '.join(failed)}" if failed else "")
