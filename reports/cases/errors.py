"""How far the predictions were from what was measured: errors per operator and precision, the parts of a gap, doubts
left by a calibration; and what happened to every case, counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from reports.cases.rows import CaseRow, regime_rank
from results.records.records import STATUSES, HardwareProfile
from roofline_model.chips.hardware import Device, doubts_of
from roofline_model.core.finding import Finding, short_text
from roofline_model.expected.gap import Gap, explain_gap

if TYPE_CHECKING:
    from reports.cases.summary import CaseSummary


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
    worst_case_id: str
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
    worst_expected_case_id: str = ""
    """Its case; empty without any."""
    interval_count: int = 0
    """Cases whose expected time has an interval."""
    inside_count: int = 0
    """Of these, the ones measured inside it."""


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """One reason why cases were skipped or failed, and which."""

    status: str
    reason: str
    case_ids: tuple[str, ...]


def error_summaries(rows: Iterable[CaseRow]) -> tuple[ErrorSummary, ...]:
    """Return one summary per op × precision × cache × mode with a measured and predicted case, in the order first met.

    Ignores: forced rows, whose prediction belongs to another chip.
    """
    groups: dict[tuple[str, str, str, str], list[CaseRow]] = {}
    for row in comparable_rows(rows):
        groups.setdefault((row.op_title, row.precision, row.cache, row.mode), []).append(row)
    return tuple(summary for key, members in groups.items() if (summary := _summary(*key, members)) is not None)


def overall_error(rows: Iterable[CaseRow]) -> ErrorSummary | None:
    """Return one summary over the comparable rows of one cache state and mode, or None when nothing was both measured
    and predicted.

    The state and mode are the first by `regime_rank` that occur: cold and eager where there are any.
    """
    comparable = list(comparable_rows(rows))
    if not comparable:
        return None
    cache, mode = min(((row.cache, row.mode) for row in comparable), key=lambda regime: regime_rank(*regime))
    members = [row for row in comparable if (row.cache, row.mode) == (cache, mode)]
    return _summary("all", "all", cache, mode, members)


def comparable_rows(rows: Iterable[CaseRow]) -> Iterable[CaseRow]:
    """Yield the rows whose error means something: measured, predicted, and on the chip the prediction is for."""
    return (row for row in rows if row.error_ratio is not None and not row.is_forced)


def status_counts(rows: Iterable[CaseRow]) -> dict[str, int]:
    """Count rows by status; every status is a key."""
    counts = Counter(row.status for row in rows)
    return {status: counts.get(status, 0) for status in STATUSES}


def reason_counts(rows: Iterable[CaseRow]) -> tuple[ReasonCount, ...]:
    """Group failed and skipped rows by their reason: failures first, then by how many cases a reason took."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.status in ("failed", "skipped"):
            groups.setdefault((row.status, row.reason or "no reason was stored"), []).append(row.name)
    counts = [ReasonCount(status, reason, tuple(ids)) for (status, reason), ids in groups.items()]
    return tuple(sorted(counts, key=lambda count: (count.status != "failed", -len(count.case_ids), count.reason)))


def _summary(op: str, precision: str, cache: str, mode: str, rows: list[CaseRow]) -> ErrorSummary | None:
    errors = [(row.error_ratio, row.name) for row in rows if row.error_ratio is not None]
    shares = [row.roof_share_ratio for row in rows if row.roof_share_ratio is not None]
    if not errors or not shares:
        return None
    expected = [(row.expected_error_ratio, row.name) for row in rows if row.expected_error_ratio is not None]
    paired = [
        abs(row.error_ratio) for row in rows if row.error_ratio is not None and row.expected_error_ratio is not None
    ]
    sides = [is_inside for row in rows if (is_inside := _is_inside_interval(row)) is not None]
    worst, worst_id = max(errors, key=lambda pair: abs(pair[0]))
    worst_expected, worst_expected_id = max(expected, key=lambda pair: abs(pair[0]), default=(None, ""))
    return ErrorSummary(
        op=op,
        precision=precision,
        cache=cache,
        mode=mode,
        case_count=len(errors),
        median_abs_error_ratio=median(abs(error) for error, _ in errors),
        median_error_ratio=median(error for error, _ in errors),
        worst_error_ratio=worst,
        worst_case_id=worst_id,
        median_roof_share_ratio=median(shares),
        best_roof_share_ratio=max(shares),
        expected_count=len(expected),
        median_abs_expected_ratio=median(abs(error) for error, _ in expected) if expected else None,
        paired_abs_error_ratio=median(paired) if paired else None,
        worst_expected_error_ratio=worst_expected,
        worst_expected_case_id=worst_expected_id,
        interval_count=len(sides),
        inside_count=sum(sides),
    )


