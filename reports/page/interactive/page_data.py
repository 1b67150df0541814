"""Everything the page's scripts draw, as one JSON document that may stand inside a script element."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from reports.advice.trade_offs import trade_groups
from reports.figures.errors import errors_figure
from reports.figures.gaps import gaps_figure, group_gaps_figure
from reports.figures.palette import ACCENT, GRID, INK, MUTED, SURFACE, Colour, format_colours, operator_shapes
from reports.figures.plotly_drawer import plotly_json, rows_json
from reports.figures.roofline import roofline_figure
from reports.page.interactive.case_data import COLUMNS, case_rows_data
from reports.page.interactive.history_data import history_data
from reports.page.interactive.pareto_data import POINT_COLUMNS, pareto_data
from reports.page.interactive.sample_data import sample_data
from reports.page.interactive.text_table import Texts, packed, packed_floats
from reports.page.interactive.timeline_data import timeline_data
from reports.stored.answer import StoredRecommendations
from reports.view.run_timeline import run_timeline
from reports.view.views import ReportView
from results.history.case_history import CaseHistory
from results.records.flags import DOUBTFUL_FLAGS
from roofline_model.core.finding import code_text

DATA_VERSION = 2
SVG_LIMIT_COUNT = 1_000
"""Cases that are drawn as shapes of the page; more are drawn by WebGL where the browser has it."""

_PAGE_COLOURS: dict[str, Colour] = {
    "ink": INK,
    "muted": MUTED,
    "grid": GRID,
    "surface": SURFACE,
    "accent": ACCENT,
}


def page_data(
    view: ReportView, histories: Sequence[CaseHistory] = (), stored: StoredRecommendations | None = None
) -> dict[str, Any]:
    """Return the page's data: texts, one entry per chip, meanings of the flags that occur, and cases over their nights."""
    texts, chips, number = Texts(), [], 1
    for chip in view.chips:
        rows = case_rows_data(chip, number)
        groups = trade_groups(view.run, chip.models, chip.recommendations, chip.cases, stored, chip.hardware_key)
        numbers = {row.record_id: at for at, case in enumerate(chip.cases, start=number) for row in case.rows}
        errors = errors_figure((case.pooled for case in chip.cases), number)
        gaps = (gaps_figure(chip.cases, number), group_gaps_figure(chip.cases, number))
        chips.append(
            {
                "name": chip.hardware_name,
                "cases": packed(rows, texts, COLUMNS),
                "colours": {name: list(one[:2]) for name, one in format_colours(chip.roofline.precisions).items()},
                "shapes": operator_shapes(chip.roofline.operators),
                "roofline": plotly_json(roofline_figure(chip.roofline, number), most_svg_points=SVG_LIMIT_COUNT),
                "pareto": [
                    {**one, "points": packed(one["points"], texts, POINT_COLUMNS)}
                    for one in pareto_data(groups, numbers)
                ],
                "samples": [
                    {**one, "samples_s": packed_floats(one["samples_s"])} for one in sample_data(chip.cases, number)
                ],
                "errors": None if errors is None else rows_json(errors),
                "gaps": [rows_json(figure) for figure in gaps if figure is not None],
            }
        )
        number += len(rows)
    return {
        "version": DATA_VERSION,
        "run": view.run.run_id[:8] if view.run.run_id[:8].isalnum() else "run",
        "svg_limit_count": SVG_LIMIT_COUNT,
        "inks": {name: list(colour[:2]) for name, colour in _PAGE_COLOURS.items()},
        "flags": {flag: {"meaning": code_text(flag), "is_doubtful": flag in DOUBTFUL_FLAGS} for flag in view.flags},
        "chips": chips,
        "histories": history_data(histories),
        "timeline": timeline_data(view, run_timeline(view)),
        "texts": texts.all(),
    }


def script_json(data: Any) -> str:
    """Return JSON that no HTML parser mistakes for anything else: `<`, `>`, `&` and the line ends U+2028, U+2029 are escaped.

    Raises `ValueError` for a number that JSON does not have.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
