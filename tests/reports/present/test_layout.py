"""The layout that the command line and pytest's summary share: laws that hold for every table and width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.present.blocks import Column
from reports.present.layout import (
    LEAST_PROSE,
    column_widths,
    fitting_columns,
    folded,
    joined,
    row_lines,
)

WORDS = st.text("abcdefgh_.-/0123456789", min_size=1, max_size=40)
TEXTS = st.lists(WORDS, min_size=0, max_size=8).map(" ".join)


@st.composite
def tables(draw):
    count = draw(st.integers(1, 5))
    columns = [
        Column(
            f"c{i}",
            str,
            draw(st.sampled_from(["name", "number", "prose"])),
            least=draw(st.integers(8, 20)),
            drop=draw(st.integers(0, 3)),
        )
        for i in range(count)
    ]
    rows = draw(
        st.lists(st.tuples(*(TEXTS if column.kind == "prose" else WORDS for column in columns)), min_size=1, max_size=4)
    )
    return columns, rows


@given(tables(), st.integers(40, 200))
def test_a_table_loses_no_letter_and_is_wider_than_the_screen_only_by_what_may_not_fold(table, width):
    columns, rows = table
    widths = column_widths(columns, rows, width)
    for row in rows:
        lines = row_lines(columns, widths, row)
        assert all(len(cell) == size for line in lines for cell, size in zip(line, widths, strict=True))
        for i, text in enumerate(row):
            assert "".join(line[i] for line in lines).replace(" ", "") == text.replace(" ", "")
    if sum(widths) + 2 * (len(widths) - 1) > width:
        assert all(size <= LEAST_PROSE for column, size in zip(columns, widths, strict=True) if column.kind == "prose")


@given(tables(), st.integers(40, 200))
def test_columns_leave_in_their_order_and_only_while_there_is_no_room(table, width):
    columns, rows = table
    fitting = fitting_columns(columns, rows, width)
    gone = [i for i in range(len(columns)) if i not in fitting]
    assert all(columns[i].drop for i in gone)
    assert not gone or max((columns[i].drop for i in fitting), default=0) <= min(columns[i].drop for i in gone)
    assert fitting_columns(columns, rows, 10_000) == list(range(len(columns)))


@given(TEXTS, st.integers(12, 80))
def test_folded_lines_fit_and_hold_the_text(text, width):
    lines = folded(text, width, "  ")
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(
    "text", ["it took 98.4 µs", "moves 273 GB/s", "off by 3.1 %", "holds 31 MiB", "at 14.2 tokens/s"]
)
def test_a_number_stays_with_its_unit(text):
    number = text.split()[-2]
    for width in range(len("tokens/s") + 6, len(text) + 1):
        assert any(f"{number} {text.split()[-1]}" in line for line in folded(text, width))


def test_a_name_breaks_behind_its_joints():
    assert folded("forums.developer.nvidia.com", 18) == ["forums.developer.", "nvidia.com"]
    assert folded("scaled_mm_emulated", 12) == ["scaled_mm_", "emulated"]
    assert folded("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]


def test_a_row_by_hand():
    columns = [Column("name", str, "prose"), Column("time", str, "number")]
    assert [joined(line) for line in row_lines(columns, [6, 5], ("one two three", "12 µs"))] == [
        "one     12 µs",
        "two",
        "three",
    ]
