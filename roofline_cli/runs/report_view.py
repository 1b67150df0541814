"""A report printed in a terminal: the blocks of `reports.present.blocks` as rich tables that fit, and the roofline
drawn in text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from reports.present.screen import Cell, Column, show_line, show_table

if TYPE_CHECKING:
    from reports.present.blocks import Block, Bullets, TableBlock
    from reports.stored import StoredRecommendations
    from reports.view.comparison import Comparison
    from reports.view.views import ReportView

_STYLES = {"verdict": "bold", "good": "bold", "bad": "yellow", "warning": "yellow", "quiet": "dim", "plain": ""}
_LEAST_PROSE = 18


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
    _show_blocks(report_blocks(Report(view, comparison, stored)), drawings)


def _show_blocks(blocks: Iterable[Block], drawings: Mapping[str, Callable[[], None]]) -> None:
    from reports.present.blocks import Bullets, FigureBlock, Heading, Paragraph, plain_text, text_blocks

    waiting: list[Heading] = []
    for block in text_blocks(blocks):
        if isinstance(block, Heading):
            waiting = [*(waiting_block for waiting_block in waiting if waiting_block.rank < block.rank), block]
            continue
        if (isinstance(block, FigureBlock) and block.name not in drawings) or (
            isinstance(block, Bullets) and not block.items
        ):
            continue
        for heading in waiting:
            if heading.rank > 1:
                show_line()
            text = plain_text(heading.text)
            show_line(text if heading.rank > 1 else text.upper(), "bold" if heading.rank > 2 else "bold cyan")
        waiting = []
        if isinstance(block, FigureBlock):
            drawings[block.name]()
        elif isinstance(block, Bullets):
            _show_bullets(block)
        elif isinstance(block, Paragraph):
            show_line(plain_text(block.text), _STYLES[block.tone])
        else:
            _show_table(block)


def _show_bullets(block: Bullets) -> None:
    from reports.present.blocks import plain_text

    for item in block.items:
        show_line(f"{'!' if block.tone == 'warning' else '-'} {plain_text(item)}", _STYLES[block.tone])


def _show_table(block: TableBlock) -> None:
    from reports.present.blocks import plain_text

    columns = [
        Column(
            plain_text(column.header),
            "right" if column.kind == "number" else "left",
            is_prose=column.kind in ("brief", "prose"),
            least=_LEAST_PROSE,
            drop=column.drop,
        )
        for column in block.columns
    ]
    rows: list[list[Cell]] = [[plain_text(cell.content) for cell in row.cells] for row in block.rows]
    if block.title:
        show_line()
    show_table(columns, rows, title=plain_text(block.title))
    if block.text_note:
        show_line(block.text_note, "dim")
