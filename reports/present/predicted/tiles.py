"""What `tiling` says of a product's tile: where the time goes, waves, occupancy, caches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from reports.present.blocks import Block, Column, Command, Paragraph, more, table
from reports.present.predicted.words import Asked, option_words
from reports.present.screen import MISSING
from roofline_model.core.finding import short_text
from roofline_model.core.units import counted, format_memory, format_percent, format_time, in_prefix, shared_prefix

if TYPE_CHECKING:
    from roofline_model.tiling.waves import Tiling

PART_MEANINGS = {
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
"""Part of a product's expected time → what it is."""
SHOWN_SHARE = 0.005
"""Parts below this share of the time are shown as one."""
_ANSWER_ROW_COUNT = 5
"""Rows of the answer's table: the largest parts of the expected time."""


class _Part(NamedTuple):
    """A part of the expected time."""

    name: str
    alone_s: float | None
    """None: it runs beside nothing."""
    adds_s: float
    meaning: str


def tiling_blocks(title: str, tiling: Tiling, asked: Asked, *, show_all: bool, is_drawn: bool) -> Iterator[Block]:
    """Yield what the tile costs, where the time goes, and what to type next: a dozen lines; with `show_all` all that is
    known of it. `asked`: the question as it is typed; `is_drawn`: the figure is there already.
    """
    used = tiling.occupancy
    tile = f"{tiling.tile_m} x {tiling.tile_n} x {used.tile_k}"
    waves = f"{counted(tiling.block_count, 'block')} on {tiling.sm_count} SMs in {counted(tiling.wave_count, 'wave')}"
    tail = f"{tiling.tail_ratio:.0%} idle in the tail"
    if tiling.expected_s is None:  # a chip without constants: what needs none, and what stands in
        yield Paragraph(f"Tile {tile}: {waves}, {tail}.", "verdict")
        yield Paragraph(f"{title}.", "quiet")
        yield Paragraph(
            f"{counted(used.block_count, 'block')} per SM, limited by {used.limiter}; {used.shared_bytes / 1024:.0f} "
            f"KiB shared memory each; {tiling.padding_ratio:.0%} padding."
        )
        yield from (Paragraph(f"{short_text(item)}.", "warning") for item in tiling.findings)
        yield from more("shows bytes and every limit", is_shown=show_all)
    else:
        bound = PART_MEANINGS.get(tiling.bound, tiling.bound)
        interval = f"{format_time(tiling.low_s)} to {format_time(tiling.high_s)}"
        share = format_percent(tiling.efficiency_ratio)
        yield Paragraph(
            f"{share} of peak: expected {format_time(tiling.expected_s)} ({interval}), bound by {bound}.", "verdict"
        )
        yield Paragraph(f"{title}.", "quiet")
        parts = _parts(tiling)[:_ANSWER_ROW_COUNT]
        yield table("parts", _part_columns(tiling.expected_s), parts, says_what_is_left_out=False)
        if not show_all:
            yield Paragraph("Parts run at the same time: the longest alone is the bound, each adds its share.", "quiet")
        yield Paragraph(f"Tile {tile}: {waves}, {tail}, {_hits(tiling)} L2 hits.", "quiet")
        if not is_drawn:
            yield Command(f"roofline tiling{option_words(asked)} -o tiling.png", "draws the efficiency against N")
        yield from more("shows occupancy, padding, bytes and every part", is_shown=show_all)
    if show_all:
        yield from _whole_blocks(title, tiling)


def _whole_blocks(title: str, tiling: Tiling) -> Iterator[Block]:
    columns = (
        Column("What", lambda fact: fact[0], is_head=True),
        Column("Value", lambda fact: fact[1], "number"),
        Column("Meaning", lambda fact: fact[2], "prose", least=20),
    )
    yield table("facts", columns, tile_facts(tiling), title=title)
    if tiling.expected_s is not None:
        yield table("parts", _part_columns(tiling.expected_s), _parts(tiling), title="Where the expected time goes")
        yield Paragraph(
            "Alone: what each part would take by itself. tensor, DRAM, L2, SM and latency run at the same time: what "
            "each adds is its share of their joint time, not a time of its own. The shares add up to the expected "
            "time.",
            "quiet",
        )


def _hits(tiling: Tiling) -> str:
    return MISSING if tiling.l2_hit_ratio is None else f"{tiling.l2_hit_ratio:.0%}"


def tile_facts(tiling: Tiling) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of all that is known of a tile; without a time, of what needs none."""
    used, split = tiling.occupancy, tiling.split_count
    blocks = f"{tiling.grid_m_count} x {tiling.grid_n_count}{f' x {split}' if split > 1 else ''}"
    tile = f"{tiling.tile_m} x {tiling.tile_n} x {used.tile_k}{f', k in {split} slices' if split > 1 else ''}"
    of_block = f"{used.registers_per_thread_count} registers each, {used.shared_bytes / 1024:.0f} KiB shared"
    rows = [
        ("tile", tile, f"{tiling.kernel_family} kernels"),
        ("blocks", f"{tiling.block_count}", f"{blocks} on {tiling.sm_count} SMs"),
        ("waves", f"{tiling.wave_count}", _waves_meaning(tiling)),
        (
            "tail",
            f"{tiling.tail_ratio:.0%}",
            f"SM time idle: {tiling.blocks_per_sm_ratio:.2f} blocks per SM on average, at most {tiling.wave_count}",
        ),
        ("padding", f"{tiling.padding_ratio:.0%}", "tile area outside the output"),
        (
            "occupancy",
            f"{counted(used.block_count, 'block')} per SM",
            f"limited by {used.limiter}; {used.warp_ratio:.0%} of the warps",
        ),
        ("block", f"{used.thread_count} threads", f"{of_block}, {used.stage_count} stages"),
        ("L2 hits", _hits(tiling), f"of {format_memory(tiling.requested_bytes)} that the blocks ask for"),
        (
            "beyond compulsory",
            format_memory(tiling.beyond_compulsory_bytes),
            f"of those, asked for again: A and B once are {format_memory(tiling.operand_bytes)}",
        ),
        ("DRAM", format_memory(tiling.dram_bytes), _dram_meaning(tiling)),
    ]
    if tiling.expected_s is None:
        return rows
    interval = f"80 %: {format_time(tiling.low_s)} to {format_time(tiling.high_s)}, {tiling.provenance}"
    peak = f"of {tiling.peak_flops_per_s / 1e12:.4g} TFLOP/s dense"
    return [
        *rows,
        ("expected", format_time(tiling.expected_s), interval),
        ("of peak", format_percent(tiling.efficiency_ratio), peak),
        ("bound", tiling.bound, PART_MEANINGS.get(tiling.bound, "")),
    ]


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
    saved_ratio = 0.0 if tiling.dram_bytes is None else 1 - tiling.dram_bytes / once
    saved = "" if saved_ratio < 0.0005 else f"; {format_percent(saved_ratio)} stays in the L2"
    return f"A, B and C once are {format_memory(once)}{saved}"


def _part_columns(whole_s: float) -> tuple[Column, ...]:
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
        _Part(name, tiling.terms_s.get(name) if name != "library" else None, time_s, PART_MEANINGS.get(name, ""))
        for name, time_s in parts
        if time_s > least_s
    ]
    small = {name: time_s for name, time_s in parts if 0 < time_s <= least_s}
    return [*large, _Part("others", None, sum(small.values()), ", ".join(small))] if small else large
