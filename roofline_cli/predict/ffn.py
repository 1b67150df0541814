"""`roofline predict ffn`: a feed-forward block on a chip, kernel by kernel, per format of weights and activations."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline_cli.predict.kernels import show_kernels
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.option_blocks import PredictOptions, Request, takes_blocks
from roofline_cli.shared.options import parse_size

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
    from reports.present.predicted.kernels import ffn_blocks
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
    chip = request.hardware
    table = predict_ffns(chip, question, request.pairs("weight", "activation"), request.user_formats)
    is_named, all_rows = request.formats is not None, options.show_all
    blocks = ffn_blocks(
        table, question, chip, request.hardware_name, typed_pairs(), are_named=is_named, show_all=all_rows
    )
    show_kernels(table, blocks, as_json=options.as_json)
    if options.plot:
        from roofline_cli.plot.figure import letter_of
        from roofline_cli.plot.predicted import PlottedPrediction
        from roofline_cli.plot.view import show_predicted

        # The kernels of a format share its letter.
        show_predicted(
            [
                PlottedPrediction(
                    letter_of(index),
                    row.formats_name,
                    kernel.ideal,
                    None if kernel.expected is None else kernel.expected.time_s,
                )
                for index, row in enumerate(table.predictions)
                for kernel in row.kernels
            ]
        )
