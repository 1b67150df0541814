"""Blocks of options: typer sees their fields in place, the command gets the dataclass."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from roofline_cli.shared.option_blocks import given_options, takes_blocks


@dataclass(frozen=True, slots=True)
class Block:
    """Two options."""

    count: Annotated[str, typer.Option("--count")] = "1"
    output: Annotated[str | None, typer.Option("-o", "--output")] = None


@takes_blocks
def command(
    name: Annotated[str, typer.Option("--name")] = "x",
    *,
    block: Block,
    last: Annotated[bool, typer.Option("--last")] = False,
) -> None:
    """Print what was given."""
    print(name, block, last)


def test_the_fields_stand_where_the_block_stood() -> None:
    assert list(inspect.signature(command).parameters) == ["name", "count", "output", "last"]


def test_the_command_gets_the_block() -> None:
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, ["--count", "3", "-o", "f", "--last"])
    assert done.output == f"x {Block('3', 'f')} True\n"


def test_options_that_were_given_go_by_the_name_that_is_typed() -> None:
    assert given_options(Block()) == {}
    assert given_options(Block("2", "f")) == {"--count": "2", "-o": "f"}