def _is_inside_interval(row: CaseRow) -> bool | None:
    """Return whether a measured time lies inside the interval of its expected time; None where one is missing."""
    expected = row.record.expected
    if expected is None or row.measured_s is None or expected.low_s is None or expected.high_s is None:
        return None
    return expected.low_s <= row.measured_s <= expected.high_s


_PARTS = {
    "ideal": ("ideal roof", ""),
    "memory": ("memory efficiency", "the bandwidth that is reached, below the rated one"),
    "tiles": ("tiles and waves", "tensor pipe with padding, tail and delivered rate"),
    "exp": ("exp bound", "the softmax's unit, not the tensor pipe"),
    "launch": ("launch floor", ""),
    "widening": ("dequantising, casting, split-K sums", ""),
    "host": ("the framework on the host, between the kernels", ""),
    "supply": ("operand supply from L2, latency, imperfect overlap", ""),
    "kernel": ("the kernels beyond the ceilings, as expected", ""),
    "clock": ("clock below nominal, where the SMs bind the time", ""),
    "unexplained": ("unexplained", ""),
}
"""Part of a measured time → its name for readers, and what it means; in the order of the split (`PARTS`)."""
NAMES = {part: name for part, (name, _) in _PARTS.items()}
LABELS = {part: f"{name}: {meaning}" if meaning else name for part, (name, meaning) in _PARTS.items()}


def case_gap(case: CaseSummary) -> Gap | None:
    """Return the split of a case's pooled time; None without a measurement, without a prediction, or on another
    chip.
    """
    record, measured_s = case.lead.record, case.measured_s
    ideal, expected = record.ideal, record.expected
    if measured_s is None or ideal is None or case.lead.is_forced or ideal.memory_time_s is None:
        return None
    return explain_gap(
        measured_s=measured_s,
        ideal_memory_s=ideal.memory_time_s,
        ideal_compute_s=ideal.compute_time_s or 0.0,
        ideal_s=ideal.time_s,
        expected_s=None if expected is None else expected.time_s,
        terms_s=None if expected is None else expected.terms_s,
        clock_ratio=_clock_ratio(case),
    )


def expected_gap(case: CaseSummary) -> Gap | None:
    """Return the split where an expected time is part of it; without one it would say no more than the error does."""
    return case_gap(case) if has_parts(case) and case.measured_s else None


def has_parts(case: CaseSummary) -> bool:
    """Return whether an expected time with its terms is stored, so that a split has more than the roof and the rest."""
    expected = case.lead.record.expected
    return expected is not None and expected.low_s is not None and expected.terms_s is not None


def _clock_ratio(case: CaseSummary) -> float | None:
    """Return the SM clock while measuring over the one the chip should hold, where both are known."""
    for measured in case.measurements:
        rated_hz = measured.state.rated_clock_hz if measured.state is not None else None
        if measured.sm_clock_hz and rated_hz:
            return measured.sm_clock_hz / rated_hz
    return None


AGAIN = ", for the runs that follow"


def for_the_next(doubt: Finding | None) -> str:
    """Return a doubt of a calibration, and that a new one mends the runs that follow; empty where there is none."""
    return "" if doubt is None else f"{short_text(doubt)}{AGAIN}"


def calibration_doubts(device: Device | None) -> tuple[str, ...]:
    """Return why a chip has no ideal or no expected times: it was busy while it was calibrated."""
    return () if device is None else tuple(map(for_the_next, doubts_of(device)))


def profile_doubts(profiles: Iterable[HardwareProfile]) -> list[str]:
    """Return these reasons for the stored profiles of a run, each once; a profile that cannot be read has none."""
    return list(dict.fromkeys(text for profile in profiles for text in calibration_doubts(profile.device)))
