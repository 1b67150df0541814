"""`roofline hardware`: the chip registry, every number with its source."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.blocks import Column, Span, brief, table
from reports.present.screen import (
    MISSING,
    clean,
    intensity,
    show,
    show_json,
    show_line,
    show_more,
    show_next,
    show_notes,
)
from roofline_cli.shared.options import AllOption, FormatsFileOption, JsonOption, find_chip, register_formats
from roofline_model.chips.hardware import (
    TO_FILL_IN,
    check_device,
    doubts_of,
    errors_of,
    list_hardware,
    new_chip_text,
)
from roofline_model.chips.usable_memory import memory_shares, usable_bytes
from roofline_model.core.errors import DefinitionError, InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding, findings_json, short_text, subject_text
from roofline_model.core.units import counted, format_bandwidth, format_bytes, format_flops, format_memory

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device, Quantity
    from roofline_model.core.finding import Finding

COMMANDS = {
    "hardware": ("app", "List, show, check and begin chips: every number with source."),
}

app = typer.Typer(help="List, show, check and begin chips: every number with source.")

ChipArgument = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="Chip key, alias, path of a TOML file, or auto.")
]


def _native_rate(key: str) -> Callable[[Device], str]:
    """Return what a cell says of the unit of a format: its dense TFLOP/s."""

    def cell(chip: Device) -> str:
        path = chip.paths.get(key)
        if path is None or path.kind != "native":
            return MISSING
        value = path.dense.value / 1e12
        return f"{value:.0f}" if value >= 999.95 else f"{value:.4g}"

    return cell


_CHIPS = (
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


@app.command("list")
def list_chips(as_json: JsonOption = False) -> None:
    """List the chips of the registry."""
    from reports.present.encoder import command_json
    from roofline_model.predictions.catalog import hardware_list

    if as_json:
        show_json(command_json(hardware_list()))
        return
    show(table("Chips", _CHIPS, list_hardware()))
    show_line(
        "Rates are dense TFLOP/s of native units; – means no such unit. `roofline hardware show NAME` gives every "
        "number.",
        "dim",
    )


@app.command("show")
def show_chip(
    name: ChipArgument,
    formats_file: FormatsFileOption = None,
    as_toml: Annotated[bool, typer.Option("--toml", help="Print the chip's file: the start of a custom chip.")] = False,
    show_all: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show one chip: every number with status and source.

    Also how each format is computed: natively, emulated or widened.
    """
    from reports.present.encoder import command_json
    from roofline_model.predictions.catalog import hardware_detail

    register_formats(formats_file)
    if as_toml:
        typer.echo(chip_file_text(name), nl=False)
        return
    chip = find_chip(name)
    if as_json:
        show_json(command_json(hardware_detail(chip)))
        return
    _print_answer(chip, name, show_all=show_all)
    if show_all:
        show_line()
        _print_chip(chip)


