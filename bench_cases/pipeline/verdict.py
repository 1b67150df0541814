"""The verdict: how many times faster each candidate was measured, the fastest one within the limits, or by how much it
misses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bench_cases.pipeline.measure import MeasuredPair
from bench_cases.pipeline.recommend import PipelineRecommendation, memory_bytes
from bench_cases.pipeline.records import MeasuredCase, ProcessTime
from bench_cases.pipeline.settings import PipelineLimits
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


def measured_speedup(baseline: MeasuredCase, candidate: MeasuredCase) -> MeasuredSpeedup | None:
    """Return the geometric mean over processes of the ratios of medians; None when no process measured both.

    The interval is the wider of two: what the ratios of fresh processes differ by (Student's t on their logarithms,
    from two processes on), and what the medians' own intervals inside the processes allow.
    """
    base, candidate_times = _by_process(baseline.times), _by_process(candidate.times)
    shared = [process for process in base if process in candidate_times]
    if not shared:
        return None
    logs = [math.log(base[process].median_s / candidate_times[process].median_s) for process in shared]
    count = len(logs)
    mean = math.fsum(logs) / count
    inside = _inside([(base[process], candidate_times[process]) for process in shared])
    between = None if count < 2 else _between(logs, mean)
    halves = [half for half in (inside, between) if half is not None]
    if not halves:
        return MeasuredSpeedup(math.exp(mean), None, None, count)
    half = max(halves)
    return MeasuredSpeedup(math.exp(mean), math.exp(mean - half), math.exp(mean + half), count)


def _by_process(times: Iterable[ProcessTime]) -> dict[int, ProcessTime]:
    return {time.process: time for time in times}


def _between(logs: list[float], mean: float) -> float:
    """Return the half-width of the mean's interval from the spread of the processes."""
    from scipy.special import stdtrit

    count = len(logs)
    sd = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (count - 1))
    return float(stdtrit(count - 1, (1 + CONFIDENCE_RATIO) / 2)) * sd / math.sqrt(count)


def _inside(pairs: list[tuple[ProcessTime, ProcessTime]]) -> float | None:
    """Return the half-width of the mean's interval from those of the medians, taken as independent."""
    halves = []
    for pair in pairs:
        widths = [_log_half(process_time) for process_time in pair]
        known_widths = [width for width in widths if width is not None]
        if len(known_widths) < len(widths):
            return None
        halves.append(math.hypot(*known_widths))
    return math.hypot(*halves) / len(halves)


def _log_half(process_time: ProcessTime) -> float | None:
    if (
        process_time.low_s is None
        or process_time.high_s is None
        or not 0 < process_time.low_s <= process_time.median_s <= process_time.high_s
    ):
        return None
    # The farther end: the interval of a median is not symmetric, and neither side may be told too narrow.
    return max(
        math.log(process_time.high_s / process_time.median_s), math.log(process_time.median_s / process_time.low_s)
    )


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
    def measured(self) -> MeasuredCase:
        """Its measured case."""
        return self.pair.candidate

    @property
    def key(self) -> str:
        """Precision as it is typed, and the method where it is none of every day."""
        return self._with_method(self.option.key)

    @property
    def name(self) -> str:
        """The same as people are shown it."""
        return self._with_method(self.option.label)

    def _with_method(self, name: str) -> str:
        method = self.measured.method or self.option.method
        return name if method in ("", "round-to-nearest") else f"{name} ({method})"

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
    baseline: MeasuredCase
    """Pooled over all processes."""
    baseline_misses: tuple[LimitExcess, ...]
    judged: tuple[MeasuredOption, ...]
    """Fastest first, what was not measured at the end."""

    @property
    def is_within_limits(self) -> bool:
        """Whether the recommendation keeps every limit."""
        return self.outcome != "nothing-fits"


def judge(
    recommendation: PipelineRecommendation, pairs: Sequence[MeasuredPair], limits: PipelineLimits, wide: str
) -> Verdict:
    """Return the verdict on what was measured. `pairs`: one per candidate of the recommendation, in its order.

    A candidate wins when its speed-up's whole interval is above 1 and it keeps the limits; where the 16-bit model
    misses a limit, the fastest one that keeps them wins whether it is faster or not.
    """
    judged = sorted(
        (_judged(option, pair, limits) for option, pair in zip(recommendation.candidates, pairs, strict=True)),
        key=lambda judged_option: -judged_option.speedup.value if judged_option.speedup is not None else 0.0,
    )
    baseline = _pooled([pair.baseline for pair in pairs], wide)
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


def limit_excesses(measured: MeasuredCase, limits: PipelineLimits) -> tuple[LimitExcess, ...]:
    """Return the limits that a measured model does not keep."""
    excesses: list[LimitExcess] = []
    if not measured.is_measured:
        return ()
    resident, median_s = measured.resident_bytes, measured.median_s
    if limits.memory_bytes is not None and resident is not None and resident > limits.memory_bytes:
        excesses.append(memory_excess(resident, limits.memory_bytes))
    if limits.latency_s is not None and median_s is not None and median_s > limits.latency_s:
        excesses.append(_latency_excess(median_s, limits.latency_s))
    if limits.loss_pct is not None:
        loss = measured.quality.loss_pct
        if loss is None:
            reason = measured.quality.reason or None
            excesses.append(LimitExcess("quality", None, finding("loss-unknown-for-limit", reason=reason)))
        elif loss.value > limits.loss_pct:
            over = loss.value / limits.loss_pct - 1 if limits.loss_pct else float("inf")
            item = finding("misses-loss-limit", value_pct=loss.value, limit_pct=limits.loss_pct)
            excesses.append(LimitExcess("quality", over, item))
    return tuple(excesses)


def _judged(option: Option, pair: MeasuredPair, limits: PipelineLimits) -> MeasuredOption:
    speedup = measured_speedup(pair.baseline, pair.candidate)
    return MeasuredOption(option, pair, speedup, limit_excesses(pair.candidate, limits))


def _pooled(cases: Sequence[MeasuredCase], wide: str) -> MeasuredCase:
    """Return the 16-bit model over the processes of all pairs."""
    measured = [case for case in cases if case.is_measured]
    if not measured:
        return cases[0] if cases else MeasuredCase(wide, "skipped", "nothing was measured")
    return replace(measured[0], times=tuple(time for case in measured for time in case.times))


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
