"""Everything the page's scripts draw, as one JSON document that may stand inside a script element."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.advice.trade_offs import PlottedOption, TradeGroup, trade_groups
from reports.figures.drawing.palette import ACCENT, GRID, INK, MUTED, SURFACE, Colour, format_colours, operator_shapes
from reports.figures.drawing.plotly_drawer import beside_json, plotly_json, rows_json, stack_json
from reports.figures.errors import errors_figure
from reports.figures.gaps import gaps_figure, group_gaps_figure
from reports.figures.history import change_text, drawn_points, history_figure
from reports.figures.roofline import roofline_figure
from reports.figures.samples import samples_figure
from reports.figures.timeline import drawn_readings, run_stack
from reports.figures.trade_offs import (
    X_AXES,
    Y_AXES,
    axes_of,
    is_over_doubt,
    point_labels,
    point_texts,
    trade_off_figure,
)
from reports.present.cases import (
    case_precision,
    common_remarks,
    name_of,
    operator_title,
    regime_of,
    remarks_of,
    shown_flags,
    total_basis,
)
from reports.present.display_text import counted, shown
from reports.present.encoder import answer_json
from reports.present.shapes import standing_text
from reports.view.run_state import RunTimeline, reading_of
from reports.view.sample_series import SHAPE_FLAGS
from reports.view.views import ChipView, ReportView
from results.cases.best_shapes import fastest_by_case
from results.cases.case_result import CaseResult
from results.cases.shape_verdict import ShapeVerdict
from results.history.case_history import CaseHistory
from results.rankings import StoredRecommendations
from results.rankings.question import phase_of
from results.records.flags import DOUBTFUL_FLAGS, doubts_text
from roofline_model.core.finding import code_text, short_text
from roofline_model.operators.case import Case, pass_name, sizes_text

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
    """Return the page's data: texts, one entry per chip, meanings of the flags that occur, and cases over their
    nights.
    """
    texts, chips, number = Texts(), [], 1
    for chip in view.chips:
        rows = case_rows_data(chip, number)
        groups = trade_groups(view.run, chip.models, chip.recommendations, chip.cases, stored, chip.hardware_key)
        numbers = {record.record_id: at for at, case in enumerate(chip.cases, start=number) for record in case.records}
        errors = errors_figure(chip.cases, number)
        gaps = (gaps_figure(chip.cases, number), group_gaps_figure(chip.cases, number))
        chips.append(
            {
                "name": chip.hardware_name,
                "cases": packed(rows, texts, list(rows[0]) if rows else []),
                "colours": {
                    name: list(colour[:2]) for name, colour in format_colours(chip.roofline.precisions).items()
                },
                "shapes": operator_shapes(chip.roofline.operators),
                "roofline": plotly_json(roofline_figure(chip.roofline, number), most_svg_points=SVG_LIMIT_COUNT),
                "pareto": [
                    {**group, "points": packed(group["points"], texts, POINT_COLUMNS)}
                    for group in pareto_data(groups, numbers)
                ],
                "samples": sample_data(chip.cases, number),
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
        "table_columns": [list(column) for column in TABLE_COLUMNS],
        "facets": [list(facet) for facet in FACETS],
        "histories": history_data(histories),
        "timeline": timeline_data(view, view.timeline),
        "texts": texts.all(),
    }


def script_json(data: Any) -> str:
    """Return JSON that no HTML parser mistakes for anything else: `<`, `>`, `&` and the line ends U+2028, U+2029 are
    escaped.

    Raises `ValueError` for a number that JSON does not have.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


MAX_HISTORIES = 60
"""Series in a page; `roofline history` shows any case."""
_LEAST_NIGHTS = 3


def history_data(histories: Sequence[CaseHistory]) -> list[dict[str, Any]]:
    """Return the histories that a page has room for: open alerts first, then other changes, then the longest."""
    drawn = [history for history in histories if len(history.points) >= _LEAST_NIGHTS or history.changes]
    drawn.sort(key=lambda series: (-len(series.alerts), -len(series.change_points), -len(series.points), series.name))
    return [_history(history) for history in drawn[:MAX_HISTORIES]]


