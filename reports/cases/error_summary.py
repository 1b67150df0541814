"""How good the predictions were, per operator and precision; and what happened to every case, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from reports.cases.rows import CaseRow
from reports.text.regime import regime_rank
from results.records.records import STATUSES


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Errors of the ideal prediction over one operator × precision × cache state × mode (ratios of the measured time)."""

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
    """Return one summary over the comparable rows of one cache state and mode, or None when nothing was both measured and predicted.

    The state and mode are the first by `regime_rank` that occur: cold and eager where there are any.
    """
    comparable = list(comparable_rows(rows))
    if not comparable:
        return None
    cache, mode = min(((row.cache, row.mode) for row in comparable), key=lambda one: regime_rank(*one))
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
    return tuple(sorted(counts, key=lambda one: (one.status != "failed", -len(one.case_ids), one.reason)))


def _summary(op: str, precision: str, cache: str, mode: str, rows: list[CaseRow]) -> ErrorSummary | None:
    errors = [(row.error_ratio, row.name) for row in rows if row.error_ratio is not None]
    shares = [row.roof_share_ratio for row in rows if row.roof_share_ratio is not None]
    if not errors or not shares:
        return None
    expected = [abs(row.expected_error_ratio) for row in rows if row.expected_error_ratio is not None]
    worst, worst_id = max(errors, key=lambda pair: abs(pair[0]))
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
        median_abs_expected_ratio=median(expected) if expected else None,
    )
