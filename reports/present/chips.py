"""What is said of chips: their numbers with status and source, how formats are computed, what is wrong with a file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import Block, Column, Command, Paragraph, Span, brief, more, notes, table
from reports.present.screen import MISSING, clean, intensity
from roofline_model.chips.hardware import doubts_of
from roofline_model.chips.usable_memory import memory_shares, usable_bytes
from roofline_model.core.finding import short_text, subject_text
from roofline_model.core.units import counted, format_bandwidth, format_bytes, format_flops, format_memory

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device, Quantity
    from roofline_model.core.finding import Finding

    Named = tuple[str, Quantity]

_ANSWER_FORMATS = ("BF16", "FP16", "FP8_E4M3", "NVFP4", "INT8", "INT4")
"""Formats whose dense rates stand in the answer, where the chip has units for them; FP16 in place of BF16."""
_ANSWER_PEAK_COUNT = 3
_PLACEHOLDER = "placeholder: invented numbers, for examples only"


def _native_rate(key: str) -> Callable[[Device], str]:
    """Return what a cell says of the unit of a format: its dense TFLOP/s."""

    def cell(chip: Device) -> str:
        path = chip.paths.get(key)
        if path is None or path.kind != "native":
            return MISSING
        value = path.dense.value / 1e12
        return f"{value:.0f}" if value >= 999.95 else f"{value:.4g}"

    return cell


CHIPS = (
    Column("Chip", lambda chip: chip.key, is_head=True),
    Column("Bandwidth", lambda chip: format_bandwidth(chip.bandwidth.value), "number"),
    Column("BF16", _native_rate("BF16"), "number"),
    Column("FP8", _native_rate("FP8_E4M3"), "number"),
    Column("INT8", _native_rate("INT8"), "number", drop=2),
    Column("NVFP4", _native_rate("NVFP4"), "number"),
    Column("Memory", lambda chip: format_memory(chip.capacity and chip.capacity.value), "number", drop=1),
    Column("Aliases", lambda chip: ", ".join(chip.aliases) or MISSING, drop=4),
    Column("Name", lambda chip: chip.name, "prose", drop=3),
)


def list_blocks(chips: Sequence[Device]) -> Iterator[Block]:
    """Yield a row for each chip."""
    yield table("Chips", CHIPS, chips)
    yield Paragraph(
        "Rates are dense TFLOP/s of native units; – means no such unit. `roofline hardware show NAME` gives every "
        "number.",
        "quiet",
    )


def chip_blocks(chip: Device, chip_name: str, *, show_all: bool) -> Iterator[Block]:
    """Yield bandwidth, memory and dense rates with what they rest on, and what to type next: a dozen lines; with
    `show_all` every number, and how each format is computed. `chip_name`: the chip as it was typed.
    """
    memory = ""
    if chip.capacity is not None:
        usable = f", {format_memory(usable_bytes(chip))} of it usable by a model" if memory_shares(chip) else ""
        memory = f" to {format_memory(chip.capacity.value)} of memory{usable}"
    yield Paragraph(f"{chip.key}: {format_bandwidth(chip.bandwidth.value)}{memory}.", "verdict")
    yield Paragraph(f"{_identity(chip.name, chip)}.", "quiet")
    yield table("Numbers", _ANSWER, _answer_numbers(chip))
    yield from notes([*([_PLACEHOLDER] if chip.is_placeholder else []), *map(short_text, doubts_of(chip))])
    yield Command(f"roofline predict gemv -N 4096 -K 4096 --hw {shlex.quote(chip_name)}")
    yield from more("shows caches, clocks, every format's path, notes and sources", is_shown=show_all)
    if not show_all:
        return
    yield Paragraph("")
    yield Paragraph(_identity(chip.kind, chip))
    if chip.is_placeholder:
        yield Paragraph(_PLACEHOLDER, "warning")
    if chip.levels:
        levels = ", ".join(f"{level.name} {format_bytes(level.capacity_bytes)}" for level in chip.levels)
        yield Paragraph(f"caches: {levels}")
    yield from (Paragraph(f"- {note}") for note in (*chip.notes, *map(short_text, doubts_of(chip))))
    yield Paragraph("")
    yield table("Numbers", _NUMBERS, _all_numbers(chip))
    yield Paragraph("")
    columns = (
        Column("Format", lambda pair: pair[0], is_head=True),
        Column("Path", lambda pair: Span(pair[1].kind, "" if pair[1].kind == "native" else "warning")),
        Column("Unit", lambda pair: MISSING if pair[1].kind == "native" else pair[1].compute_format, drop=2),
        Column("Dense", lambda pair: format_flops(pair[1].dense.value), "number"),
        Column("Critical AI", lambda pair: intensity(chip.critical_intensity(pair[0])), "number", drop=1),
        Column("Why", lambda pair: pair[1].reason, "prose"),
    )
    yield table("How each format is computed", columns, chip.paths.items())


def _identity(first: str, chip: Device) -> str:
    aliases = f"aliases {', '.join(chip.aliases)}" if chip.aliases else ""
    return ", ".join(filter(None, (first, chip.vendor, chip.architecture, aliases)))


def _answer_numbers(chip: Device) -> list[Named]:
    native = {key: path.dense for key, path in chip.paths.items() if path.kind == "native"}
    # A chip of somebody's own may have none of the usual formats.
    keys = [key for key in _ANSWER_FORMATS if key in native] or list(native)
    if keys[:2] == ["BF16", "FP16"]:
        keys.remove("FP16")
    numbers = [("memory bandwidth", chip.bandwidth), ("memory bandwidth achieved", chip.bandwidth_achieved)]
    numbers += [(f"dense {key}", native[key]) for key in keys[:_ANSWER_PEAK_COUNT]]
    return [(label, quantity) for label, quantity in numbers if quantity is not None]


def _all_numbers(chip: Device) -> list[Named]:
    """Return every number; formats that share one entry of the chip's file share one row."""
    formats: dict[tuple[Quantity | None, ...], list[str]] = {}
    for key, path in chip.paths.items():
        if path.kind == "native":
            formats.setdefault((path.dense, path.sparse, path.achieved, path.fp16_accumulate), []).append(key)
    kinds = ("dense peak", "2:4 sparse peak", "achieved", "FP16 sums")
    numbers: list[tuple[str, Quantity | None]] = [
        ("memory bandwidth", chip.bandwidth),
        ("memory bandwidth achieved", chip.bandwidth_achieved),
        ("memory capacity", chip.capacity),
        ("memory of the system", chip.system_memory),
        *((f"{level.name} bandwidth", level.bandwidth) for level in chip.levels),
        *((name.replace("_", " "), quantity) for name, quantity in chip.chip.items()),
        *(
            (f"{kind} {' '.join(keys)}", quantity)
            for quantities, keys in formats.items()
            for kind, quantity in zip(kinds, quantities, strict=True)
        ),
    ]
    return [(label, quantity) for label, quantity in numbers if quantity is not None]


