"""Cache states and modes answer different questions: no verdict, ranking, summary or plot mixes two of them."""

from __future__ import annotations

import pytest

from reports.figures.drawing.matplotlib_drawer import draw_figure
from reports.figures.roofline import roofline_figure
from reports.present.display_text import regime_meanings, regime_title, regime_words
from reports.view.roofline_view import roofline_view
from reports.view.views import report_view
from results.cases.best_shapes import best_overall, judged_results
from results.cases.case_result import case_results
from results.cases.errors import error_summaries, overall_error
from results.cases.shape_verdict import shape_verdicts
from results.rankings.shape import recommend_from_run

DECODE = (1, 4096, 4096)
REGIMES = [
    ("cold", "eager"),
    ("flushed", "eager"),
    ("warm", "eager"),
    ("cold", "graph"),
    ("cold", "sustained"),
    ("cold", "burst"),
    ("cold", "mine"),
]


def pair(make, cache, mode, slow_s, fast_s, shape=DECODE):
    return [
        make.as_mode(make.record(shape, "BF16", "BF16", "matmul", slow_s, cache=cache, number=1), mode),
        make.as_mode(make.record(shape, "INT8", "BF16", "int8pack", fast_s, cache=cache, number=2), mode),
    ]


def everything(make):
    """In every regime another gain: 2×, 3×, 4×, …"""
    return [
        record
        for number, (cache, mode) in enumerate(REGIMES, start=2)
        for record in pair(make, cache, mode, number * 1e-3, 1e-3)
    ]


@pytest.mark.parametrize(
    ("cache", "mode", "words", "title"),
    [
        ("cold", "eager", "cold", ""), ("none", "eager", "as it comes", ""), ("flushed", "eager", "flushed", "flushed"), ("warm", "eager", "hot (warm)", "hot (warm)"),
        ("cold", "graph", "cold, graph", "cold, graph"), ("none", "burst", "burst", "burst"), ("flushed", "sustained", "flushed, sustained", "flushed, sustained"),
    ],
)  # fmt: skip
def test_words(cache, mode, words, title):
    assert regime_words(cache, mode) == words
    assert regime_title(cache, mode) == title


def test_only_what_occurs_is_explained():
    assert [word for word, _ in regime_meanings([("none", "eager")])] == []
    assert [word for word, _ in regime_meanings([("cold", "eager"), ("warm", "eager"), ("cold", "graph")])] == [
        "cold",
        "hot (warm)",
        "graph",
    ]


def test_every_shape_result_holds_one_regime(make):
    results = shape_verdicts(case_results(everything(make)))
    assert [(result.question.cache, result.question.mode) for result in results] == REGIMES
    assert [round(result.measured_speedup) for result in results] == [2, 3, 4, 5, 6, 7, 8]
    for result in results:
        assert {(each.case.cache, each.case.mode) for each in result.cases.values()} == {
            (result.question.cache, result.question.mode)
        }


def test_answers_and_the_best_of_all_judge_cold_and_eager_where_there_is_any(make):
    results = shape_verdicts(case_results(everything(make)))
    (judged,) = judged_results(list(results))
    assert (judged.question.cache, judged.question.mode) == ("cold", "eager")
    assert best_overall(results).question.mode == "eager"
    assert best_overall(results).question.cache == "cold"
    rest = [result for result in results if result.question.mode != "eager"]
    assert [result.question.mode for result in judged_results(rest)] == ["graph"]
    assert best_overall(rest).question.mode == "graph"


def test_rankings_rank_one_regime_each(make):
    recommendations = recommend_from_run(case_results(everything(make)), None)
    assert [(ranking.question.cache, ranking.question.mode) for ranking in recommendations] == [
        ("cold", mode) for mode in ("eager", "graph", "sustained", "burst", "mine")
    ]
    assert [round(ranking.first.speedup_ratio) for ranking in recommendations] == [2, 5, 6, 7, 8]
    records = {record.record_id: record for record in everything(make)}
    assert len(records) == 2  # ids repeat over the regimes: what counts is that times do not mix
    for ranking in recommendations:
        assert len([option for option in ranking.options if option.is_measured]) == 2


def test_flushed_is_ranked_before_warm_and_after_cold(make):
    flushed, warm = pair(make, "flushed", "eager", 3e-3, 1e-3), pair(make, "warm", "eager", 4e-3, 1e-3)
    (ranking,) = recommend_from_run(case_results([*warm, *flushed]), None)
    assert ranking.question.cache == "flushed"
    assert ranking.first.speedup_ratio == pytest.approx(3.0)


def test_prediction_errors_are_summed_up_per_regime(make):
    rows = case_results(everything(make))
    summaries = error_summaries(rows)
    assert len(summaries) == 2 * len(REGIMES)
    assert {(summary.cache, summary.mode) for summary in summaries} == set(REGIMES)
    assert all(summary.case_count == 1 for summary in summaries)
    overall = overall_error(rows)
    assert (overall.cache, overall.mode, overall.case_count) == ("cold", "eager", 2)


def test_findings_name_the_regime_they_are_about_unless_it_is_the_usual_one(make):
    usual = report_view(make.run(), everything(make)).findings[1]
    assert usual.startswith("The ideal prediction missed")
    only = report_view(make.run(), pair(make, "cold", "graph", 2e-3, 1e-3)).findings[1]
    assert only.startswith("cold, graph cases: the ideal prediction missed")


def test_the_plot_tells_regimes_apart_and_its_legend_says_how(make):
    rows = case_results(everything(make))
    view = roofline_view(
        rows, shape_verdicts(case_results(everything(make))), hardware_key="c", title="t", subtitle="", device=make.CPU
    )
    figure = draw_figure(roofline_figure(view))
    drawn = {line.get_label(): line for line in figure.axes[0].lines}
    assert drawn["measured gemv BF16 cold"].get_fillstyle() == "full"
    assert drawn["measured gemv BF16 warm"].get_fillstyle() == "left"
    assert drawn["measured gemv BF16 flushed"].get_fillstyle() == "right"
    glyphs = {
        mode: drawn[f"mode gemv BF16 cold {mode}"].get_marker() for mode in ("graph", "sustained", "burst", "mine")
    }
    assert len(set(glyphs.values())) == 4
    assert "mode gemv BF16 cold" not in drawn
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert {
        "graph",
        "sustained",
        "burst",
        "mine",
        "half: measured, warm cache",
        "right half: measured, flushed",
    } <= set(labels)
    assert {"measured", "predicted (ideal)"} <= set(labels)
    figure.canvas.draw()
    box = legend.get_window_extent()
    assert box.x1 <= figure.bbox.x1
    assert box.y0 >= 0
