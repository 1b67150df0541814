"""Whole models in the terminal: per model, batch and context the precisions side by side, and what to take for each
phase.
"""

from __future__ import annotations

from collections.abc import Sequence

from reports.present.blocks import TableBlock, plain_text
from reports.present.layout import INDENT, Line, block_lines, headers_without_room, wrapped
from reports.present.models import model_tables, without_columns
from reports.present.words.model_text import model_notes, verdict_lines
from results.cases.case_result import CaseResult
from results.cases.model_results import ModelResult, model_results


def model_lines(cases: Sequence[CaseResult], width: int) -> list[Line]:
    """Return the blocks of the models among the cases, then once what their marks mean; nothing without a model."""
    models = [(result, list(model_tables(result))) for result in model_results(cases)]
    # Every block has the same columns: those that fit in the widest of them.
    left_out = dict.fromkeys(
        header for _, tables in models for each in tables for header in headers_without_room(each, width - len(INDENT))
    )
    lines: list[Line] = []
    for model, tables in models:
        lines += _block(model, [without_columns(each, list(left_out)) for each in tables], width)
        lines.append(Line(""))
    notes = model_notes(model for model, _ in models)
    if left_out:
        notes.append(f"{', '.join(left_out)} left out at this width: a wider terminal and `roofline show` have them")
    for note in notes:
        lines += wrapped(note, "light", width)
    return [*lines, Line("")] if notes else lines


def _block(model: ModelResult, tables: Sequence[TableBlock], width: int) -> list[Line]:
    lines = wrapped(model.title, "bold", width)
    for each in tables:
        lines += wrapped(f"{INDENT}{plain_text(each.title)}", "light", width, indent=INDENT * 2)
        lines += block_lines(each, width)
        lines.append(Line(""))
    for sentence in verdict_lines(model):
        lines += wrapped(f"{INDENT}→ {sentence}", "bold", width, indent=INDENT * 2)
    return lines
