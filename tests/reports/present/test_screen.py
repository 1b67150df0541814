"""Tables on screens of every width: nothing wraps that is a number, nothing escapes, nothing is lost silently."""

from __future__ import annotations

from operator import itemgetter

import pytest

from reports.present import screen
from reports.present.blocks import Column, Span, table
from reports.present.screen import clean, clean_line, has_room_for, intensity, screen_width, show, show_json, show_line
from roofline_model.core.units import column_times, format_speedup, in_prefix, shared_prefix

COLUMNS = (
    Column("Name", itemgetter(0)),
    Column("Time", itemgetter(1), "number"),
    Column("Rate", itemgetter(2), "number", drop=1),
    Column("Why", itemgetter(3), "prose", drop=2),
)
ROWS = [
    ["INT4", "8.40 µs", "998.9 GB/s", "memory-bound because the weights are read once"],
    ["FP16", "33.57 µs", "1000 GB/s", "baseline"],
]


def lines_at(width, capsys, monkeypatch, columns=COLUMNS, rows=ROWS):
    """The title and the table; an empty line goes before a title."""
    monkeypatch.setenv("COLUMNS", str(width))
    show(table("", columns, rows, title="A table"))
    return capsys.readouterr().out.splitlines()[1:]


def test_piped_tables_are_aligned_and_complete(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    show(table("", COLUMNS, ROWS, title="A table"))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "A table",
        "Name      Time        Rate  Why",
        "----  --------  ----------  ----------------------------------------------",
        "INT4   8.40 µs  998.9 GB/s  memory-bound because the weights are read once",
        "FP16  33.57 µs   1000 GB/s  baseline",
    ]


def test_a_wide_screen_shows_every_column(capsys, monkeypatch):
    lines = lines_at(100, capsys, monkeypatch)
    assert lines[1].split() == ["Name", "Time", "Rate", "Why"]
    assert lines[3].rstrip() == "INT4   8.40 µs  998.9 GB/s  memory-bound because the weights are read once"


def test_prose_folds_and_numbers_do_not(capsys, monkeypatch):
    lines = lines_at(60, capsys, monkeypatch)
    assert all(len(line) <= 60 for line in lines)
    assert lines[3].startswith("INT4   8.40 µs  998.9 GB/s  memory-bound")
    assert lines[4].strip() == "are read once"


@pytest.mark.parametrize(("width", "left_out"), [(45, "Why"), (40, "Why")])
def test_a_narrow_screen_leaves_out_columns_and_says_so(capsys, monkeypatch, width, left_out):
    lines = lines_at(width, capsys, monkeypatch)
    assert lines[-1] == f"(left out at this width: {left_out})"
    assert lines[3].rstrip() == "INT4   8.40 µs  998.9 GB/s"


def test_what_cannot_be_dropped_is_never_cut(capsys, monkeypatch):
    columns = tuple(Column(f"number {i}", itemgetter(i), "number") for i in range(8))
    lines = lines_at(40, capsys, monkeypatch, columns, [[f"{i}.12345 ms" for i in range(8)]])
    assert "7.12345 ms" in lines[3]


def test_cells_are_neither_markup_nor_terminal_commands(capsys, monkeypatch):
    nasty = "[red]x[/red] \x1b[31mred\x1b[0m \x9b2J a\nb\u202e"
    for width in (None, 100):
        if width is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", str(width))
        show(table("", [Column("Label", lambda text: text)], [nasty, Span(nasty, "failed")]))
        show_line(nasty, "bold")
        out = capsys.readouterr().out
        assert out.count("[red]x[/red]") == 3
        assert not {"\x1b", "\x9b", "\u202e"} & set(out)
        assert len(out.splitlines()) == 5


def test_clean_keeps_words_and_drops_controls():
    assert clean("a\tb\nc\x00d") == "a b c?d"
    assert clean_line("  one\n\n two\x07 ") == "one two?"


