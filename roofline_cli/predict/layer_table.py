"""The table that `predict attention` and `predict ffn` print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import Column, table
from reports.present.screen import show, show_line
from roofline_cli.predict.prediction_rows import (
    note_numbers,
    print_gaps,
    print_notes,
    provenance_sentence,
    show_doubts,
)
from roofline_model.core.finding import reason_text, short_text

if TYPE_CHECKING:
    from roofline_cli.shared.option_blocks import Request
    from roofline_model.predictions.attention import AttentionPrediction
    from roofline_model.predictions.ffn import FfnPrediction
    from roofline_model.predictions.kernel import PredictionTable

    Row = AttentionPrediction | FfnPrediction
    Table = PredictionTable[AttentionPrediction] | PredictionTable[FfnPrediction]


def print_layer_table(
    request: Request, predictions: Table, names: Sequence[str], columns: Sequence[Column], remark: str
) -> None:
    """Print the rows with numbered notes, what was excluded, what the expected times rest on, and the `remark`.

    `columns`: of named rows.
    """
    rows: Sequence[Row] = predictions.predictions
    named_rows = list(zip(names, rows, strict=True))
    notes: list[str] = []
    doubts = set(predictions.findings)

    def numbers(named: tuple[str, Row]) -> str:
        return note_numbers((item for item in named[1].findings if item not in doubts), notes)

    show(table("formats", [*columns, Column("Notes", numbers)], named_rows))
    print_notes(notes, predictions.excluded)
    print_gaps((name, row.kernel_gap or row.engine_gap) for name, row in named_rows)
    _print_expected(rows)
    show_doubts(predictions.findings)
    source = provenance_sentence(rows[0].provenance, request.hardware, request.hardware_name)
    show_line(f"{remark} {source}", style="dim")


def _print_expected(rows: Sequence[Row]) -> None:
    """Say what the expected times rest on, or once why there are none."""
    timed = [row.expected for row in rows if row.expected is not None]
    if timed:
        origins = ", ".join(dict.fromkeys(each.provenance for each in timed))
        remarks = "; ".join(dict.fromkeys(short_text(item) for each in timed for item in each.findings))
        behind = f"; {remarks}" if remarks else ""
        show_line(f"Expected: what a good kernel of that chip reaches, constants {origins}{behind}.")
    for reason in dict.fromkeys(reason_text(row.expected_reason) for row in rows if row.expected is None):
        show_line(f"  {reason}")
