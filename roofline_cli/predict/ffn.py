"""`roofline predict ffn`: a feed-forward block on a chip, kernel by kernel, per format of weights and activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline_cli.predict.layer_table import (
    LayerTable,
    LeftOut,
    Request,
    asked_pairs,
    layer_json,
    layer_table,
    print_layer_table,
)
from roofline_cli.screen.tables import Column, show_json
from roofline_cli.shared.options import (
    FormatsFileOption,
    FormatsOption,
    HardwareOption,
    JsonOption,
    PlotOption,
    check_plot,
    format_pair,
    operands_label,
    parse_size,
)
from roofline_model.core.finding import Finding, reason_text
from roofline_model.core.units import counted

if TYPE_CHECKING:
    from roofline_cli.predict.layer_table import Pair
    from roofline_model.formats.catalog import NumberFormat
    from roofline_model.ideal.operator_sequence import PartPrediction, SequencePrediction
    from roofline_model.models.step_expected import ExpectedSequence, KernelExpectation
    from roofline_model.operators.product import Operator

DEFAULT_PAIRS = ("FP8_E4M3", "INT8", "NVFP4")
"""Formats of weights and activations together, shown by default behind 16 bits; weight-only INT8 and INT4 follow."""


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What was asked: tokens, sizes, and which kernels the block is made of."""

    tokens_count: int
    hidden_size: int
    ffn_size: int
    is_gated: bool
    is_fused: bool
    has_cast_kernels: bool


