"""The verdict: how many times faster each candidate was measured, the fastest one within the limits, or by how much it
misses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from bench_cases.pipeline.measure import MeasuredPair
from bench_cases.pipeline.recommend import PipelineRecommendation, memory_bytes
from bench_cases.pipeline.settings import PipelineLimits
from results.cases.case_result import CaseResult, case_results
from results.cases.pooling import ProcessKey
from results.records.records import Measurement
from results.statistics.shrinkage import t_quantile
from roofline_model.core.answer import Option
from roofline_model.core.finding import Finding, finding

CONFIDENCE_RATIO = 0.95


@dataclass(frozen=True, slots=True)
class MeasuredSpeedup:
    """Time of the 16-bit model over that of the candidate, both of the same processes, with a 95 % interval."""

    value: float
    low_value: float | None
    """None: too few samples to say."""
    high_value: float | None
    processes_count: int

    @property
    def is_faster(self) -> bool:
        """Whether the candidate is faster beyond the noise."""
        return self.low_value is not None and self.low_value > 1

    @property
    def is_slower(self) -> bool:
        """Whether the candidate is slower beyond the noise."""
        return self.high_value is not None and self.high_value < 1

    def __str__(self) -> str:
        if self.low_value is None or self.high_value is None:
            return f"{_times(self.value)}× (too few samples)"
        return f"{_times(self.value)}× [{_times(self.low_value)}, {_times(self.high_value)}]"


def measured_speedup(baseline: CaseResult | None, candidate: CaseResult | None) -> MeasuredSpeedup | None:
    """Return the geometric mean over processes of the ratios of medians; None when no process measured both.

    A process counts whatever its flags: what disturbs it disturbs both. The interval is the wider of two: what the
    ratios of fresh processes differ by (Student's t on their logarithms, from two processes on), and what the medians'
    own intervals inside the processes allow.
    """
    base, own = _by_process(baseline), _by_process(candidate)
    pairs = [(base[process], own[process]) for process in base if process in own]
    if not pairs:
        return None
    logs = [math.log(wide.median_s / narrow.median_s) for wide, narrow in pairs]
    count, mean = len(logs), fmean(logs)
    halves = [] if (inside := _inside(pairs)) is None else [inside]
    if count > 1:
        halves.append(t_quantile((1 + CONFIDENCE_RATIO) / 2, count - 1) * stdev(logs) / math.sqrt(count))
    if not halves:
        return MeasuredSpeedup(math.exp(mean), None, None, count)
    half = max(halves)
    return MeasuredSpeedup(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count)


def _by_process(case: CaseResult | None) -> dict[ProcessKey, Measurement]:
    timed = () if case is None else case.timed
    return {
        (record.run_id, record.process.ordinal): record.measurement
        for record in timed
        if record.measurement is not None
    }


def _inside(pairs: Sequence[tuple[Measurement, Measurement]]) -> float | None:
    """Return the half-width of the mean's interval from those of the medians, taken as independent."""
    widths = [_log_half(measurement) for pair in pairs for measurement in pair]
    known_widths = [width for width in widths if width is not None]
    return None if len(known_widths) < len(widths) else math.hypot(*known_widths) / len(pairs)


def _log_half(measurement: Measurement) -> float | None:
    low_s, median_s, high_s = measurement.ci_low_s, measurement.median_s, measurement.ci_high_s
    if low_s is None or high_s is None or not 0 < low_s <= median_s <= high_s:
        return None
    # The farther end: the interval of a median is not symmetric, and neither side may be told too narrow.
    return max(math.log(high_s / median_s), math.log(median_s / low_s))


def _times(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


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
    finding: Finding


@dataclass(frozen=True, slots=True)
class MeasuredOption:
    """An option with the pair of measurements that decides about it: the 16-bit model's and its own, by the same
    processes.
    """

    option: Option
    """As it was predicted."""
    pair: MeasuredPair
    speedup: MeasuredSpeedup | None
    """None: it was not measured, or not beside the 16-bit model."""
    misses: tuple[LimitExcess, ...]

    @property
    def measured(self) -> CaseResult | None:
        """Its result; None: it was not reached."""
        return self.pair.candidate

    @property
    def is_measured(self) -> bool:
        """Whether there is a time."""
        return self.measured is not None and self.measured.pooled is not None

    @property
    def status(self) -> str:
        """measured, failed, skipped."""
        return "failed" if self.measured is None else self.measured.status

    @property
    def reason(self) -> str:
        """Why it was not measured; empty where it was."""
        return "" if self.is_measured else self.pair.reason_of(self.measured)

    @property
    def method(self) -> str:
        """How its codes were chosen."""
        figures = None if self.measured is None else self.measured.model
        return (figures.method if figures is not None else "") or self.option.method

    @property
    def key(self) -> str:
        """Precision as it is typed, and the method where it is none of every day."""
        return self._with_method(self.option.key)

    @property
    def name(self) -> str:
        """The same as people are shown it."""
        return self._with_method(self.option.label)

    def _with_method(self, name: str) -> str:
        return name if self.method in ("", "round-to-nearest") else f"{name} ({self.method})"

    @property
    def is_usable(self) -> bool:
        """Whether it was measured and keeps every limit."""
        return self.speedup is not None and not self.misses


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the model: outcome, winner and measured options."""

    outcome: Outcome
    winner: MeasuredOption | None
    """None: keep the 16-bit model."""
    baseline: CaseResult | None
    """Over the processes of all pairs; None: it was not measured."""
    baseline_misses: tuple[LimitExcess, ...]
    judged: tuple[MeasuredOption, ...]
    """Fastest first, what was not measured at the end."""

    @property
    def is_within_limits(self) -> bool:
        """Whether the recommendation keeps every limit."""
        return self.outcome != "nothing-fits"


def judge(recommendation: PipelineRecommendation, pairs: Sequence[MeasuredPair], limits: PipelineLimits) -> Verdict:
    """Return the verdict on what was measured. `pairs`: one per candidate of the recommendation, in its order.

    A candidate wins when its speed-up's whole interval is above 1 and it keeps the limits; where the 16-bit model
    misses a limit, the fastest one that keeps them wins whether it is faster or not.
    """
    judged = sorted(
        (_judged(option, pair, limits) for option, pair in zip(recommendation.candidates, pairs, strict=True)),
        key=lambda judged_option: -judged_option.speedup.value if judged_option.speedup is not None else 0.0,
    )
    baseline = _pooled([pair.baseline for pair in pairs])
    base_misses = limit_excesses(baseline, PipelineLimits(limits.memory_bytes, limits.latency_s))
    if not pairs:
        base_misses = _misses_in_theory(recommendation.baseline, limits)
    usable = [option for option in judged if option.is_usable]
    faster = [option for option in usable if option.speedup is not None and option.speedup.is_faster]
    if faster:
        return Verdict("faster", faster[0], baseline, base_misses, tuple(judged))
    if not base_misses:
        return Verdict("nothing-helps", None, baseline, base_misses, tuple(judged))
    if usable:
        return Verdict("fits", usable[0], baseline, base_misses, tuple(judged))
    return Verdict("nothing-fits", None, baseline, base_misses, tuple(judged))


def limit_excesses(measured: CaseResult | None, limits: PipelineLimits) -> tuple[LimitExcess, ...]:
    """Return the limits that a measured model does not keep."""
    if measured is None or measured.measured_s is None or measured.model is None:
        return ()
    excesses: list[LimitExcess] = []
    resident, median_s, figures = measured.model.resident_bytes, measured.measured_s, measured.model
    if limits.memory_bytes is not None and resident is not None and resident > limits.memory_bytes:
        excesses.append(memory_excess(resident, limits.memory_bytes))
    if limits.latency_s is not None and median_s > limits.latency_s:
        excesses.append(_latency_excess(median_s, limits.latency_s))
    if limits.loss_pct is not None:
        if figures.loss_pct is None:
            reason = figures.quality_reason or None
            excesses.append(LimitExcess("quality", None, finding("loss-unknown-for-limit", reason=reason)))
        elif figures.loss_pct > limits.loss_pct:
            over = figures.loss_pct / limits.loss_pct - 1 if limits.loss_pct else float("inf")
            item = finding("misses-loss-limit", value_pct=figures.loss_pct, limit_pct=limits.loss_pct)
            excesses.append(LimitExcess("quality", over, item))
    return tuple(excesses)


def _judged(option: Option, pair: MeasuredPair, limits: PipelineLimits) -> MeasuredOption:
    speedup = measured_speedup(pair.baseline, pair.candidate)
    return MeasuredOption(option, pair, speedup, limit_excesses(pair.candidate, limits))


def _pooled(cases: Sequence[CaseResult | None]) -> CaseResult | None:
    """Return the 16-bit model over the processes of all pairs."""
    records = [record for case in cases if case is not None for record in case.records]
    return next((case for case in case_results(records) if case.pooled is not None), None)


def memory_excess(needed_bytes: float, limit_bytes: float) -> LimitExcess:
    """Return by how much a model exceeds the memory limit."""
    excess_bytes = needed_bytes - limit_bytes
    item = finding("misses-memory-limit", value_bytes=needed_bytes, excess_bytes=excess_bytes, limit_bytes=limit_bytes)
    return LimitExcess("memory", needed_bytes / limit_bytes - 1, item)


def _latency_excess(time_s: float, limit_s: float) -> LimitExcess:
    item = finding("misses-time-limit", value_s=time_s, excess_s=time_s - limit_s, limit_s=limit_s)
    return LimitExcess("latency", time_s / limit_s - 1, item)


def _misses_in_theory(baseline: Option, limits: PipelineLimits) -> tuple[LimitExcess, ...]:
    """Return the limits that the 16-bit model exceeds, where every candidate is too large to measure."""
    needed, most = memory_bytes(baseline), limits.memory_bytes
    if needed is None or most is None or needed <= most:
        return ()
    return (memory_excess(needed, most),)
