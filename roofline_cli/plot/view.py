"""What is printed with a text plot: the drawing in colour where there is any, and below it what its signs mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import Column, table
from reports.present.display_text import prefixed
from reports.present.screen import PIPED_WIDTH, has_unicode, intensity, screen_width, show, show_line, show_pieces
from roofline_cli.plot.canvas import ASCII_SIGNS, UNICODE_SIGNS
from roofline_cli.plot.drawing import Drawing, RooflinePlot, draw
from roofline_cli.plot.predicted import PlottedPrediction, predicted_plot
from roofline_cli.plot.sources import OTHER_LETTER, RunPlot, Series, hidden_texts, ridge_texts, run_plot
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
    plot = predicted_plot(items, expected_roof)
    drawing = _show(plot)
    if drawing is None:
        show_line("Nothing to draw: no FLOPs or no bytes.")
        return
    drawn = {point.letter for point in plot.points}
    letters = dict.fromkeys(f"{item.letter} {item.label}" for item in items if item.letter in drawn)
    show_line(f"  {', '.join(letters)}{_hidden(drawing)}")
    reached = any(point.reached_flops_per_s for point in plot.points)
    words = "; capital: expected" if reached else "; no expected time is known"
    show_line(f"  small letter: ideal, on its roof{words}", "dim")
    if plot.expected_roof and expected_of:
        show_line(f"  {'dotted' if has_unicode() else 'dots'}: the expected roof of {expected_of}", "dim")
    _show_ridges(plot)


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
    plot = run_plot(view, cases)
    drawing = _show(plot.plot) if plot.series else None
    if drawing is None:
        show_line(f"Nothing to draw: {'; '.join(view.missing) or 'no case has FLOPs and a prediction'}.")
        return
    _show_legend(plot, drawing)
    for text in view.missing:
        show_line(f"  note: {text}", "yellow")


def _show(plot: RooflinePlot) -> Drawing | None:
    drawing = draw(plot, screen_width() or PIPED_WIDTH, is_ascii=not has_unicode())
    for line in drawing.lines:
        show_pieces(line.pieces)
    return drawing if drawing.lines else None


def _show_legend(drawn_run: RunPlot, drawing: Drawing) -> None:
    plot, signs = drawn_run.plot, UNICODE_SIGNS if has_unicode() else ASCII_SIGNS
    words = ["capital: measured", "small letter: ideal, on its roof"]
    words += [f"{signs.expected} expected"] if any(point.expected_flops_per_s for point in plot.points) else []
    show_line(f"  {'; '.join(words)}{_hidden(drawing)}", "dim")
    _show_ridges(plot)
    show(table("series", _SERIES, drawn_run.series))
    if any(series.letter == OTHER_LETTER for series in drawn_run.series):
        show_line(
            f"{OTHER_LETTER}: all that is beyond the alphabet; `roofline show RUN CASE --plot` draws some of the cases",
            "dim",
        )


def _counts(series: Series) -> str:
    count = str(series.case_count)
    return count if series.measured_count in (0, series.case_count) else f"{series.measured_count}/{count}"


def _intensities(series: Series) -> str:
    low, high = intensity(series.low_intensity_flop_per_byte), intensity(series.high_intensity_flop_per_byte)
    return low if low == high else f"{low}–{high}"


def _rate(name: str) -> Callable[[Series], str]:
    return lambda series: prefixed(getattr(series, f"{name}_flops_per_s"), "FLOP/s")


_SERIES = (
    Column("", lambda series: series.letter, is_head=True),
    Column("Operator", lambda series: series.op, "prose", least=12),
    Column("Format", lambda series: series.precision, "prose", least=12),
    Column("Cache", lambda series: series.regime, drop=4),
    Column("Cases", _counts, "number", drop=3),
    Column("AI", _intensities, "number", drop=2),
    Column("Ideal", _rate("ideal"), "number", drop=6),
    Column("Expected", _rate("expected"), "number", drop=5),
    Column("Measured", _rate("measured"), "number"),
    Column("Of roof", lambda series: format_percent(series.roof_share_ratio, 0), "number", drop=1),
)


def _show_ridges(plot: RooflinePlot) -> None:
    sign = (UNICODE_SIGNS if has_unicode() else ASCII_SIGNS).ridge
    texts = ridge_texts(plot.roofs)
    slopes = [slope.label for slope in (*([plot.memory] if plot.memory else []), *plot.caches)]
    if texts:
        show_line(f"  {sign} ridge of {'; '.join(texts)}", "dim")
    if slopes:
        show_line(f"  slopes: {', '.join(slopes)}", "dim")


def _hidden(drawing: Drawing) -> str:
    texts = hidden_texts(drawing.hidden)
    return f" ({'; '.join(texts)})" if texts else ""
