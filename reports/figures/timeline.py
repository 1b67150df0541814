"""The run over time as a figure: power, clock, temperature and energy per call, and the interval of each case below
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import floor, log10
from typing import TYPE_CHECKING

from reports.figures.drawing.palette import ACCENT, GRID, INK, MUTED, SURFACE, Colour, Shape, format_colours
from reports.figures.drawing.spec import (
    Axis,
    Bars,
    Beside,
    Card,
    Key,
    LegendEntry,
    Line,
    Marks,
    Panel,
    Plane,
    Series,
    Stack,
)
from reports.figures.samples import thinned
from reports.present.display_text import prefixed, shown
from reports.view.run_state import CaseSpan, RunTimeline, reading_of

if TYPE_CHECKING:
    from reports.view.run_state import CanaryPoint, RunState
    from reports.view.views import ReportView

MOST_READINGS = 2_400
"""Readings of one channel in a figure; of more the extremes of each stretch. The store keeps them all."""
MOST_BARS = 300
"""Intervals that can be pointed at; more are one line."""

CANARY_SIZE_INCHES = (5.6, 2.3)

_LONGEST_IN_SECONDS_S = 240.0
"""Of a longer run the time is told in minutes."""
_KERNEL_SHAPES: tuple[Shape, ...] = ("circle", "square", "diamond", "up", "down")
_MOST_SHADES = 100
_MOST_FORMATS = 10
_PANEL_INCHES, _LANE_INCHES = 1.25, 0.42
_LINE = format_colours(["BF16"])["BF16"]
_AXES = {
    "power_w": ("Power (W)", 1.0),
    "clock_hz": ("clock (GHz)", 1e-9),
    "temperature_c": ("Temp. (°C)", 1.0),
    "energy_j": ("Energy per call", 1.0),
}
"""Channel → title and scale."""


def run_stack(view: ReportView, timeline: RunTimeline) -> Stack | None:
    """Return the figure of a run; None when neither power nor clock nor temperature is stored."""
    colours = format_colours(precision for chip in view.chips for precision in chip.roofline.precisions)
    canaries = view.state.canaries if timeline.has_time_axis and view.state.has_time_axis else ()
    return timeline_stack(timeline, colours, canaries, subtitle=view.date)


def timeline_stack(
    timeline: RunTimeline,
    colours: Mapping[str, Colour],
    canaries: Sequence[CanaryPoint] = (),
    *,
    title: str = "Power and clock over the run",
    subtitle: str = "",
) -> Stack | None:
    """Return the figure; points are keyed by the place of their span. None when nothing is stored to be drawn over
    time.
    """
    channels = list(timeline.channels)
    if not channels:
        return None
    spans = timeline.spans
    if any(span.energy_j is not None for span in spans):
        channels.append("energy_j")
    is_in_minutes = timeline.has_time_axis and max(span.end_s for span in spans) > _LONGEST_IN_SECONDS_S
    unit_s = 60.0 if is_in_minutes else 1.0
    words = f"{'Minutes' if is_in_minutes else 'Seconds'} since the run began"
    panels = [Panel(_axis(timeline, name), tuple(_channel(timeline, name, unit_s)), _PANEL_INCHES) for name in channels]
    lane_axis = Axis("", -0.45, 0.9, ticks=((0.0, "Cases"),), is_bare=True)
    lane = Panel(lane_axis, (*_lane(spans, colours, unit_s), *_canaries(canaries, unit_s)), _LANE_INCHES)
    held = [span for span in spans if span.is_throttled]
    return Stack(
        title,
        Axis(words if timeline.has_time_axis else "Case, in order"),
        (*panels, lane),
        tuple((span.begin_s / unit_s, span.end_s / unit_s) for span in held[:_MOST_SHADES]),
        tuple(_legend(timeline, colours, canaries)),
        " · ".join(part for part in (subtitle, timeline.sentence) if part),
        {f"canary:{place}": Card(shown(canary.text, 160)) for place, canary in enumerate(canaries)},
    )


def _axis(timeline: RunTimeline, name: str) -> Axis:
    title = _AXES[name][0]
    if name == "clock_hz":
        title = f"{'SM' if timeline.has_sm_clock else 'CPU'} {title}"
    if name != "energy_j":
        return Axis(title, has_zero=name == "power_w")
    return Axis(title, is_log=True, ticks=tuple(_energy_ticks(timeline.spans)))


def _energy_ticks(spans: Iterable[CaseSpan]) -> Iterator[tuple[float, str]]:
    """Yield ticks at 1, 2 and 5, or at powers of ten where energies lie far apart."""
    energies_j = [span.energy_j for span in spans if span.energy_j]
    if not energies_j:
        return
    low, high = min(energies_j), max(energies_j)
    for power in range(floor(log10(low)), floor(log10(high)) + 1):
        for digit in (1,) if high > 30 * low else (1, 2, 5):
            yield digit * 10.0**power, prefixed(digit * 10.0**power, "J")


def _channel(timeline: RunTimeline, name: str, unit_s: float) -> Iterator[Series]:
    """Yield the averages of a channel as steps, its readings as a line, and of the clock what it should be and how far
    it went.
    """
    spans, scale = timeline.spans, _AXES[name][1]
    if name == "clock_hz":
        yield from _steps(
            "rated clock", spans, lambda span: span.rated_clock_hz, unit_s, scale, MUTED, 0.9, (3.0, 2.25)
        )
        yield from _ranges(spans, unit_s, scale)
    readings = list(_readings(spans, name, unit_s, scale))
    colour, width = (INK, 1.05) if readings else (_LINE, 1.95)
    yield from _steps(f"average {name}", spans, lambda span: getattr(span, name), unit_s, scale, colour, width)
    if not readings:
        known_spans = [(place, span) for place, span in enumerate(spans) if getattr(span, name) is not None]
        yield Marks(
            f"case {name}",
            tuple((span.begin_s + span.end_s) / 2 / unit_s for _, span in known_spans),
            tuple(getattr(span, name) * scale for _, span in known_spans),
            _LINE,
            size_points=4.0,
            edge=SURFACE,
            edge_width_points=0.6,
            keys=tuple(place for place, _ in known_spans),
            medium="live",
        )
    yield from readings


def _joined(
    name: str, pieces: Iterable[tuple[int, Sequence[tuple[float, float]]]], colour: Colour, width: float, **look: object
) -> Iterator[Line]:
    """Yield one line of many pieces, each keyed by the place of its span: one path, however many there are."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    keys: list[Key | None] = []
    for place, corners in pieces:
        xs += [*(x for x, _ in corners), None]
        ys += [*(y for _, y in corners), None]
        keys += [*(place for _ in corners), None]
    if xs:
        yield Line(name, tuple(xs), tuple(ys), colour, width, keys=tuple(keys), **look)  # type: ignore[arg-type]


