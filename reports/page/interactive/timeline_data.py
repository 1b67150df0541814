"""The run over time for the page: its figure, the averages of each case's interval, and what is not stored."""

from __future__ import annotations

from typing import Any

from reports.figures.plotly_drawer import stack_json
from reports.figures.timeline import drawn_readings, run_stack
from reports.text.display_text import counted
from reports.view.run_timeline import RunTimeline, reading_of
from reports.view.views import ReportView

SPAN_COLUMNS = (
    "ordinal",
    "process",
    "begin_s",
    "end_s",
    "power_w",
    "idle_power_w",
    "energy_j",
    "clock_hz",
    "clock_low_hz",
    "clock_high_hz",
    "rated_clock_hz",
    "temperature_c",
    "throttled_text",
    "is_throttled",
)


def timeline_data(view: ReportView, timeline: RunTimeline) -> dict[str, Any]:
    """Return the figure and its spans as rows of `columns`; where nothing is stored to be drawn over time, None and no rows."""
    stack = run_stack(view, timeline)
    notes = [timeline.sentence] if timeline.sentence else []
    if stack is not None and not timeline.has_time_axis:
        notes.append("The records have no usable times: the cases stand in their order.")
    for name in timeline.channels:
        known = [sum(reading_of(reading, name) is not None for reading in span.readings) for span in timeline.spans]
        drawn_count = sum(map(len, drawn_readings(timeline.spans, name)))
        if drawn_count < sum(known) and timeline.has_time_axis:
            told = counted(sum(known), "reading")
            notes.append(f"Of {told} {drawn_count} are drawn: the highest and lowest of each stretch.")
            break
    spans = () if stack is None else timeline.spans
    return {
        "figure": None if stack is None else stack_json(stack),
        "has_time_axis": timeline.has_time_axis,
        "has_sm_clock": timeline.has_sm_clock,
        "notes": notes,
        "columns": list(SPAN_COLUMNS),
        "spans": [[getattr(span, name) for name in SPAN_COLUMNS] for span in spans],
    }