def _history(history: CaseHistory) -> dict[str, Any]:
    changes = ", ".join(
        f"{change_text(change)} on {change.started_at[:10]}"
        for change in history.changes
        if change.status != "withdrawn"
    )
    if history.pending is not None:
        changes = f"{changes}; {short_text(history.pending)}".removeprefix("; ")
    return {
        "name": shown(history.name, 160),
        "label": f"{shown(history.name, 100)} ({changes or counted(len(history.points), 'run')})",
        "nights": [
            {
                "started_at": shown(point.started_at, 40),
                "value_s": point.value,
                "run": point.run_id[:8] if point.run_id[:8].isalnum() else "",
                "label": shown(point.label, 60),
                "commit": shown(point.git_commit or "", 40)[:9],
                "process_count": point.process_count,
                "doubt": shown(doubts_text(point.doubts), 80),
            }
            for point in drawn_points(history)
        ],
        "figure": plotly_json(history_figure(history)),
    }


MAX_SAMPLES_COUNT = 4_000
"""Samples in a page, about 120 kB; `roofline show RUN CASE` and `roofline export` give those of any case."""


def sample_data(cases: Sequence[CaseResult], first_number: int) -> dict[str, Any]:
    """Return the series that fit, a process each, by the case's number in the table: flagged cases first, then in table
    order.

    A series has the samples as they are stored, and its figure as what differs from that of the first (`figure`).
    """
    numbered = [
        (number, case, record.process.ordinal, record.measurement)
        for number, case in enumerate(cases, first_number)
        for record in case.timed
        if record.measurement is not None and len(record.measurement.samples_s) >= 3
    ]
    numbered.sort(key=lambda item: not any(flag in SHAPE_FLAGS for flag in item[3].flags))
    series, room = [], MAX_SAMPLES_COUNT
    for number, case, process, measurement in numbered:
        if len(measurement.samples_s) > room:
            continue
        room -= len(measurement.samples_s)
        series.append(
            {
                "number": number,
                "process": process,
                "label": _label(case, process),
                "is_flagged": bool(case.flags),
                "median_s": measurement.median_s,
                "samples_s": packed_floats(measurement.samples_s),
                "figure": beside_json(
                    samples_figure(
                        measurement.samples_s, measurement.median_s, (measurement.ci_low_s, measurement.ci_high_s)
                    )
                ),
            }
        )
    series.sort(key=lambda entry: (entry["number"], entry["process"]))
    if not series:
        return {}
    first = series[0]["figure"]
    return {"figure": first, "series": [entry | {"figure": difference(entry["figure"], first)} for entry in series]}


def _label(case: CaseResult, ordinal: int) -> str:
    process = f", process {ordinal}" if case.process_count > 1 else ""
    flags = f" ({', '.join(shown_flags(case))})" if case.flags else ""
    return f"{name_of(case.case)}{process}{flags}"


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
    """Return the figure and its spans as rows of `columns`; where nothing is stored to be drawn over time, None and no
    rows.
    """
    stack = run_stack(view, timeline)
    notes = [timeline.sentence] if timeline.sentence else []
    if stack is not None and not timeline.has_time_axis:
        notes.append("The records have no usable times: the cases stand in their order.")
    for name in timeline.channels:
        reading_counts = [
            sum(reading_of(reading, name) is not None for reading in span.readings) for span in timeline.spans
        ]
        drawn_count = sum(map(len, drawn_readings(timeline.spans, name)))
        if drawn_count < sum(reading_counts) and timeline.has_time_axis:
            readings = counted(sum(reading_counts), "reading")
            notes.append(f"Of {readings} {drawn_count} are drawn: the highest and lowest of each stretch.")
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


