"""`roofline predict ffn`: a feed-forward block on a chip, kernel by kernel, per format of weights and activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reports.answers.short_answer import ideal_words
from reports.present.blocks import Column
from reports.present.screen import intensity, show_json, show_line
from roofline_cli.predict.layer_table import print_layer_table
from roofline_cli.predict.prediction_rows import gain_columns, print_answer, time_columns, time_prefix
from roofline_cli.shared.group import typed
from roofline_cli.shared.option_blocks import PredictOptions, Request, takes_blocks
from roofline_cli.shared.options import parse_size
from roofline_model.core.units import counted, in_prefix
from roofline_model.formats.catalog import format_name

if TYPE_CHECKING:
    from roofline_model.predictions.ffn import FfnPrediction, FfnQuestion
    from roofline_model.predictions.kernel import PredictionTable

COMMANDS = {
    "predict ffn": ("predict_ffn", "Predict a feed-forward block, kernel by kernel."),
}


@takes_blocks
def predict_ffn(
    hidden: Annotated[str, typer.Option("--hidden", metavar="INT", help="Size of the residual stream.")],
    ffn_dim: Annotated[str, typer.Option("--ffn-dim", metavar="INT", help="Size of the layer in between.")],
    tokens: Annotated[
        str, typer.Option("--tokens", metavar="INT", help="Tokens computed together: batch × length.")
    ] = "1",
    gate: Annotated[
        bool, typer.Option("--gate/--no-gate", help="SwiGLU (gate, up, down), or up and down with GELU.")
    ] = True,
    fused: Annotated[bool, typer.Option("--fused", help="Gate, up and the activation function in one kernel.")] = False,
    dynamic: Annotated[
        bool,
        typer.Option(
            "--dynamic-activation-quantization", help="Count the kernels that cast activations narrower than 16 bits."
        ),
    ] = False,
    *,
    options: PredictOptions,
) -> None:
    """Predict a feed-forward block, kernel by kernel."""
    from reports.present.encoder import command_json
    from roofline_model.predictions.ffn import FfnQuestion, predict_ffns

    question = FfnQuestion(
        parse_size("--tokens", tokens),
        parse_size("--hidden", hidden),
        parse_size("--ffn-dim", ffn_dim),
        gate,
        fused,
        dynamic,
    )
    request = Request.read(options)
    table = predict_ffns(request.hardware, question, request.pairs("weight", "activation"), request.user_formats)
    if options.as_json:
        show_json(command_json(table))
        return
    _print_answer(request, question, table, show_all=options.show_all)
    if options.show_all:
        show_line()
        _print_all(request, table)
    if options.plot:
        _plot(table.predictions)


def _plot(rows: Sequence[FfnPrediction]) -> None:
    """Draw every kernel of the block: those of a format share its letter."""
    from roofline_cli.plot.figure import letter_of
    from roofline_cli.plot.predicted import PlottedPrediction
    from roofline_cli.plot.view import show_predicted

    show_predicted(
        [
            PlottedPrediction(
                letter_of(index),
                format_name(row.weight_format, row.activation_format),
                kernel.ideal,
                None if kernel.expected is None else kernel.expected.time_s,
            )
            for index, row in enumerate(rows)
            for kernel in row.kernels
        ]
    )


def _print_answer(
    request: Request, question: FfnQuestion, table: PredictionTable[FfnPrediction], *, show_all: bool
) -> None:
    kind = "gated" if question.is_gated else "without a gate"
    tokens = counted(question.tokens_count, "token")
    sizes = f"{question.hidden_size} to {question.ffn_size} and back"
    names = [format_name(row.weight_format, row.activation_format) for row in table.predictions]
    title = f"ffn ({kind}) of {tokens}, {sizes}"
    columns = question.ffn_size * (2 if question.is_gated else 1)
    product = f"-M {question.tokens_count} -N {columns} -K {question.hidden_size}"
    next_step = (
        f"roofline recommend {product}{typed('--hw', '--formats-file')}",
        "ranks formats for its first product",
    )
    print_answer(
        table.predictions,
        names,
        title,
        request.hardware,
        next_step,
        are_named=request.formats is not None,
        show_all=show_all,
    )


def _print_all(request: Request, table: PredictionTable[FfnPrediction]) -> None:
    rows, prefix = table.predictions, time_prefix(table.predictions)
    names = [format_name(row.weight_format, row.activation_format) for row in rows]
    # The row with cast kernels has all the others', in the order they run.
    kernels = max(([kernel.name for kernel in row.kernels] for row in rows), key=len)

    def ideal_of(kernel: str) -> Callable[[tuple[str, FfnPrediction]], str]:
        return lambda named: in_prefix(
            next((each.ideal.time_s for each in named[1].kernels if each.name == kernel), None), prefix
        )

    columns = (
        Column("Format", lambda named: named[0], is_head=True),
        *time_columns(prefix),
        *(Column(kernel, ideal_of(kernel), "number", drop=5) for kernel in kernels),
        Column("AI", lambda named: intensity(named[1].intensity_flop_per_byte), "number", drop=2),
        *gain_columns(rows),
        Column("Bound", lambda named: named[1].bound, drop=1),
        Column("Path", lambda named: named[1].path, drop=4),
    )
    remark = (
        f"Ideal is {ideal_words(rows[0].provenance)}, of each kernel and of all one after the other; AI in FLOP/byte."
    )
    print_layer_table(request, table, names, columns, remark)
