"""A report as a sequence of blocks (headings, sentences, tables, figures): said once, printed as Markdown, as a page for paper,
or in a terminal. Plain text throughout; whoever prints a block escapes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal["plain", "verdict", "warning", "quiet"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A title; rank 1 is the document's."""

    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One or a few sentences."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: numbers stand right; prose folds; the column with the highest `drop` leaves a narrow screen first."""

    header: str
    is_number: bool = False
    is_prose: bool = False
    drop: int = 0


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table; every row has a cell per column."""

    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    is_folded: bool = False
    """Whether it may be shown folded up: long, and read by few."""


@dataclass(frozen=True, slots=True)
class FigureBlock:
    """A figure of `reports.formats.figure_files`, by its name."""

    name: str


Block = Heading | Paragraph | Bullets | TableBlock | FigureBlock


def table(
    title: str,
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[str]],
    *,
    note: str = "",
    is_folded: bool = False,
) -> TableBlock:
    """Return a table without the columns that say nothing: those whose every cell is `–` or empty."""
    kept = [i for i in range(len(columns)) if i == 0 or any(row[i] not in ("–", "") for row in rows)]
    return TableBlock(
        title, tuple(columns[i] for i in kept), tuple(tuple(row[i] for i in kept) for row in rows), note, is_folded
    )
