"""Samples for the page: of the cases whose shape was flagged first, then of the others, while there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.cases.sample_series import SHAPE_FLAGS
from reports.cases.summary import CaseSummary

MAX_SAMPLES_COUNT = 4_000
"""Samples in a page, about 90 kB; `roofline show RUN CASE` and `roofline export` give those of any case."""


def sample_data(cases: Sequence[CaseSummary], first_number: int) -> list[dict[str, Any]]:
    """Return the series that fit, a process each, by the case's number in the table: flagged cases first, then in table order."""
    numbered = [
        (number, row)
        for number, case in enumerate(cases, first_number)
        for row in case.measured_rows
        if row.record.measurement is not None and len(row.record.measurement.samples_s) >= 3
    ]
    numbered.sort(key=lambda pair: not any(flag in SHAPE_FLAGS for flag in pair[1].flags))
    found, room = [], MAX_SAMPLES_COUNT
    for number, row in numbered:
        measurement = row.record.measurement
        if measurement is None or len(measurement.samples_s) > room:
            continue
        room -= len(measurement.samples_s)
        found.append(
            {
                "number": number,
                "process": row.process,
                "samples_s": list(measurement.samples_s),
                "median_s": measurement.median_s,
                "ci_low_s": measurement.ci_low_s,
                "ci_high_s": measurement.ci_high_s,
            }
        )
    return sorted(found, key=lambda one: (one["number"], one["process"]))
