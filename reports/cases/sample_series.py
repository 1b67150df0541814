"""Which cases' samples are worth a look: those whose shape was flagged, because a median does not tell a reader how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports.cases.rows import CaseRow
from reports.cases.summary import CaseSummary

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
    return tuple(sorted(series_list, key=lambda one: min(SHAPE_FLAGS.index(flag) for flag in one.flags)))


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
