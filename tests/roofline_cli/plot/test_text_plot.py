"""The roofline in characters: exact drawings, and laws that hold for every plot."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.figures.drawing.spec import Axis
from reports.view.roofline_view import CacheRoof, Roof
from roofline_cli.plot.axes import rate_tick, tick_values
from roofline_cli.plot.canvas import value_at
from roofline_cli.plot.drawing import MAX_WIDTH, draw
from roofline_cli.plot.figure import LetterPoint, hidden_texts, letter_figure, letter_of, ridge_texts


def roof(name, bandwidth, peak):
    return Roof(name, "", "", bandwidth, peak, "")


ROOFS = (roof("INT8", 1e12, 200e12), roof("BF16", 1e12, 100e12))
DRAM = CacheRoof("DRAM", 1e12)
POINTS = (
    LetterPoint("A", 1.0, 1e12, 0.3e12, 0.6e12),
    LetterPoint("B", 2.0, 2e12, None),
    LetterPoint("C", 400.0, 100e12, 60e12),
    LetterPoint("D", 1.01, 1.01e12, None),
)
SMALL = letter_figure(ROOFS, DRAM, points=POINTS)
UNICODE = """\
FLOP/s
      │                               ◆⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀ INT8
      │                            ⢀⡠⠒⠁
100 T ┤                          ⡠⠔◆⠉⠉⠉⠉⠉⠉c⠉⠉⠉⠉⠉⠉⠉ BF16
      │                       ⣀⠔⠉         C
      │        DRAM 1 TB/s ⣀⠔⠊
      │                 ⢀⠤⠊
 10 T ┤              ⢀⡠⠊⠁
      │            ⡠⠒⠁
      │         ⡠⠔⠉
      │      ⣀b⠊
  1 T ┤   a⠔⠊
      │⢀⠤⠊╌
      │⠁  ┊
      │   A
      └───┴───────────┴────────────┴───────────┴──
          1          10           100        1,000
                                         FLOP/byte"""
ASCII = """\
FLOP/s
      |                               */---------- INT8
      |                             /--