@dataclass(slots=True)
class Texts:
    """Texts that cells refer to by their number: five thousand cases repeat a hundred of them."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """Return the number of a text, the same for the same text."""
        return self.numbers.setdefault(text, len(self.numbers))

    def all(self) -> list[str]:
        """Return the texts by number."""
        return list(self.numbers)


def packed(rows: Iterable[Mapping[str, Any]], texts: Texts, names: Sequence[str]) -> dict[str, Any]:
    """Return rows as `{"columns": names, "texts": names of text columns, "floats": columns of floats, "rows": cells}`;
    a text cell is a number of `texts`, and the cells of float columns stand in their `packed_floats` alone.

    A column is a text column when its cells are text; missing is null in either kind, NaN in a column of floats. A list
    of texts is a list of numbers.
    """
    rows = list(rows)
    is_text = {name: any(isinstance(row[name], str | list | tuple) for row in rows) for name in names}
    floats = {name: cells for name in names if _are_floats(cells := [row[name] for row in rows])}
    others = [name for name in names if name not in floats]
    return {
        "columns": list(names),
        "texts": [name for name in names if is_text[name]],
        "floats": {
            name: packed_floats([math.nan if cell is None else cell for cell in cells])
            for name, cells in floats.items()
        },
        "rows": [[_text_cell(row[name], texts) if is_text[name] else row[name] for name in others] for row in rows],
    }


def _are_floats(cells: Sequence[Any]) -> bool:
    present = [cell for cell in cells if cell is not None]
    return bool(present) and all(isinstance(cell, float) for cell in present)


def packed_floats(values: Sequence[float]) -> str:
    """Return numbers as base64 of little-endian doubles: every bit of them in half the bytes of their digits."""
    return base64.b64encode(struct.pack(f"<{len(values)}d", *values)).decode("ascii")


def difference(value: Any, base: Any) -> Any:
    """Return what of a plain value is not in another; the page lays it over that one (`overlaid`). Objects keep no
    fewer names.
    """
    if isinstance(value, dict) and isinstance(base, dict):
        return {
            name: difference(item, base.get(name))
            for name, item in value.items()
            if name not in base or item != base[name]
        }
    are_lists = isinstance(value, list) and isinstance(base, list) and len(value) == len(base)
    if are_lists and all(isinstance(item, dict) for item in (*value, *base)):
        return [difference(item, other) for item, other in zip(value, base, strict=True)]
    return value


def _text_cell(value: str | list[str] | tuple[str, ...] | None, texts: Texts) -> int | list[int] | None:
    if isinstance(value, list | tuple):
        return [texts.number(text) for text in value]
    return None if value is None else texts.number(value)


TABLE_COLUMNS = (
    ("name", "Case", ""),
    ("measured_s", "Measured", "time"),
    ("within_ratio", "±\u00a0within", "width"),
    ("total_ratio", "±\u00a0total", "width"),
    ("flags", "Flags", ""),
    ("regime", "Cache, mode", ""),
    ("ideal_s", "Ideal", "time"),
    ("expected_s", "Expected", "time"),
    ("error_ideal_ratio", "Error of ideal", "signed"),
    ("error_expected_ratio", "Error of expected", "signed"),
    ("roof_share_ratio", "Of roof", "share"),
    ("achieved_bytes_per_s", "Bandwidth", "bandwidth"),
    ("achieved_flops_per_s", "Rate", "flops"),
    ("intensity_flop_per_byte", "FLOP/byte", "plain"),
    ("bound", "Bound", ""),
    ("path", "Path", ""),
    ("power_w", "Power", "watts"),
    ("energy_j", "Energy", "energy"),
)
"""The columns of the page's table: (column of `case_row`, title, how its number is printed: a function of
numbers.js).
"""
FACETS = (
    ("op", "Operator"),
    ("format", "Format"),
    ("phase", "Phase"),
    ("bound", "Bound"),
    ("regime", "Cache, mode"),
    ("status", "Status"),
)
"""By what cases are filtered: (column of `case_row`, title)."""


def case_rows_data(chip: ChipView, first_number: int) -> list[dict[str, Any]]:
    """Return one row per case of a chip; rows are numbered through from `first_number`, as in the static table."""
    fastest = fastest_by_case(chip.shapes)
    common = common_remarks(chip.cases)
    return [
        case_row(case, number, fastest.get(case.case_key), common)
        for number, case in enumerate(chip.cases, first_number)
    ]


def case_row(
    case: CaseResult, number: int, fastest_of: ShapeVerdict | None, common: Container[str] = ()
) -> dict[str, Any]:
    """Return a case as plain values by column, in the order of a download: SI units, missing is None.

    `fastest_of`: the shape that it is the fastest of; `common`: remarks that the page makes once for all cases.
    """
    remarks = (remark for remark in remarks_of(case) if remark not in common)
    ideal, expected, energy = case.lead.ideal, case.lead.expected, case.energy
    return {
        "number": number,
        "name": name_of(case.case),
        "op": operator_title(case.case),
        "shape": shown(sizes_text(case.case.shape), 60),
        "format": case_precision(case.case),
        "kernel": shown(case.case.kernel, 60),
        "phase": case_phase(case.case),
        "regime": regime_of(case.case),
        "status": case.status,
        "bound": "not predicted" if ideal is None else shown(ideal.bound, 30) or "not predicted",
        "path": "" if ideal is None else shown(ideal.path, 30),
        "compute_format": "" if ideal is None else shown(ideal.compute_format, 60),
        "memory_level": "" if ideal is None else shown(ideal.memory_level, 60),
        "provenance": "" if ideal is None else shown(ideal.provenance, 60),
        "expected_provenance": "" if expected is None else expected.provenance[:60],
        "total_basis": total_basis(case),
        "flags": shown_flags(case),
        "remarks": "; ".join((*remarks, *(shown(short_text(item)) for item in case.findings))),
        "standing": "" if fastest_of is None else standing_text(fastest_of),
        "measured_s": case.measured_s,
        "within_ratio": case.within_ratio,
        "total_ratio": case.total_ratio,
        "ideal_s": case.ideal_s,
        "expected_s": case.expected_s,
        "expected_low_s": None if expected is None else expected.low_s,
        "expected_high_s": None if expected is None else expected.high_s,
        "error_ideal_ratio": None if case.is_forced else case.error_ideal_ratio,
        "error_expected_ratio": None if case.is_forced else case.error_expected_ratio,
        "roof_share_ratio": case.roof_share_ratio,
        "achieved_bytes_per_s": case.achieved_bytes_per_s,
        "achieved_flops_per_s": case.achieved_flops_per_s,
        "ideal_flops_per_s": case.ideal_flops_per_s,
        "expected_flops_per_s": case.expected_flops_per_s,
        "intensity_flop_per_byte": case.intensity_flop_per_byte,
        "power_w": case.power_w,
        "energy_j": None if energy is None else energy.energy_j,
        "process_count": case.process_count,
        "is_best": fastest_of is not None and fastest_of.is_clear,
        "is_doubtful": bool(case.doubts),
        "is_plotted": case.status in ("measured", "predicted")
        and bool(case.intensity_flop_per_byte)
        and (case.ideal_flops_per_s is not None or case.achieved_flops_per_s is not None),
    }


def case_phase(case: Case) -> str:
    """Return `decode`, `prefill` or `other`: by the name of a whole model's pass, else by the operator and its query
    length.
    """
    name = pass_name(case.op, case.shape)
    phase = name.phase if name is not None else phase_of(case.op, case.shape)
    return phase or "other"


POINT_COLUMNS = (*(key for key in PlottedOption.JSON_KEYS if key != "record_ids"), "texts", "is_over_doubt", "number")
"""What the page knows of a point, in the order of its cells; `texts`: its numbers as they are shown, in the order of
`point_texts`."""


def pareto_data(groups: Sequence[TradeGroup], numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the groups as plain values: their points, and the figure of each pair of axes as what differs from the
    first pair. Of the first pair's figure later groups have the members that differ from the first group's.

    `numbers`: record → the number of its case on the page.
    """
    colours = format_colours(point.option.precision for group in groups for point in group.points)
    made = [_trade_offs(group, numbers, colours) for group in groups]
    for each in made[1:]:
        own = each["figure"].items()
        each["figure"] = {name: value for name, value in own if value != made[0]["figure"][name]}
    return made


