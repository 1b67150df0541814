"""Figures inside a page: fewer bytes, and not one word or place of the figure changed."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import pytest

from reports.figures.drawing.matplotlib_drawer import figure_svg
from reports.figures.drawing.palette import format_colours
from reports.page.html import inline_svg, tight_css

HOSTILE = 'a > b <script>alert(1)</script> & style="font-family: x" id="p" d="M 1.23456 2" url(#x)'
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn():
    """A figure with repeated markers, a clip, words that look like markup, and a line: its file, and as a part of a
    page.
    """
    figure, axes = plt.subplots()
    axes.plot(range(12), [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], "o-", color=format_colours(["BF16"])["BF16"].light)
    axes.set_title(HOSTILE)
    axes.set_xlabel("FLOP/byte")
    file = figure_svg(figure, text_as_paths=False)
    plt.close(figure)
    return file, inline_svg(file, "t-")


def words_of(text):
    return [element.text for element in ElementTree.fromstring(text).iter() if element.tag.removeprefix(SVG) == "text"]


def test_every_word_stays_and_no_element_is_left_open(drawn):
    file, inlined = drawn
    assert words_of(inlined) == words_of(file)
    assert HOSTILE in words_of(inlined)


def test_marks_and_lines_stay_where_they_were(drawn):
    file, inlined = drawn
    places = [
        [
            (round(float(element.get("x")), 1), round(float(element.get("y")), 1))
            for element in ElementTree.fromstring(text).iter()
            if element.tag.removeprefix(SVG) == "use"
        ]
        for text in (file, inlined)
    ]
    assert len(places[0]) > 20
    for (x, y), (other_x, other_y) in zip(*places, strict=True):
        assert (x, y) == pytest.approx((other_x, other_y), abs=0.11)
    shapes = [
        [element for element in ElementTree.fromstring(text).iter() if element.tag.removeprefix(SVG) == "path"]
        for text in (file, inlined)
    ]
    assert len(shapes[0]) == len(shapes[1])


def test_every_reference_leads_to_an_id_of_the_figures_own_and_no_id_is_left_without_one(drawn):
    inlined = drawn[1].replace("url(#x)", "")
    ids = re.findall(r' id="([^"]*)"', inlined.replace('id="p" d=', ""))
    references = set(re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', inlined))
    assert sorted(ids) == sorted({left or other for left, other in references})
    assert all(element_id.startswith("t-") for element_id in ids)


def test_it_takes_less_than_half_and_its_colours_follow_the_theme(drawn):
    file, inlined = drawn
    assert len(inlined) < 0.5 * len(file)
    assert "var(--plot-bf16)" in inlined
    assert format_colours(["BF16"])["BF16"].light not in inlined
    assert "font-family" not in inlined.replace(re.escape(HOSTILE), "").replace('style="font-family: x"', "")
    assert "font-size" in inlined


def test_a_style_sheet_without_spaces_says_the_same():
    css = """/* a note; with { signs */
.mark::before { content: "● ; { : , "; color : red; }
@media screen and (max-width: 40rem) { .a, .b > .c:hover { margin: 0 .3rem; font: 16px/1.5 "A B", serif; } }
:root:not([data-theme="light"]) { --up-1: #dcefe8; width: calc(100% - 3.5rem); }
"""
    assert tight_css(css) == (
        '.mark::before{content:"● ; { : , ";color : red}'
        '@media screen and (max-width:40rem){.a,.b > .c:hover{margin:0 .3rem;font:16px/1.5 "A B",serif}}'
        ':root:not([data-theme="light"]){--up-1:#dcefe8;width:calc(100% - 3.5rem)}'
    )
