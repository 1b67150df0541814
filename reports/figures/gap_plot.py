"""Where the time went: one bar per case, from the ideal roof to the measured time, part by part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reports.cases.gap import LABELS, case_gap, expected_gap
from reports.cases.summary import CaseSummary
from reports.figures.frame import FONT, KEY_INCHES, ROW_INCHES, frame, key, key_rows, row_axes
from reports.figures.palette import HATCHED_PARTS, INK, MUTED, PART_COLOURS, SURFACE
from reports.text.display_text import shown
from reports.text.regime import regime_title
from results.records.case_names import pass_name
from roofline_model.core.units import format_time
from roofline_model.expected.gap import Gap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH_INCHES = 10.8
MOST_CASES = 40
"""Bars in one figure: the cases that take longest beyond their roof."""

_LEAST_RATIO = 0.0005


def draw_gaps(cases: Iterable[CaseSummary], *, title: str, subtitle: str) -> Figure | None:
    """Return the figure of the measured cases of one chip; None when no time can be split.

    Bars are shares of the measured time. Cases with an expected time show its parts; others what the roof explains and
    what it does not. A part that is negative (reality faster than the step assumed) is drawn left of zero.
    """
    from matplotlib.ticker import PercentFormatter

    split = [(case, gap) for case in cases if (gap := expected_gap(case) or case_gap(case)) is not None]
    if not split:
        return None
    chosen = {
        id(case)
        for case, gap in sorted(split, key=lambda one: dict(one[1].parts)["ideal"] - one[1].measured_s)[:MOST_CASES]
    }
    split = [one for one in split if id(one[0]) in chosen]
    occurring = [
        name
        for name in LABELS
        if any(abs(dict(gap.parts).get(name, 0.0)) > _LEAST_RATIO * gap.measured_s for _, gap in split)
    ]
    names = [_name(case) for case, _ in split]
    entries = [("s", PART_COLOURS[name].light, LABELS[name].split(":")[0]) for name in occurring]
    below = 0.75 + KEY_INCHES * key_rows(entries, WIDTH_INCHES)
    figure = frame(
        title, f"{subtitle} · share of each measured time", (WIDTH_INCHES, below + 0.95 + ROW_INCHES * len(split))
    )
    axes = row_axes(figure, names, bottom_inches=below)
    for place, (_, gap) in enumerate(split):
        _bar(axes, place, gap)
    lowest = min((sum(min(time_s, 0.0) for _, time_s in gap.parts) / gap.measured_s for _, gap in split), default=0.0)
    highest = max((sum(max(time_s, 0.0) for _, time_s in gap.parts) / gap.measured_s for _, gap in split), default=1.0)
    axes.set_xlim(lowest * 1.05, highest + 0.13)
    axes.axvline(1, color=INK.light, linewidth=1, linestyle=(0, (4, 3)), zorder=4)
    if lowest < 0:
        axes.axvline(0, color=INK.light, linewidth=1, zorder=4)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= highest + 1e-9 and tick >= lowest - 1e-9])
    axes.set_xlabel(
        "of the measured time (dashed line; printed at the end of each bar)", fontsize=FONT, color=MUTED.light
    )
    key(figure, entries)
    return figure


def _name(case: CaseSummary) -> str:
    # Passes of a model follow each other on the same weights: warm is the only state they have.
    cache = "none" if case.lead.is_model and case.lead.cache == "warm" else case.lead.cache
    regime = regime_title(cache, case.lead.mode)
    # The phase first: names are cut at their end.
    model = pass_name(case.lead.record.case.op, case.lead.record.case.shape)
    title = case.lead.title if model is None else f"{model.phase} of {model.model_name}, {model.sizes_text},"
    return shown(f"{title} {case.lead.label}{f', {regime}' if regime else ''}", 100)


def _bar(axes, place: int, gap: Gap) -> None:  # type: ignore[no-untyped-def]
    right = left = 0.0
    for name, time_s in gap.parts:
        share = time_s / gap.measured_s
        if abs(share) <= _LEAST_RATIO:
            continue
        start = right if share > 0 else left
        axes.barh(
            place,
            share,
            left=start,
            height=0.66,
            color=PART_COLOURS[name].light,
            edgecolor=SURFACE.light,
            linewidth=0.5,
            zorder=3,
            hatch="////" if name in HATCHED_PARTS else None,
        )
        right, left = (right + share, left) if share > 0 else (right, left + share)
    axes.text(right + 0.012, place, format_time(gap.measured_s, 3), va="center", fontsize=FONT - 1, color=INK.light)
