"""The run over time as a figure: power, clock, temperature and energy per call, and the interval of each case below them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from reports.display_text import prefixed, shown
from reports.figure_frame import FONT, frame, key, key_rows, plain
from reports.figures.palette import ACCENT, INK, MUTED, SURFACE, format_colours
from reports.run_timeline import CaseSpan, RunTimeline, reading_of
from reports.small_plots import thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_INCHES = 10.4
ROW_INCHES, LANE_INCHES = 1.25, 0.42
MAX_DRAWN_READINGS = 1_200
"""Readings of one channel in the figure; of more the extremes of each stretch."""

_LINE = format_colours(["BF16"])["BF16"].light
_AXES = {
    "power_w": ("Power (W)", 1.0),
    "clock_hz": ("clock (GHz)", 1e-9),
    "temperature_c": ("Temperature (°C)", 1.0),
    "energy_j": ("Energy per call", 1.0),
}


def draw_timeline(timeline: RunTimeline, *, title: str, subtitle: str) -> Figure | None:
    """Return the figure of a run; None when neither power nor clock nor temperature is stored."""
    channels = list(timeline.channels)
    if not channels:
        return None
    if any(span.energy_j is not None for span in timeline.spans):
        channels.append("energy_j")
    has_minutes = timeline.has_time_axis and max(span.end_s for span in timeline.spans) > 240
    unit_s = 60.0 if has_minutes else 1.0
    entries = _key_entries(timeline)
    below = 0.72 + 0.2 * key_rows(entries, WIDTH_INCHES)
    height = 0.85 + below + LANE_INCHES + ROW_INCHES * len(channels)
    figure = frame(title, f"{subtitle} · {timeline.sentence}", (WIDTH_INCHES, height))
    lane = figure.add_axes((0.092, below / height, 0.888, LANE_INCHES / height), facecolor=SURFACE.light)
    for row, name in enumerate(channels):
        bottom = below + LANE_INCHES + 0.12 + ROW_INCHES * (len(channels) - 1 - row)
        axes = figure.add_axes(
            (0.092, bottom / height, 0.888, (ROW_INCHES - 0.2) / height), facecolor=SURFACE.light, sharex=lane
        )
        _channel(axes, timeline, name, unit_s)
        _shade(axes, timeline.spans, unit_s)
    _lane(lane, timeline, unit_s)
    words = "Minutes since the run began" if has_minutes else "Seconds since the run began"
    lane.set_xlabel(words if timeline.has_time_axis else "Case, in order", fontsize=FONT, color=INK.light)
    key(figure, entries)
    return figure


def _channel(axes: Axes, timeline: RunTimeline, name: str, unit_s: float) -> None:
    from matplotlib.ticker import MaxNLocator

    words, scale = _AXES[name]
    plain(axes)
    axes.tick_params(labelbottom=False)
    if name == "clock_hz":
        words = f"{'SM' if timeline.has_sm_clock else 'CPU'} {words}"
        axes.plot(
            *_steps(timeline.spans, lambda span: span.rated_clock_hz, unit_s, scale),
            color=MUTED.light,
            linewidth=1,
            linestyle=(0, (4, 3)),
        )
        _ranges(axes, timeline.spans, unit_s, scale)
    times, values = _reading_line(timeline.spans, name, unit_s, scale)
    axes.plot(
        *_steps(timeline.spans, lambda span: getattr(span, name), unit_s, scale),
        color=INK.light if times else _LINE,
        linewidth=1.2 if times else 2.2,
        solid_capstyle="butt",
        zorder=3,
    )
    if times:
        axes.plot(times, values, color=_LINE, linewidth=1, zorder=2)
    if name == "energy_j":
        _energy_scale(axes, timeline.spans)
    else:
        if name == "power_w":
            axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.get_yaxis().get_major_formatter().set_useOffset(False)  # type: ignore[attr-defined]  # a ScalarFormatter
    axes.set_ylabel(words, fontsize=FONT - 1.5, color=INK.light)
    axes.yaxis.set_label_coords(-0.078, 0.5)


def _energy_scale(axes: Axes, spans: Iterable[CaseSpan]) -> None:
    """Make the axis logarithmic, with ticks at 1, 2 and 5, or at powers of ten where energies lie far apart."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    energies_j = [span.energy_j for span in spans if span.energy_j]
    is_wide = bool(energies_j) and max(energies_j) > 30 * min(energies_j)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: prefixed(value, "J")))
    axes.yaxis.set_minor_locator(NullLocator())