100 T +                          /-*------c------- BF16
      |                       /--         C
      |        DRAM 1 TB/s /--
      |                 /--
 10 T +               /-
      |            /--
      |         /--
      |      /b-
  1 T +   a--
      |---=
      |   :
      |   A
      +---+-----------+------------+-----------+--
          1          10           100        1,000
                                         FLOP/byte"""


def test_the_drawing_is_exactly_this():
    drawing = draw(SMALL, 55)
    assert drawing.texts == UNICODE.splitlines()
    assert drawing.hidden == {"D": "A"}
    assert (
        len({style for line in drawing.lines for _, style in line.pieces}) > 4
    )  # letters, marks and axes look different


def test_without_unicode_the_same_plot_is_drawn_in_ascii():
    lines = draw(SMALL, 55, is_ascii=True).texts
    assert all(line.isascii() for line in lines)
    assert lines == ASCII.splitlines()


def test_letters_and_ridges_stand_where_their_numbers_say():
    lines = UNICODE.splitlines()[1:-3]
    room = (200 / 0.3) ** 0.07  # below and above the rates; intensities: half the smallest, four times the largest
    x_axis, y_axis = Axis("", 0.5, 1600), Axis("", 0.3e12 / room, 200e12 * room)
    columns, rows = len(UNICODE.splitlines()[-3]) - 7, len(lines)
    for sign, intensity, rate in (
        ("a", 1, 1e12),
        ("A", 1, 0.3e12),
        ("╌", 1, 0.6e12),
        ("b", 2, 2e12),
        ("c", 400, 100e12),
        ("C", 400, 60e12),
    ):
        ((row, column),) = [
            (rows - 1 - i, line.index(sign) - 7) for i, line in enumerate(lines) if sign in line.split(" DRAM")[0]
        ]
        assert value_at(column / columns, x_axis) <= intensity <= value_at((column + 1) / columns, x_axis), sign
        assert value_at(row / rows, y_axis) <= rate <= value_at((row + 1) / rows, y_axis), sign
    ridges = [(value_at((line.index("◆") - 7 + 0.5) / columns, x_axis), line) for line in lines if "◆" in line]
    assert [round(at / 100) for at, _ in ridges] == [2, 1]


def test_an_expected_roof_is_a_curve_of_its_own():
    curve = tuple((x, min(0.5e12 * x, 50e12)) for x in (1.0, 10.0, 100.0, 1000.0))
    bare, drawn = (
        draw(SMALL, 80).texts,
        draw(letter_figure(ROOFS, DRAM, (), POINTS, curve), 80).texts,
    )
    assert sum(left != other for left, other in zip(bare, drawn, strict=True)) > 8
    # below the roofs nothing goes: what was blank has dots, and no letter moved
    for left, other in zip(bare, drawn, strict=True):
        assert [sign for sign in other if sign.isalpha() and ord(sign) < 128] == [
            sign for sign in left if sign.isalpha() and ord(sign) < 128
        ]


def test_a_cache_has_a_slope_with_a_name_where_there_is_room():
    plot = letter_figure(ROOFS, DRAM, (CacheRoof("L2", 9e12),), POINTS)
    assert any("L2 9 TB/s" in line for line in draw(plot, 80).texts)


def test_nothing_to_draw_is_no_line():
    assert draw(letter_figure((), None), 80).lines == ()


def test_roofs_of_one_height_share_a_name_and_neighbours_move_apart():
    roofs = tuple(roof(f"F{i}", 1e12, peak) for i, peak in enumerate((100e12, 100e12, 101e12, 100.1e12, 50e12)))
    text = "\n".join(draw(letter_figure(roofs, None), 120).texts)
    for name in ("F0, F1, F3", "F2", "F4"):
        assert name in text
    long = tuple(roof("x" * 300 + str(i), 1e12, 1e12) for i in range(3))
    assert max(map(len, draw(letter_figure(long, None), 80).texts)) <= 80


rates = st.floats(1e6, 1e16)
intensities = st.floats(1e-2, 1e5)
optional_rates = st.none() | rates
points = st.builds(LetterPoint, st.sampled_from("ABCDEFGH*"), intensities, rates, optional_rates, optional_rates)
roofs = st.builds(roof, st.text(min_size=1, max_size=40), st.floats(1e8, 1e14), rates)


@given(st.lists(roofs, max_size=6), st.lists(points, max_size=20), st.integers(20, 250), st.booleans())
def test_every_plot_fits_and_every_letter_is_drawn_or_said_to_be_hidden(found_roofs, found_points, width, is_ascii):
    memory = CacheRoof("DRAM", found_roofs[0].bandwidth_bytes_per_s) if found_roofs else None
    drawing = draw(letter_figure(found_roofs, memory, (), found_points), width, is_ascii=is_ascii)
    texts = drawing.texts
    if not found_roofs and not found_points:
        assert texts == []
        return
    assert max(map(len, texts)) <= min(max(width, 40), MAX_WIDTH)
    inside = "".join(
        sign
        for line in drawing.lines
        for text, style in line.pieces
        if "green" in style or style == "yellow"
        for sign in text
    )
    for letter in {found_point.letter for found_point in found_points}:
        assert (letter in inside or letter.lower() in inside) != (letter in drawing.hidden)
    assert texts[-1].endswith("FLOP/byte")


@given(st.floats(1e-3, 1e15), st.floats(1.5, 1e9))
def test_ticks_lie_inside_their_axis_and_are_at_least_two(low, factor):
    axis = Axis("", low, low * factor)
    values = tick_values(axis)
    assert all(low <= value <= low * factor for value in values)
    assert values == sorted(values)
    assert values


def test_ticks_and_texts():
    assert [rate_tick(value) for value in (1e9, 2e11, 1e12, 1e15, 5e5)] == ["1 G", "200 G", "1 T", "1 P", "500 k"]
    assert [letter_of(index) for index in (0, 25, 26, 400)] == ["A", "Z", "*", "*"]
    assert hidden_texts({"C": "A", "B": "A", "F": "E"}) == ["B, C under A", "F under E"]
    assert ridge_texts(ROOFS) == ["INT8: 200 TFLOP/s from 200 FLOP/byte", "BF16: 100 TFLOP/s from 100 FLOP/byte"]


def test_roofs_that_read_alike_are_named_once():
    roofs = (
        roof("BF16", 1e12, 100e12),
        roof("BF16", 1e12, 100e12 * (1 + 1e-9)),
        roof("FP16", 1e12, 100.01e12),
    )
    assert ridge_texts(roofs) == ["BF16, FP16: 100 TFLOP/s from 100 FLOP/byte"]


@pytest.mark.parametrize("width", [60, 100, 160])
def test_a_plot_of_a_prefill_shows_the_slope_and_every_ridge_where_it_is(width):
    points = tuple(LetterPoint(letter, x, None, 80e12) for letter, x in (("A", 2_000.0), ("B", 4_000.0)))
    lines = draw(letter_figure(ROOFS, DRAM, points=points), width).texts
    int8, bf16 = [line.index("◆") for line in lines if "◆" in line]
    left = next(line.index("┤") for line in lines if "┤" in line) + 1
    assert left < bf16 < int8  # not both in the first column, where their intensity is not
    assert any("DRAM 1 TB/s" in line for line in lines)
    low, high = 100 / 2, 4_000 * 4
    columns = max(len(line) for line in lines if line.strip().startswith("└")) - left
    for column, ridge in ((bf16, 100), (int8, 200)):
        place = math.log(ridge / low) / math.log(high / low)
        assert abs(column - left - place * columns) <= 1.5


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_it_fills_the_screen_without_leaving_it(width):
    longest = max(map(len, draw(SMALL, width).texts))
    assert min(width, MAX_WIDTH) - 12 <= longest <= min(width, MAX_WIDTH)