@pytest.mark.parametrize(
    ("columns", "expected"), [("120", 120), ("7", 40), ("0", None), ("wide", None), ("", None), ("9" * 400, 999999)]
)
def test_width_comes_from_columns_when_it_makes_sense(monkeypatch, columns, expected):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)
    assert screen_width() == expected


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch, capsys):
    monkeypatch.setattr(screen, "_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    states = [Column("State", lambda text: text)]
    show(table("", states, [Span("broken", "failed")]))
    assert "\x1b[1;31mbroken" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    show(table("", states, [Span("broken", "failed")], title="A title"))
    assert "\x1b" not in capsys.readouterr().out


def test_json_is_ascii_and_has_no_infinities(capsys):
    show_json({"a": float("inf"), "b": [float("nan"), 1.5], "c": "µ\x9b", "d": (1, 2)})
    out = capsys.readouterr().out
    assert out.isascii()
    assert '"a": null' in out
    import json

    assert json.loads(out) == {"a": None, "b": [None, 1.5], "c": "µ\x9b", "d": [1, 2]}


def test_times_below_and_beside_each_other_have_one_unit_and_lose_no_digit():
    assert column_times([93.84e-3, 0.11837, 1.2, None]) == ["93.84 ms", "118.4 ms", "1200.0 ms", "–"]
    prefix = shared_prefix([0.17e-3], [0.0410123e-3, 1.704947e-3])
    assert [in_prefix(time_s, prefix) for time_s in (0.17e-3, 41.0123e-6, 1.704947e-3)] == [
        "170.0 µs",
        "41.01 µs",
        "1704.9 µs",
    ]
    assert shared_prefix([0.17e-3], [1.704947e-3]) == "m"
    # Too far apart for one unit: the small one keeps its digits.
    assert column_times([2.345e-9, 5e-3]) == ["2.345 ns", "5 ms"]
    assert in_prefix(41.0123e-6, "m", is_sum=True) == "0.041 ms"
    assert in_prefix(170.0, "m") == "170 s"


def test_a_column_without_content_is_not_shown(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    columns = [Column("Name", itemgetter(0)), Column("Measured", itemgetter(1), "number", drop=1)]
    empty, full = table("", columns, [("INT4", "–")]), table("", columns, [("INT4", "–"), ("FP16", "1 s")])
    show(empty)
    assert "Measured" not in capsys.readouterr().out
    show(full)
    assert "Measured" in capsys.readouterr().out
    assert [has_room_for(block, "Measured") for block in (empty, full)] == [False, True]
    monkeypatch.setenv("COLUMNS", "40")
    wide = table("", columns, [("INT4" * 9, "1 s")])
    assert not has_room_for(wide, "Measured")


def test_a_row_may_be_printed_in_a_style_of_its_own(monkeypatch, capsys):
    monkeypatch.setattr(screen, "_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    show(table("", [Column("State", str)], ["a", "sum"], look_of=lambda row: "total" if row == "sum" else ""))
    assert "\x1b[1msum" in capsys.readouterr().out


def test_numbers_print_as_the_tables_need_them():
    assert [intensity(x) for x in (1.0, 3.527, 99.99, 99.999, 1024.2, None)] == [
        "1.00",
        "3.53",
        "99.99",
        "100",
        "1024",
        "–",
    ]
    ratios = (4.04, 0.996, 0.951, 0.083, 0.0123, 99.4, 120.4, None)
    assert list(map(format_speedup, ratios)) == ["4.0×", "1.0×", "0.95×", "0.083×", "0.012×", "99.4×", "120×", "–"]


def test_a_note_is_not_cut_inside_a_command() -> None:
    from reports.present.blocks import brief

    text = "ideal times are doubtful here; repeat `roofline calibrate` now"
    assert brief(text, 52) == "ideal times are doubtful here; repeat …"
    assert brief(text, 100) == text
