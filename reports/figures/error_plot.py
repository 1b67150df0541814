"""How far predictions were off, per operator and precision: every case a dot, the medians as bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from reports.cases.error_summary import comparable_rows
from reports.cases.rows import CaseRow
from reports.figures.frame import FONT, ROW_INCHES, frame, key, row_axes
from reports.figures.palette import ACCENT, INK, MUTED, format_colours
from reports.text.display_text import counted, shown
from reports.text.regime import regime_title
from results.records.case_names import pass_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 60
"""Groups in one figure, those with the most cases."""

_EXPECTED_SHIFT = 0.17


def draw_errors(rows: Iterable[CaseRow], *, title: str, subtitle: str) -> Figure | None:
    """Return the figure of the measured and predicted cases (forced ones are not judged); None when there are none."""
    from matplotlib.ticker import FuncFormatter

    groups = _groups(rows)
    if not groups:
        return None
    kept = dict(sorted(groups.items(), key=lambda item: -len(item[1]))[:MOST_ROWS])
    groups = {name: members for name, members in groups.items() if name in kept}
    figure = frame(
        title,
        f"{subtitle} · error = (predicted − measured) / measured; 0 is a perfect prediction",
        (10.4, 1.9 + ROW_INCHES * len(groups)),
    )
    axes = row_axes(figure, list(groups))
    has_expected = any(row.expected_error_ratio is not None for members in groups.values() for row in members)
    ink, likely = format_colours(["BF16"])["BF16"].light, ACCENT.light
    axes.axvline(0, color=INK.light, linewidth=1.1, zorder=2)
    for place, members in enumerate(groups.values()):
        shift = _EXPECTED_SHIFT if has_expected else 0.0
        _strip(axes, place - shift, [row.error_ratio for row in members], ink, filled=False)
        _strip(axes, place + shift, [row.expected_error_ratio for row in members], likely, filled=True)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -0.05), max(high, 0.05))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 100:+.0f} %" if value else "0"))
    axes.set_xlabel("predicted too fast  ←   error   →  predicted too slow", fontsize=FONT, color=MUTED.light)
    entries = [("o hollow", ink, "ideal prediction, one case"), ("|", ink, "median")]
    entries += [("o", likely, "expected time, one case"), ("|", likely, "median")] if has_expected else []
    key(figure, entries)
    return figure


def _groups(rows: Iterable[CaseRow]) -> dict[str, list[CaseRow]]:
    found: dict[str, list[CaseRow]] = {}
    for row in comparable_rows(rows):
        regime = regime_title(row.cache, row.mode)
        model = pass_name(row.record.case.op, row.record.case.shape)  # the phase first: long names are cut at their end
        operator = row.op_title if model is None else f"{model.phase} of {model.model_name}"
        name = f"{shown(operator, 40)} {shown(row.precision, 28)}{f', {regime}' if regime else ''}"
        found.setdefault(name, []).append(row)
    return {f"{name}, {counted(len(members), 'case')}": members for name, members in found.items()}


def _strip(axes, place: float, errors: Sequence[float | None], colour: str, *, filled: bool) -> None:  # type: ignore[no-untyped-def]
    known = [error for error in errors if error is not None]
    if not known:
        return
    axes.plot(
        known,
        [place] * len(known),
        linestyle="none",
        marker="o",
        markersize=5.5,
        alpha=0.75,
        zorder=3,
        markerfacecolor=colour if filled else "none",
        markeredgecolor=colour,
        markeredgewidth=1.1,
    )
    axes.plot(
        [median(known)],
        [place],
        linestyle="none",
        marker="|",
        markersize=15,
        markeredgewidth=2.4,
        color=colour,
        zorder=4,
    )