def _value(item: Named) -> str:
    label, quantity = item
    if quantity.unit == "B":
        return format_memory(quantity.value) if label.startswith("memory") else format_bytes(quantity.value)
    if quantity.unit == "Hz":
        return f"{quantity.value / 1e6:g} MHz"
    formats = {"B/s": format_bandwidth, "FLOP/s": format_flops}
    if quantity.unit in formats:
        return formats[quantity.unit](quantity.value)
    return clean(f"{quantity.value:g} {quantity.unit}".strip())


def _clock(item: Named) -> str:
    hz = item[1].clock_hz
    return MISSING if hz is None else f"{hz / 1e6:g} MHz"


_VALUE = Column("Value", _value, "number")
_STATUS = Column(
    "Status",
    lambda item: Span(item[1].status, "warning" if item[1].status in ("unconfirmed", "placeholder") else ""),
)
_ANSWER = (
    Column("Number", lambda item: item[0] if item[1].clock_hz is None else f"{item[0]}, {_clock(item)}", is_head=True),
    _VALUE,
    _STATUS,
    Column("Source", lambda item: brief(item[1].source, 26), "prose"),
)
_NUMBERS = (
    Column("Number", lambda item: item[0], "prose", is_head=True),
    _VALUE,
    Column("Clock", _clock, "number", drop=1),
    _STATUS,
    Column("Source", lambda item: f"{item[1].source}{f' ({item[1].note})' if item[1].note else ''}", "prose"),
)


def check_blocks(results: Sequence[tuple[str, list[Finding]]], error_count: int) -> Iterator[Block]:
    """Yield what is wrong with each chip, and how many errors and warnings there are."""
    for key, findings in results:
        if not findings:
            yield Paragraph(f"{key}: ok", "good")
        for item in findings:
            is_error = item.severity == "warning"
            word = "error" if is_error else "warning"
            yield Paragraph(f"{key}: {word}: {subject_text(item)}", "failed" if is_error else "warning")
    warnings = sum(len(findings) for _, findings in results) - error_count
    yield Paragraph(f"{len(results)} checked, {counted(error_count, 'error')}, {counted(warnings, 'warning')}")
