"""Definition files: what is refused is refused in one line, quickly, and in little memory."""

from __future__ import annotations

import sys
import tracemalloc

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.core.definition_text import MAX_KEY_PARTS, parse_definition


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 20_000) + " = 1",
        f"[{'.'.join(['a'] * 20_000)}]",
        "x = {" + " . ".join(['"a b"'] * 20_000) + " = 1}",
        "a." * 400_000,
    ],
    ids=["key", "header", "inline", "unfinished"],
)
def test_a_deep_key_is_refused_before_the_parser_stores_its_prefixes(text):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=str(MAX_KEY_PARTS)):
            parse_definition(text)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_usual_keys_and_prose_with_dots_are_read():
    key = ".".join(["part"] * MAX_KEY_PARTS)
    table = parse_definition(f"{key} = 1\nsource = 'see a.b.c, d.e.f, etc. '\n")
    assert str(table).count("'part'") == MAX_KEY_PARTS


MANY_DIGITS = "1" * 900_000


@pytest.mark.parametrize(
    ("command", "name", "content"),
    [
        (
            ["recommend", "--model", "llama-3.1-8b", "--hw", "gb10", "--losses"],
            "x.json",
            '{"losses": {"a": {"INT4": %s}}}',
        ),
        (["predict", "gemv", "-N", "64", "-K", "64", "--hw"], "x.toml", "schema = %s\n"),
        (["predict", "gemv", "-N", "64", "-K", "64", "--hw"], "y.toml", "schema = [1, -%s]\n"),
        (["import"], "x.json", '{"format": "roofline-bench run", "schema_version": %s}'),
    ],
    ids=["losses", "chip", "chip's list", "export"],
)
def test_a_number_of_very_many_digits_is_not_worked_out(tmp_path, monkeypatch, command, name, content):
    """Python refuses more than 4,300 digits only where nobody has switched that off; a million take it minutes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content % MANY_DIGITS)
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        result = CliRunner().invoke(app, [*command, name])
    finally:
        sys.set_int_max_str_digits(before)
    assert result.exit_code == 2, result.output
    assert "digits" in result.stderr
    assert "set_int_max_str_digits" not in result.stderr
    assert len(result.stderr) < 400
