"""The figure of trade-offs: every pair of axes has the same series, points without a place stand below the line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.advice.trade_offs import PlottedOption, TradeGroup, coordinate, with_fronts
from reports.figures.drawing.matplotlib_drawer import draw_figure, figure_svg
from reports.figures.drawing.palette import format_colours
from reports.figures.drawing.plotly_drawer import plotly_json
from reports.figures.drawing.spec import Line, Marks
from reports.figures.trade_offs import X_AXES, Y_AXES, axes_of, point_key, trade_off_figure
from reports.page.page_data import difference
from roofline_model.core.answer import Estimate, Loss, Memory, Option, Times


def point(precision: str, time_s: float, speedup_ratio: float, loss: Loss, memory_bytes: float, is_best: bool = False):
    option = Option(
        key=precision,
        formats=(("b", precision),),
        method="",
        path="native",
        bound="memory",
        times=Times(measured=Estimate(time_s, source="measured")),
        memory=Memory(memory_bytes),
        loss=loss,
        speedup_ratio=speedup_ratio,
        ideal_speedup_ratio=None,
        label=precision.partition("_")[0],
        precision=precision,
    )
    return PlottedOption(option, is_best)


WIDE = point("BF16", 2e-4, 1.0, Loss("reference", 0.0), 3.2e7)
NARROW = point("INT4", 1e-4, 2.0, Loss("measured", 3.0, low_pct=2.5, high_pct=3.5), 8e6, is_best=True)
UNKNOWN = point("FP8_E4M3", 3e-4, 0.7, Loss("unknown"), 3.2e7)
GROUP = TradeGroup("gemv", "this run", "call", "BF16", with_fronts((WIDE, NARROW, UNKNOWN)))
COLOURS = format_colours(point.option.precision for point in GROUP.points)
PAIRS = [(x, y) for x in X_AXES for y in axes_of(GROUP, Y_AXES)]


def marks_of(figure, at):
    return next(series for series in figure.series if isinstance(series, Marks) and series.keys == (point_key(at),))


def test_axes_without_a_point_are_not_offered():
    assert axes_of(GROUP, Y_AXES) == ("loss_pct", "memory_bytes")
    assert axes_of(replace(GROUP, points=()), Y_AXES) == ("loss_pct",)


FP32 = replace(WIDE, option=replace(WIDE.option, key="FP32", precision="FP32", label="FP32"))


@pytest.mark.parametrize(
    ("points", "axes", "note_count"),
    [
        ((WIDE, NARROW), ("loss_pct", "memory_bytes"), 0),
        ((WIDE, NARROW, UNKNOWN), ("loss_pct", "memory_bytes"), 0),
        ((WIDE, UNKNOWN), ("memory_bytes",), 1),
        ((WIDE, FP32), ("memory_bytes",), 1),
    ],
    ids=["a known loss", "an unknown one beside it", "zeros and question marks", "zeros alone"],
)
def test_losses_are_drawn_where_another_than_the_references_is_known(points, axes, note_count):
    group = replace(GROUP, points=with_fronts(points))
    assert axes_of(group, Y_AXES) == axes
    figure = trade_off_figure(group, "time_s", axes[-1], COLOURS | format_colours(["FP32"]))
    notes = [note for note in figure.notes if note.startswith("Loss of quality is not drawn")]
    assert len(notes) == note_count


def test_losses_that_are_drawn_for_want_of_another_axis_are_not_said_to_be_left_out():
    points = tuple(replace(each, option=replace(each.option, memory=None)) for each in (WIDE, UNKNOWN))
    group = replace(GROUP, points=with_fronts(points))
    assert axes_of(group, Y_AXES) == ("loss_pct",)
    figure = trade_off_figure(group, "time_s", "loss_pct", COLOURS)
    assert not [note for note in figure.notes if "not drawn" in note]


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_a_point_stands_where_its_numbers_are(x, y):
    figure = trade_off_figure(GROUP, x, y, COLOURS)
    first, second = (marks_of(figure, at) for at in (0, 1))
    for axis in ("x", "y"):
        key = x if axis == "x" else y
        ratio = coordinate(GROUP.points[1], key) / (coordinate(GROUP.points[0], key) or 1)
        if coordinate(GROUP.points[0], key):
            assert getattr(second, axis)[0] / getattr(first, axis)[0] == pytest.approx(ratio)
    assert figure_svg(draw_figure(figure)).count("<svg") == 1


def test_a_point_without_a_loss_stands_below_the_line_under_a_tick_of_its_own():
    figure = trade_off_figure(GROUP, "time_s", "loss_pct", COLOURS)
    spot = marks_of(figure, 2).y[0]
    line = next(series for series in figure.series if isinstance(series, Line) and series.name == "known above")
    assert figure.y.low_value < spot < line.y[0] < 0
    assert figure.y.ticks[0][0] == spot
    assert all(value >= 0 for value, _ in figure.y.ticks[1:])
    assert any("FP8" in note for note in figure.notes)


def test_a_front_joins_what_is_on_it_and_others_are_pale():
    figure = trade_off_figure(GROUP, "speedup_ratio", "loss_pct", COLOURS)
    front = next(series for series in figure.series if series.name == "not beaten")
    assert front.x == (1.0, 2.0)
    assert front.y == (0.0, 3.0)
    assert marks_of(figure, 0).opacity_ratio == 1 > marks_of(figure, 2).opacity_ratio


def test_figures_of_a_group_differ_little_for_the_page():
    figures = [plotly_json(trade_off_figure(GROUP, x, y, COLOURS)) for x, y in PAIRS]
    assert len({len(figure["data"]) for figure in figures}) == 1
    assert "cards" not in difference(figures[1], figures[0])
    assert "legend" not in difference(figures[1], figures[0])
