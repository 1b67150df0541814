"""Write docs/reference/numbers.md: every number of the chip registry and of the format catalog, with where it comes
from.

`python scripts/docs/make_numbers.py` writes the file; `--check` writes nothing and exits 1 with one line when the
committed file is stale. The text depends on the catalog and the chip files only.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "reference" / "numbers.md"
CHIP_FILES = ROOT / "roofline_model" / "chips" / "devices"

# The checkout this script stands in, whatever else is installed, and what stands beside it.
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from written_page import write_or_check  # noqa: E402

from roofline_model.chips.hardware import ComputePath, Device, Quantity, list_hardware  # noqa: E402
from roofline_model.core.units import GIB, GIGA, KIB, MEGA, TERA, format_bytes  # noqa: E402
from roofline_model.formats.catalog import FORMATS, NumberFormat  # noqa: E402

FIRST_CHIP = "gb10"
EXAMPLE_SHAPE = (4096, 4096)
DIGITS = 6
"""Significant digits: all that any chip file gives."""

REPEATED_COUNT = 3
"""A source or a reason that so many rows name is written once, under a heading of its own."""

INTRODUCTION = """\
# Numbers

Every number that a prediction can use, with its source. What the numbers mean: [math.md](../theory/math.md) and
[formats.md](../theory/formats.md). This page is written by `make numbers` from `roofline_model/chips/devices/*.toml` and
`roofline_model/formats/catalog.py`.

- **Status**: *datasheet* (vendor document or source), *measured* (by someone, on the device), *derived* (arithmetic from such
  numbers). *Secondary* is a page that repeats a number, *unconfirmed* is not reliable, *placeholder* is invented.
- **Clock**: the clock a compute rate belongs to. A different clock is a different peak.
- **Peaks** are dense. *Sparse* means 2:4 structured and is never used to predict. *Achieved* is the best product that
  somebody published. The ideal prediction does not use it; expected times of large products on a chip without measured rows do.