def _steps(
    name: str,
    spans: Sequence[CaseSpan],
    value: Callable[[CaseSpan], float | None],
    unit_s: float,
    scale: float,
    colour: Colour,
    width: float,
    dash: tuple[float, ...] = (),
) -> Iterator[Line]:
    levels = ((place, span, value(span)) for place, span in enumerate(spans))
    pieces = [
        (place, [(span.begin_s / unit_s, level * scale), (span.end_s / unit_s, level * scale)])
        for place, span, level in levels
        if level is not None
    ]
    yield from _joined(name, pieces, colour, width, dash=dash)


def _ranges(spans: Sequence[CaseSpan], unit_s: float, scale: float) -> Iterator[Line]:
    """Yield how far the clock of the samples went, as a stroke in the middle of each span."""
    pieces = []
    for place, span in enumerate(spans):
        if span.clock_low_hz is not None and span.clock_high_hz is not None:
            middle = (span.begin_s + span.end_s) / 2 / unit_s
            pieces.append((place, [(middle, span.clock_low_hz * scale), (middle, span.clock_high_hz * scale)]))
    yield from _joined("clocks of the samples", pieces, _LINE, 3.75, opacity_ratio=0.35)


def drawn_readings(spans: Sequence[CaseSpan], name: str) -> list[list[tuple[float, float]]]:
    """Return per span the readings of a channel that a figure draws, as (seconds since the run began, value)."""
    if name == "energy_j":
        return [[] for _ in spans]
    every = [
        [
            (span.readings_begin_s + sample.time_s, value)
            for sample in span.readings
            if (value := reading_of(sample, name)) is not None
        ]
        for span in spans
    ]
    total = sum(map(len, every))
    drawn = []
    for pairs in every:
        room = len(pairs) if total <= MOST_READINGS else max(2, len(pairs) * MOST_READINGS // total)
        drawn.append([pairs[at] for at in thinned([value for _, value in pairs], room)] if pairs else [])
    return drawn


def _readings(spans: Sequence[CaseSpan], name: str, unit_s: float, scale: float) -> Iterator[Line]:
    pieces = [
        (place, [(round(time_s, 4) / unit_s, value * scale) for time_s, value in pairs])
        for place, pairs in enumerate(drawn_readings(spans, name))
        if pairs
    ]
    yield from _joined(f"readings {name}", pieces, _LINE, 1.0, opacity_ratio=0.85)


def _lane(spans: Sequence[CaseSpan], colours: Mapping[str, Colour], unit_s: float) -> Iterator[Series]:
    """Yield each case's interval in the colour of its format, striped where the clock was held down."""
    if len(spans) > MOST_BARS:
        yield from _steps("cases", spans, lambda _: 0.0, unit_s, 1.0, MUTED, 9.0)
        return
    groups: dict[str, list[int]] = {}
    for place, span in enumerate(spans):
        groups.setdefault("" if span.is_throttled else span.precision, []).append(place)
    for precision, places in groups.items():
        yield Bars(
            f"cases {precision}" if precision else "clock held down",
            0.0,
            tuple(spans[place].begin_s / unit_s for place in places),
            tuple((spans[place].end_s - spans[place].begin_s) / unit_s for place in places),
            colours.get(precision, MUTED) if precision else ACCENT,
            is_hatched=not precision,
            keys=tuple(places),
        )


def _canaries(canaries: Sequence[CanaryPoint], unit_s: float) -> Iterator[Marks]:
    for is_slow, name, colour in ((False, "canary", MUTED), (True, "slow canary", ACCENT)):
        chosen = [(place, canary) for place, canary in enumerate(canaries) if canary.is_slow is is_slow]
        if chosen:
            yield Marks(
                name,
                tuple((canary.offset_s or 0.0) / unit_s for _, canary in chosen),
                (0.62,) * len(chosen),
                colour,
                shape="cross" if is_slow else "down",
                size_points=7.5 if is_slow else 6.0,
                edge_width_points=0.0,
                keys=tuple(f"canary:{place}" for place, _ in chosen),
            )


def _legend(
    timeline: RunTimeline, colours: Mapping[str, Colour], canaries: Sequence[CanaryPoint]
) -> Iterator[LegendEntry]:
    spans = timeline.spans
    if len(spans) <= MOST_BARS:
        for precision in list(dict.fromkeys(span.precision for span in spans))[:_MOST_FORMATS]:
            yield LegendEntry(precision, colours.get(precision, MUTED), "swatch")
    if any(span.is_throttled for span in spans):
        yield LegendEntry("clock held down", ACCENT, "swatch", is_hatched=True)
    if timeline.reading_count:
        yield LegendEntry("sensor reading", _LINE, "line", medium="still")
    yield LegendEntry("average of a case", INK if timeline.reading_count else _LINE, "line", medium="still")
    if canaries:
        yield LegendEntry("canary", MUTED, shape="down")
    if any(canary.is_slow for canary in canaries):
        yield LegendEntry("slow canary", ACCENT, shape="cross")
    if any(span.rated_clock_hz is not None for span in spans):
        yield LegendEntry("rated clock", MUTED, "line", dash=(3.0, 2.25))
    if any((span.clock_high_hz or 0.0) > (span.clock_low_hz or 0.0) for span in spans):
        yield LegendEntry("clocks of the samples", _LINE, "swatch", opacity_ratio=0.35)


def canary_figure(state: RunState) -> Beside:
    """Return the canary's slowdown over the run: slow readings stand out, quarantined cases are ticks at the bottom."""
    canaries = state.canaries
    last_s = max((canary.offset_s for canary in canaries if canary.offset_s is not None), default=0.0)
    unit_s = 60.0 if last_s > _LONGEST_IN_SECONDS_S else 1.0
    places = [
        canary.offset_s / unit_s if state.has_time_axis and canary.offset_s is not None else float(number)
        for number, canary in enumerate(canaries, start=1)
    ]
    ratios = [canary.slowdown_ratio for canary in canaries]
    low, high = min(*ratios, 1.0), max(*ratios, 1.0)
    spread = max(high - low, 0.1)
    bottom = low - 0.17 * spread
    held = [offset_s / unit_s for offset_s in state.quarantined_offsets_s] if state.has_time_axis else []
    series: list[Series] = [
        Line("usual time", (min(places), max(places)), (1.0, 1.0), MUTED, 1.0, (4.0, 3.0)),
        Line("readings", tuple(places), tuple(ratios), GRID, 1.2),
        *_canary_marks(canaries, places),
    ]
    if held:
        xs = tuple(x for place in held for x in (place, place, None))
        series.append(Line("quarantined", xs, (bottom, bottom + 0.1 * spread, None) * len(held), ACCENT, 1.4))
    kernels = list(dict.fromkeys(canary.kernel for canary in canaries))
    legend = [LegendEntry(", ".join(shown(kernel, 40) for kernel in kernels[:3]), _LINE)]
    legend += [LegendEntry("slow", ACCENT, shape="cross")] if state.slow else []
    legend += [LegendEntry("quarantined case", ACCENT, shape="bar")] if held else []
    time = f"{'Minutes' if unit_s > 1 else 'Seconds'} since the run began"
    return Beside(
        "Canary over the run",
        Axis("× usual time", bottom, high + 0.15 * spread),
        (Plane(Axis(time if state.has_time_axis else "Reading"), tuple(series)),),
        CANARY_SIZE_INCHES,
        legend=tuple(legend),
    )


def _canary_marks(canaries: Sequence[CanaryPoint], places: Sequence[float]) -> Iterator[Marks]:
    groups: dict[tuple[bool, str], list[int]] = {}
    for at, canary in enumerate(canaries):
        groups.setdefault((canary.is_slow, canary.kernel), []).append(at)
    kernels = list(dict.fromkeys(canary.kernel for canary in canaries))
    for (is_slow, kernel), members in sorted(groups.items(), key=lambda group: group[0][0]):
        yield Marks(
            f"{kernel}, slow" if is_slow else kernel,
            tuple(places[at] for at in members),
            tuple(canaries[at].slowdown_ratio for at in members),
            ACCENT if is_slow else _LINE,
            "cross" if is_slow else _KERNEL_SHAPES[kernels.index(kernel) % len(_KERNEL_SHAPES)],
            9.0 if is_slow else 5.5,
            edge=SURFACE,
            edge_width_points=0.8,
        )
