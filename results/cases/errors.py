"""How far the predictions were from what was measured: errors per operator and precision, the parts of a gap; and what
happened to every case, counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import ClassVar

from results.cases.case_result import CaseResult
from results.records.records import STATUSES
from roofline_model.core.answer import NOT_IN_JSON
from roofline_model.core.grouping import grouped
from roofline_model.expected.gap import Gap, explain_gap
from roofline_model.operators.case import op_title


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Errors of the ideal prediction over one operator × precision × cache state × mode (ratios of the measured
    time).
    """

    op: str
    """In words: a whole model by its name and phase."""
    precision: str
    cache: str
    mode: str
    case_count: int
    median_abs_error_ratio: float
    median_error_ratio: float
    """Signed: negative means the roof was faster than the kernels, as a speed of light should be."""
    worst_error_ratio: float
    """The signed error that is farthest from 0."""
    worst: CaseResult = field(metadata=NOT_IN_JSON)
    """Its case."""
    median_roof_share_ratio: float
    best_roof_share_ratio: float
    expected_count: int = 0
    """Cases with an expected time, too."""
    median_abs_expected_ratio: float | None = None
    """Of the expected time; None without any."""
    paired_abs_error_ratio: float | None = None
    """Of the ideal time, over the cases with an expected time, too: what that one is compared with; None without any.
    """
    worst_expected_error_ratio: float | None = None
    """Of the expected time, signed, the one that is farthest from 0; None without any."""
    worst_expected: CaseResult | None = field(default=None, metadata=NOT_IN_JSON)
    """Its case; None without any."""
    interval_count: int = 0
    """Cases whose expected time has an interval."""
    inside_count: int = 0
    """Of these, the ones measured inside it."""

    DERIVED: ClassVar = ("worst_case_id", "worst_expected_case_id")

    @property
    def worst_case_id(self) -> str:
        """Id of the case of `worst_error_ratio`."""
        return self.worst.case.id

    @property
    def worst_expected_case_id(self) -> str | None:
        """Id of the case of `worst_expected_error_ratio`; None without any."""
        return None if self.worst_expected is None else self.worst_expected.case.id


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """One reason why cases were skipped or failed, and which."""

    status: str
    reason: str
    """As stored; empty where none was."""
    cases: tuple[CaseResult, ...]


def error_summaries(results: Iterable[CaseResult]) -> tuple[ErrorSummary, ...]:
    """Return one summary per op × precision × cache × mode with a measured and predicted case, in the order first met.

    Ignores: forced cases, whose prediction belongs to another chip.
    """
    groups = grouped(
        comparable_results(results),
        lambda result: (op_title(result.case), result.case.precision_label, result.case.cache, result.case.mode),
    )
    return tuple(summary for key, members in groups.items() if (summary := _summary(*key, members)) is not None)


def overall_error(results: Iterable[CaseResult]) -> ErrorSummary | None:
    """Return one summary over the comparable cases of one cache state and mode, or None when nothing was both measured
    and predicted.

    The state and mode are the first by `regime_rank` that occur: cold and eager where there are any.
    """
    comparable = list(comparable_results(results))
    if not comparable:
        return None
    regimes = ((result.case.cache, result.case.mode) for result in comparable)
    cache, mode = min(regimes, key=lambda regime: regime_rank(*regime))
    members = [result for result in comparable if (result.case.cache, result.case.mode) == (cache, mode)]
    return _summary("all", "all", cache, mode, members)


def comparable_results(results: Iterable[CaseResult]) -> Iterable[CaseResult]:
    """Yield the cases whose error means something: measured, predicted, and on the chip the prediction is for."""
    return (result for result in results if result.error_ideal_ratio is not None and not result.is_forced)


_CACHE_RANKS = ("cold", "flushed", "none", "warm")
_MODE_RANKS = ("eager", "graph", "sustained", "burst")
"""Cache states and modes, those that judge a run first: cases of two regimes answer two questions and are never
compared.
"""


def regime_rank(cache: str, mode: str) -> tuple[int, int]:
    """Return the place of a regime: the first judges a run, because a model's weights rarely stay in cache."""
    modes = _MODE_RANKS.index(mode) if mode in _MODE_RANKS else len(_MODE_RANKS)
    return modes, _CACHE_RANKS.index(cache) if cache in _CACHE_RANKS else len(_CACHE_RANKS)


