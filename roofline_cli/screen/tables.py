"""What the commands print: tables, notes and JSON.

Tables are laid out (`results.text.table_layout`) when stdout is a terminal or COLUMNS gives a width, and coloured by rich; piped
output is plain aligned text without any escape sequence. Every cell is shown with control characters replaced, and never
read as rich markup.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from results.text.table_layout import (
    GAP,
    Column,
    column_widths,
    filled_columns,
    fitting_columns,
    folded,
    joined,
    row_lines,
)

__all__ = [
    "Cell",
    "Column",
    "Styled",
    "clean",
    "clean_line",
    "has_unicode",
    "json_text",
    "screen_width",
    "show_json",
    "show_line",
    "show_pieces",
    "show_table",
]

MIN_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Styled:
    """A cell with a rich style, used on terminals only."""

    text: str
    style: str


Cell = str | Styled


def clean(text: object) -> str:
    """Return text that a terminal shows and does not obey: control characters become `?`, tabs and newlines spaces."""
    return "".join(ch if ch.isprintable() else " " if ch in "\t\n\r" else "?" for ch in str(text))


def clean_line(text: object) -> str:
    """Return `clean` text with runs of blanks collapsed: one line, whatever came in."""
    return " ".join(clean(text).split())


def screen_width() -> int | None:
    """Return the width to lay tables out for, or None when the output is piped and plain."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and columns.isascii() and int(columns[:6]) > 0:
        return max(int(columns[:6]), MIN_WIDTH)
    if not _is_terminal():
        return None
    return max(shutil.get_terminal_size((100, 24)).columns, MIN_WIDTH)


def show_line(text: str = "", style: str = "") -> None:
    """Print one line of prose, folded at the screen's width (continuation lines are indented)."""
    width = screen_width()
    text = clean(text)
    if width is None:
        sys.stdout.write(f"{text}\n")
        return
    indent = " " * (len(text) - len(text.lstrip()))
    lines = folded(text, width, f"{indent}  ") or [""]
    if not style or not _has_colour():
        sys.stdout.write("\n".join(lines) + "\n")
        return
    from rich.text import Text

    console = _console(width)
    for line in lines:
        console.print(Text(line, style=style), soft_wrap=True)


def show_pieces(pieces: Sequence[tuple[str, str]]) -> None:
    """Print one line made of pieces of text, each with its rich style; it is printed as it is, not folded."""
    texts = [(clean(text), style) for text, style in pieces]
    if not _has_colour():
        sys.stdout.write("".join(text for text, _ in texts).rstrip() + "\n")
        return
    from rich.text import Text

    line = Text.assemble(*((text, style) for text, style in texts))
    line.rstrip()
    _console(max(len(line), 1)).print(line, soft_wrap=True)


def has_unicode() -> bool:
    """Return whether the output shows braille, box and block characters: its encoding has them, and the terminal is none of the plain ones."""
    if _is_terminal() and os.environ.get("TERM") in ("dumb", "linux"):
        return False
    try:
        "⣿◆╌┊┤└".encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def show_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, title: str = "") -> tuple[str, ...]:
    """Print a table and return the headings of the columns that the screen had no room for, named in a line below, too."""
    width = screen_width()
    if title:
        show_line(title, style="bold")
    texts = [[clean(cell.text if isinstance(cell, Styled) else cell) for cell in row] for row in rows]
    styles = [[cell.style if isinstance(cell, Styled) else "" for cell in row] for row in rows]
    filled = filled_columns(columns, texts)
    columns, texts, styles = [columns[i] for i in filled], _only(texts, filled), _only(styles, filled)
    if width is None:
        _write_plain(columns, texts)
        return ()
    kept = fitting_columns(columns, texts, width)
    left_out = tuple(column.header for i, column in enumerate(columns) if i not in kept)
    _write_laid_out([columns[i] for i in kept], _only(texts, kept), _only(styles, kept), width)
    if left_out:
        show_line(f"(left out at this width: {', '.join(left_out)})", style="dim")
    return left_out


def _only(rows: Sequence[Sequence[str]], kept: Sequence[int]) -> list[list[str]]:
    return [[row[i] for i in kept] for row in rows]


def show_json(data: Any) -> None:
    """Print one JSON document; numbers that JSON cannot hold (infinite, NaN) become null."""
    sys.stdout.write(json_text(data))


def json_text(data: Any) -> str:
    """Return what `show_json` prints, for a file."""
    # ASCII only: it survives any locale, and no stored label can smuggle in a control character.
    return json.dumps(_finite(data), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _write_plain(columns: Sequence[Column], texts: Sequence[Sequence[str]]) -> None:
    """Write the table as wide as it is, for a pipe: nothing folds, nothing is left out."""
    cells = [[column.header for column in columns], *texts]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    whole = [Column(column.header, column.align) for column in columns]
    rows = [*cells[:1], ["-" * width for width in widths], *cells[1:]]
    for row in rows:
        sys.stdout.write("".join(joined(line) + "\n" for line in row_lines(whole, widths, row)))


def _write_laid_out(
    columns: Sequence[Column], texts: Sequence[Sequence[str]], styles: Sequence[Sequence[str]], width: int
) -> None:
    """Write the table for a screen: the header, a rule, and the rows, of which prose takes several lines."""
    widths = column_widths(columns, texts, width)
    gap = (" " * GAP, "")
    for line in row_lines(columns, widths, [column.header for column in columns]):
        show_pieces([(joined(line), "bold")])
    show_pieces([("─" * (sum(widths) + GAP * (len(widths) - 1)), "")])
    for row, looks in zip(texts, styles, strict=True):
        for line in row_lines(columns, widths, row):
            pieces = [piece for cell, look in zip(line, looks, strict=True) for piece in (gap, (cell, look))]
            show_pieces(pieces[1:])


def _console(width: int) -> Any:
    from rich.console import Console

    class PipedConsole(Console):
        def on_broken_pipe(self) -> None:
            """Say so, for `group` to end with its exit code; rich would end the process with 1."""
            raise BrokenPipeError

    colour: Literal["auto"] | None = "auto" if _has_colour() else None
    return PipedConsole(
        file=sys.stdout,
        width=width,
        color_system=colour,
        force_terminal=_is_terminal(),
        highlight=False,
        emoji=False,
        markup=False,
    )


def _has_colour() -> bool:
    return _is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _is_terminal() -> bool:
    return sys.stdout.isatty()
