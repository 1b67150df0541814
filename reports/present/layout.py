"""Tables of text for a width: which columns stay, how wide each is, where prose folds. Plain text.

The summary that pytest prints and the command line's tables have this layout; `Line` names the colour of a line.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reports.present.blocks import TableBlock, plain_text

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


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Numbers and names never wrap; `is_prose` columns fold; `drop` columns leave first when it gets
    narrow.
    """

    header: str
    align: Literal["left", "right"] = "left"
    is_prose: bool = False
    least: int = 18
    """A prose column is folded, but no narrower than this while anything else can give way."""
    drop: int = 0
    """0: always shown; otherwise the column with the largest number is left out first."""
    hide_empty: bool = False
    """Left out, without a word, when every cell is `–`."""


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


def filled_columns(columns: Sequence[Column], texts: Sequence[Sequence[str]]) -> list[int]:
    """Return the indices of the columns that have something to say: `hide_empty` ones with nothing but `–` or blanks
    have not.
    """
    return [
        i for i, column in enumerate(columns) if not column.hide_empty or any(row[i] not in ("", "–") for row in texts)
    ]


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
        prose = [i for i, column in enumerate(columns) if column.is_prose and widths[i] > LEAST_PROSE]
        if not prose:
            break
        widths[max(prose, key=lambda i: widths[i])] -= 1
    longest_widths = [
        _longest([column.header, *column_cells]) for column, column_cells in zip(columns, cells, strict=True)
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
        (folded(cell, width) or [""]) if column.is_prose and len(cell) > width else [cell]
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
    return text.rjust(width) if column.align == "right" else text.ljust(width)


def _own_width(column: Column, cells: Sequence[str]) -> int:
    """Return the width a column wants: of a prose column what its longest word needs."""
    natural = _longest([column.header, *cells])
    if not column.is_prose:
        return natural
    longest_word = _longest([word for cell in cells for word in cell.split()])
    return min(natural, max(column.least, min(longest_word, LONGEST_WHOLE_WORD)))


def _least_width(column: Column, cells: Sequence[str]) -> int:
    """Return the width that a column has on a screen that is too narrow: prose may break its words, numbers may not."""
    natural = _longest([column.header, *cells])
    return min(natural, column.least) if column.is_prose else natural


def _longest(texts: Sequence[str]) -> int:
    return max(map(len, texts), default=0)


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


def text_table(block: TableBlock) -> tuple[list[Column], list[list[str]]]:
    """Return the columns of a table as text lays them out, and the texts of its cells."""
    columns = [
        Column(
            plain_text(column.header),
            "right" if column.kind == "number" else "left",
            is_prose=column.kind in ("brief", "prose"),
            least=column.least,
            drop=column.drop,
        )
        for column in block.columns
    ]
    return columns, [[plain_text(cell.content) for cell in row.cells] for row in block.rows]


def headers_without_room(block: TableBlock, width: int) -> list[str]:
    """Return the headers of the columns that leave a table of this width, indented."""
    columns, texts = text_table(block)
    fitting = fitting_columns(columns, texts, width - len(INDENT))
    return [column.header for place, column in enumerate(columns) if place not in fitting]


def block_lines(block: TableBlock, width: int, *, colours: Sequence[str] = ()) -> list[Line]:
    """Return a table as lines, indented; `colours` has one per row, or none for a table without."""
    columns, texts = text_table(block)
    return table_lines(columns, texts, width, colours=colours)
