"""What is printed with a text plot: the drawing in colour where there is any, and below it what its signs mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from reports.figures.drawing.spec import Figure
from reports.figures.roofline import memory_slopes
from reports.present.blocks import Column, table
from reports.present.display_text import prefixed
from reports.present.screen import PIPED_WIDTH, has_unicode, intensity, screen_width, show, show_line, show_pieces
from reports.view.roofline_view import CacheRoof, Roof
from roofline_cli.plot.canvas import ASCII_SIGNS, UNICODE_SIGNS
from roofline_cli.plot.drawing import Drawing, draw
from roofline_cli.plot.figure import (
    OTHER_LETTER,
    LetterPoint,
    hidden_texts,
    highest_first,
    letter_figure,
    ridge_texts,
    slope_text,
)
from roofline_cli.plot.predicted import PlottedPrediction
from roofline_cli.plot.series import Series, run_series
from roofline_model.core.units import format_percent

if TYPE_CHECKING:
    from reports.view.roofline_view import RooflineView
    from results.cases.case_result import CaseResult
    from results.records.records import HardwareProfile, Record, RunInfo
    from results.records.state_records import NoiseFloor


def show_predicted(
    items: Sequence[PlottedPrediction], expected_roof: Sequence[tuple[float, float]] = (), expected_of: str = ""
) -> None:
    """Print the plot of predictions and what its letters stand for; `expected_of` names the dotted curve."""
    show_line()
    placed = [item for item in items if item.has_place]
    points, roofs = [], []
    for item in placed:
        made = item.prediction
        reached = made.flops / item.expected_s if item.expected_s else None
        points.append(LetterPoint(item.letter, made.intensity_flop_per_byte, made.rate_flops_per_s, reached))
        roofs.append(Roof(item.roof, "", "", made.bandwidth_bytes_per_s, made.peak_flops_per_s, ""))
    roofs = list(highest_first(roofs))
    slopes = [CacheRoof(item.prediction.memory_level, item.prediction.bandwidth_bytes_per_s) for item in items[:1]]
    drawing = _show(letter_figure(roofs, next(iter(slopes), None), (), points, expected_roof))
    if drawing is None:
        show_line("Nothing to draw: no FLOPs or no bytes.")
        return
    letters = dict.fromkeys(f"{item.letter} {item.label}" for item in placed)
    show_line(f"  {', '.join(letters)}{_hidden(drawing)}")
    reached_any = any(point.reached_flops_per_s for point in points)
    words = "; capital: expected" if reached_any else "; no expected time is known"
    show_line(f"  small letter: ideal, on its roof{words}", "dim")
    if expected_roof and expected_of:
        show_line(f"  {'dotted' if has_unicode() else 'dots'}: the expected roof of {expected_of}", "dim")
    _show_ridges(roofs, slopes)


def plotted_chips(
    run: RunInfo,
    records: Sequence[Record],
    profiles: Mapping[str, HardwareProfile],
    floors: Mapping[tuple[str, str], NoiseFloor],
    case_keys: Collection[str] | None = None,
) -> list[tuple[str, RooflineView, list[CaseResult]]]:
    """Return the chips of a run with their cases, those of `case_keys` where given; a chip without any is left out."""
    from reports.view.views import report_view

    chips = report_view(run, records, profiles, floors=floors).chips
    chosen = [
        (
            chip.hardware_name,
            chip.roofline,
            [case for case in chip.cases if case_keys is None or case.case_key in case_keys],
        )
        for chip in chips
    ]
    return [series for series in chosen if series[2]] if case_keys is not None else chosen


def show_run_plots(chips: Sequence[tuple[str, RooflineView, Sequence[CaseResult]]]) -> None:
    """Print the plot of every chip (name, view, cases) of a run."""
    for name, view, cases in chips:
        show_line()
        show_line(f"Dual roofline of {name}", "bold")
        show_run_plot(view, cases)


def show_run_plot(view: RooflineView, cases: Sequence[CaseResult]) -> None:
    """Print the plot of some cases of one chip, and a table of its letters."""
    every = run_series(cases)
    used = {series.precision for series in every}
    roofs = highest_first([roof for roof in view.roofs if roof.precision in used])
    slopes = memory_slopes(view)
    memory = slopes[0] if view.memory_bandwidth_bytes_per_s else None
    points = [point for series in every for point in series.points]
    drawing = _show(letter_figure(roofs, memory, view.cache_roofs, points)) if every else None
    if drawing is None:
        show_line(f"Nothing to draw: {'; '.join(view.missing) or 'no case has FLOPs and a prediction'}.")
        return
    signs = UNICODE_SIGNS if has_unicode() else ASCII_SIGNS
    words = ["capital: measured", "small letter: ideal, on its roof"]
    words += [f"{signs.expected} expected"] if any(point.expected_flops_per_s for point in points) else []
    show_line(f"  {'; '.join(words)}{_hidden(drawing)}", "dim")
    _show_ridges(roofs, slopes)
    show(table("series", _SERIES, every))
    if any(series.letter == OTHER_LETTER for series in every):
        show_line(
            f"{OTHER_LETTER}: all that is beyond the alphabet; `roofline show RUN CASE --plot` draws some of the cases",
            "dim",
        )
    for text in view.missing:
        show_line(f"  note: {text}", "yellow")


def _show(figure: Figure) -> Drawing | None:
    drawing = draw(figure, screen_width() or PIPED_WIDTH, is_ascii=not has_unicode())
    for line in drawing.lines:
        show_pieces(line.pieces)
    return drawing if drawing.lines else None


def _counts(series: Series) -> str:
    count = str(len(series.cases))
    return count if series.measured_count in (0, len(series.cases)) else f"{series.measured_count}/{count}"


def _intensities(series: Series) -> str:
    values = [case.intensity_flop_per_byte or 0.0 for case in series.cases]
    low, high = intensity(min(values)), intensity(max(values))
    return low if low == high else f"{low}–{high}"


def _rate(name: str) -> Callable[[Series], str]:
    return lambda series: prefixed(series.typical(f"{name}_flops_per_s"), "FLOP/s")


_SERIES = (
    Column("", lambda series: series.letter, is_head=True),
    Column("Operator", lambda series: series.op, "prose", least=12),
    Column("Format", lambda series: series.precision, "prose", least=12),
    Column("Cache", lambda series: series.regime, drop=4),
    Column("Cases", _counts, "number", drop=3),
    Column("AI", _intensities, "number", drop=2),
    Column("Ideal", _rate("ideal"), "number", drop=6),
    Column("Expected", _rate("expected"), "number", drop=5),
    Column("Measured", _rate("achieved"), "number"),
    Column("Of roof", lambda series: format_percent(series.typical("roof_share_ratio"), 0), "number", drop=1),
)


def _show_ridges(roofs: Sequence[Roof], slopes: Sequence[CacheRoof]) -> None:
    sign = (UNICODE_SIGNS if has_unicode() else ASCII_SIGNS).ridge
    if texts := ridge_texts(roofs):
        show_line(f"  {sign} ridge of {'; '.join(texts)}", "dim")
    if slopes:
        show_line(f"  slopes: {', '.join(map(slope_text, slopes))}", "dim")


def _hidden(drawing: Drawing) -> str:
    texts = hidden_texts(drawing.hidden)
    return f" ({'; '.join(texts)})" if texts else ""
