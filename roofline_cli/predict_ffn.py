"""`roofline predict ffn`: a feed-forward block on a chip, kernel by kernel, per format of weights and activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline_cli.options import (
    FormatsFileOption,
    FormatsOption,
    HardwareOption,
    JsonOption,
    format_pair,
    operands_label,
    pair_label,
    parse_size,
    register_formats,
    split_list,
)
from roofline_cli.screen import Cell, Column, show_json, show_line, show_table

if TYPE_CHECKING:
    from roofline_model.formats import NumberFormat
    from roofline_model.hardware import Device
    from roofline_model.operators import Operator
    from roofline_model.ops.operator_sequence import SequencePrediction

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
    as_json: JsonOption = False,
) -> None:
    """Predict a feed-forward block, kernel by kernel."""
    from roofline_cli.chips import find_chip

    shape = BlockShape(
        parse_size("--tokens", tokens), parse_size("--hidden", hidden), parse_size("--ffn-dim", ffn_dim), gate, fused, dynamic
    )  # fmt: skip
    own = register_formats(formats_file)
    chip = find_chip(hw)
    rows, left_out = block_rows(chip, shape, split_list(formats), own)
    if as_json:
        show_json(block_json(chip, shape, rows, left_out))
    else:
        _print(chip, hw, shape, rows, left_out)


def block_rows(
    hardware: Device, shape: BlockShape, formats: list[str] | None, own: Sequence[NumberFormat] = ()
) -> tuple[list[BlockRow], tuple[tuple[str, str], ...]]:
    """Predict one block in the formats asked for, else in the default ones and with weights in the user's `own`.

    A default format that the chip does not declare is left out with its reason; one that was asked for by name raises
    `UnsupportedError` when it cannot be computed. Cast kernels are counted where activations are narrower than 16 bits.
    """
    from roofline_cli.prediction_rows import baseline_format, declares_all
    from roofline_model.errors import InvalidValueError, UnsupportedError
    from roofline_model.formats import get_format
    from roofline_model.ops.operator_sequence import predict_sequence

    base = baseline_format(hardware)
    wide = get_format(base or "FP16")
    left_out: list[tuple[str, str]] = []
    if formats is None:
        narrow = [name for name in DEFAULT_PAIRS if declares_all(hardware, name)]
        left_out += [(name, f"{hardware.key} declares no {name} rate") for name in DEFAULT_PAIRS if name not in narrow]
        pairs = [(wide, wide), *(format_pair(name) for name in narrow)]
        pairs += [(get_format(name), wide) for name in ("INT8", "INT4")] + [(fmt, wide) for fmt in own]
    else:
        pairs = [format_pair(name) for name in formats]
    if shape.has_cast_kernels and not any(_is_narrow(activation) for _, activation in pairs):
        raise InvalidValueError(
            "--dynamic-activation-quantization needs a format with activations narrower than 16 bits; add one to --formats, e.g. FP8"
        )
    base_s = None if base is None else predict_sequence(_parts(shape, wide, wide), hardware).time_s
    rows: list[BlockRow] = []
    for weight, activation in pairs:
        try:
            found = predict_sequence(_parts(shape, weight, activation), hardware)
        except UnsupportedError as error:
            if formats is not None:
                raise
            left_out.append((pair_label((weight, activation)), str(error)))
            continue
        ratio = None if base_s is None else base_s / found.time_s
        rows.append(BlockRow(pair_label((weight, activation)), weight.key, activation.key, found, ratio))
    if not rows:
        raise UnsupportedError(
            f"{hardware.key} declares none of the default formats. Declared: {', '.join(sorted(hardware.paths)) or 'none'}; name some with --formats"
        )
    return rows, tuple(left_out)


def _is_narrow(fmt: NumberFormat) -> bool:
    return fmt.element_bits < 16


def _parts(shape: BlockShape, weight: NumberFormat, activation: NumberFormat) -> dict[str, Operator]:
    from roofline_model.ops.layer_ops import ffn_parts

    return ffn_parts(
        shape.tokens_count, shape.hidden_size, shape.ffn_size, a=activation, b=weight, gated=shape.is_gated,
        fused=shape.is_fused, dynamic_activation_quantization=shape.has_cast_kernels and _is_narrow(activation),
    )  # fmt: skip


def _print(
    hardware: Device, asked: str, shape: BlockShape, rows: list[BlockRow], left_out: tuple[tuple[str, str], ...]
) -> None:
    from roofline_cli.numbers import MISSING, common_time, intensity, speedup
    from roofline_cli.prediction_rows import baseline_format, note_numbers, print_notes, provenance_sentence

    notes: list[str] = []
    # The row with cast kernels has all the others', in the order they run.
    kernels = max(([part.name for part in row.prediction.parts] for row in rows), key=len)
    of_kernel = [{part.name: part.prediction.time_s for part in row.prediction.parts} for row in rows]
    shown = [common_time([times.get(name) for times in of_kernel]) for name in kernels]
    times = common_time([row.prediction.time_s for row in rows])
    lines: list[list[Cell]] = []
    for index, row in enumerate(rows):
        found = row.prediction
        lines.append(
            [
                row.label,
                operands_label(row.weight_format, row.activation_format),
                times[index],
                *(column[index] or MISSING for column in shown),
                intensity(found.intensity_flop_per_byte),
                speedup(row.speedup_ratio),
                found.bound,
                found.path,
                note_numbers(found.notes, notes),
            ]
        )
    columns = (
        Column("Format"), Column("Operands"), Column("Time", "right"), *(Column(name, "right", drop=2) for name in kernels), Column("AI", "right"),
        Column(f"vs {baseline_format(hardware) or '16-bit'}", "right"), Column("Bound"), Column("Path", drop=1), Column("Notes"),
    )  # fmt: skip
    kind = "gated" if shape.is_gated else "without a gate"
    title = f"ffn ({kind}) of {shape.tokens_count} token{'' if shape.tokens_count == 1 else 's'}, {shape.hidden_size} to {shape.ffn_size} and back, on {hardware.key}: {hardware.name}"
    show_table(columns, lines, title=title)
    print_notes(notes, left_out)
    show_line(
        f"Ideal times (speed of light), one kernel after the other; AI in FLOP/byte. {provenance_sentence(rows[0].prediction.provenance, hardware, asked)}",
        style="dim",
    )


def block_json(
    hardware: Device, shape: BlockShape, rows: list[BlockRow], left_out: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    """Return the rows as one JSON document; every key ends in its unit."""
    from roofline_cli.prediction_rows import baseline_format, timing_json

    return {
        "hardware": hardware.key,
        "hardware_name": hardware.name,
        "is_placeholder": hardware.is_placeholder,
        "op": "ffn",
        "tokens": shape.tokens_count,
        "hidden": shape.hidden_size,
        "ffn_dim": shape.ffn_size,
        "is_gated": shape.is_gated,
        "is_fused": shape.is_fused,
        "dynamic_activation_quantization": shape.has_cast_kernels,
        "baseline_format": baseline_format(hardware),
        "predictions": [
            {
                "format": row.label,
                "weight_format": row.weight_format,
                "activation_format": row.activation_format,
                "operands": operands_label(row.weight_format, row.activation_format),
                **timing_json(row.prediction, row.speedup_ratio),
                "model_version": row.prediction.parts[0].prediction.model_version,
                "kernels": [
                    {
                        "name": part.name,
                        "op": part.work.op,
                        "time_s": part.prediction.time_s,
                        "bound": part.prediction.bound,
                        "flops": part.prediction.flops,
                        "read_bytes": part.prediction.read_bytes,
                        "write_bytes": part.prediction.write_bytes,
                    }
                    for part in row.prediction.parts
                ],
            }
            for row in rows
        ],
        "left_out": [{"format": label, "reason": reason} for label, reason in left_out],
    }
