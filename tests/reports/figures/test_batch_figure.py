"""Batch against latency in words and as a figure: ideal rates say so, limits are drawn, no format has two names."""

from __future__ import annotations

import pytest

from reports.figures.batches import batch_colours, batch_figure
from reports.figures.drawing.palette import format_colours
from reports.figures.drawing.spec import Marks
from reports.present.answers.batches import batch_answer
from roofline_model.models.chip_and_model import get_chip_and_model
from roofline_model.predictions.batches import batch_curves, with_limits


@pytest.fixture(scope="module")
def curves():
    return batch_curves(*get_chip_and_model("gb10", "llama-3.1-8b"))


def test_the_table_has_the_best_batch_of_each_format_and_marks_the_choice(curves):
    held = with_limits(curves, max_token_s=0.05, max_first_token_s=2.0)
    answer = batch_answer(held, {})
    assert [row.name for row in answer.rows if row.is_choice] == [held.choice.name]
    assert all(len(row.cells) == len(answer.columns) for row in answer.rows)
    assert held.choice.name in answer.sentence


def test_ideal_rates_say_ideal_in_the_sentence_and_in_every_row():
    answer = batch_answer(batch_curves(*get_chip_and_model("mi300x", "llama-3.1-8b")), {})
    assert "ideal" in answer.sentence
    rate = answer.columns.index("Tokens/s")
    assert all(row.cells[rate].startswith("ideal ") for row in answer.rows)


def test_the_figure_has_the_colours_of_the_report_and_every_batch(curves):
    held = with_limits(curves, max_token_s=0.05, max_first_token_s=None)
    figure = batch_figure(held)
    assert batch_colours(held) == format_colours(curve.name for curve in held.curves)
    counts = {curve.name: len(curve.points) for curve in held.curves}
    drawn = dict.fromkeys(counts, 0)
    for series in figure.series:
        if isinstance(series, Marks) and series.name in drawn:
            drawn[series.name] += len(series.x)
    assert drawn == counts
    assert [series.x for series in figure.series if series.name == "limit"] == [(50.0, 50.0)]
    assert len(figure.cards) == sum(counts.values())


def test_a_model_that_does_not_fit_has_an_empty_figure_and_says_so():
    curves = batch_curves(*get_chip_and_model("gb10", "llama-3.1-8b"), memory_limit_bytes=1e9)
    assert batch_figure(curves).series == ()
    assert curves.choice is None
    assert batch_answer(curves, {}).rows == ()
