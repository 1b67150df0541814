"""The figures of samples and canary: every point is there, extremes survive thinning, equal input gives equal files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.figures.drawing.matplotlib_drawer import draw_beside, figure_png, figure_svg
from reports.figures.drawing.spec import Line, Marks
from reports.figures.samples import MOST_DOTS, samples_figure, thinned
from reports.figures.timeline import canary_figure
from reports.view.run_state import run_state
from reports.view.sample_series import flagged_series, shape_flags
from results.cases.case_result import case_results


def figure_of(samples_s, median_s=1e-3, interval_s=(0.99e-3, 1.01e-3)):
    return samples_figure(samples_s, median_s, interval_s, most_dots=MOST_DOTS)


def test_canaries_show_every_reading_and_mark_the_slow_ones(make):
    records = make.rich_records()
    state = run_state(
        make.run(started_at="2026-11-21T09:09:00+00:00"),
        case_results(records),
        records,
        make.canaries(),
    )
    figure = canary_figure(state)
    series = figure.planes[0].series
    drawn = {marks.name: marks.y for marks in series if isinstance(marks, Marks)}
    assert len(drawn["gemv-bf16-4096x4096"]) == 7
    assert drawn["gemv-bf16-4096x4096, slow"] == pytest.approx([1.31e-3 / 410e-6, 1.29e-3 / 410e-6])
    assert figure.y.low_value < 1 < figure.y.high_value
    assert figure.y.high_value > 3.2
    (ticks,) = [line for line in series if isinstance(line, Line) and line.name == "quarantined"]
    assert ticks.x.count(None) == 2
    (axes,) = draw_beside(figure).axes
    assert axes.get_ylim() == (figure.y.low_value, figure.y.high_value)


@pytest.mark.parametrize("count", [3, 50, 5000])
def test_samples_are_drawn_in_order_and_as_ecdf_on_one_axis(count):
    samples = [1e-3 * (1 + 0.001 * (index % 7)) for index in range(count)]
    ordered, ecdf = draw_beside(figure_of(samples)).axes
    (dots,) = [patch for patch in ordered.patches if patch.get_label() == "samples"]
    drawn = dots.get_path().vertices[::2]
    assert len(drawn) <= MOST_DOTS
    assert len(drawn) == count or count > MOST_DOTS
    assert list(drawn[:, 0]) == sorted(drawn[:, 0])
    assert ordered.get_ylim() == ecdf.get_ylim()
    (steps,) = [line for line in figure_of(samples).planes[1].series if line.is_stepped]
    assert steps.x[-1] == pytest.approx(100)
    assert list(steps.y) == sorted(steps.y)


def test_thinning_keeps_the_extremes():
    values = [1.0] * 5000
    values[1234], values[4321] = 9.0, 0.1
    thinned_values = thinned(values)
    assert len(thinned_values) <= MOST_DOTS
    assert {1234, 4321} <= set(thinned_values)
    assert thinned_values == sorted(set(thinned_values))
    assert thinned([1.0, 2.0]) == [0, 1]


def test_degenerate_series_are_drawn():
    for samples in ([0.0, 0.0, 0.0], [1e-9] * 3, [30.0, 30.0, 31.0]):
        assert "<svg" in figure_svg(draw_beside(figure_of(samples, samples[0], (None, None))))


def test_equal_series_give_equal_files_and_thousands_of_samples_a_small_one():
    samples = [1e-3 * (1 + 0.01 * ((index * 7919) % 101)) for index in range(20_000)]
    first, second = (figure_svg(draw_beside(figure_of(samples)), text_as_paths=False) for _ in range(2))
    assert first == second
    assert len(first) < 120_000


def test_only_shapes_are_drawn_the_gravest_first_and_only_with_samples(make):
    records = make.rich_records()
    series_list = flagged_series(case_results(records))
    assert [shape_flags(process) for _, process in series_list] == [("bimodal",)] * 3 + [("drift",), ("outliers",)]
    assert [label for label, _ in series_list] == [
        "process 0",
        "process 1",
        "process 2",
        "",
        "",
    ]
    pruned = make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, flags=("drift",), samples_s=())
    assert flagged_series(case_results([pruned])) == ()
    contended = make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, flags=("contended",))
    assert flagged_series(case_results([contended])) == ()


def test_readings_without_times_are_drawn_by_number(make):
    records = make.rich_records()
    readings = [replace(reading, created_at="then") for reading in make.canaries()]
    state = run_state(make.run(), case_results(records), records, readings)
    (plane,) = canary_figure(state).planes
    (slow,) = [series for series in plane.series if series.name.endswith("slow")]
    assert slow.x == (7, 8)
    assert plane.x.title == "Reading"
    assert "quarantined" not in [series.name for series in plane.series]  # they have no place on this axis


def test_samples_are_seen_in_a_picture(tmp_path):
    from matplotlib.image import imread

    (tmp_path / "samples.png").write_bytes(figure_png(draw_beside(figure_of([0.95e-3, 1.2e-3] * 40))))
    red, green, blue = imread(tmp_path / "samples.png")[:, :400, :3].transpose(2, 0, 1)
    assert ((blue > 0.6) & (red < 0.1) & (green < 0.45)).sum() > 500
