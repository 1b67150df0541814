"""One summary per case: its pooled result beside a row for each of its processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from reports.cases.rows import CaseRow, case_rows, marked_records
from reports.present.display_text import counted, regime_words, shown
from results.cases.case_result import CaseResult, case_results
from results.records.records import Measurement, Record, RunInfo

if TYPE_CHECKING:
    from results.records.state_records import NoiseFloor
    from results.statistics.replication import TotalInterval

ROOF_MARGIN_RATIO = 0.02
"""A time this much below the ideal one is no news: a ceiling is measured, too."""
_LEAST_COMMON = 3
"""Cases whose remark is worth a line of its own."""


@dataclass(frozen=True)
class CaseSummary:
    """A case as a reader meets it. SI units; missing is None. What the other properties are made of is made once."""

    result: CaseResult
    rows: tuple[CaseRow, ...]
    """One per process (or attempt), in the order stored; the same case and chip profile in all."""

    @cached_property
    def lead(self) -> CaseRow:
        """The row of the record that speaks for the case."""
        return next(row for row in self.rows if row.record is self.result.lead)

    @property
    def regime(self) -> str:
        """Cache state and mode in words."""
        return regime_words(self.lead.cache, self.lead.mode)

    @property
    def status(self) -> str:
        """measured when at least one process measured it."""
        return self.result.status

    @cached_property
    def measured_rows(self) -> tuple[CaseRow, ...]:
        """The rows that hold a time."""
        return tuple(row for row in self.rows if row.measured_s is not None)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The measurements behind the time."""
        return tuple(record.measurement for record in self.result.used if record.measurement is not None)

    @property
    def process_count(self) -> int:
        """Processes whose times are used."""
        return self.result.process_count

    @property
    def measured_s(self) -> float | None:
        """Pooled time over the processes."""
        return self.result.measured_s

    @property
    def within_ratio(self) -> float | None:
        """± of `interval_within`, as a share of the median: the widest among the processes."""
        return self.result.within_ratio

    @property
    def total(self) -> TotalInterval | None:
        """`interval_total` of the case."""
        return self.result.total

    @property
    def total_ratio(self) -> float | None:
        """± of `interval_total`, as a share of its estimate; None when between-process noise is unknown."""
        return self.result.total_ratio

    @property
    def total_basis(self) -> str:
        """Where `interval_total` comes from: `3 processes`, `A/A floor`, `other cases` (one process, the spread of the
        run's other cases), or `one process` where it is not known; empty if unmeasured."""
        if self.measured_s is None:
            return ""
        if self.total is not None and self.total_ratio is not None:
            if self.total.basis == "floor":
                return "A/A floor"
            return "other cases" if self.process_count == 1 else counted_processes(self.process_count)
        return counted_processes(self.process_count)

    @property
    def plus_minus_ratio(self) -> float | None:
        """The ± to show where one fits: total where it is known, else within."""
        return self.result.plus_minus_ratio

    @property
    def flags(self) -> tuple[str, ...]:
        """See `CaseResult.flags`; fit to be shown."""
        return tuple(shown(flag, 60) for flag in self.result.flags)

    @property
    def doubts(self) -> tuple[str, ...]:
        """The flags that put its time in doubt."""
        return self.result.doubts

    @property
    def error_ratio(self) -> float | None:
        """(ideal − measured) / measured, of the pooled time; as stored with one process."""
        return self.result.error_ideal_ratio

    @property
    def expected_error_ratio(self) -> float | None:
        """(expected − measured) / measured, of the pooled time."""
        return self.result.error_expected_ratio

    @property
    def roof_share_ratio(self) -> float | None:
        """ideal / measured."""
        return self.result.roof_share_ratio

    @property
    def pooled(self) -> CaseRow:
        """The case as one row, with the numbers of all its processes; its record is that of `lead`."""
        result = self.result
        return replace(
            self.lead,
            measured_s=result.measured_s,
            interval_ratio=result.within_ratio,
            error_ratio=result.error_ideal_ratio,
            expected_error_ratio=result.error_expected_ratio,
            achieved_bytes_per_s=result.achieved_bytes_per_s,
            achieved_flops_per_s=result.achieved_flops_per_s,
            roof_share_ratio=result.roof_share_ratio,
            flags=self.flags,
        )

    @property
    def is_faster_than_roof(self) -> bool:
        """True when measured beat ideal by more than the interval that is shown. What no kernel can do was flagged
        `above-roof` when it was measured; the others ran above the rated speed, or on what a cache holds.
        """
        margin = max(self.plus_minus_ratio or 0.0, ROOF_MARGIN_RATIO)
        return self.roof_share_ratio is not None and self.roof_share_ratio > 1 + margin

    @property
    def remarks(self) -> tuple[str, ...]:
        """Reasons of what was not measured, and what is strange about the time; flags and the prediction's notes are
        apart.
        """
        lost = [row for row in self.rows if row.measured_s is None]
        reasons = []
        for row in lost:
            where = f"process {row.process} {row.status}: " if self.measured_rows else ""
            reasons.append(f"{where}{row.reason or 'no reason was stored'}" if where or row.reason else "")
        beaten = ["faster than the ideal"] if self.is_faster_than_roof else []
        return tuple(dict.fromkeys(remark for remark in (*reasons, *beaten) if remark))