def _trade_offs(group: TradeGroup, numbers: Mapping[str, int], colours: Mapping[str, Colour]) -> dict[str, Any]:
    pairs = [(x, y) for y in axes_of(group, Y_AXES) for x in axes_of(group, X_AXES)]
    figures = {pair: plotly_json(trade_off_figure(group, *pair, colours)) for pair in pairs}
    base = figures[pairs[0]]
    return {
        "title": group.title,
        "choice": group.title if group.origin == "this run" else f"{group.title} ({group.origin})",
        "origin": group.origin,
        "per": group.per,
        "baseline": group.baseline_label,
        "baseline_doubts": list(group.baseline_doubts),
        "labels": point_labels(group),
        "x_axes": [{"key": key, "text": X_AXES[key]} for key in axes_of(group, X_AXES)],
        "y_axes": [
            {"key": key, "text": text, "front": f"Not beaten in speed and {text.lower()} (as drawn)"}
            for key in axes_of(group, Y_AXES)
            for text in (Y_AXES[key],)
        ],
        "figure": base,
        "figures": {"|".join(pair): difference(figure, base) for pair, figure in figures.items()},
        "points": [
            answer_json(point)
            | {
                "texts": tuple(point_texts(point, group).values()),
                "is_over_doubt": is_over_doubt(point, group),
                "number": next((numbers[key] for key in point.option.record_ids if key in numbers), None),
            }
            for point in group.points
        ],
    }
