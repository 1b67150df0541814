"""`roofline tiling`: which tile a product gets on a chip, and what waves, occupancy and caches make of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.answers.short_answer import option_words
from reports.present.blocks import Column, table
from reports.present.screen import MISSING, show, show_json, show_line, show_more, show_next
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
from roofline_model.core.units import counted, format_memory, format_percent, format_time, in_prefix, shared_prefix
from roofline_model.formats.catalog import format_pair, pair_label

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.formats.catalog import Pair
    from roofline_model.predictions.product import Shape
    from roofline_model.tiling.waves import Tiling

COMMANDS = {
    "tiling": ("tiling", "Explain a product's tile: waves, occupancy, L2, bound."),
}

_MEANINGS = {
    "launch": "launch floor: the shortest this kernel can be",
    "tensor": "tensor pipe",
    "dram": "DRAM traffic",
    "l2": "operands refetched from L2, output written",
    "sm": "load path of one SM",
    "latency": "serial k loop",
    "waves": "prologue and epilogue of further waves",
    "dequantize": "widening the weights",
    "split": "split-K: partial sums written, read and added",
    "cast": "quantising the activations",
    "serial": "serial part of the GEMV kernel",
    "library": "what this chip's library takes beyond the formulas",
}
SHOWN_SHARE = 0.005
"""Parts below this share of the time are shown as one."""


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
    from roofline_model.predictions.tiling import product_tiling

    if cache not in ("cold", "warm"):
        raise InvalidValueError(f"--cache must be cold or warm, got {cache[:40]!r}")
    if output is not None and output.suffix.lower() not in (".png", ".svg"):
        raise InvalidValueError(f"-o {output}: name a .png or .svg file")
    if output is not None:
        check_output(output, None)
    shape = (parse_size("M", M), parse_size("N", N), parse_size("K", K))
    register_formats(formats_file)
    pair = format_pair(formats)
    chip = find_chip(hw)
    answer = product_tiling(chip, shape, pair, cache=cache)
    if output is not None:
        _draw(output, chip, shape, pair, cache)
    if as_json:
        show_json({**command_json(answer), "plot": None if output is None else str(output)})
        return
    title = (
        f"{'x'.join(map(str, shape))} {pair_label(pair)} on {chip.name}, weights "
        f"{'in DRAM' if cache == 'cold' else 'in L2'}"
    )
    if answer.tiling is not None:
        _show_answer(title, answer.tiling, show_all=show_all, is_drawn=output is not None)
        if show_all:
            _show(title, answer.tiling)
    elif answer.tiling_reason is not None:
        show_line(f"{title}: {short_text(answer.tiling_reason)}")
    if output is not None:
        show_line(f"efficiency against N: {output}")


_ANSWER_ROW_COUNT = 5
"""Rows of the answer's table: the largest parts of the expected time."""


def _show_answer(title: str, tiling: Tiling, *, show_all: bool, is_drawn: bool) -> None:
    """Print what the tile costs, where the time goes, and what to type next: a dozen lines."""
    tile = f"{tiling.tile_m} x {tiling.tile_n} x {tiling.occupancy.tile_k}"
    waves = f"{counted(tiling.block_count, 'block')} on {tiling.sm_count} SMs in {counted(tiling.wave_count, 'wave')}"
    tail = f"{tiling.tail_ratio:.0%} idle in the tail"
    if tiling.expected_s is None:
        _show_without_time(title, tiling, f"Tile {tile}: {waves}, {tail}.", show_all=show_all)
        return
    bound = _MEANINGS.get(tiling.bound, tiling.bound)
    interval = f"{_seconds(tiling.low_s)} to {_seconds(tiling.high_s)}"
    share = _percent(tiling.efficiency_ratio)
    show_line(f"{share} of peak: expected {format_time(tiling.expected_s)} ({interval}), bound by {bound}.", "bold")
    show_line(f"{title}.", "dim")
    parts = table("parts", _part_columns(tiling), _parts(tiling)[:_ANSWER_ROW_COUNT], says_what_is_left_out=False)
    show(parts)
    if not show_all:
        show_line("Parts run at the same time: the longest alone is the bound, each adds its share.", "dim")
    show_line(f"Tile {tile}: {waves}, {tail}, {_hits(tiling)} L2 hits.", "dim")
    if not is_drawn:
        show_next(f"roofline tiling{option_words(typed_pairs())} -o tiling.png", "draws the efficiency against N")
    show_more("shows occupancy, padding, bytes and every part", is_shown=show_all)


def _show_without_time(title: str, tiling: Tiling, waves: str, *, show_all: bool) -> None:
    """Print the tile of a chip without constants: what needs none, and what stands in."""
    used = tiling.occupancy
    show_line(waves, "bold")
    show_line(f"{title}.", "dim")
    show_line(
        f"{counted(used.block_count, 'block')} per SM, limited by {used.limiter}; {used.shared_bytes / 1024:.0f} KiB "
        f"shared memory each; {tiling.padding_ratio:.0%} padding."
    )
    for item in tiling.findings:
        show_line(f"{short_text(item)}.", "yellow")
    show_more("shows bytes and every limit", is_shown=show_all)


def _hits(tiling: Tiling) -> str:
    return "–" if tiling.l2_hit_ratio is None else f"{tiling.l2_hit_ratio:.0%}"


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else format_percent(ratio)


def _seconds(time_s: float | None) -> str:
    return "–" if time_s is None else format_time(time_s)


