"""What `predict` of an operator shares: what was asked beside the shape, and the printed table of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofline_cli.predict.prediction_rows import (
    Gains,
    gains,
    note_numbers,
    print_gaps,
    print_notes,
    provenance_sentence,
    show_doubts,
)
from roofline_cli.screen.tables import Cell, Column, show_line, show_table
from roofline_cli.shared.option_blocks import PredictOptions
from roofline_cli.shared.options import check_plot, find_chip, register_formats, split_list
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import reason_text, short_text
from roofline_model.formats.catalog import Pair, format_pair, pair_label

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.formats.catalog import NumberFormat
    from roofline_model.predictions.attention import AttentionPrediction
    from roofline_model.predictions.ffn import FfnPrediction
    from roofline_model.predictions.kernel import PredictionTable

    Row = AttentionPrediction | FfnPrediction
    Table = PredictionTable[AttentionPrediction] | PredictionTable[FfnPrediction]


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked beside the shape."""

    hardware: Device
    hardware_name: str
    """The chip as it was typed: what `roofline hardware show` understands, too."""
    formats: list[str] | None
    """Those of --formats; None: the default ones, and the user's own."""
    user_formats: tuple[NumberFormat, ...]
    """Formats of --formats-file."""

    @classmethod
    def read(cls, options: PredictOptions) -> Request:
        """Register the user's formats and find the chip. Raises a `RooflineError` naming the option that is wrong."""
        check_plot(options.plot, options.as_json)
        user_formats = register_formats(options.formats_file)
        return cls(find_chip(options.hw), options.hw, split_list(options.formats), tuple(user_formats))

    def pairs(self, stored: str, activation: str) -> list[Pair] | None:
        """Return the pairs of --formats, or None when it was not given.

        Raises `InvalidValueError` where what is `stored` (weight, cache) is wider than the `activation` it meets:
        kernels widen what is stored narrower and narrow nothing. Most often the two were written in the other order.
        """
        if self.formats is None:
            return None
        pairs = [format_pair(name) for name in self.formats]
        for pair in pairs:
            wide, narrow = pair
            if wide.element_bits > narrow.element_bits:
                raise InvalidValueError(
                    f"--formats {pair_label(pair)}: a {stored} in {wide.key} is wider than its {activation} in "
                    f"{narrow.key}, which "
                    f"no kernel computes; write {stored.upper()}.{activation.upper()}, e.g. {narrow.key}.{wide.key}, "
                    "or one format for both"
                )
        return pairs


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
