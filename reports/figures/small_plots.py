"""Small figures of a report: the canary's readings over the run, and one flagged case's samples, in order and as ECDF.

matplotlib's object interface only. Dots are drawn as one path of tiny strokes, so that thousands of them stay small in a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports.cases.sample_series import SampleSeries
from reports.figures.frame import PLAIN_TEXT
from reports.figures.palette import ACCENT, GRID, INK, MUTED, SURFACE, format_colours
from reports.text.display_text import shown
from reports.view.run_state import RunState
from roofline_model.core.units import DECIMAL_PREFIXES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CANARY_SIZE_INCHES = (5.6, 2.3)
SAMPLES_SIZE_INCHES = (4.7, 2.15)
MAX_DOTS = 600
"""Longer series are drawn by this many of their samples: evenly chosen, extremes kept."""

_SAMPLE_INK = format_colours(["BF16"])["BF16"]
_FONT = 8.5
_LONGEST_IN_SECONDS_S = 240
"""Of a longer run the time is told in minutes, as in the timeline."""


def draw_canaries(state: RunState) -> Figure:
    """Return the canary's slowdown over the run: slow readings stand out, quarantined cases are ticks at the bottom."""
    from matplotlib.ticker import MaxNLocator

    figure = _figure(CANARY_SIZE_INCHES)
    axes = figure.add_axes((0.085, 0.2, 0.9, 0.62), facecolor=SURFACE.light)
    _plain(axes)
    axes.axhline(1, color=MUTED.light, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    places, unit_s = _places(state), _time_unit_s(state)
    axes.plot(
        list(places.values()),
        [canary.slowdown_ratio for canary in state.canaries],
        color=GRID.light,
        linewidth=1.2,
        zorder=2,
    )
    kernels = list(dict.fromkeys(canary.kernel for canary in state.canaries))
    for kernel, marker in zip(kernels, _markers(len(kernels)), strict=True):
        for is_slow, ink, size in ((False, _SAMPLE_INK, 5.5), (True, ACCENT, 9.0)):
            chosen = [canary for canary in state.canaries if canary.kernel == kernel and canary.is_slow is is_slow]
            axes.plot(
                [places[id(one)] for one in chosen],
                [one.slowdown_ratio for one in chosen],
                linestyle="none",
                marker="X" if is_slow else marker,
                markersize=size,
                color=ink.light,
                markeredgecolor=SURFACE.light,
                markeredgewidth=0.8,
                label=f"{kernel}, slow" if is_slow else kernel,
                zorder=4 if is_slow else 3,
            )
    highest = max(canary.slowdown_ratio for canary in state.canaries)
    lowest = min(canary.slowdown_ratio for canary in state.canaries)
    spread = max(highest - min(lowest, 1), 0.1)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.set_ylim(min(lowest, 1) - 0.17 * spread, max(highest, 1) + 0.15 * spread)
    held = [offset_s / unit_s for offset_s in state.quarantined_offsets_s] if state.has_time_axis else []
    if held:
        bottom = axes.get_ylim()[0]
        axes.vlines(held, bottom, bottom + 0.1 * spread, color=ACCENT.light, linewidth=1.4, zorder=3)
    axes.set_xlabel(
        f"{'Minutes' if unit_s > 1 else 'Seconds'} since the run began" if state.has_time_axis else "Reading",
        fontsize=_FONT,
        color=INK.light,
    )
    axes.set_ylabel("× usual time", fontsize=_FONT, color=INK.light)
    _canary_key(figure, kernels, has_slow=bool(state.slow), has_held=bool(held))
    return figure


def draw_samples(series: SampleSeries) -> Figure:
    """Return one series in the order taken (left) and its empirical distribution (right), on one axis of time."""
    figure = _figure(SAMPLES_SIZE_INCHES)
    scale, unit = _unit(series.median_s)
    values = [sample / scale for sample in series.samples_s]
    ordered = figure.add_axes((0.115, 0.2, 0.5, 0.66), facecolor=SURFACE.light)
    ecdf = figure.add_axes((0.665, 0.2, 0.3, 0.66), facecolor=SURFACE.light, sharey=ordered)
    for axes in (ordered, ecdf):
        _plain(axes)
        axes.axhline(series.median_s / scale, color=ACCENT.light, linewidth=1.1, zorder=4)
        if series.ci_low_s is not None and series.ci_high_s is not None:
            axes.axhspan(
                series.ci_low_s / scale, series.ci_high_s / scale, color=ACCENT.light, alpha=0.16, linewidth=0, zorder=1
            )
    kept = thinned(values)
    _dots(ordered, [index + 1 for index in kept], [values[index] for index in kept])
    ordered.set_xlim(0.5, len(values) + 0.5)
    ranked = sorted(values)
    steps = sorted({*thinned(ranked), 0, len(ranked) - 1})
    ecdf.step(
        [(index + 1) / len(ranked) * 100 for index in steps],
        [ranked[index] for index in steps],
        color=_SAMPLE_INK.light,
        linewidth=1.4,
        zorder=3,
    )
    ecdf.set_xlim(0, 103)
    ecdf.set_xticks([0, 50, 100])
    low, high = ranked[0], ranked[-1]
    margin = 0.06 * (high - low) or 0.05 * (abs(high) or 1)
    ordered.set_ylim(low - margin, high + margin)
    ecdf.tick_params(labelleft=False)
    ordered.set_title(f"Time per call ({unit}), in order", fontsize=_FONT, color=INK.light, loc="left", pad=4)
    ecdf.set_title("Share below (%)", fontsize=_FONT, color=INK.light, loc="left", pad=4)
    ordered.set_xlabel("Sample", fontsize=_FONT, color=INK.light, labelpad=1)
    return figure


def thinned(values: Sequence[float], limit: int = MAX_DOTS) -> list[int]:
    """Return the indices to draw: all, or of each of `limit` / 2 stretches its lowest and its highest, in order."""
    if len(values) <= limit:
        return list(range(len(values)))
    stretches = limit // 2
    chosen: set[int] = set()
    for part in range(stretches):
        window = range(part * len(values) // stretches, (part + 1) * len(values) // stretches)
        chosen |= {min(window, key=values.__getitem__), max(window, key=values.__getitem__)}
    return sorted(chosen)


def _places(state: RunState) -> dict[int, float]:
    """Return where each reading (by identity) stands: seconds or minutes since the run began, or its number."""
    timed, unit_s = state.has_time_axis, _time_unit_s(state)
    return {
        id(one): one.offset_s / unit_s if timed and one.offset_s is not None else float(number)
        for number, one in enumerate(state.canaries, start=1)
    }


def _time_unit_s(state: RunState) -> float:
    last_s = max((canary.offset_s for canary in state.canaries if canary.offset_s is not None), default=0.0)
    return 60.0 if last_s > _LONGEST_IN_SECONDS_S else 1.0


def _canary_key(figure: Figure, kernels: list[str], *, has_slow: bool, has_held: bool) -> None:
    words = [("●", _SAMPLE_INK.light, ", ".join(shown(kernel, 40) for kernel in kernels[:3]))]
    words += [("✕", ACCENT.light, "slow")] if has_slow else []
    words += [("|", ACCENT.light, "quarantined case")] if has_held else []
    left = 0.085
    for mark, colour, text in words:
        figure.text(left, 0.905, mark, fontsize=_FONT, color=colour, fontweight="bold")
        figure.text(left + 0.026, 0.905, text, fontsize=_FONT, color=MUTED.light, **PLAIN_TEXT)
        left += 0.07 + 0.0152 * len(text)


def _figure(size_inches: tuple[float, float]) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_inches, facecolor=SURFACE.light)
    FigureCanvasAgg(figure)
    return figure


def _plain(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(True, axis="y", color=GRID.light, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=MUTED.light, labelsize=_FONT - 0.5, length=2.5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_formatter().set_useOffset(False)  # type: ignore[attr-defined]  # a ScalarFormatter
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED.light)


def _dots(axes: Axes, xs: Sequence[float], ys: Sequence[float]) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    points = [point for x, y in zip(xs, ys, strict=True) for point in ((x, y), (x + 1e-3, y))]
    path = Path(points, [Path.MOVETO, Path.LINETO] * len(xs))
    path.should_simplify = False
    style: dict[str, Any] = {"edgecolor": _SAMPLE_INK.light, "facecolor": "none", "linewidth": 2.6, "capstyle": "round"}
    axes.add_patch(PathPatch(path, zorder=3, **style))


def _markers(count: int) -> list[str]:
    return [("o", "s", "D", "^", "v")[index % 5] for index in range(count)]


def _unit(time_s: float) -> tuple[float, str]:
    """Return the scale and name of the unit in which the median has one to three digits before the point."""
    fitting = [name for name in ("n", "µ", "m", "") if abs(time_s) >= DECIMAL_PREFIXES[name]]
    prefix = fitting[-1] if fitting else "n"
    return DECIMAL_PREFIXES[prefix], f"{prefix}s"
