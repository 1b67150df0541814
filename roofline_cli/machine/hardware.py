"""`roofline hardware`: the chip registry, every number with its source."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from reports.present.blocks import Command, Paragraph
from reports.present.screen import present
from roofline_cli.shared.options import AllOption, FormatsFileOption, JsonOption, find_chip, register_formats
from roofline_model.chips.hardware import TO_FILL_IN, check_device, errors_of, list_hardware, new_chip_text
from roofline_model.core.errors import DefinitionError, InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding, findings_json

COMMANDS = {
    "hardware": ("app", "List, show, check and begin chips: every number with source."),
}

app = typer.Typer(help="List, show, check and begin chips: every number with source.")

ChipArgument = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="Chip key, alias, path of a TOML file, or auto.")
]


@app.command("list")
def list_chips(as_json: JsonOption = False) -> None:
    """List the chips of the registry."""
    from reports.present.chips import list_blocks
    from reports.present.encoder import command_json
    from roofline_model.predictions.catalog import hardware_list

    present(lambda: command_json(hardware_list()), lambda: list_blocks(list_hardware()), as_json=as_json)


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
    from reports.present.chips import chip_blocks
    from reports.present.encoder import command_json
    from roofline_model.predictions.catalog import hardware_detail

    register_formats(formats_file)
    if as_toml:
        typer.echo(chip_file_text(name), nl=False)
        return
    chip = find_chip(name)
    present(
        lambda: command_json(hardware_detail(chip)), lambda: chip_blocks(chip, name, show_all=show_all), as_json=as_json
    )


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
    present(
        lambda: {"key": key, "path": str(path)},
        lambda: (
            Paragraph(f"Written: {path}. Write a number and its source for each {TO_FILL_IN}."),
            Command(f"roofline hardware check {shlex.quote(str(path))}"),
        ),
        as_json=as_json,
    )


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
    from reports.present.chips import check_blocks

    if (name is None) != all_chips:
        raise InvalidValueError("hardware check takes either one chip (key or FILE.toml) or --all")
    register_formats(formats_file)
    results = [(chip.key, check_device(chip)) for chip in list_hardware()] if name is None else [_check_one(name)]
    error_count = sum(len(errors_of(findings)) for _, findings in results)
    present(
        lambda: {
            "error_count": error_count,
            "chips": [{"hardware": key, "findings": findings_json(findings)} for key, findings in results],
        },
        lambda: check_blocks(results, error_count),
        as_json=as_json,
    )
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
