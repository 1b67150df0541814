"""The samples of cases that a median does not describe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports.present.cases import name_of
from results.cases.case_result import CaseResult

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


def flagged_series(cases: Iterable[CaseResult]) -> tuple[SampleSeries, ...]:
    """Return a series per process of a case whose samples were flagged and are still stored; the gravest flag first."""
    series_list = [
        series for case in cases for each in case.by_timed_record if (series := _series(each, case)) is not None
    ]
    return tuple(sorted(series_list, key=lambda flagged: min(SHAPE_FLAGS.index(flag) for flag in flagged.flags)))


def _series(timed: CaseResult, case: CaseResult) -> SampleSeries | None:
    measurement = timed.lead.measurement
    if measurement is None or len(measurement.samples_s) < 3:
        return None
    flags = tuple(flag for flag in SHAPE_FLAGS if flag in measurement.flags)
    if not flags:
        return None
    return SampleSeries(
        name_of(case.case),
        f"process {timed.lead.process.ordinal}" if case.process_count > 1 else "",
        flags,
        measurement.samples_s,
        measurement.median_s,
        measurement.ci_low_s,
        measurement.ci_high_s,
    )