def status_counts(results: Iterable[CaseResult]) -> dict[str, int]:
    """Count cases by status; every status is a key."""
    counts = Counter(result.status for result in results)
    return {status: counts.get(status, 0) for status in STATUSES}


def reason_counts(results: Iterable[CaseResult]) -> tuple[ReasonCount, ...]:
    """Group failed and skipped cases by their reason: failures first, then by how many cases a reason took."""
    lost = (result for result in results if result.status in ("failed", "skipped"))
    groups = grouped(lost, lambda result: (result.status, result.reason))
    counts = [ReasonCount(status, reason, tuple(members)) for (status, reason), members in groups.items()]
    return tuple(sorted(counts, key=lambda count: (count.status != "failed", -len(count.cases), count.reason)))


def _summary(op: str, precision: str, cache: str, mode: str, results: list[CaseResult]) -> ErrorSummary | None:
    errors = [(error, each) for each in results if (error := each.error_ideal_ratio) is not None]
    shares = [share for each in results if (share := each.roof_share_ratio) is not None]
    if not errors or not shares:
        return None
    expected = [(error, each) for each in results if (error := each.error_expected_ratio) is not None]
    paired = [abs(error) for error, each in errors if each.error_expected_ratio is not None]
    sides = [is_inside for each in results if (is_inside := _is_inside_interval(each)) is not None]
    worst_error, worst = max(errors, key=lambda pair: abs(pair[0]))
    worst_expected_error, worst_expected = max(expected, key=lambda pair: abs(pair[0]), default=(None, None))
    return ErrorSummary(
        op=op,
        precision=precision,
        cache=cache,
        mode=mode,
        case_count=len(errors),
        median_abs_error_ratio=median(abs(error) for error, _ in errors),
        median_error_ratio=median(error for error, _ in errors),
        worst_error_ratio=worst_error,
        worst=worst,
        median_roof_share_ratio=median(shares),
        best_roof_share_ratio=max(shares),
        expected_count=len(expected),
        median_abs_expected_ratio=median(abs(error) for error, _ in expected) if expected else None,
        paired_abs_error_ratio=median(paired) if paired else None,
        worst_expected_error_ratio=worst_expected_error,
        worst_expected=worst_expected,
        interval_count=len(sides),
        inside_count=sum(sides),
    )


def _is_inside_interval(result: CaseResult) -> bool | None:
    """Return whether a measured time lies inside the interval of its expected time; None where one is missing."""
    expected = result.expected
    if expected is None or result.measured_s is None or expected.low_s is None or expected.high_s is None:
        return None
    return expected.low_s <= result.measured_s <= expected.high_s


def case_gap(result: CaseResult) -> Gap | None:
    """Return the split of a case's pooled time; None without a measurement, without a prediction, or on another
    chip.
    """
    ideal, expected, measured_s = result.lead.ideal, result.lead.expected, result.measured_s
    if measured_s is None or ideal is None or result.is_forced or ideal.memory_time_s is None:
        return None
    return explain_gap(
        measured_s=measured_s,
        ideal_memory_s=ideal.memory_time_s,
        ideal_compute_s=ideal.compute_time_s or 0.0,
        ideal_s=ideal.time_s,
        expected_s=None if expected is None else expected.time_s,
        terms_s=None if expected is None else expected.terms_s,
        clock_ratio=_clock_ratio(result),
    )


def expected_gap(result: CaseResult) -> Gap | None:
    """Return the split where an expected time is part of it; without one it would say no more than the error does."""
    return case_gap(result) if has_parts(result) and result.measured_s else None


def has_parts(result: CaseResult) -> bool:
    """Return whether an expected time with its terms is stored, so that a split has more than the roof and the rest."""
    expected = result.lead.expected
    return expected is not None and expected.low_s is not None and expected.terms_s is not None


def _clock_ratio(result: CaseResult) -> float | None:
    """Return the SM clock while measuring over the one the chip should hold, where both are known."""
    for measured in result.measurements:
        rated_hz = measured.state.rated_clock_hz if measured.state is not None else None
        if measured.sm_clock_hz and rated_hz:
            return measured.sm_clock_hz / rated_hz
    return None
