"""Tables of text for a width: which columns stay, how wide each is, where prose folds. Plain text.

The summary that pytest prints and the command line's tables have this layout; `Line` names the colour of a line.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from reports.present.blocks import Column, TableBlock, plain_text

INDENT = "  "
LEAST_WIDTH = 60
MOST_WIDTH = 200
GAP = 2
"""Blanks between columns."""
LEAST_PROSE = 12
"""Where nothing else helps, prose folds down to this width."""
LONGEST_WHOLE_WORD = 24
"""A prose column makes room for a word up to this length, and folds longer ones."""

_UNITS = "%|[nµmkKMGTP]?(?:s|W|J|B|Hz|bit|B/s|FLOP|FLOP/s|T/s)|[KMGT]iB(?:/s)?|tokens/s"
_BEFORE_UNIT = re.compile(rf"(?<=\d) (?=(?:{_UNITS})(?![\w/]))")
_WORD_PARTS = re.compile(r"[^_./:,=|-]*[_./:,=|-]*")


@dataclass(frozen=True, slots=True)
class Line:
    """One line to print, with the colour it gets on a terminal."""

    text: str
    colour: str = ""


def folded(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text in lines of at most `width` characters, later ones indented; a number stays with its unit.

    A word that is too long for a line is broken behind `_`, `.`, `/`, `-` and their like where it has them.
    """
    room = max(width - len(indent), 1)
    words = (_broken(word, room) for word in _BEFORE_UNIT.sub("\u00a0", text).split(" "))
    lines = textwrap.wrap(" ".join(words), width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def laid_out_width(width: int | None) -> int:
    """Return the width that lines are laid out for: `width`, or None for the terminal's own, within what is
    readable.
    """
    terminal_columns = shutil.get_terminal_size((80, 24)).columns if width is None else width
    return min(max(terminal_columns, LEAST_WIDTH), MOST_WIDTH)


def wrapped(text: str, colour: str, width: int, *, indent: str = "  ") -> list[Line]:
    """Return a text folded at `width`; continuation lines are indented."""
    return [Line(part, colour) for part in folded(text, width, indent)]


def _broken(word: str, width: int) -> str:
    """Return a word with blanks where it is broken; one that fits is returned as it is."""
    if len(word) <= width:
        return word
    pieces = [""]
    for part in _WORD_PARTS.findall(word):
        if len(pieces[-1]) + len(part) > width and pieces[-1]:
            pieces.append("")
        pieces[-1] += part
    return " ".join(piece for piece in pieces if piece)


def fitting_columns(columns: Sequence[Column], texts: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the indices of the columns that `width` has room for, in table order; some may be too many all the
    same.
    """
    needed = [_own_width(column, [row[i] for row in texts]) for i, column in enumerate(columns)]
    shown = list(range(len(columns)))
    for i in sorted((i for i in shown if columns[i].drop), key=lambda i: -columns[i].drop):
        if sum(needed[k] for k in shown) + GAP * (len(shown) - 1) <= width:
            break
        shown.remove(i)
    return shown


def column_widths(columns: Sequence[Column], texts: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of every column: numbers and names have theirs, prose shares what is left, the shortest
    first.
    """
    cells = [[row[i] for row in texts] for i in range(len(columns))]
    room = width - GAP * (len(columns) - 1)
    widths = [_own_width(column, column_cells) for column, column_cells in zip(columns, cells, strict=True)]
    if sum(widths) > room:
        widths = [_least_width(column, column_cells) for column, column_cells in zip(columns, cells, strict=True)]
    for _ in range(sum(widths) - room):
        # Wider than the screen is better than a number cut in two: the terminal wraps the line, nothing is lost.
        prose = [i for i, column in enumerate(columns) if _folds(column) and widths[i] > LEAST_PROSE]
        if not prose:
            break
        widths[max(prose, key=lambda i: widths[i])] -= 1
    longest_widths = [
        _longest([plain_text(column.header), *column_cells])
        for column, column_cells in zip(columns, cells, strict=True)
    ]
    for _ in range(max(room - sum(widths), 0)):
        short = [i for i, (has, wants) in enumerate(zip(widths, longest_widths, strict=True)) if has < wants]
        if not short:
            break
        widths[min(short, key=lambda i: widths[i])] += 1
    return widths


def row_lines(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> list[list[str]]:
    """Return one row as the lines it takes, each a list of cells padded to their widths."""
    parts = [
        (folded(cell, width) or [""]) if _folds(column) and len(cell) > width else [cell]
        for column, width, cell in zip(columns, widths, cells, strict=True)
    ]
    return [
        [
            _padded(part[number] if number < len(part) else "", column, width)
            for column, width, part in zip(columns, widths, parts, strict=True)
        ]
        for number in range(max(map(len, parts), default=0))
    ]


def joined(cells: Sequence[str]) -> str:
    """Return padded cells as one line, without blanks at its end."""
    return (" " * GAP).join(cells).rstrip()


def _padded(text: str, column: Column, width: int) -> str:
    return text.rjust(width) if column.kind == "number" else text.ljust(width)


def _folds(column: Column) -> bool:
    return column.kind in ("brief", "prose")


def _own_width(column: Column, cells: Sequence[str]) -> int:
    """Return the width a column wants: of a prose column what its longest word needs."""
    natural = _longest([plain_text(column.header), *cells])
    if not _folds(column):
        return natural
    longest_word = _longest([word for cell in cells for word in cell.split()])
    return min(natural, max(column.least, min(longest_word, LONGEST_WHOLE_WORD)))


def _least_width(column: Column, cells: Sequence[str]) -> int:
    """Return the width that a column has on a screen that is too narrow: prose may break its words, numbers may not."""
    natural = _longest([plain_text(column.header), *cells])
    return min(natural, column.least) if _folds(column) else natural


def _longest(texts: Sequence[str]) -> int:
    return max(map(len, texts), default=0)


def cell_texts(block: TableBlock) -> list[list[str]]:
    """Return the texts of a table's cells."""
    return [[plain_text(cell.content) for cell in row.cells] for row in block.rows]


def headers_without_room(block: TableBlock, width: int) -> list[str]:
    """Return the headers of the columns that leave a table of this width."""
    fitting = fitting_columns(block.columns, cell_texts(block), width)
    return [plain_text(column.header) for place, column in enumerate(block.columns) if place not in fitting]


def block_lines(block: TableBlock, width: int, *, colours: Sequence[str] = ()) -> list[Line]:
    """Return the header and the rows of a table, indented; prose that is too long folds within its column.

    `colours` has one per row, or none for a table without.
    """
    rows = cell_texts(block)
    widths = column_widths(block.columns, rows, width - len(INDENT))
    header = [plain_text(column.header) for column in block.columns]
    return [
        Line(INDENT + joined(line), colour)
        for cells, colour in [(header, "light"), *zip(rows, colours or [""] * len(rows), strict=True)]
        for line in row_lines(block.columns, widths, cells)
    ]
