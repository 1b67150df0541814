"""A report printed in a terminal: its blocks, and the roofline drawn in text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.present.screen import show_blocks

if TYPE_CHECKING:
    from reports.view.comparison import Comparison
    from reports.view.views import ReportView
    from results.rankings import StoredRecommendations


def show_report(
    view: ReportView, comparison: Comparison | None = None, stored: StoredRecommendations | None = None
) -> None:
    """Print the whole report; a figure that text cannot draw is left out, with the section it is alone in."""
    from reports.document.report import Report
    from reports.document.report_blocks import report_blocks
    from reports.formats.figure_files import figure_suffix
    from roofline_cli.plot.view import show_run_plot

    drawings = {
        f"roofline{figure_suffix(view, chip)}": lambda chip=chip: show_run_plot(chip.roofline, chip.cases)
        for chip in view.chips
    }
    show_blocks(report_blocks(Report(view, comparison, stored)), drawings)
