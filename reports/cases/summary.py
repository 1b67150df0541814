"""One row per case: its processes pooled by the median of their medians, with both intervals, and each process still at
hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

from reports.cases.rows import CaseRow, case_rows
from reports.text.display_text import counted, regime_words
from results.records.flags import DOUBTFUL_FLAGS, FLAGS
from results.records.records import Measurement, Record, RunInfo
from roofline_model.ideal.roofline import error_ratio

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

    rows: tuple[CaseRow, ...]
    """One per process (or attempt), in the order stored; the same case and chip profile in all."""
    total: TotalInterval | None
    """`interval_total` of the case; its ends are None with one process and no floor."""

    @cached_property
    def lead(self) -> CaseRow:
        """The row that speaks for the case: the first measured one, else the first."""
        return next((row for row in self.rows if row.measured_s is not None), self.rows[0])

    @property
    def regime(self) -> str:
        """Cache state and mode in words."""
        return regime_words(self.lead.cache, self.lead.mode)

    @property
    def status(self) -> str:
        """measured when at least one process measured it."""
        return self.lead.status

    @cached_property
    def measured_rows(self) -> tuple[CaseRow, ...]:
        """The rows that hold a time."""
        return tuple(row for row in self.rows if row.measured_s is not None)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The measurements behind the rows that hold a time."""
        return tuple(row.record.measurement for row in self.measured_rows if row.record.measurement is not None)

    @cached_property
    def process_count(self) -> int:
        """Processes that measured it."""
        return len({row.process for row in self.measured_rows})

    @cached_property
    def measured_s(self) -> float | None:
        """Median of the processes' medians."""
        times_s = [row.measured_s for row in self.measured_rows if row.measured_s is not None]
        return median(times_s) if times_s else None

    @property
    def within_ratio(self) -> float | None:
        """± of `interval_within`, as a share of the median: the widest among the processes."""
        return max((row.interval_ratio for row in self.rows if row.interval_ratio is not None), default=None)

    @property
    def total_ratio(self) -> float | None:
        """± of `interval_total`, as a share of its estimate; None when between-process noise is unknown."""
        return None if self.total is None else self.total.half_width_ratio

    @property
    def total_basis(self) -> str:
        """Where `interval_total` comes from: `3 processes`, `A/A floor`, `other cases` (one process, the spread of the
        run's other cases), or `one process` where it is not known; empty if unmeasured."""
        if not self.measured_rows:
            return ""
        if self.total is not None and self.total_ratio is not None:
            if self.total.basis == "floor":
                return "A/A floor"
            return "other cases" if self.process_count == 1 else counted_processes(self.process_count)
        return counted_processes(self.process_count)

    @property
    def plus_minus_ratio(self) -> float | None:
        """The ± to show where one fits: total where it is known, else within."""
        return self.total_ratio if self.total_ratio is not None else self.within_ratio

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """The flags of all its processes: known ones in the order they are explained, then any others."""
        fromkeys = dict.fromkeys(flag for row in self.rows for flag in row.flags)
        return (*(key for key in FLAGS if key in fromkeys), *(key for key in fromkeys if key not in FLAGS))

    @property
    def doubts(self) -> tuple[str, ...]:
        """The flags that put its time in doubt."""
        return tuple(flag for flag in self.flags if flag in DOUBTFUL_FLAGS)

    @property
    def error_ratio(self) -> float | None:
        """(ideal − measured) / measured, of the pooled time; as stored with one process."""
        return self._own_or_pooled("error_ratio", error_ratio(self.lead.ideal_s, self.measured_s))

    @property
    def expected_error_ratio(self) -> float | None:
        """(expected − measured) / measured, of the pooled time."""
        return self._own_or_pooled("expected_error_ratio", error_ratio(self.lead.expected_s, self.measured_s))

    @property
    def roof_share_ratio(self) -> float | None:
        """ideal / measured."""
        ideal_s, measured_s = self.lead.ideal_s, self.measured_s
        return ideal_s / measured_s if ideal_s is not None and measured_s else None

    @property
    def achieved_bytes_per_s(self) -> float | None:
        """Compulsory bytes over the pooled time."""
        return self._rate(self.lead.achieved_bytes_per_s)

    @property
    def achieved_flops_per_s(self) -> float | None:
        """FLOPs over the pooled time."""
        return self._rate(self.lead.achieved_flops_per_s)

    @property
    def pooled(self) -> CaseRow:
        """The case as one row, with the numbers of all its processes; its record is that of `lead`."""
        if len(self.rows) == 1:
            return self.rows[0]
        return replace(
            self.lead,
            measured_s=self.measured_s,
            interval_ratio=self.within_ratio,
            error_ratio=self.error_ratio,
            expected_error_ratio=self.expected_error_ratio,
            achieved_bytes_per_s=self.achieved_bytes_per_s,
            achieved_flops_per_s=self.achieved_flops_per_s,
            roof_share_ratio=self.roof_share_ratio,
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

    def _own_or_pooled(self, name: str, pooled: float | None) -> float | None:
        rows = self.measured_rows
        return getattr(rows[0], name) if len(rows) == 1 else pooled if rows else None

    def _rate(self, lead_rate: float | None) -> float | None:
        lead_s, pooled_s = self.lead.measured_s, self.measured_s
        return None if lead_rate is None or lead_s is None or not pooled_s else lead_rate * lead_s / pooled_s


def case_summaries(rows: Iterable[CaseRow], totals: Mapping[str, TotalInterval]) -> tuple[CaseSummary, ...]:
    """Return one summary per case and chip profile, in the order first met; `totals` by case key."""
    groups: dict[tuple[str, str], list[CaseRow]] = {}
    rows = tuple(rows)
    profiles = {row.case_key: row.profile_hash for row in rows if row.profile_hash}
    for row in rows:  # a process that failed before its prediction carries no profile: it belongs to its case
        groups.setdefault((row.case_key, row.profile_hash or profiles.get(row.case_key, "")), []).append(row)
    return tuple(CaseSummary(tuple(members), totals.get(key)) for (key, _), members in groups.items())


def common_remarks(cases: Sequence[CaseSummary]) -> dict[str, int]:
    """Return the remarks that at least half of the cases share, with how many do: said once, not in each row."""
    counts = Counter(remark for case in cases for remark in case.remarks)
    return {remark: count for remark, count in counts.items() if count >= _LEAST_COMMON and 2 * count >= len(cases)}


def counted_processes(count: int) -> str:
    """Return `one process`, `3 processes`."""
    return "one process" if count == 1 else counted(count, "process", "processes")


def run_summaries(
    run: RunInfo, records: Iterable[Record], floors: Mapping[tuple[str, str], NoiseFloor]
) -> tuple[CaseSummary, ...]:
    """Return the cases of a run, their processes pooled and with both intervals; impossible numbers are left out."""
    from results.exchange.exported.impossible import possible_records
    from results.statistics.replication import total_intervals

    possible = possible_records(records)
    return case_summaries(case_rows(possible, is_forced=run.is_forced), total_intervals(possible, floors))


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
