"""A word or an option in the wrong place is answered with the command that was meant, which runs."""

from __future__ import annotations

import re
import shlex

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

SHAPE = "-N 4096 -K 4096 --hw gb10"


def refusal(typed: str) -> str:
    done = CliRunner().invoke(app, shlex.split(typed))
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (f"recommend gemv {SHAPE}", f"recommend -M 1 {SHAPE}"),
        (f"recommend gemm -M 64 {SHAPE}", f"recommend -M 64 {SHAPE}"),
        (f"tiling gemm -M 64 {SHAPE}", f"tiling -M 64 {SHAPE}"),
        ("recommend model llama-3.1-8b --hw gb10", "recommend --model llama-3.1-8b --hw gb10"),
        ("recommend --hw gb10 llama-3.1-8b", "recommend --hw gb10 --model llama-3.1-8b"),
        ("predict model llama-3.1-8b --hw gb10", "predict model --model llama-3.1-8b --hw gb10"),
        ("--hw gb10 predict gemv -N 4096 -K 4096", "predict gemv -N 4096 -K 4096 --hw gb10"),
        ("predict --hw gb10 gemv -N 4096 -K 4096", "predict gemv -N 4096 -K 4096 --hw gb10"),
        ("--json formats", "formats --json"),
    ],
)
def test_the_command_that_was_meant_is_printed_and_runs(typed: str, meant: str) -> None:
    match = re.search(r"type `roofline (.*)`", refusal(typed))
    assert match is not None
    assert match[1] == meant
    assert CliRunner().invoke(app, shlex.split(match[1])).exit_code == 0


@pytest.mark.parametrize("typed", ["recommend gemv", "recommend gemv -N 4096 --hw gb10", "demo gb10", "--colour runs?"])
def test_where_nothing_is_known_to_be_meant_the_help_is_named(typed: str) -> None:
    assert re.search(r"see `\w+( \w+)? --help`", refusal(typed))


def test_a_password_in_the_wrong_place_is_not_printed_again() -> None:
    said = refusal("--db postgresql://me:SECRET9@h/x runs")
    assert "roofline runs --db" in said
    assert "SECRET9" not in said
