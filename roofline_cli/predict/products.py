"""`roofline predict`: how fast a product should run on a chip, for every format asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.answers.short_answer import ideal_words
from reports.present.blocks import Column, table
from reports.present.screen import intensity, show, show_json, show_line
from roofline_cli.predict import prediction_rows
from roofline_cli.shared.group import typed
from roofline_cli.shared.option_blocks import PredictOptions, Request, takes_blocks
from roofline_cli.shared.options import (
    ColumnsOption,
    GemvRowsOption,
    InnerOption,
    MeasuredTimeOption,
    RowsOption,
    parse_size,
)
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, reason_text
from roofline_model.formats.catalog import format_name, format_pair, get_format, short_name, split_precision
from roofline_model.operators.product import GEMV_MAX_ROWS
from roofline_model.predictions.kernel import fastest
from roofline_model.recommend.options import takes_both_operands

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.predictions.kernel import PredictionTable
    from roofline_model.predictions.product import ProductPrediction

COMMANDS = {
    "predict gemv": ("predict_gemv", "Predict y = x·W of a decode step (M from 1 to 16)."),
    "predict gemm": ("predict_gemm", "Predict C(M×N) = A(M×K)·B(K×N)."),
}


@takes_blocks
def predict_gemv(
    N: ColumnsOption,
    K: InnerOption,
    M: GemvRowsOption = "1",
    measured_us: MeasuredTimeOption = None,
    *,
    options: PredictOptions,
) -> None:
    """Predict y = x·W of a decode step (M from 1 to 16)."""

    rows = parse_size("M", M)
    if rows > GEMV_MAX_ROWS:
        raise InvalidValueError(
            f"predict gemv takes M from 1 to {GEMV_MAX_ROWS}, got {rows}; use `roofline predict gemm`"
        )
    _predict((rows, N, K), measured_us, options)


@takes_blocks
def predict_gemm(
    M: RowsOption, N: ColumnsOption, K: InnerOption, measured_us: MeasuredTimeOption = None, *, options: PredictOptions
) -> None:
    """Predict C(M×N) = A(M×K)·B(K×N)."""
    _predict((parse_size("M", M), N, K), measured_us, options)


def _predict(sizes: tuple[int, str, str], measured_us: str | None, options: PredictOptions) -> None:
    from reports.present.encoder import command_json
    from roofline_model.predictions.product import predict_products

    rows, N, K = sizes
    shape = (rows, parse_size("N", N), parse_size("K", K))
    request = Request.read(options)
    chip, hw = request.hardware, request.hardware_name
    table = predict_products(chip, shape, request.formats, request.user_formats)
    own_time = prediction_rows.judged_time(table.predictions, measured_us, request.hardware)
    if options.as_json:
        show_json({**command_json(table), **prediction_rows.own_time_json(own_time)})
        return
    prediction_rows.print_own_time(own_time)
    next_step = _next_step(table.predictions, named=request.formats)
    print_products(table, chip, next_step, named=request.formats, show_all=options.show_all)
    if options.show_all:
        show_line()
        print_table(table, chip, hw)
    if options.plot:
        print_plot(table, chip)


def print_products(
    table: PredictionTable[ProductPrediction],
    chip: Device,
    next_step: tuple[str, str] = ("", ""),
    *,
    named: Sequence[str] | None,
    show_all: bool,
) -> None:
    """Print the answer in a dozen lines. `next_step`: what to type next, and what it does; `named`: the formats, where
    the user named them.
    """
    rows = table.predictions
    title = f"{rows[0].op} M={rows[0].M} N={rows[0].N} K={rows[0].K}"
    names = list(map(_name, rows))
    prediction_rows.print_answer(
        rows,
        names,
        title,
        chip,
        next_step,
        are_named=bool(named),
        show_all=show_all,
        remark=_integers_alone(named or (), rows, chip),
    )


def _next_step(rows: Sequence[ProductPrediction], *, named: Sequence[str] | None) -> tuple[str, str]:
    """Return what to type next and what it does: the same product, its formats ranked."""
    first = rows[0]
    sizes = f"-M {first.M} -N {first.N} -K {first.K}"
    if named and any(get_format(row.weight_format).element_bits < 16 for row in rows):
        options = typed("--hw", "--formats", "--formats-file")
        return f"roofline compare {first.op} {sizes}{options} --no-measure", "weighs the loss"
    return f"roofline recommend {sizes}{typed('--hw', '--formats-file')}", "ranks formats"


def _integers_alone(named: Sequence[str], rows: Sequence[ProductPrediction], chip: Device) -> str:
    """Say of an integer that was named alone that its weights were meant, where unnamed it is both operands."""
    pairs = {row.weight_format: row for row in rows if row.weight_format != row.activation_format}
    for text in named:
        weight, activation = split_precision(text)
        row = pairs.get(weight.key)
        if activation is not None or weight.kind != "int" or row is None:
            continue
        if takes_both_operands(chip, weight, get_format(row.activation_format)):
            name = short_name(weight.key)
            return f"{name} alone is its weights ({row.operands}); {name}.{name} is both operands."
    return ""


def _name(row: ProductPrediction) -> str:
    return format_name(row.weight_format, row.activation_format)


def print_table(predictions: PredictionTable[ProductPrediction], chip: Device, hardware: str) -> None:
    """Print every column, the notes that rows refer to, and how far the numbers of the chip can be trusted.

    `hardware`: the chip as it was typed, what `roofline hardware show` understands, too.
    """
    from roofline_cli.predict.prediction_rows import print_gaps

    rows, notes = predictions.predictions, list[str]()
    first, names = rows[0], list(map(_name, rows))
    columns = (
        Column("Format", lambda named: named[0], is_head=True),
        *prediction_rows.time_columns(prediction_rows.time_prefix(rows)),
        Column("AI", lambda named: intensity(named[1].intensity_flop_per_byte), "number", drop=4),
        Column("Critical AI", lambda named: intensity(named[1].critical_intensity_flop_per_byte), "number", drop=5),
        *prediction_rows.gain_columns(rows),
        Column("Bound", lambda named: named[1].bound, drop=1),
        Column("Path", lambda named: named[1].path, drop=3),
        Column("Notes", lambda named: prediction_rows.note_numbers(_said_of(named[1], predictions.findings), notes)),
    )
    show(table("formats", columns, list(zip(names, rows, strict=True))))
    prediction_rows.print_notes(notes, predictions.excluded)
    print_gaps((name, row.kernel_gap or row.engine_gap) for name, row in zip(names, rows, strict=True))
    _print_untimed(rows)
    prediction_rows.show_doubts(predictions.findings)
    source = prediction_rows.provenance_sentence(first.provenance, chip, hardware)
    show_line(f"Ideal: {ideal_words(first.provenance)}; AI in FLOP/byte. {source}", style="dim")
    timed = [(row.weight_format, row.activation_format, row.expected.provenance) for row in rows if row.expected]
    for sentence in filter(None, (_expected_sentence(rows), prediction_rows.standing_sentence(timed))):
        show_line(sentence, style="dim")


def print_plot(table: PredictionTable[ProductPrediction], chip: Device) -> None:
    """Draw the rows on their roofs, with the expected roof of the fastest row."""
    from roofline_cli.plot.predicted import expected_roof, plotted_rows
    from roofline_cli.plot.view import show_predicted

    rows = table.predictions
    best = fastest(rows)
    roof = () if best.expected is None else expected_roof(best.N, best.K, format_pair(best.format), chip)
    swept = "" if best.expected is None else f"{_name(best)} at this N and K, M from 1 to 16,384"
    show_predicted(plotted_rows(rows, list(map(_name, rows))), roof, swept)


def _expected_sentence(rows: Sequence[ProductPrediction]) -> str:
    """Say what the expected times are and where they come from, or why there are none."""
    origins = list(dict.fromkeys(row.expected.provenance for row in rows if row.expected is not None))
    if not origins:
        return "" if rows[0].is_placeholder else reason_text(rows[0].expected_reason)
    return (
        "Expected: what a good kernel takes, launch included, with the interval that holds four times in five "
        f"({', '.join(origins)})."
    )


SAID_OF_EXPECTED = ("extrapolated", "pair-decoded", "other-result-format")
"""Findings of an expected time that stand beside a row of the table."""


def _said_of(row: ProductPrediction, doubts: Sequence[Finding]) -> list[Finding]:
    """Return the findings to print beside a row.

    Of its ideal time all but the `doubts`, which stand under the table; of its expected time those of
    `SAID_OF_EXPECTED`.
    """
    of_expected = () if row.expected is None else row.expected.findings
    return [
        *(item for item in row.findings if item not in doubts),
        *(item for item in of_expected if item.code in SAID_OF_EXPECTED),
    ]


def _print_untimed(rows: Sequence[ProductPrediction]) -> None:
    """Say why rows have no expected time where others have one, in one line per reason."""
    if all(row.expected is None for row in rows):
        return  # `_expected_sentence` says it
    for row in rows:
        if row.expected_reason is not None:
            show_line(f"  {reason_text(row.expected_reason)}")