def _show(title: str, tiling: Tiling) -> None:
    show(table("facts", _FACTS, _facts(tiling), title=title))
    if tiling.expected_s is None:
        return
    show(table("parts", _part_columns(tiling), _parts(tiling), title="Where the expected time goes"))
    show_line(
        "Alone: what each part would take by itself. tensor, DRAM, L2, SM and latency run at the same time: what each "
        "adds "
        "is its share of their joint time, not a time of its own. The shares add up to the expected time.",
        "dim",
    )


_FACTS = (
    Column("What", lambda fact: fact[0], is_head=True),
    Column("Value", lambda fact: fact[1], "number"),
    Column("Meaning", lambda fact: fact[2], "prose", least=20),
)


def _facts(tiling: Tiling) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of all that is known of a tile; without a time, of what needs none."""
    used = tiling.occupancy
    per_sm = f"{used.block_count} block{'s' if used.block_count > 1 else ''} per SM"
    split = f", k in {tiling.split_count} slices" if tiling.split_count > 1 else ""
    rows = [
        ("tile", f"{tiling.tile_m} x {tiling.tile_n} x {used.tile_k}{split}", f"{tiling.kernel_family} kernels"),
        (
            "blocks",
            f"{tiling.block_count}",
            (
                f"{tiling.grid_m_count} x "
                f"{tiling.grid_n_count}{f' x {tiling.split_count}' if tiling.split_count > 1 else ''} on {tiling.sm_count} "
                "SMs"
            ),
        ),
        ("waves", f"{tiling.wave_count}", _waves_meaning(tiling)),
        (
            "tail",
            f"{tiling.tail_ratio:.0%}",
            f"SM time idle: {tiling.blocks_per_sm_ratio:.2f} blocks per SM on average, at most {tiling.wave_count}",
        ),
        ("padding", f"{tiling.padding_ratio:.0%}", "tile area outside the output"),
        ("occupancy", per_sm, f"limited by {used.limiter}; {used.warp_ratio:.0%} of the warps"),
        (
            "block",
            f"{used.thread_count} threads",
            (
                f"{used.registers_per_thread_count} registers each, {used.shared_bytes / 1024:.0f} KiB shared, "
                f"{used.stage_count} stages"
            ),
        ),
        (
            "L2 hits",
            _hits(tiling),
            f"of {format_memory(tiling.requested_bytes)} that the blocks ask for",
        ),
        (
            "beyond compulsory",
            format_memory(tiling.beyond_compulsory_bytes),
            f"of those, asked for again: A and B once are {format_memory(tiling.operand_bytes)}",
        ),
        ("DRAM", format_memory(tiling.dram_bytes), _dram_meaning(tiling)),
        (
            "expected",
            _seconds(tiling.expected_s),
            f"80 %: {_seconds(tiling.low_s)} to {_seconds(tiling.high_s)}, {tiling.provenance}",
        ),
        ("of peak", _percent(tiling.efficiency_ratio), f"of {tiling.peak_flops_per_s / 1e12:.4g} TFLOP/s dense"),
        ("bound", tiling.bound, _MEANINGS.get(tiling.bound, "")),
    ]
    return rows if tiling.expected_s is not None else rows[:-3]


def _waves_meaning(tiling: Tiling) -> str:
    """Say what a wave is here, and the rounds that residency makes of them where it is not the same."""
    text = "rounds of one block per SM"
    if tiling.resident_wave_count == tiling.wave_count:
        return text
    rounds = counted(tiling.resident_wave_count, "round")
    return f"{text}; {rounds} with {counted(tiling.occupancy.block_count, 'block')} per SM at once"


def _dram_meaning(tiling: Tiling) -> str:
    """Hold the DRAM bytes against those of all three operands, and say what the L2 keeps."""

    once = tiling.operand_bytes + tiling.output_bytes
    text = f"A, B and C once are {format_memory(once)}"
    if tiling.dram_bytes is None:
        return text
    saved_ratio = 1 - tiling.dram_bytes / once
    return text if saved_ratio < 0.0005 else f"{text}; {format_percent(saved_ratio)} stays in the L2"


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the expected time."""

    name: str
    alone_s: float | None
    """None: it runs beside nothing."""
    adds_s: float
    meaning: str


def _part_columns(tiling: Tiling) -> tuple[Column, ...]:
    whole_s = tiling.expected_s
    assert whole_s is not None  # there are parts
    prefix = shared_prefix([whole_s])

    def alone(part: _Part) -> str:
        return MISSING if part.alone_s is None else in_prefix(part.alone_s, prefix, is_sum=True)

    return (
        Column("Part", lambda part: part.name, is_head=True),
        Column("Alone", alone, "number"),
        Column("Adds", lambda part: in_prefix(part.adds_s, prefix, is_sum=True), "number"),
        Column("Share", lambda part: format_percent(part.adds_s / whole_s), "number", drop=1),
        Column("What it is", lambda part: part.meaning, "prose", least=20),
    )


def _parts(tiling: Tiling) -> list[_Part]:
    """Return the parts, largest first; those below `SHOWN_SHARE` together, so that the rows sum to the expected
    time.
    """
    least_s = SHOWN_SHARE * (tiling.expected_s or 0.0)
    parts = sorted(tiling.parts_s.items(), key=lambda part: -part[1])
    large = [
        _Part(name, tiling.terms_s.get(name) if name != "library" else None, time_s, _MEANINGS.get(name, ""))
        for name, time_s in parts
        if time_s > least_s
    ]
    small = {name: time_s for name, time_s in parts if 0 < time_s <= least_s}
    return [*large, _Part("others", None, sum(small.values()), ", ".join(small))] if small else large


def _draw(output: Path, chip: Device, shape: Shape, pair: Pair, cache: str) -> None:
    from reports.figures.matplotlib_drawer import draw_figure
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