@app.command("new")
def new_chip(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the chip; its key and file are made of it.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.toml", help="File to write (default: NAME.toml, here)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a chip file to fill in: the least that predicts.

    What is missing is marked, and `roofline hardware check` lists it.
    """
    from roofline_cli.screen.output_file import check_output, is_stdout, is_stream, write_text

    text = new_chip_text(name)
    key = tomllib.loads(text)["key"]
    if any(key in (chip.key, *chip.aliases) for chip in list_hardware()):
        raise InvalidValueError(
            f"{key} is shipped: `roofline hardware show {key} --toml` prints its file; give a chip of your own another "
            "name"
        )
    path = output or Path(f"{key}.toml")
    if path.exists() and not is_stream(path):
        raise InvalidValueError(f"{path} exists already: it is not overwritten; name another file with -o")
    check_output(path, None)
    write_text(path, text)
    if is_stdout(path):
        return
    if as_json:
        show_json({"key": key, "path": str(path)})
        return
    show_line(f"Written: {path}. Write a number and its source for each {TO_FILL_IN}.")
    show_next(f"roofline hardware check {shlex.quote(str(path))}")


@app.command("check")
def check_chips(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME|FILE", help="Chip or file to check.", show_default=False)
    ] = None,
    all_chips: Annotated[bool, typer.Option("--all", help="Check every chip of the registry.")] = False,
    formats_file: FormatsFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check chip files for wrong units, order and values.

    Exits 1 when there are errors.
    """

    if (name is None) != all_chips:
        raise InvalidValueError("hardware check takes either one chip (key or FILE.toml) or --all")
    register_formats(formats_file)
    results = [(chip.key, check_device(chip)) for chip in list_hardware()] if name is None else [_check_one(name)]
    error_count = sum(len(errors_of(findings)) for _, findings in results)
    if as_json:
        show_json(
            {
                "error_count": error_count,
                "chips": [{"hardware": key, "findings": findings_json(findings)} for key, findings in results],
            }
        )
    else:
        _print_findings(results, error_count)
    if error_count:
        raise typer.Exit(1)


def chip_file_text(name: str) -> str:
    """Return the TOML text of a registry chip or of a custom file."""
    from importlib import resources

    chip = find_chip(name)
    if name.endswith(".toml") or "/" in name:
        return Path(name).read_text(encoding="utf-8")
    file = resources.files("roofline_model.chips").joinpath("devices", f"{chip.key}.toml")
    if not file.is_file():
        raise UnsupportedError(
            f"{chip.key} has no file of its own; start from another chip, e.g. `roofline hardware show gb10 --toml`"
        )
    return file.read_text(encoding="utf-8")


def _check_one(name: str) -> tuple[str, list[Finding]]:
    """Check a chip or a file; a file that exists but cannot be accepted is a finding, not a usage error."""

    try:
        chip = find_chip(name)
    except DefinitionError as error:
        if not Path(name).is_file():
            raise
        return name, [finding("chip-file-wrong", kind="refused", error=str(error).removeprefix(f"{Path(name)}: "))]
    return chip.key, check_device(chip)


def _print_findings(results: list[tuple[str, list[Finding]]], error_count: int) -> None:
    for key, findings in results:
        if not findings:
            show_line(f"{key}: ok", "green")
        for item in findings:
            word, style = ("error", "bold red") if item.severity == "warning" else ("warning", "yellow")
            show_line(f"{key}: {word}: {subject_text(item)}", style)
    warnings = sum(len(findings) for _, findings in results) - error_count
    show_line(f"{len(results)} checked, {counted(error_count, 'error')}, {counted(warnings, 'warning')}")


_ANSWER_FORMATS = ("BF16", "FP16", "FP8_E4M3", "NVFP4", "INT8", "INT4")
"""Formats whose dense rates stand in the answer, where the chip has units for them; FP16 in place of BF16."""
_ANSWER_PEAK_COUNT = 3


def _print_answer(chip: Device, hardware: str, *, show_all: bool) -> None:
    """Print bandwidth, memory and dense rates with what they rest on, and what to type next: a dozen lines."""
    memory = ""
    if chip.capacity is not None:
        usable = f", {format_memory(usable_bytes(chip))} of it usable by a model" if memory_shares(chip) else ""
        memory = f" to {format_memory(chip.capacity.value)} of memory{usable}"
    show_line(f"{chip.key}: {format_bandwidth(chip.bandwidth.value)}{memory}.", "bold")
    identity = [part for part in (chip.name, chip.vendor, chip.architecture) if part]
    identity += [f"aliases {', '.join(chip.aliases)}"] if chip.aliases else []
    show_line(f"{', '.join(identity)}.", "dim")
    numbers = [("memory bandwidth", chip.bandwidth), ("memory bandwidth achieved", chip.bandwidth_achieved)]
    paths = [(name, chip.paths[name]) for name in _ANSWER_FORMATS if name in chip.paths]
    native = [(f"dense {name}", path.dense) for name, path in paths if path.kind == "native"]
    if [label for label, _ in native[:2]] == ["dense BF16", "dense FP16"]:
        del native[1]
    if not native:  # a chip of somebody's own may have none of these
        native = [(f"dense {name}", path.dense) for name, path in chip.paths.items() if path.kind == "native"]
    shown = [(label, quantity) for label, quantity in (*numbers, *native[:_ANSWER_PEAK_COUNT]) if quantity is not None]
    show(table("Numbers", _ANSWER, shown))
    placeholder = ["placeholder: invented numbers, for examples only"] if chip.is_placeholder else []
    show_notes([*placeholder, *map(short_text, doubts_of(chip))])
    show_next(f"roofline predict gemv -N 4096 -K 4096 --hw {shlex.quote(hardware)}")
    show_more("shows caches, clocks, every format's path, notes and sources", is_shown=show_all)


def _print_chip(chip: Device) -> None:
    identity = [part for part in (chip.kind, chip.vendor, chip.architecture) if part]
    identity += [f"aliases {', '.join(chip.aliases)}"] if chip.aliases else []
    show_line(", ".join(identity))
    if chip.is_placeholder:
        show_line("placeholder: invented numbers, for examples only", "yellow")
    if chip.levels:
        show_line(f"caches: {', '.join(f'{level.name} {format_bytes(level.capacity_bytes)}' for level in chip.levels)}")
    for note in (*chip.notes, *map(short_text, doubts_of(chip))):
        show_line(f"- {note}")
    show_line()
    show(table("Numbers", _NUMBERS, _quantities(chip)))
    show_line()
    columns = (
        Column("Format", lambda pair: pair[0], is_head=True),
        Column("Path", lambda pair: Span(pair[1].kind, "" if pair[1].kind == "native" else "warning")),
        Column("Unit", lambda pair: MISSING if pair[1].kind == "native" else pair[1].compute_format, drop=2),
        Column("Dense", lambda pair: format_flops(pair[1].dense.value), "number"),
        Column("Critical AI", lambda pair: intensity(chip.critical_intensity(pair[0])), "number", drop=1),
        Column("Why", lambda pair: pair[1].reason, "prose"),
    )
    show(table("How each format is computed", columns, chip.paths.items()))


def _quantities(chip: Device) -> list[tuple[str, Quantity]]:
    quantities: list[tuple[str, Quantity | None]] = [
        ("memory bandwidth", chip.bandwidth),
        ("memory bandwidth achieved", chip.bandwidth_achieved),
        ("memory capacity", chip.capacity),
        ("memory of the system", chip.system_memory),
        *((f"{level.name} bandwidth", level.bandwidth) for level in chip.levels),
        *((name.replace("_", " "), quantity) for name, quantity in chip.chip.items()),
    ]
    quantities += _peak_quantities(chip)
    return [(label, quantity) for label, quantity in quantities if quantity is not None]


def _peak_quantities(chip: Device) -> list[tuple[str, Quantity | None]]:
    """Return the native rates; formats that share one entry of the chip's file share one row here."""
    formats: dict[tuple[Quantity, Quantity | None, Quantity | None, Quantity | None], list[str]] = {}
    for key, path in chip.paths.items():
        if path.kind == "native":
            formats.setdefault((path.dense, path.sparse, path.achieved, path.fp16_accumulate), []).append(key)
    peak_quantities: list[tuple[str, Quantity | None]] = []
    for (dense, sparse, achieved, narrow), keys in formats.items():
        name = " ".join(keys)
        peak_quantities += [
            (f"dense peak {name}", dense),
            (f"2:4 sparse peak {name}", sparse),
            (f"achieved {name}", achieved),
            (f"FP16 sums {name}", narrow),
        ]
    return peak_quantities


def _status(item: tuple[str, Quantity]) -> Span:
    status = item[1].status
    return Span(status, "warning" if status in ("unconfirmed", "placeholder") else "")


def _source(item: tuple[str, Quantity]) -> str:
    quantity = item[1]
    return f"{quantity.source} ({quantity.note})" if quantity.note else quantity.source


def _value(label: str, quantity: Quantity) -> str:
    value = quantity.value
    if quantity.unit == "B/s":
        return format_bandwidth(value)
    if quantity.unit == "FLOP/s":
        return format_flops(value)
    if quantity.unit == "B":
        return format_memory(value) if label.startswith("memory") else format_bytes(value)
    if quantity.unit == "Hz":
        return f"{value / 1e6:g} MHz"
    return clean(f"{value:g} {quantity.unit}".strip())


def _clock(item: tuple[str, Quantity]) -> str:
    hz = item[1].clock_hz
    return MISSING if hz is None else f"{hz / 1e6:g} MHz"


def _label(item: tuple[str, Quantity]) -> str:
    return item[0] if item[1].clock_hz is None else f"{item[0]}, {_clock(item)}"


_ANSWER = (
    Column("Number", _label, is_head=True),
    Column("Value", lambda item: _value(*item), "number"),
    Column("Status", _status),
    Column("Source", lambda item: brief(item[1].source, 26), "prose"),
)
_NUMBERS = (
    Column("Number", lambda item: item[0], "prose", is_head=True),
    Column("Value", lambda item: _value(*item), "number"),
    Column("Clock", _clock, "number", drop=1),
    Column("Status", _status),
    Column("Source", _source, "prose"),
)
