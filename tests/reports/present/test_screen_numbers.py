"""Numbers that a user types: digits of other scripts, which Python's own int() and float() read, are refused."""

from __future__ import annotations

import math

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_cli.shared.options import float_or_nan, parse_number, parse_size
from roofline_model.core.errors import InvalidValueError


@pytest.mark.parametrize("text", ["٤٥٠", "４５０", "4５0", "४.५"])
def test_digits_of_other_scripts_are_no_numbers(text):
    assert math.isfinite(float(text))
    assert math.isnan(float_or_nan(text))
    with pytest.raises(InvalidValueError, match=r"--memory-headroom.*0.*1"):
        parse_number("--memory-headroom", text, "a share", below=1)
    with pytest.raises(InvalidValueError, match="M must be a whole number"):
        parse_size("M", text)


@pytest.mark.parametrize(("text", "value"), [("450", 450), ("4.5e2", 450), (" 450 ", 450), ("0", 0)])
def test_plain_numbers_are(text, value):
    assert float_or_nan(text) == value


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "predict model --hw gb10 --model llama-3-8b --tensor-parallel 2 --link-gb-s ٤٥٠",
            "--link-gb-s must be a positive number",
        ),
        ("predict model --hw gb10 --model llama-3-8b --memory-headroom ٠.٥", "--memory-headroom must be a share"),
        ("predict model --hw gb10 --model llama-3-8b --context ٤٠٩٦", "--context must be a whole number"),
    ],
)
def test_a_command_refuses_them(command, message):
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 2
    assert message in result.stderr