- **Ridge** (critical intensity) = dense peak ÷ DRAM bandwidth, in FLOP/byte.
- **S1**, S2, … stand for [sources](#sources) and **R1**, R2, … for [reasons](#reasons) that many rows share.
- Rates and DRAM sizes are decimal (1 GB = 10⁹ bytes); caches and shared memory are binary (1 KiB = 1024 bytes).
"""

Row = Sequence[str]


def render() -> str:
    """Return the whole document."""
    chips = sorted(list_hardware(), key=lambda chip: (chip.key != FIRST_CHIP, chip.key))
    parts = [
        INTRODUCTION,
        "## Formats\n",
        _formats_table(),
        "## Ridge points of all chips\n",
        "FLOP/byte. *Italic*: not a native unit (the path is in the chip's own table).\n",
        _ridge_table(chips),
    ]
    parts += [
        "## Sources\n",
        "".join(f"- **{_mark(source, 'S', _repeated_sources())}**: {source}\n" for source in _repeated_sources()),
        "## Reasons\n",
        "Why a format takes another path than a unit of its own.\n",
        "".join(f"- **{_mark(reason, 'R', _repeated_reasons())}**: {reason}\n" for reason in _repeated_reasons()),
    ]
    for chip in chips:
        parts += _chip(chip)
    return "\n".join(parts)


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def _formats_table() -> str:
    rows, columns = EXAMPLE_SHAPE
    head = [
        "Format",
        "Aliases",
        "Element bits",
        "Exponent",
        "Mantissa",
        "Largest",
        "Scales",
        "Nominal bits",
        "Traffic bytes/element",
        f"Stored {rows}×{columns}, bytes",
    ]
    return _table(head, (_format_row(fmt) for fmt in FORMATS.values()))


def _format_row(fmt: NumberFormat) -> Row:
    scales = [
        f"{level.bits:g} bits per {f'{level.block_elems} elements' if level.block_elems else 'tensor'}"
        for level in fmt.scales
    ]
    return [
        f"[{fmt.key}](../theory/formats.md#{fmt.key.lower()})",
        ", ".join(fmt.aliases),
        str(fmt.element_bits),
        "–" if fmt.exponent_bits is None else str(fmt.exponent_bits),
        "–" if fmt.mantissa_bits is None else str(fmt.mantissa_bits),
        "–" if fmt.max_value is None else f"{fmt.max_value:.7g}",
        "; ".join(scales) or "none",
        f"{fmt.nominal_bits:.8g}",
        f"{fmt.traffic_bytes_per_element:.8g}",
        f"{fmt.storage_bytes(EXAMPLE_SHAPE):,}",
    ]


def _ridge_table(chips: Sequence[Device]) -> str:
    shown = ["FP32", "TF32", "BF16", "FP16", "FP8_E4M3", "MXFP8_E4M3", "INT8", "INT4", "MXFP4", "NVFP4"]
    return _table(["Chip", *shown], ([f"[{chip.key}](#{_anchor(chip)})", *_ridges(chip, shown)] for chip in chips))


def _ridges(chip: Device, formats: Sequence[str]) -> Iterator[str]:
    for name in formats:
        path = chip.paths.get(name)
        if path is None:
            yield "–"
        else:
            number = _ridge(chip, path)
            yield number if path.kind == "native" else f"*{number}*"


def _ridge(chip: Device, path: ComputePath) -> str:
    return f"{path.dense.value / chip.bandwidth.value:.1f}"


def _anchor(chip: Device) -> str:
    return chip.key.replace(".", "")


def _chip(chip: Device) -> list[str]:
    about = [f"{chip.name}.", f"{chip.architecture}." if chip.architecture and not chip.is_placeholder else ""]
    if chip.is_placeholder:
        about.append("**Placeholder: invented numbers, for examples only.**")
    if chip.aliases:
        about.append(f"Also called {', '.join(f'`{alias}`' for alias in chip.aliases)}.")
    parts = [f"## {chip.key}\n", " ".join(filter(None, about)) + "\n"]
    if chip.notes:
        parts.append("\n".join(f"- {note}" for note in chip.notes) + "\n")
    parts += [
        _table(
            ["Quantity", "Value", "Status", "Clock", "Source", "Note"],
            (_quantity_row(name, quantity) for name, quantity in _quantities(chip)),
        ),
        "Path of each format:\n",
        _table(["Formats", "Path", "Computes in", "Dense peak", "Ridge, FLOP/byte", "Reason"], _paths(chip)),
    ]
    return parts


@cache
def _repeated_sources() -> tuple[str, ...]:
    """Return the sources that many rows name, the most frequent first."""
    counts = Counter(quantity.source for chip in list_hardware() for _, quantity in _quantities(chip))
    return tuple(
        sorted((source for source in counts if counts[source] >= REPEATED_COUNT), key=lambda it: (-counts[it], it))
    )


@cache
def _repeated_reasons() -> tuple[str, ...]:
    """Return the reasons of paths that many chips share, the most frequent first."""
    counts = Counter(reason for chip in list_hardware() for reason in {path.reason for path in chip.paths.values()})
    return tuple(
        sorted((text for text in counts if text and counts[text] >= REPEATED_COUNT), key=lambda it: (-counts[it], it))
    )


def _mark(text: str, letter: str, repeated: Sequence[str]) -> str:
    """Return `S1` for the first of the repeated texts, and any other text as it is."""
    return f"{letter}{repeated.index(text) + 1}" if text in repeated else text


def _quantities(chip: Device) -> Iterator[tuple[str, Quantity]]:
    optional = (
        ("DRAM bandwidth", chip.bandwidth),
        ("DRAM bandwidth, achieved", chip.bandwidth_achieved),
        ("DRAM capacity", chip.capacity),
        ("DRAM of the system", chip.system_memory),
    )
    for name, quantity in optional:
        if quantity is not None:
            yield name, quantity
    raw_levels = _raw(chip).get("level", [])
    for level, raw in zip(chip.levels, raw_levels, strict=True):
        # `Device` keeps the size only; its status and source stand in the file.
        size = raw["capacity"]
        yield (
            f"{level.name} capacity",
            Quantity(level.capacity_bytes, "B", size["status"], size["source"], note=size.get("note", "")),
        )
        if level.bandwidth is not None:
            yield f"{level.name} bandwidth", level.bandwidth
    for name, quantity in sorted(chip.chip.items()):
        yield name.replace("_", " "), quantity
    for kind in ("dense", "fp16_accumulate", "sparse", "achieved"):
        yield from _peaks(chip, kind)


def _peaks(chip: Device, kind: str) -> Iterator[tuple[str, Quantity]]:
    """Yield one quantity per different peak: formats that share every detail of it share the name."""
    shared: dict[Quantity, list[str]] = {}
    for key in FORMATS:
        path = chip.paths.get(key)
        quantity = getattr(path, kind) if path is not None and path.kind == "native" else None
        if quantity is not None:
            shared.setdefault(quantity, []).append(key)
    name = {"achieved": "achieved", "fp16_accumulate": "dense peak, sums in FP16"}.get(kind, f"{kind} peak")
    for quantity, keys in shared.items():
        yield f"{name}, {', '.join(keys)}", quantity


def _quantity_row(name: str, quantity: Quantity) -> Row:
    clock = "–" if quantity.clock_hz is None else f"{quantity.clock_hz / MEGA:.{DIGITS}g} MHz"
    return [
        name,
        readable(quantity),
        quantity.status,
        clock,
        _mark(quantity.source, "S", _repeated_sources()),
        quantity.note,
    ]


def readable(quantity: Quantity) -> str:
    """Return value and unit as a reader expects them: GB/s, TFLOP/s, MHz, GB for DRAM, KiB or MiB for on-chip
    memory.
    """
    value, unit = quantity.value, quantity.unit
    if unit == "B/s":
        return f"{value / GIGA:.{DIGITS}g} GB/s"
    if unit == "FLOP/s":
        return _tflops(value)
    if unit == "Hz":
        return f"{value / MEGA:.{DIGITS}g} MHz"
    if unit == "B":
        is_binary = value % KIB == 0 and value < GIB
        return format_bytes(value, DIGITS) if is_binary else f"{value / GIGA:.{DIGITS}g} GB"
    return f"{value:,.0f} {unit}".strip() if value == round(value) else f"{value:g} {unit}".strip()


def _tflops(rate_flops_per_s: float) -> str:
    # One unit for every peak, so that a column can be compared by eye.
    return f"{rate_flops_per_s / TERA:.{DIGITS}g} TFLOP/s"


def _paths(chip: Device) -> Iterator[Row]:
    """Yield one row per different path: formats that agree in everything share it."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for key in FORMATS:
        path = chip.paths.get(key)
        if path is None:
            cells: tuple[str, ...] = ("none", "–", "–", "–", "the chip's file names neither a peak nor a path")
        else:
            unit = "itself" if path.compute_format == key else path.compute_format
            cells = (
                path.kind,
                unit,
                _tflops(path.dense.value),
                _ridge(chip, path),
                _mark(path.reason, "R", _repeated_reasons()),
            )
        shared.setdefault(cells, []).append(key)
    for cells, keys in shared.items():
        yield [", ".join(keys), *cells]


def _raw(chip: Device) -> dict[str, Any]:
    return tomllib.loads((CHIP_FILES / f"{chip.key}.toml").read_text(encoding="utf-8"))


def main(arguments: Sequence[str] | None = None, target: Path = TARGET) -> int:
    """Write the document, or check it: see `write_or_check`."""
    return write_or_check(render, target, "make numbers", __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
