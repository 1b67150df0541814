"""Samples for the page: of the cases whose shape was flagged first, then of the others, while there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.cases.rows import CaseRow
from reports.cases.sample_series import SHAPE_FLAGS
from reports.cases.summary import CaseSummary
from reports.figures.plotly_drawer import beside_json
from reports.figures.samples import samples_figure
from reports.page.interactive.text_table import difference, packed_floats

MAX_SAMPLES_COUNT = 4_000
"""Samples in a page, about 120 kB; `roofline show RUN CASE` and `roofline export` give those of any case."""


def sample_data(cases: Sequence[CaseSummary], first_number: int) -> dict[str, Any]:
    """Return the series that fit, a process each, by the case's number in the table: flagged cases first, then in table order.

    A series has the samples as they are stored, and its figure as what differs from that of the first (`figure`).
    """
    numbered = [
        (number, case, row)
        for number, case in enumerate(cases, first_number)
        for row in case.measured_rows
        if row.record.measurement is not None and len(row.record.measurement.samples_s) >= 3
    ]
    numbered.sort(key=lambda item: not any(flag in SHAPE_FLAGS for flag in item[2].flags))
    series, room = [], MAX_SAMPLES_COUNT
    for number, case, row in numbered:
        measurement = row.record.measurement
        if measurement is None or len(measurement.samples_s) > room:
            continue
        room -= len(measurement.samples_s)
        series.append(
            {
                "number": number,
                "process": row.process,
                "label": _label(case, row),
                "is_flagged": bool(case.flags),
                "median_s": measurement.median_s,
                "samples_s": packed_floats(measurement.samples_s),
                "figure": beside_json(
                    samples_figure(
                        measurement.samples_s, measurement.median_s, (measurement.ci_low_s, measurement.ci_high_s)
                    )
                ),
            }
        )
    series.sort(key=lambda one: (one["number"], one["process"]))
    if not series:
        return {}
    first = series[0]["figure"]
    return {"figure": first, "series": [one | {"figure": difference(one["figure"], first)} for one in series]}


def _label(case: CaseSummary, row: CaseRow) -> str:
    process = f", process {row.process}" if case.process_count > 1 else ""
    flags = f" ({', '.join(case.flags)})" if case.flags else ""
    return f"{row.name}{process}{flags}"
