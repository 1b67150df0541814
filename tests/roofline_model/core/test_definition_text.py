"""Definition files: what is refused is refused in one line, quickly, and in little memory."""

from __future__ import annotations

import tracemalloc

import pytest

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


@pytest.mark.parametrize("text", ["a" * 900_000, '"' + "x" * 900_000, "'" * 400_000 + "." * 400_000])
def test_a_long_line_is_no_deep_key_and_no_toml(text):
    with pytest.raises(ValueError) as raised:
        parse_definition(text)
    assert str(MAX_KEY_PARTS) not in str(raised.value)


def test_usual_keys_and_prose_with_dots_are_read():
    key = ".".join(["part"] * MAX_KEY_PARTS)
    table = parse_definition(f"{key} = 1\nsource = 'see a.b.c, d.e.f, etc. '\n")
    assert str(table).count("'part'") == MAX_KEY_PARTS