def _steps(
    spans: Iterable[CaseSpan], value: Callable[[CaseSpan], float | None], unit_s: float, scale: float
) -> tuple[list[float], list[float]]:
    """Return a line with a gap behind every span: one path, however many there are."""
    xs: list[float] = []
    ys: list[float] = []
    for span in spans:
        level = value(span)
        if level is not None:
            xs += [span.begin_s / unit_s, span.end_s / unit_s, float("nan")]
            ys += [level * scale, level * scale, float("nan")]
    return xs, ys


def _ranges(axes: Axes, spans: Iterable[CaseSpan], unit_s: float, scale: float) -> None:
    """Draw how far the clock of the samples went, as a bar in the middle of each span."""
    found = [
        ((span.begin_s + span.end_s) / 2 / unit_s, span.clock_low_hz * scale, span.clock_high_hz * scale)
        for span in spans
        if span.clock_low_hz is not None and span.clock_high_hz is not None
    ]
    if found:
        places, lows, highs = zip(*found, strict=True)
        axes.vlines(places, lows, highs, color=_LINE, alpha=0.35, linewidth=3)


def _reading_line(spans: Iterable[CaseSpan], name: str, unit_s: float, scale: float) -> tuple[list[float], list[float]]:
    if name == "energy_j":
        return [], []
    series = [
        [
            (span.readings_begin_s + one.time_s, value)
            for one in span.readings
            if (value := reading_of(one, name)) is not None
        ]
        for span in spans
    ]
    total = sum(len(one) for one in series)
    xs: list[float] = []
    ys: list[float] = []
    for pairs in series:
        room = len(pairs) if total <= MAX_DRAWN_READINGS else max(2, len(pairs) * MAX_DRAWN_READINGS // total)
        for at in thinned([value for _, value in pairs], room) if pairs else ():
            xs.append(pairs[at][0] / unit_s)
            ys.append(pairs[at][1] * scale)
        if pairs:
            xs.append(float("nan"))
            ys.append(float("nan"))
    return xs, ys


def _lane(axes: Axes, timeline: RunTimeline, unit_s: float) -> None:
    plain(axes, grid="x")
    pieces = [(span.begin_s / unit_s, (span.end_s - span.begin_s) / unit_s) for span in timeline.spans]
    colours = [ACCENT.light if span.is_throttled else MUTED.light for span in timeline.spans]
    axes.broken_barh(pieces, (-0.36, 0.72), facecolors=colours, edgecolor=SURFACE.light, linewidth=0.5)
    axes.set_ylim(-0.55, 0.55)
    axes.set_yticks([0])
    for label in axes.set_yticklabels(["cases"]):
        label.set_color(MUTED.light)
    axes.tick_params(axis="y", length=0)


def _shade(axes: Axes, spans: Iterable[CaseSpan], unit_s: float) -> None:
    for span in spans:
        if span.is_throttled:
            axes.axvspan(span.begin_s / unit_s, span.end_s / unit_s, color=ACCENT.light, alpha=0.13, linewidth=0)


def _key_entries(timeline: RunTimeline) -> list[tuple[str, str, str]]:
    entries = [("s", MUTED.light, "a case")]
    if any(span.is_throttled for span in timeline.spans):
        entries.append(("s", ACCENT.light, "its clock was held down"))
    if timeline.reading_count:
        entries.append(("_", _LINE, "sensor reading"))
    entries.append(("_", INK.light if timeline.reading_count else _LINE, "average of a case"))
    if any(span.rated_clock_hz is not None for span in timeline.spans):
        entries.append(("_", MUTED.light, shown("rated clock (dashed)")))
    return entries
