"""What the commands print: tables, numbers in cells, notes and JSON.

Tables are laid out (`reports.present.layout`) when stdout is a terminal or COLUMNS gives a width, and coloured by rich;
piped output is plain aligned text without any escape sequence. Every cell is shown with control characters replaced,
and never read as rich markup.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from reports.present.blocks import (
    Block,
    Bullets,
    Column,
    Command,
    Drawing,
    Facts,
    FigureBlock,
    Heading,
    Paragraph,
    Rich,
    Span,
    TableBlock,
    TextBlock,
    more,
    notes,
    plain_text,
    text_blocks,
)
from reports.present.display_text import bounded
from reports.present.layout import (
    GAP,
    cell_texts,
    column_widths,
    fitting_columns,
    folded,
    headers_without_room,
    joined,
    row_lines,
)

MIN_WIDTH = 40


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
    text = clean(bounded(text))
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


def show_next(command: str, effect: str = "") -> None:
    """Print what to type next, and behind a # what that does; nothing without a command.

    A line too long for the screen is continued so that a shell takes it as copied.
    """
    if not command:
        return
    width = screen_width()
    line = f"Next: {command}{f'  # {effect}' if effect else ''}"
    if width is None or len(line) <= width:
        show_line(line)
        return
    first, *options = command.split(" --")
    lines = [f"Next: {first}"]
    for option in options:
        if len(f"{lines[-1]} --{option} \\") <= width:
            lines[-1] += f" --{option}"
        else:
            lines.append(f"  --{option}")
    for line in lines[:-1]:
        show_line(f"{line} \\")
    is_beside = bool(effect) and len(f"{lines[-1]}  # {effect}") <= width
    show_line(f"{lines[-1]}  # {effect}" if is_beside else lines[-1])
    if effect and not is_beside:
        show_line(f"  # {effect}")


def show_notes(texts: Iterable[str]) -> None:
    """Print the first notes of an answer, each as long as two lines hold."""
    show_blocks(notes(texts))


def show_more(what: str, *, is_shown: bool) -> None:
    """Print what --all adds, unless it was given."""
    show_blocks(more(what, is_shown=is_shown))


_STYLES = {
    "verdict": "bold",
    "good": "bold",
    "bad": "yellow",
    "failed": "bold red",
    "warning": "yellow",
    "quiet": "dim",
    "plain": "",
}
_LOOK_STYLES = {
    "good": "green",
    "measured": "green",
    "predicted": "yellow",
    "skipped": "yellow",
    "failed": "bold red",
    "warning": "yellow",
    "total": "bold",
}
"""Word of the look of a cell, or else of its row → its style."""
_FACT_WIDTH = 12
PIPED_WIDTH = 100
"""Width of facts and drawings when the output is piped."""


def present(document: Callable[[], Any], blocks: Callable[[], Iterable[Block]], *, as_json: bool) -> None:
    """Print an answer: as its JSON document, or as blocks."""
    if as_json:
        show_json(document())
    else:
        show_blocks(blocks())


def show(block: Block) -> None:
    """Print one block."""
    show_blocks([block])


def show_blocks(blocks: Iterable[Block], drawings: Mapping[str, Callable[[], None]] | None = None) -> None:
    """Print blocks; a figure that no drawing of `drawings` has is left out, with the section it is alone in."""
    waiting: list[Heading] = []
    for block in text_blocks(blocks):
        if isinstance(block, Heading):
            waiting = [*(heading for heading in waiting if heading.rank < block.rank), block]
        elif not _is_empty(block, drawings or {}):
            for heading in waiting:
                _show_heading(heading)
            waiting = []
            _show_block(block, drawings or {})


def _is_empty(block: TextBlock, drawings: Mapping[str, Callable[[], None]]) -> bool:
    if isinstance(block, FigureBlock):
        return block.name not in drawings
    return isinstance(block, Bullets) and not block.items


def _show_heading(heading: Heading) -> None:
    if heading.rank > 1:
        show_line()
    text = plain_text(heading.text)
    show_line(text if heading.rank > 1 else text.upper(), "bold" if heading.rank > 2 else "bold cyan")


def _show_block(block: TextBlock, drawings: Mapping[str, Callable[[], None]]) -> None:
    if isinstance(block, Paragraph):
        show_line(plain_text(block.text), _STYLES[block.tone])
    elif isinstance(block, Bullets):
        for item in block.items:
            show_line(f"{'!' if block.tone == 'warning' else '-'} {plain_text(item)}", _STYLES[block.tone])
    elif isinstance(block, TableBlock):
        _show_table_block(block)
    elif isinstance(block, Facts):
        for name, text in block.pairs:
            _show_fact(name, text)
    elif isinstance(block, Drawing):
        for line in block.lines:
            show_line(line)
    elif isinstance(block, Command):
        show_next(block.text, block.effect)
    elif isinstance(block, FigureBlock):
        drawings[block.name]()


def _show_fact(name: str, text: str) -> None:
    """Print `  name        text`, folded under itself."""
    first = f"  {clean(name):<{_FACT_WIDTH}}"
    width = max((screen_width() or PIPED_WIDTH) - len(first), 20)
    lines = textwrap.wrap(clean(text), width, break_on_hyphens=False) or [""]
    for index, line in enumerate(lines):
        # show_line would fold a long word again: these lines fit already.
        show_line(f"{first if index == 0 else ' ' * len(first)}{line}")


def _show_table_block(block: TableBlock) -> None:
    width = screen_width()
    if block.title:
        show_line()
        show_line(plain_text(block.title), "bold")
    texts = [[clean(text) for text in row] for row in cell_texts(block)]
    if width is None:
        _write_plain(block.columns, texts)
    else:
        styles = [[_style_of(cell.content, row.look) for cell in row.cells] for row in block.rows]
        places = fitting_columns(block.columns, texts, width)
        _write_laid_out([block.columns[at] for at in places], _only(texts, places), _only(styles, places), width)
        left_out = [plain_text(column.header) for at, column in enumerate(block.columns) if at not in places]
        if left_out and block.says_what_is_left_out:
            show_line(f"(left out at this width: {', '.join(left_out)})", style="dim")
    if block.text_note:
        show_line(block.text_note, "dim")


def has_room_for(block: TableBlock, header: str) -> bool:
    """Return whether the screen has room for a column of a table, and the table has it."""
    width = screen_width()
    is_there = any(plain_text(column.header) == header for column in block.columns)
    return is_there and (width is None or header not in headers_without_room(block, width))


def _style_of(content: Rich, row_look: str) -> str:
    looks = (content.look if isinstance(content, Span) else "") or row_look
    return next((style for word, style in _LOOK_STYLES.items() if word in looks.split()), "")


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
    """Return whether the output shows braille, box and block characters: its encoding has them, and the terminal is
    none of the plain ones.
    """
    if _is_terminal() and os.environ.get("TERM") in ("dumb", "linux"):
        return False
    try:
        "⣿◆╌┊┤└".encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _only(rows: Sequence[Sequence[str]], positions: Sequence[int]) -> list[list[str]]:
    return [[row[i] for i in positions] for row in rows]


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
    cells = [[plain_text(column.header) for column in columns], *texts]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in (*cells[:1], ["-" * width for width in widths], *cells[1:]):
        sys.stdout.write("".join(f"{joined(line)}\n" for line in row_lines(columns, widths, row)))


def _write_laid_out(
    columns: Sequence[Column], texts: Sequence[Sequence[str]], styles: Sequence[Sequence[str]], width: int
) -> None:
    """Write the table for a screen: the header, a rule, and the rows, of which prose takes several lines."""
    widths = column_widths(columns, texts, width)
    gap = (" " * GAP, "")
    for line in row_lines(columns, widths, [plain_text(column.header) for column in columns]):
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


MISSING = "–"


def intensity(flop_per_byte: float | None) -> str:
    """Print an arithmetic intensity: two decimals below 100, none above; missing → `–`."""
    if flop_per_byte is None:
        return MISSING
    return f"{flop_per_byte:.2f}" if flop_per_byte < 99.995 else f"{flop_per_byte:.0f}"
