"""The table that `predict attention` and `predict ffn` print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.present.screen import Cell, Column, show_line, show_table
from roofline_cli.predict.prediction_rows import (
    Gains,
    gains,
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


def row_gains(rows: Sequence[Row]) -> Gains:
    """Return the speed-up columns of a table."""
    return gains(
        rows[0].baseline_format, [row.speedup_ratio for row in rows], [row.expected_speedup_ratio for row in rows]
    )


def print_layer_table(
    request: Request, table: Table, columns: Sequence[Column], cells: Sequence[Sequence[Cell]], remark: str
) -> None:
    """Print the rows with numbered notes, what was excluded, what the expected times rest on, and the `remark`.

    `cells`: the name of a row's formats is the first.
    """
    rows: Sequence[Row] = table.predictions
    notes: list[str] = []
    doubts = set(table.findings)
    lines = [
        [*cell, note_numbers((item for item in row.findings if item not in doubts), notes)]
        for row, cell in zip(rows, cells, strict=True)
    ]
    chip = request.hardware
    show_table([*columns, Column("Notes")], lines)
    print_notes(notes, table.excluded)
    print_gaps((str(own[0]), row.kernel_gap or row.engine_gap) for row, own in zip(rows, cells, strict=True))
    _print_expected(rows)
    show_doubts(table.findings)
    show_line(f"{remark} {provenance_sentence(rows[0].provenance, chip, request.hardware_name)}", style="dim")


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
