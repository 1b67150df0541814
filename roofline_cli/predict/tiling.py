"""`roofline tiling`: which tile a product gets on a chip, and what waves, occupancy and caches make of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.blocks import Paragraph
from reports.present.screen import present
from roofline_cli.screen.output_file import check_output, written_file
from roofline_cli.shared.group import typed_pairs
from roofline_cli.shared.options import (
    AllOption,
    ColumnsOption,
    FormatsFileOption,
    HardwareOption,
    InnerOption,
    JsonOption,
    RowsOption,
    find_chip,
    parse_size,
    register_formats,
)
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import short_text
from roofline_model.formats.catalog import format_pair, pair_label

if TYPE_CHECKING:
    from reports.present.blocks import Block
    from roofline_model.chips.hardware import Device
    from roofline_model.formats.catalog import Pair
    from roofline_model.predictions.product import Shape

COMMANDS = {
    "tiling": ("tiling", "Explain a product's tile: waves, occupancy, L2, bound."),
}


def tiling(
    M: RowsOption,
    N: ColumnsOption,
    K: InnerOption,
    hw: HardwareOption = "auto",
    formats: Annotated[
        str, typer.Option("--formats", metavar="FORMAT", help="One format, or WEIGHT.ACTIVATION, e.g. INT4.BF16.")
    ] = "BF16",
    cache: Annotated[
        str, typer.Option("--cache", metavar="cold|warm", help="Weights from memory, or still in the L2.")
    ] = "cold",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.png|svg", help="Draw the efficiency against N, up to 2N."),
    ] = None,
    formats_file: FormatsFileOption = None,
    show_all: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Explain a product's tile: waves, occupancy, L2, bound."""
    from reports.present.encoder import command_json
    from reports.present.predicted.tiles import tiling_blocks
    from roofline_model.predictions.tiling import product_tiling

    if cache not in ("cold", "warm"):
        raise InvalidValueError(f"--cache must be cold or warm, got {cache[:40]!r}")
    if output is not None:
        if output.suffix.lower() not in (".png", ".svg"):
            raise InvalidValueError(f"-o {output}: name a .png or .svg file")
        check_output(output, None)
    shape = (parse_size("M", M), parse_size("N", N), parse_size("K", K))
    register_formats(formats_file)
    pair = format_pair(formats)
    chip = find_chip(hw)
    answer = product_tiling(chip, shape, pair, cache=cache)
    if output is not None:
        _draw(output, chip, shape, pair, cache)
    place = "in DRAM" if cache == "cold" else "in L2"
    title = f"{'x'.join(map(str, shape))} {pair_label(pair)} on {chip.name}, weights {place}"

    def blocks() -> Iterator[Block]:
        if answer.tiling is not None:
            is_drawn = output is not None
            yield from tiling_blocks(title, answer.tiling, typed_pairs(), show_all=show_all, is_drawn=is_drawn)
        elif answer.tiling_reason is not None:
            yield Paragraph(f"{title}: {short_text(answer.tiling_reason)}")
        if output is not None:
            yield Paragraph(f"efficiency against N: {output}")

    present(lambda: {**command_json(answer), "plot": None if output is None else str(output)}, blocks, as_json=as_json)


def _draw(output: Path, chip: Device, shape: Shape, pair: Pair, cache: str) -> None:
    from reports.figures.drawing.matplotlib_drawer import draw_figure
    from reports.figures.tiling import efficiency_figure
    from roofline_model.predictions.tiling import product_curve

    rows, asked_columns, inner = shape
    curve = product_curve(chip, shape, pair, cache=cache)
    figure = efficiency_figure(
        curve,
        title=f"Efficiency against N: M = {rows}, K = {inner}, {pair_label(pair)}, {chip.name}",
        asked_columns=asked_columns,
    )
    with written_file(output) as place:
        draw_figure(figure).savefig(place, dpi=160)
