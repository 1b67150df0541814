"""What the commands print: tables, notes and JSON.

Tables go through rich when stdout is a terminal (or COLUMNS gives a width); piped output is plain aligned text without
any escape sequence. Every cell is shown with control characters replaced, and never read as rich markup.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

MIN_WIDTH = 40
_GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Numbers and names never wrap; `is_prose` columns fold; `drop` columns leave first when it gets narrow."""

    header: str
    align: Literal["left", "right"] = "left"
    is_prose: bool = False
    least: int = 18
    """A prose column is folded, but never narrower than this."""
    drop: int = 0
    """0: always shown; otherwise the column with the largest number is left out first."""
    hide_empty: bool = False
    """Left out, without a word, when every cell is `–`."""


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
    lines = textwrap.wrap(text, width, subsequent_indent=f"{indent}  ", break_on_hyphens=False) or [""]
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
    filled = [i for i, column in enumerate(columns) if not column.hide_empty or any(row[i] != "–" for row in rows)]
    columns, rows = [columns[i] for i in filled], [[row[i] for i in filled] for row in rows]
    texts = [[clean(cell.text if isinstance(cell, Styled) else cell) for cell in row] for row in rows]
    if width is None:
        _write_plain(columns, texts)
        return ()
    kept, dropped = _fit(columns, texts, width)
    shown, cells = [columns[i] for i in kept], [[row[i] for i in kept] for row in texts]
    # Wider than the screen is better than a number cut in two: the terminal wraps the line, nothing is lost.
    _write_rich(shown, [[row[i] for i in kept] for row in rows], _widths(shown, cells, width))
    left_out = tuple(columns[i].header for i in dropped)
    if left_out:
        show_line(f"(left out at this width: {', '.join(left_out)})", style="dim")
    return left_out


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


def _fit(columns: Sequence[Column], texts: Sequence[Sequence[str]], width: int) -> tuple[list[int], list[int]]:
    """Return the indices of the columns that fit and of those left out, in table order."""
    needed = [_column_width(column, [row[i] for row in texts]) for i, column in enumerate(columns)]
    kept = list(range(len(columns)))
    for i in sorted((i for i in kept if columns[i].drop), key=lambda i: -columns[i].drop):
        if sum(needed[k] for k in kept) + _GAP * (len(kept) - 1) <= width:
            break
        kept.remove(i)
    return kept, [i for i in range(len(columns)) if i not in kept]


def _widths(columns: Sequence[Column], texts: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of every column: numbers and names have theirs, prose shares what is left, the shortest first."""
    cells = [[row[i] for row in texts] for i in range(len(columns))]
    room = width - _GAP * (len(columns) - 1)
    widths = [_column_width(column, column_cells) for column, column_cells in zip(columns, cells, strict=True)]
    if sum(widths) > room:
        return [_shortest_width(column, column_cells) for column, column_cells in zip(columns, cells, strict=True)]
    wanted = [max(len(text) for text in [column.header, *own]) for column, own in zip(columns, cells, strict=True)]
    for left in range(room - sum(widths), 0, -1):
        short = [i for i, (has, wants) in enumerate(zip(widths, wanted, strict=True)) if has < wants]
        if not short or not left:
            break
        widths[min(short, key=lambda i: widths[i])] += 1
    return widths


def _column_width(column: Column, cells: Sequence[str]) -> int:
    if not column.is_prose:
        return max(len(text) for text in [column.header, *cells])
    longest_word = max((len(word) for cell in cells for word in cell.split()), default=0)
    natural = max((len(cell) for cell in [column.header, *cells]), default=0)
    return min(natural, max(column.least, min(longest_word, 30)))


def _shortest_width(column: Column, cells: Sequence[str]) -> int:
    """Return the width below which a column would become unreadable: prose may break its words, numbers may not."""
    natural = max(len(text) for text in [column.header, *cells])
    return min(natural, column.least) if column.is_prose else natural


def _write_plain(columns: Sequence[Column], texts: Sequence[Sequence[str]]) -> None:
    widths = [
        max(len(text) for text in [column.header, *(row[i] for row in texts)]) for i, column in enumerate(columns)
    ]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.rjust(width) if column.align == "right" else cell.ljust(width)
            for cell, width, column in zip(cells, widths, columns, strict=True)
        ]
        return (" " * _GAP).join(aligned).rstrip() + "\n"

    sys.stdout.write(line([column.header for column in columns]))
    sys.stdout.write(line(["-" * width for width in widths]))
    for row in texts:
        sys.stdout.write(line(row))


def _write_rich(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], widths: Sequence[int]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=_rule_below_header(box), show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0), header_style="bold"
    )
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.header),
            width=width,
            justify=column.align,
            no_wrap=not column.is_prose,
            overflow="fold" if column.is_prose else "crop",
        )
    for row in rows:
        table.add_row(
            *(
                Text(clean(cell.text), style=cell.style) if isinstance(cell, Styled) else Text(clean(cell))
                for cell in row
            )
        )
    _console(sum(widths) + _GAP * (len(widths) - 1)).print(table)


def _rule_below_header(box: Any) -> Any:
    """Return rich's plainest box: nothing but a rule under the header."""
    return box.Box("    \n    \n ── \n    \n    \n    \n    \n    \n")


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
