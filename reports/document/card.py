"""One picture of a report to share, 1200 by 630 pixels: the answer, the roofline, the chip and the date."""

from __future__ import annotations

from reports.document.answer_blocks import errors_text, gain_cell, loss_cell, named_options
from reports.document.report import origin_text
from reports.figures.drawing.matplotlib_drawer import SHEET_DPI, draw_sheet, figure_png
from reports.figures.drawing.spec import Sheet, SheetTable
from reports.figures.roofline import roofline_figure
from reports.present.blocks import plain_text
from reports.present.words.verdict_text import action_of
from reports.view.views import ChipView, ReportView
from results.cases.phase_ranking import PhaseRanking
from roofline_model.core.units import counted, format_time, sentence

MOST_TABLES = 2
HEADER = ("", "time", "speed-up", "loss")
_MARKS = {
    True: "Filled marks: measured. Hollow: ideal. Ring: the fastest.",
    False: "Hollow marks: ideal. Dashes: expected. Ring: the fastest.",
}
"""Whether anything was measured → what the marks of the figure mean."""


def card_png(view: ReportView) -> bytes:
    """Return the picture of a run's first chip as PNG; equal views give equal bytes."""
    return figure_png(draw_sheet(card_sheet(view)), SHEET_DPI)


def card_sheet(view: ReportView) -> Sheet:
    """Return what the picture shows."""
    chip = view.chips[0]
    notes = [f"Predictions: {errors_text(chip.overall)}."] if chip.overall is not None else []
    more = len(chip.answers) - MOST_TABLES
    rest = f" {counted(more, 'more answer')} in the report." if more > 0 else ""
    return Sheet(
        chip.hardware_name,
        f"{view.run_name} · {view.date} · {origin_text(view)}",
        tuple(_table(phase) for phase in chip.answers[:MOST_TABLES]) or _headlines(view, chip),
        tuple(notes),
        _MARKS[bool(view.counts["measured"])] + rest,
        "roofline-bench",
        roofline_figure(chip.roofline),
        f"Formats, with the peak of their roof in {chip.roofline.unit_label}",
    )


def _table(phase: PhaseRanking) -> SheetTable:
    action = action_of(phase)
    baseline = phase.ranking.baseline
    rows = tuple(
        (
            f"{role}: {option.precision}",
            format_time(option.estimate.time_s, 3),
            plain_text(gain_cell(option, baseline).content),
            plain_text(loss_cell(option.loss).content),
        )
        for role, option in (named_options(phase) if phase.is_contest else ())
    )
    text = sentence(f"{action.take}, {action.evidence}")
    return SheetTable(phase.title, text, HEADER if rows else ("",) * len(HEADER), rows)


def _headlines(view: ReportView, chip: ChipView) -> tuple[SheetTable, ...]:
    return tuple(SheetTable(chip.hardware_key, line, ("",) * len(HEADER), ()) for line in view.headlines[:MOST_TABLES])
