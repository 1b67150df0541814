"""The run over time for the page: the interval of each case with its averages, and as many sensor readings as a page has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.display_text import counted, shown
from reports.run_timeline import CHANNELS, CaseSpan, RunTimeline, reading_of, spread_share
from reports.small_plots import thinned
from reports.views import ReportView
from results.records import TelemetrySample

MAX_READINGS_COUNT = 2_400
"""Readings in a page, about 70 kB; of longer series the highest and lowest of each stretch. The store keeps them all."""

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
    """Return the spans as rows of `columns`, the readings as [span, seconds since the run began, one list per channel], and the canary.

    Where nothing is stored to be drawn over time, `spans` is empty and `sentence` says what is missing.
    """
    channels = timeline.channels
    drawn = _readings(timeline.spans, channels) if channels else []
    drawn_count = sum(len(one[1]) for one in drawn)
    notes = [timeline.sentence] if timeline.sentence else []
    if channels and not timeline.has_time_axis:
        notes.append("The records have no usable times: the cases stand in their order.")
    if drawn_count < timeline.reading_count and timeline.has_time_axis:
        notes.append(
            f"Of {counted(timeline.reading_count, 'reading')} {drawn_count} are drawn: the highest and lowest of each stretch."
        )
    canaries = view.state.canaries if channels and timeline.has_time_axis and view.state.has_time_axis else ()
    return {
        "channels": list(channels),
        "has_time_axis": timeline.has_time_axis,
        "has_sm_clock": timeline.has_sm_clock,
        "notes": notes,
        "columns": list(SPAN_COLUMNS),
        "spans": [[getattr(span, name) for name in SPAN_COLUMNS] for span in timeline.spans] if channels else [],
        "readings": drawn,
        "canaries": [[one.offset_s, one.slowdown_ratio, one.is_slow, shown(one.text, 160)] for one in canaries],
    }


def _readings(spans: Sequence[CaseSpan], channels: Sequence[str]) -> list[list[Any]]:
    told = [[one for one in span.readings if _tells(one, channels)] for span in spans]
    found = []
    for place, (span, samples, room) in enumerate(
        zip(spans, told, spread_share([len(one) for one in told], MAX_READINGS_COUNT), strict=True)
    ):
        if not samples:
            continue
        kept = [samples[at] for at in thinned([_leading(one) for one in samples], room)]
        times_s = [round(span.readings_begin_s + one.time_s, 4) for one in kept]
        found.append([place, times_s, *([reading_of(one, name) for one in kept] for name in channels)])
    return found


def _tells(sample: TelemetrySample, channels: Sequence[str]) -> bool:
    return any(reading_of(sample, name) is not None for name in channels)


def _leading(sample: TelemetrySample) -> float:
    """Return the reading whose extremes are kept: the first channel that is there."""
    return next((value for name in CHANNELS if (value := reading_of(sample, name)) is not None), 0.0)
