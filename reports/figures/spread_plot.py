"""The samples of every measured case beside each other: how wide each is around its own median, and which are flagged."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import quantiles
from typing import TYPE_CHECKING

from reports.cases.rows import CaseRow
from reports.cases.summary import CaseSummary
from reports.figures.frame import FONT, ROW_INCHES, frame, key, row_axes
from reports.figures.palette import ACCENT, INK, MUTED, format_colours
from reports.figures.small_plots import thinned
from reports.text.display_text import counted, shown
from results.records.flags import DOUBTFUL_FLAGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_SERIES = 60
"""Rows in one figure, those with the widest middle half."""

_MOST_DOTS = 160
_WIDEST_RATIO = 1.5


def draw_spreads(cases: Iterable[CaseSummary], *, title: str, subtitle: str) -> Figure | None:
    """Return the figure of the cases whose samples are stored; None when there are none (pruned, or never read)."""
    from matplotlib.ticker import PercentFormatter

    found = [(case, row) for case in cases for row in case.measured_rows if _samples(row)]
    if not found:
        return None
    if len(found) > MOST_SERIES:
        widest = {id(row) for _, row in sorted(found, key=lambda one: -_quartile_ratio(one[1]))[:MOST_SERIES]}
        found = [one for one in found if id(one[1]) in widest]
    names = [_name(case, row) for case, row in found]
    figure = frame(
        title, f"{subtitle} · every sample against the median of its process", (10.8, 1.9 + ROW_INCHES * len(found))
    )
    axes = row_axes(figure, names)
    ink, doubtful = format_colours(["BF16"])["BF16"].light, ACCENT.light
    axes.axvline(0, color=INK.light, linewidth=1, zorder=2)
    cut_count = 0
    for place, (_, row) in enumerate(found):
        is_doubtful = bool(DOUBTFUL_FLAGS.intersection(row.flags))
        cut_count += _strip(axes, place, row, doubtful if is_doubtful else ink)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    beyond = f"; {counted(cut_count, 'sample')} beyond ±{_WIDEST_RATIO:.0%} not shown" if cut_count else ""
    axes.set_xlabel(f"deviation from the median{beyond}", fontsize=FONT, color=MUTED.light)
    entries = [("o", ink, "sample (bar: the middle half)")]
    entries += (
        [("o", doubtful, "flagged: the time is in doubt")]
        if any(DOUBTFUL_FLAGS.intersection(row.flags) for _, row in found)
        else []
    )
    key(figure, entries)
    return figure


def _samples(row: CaseRow) -> tuple[float, ...]:
    measurement = row.record.measurement
    return measurement.samples_s if measurement is not None and len(measurement.samples_s) >= 3 else ()


def _name(case: CaseSummary, row: CaseRow) -> str:
    process = f", process {row.process}" if case.process_count > 1 else ""
    flags = f" [{', '.join(row.flags)}]" if row.flags else ""
    return shown(f"{row.title} {row.label}, {case.regime}{process}{flags}", 92)


def _quartile_ratio(row: CaseRow) -> float:
    first_s, middle_s, third_s = quantiles(_samples(row), n=4)
    return (third_s - first_s) / middle_s if middle_s else 0.0


def _strip(axes, place: int, row: CaseRow, colour: str) -> int:  # type: ignore[no-untyped-def]
    """Draw one row; return how many samples lie too far out."""
    samples_s = _samples(row)
    first_s, middle_s, third_s = quantiles(samples_s, n=4)
    if middle_s <= 0:
        return len(samples_s)
    ratios = [sample_s / middle_s - 1 for sample_s in samples_s]
    inside = [ratio for ratio in ratios if abs(ratio) <= _WIDEST_RATIO]
    kept = thinned(inside, _MOST_DOTS)
    # The dots of a row go up and down in turn: where they lie is the sample, how high is nothing.
    heights = [place + 0.06 * ((index * 4) % 7 - 3) for index in range(len(kept))]
    axes.plot(
        [inside[index] for index in kept],
        heights,
        linestyle="none",
        marker="o",
        markersize=2.4,
        alpha=0.55,
        color=colour,
        zorder=3,
        markeredgewidth=0,
    )
    axes.barh(
        place,
        (third_s - first_s) / middle_s,
        left=first_s / middle_s - 1,
        height=0.62,
        color=colour,
        alpha=0.22,
        zorder=2,
        linewidth=0,
    )
    return len(ratios) - len(inside)
