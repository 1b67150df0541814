"""A table of the terminal's summary as lines: laid out as the command line's tables are, one colour per row."""

from __future__ import annotations

from collections.abc import Sequence

from plugin.terminal.notes import Line
from results.text.table_layout import Column, column_widths, joined, row_lines

INDENT = "  "


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, colours: Sequence[str] = ()
) -> list[Line]:
    """Return the header and the rows, indented; prose that is too long folds within its column.

    `colours` has one per row, or none for a table without.
    """
    widths = column_widths(columns, rows, width - len(INDENT))
    looks = colours or [""] * len(rows)
    header = [column.header for column in columns]
    return [
        Line(INDENT + joined(line), look)
        for cells, look in [(header, "light"), *zip(rows, looks, strict=True)]
        for line in row_lines(columns, widths, cells)
    ]
