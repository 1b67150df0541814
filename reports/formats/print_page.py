"""A report for paper: one HTML file without script, light, with page breaks that split no row and no figure.

`roofline report --format pdf-ready`; a browser's "Save as PDF" makes the PDF. Figures are SVG with letters as paths, embedded
as images, so that they print the same everywhere. Nothing is loaded and nothing runs: the page's own policy forbids both.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from reports.document.blocks import Block, Bullets, FigureBlock, Heading, Paragraph, TableBlock, plain_text, text_blocks
from reports.document.report import Report
from reports.document.report_blocks import report_blocks
from reports.figures.matplotlib_drawer import figure_svg
from reports.formats.figure_files import ReportFigure, report_figures
from reports.text.prose import prose
from reports.view.views import ReportView

if TYPE_CHECKING:
    from reports.stored.answer import StoredRecommendations
    from reports.view.comparison import Comparison

LONGEST_WORD = 18
"""Characters of a word that a column of a table on paper takes whole."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def print_page(
    view: ReportView, comparison: Comparison | None = None, stored: StoredRecommendations | None = None
) -> str:
    """Return the whole page; equal views give equal pages."""
    figures = {figure.name: figure for figure in report_figures(view)}
    blocks = list(_with_content(report_blocks(Report(view, comparison, stored)), figures))
    css = resources.files("reports.formats").joinpath("print_page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(view.title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(blocks)
        + f"\n</main>\n<footer>roofline-bench · run {escape(view.run.run_id[:8])} · {escape(view.date)}</footer>\n</body>\n</html>\n"
    )


def _with_content(blocks: Iterable[Block], figures: Mapping[str, ReportFigure]) -> Iterable[str]:
    """Yield the blocks as HTML; a heading waits for what stands below it, and goes where nothing does."""
    waiting: list[Heading] = []
    for block in text_blocks(blocks):
        if isinstance(block, Heading):
            waiting = [one for one in waiting if one.rank < block.rank] + [block]
            continue
        text = _figure(figures.get(block.name)) if isinstance(block, FigureBlock) else _html(block)
        if text:
            yield from (f"<h{one.rank}>{escape(plain_text(one.text))}</h{one.rank}>" for one in waiting)
            waiting = []
            yield text


def _html(block: Paragraph | Bullets | TableBlock | Heading) -> str:
    if isinstance(block, Paragraph):
        return f'<p class="{block.tone}">{prose(plain_text(block.text))}</p>'
    if isinstance(block, Bullets):
        items = "".join(f"<li>{prose(plain_text(item))}</li>" for item in block.items)
        return f'<ul class="{block.tone}">{items}</ul>' if items else ""
    if isinstance(block, TableBlock):
        return _table(block)
    return ""


def _table(block: TableBlock) -> str:
    kinds = ["prose" if column.kind == "brief" else column.kind for column in block.columns]
    head = "".join(
        _tag("th", kind, plain_text(one.header), ' scope="col"') for kind, one in zip(kinds, block.columns, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(_cell(kind, plain_text(cell.content)) for kind, cell in zip(kinds, row.cells, strict=True))
        + "</tr>"
        for row in block.rows
    )
    caption = f"<caption>{escape(plain_text(block.title))}</caption>" if block.title else ""
    note = f'\n<p class="quiet">{prose(block.text_note)}</p>' if block.text_note else ""
    return f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>{note}'


def _cell(kind: str, text: str) -> str:
    """Return a cell that may break behind `_`, `.` and `-` in a name, and anywhere in a word that no column is wide enough for."""
    pieces = re.split(r"(?<=[_.\-])", text)
    if any(len(word) > LONGEST_WORD for piece in pieces for word in piece.split()):
        kind = f"{kind} long"
    plain = "<wbr>".join(map(escape, pieces)) if kind == "name" else escape(text)
    return f'<td class="{kind}">{prose(text) if kind.startswith("prose") else plain}</td>'


def _tag(name: str, kind: str, text: str, more: str = "") -> str:
    return f'<{name}{more} class="{kind}">{escape(text)}</{name}>'


def _figure(one: ReportFigure | None) -> str:
    figure = None if one is None else one.draw()
    if one is None or figure is None:
        return ""
    data = b64encode(figure_svg(figure).encode()).decode("ascii")
    return f'<figure><img alt="{escape(one.alternative)}" src="data:image/svg+xml;base64,{data}"></figure>'
