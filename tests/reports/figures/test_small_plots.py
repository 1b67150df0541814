"""The small figures: every point is there, extremes survive thinning, equal input gives equal files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.cases.rows import case_rows
from reports.cases.sample_series import SampleSeries, flagged_series
from reports.cases.summary import case_summaries
from reports.figures.matplotlib_drawer import figure_svg
from reports.figures.small_plots import MAX_DOTS, draw_canaries, draw_samples, thinned
from reports.view.run_state import run_state


def series_of(samples_s, **changes):
    values = {
        "case_id": "c",
        "process_label": "",
        "flags": ("drift",),
        "median_s": 1e-3,
        "ci_low_s": 0.99e-3,
        "ci_high_s": 1.01e-3,
    }
    return SampleSeries(samples_s=tuple(samples_s), **{**values, **changes})


def test_canaries_show_every_reading_and_mark_the_slow_ones(make):
    records = make.rich_records()
    state = run_state(
        make.run(started_at="2026-11-21T09:09:00+00:00"),
        case_summaries(case_rows(records), {}),
        records,
        make.canaries(),
    )
    (axes,) = draw_canaries(state).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert len(drawn["gemv-bf16-4096x4096"]) == 7
    assert drawn["gemv-bf16-4096x4096, slow"] == pytest.approx([1.31e-3 / 410e-6, 1.29e-3 / 410e-6])
    low, high = axes.get_ylim()
    assert low < 1 < high
    assert high > 3.2
    (ticks,) = [
        collection
        for collection in axes.collections
        if "vlines" in type(collection).__name__.lower() or collection.get_segments()
    ]
    assert len(ticks.get_segments()) == 2


@pytest.mark.parametrize("count", [3, 50, 5000])
def test_samples_are_drawn_in_order_and_as_ecdf_on_one_axis(count):
    samples = [1e-3 * (1 + 0.001 * (index % 7)) for index in range(count)]
    ordered, ecdf = draw_samples(series_of(samples)).axes
    (dots,) = ordered.patches[-1:]
    drawn = dots.get_path().vertices[::2]
    assert len(drawn) <= MAX_DOTS
    assert len(drawn) == count or count > MAX_DOTS
    assert list(drawn[:, 0]) == sorted(drawn[:, 0])
    assert ordered.get_ylim() == ecdf.get_ylim()
    steps = next(line for line in ecdf.lines if len(line.get_xdata()) > 2)
    assert steps.get_xdata()[-1] == pytest.approx(100)
    assert list(steps.get_ydata()) == sorted(steps.get_ydata())


def test_thinning_keeps_the_extremes():
    values = [1.0] * 5000
    values[1234], values[4321] = 9.0, 0.1
    kept = thinned(values)
    assert len(kept) <= MAX_DOTS
    assert {1234, 4321} <= set(kept)
    assert kept == sorted(set(kept))
    assert thinned([1.0, 2.0]) == [0, 1]


def test_degenerate_series_are_drawn():
    for samples in ([0.0, 0.0, 0.0], [1e-9] * 3, [30.0, 30.0, 31.0]):
        assert "<svg" in figure_svg(
            draw_samples(series_of(samples, median_s=samples[0], ci_low_s=None, ci_high_s=None))
        )


def test_equal_series_give_equal_files_and_thousands_of_samples_a_small_one():
    samples = [1e-3 * (1 + 0.01 * ((index * 7919) % 101)) for index in range(20_000)]
    first, second = (figure_svg(draw_samples(series_of(samples)), text_as_paths=False) for _ in range(2))
    assert first == second
    assert len(first) < 120_000


def test_only_shapes_are_drawn_the_gravest_first_and_only_with_samples(make):
    records = make.rich_records()
    series_list = flagged_series(case_summaries(case_rows(records), {}))
    assert [one.flags for one in series_list] == [("bimodal",)] * 3 + [("drift",), ("outliers",)]
    assert [one.process_label for one in series_list] == ["process 0", "process 1", "process 2", "", ""]
    pruned = make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, flags=("drift",), samples_s=())
    assert flagged_series(case_summaries(case_rows([pruned]), {})) == ()
    contended = make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, flags=("contended",))
    assert flagged_series(case_summaries(case_rows([contended]), {})) == ()


def test_readings_without_times_are_drawn_by_number(make):
    records = make.rich_records()
    readings = [replace(reading, created_at="then") for reading in make.canaries()]
    state = run_state(make.run(), case_summaries(case_rows(records), {}), records, readings)
    (axes,) = draw_canaries(state).axes
    (slow,) = [line for line in axes.lines if str(line.get_label()).endswith("slow")]
    assert list(slow.get_xdata()) == [7, 8]
    assert axes.get_xlabel() == "Reading"
    assert not axes.collections  # quarantined cases have no place on this axis
