"""One case over its nights as a figure: every stored time, the levels between changes, and the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from reports.figures.drawing.palette import ACCENT, INK, MUTED, SURFACE, format_colours
from reports.figures.drawing.spec import Axis, Figure, Label, LegendEntry, Line, Marks
from reports.figures.samples import time_unit
from reports.present.display_text import shown
from results.history.alerts import Change
from results.history.case_history import CaseHistory
from results.history.points import HistoryPoint
from roofline_model.core.units import format_percent

MOST_POINTS = 120
"""Nights in one figure, the newest; `roofline history` shows any case whole."""

_COLOUR = format_colours(["BF16"])["BF16"]
_DASH = (3.0, 2.25)


def drawn_points(history: CaseHistory) -> Sequence[HistoryPoint]:
    """Return the nights of a figure, oldest first; its marks are keyed by their places."""
    return history.points[-MOST_POINTS:]


def history_figure(history: CaseHistory, *, title: str = "") -> Figure:
    """Return the figure of one case; x is in seconds since 1970 (UTC)."""
    nights = drawn_points(history)
    unit_s, unit = time_unit(nights[0].value)
    times_s = [_seconds(point.started_at) for point in nights]
    values = [point.value / unit_s for point in nights]
    x_air = 0.03 * (times_s[-1] - times_s[0]) or 43_200.0
    y_air = 0.08 * (max(values) - min(values)) or 0.05 * max(values)
    low, high = min(values) - y_air, max(values) + y_air
    changes = [
        change
        for change in history.changes
        if change.status != "withdrawn" and change.started_at >= nights[0].started_at
    ]
    steps = [change for change in changes if change.kind == "step"]
    return Figure(
        title or shown(history.name, 110),
        Axis("", times_s[0] - x_air, times_s[-1] + x_air, is_time=True),
        Axis(f"Time ({unit})", low, high),
        (*_steps(steps, low, high), *_levels(history, nights[0], unit_s), *_marks(nights, times_s, values)),
        tuple(_step_label(step, high) for step in steps),
        tuple(_legend(nights, steps)),
    )


def _steps(steps: Sequence[Change], low: float, high: float) -> Iterator[Line]:
    for step in steps:
        time_s = _seconds(step.started_at)
        colour = ACCENT if step.is_open else MUTED
        yield Line(f"step {step.started_at[:10]}", (time_s, time_s), (low, high), colour, 1.0, _DASH)


def _step_label(change: Change, high: float) -> Label:
    colour = ACCENT if change.is_open else MUTED
    return Label((change_text(change),), _seconds(change.started_at), high, colour, "top")


def change_text(change: Change) -> str:
    """Return the size of a change of time: `+6.3 %`."""
    return format_percent(change.change_value, signed=True)


def _levels(history: CaseHistory, first: HistoryPoint, unit_s: float) -> Iterator[Line]:
    for segment in history.segments:
        for level in segment.levels:
            used = segment.used[level.first_index : level.first_index + level.night_count]
            if used[-1].started_at >= first.started_at:
                ends = (_seconds(max(used[0].started_at, first.started_at)), _seconds(used[-1].started_at))
                yield Line("level", ends, (level.value / unit_s,) * 2, INK, 1.5)


def _marks(nights: Sequence[HistoryPoint], times_s: Sequence[float], values: Sequence[float]) -> Iterator[Marks]:
    for is_used, name in ((False, "not used"), (True, "used")):
        places = [place for place, point in enumerate(nights) if point.is_used is is_used]
        if places:
            yield Marks(
                name,
                tuple(times_s[place] for place in places),
                tuple(values[place] for place in places),
                _COLOUR,
                size_points=6.0,
                fill="full" if is_used else "hollow",
                edge=SURFACE if is_used else None,
                edge_width_points=0.6 if is_used else 1.1,
                keys=tuple(places),
            )


def _legend(nights: Sequence[HistoryPoint], steps: Sequence[Change]) -> Iterator[LegendEntry]:
    yield LegendEntry("a run", _COLOUR)
    if any(point.doubts for point in nights):
        yield LegendEntry("not used", _COLOUR, fill="hollow")
    yield LegendEntry("level", INK, "line")
    for is_open, text in ((True, "open step"), (False, "step")):
        if any(step.is_open is is_open for step in steps):
            yield LegendEntry(text, ACCENT if is_open else MUTED, "line", dash=_DASH)


def _seconds(started_at: str) -> float:
    return datetime.fromisoformat(started_at).timestamp()
