"""`roofline tiling`: which tile a product gets on a chip, and what waves, occupancy and caches make of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline_cli.options import (
    ColumnsOption,
    FormatsFileOption,
    HardwareOption,
    InnerOption,
    JsonOption,
    RowsOption,
    format_pair,
    pair_label,
    parse_size,
    product,
    register_formats,
)
from roofline_cli.screen import Column, show_json, show_line, show_table

if TYPE_CHECKING:
    from roofline_model.hardware import Device
    from roofline_model.operators import Operator
    from roofline_model.tiling import Tiling

CURVE_STEP = 32
CURVE_POINTS = 1024
_MEANINGS = {
    "launch": "launch floor: the shortest this kernel can be",
    "tensor": "tensor pipe",
    "dram": "DRAM traffic",
    "l2": "operands refetched from L2, output written",
    "sm": "load path of one SM",
    "latency": "serial k loop",
    "waves": "prologue and epilogue of further waves",
    "split": "split-K: partial sums written, read and added",
    "cast": "quantising the activations",
    "serial": "serial part of the GEMV kernel",
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
    as_json: JsonOption = False,
) -> None:
    """Explain a product's tile: waves, occupancy, L2, bound."""
    from roofline_cli.chips import find_chip
    from roofline_model.errors import InvalidValueError
    from roofline_model.tiling import gemm_tiling as choose

    if cache not in ("cold", "warm"):
        raise InvalidValueError(f"--cache must be cold or warm, got {cache[:40]!r}")
    if output is not None and output.suffix.lower() not in (".png", ".svg"):
        raise InvalidValueError(f"-o {output}: name a .png or .svg file")
    shape = (parse_size("M", M), parse_size("N", N), parse_size("K", K))
    register_formats(formats_file)
    pair = format_pair(formats)
    chip = find_chip(hw)
    work = product(*shape, pair)
    found = choose(work, chip, cache=cache)
    if output is not None:
        _draw(output, chip, work, pair_label(pair), cache)
    if as_json:
        show_json(
            {"tiling": None if found is None else _document(found), "plot": None if output is None else str(output)}
        )
        return
    title = f"{'x'.join(map(str, shape))} {pair_label(pair)} on {chip.name}, weights {'in DRAM' if cache == 'cold' else 'in L2'}"
    if found is None:
        show_line(f"{title}: the library runs its GEMV kernel here, which has no tiles; it streams the weights once")
    else:
        _show(title, found)
    if output is not None:
        show_line(f"efficiency against N: {output}")


def _show(title: str, found: Tiling) -> None:
    from roofline_cli.numbers import decimal_bytes
    from roofline_model.units import format_percent, format_time

    used = found.occupancy
    per_sm = f"{used.block_count} block{'s' if used.block_count > 1 else ''} per SM"
    split = f", k in {found.split_count} slices" if found.split_count > 1 else ""
    rows: list[list[Any]] = [
        ["tile", f"{found.tile_m} x {found.tile_n} x {used.tile_k}{split}", f"{found.kernel_family} kernels"],
        ["blocks", f"{found.block_count}", f"{found.grid_m_count} x {found.grid_n_count}{f' x {found.split_count}' if found.split_count > 1 else ''} on {found.sm_count} SMs"],
        ["waves", f"{found.wave_count}", f"{found.blocks_per_sm_ratio:.2f} blocks per SM on average"],
        ["tail", f"{found.tail_ratio:.0%}", "SM time idle because blocks do not divide evenly"],
        ["padding", f"{found.padding_ratio:.0%}", "tile area outside the output"],
        ["occupancy", per_sm, f"limited by {used.limiter}; {used.warp_ratio:.0%} of the warps"],
        ["block", f"{used.thread_count} threads", f"{used.registers_per_thread_count} registers each, {used.shared_bytes / 1024:.0f} KiB shared, {used.stage_count} stages"],
        ["L2 hits", f"{found.l2_hit_ratio:.0%}", f"of {decimal_bytes(found.requested_bytes)} that the blocks ask for"],
        ["beyond compulsory", decimal_bytes(found.beyond_compulsory_bytes), f"A and B once are {decimal_bytes(found.operand_bytes)}; DRAM moves {decimal_bytes(found.dram_bytes)}"],
        ["expected", format_time(found.expected_s), f"80 %: {format_time(found.low_s)} to {format_time(found.high_s)}, {found.provenance}"],
        ["of peak", format_percent(found.efficiency_ratio), f"of {found.peak_flops_per_s / 1e12:.4g} TFLOP/s dense"],
        ["bound", found.bound, _MEANINGS.get(found.bound, "")],
    ]  # fmt: skip
    show_table(
        (Column("What"), Column("Value", "right"), Column("Meaning", is_prose=True, least=20)), rows, title=title
    )
    show_line()
    parts = sorted(found.parts_s.items(), key=lambda part: -part[1])
    shown = [[name, format_time(time_s), format_percent(time_s / found.expected_s), _MEANINGS.get(name, "")] for name, time_s in parts if time_s > 0.005 * found.expected_s]  # fmt: skip
    show_table(
        (Column("Part"), Column("Time", "right"), Column("Share", "right"), Column("What it is", is_prose=True, least=20)),
        shown, title="Where the expected time goes",
    )  # fmt: skip


def _document(found: Tiling) -> dict[str, Any]:
    from dataclasses import asdict

    derived = ("block_count", "blocks_per_sm_ratio", "wave_count", "tail_ratio", "padding_ratio", "beyond_compulsory_bytes", "efficiency_ratio")  # fmt: skip
    return {**asdict(found), **{name: getattr(found, name) for name in derived}}


def _draw(output: Path, chip: Device, work: Operator, formats: str, cache: str) -> None:
    from reports.tiling_plot import draw_efficiency
    from roofline_cli.output_file import check_output, one_line_errors, written_together
    from roofline_model.tiling import efficiency_curve

    sizes, named = dict(work.shape), dict(work.formats)
    last = 2 * sizes["N"]
    step = max(CURVE_STEP, -(-last // CURVE_POINTS // CURVE_STEP) * CURVE_STEP)
    columns = sorted({*range(step, last + 1, step), sizes["N"]})
    curve = efficiency_curve(
        sizes["M"], sizes["K"], columns, chip, a=named["a"], b=named["b"], c=named["c"], cache=cache
    )
    figure = draw_efficiency(
        curve, title=f"Efficiency against N: M = {sizes['M']}, K = {sizes['K']}, {formats}, {chip.name}", asked_columns=sizes["N"]
    )  # fmt: skip
    check_output(output, None)
    with one_line_errors(output), written_together(output) as folder:
        figure.savefig(folder / output.name, dpi=160)