@dataclass(frozen=True, slots=True)
class BlockRow:
    """One row: weight and activation format, and the kernels in sequence."""

    label: str
    weight_format: str
    activation_format: str
    prediction: SequencePrediction
    speedup_ratio: float | None
    kernels: tuple[KernelExpectation | None, ...]
    """Expected time of each kernel of `prediction`; None for one that has none."""
    no_expected_reason: str
    """Which kernel has no expected time, and why; empty when all have."""
    kernel_gap: Finding | None = None
    """Why no kernel is known to run the block's products on the chip; None where none is known to be missing."""
    engine_gap: Finding | None = None
    """Which serving engines lack a kernel for them here, where a library has one."""

    @property
    def expected(self) -> ExpectedSequence | None:
        """What good kernels reach one after the other; None when one of them has no expected time: a part is no whole."""
        from roofline_model.models.step_expected import expected_sequence

        return expected_sequence(self.kernels)


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
    hw: HardwareOption = "auto",
    formats: FormatsOption = None,
    formats_file: FormatsFileOption = None,
    plot: PlotOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict a feed-forward block, kernel by kernel."""
    shape = BlockShape(
        parse_size("--tokens", tokens),
        parse_size("--hidden", hidden),
        parse_size("--ffn-dim", ffn_dim),
        gate,
        fused,
        dynamic,
    )
    check_plot(plot, as_json)
    table = block_table(Request.read(hw, formats, formats_file), shape)
    if as_json:
        show_json(block_json(shape, table))
        return
    _print(shape, table)
    if plot:
        _plot(table)


def _plot(table: LayerTable[BlockRow]) -> None:
    """Draw every kernel of the block: those of a format share its letter."""
    from roofline_cli.plot.predicted import PlottedPrediction
    from roofline_cli.plot.sources import letter_of
    from roofline_cli.plot.view import show_predicted

    show_predicted(
        [
            PlottedPrediction(
                letter_of(index),
                row.label,
                part.prediction.compute_format,
                part.prediction,
                None if kernel is None else kernel.time_s,
            )
            for index, row in enumerate(table.rows)
            for part, kernel in zip(row.prediction.parts, row.kernels, strict=True)
        ]
    )


def block_table(request: Request, shape: BlockShape) -> LayerTable[BlockRow]:
    """Predict one block in the formats asked for, else in the default ones and with weights in the user's own.

    Cast kernels are counted where activations are narrower than 16 bits; raises `InvalidValueError` when they were asked
    for and none are.
    """
    from roofline_model.core.errors import InvalidValueError
    from roofline_model.ideal.operator_sequence import predict_sequence
    from roofline_model.kernels.known_kernels import engine_gap, kernel_gap
    from roofline_model.models.decoder_step import StepKernel
    from roofline_model.models.step_expected import expected_kernels, why_no_kernels

    hardware, asked = request.hardware, asked_pairs(request, "weight", "activation")
    pairs, left_out = _default_pairs(request) if asked is None else (asked, [])
    if shape.has_cast_kernels and not any(_is_narrow(activation) for _, activation in pairs):
        raise InvalidValueError(
            "--dynamic-activation-quantization needs a format with activations narrower than 16 bits; add one to --formats, e.g. FP8"
        )

    def ideal(weight: NumberFormat, activation: NumberFormat) -> SequencePrediction:
        return predict_sequence(_parts(shape, weight, activation), hardware)

    def row(label: str, pair: Pair, found: SequencePrediction, speedup_ratio: float | None) -> BlockRow:
        weight, activation = pair
        steps = [StepKernel(part.name, part.work, 1) for part in found.parts]
        kernels = expected_kernels(steps, hardware)
        why = reason_text(why_no_kernels(steps, hardware)) if None in kernels else ""
        gaps = kernel_gap(hardware, weight.key, activation.key), engine_gap(hardware, weight.key, activation.key)
        return BlockRow(label, weight.key, activation.key, found, speedup_ratio, kernels, why, *gaps)

    return layer_table(request, pairs, left_out, ideal, row)


def _default_pairs(request: Request) -> tuple[list[Pair], list[LeftOut]]:
    """Return 16 bits, the formats that the chip multiplies in, then weight-only ones."""
    from roofline_cli.predict.prediction_rows import declares_all
    from roofline_model.formats.catalog import get_format

    hardware, wide = request.hardware, request.wide
    narrow = [name for name in DEFAULT_PAIRS if declares_all(hardware, name)]
    left_out = [(name, f"{hardware.key} declares no {name} rate") for name in DEFAULT_PAIRS if name not in narrow]
    pairs = [(wide, wide), *(format_pair(name) for name in narrow)]
    pairs += [(get_format(name), wide) for name in ("INT8", "INT4")] + [(fmt, wide) for fmt in request.own]
    return pairs, left_out


def _is_narrow(fmt: NumberFormat) -> bool:
    return fmt.element_bits < 16


def _parts(shape: BlockShape, weight: NumberFormat, activation: NumberFormat) -> dict[str, Operator]:
    from roofline_model.operators.layers import ffn_parts
    from roofline_model.operators.product import stored_weight

    stored = stored_weight(weight, activation)
    return ffn_parts(
        shape.tokens_count,
        shape.hidden_size,
        shape.ffn_size,
        a=activation,
        b=stored,
        gated=shape.is_gated,
        fused=shape.is_fused,
        dynamic_activation_quantization=shape.has_cast_kernels and _is_narrow(activation),
    )


def _print(shape: BlockShape, table: LayerTable[BlockRow]) -> None:
    from roofline_cli.predict.prediction_rows import time_columns
    from roofline_cli.screen.tables import MISSING, intensity

    rows, gained = table.rows, table.gains
    # The row with cast kernels has all the others', in the order they run.
    kernels = max(([part.name for part in row.prediction.parts] for row in rows), key=len)
    of_kernel = [{part.name: part.prediction.time_s for part in row.prediction.parts} for row in rows]
    times = time_columns(
        [row.prediction for row in rows],
        [row.expected for row in rows],
        [one.get(name) for name in kernels for one in of_kernel],
    )
    shown = [times.others[len(rows) * index : len(rows) * (index + 1)] for index in range(len(kernels))]
    cells = [
        [
            row.label,
            operands_label(row.weight_format, row.activation_format),
            times.ideal[index],
            times.expected[index],
            times.intervals[index],
            *(column[index] or MISSING for column in shown),
            intensity(row.prediction.intensity_flop_per_byte),
            gained.ideal[index],
            gained.values[index],
            row.prediction.bound,
            row.prediction.path,
        ]
        for index, row in enumerate(rows)
    ]
    columns = (
        Column("Format"),
        Column("Operands", drop=3),
        Column("Ideal", "right"),
        Column("Expected", "right", hide_empty=True),
        Column("80 % within", "right", drop=1, hide_empty=True),
        *(Column(name, "right", drop=5) for name in kernels),
        Column("AI", "right", drop=2),
        Column(gained.ideal_header, "right", drop=6, hide_empty=True),
        Column(gained.header, "right"),
        Column("Bound", drop=1),
        Column("Path", drop=4),
    )
    kind = "gated" if shape.is_gated else "without a gate"
    title = f"ffn ({kind}) of {counted(shape.tokens_count, 'token')}, {shape.hidden_size} to {shape.ffn_size} and back,"
    remark = "Ideal is the speed of light, of each kernel and of all one after the other; AI in FLOP/byte."
    print_layer_table(table, title, columns, cells, remark)


def block_json(shape: BlockShape, table: LayerTable[BlockRow]) -> dict[str, Any]:
    """Return the rows as one JSON document; every key ends in its unit."""

    def formats(row: BlockRow) -> dict[str, Any]:
        return {
            "weight_format": row.weight_format,
            "activation_format": row.activation_format,
            "operands": operands_label(row.weight_format, row.activation_format),
        }

    def details(row: BlockRow) -> dict[str, Any]:
        parts = row.prediction.parts
        return {
            "model_version": parts[0].prediction.model_version,
            "kernels": [_kernel_json(part, one) for part, one in zip(parts, row.kernels, strict=True)],
        }

    asked = {
        "tokens": shape.tokens_count,
        "hidden": shape.hidden_size,
        "ffn_dim": shape.ffn_size,
        "is_gated": shape.is_gated,
        "is_fused": shape.is_fused,
        "dynamic_activation_quantization": shape.has_cast_kernels,
    }
    return layer_json(table, "ffn", asked, formats, details)


def _kernel_json(part: PartPrediction, expected: KernelExpectation | None) -> dict[str, Any]:
    return {
        "name": part.name,
        "op": part.work.op,
        "time_s": part.prediction.time_s,
        "bound": part.prediction.bound,
        "flops": part.prediction.flops,
        "read_bytes": part.prediction.read_bytes,
        "write_bytes": part.prediction.write_bytes,
        "expected_s": None if expected is None else expected.time_s,
        "expected_low_s": None if expected is None else expected.low_s,
        "expected_high_s": None if expected is None else expected.high_s,
        "expected_binding": None if expected is None else expected.binding,
        "expected_provenance": None if expected is None else expected.provenance,
    }
