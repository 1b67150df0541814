"""Whole models in the terminal: per model, batch and context the precisions side by side, and what to take for each
phase.
"""

from __future__ import annotations

from collections.abc import Sequence

from reports.present.layout import INDENT, Column, Line, fitting_columns, table_lines, wrapped
from results.cases.case_result import CaseResult
from results.text.model_text import TextTable, model_notes, model_tables, verdict_lines
from results.verdicts.model_results import ModelResult, model_results

_LEAVING = (
    "process",
    "±",
    "peak prefill",
    "share",
    "same top-1",
    "J/1k tokens",
    "perplexity ratio",
    "ideal",
    "ideal tokens/s",
    "peak decode",
    "tokens/s",
    "exp. tokens/s",
)
"""What leaves a table that is wider than the screen, in this order."""


def model_lines(cases: Sequence[CaseResult], width: int) -> list[Line]:
    """Return the blocks of the models among the cases, then once what their marks mean; nothing without a model."""
    models = [(result, model_tables(result)) for result in model_results(cases)]
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
        lines += wrapped(f"{INDENT}{table.title}", "light", width, indent=INDENT * 2)
        columns = [i for i, name in enumerate(table.headers) if name not in left_out]
        lines += table_lines(
            [_columns(table)[i] for i in columns], [[row[i] for i in columns] for row in table.rows], width
        )
        lines.append(Line(""))
    for sentence in verdict_lines(model):
        lines += wrapped(f"{INDENT}→ {sentence}", "bold", width, indent=INDENT * 2)
    return lines


def _too_wide(table: TextTable, width: int) -> set[str]:
    """Return the columns that a table has no room for."""
    columns = fitting_columns(_columns(table), table.rows, width - len(INDENT))
    return {name for i, name in enumerate(table.headers) if i not in columns}


def _columns(table: TextTable) -> list[Column]:
    drops = {name: len(_LEAVING) - rank for rank, name in enumerate(_LEAVING)}
    first, *other_headers = table.headers
    return [Column(first), *(Column(name, "right", drop=drops.get(name, 0)) for name in other_headers)]