def case_summaries(cases: Iterable[CaseResult]) -> tuple[CaseSummary, ...]:
    """Return the summaries of cases, in their order."""
    return tuple(CaseSummary(case, case_rows(case.records)) for case in cases)


def common_remarks(cases: Sequence[CaseSummary]) -> dict[str, int]:
    """Return the remarks that at least half of the cases share, with how many do: said once, not in each row."""
    counts = Counter(remark for case in cases for remark in case.remarks)
    return {remark: count for remark, count in counts.items() if count >= _LEAST_COMMON and 2 * count >= len(cases)}


def counted_processes(count: int) -> str:
    """Return `one process`, `3 processes`."""
    return "one process" if count == 1 else counted(count, "process", "processes")


def run_cases(
    run: RunInfo, records: Iterable[Record], floors: Mapping[tuple[str, str], NoiseFloor]
) -> tuple[CaseResult, ...]:
    """Return the cases of a run; impossible numbers are left out, and a forced run marks every measurement."""
    from results.exchange.exported.impossible import possible_records

    return case_results(marked_records(possible_records(records), is_forced=run.is_forced), floors)


def run_summaries(
    run: RunInfo, records: Iterable[Record], floors: Mapping[tuple[str, str], NoiseFloor]
) -> tuple[CaseSummary, ...]:
    """Return the summaries of `run_cases`."""
    return case_summaries(run_cases(run, records, floors))


SHAPE_FLAGS = ("bimodal", "drift", "outliers")
"""Flags that a picture of the samples explains."""

MAX_SERIES = 12
"""Figures in one page; `roofline show RUN CASE` shows any case."""


@dataclass(frozen=True, slots=True)
class SampleSeries:
    """The samples of one case in one process, in the order taken, and what the summary says of them."""

    case_id: str
    process_label: str
    """`process 2` where the case ran in several, else empty."""
    flags: tuple[str, ...]
    """Of the flags of the measurement those about the samples' shape."""
    samples_s: tuple[float, ...]
    median_s: float
    ci_low_s: float | None
    ci_high_s: float | None


def flagged_series(cases: Iterable[CaseSummary]) -> tuple[SampleSeries, ...]:
    """Return a series per process of a case whose samples were flagged and are still stored; the gravest flag first."""
    series_list = [series for case in cases for row in case.measured_rows if (series := _series(row, case)) is not None]
    return tuple(sorted(series_list, key=lambda flagged: min(SHAPE_FLAGS.index(flag) for flag in flagged.flags)))


def _series(row: CaseRow, case: CaseSummary) -> SampleSeries | None:
    measurement = row.record.measurement
    if measurement is None or len(measurement.samples_s) < 3:
        return None
    flags = tuple(flag for flag in SHAPE_FLAGS if flag in measurement.flags)
    if not flags:
        return None
    return SampleSeries(
        row.name,
        f"process {row.process}" if case.process_count > 1 else "",
        flags,
        measurement.samples_s,
        measurement.median_s,
        measurement.ci_low_s,
        measurement.ci_high_s,
    )
