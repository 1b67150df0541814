"""An answer as a sequence of blocks: sections, sentences, tables and figures, composed once and printed as a page, as
Markdown, on paper or in a terminal.

Texts are plain; whoever prints a block escapes it. What only a page can show (where a name leads, what is told when it
is pointed at, how it looks) stands beside the text, and the text media leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from reports.present.display_text import bounded
from results.records.flags import DOUBTFUL_FLAGS
from roofline_model.core.finding import code_text
from roofline_model.core.units import column_times, counted, format_memory, format_percent, format_time

Tone = Literal["plain", "verdict", "good", "bad", "failed", "warning", "quiet"]
Medium = Literal["any", "page", "text"]
"""Where a block is printed: on the page, in Markdown, on paper and in a terminal, or anywhere."""
Kind = Literal["name", "number", "brief", "prose"]
"""Of a column: names do not fold, numbers stand right, brief texts and prose fold."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text with a look of its own."""

    text: str
    look: str = ""
    """`code`, `bold`, or the page's classes for it."""
    title: str = ""
    """What is told when it is pointed at."""
    anchor: str = ""
    """The place on the page that it leads to."""
    medium: Medium = "any"


Rich = str | Span | tuple[str | Span, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A title; rank 1 is the document's, 2 that of a section."""

    rank: int
    text: Rich
    look: str = ""
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One or a few sentences."""

    text: Rich
    tone: Tone = "plain"
    medium: Medium = "any"
    look: str = ""


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: tuple[Rich, ...]
    tone: Tone = "plain"
    medium: Medium = "any"
    look: str = ""


@dataclass(frozen=True, slots=True)
class Definitions:
    """Terms and what each means or comes to."""

    pairs: tuple[tuple[Rich, Rich], ...]
    title: str = ""
    look: str = "legend"
    tone: Tone = "quiet"
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what is known under each, folded under itself; a pair without a name goes on with the one above."""

    pairs: tuple[tuple[str, str], ...]
    medium: Medium = "text"


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lines drawn in text, printed as they are."""

    lines: tuple[str, ...]
    medium: Medium = "text"


@dataclass(frozen=True, slots=True)
class Command:
    """What to type next, and what that does; nothing where there is no command."""

    text: str
    effect: str = ""
    medium: Medium = "text"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table."""

    content: Rich = ""
    value: float | None = None
    """The number behind the text, in SI units."""
    title: str = ""
    look: str = ""
    row_span_count: int = 1
    """Rows it stands in on the page, itself the first; 0: the cell above stands there too."""
    is_time: bool = False
    """Whether `table` prints it in the unit of its column."""
    bar_ratio: float | None = None
    """Share of the cell that a bar in it fills, where one is drawn."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column and how its cells are taken from what a row shows."""

    header: Rich
    cell: Callable[[Any], Cell | Rich]
    kind: Kind = "name"
    title: str = ""
    drop: int = 0
    """The column with the highest number leaves a narrow screen first."""
    least: int = 18
    """A column that folds is no narrower than this while anything else can give way."""
    medium: Medium = "any"
    is_head: bool = False
    """Whether its cells name their rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: a cell per column."""

    cells: tuple[Cell, ...]
    anchor: str = ""
    look: str = ""


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table."""

    label: str
    """What it holds, for those who do not see it."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: Rich = ""
    text_note: str = ""
    """Under it in texts: what the page says above."""
    look: str = ""
    is_folded: bool = False
    """Whether a text may show it folded up: long, and read by few."""
    says_what_is_left_out: bool = True
    """Whether a line names the columns that a screen has no room for; not of an answer whose `--all` shows all."""
    text_rows_count: int | None = None
    """Rows in texts; the page has them all."""
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class FigureBlock:
    """A figure of `reports.formats.figure_files`, by its name."""

    name: str
    label: str = ""
    alternative: str = ""
    """What it shows, for those who do not see it; empty: as the figure says."""
    look: str = ""
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Live:
    """A place that the page's scripts fill (`figures`, `rows`, … of `page/static`), and what stands there without
    them.
    """

    kind: str
    chip_index: int | None = None
    still: tuple[Block, ...] = ()
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks under a title that opens them; texts print them open, the summary as a sentence of its own."""

    title: Rich
    blocks: tuple[Block, ...]
    summary: str = ""
    look: str = ""
    anchor: str = ""
    is_open: bool = False
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Cards:
    """Small groups of blocks side by side."""

    cards: tuple[tuple[Block, ...], ...]
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Split:
    """Groups of blocks side by side on a wide page, one after the other elsewhere."""

    parts: tuple[tuple[Block, ...], ...]
    medium: Medium = "any"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report under a title of its own."""

    title: Rich
    anchor: str
    blocks: tuple[Block, ...]
    look: str = ""
    medium: Medium = "any"


Block = (
    Heading | Paragraph | Bullets | Definitions | Facts | Drawing | Command | TableBlock | FigureBlock | Live | Folded
    | Cards | Split | Section
)  # fmt: skip
TextBlock = Heading | Paragraph | Bullets | Facts | Drawing | Command | TableBlock | FigureBlock
T = TypeVar("T")

CAVEAT_COUNT = 2
"""Warnings printed with an answer; the others stand behind `--all`."""
NOTE_LENGTH = 140
"""Characters of a note in an answer: two lines at 80 columns. `--all` prints it whole."""


def table(
    label: str,
    columns: Sequence[Column],
    items: Iterable[T],
    *,
    anchor: Callable[[T], str] = lambda _: "",
    look_of: Callable[[T], str] = lambda _: "",
    **more: Any,
) -> TableBlock:
    """Return a table with a row per item, without the columns that say nothing: those whose every cell is `–` or empty.

    `more`: the other fields of `TableBlock`.
    """
    rows = [([_cell(column.cell(item)) for column in columns], anchor(item), look_of(item)) for item in items]
    for at in range(len(columns)):
        times = [cells[at].value if cells[at].is_time else None for cells, _, _ in rows]
        for (cells, _, _), text in zip(rows, column_times(times), strict=True):
            if cells[at].is_time:
                cells[at] = replace(cells[at], content=text)
    places = [
        at
        for at, column in enumerate(columns)
        if column.is_head or any(plain_text(cells[at].content) not in ("–", "") for cells, _, _ in rows)
    ]
    return TableBlock(
        label,
        tuple(columns[at] for at in places),
        tuple(Row(tuple(cells[at] for at in places), place, look) for cells, place, look in rows),
        **more,
    )


def _cell(content: Cell | Rich) -> Cell:
    return content if isinstance(content, Cell) else Cell(content)


def time_cell(time_s: float | None) -> Cell:
    """Return a time; a table prints it in the unit of its column."""
    return Cell(format_time(time_s), time_s, is_time=True)


def percent_cell(ratio: float | None, digits: int = 1, *, signed: bool = False) -> Cell:
    """Return a ratio in percent."""
    return Cell(format_percent(ratio, digits, signed=signed), ratio)


def memory_cell(size_bytes: float | None) -> Cell:
    """Return an amount of memory."""
    return Cell(format_memory(size_bytes), size_bytes)


def notes(texts: Iterable[str]) -> Iterator[Paragraph]:
    """Yield the first notes of an answer, each as long as two lines hold."""
    for text in list(texts)[:CAVEAT_COUNT]:
        yield Paragraph(f"Note: {brief(text)}", "warning")


def more(what: str, *, is_shown: bool) -> Iterator[Paragraph]:
    """Yield what --all adds, unless it was given."""
    if not is_shown:
        yield Paragraph(f"More: --all {what}.", "quiet", "text")


SHOWN_REASONS = 8


def reason_blocks(reasons: Sequence[str], all_of_them: str) -> Iterator[Paragraph]:
    """Yield why something stands without an answer: the first reasons, and where all of them are."""
    for reason in reasons[:SHOWN_REASONS]:
        yield Paragraph(f"  {reason}", "warning")
    if len(reasons) > SHOWN_REASONS:
        yield Paragraph(f"  … and {counted(len(reasons) - SHOWN_REASONS, 'more reason')}; {all_of_them}")


def swatch(label: str) -> Span:
    """Return the mark in the colour of a format, for a page."""
    return Span("", "swatch", label, medium="page")


def brief(text: str, most: int = NOTE_LENGTH) -> str:
    """Return a text of at most `most` characters, cut between words and never inside a quoted command."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    start = text[: most - 1].rpartition(" ")[0]
    if start.count("`") % 2:
        start = start.rpartition("`")[0].rstrip()
    return f"{start.rstrip(',;:(')} …"


def plain_text(text: Rich) -> str:
    """Return a text as texts print it, `bounded`."""
    if isinstance(text, str):
        return bounded(text)
    spans = (text,) if isinstance(text, Span) else text
    pieces = (span if isinstance(span, str) else "" if span.medium == "page" else span.text for span in spans)
    return bounded("".join(pieces))


def text_blocks(blocks: Iterable[Block]) -> Iterator[TextBlock]:
    """Yield the blocks of texts, one after the other: what holds others becomes a heading, definitions become a
    list.
    """
    for block in blocks:
        if block.medium == "page":
            continue
        if isinstance(block, Section):
            yield Heading(2, block.title)
            yield from text_blocks(block.blocks)
        elif isinstance(block, Folded):
            yield Heading(3, block.title)
            if block.summary:
                yield Paragraph(block.summary, "verdict")
            yield from text_blocks(block.blocks)
        elif isinstance(block, Live):
            yield from text_blocks(block.still)
        elif isinstance(block, Cards):
            yield from text_blocks(inner for card in block.cards for inner in card)
        elif isinstance(block, Split):
            yield from text_blocks(inner for part in block.parts for inner in part)
        elif isinstance(block, Definitions):
            if block.title:
                yield Heading(3, block.title)
            yield Bullets(tuple(f"{plain_text(term)}: {plain_text(text)}" for term, text in block.pairs), block.tone)
        elif isinstance(block, TableBlock):
            yield _text_table(block)
        else:
            yield block


def _text_table(block: TableBlock) -> TableBlock:
    """Return a table with the columns and as many rows as texts have."""
    rows = block.rows[: block.text_rows_count]
    left_count = len(block.rows) - len(rows)
    left = [f"{left_count} more left out."] if left_count else []
    note = " ".join([*([block.text_note] if block.text_note else []), *left])
    return with_columns(replace(block, rows=rows, text_note=note), lambda column: column.medium != "page")


def with_columns(block: TableBlock, is_kept: Callable[[Column], bool]) -> TableBlock:
    """Return a table with some of its columns."""
    places = [at for at, column in enumerate(block.columns) if is_kept(column)]
    rows = (replace(row, cells=tuple(row.cells[at] for at in places)) for row in block.rows)
    return replace(block, columns=tuple(block.columns[at] for at in places), rows=tuple(rows))


def flag_span(flag: str) -> Span:
    """Return a flag, marked where it puts the time in doubt, with its meaning."""
    return Span(flag, "flag doubt" if flag in DOUBTFUL_FLAGS else "flag", code_text(flag))


def flags_cell(flags: tuple[str, ...]) -> Cell:
    """Return flags side by side."""
    spans = [piece for flag in flags for piece in (flag_span(flag), Span(",", medium="text"), " ")][:-2]
    return Cell(tuple(spans) or "–")


def meanings(flags: tuple[str, ...]) -> str:
    """Return flags with what they mean, as a mark tells them."""
    return "; ".join(f"{flag}: {code_text(flag)}" for flag in flags)
