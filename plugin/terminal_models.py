"""Whole models in the terminal: per model, batch and context the precisions side by side, and what to take for each phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plugin.terminal_notes import Line, wrapped
from results.contenders import Totals
from results.model_results import ModelResult, model_results
from results.model_text import TextTable, model_notes, model_tables, verdict_lines
from results.records import Record

_LEAVING = ("process", "±", "peak prefill", "share", "same top-1", "J/1k tokens")
"""What leaves a table that is wider than the screen, in this order."""
_INDENT = "  "


def model_lines(records: Sequence[Record], totals: Totals, width: int) -> list[Line]:
    """Return the blocks of the models among the records, then once what their marks mean; nothing without a model."""
    models = [(one, model_tables(one)) for one in model_results(records, totals)]
    # Every block has the same columns: those that fit in the widest of them.
    wide = {name for _, tables in models for table in tables for name in _too_wide(table, width)}
    lines: list[Line] = []
    for model, tables in models:
        lines += _block(model, tables, width, wide)
        lines.append(Line(""))
    notes = model_notes(model for model, _ in models)
    if wide:
        names = ", ".join(name for name in _LEAVING if name in wide)
        notes.append(f"{names} left out at this width: a wider terminal and `roofline show` have them")
    for note in notes:
        lines += wrapped(note, "light", width)
    return [*lines, Line("")] if notes else lines


def _block(model: ModelResult, tables: Sequence[TextTable], width: int, left_out: set[str]) -> list[Line]:
    lines = wrapped(model.title, "bold", width)
    for table in tables:
        lines += wrapped(f"{_INDENT}{table.title}", "light", width, indent=_INDENT * 2)
        lines += _rows(table, left_out)
        lines.append(Line(""))
    for sentence in verdict_lines(model):
        lines += wrapped(f"{_INDENT}→ {sentence}", "bold", width, indent=_INDENT * 2)
    return lines


def _rows(table: TextTable, left_out: set[str]) -> list[Line]:
    columns = _columns(table, left_out)
    widths = {name: max(len(name), *map(len, texts)) for name, texts in columns.items()}
    first = table.headers[0]

    def line(cells: Mapping[str, str]) -> str:
        texts = [cells[name].ljust(size) if name == first else cells[name].rjust(size) for name, size in widths.items()]
        return (_INDENT + "  ".join(texts)).rstrip()

    header = Line(line({name: name for name in columns}), "light")
    return [header, *(Line(line({n: texts[i] for n, texts in columns.items()})) for i in range(len(table.rows)))]


def _too_wide(table: TextTable, width: int) -> set[str]:
    """Return the columns that a table has no room for."""
    found: set[str] = set()
    for name in _LEAVING:
        if name in table.headers and _width(_columns(table, found)) > width:
            found.add(name)
    return found


def _columns(table: TextTable, left_out: set[str]) -> dict[str, list[str]]:
    return {name: [row[i] for row in table.rows] for i, name in enumerate(table.headers) if name not in left_out}


def _width(columns: Mapping[str, Sequence[str]]) -> int:
    return len(_INDENT) + sum(max(len(n), *map(len, texts)) for n, texts in columns.items()) + 2 * (len(columns) - 1)
