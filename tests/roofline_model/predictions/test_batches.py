"""Batch against latency: the numbers are those of `predict_model`, the choice keeps every limit."""

from __future__ import annotations

import pytest

from roofline_model.models.chip_and_model import get_chip_and_model
from roofline_model.models.llm import predict_model
from roofline_model.predictions.batches import BATCHES, batch_curves, with_limits
from roofline_model.predictions.model import pass_prediction
from roofline_model.recommend.ranking import LEVEL_RATIO


@pytest.fixture(scope="module")
def gb10():
    return get_chip_and_model("gb10", "llama-3.1-8b")


@pytest.fixture(scope="module")
def curves(gb10):
    return batch_curves(*gb10)


def test_a_point_is_the_pass_that_the_model_predicts(gb10, curves):
    chip, shape = gb10
    curve = next(curve for curve in curves.curves if curve.plan == "FP8_E4M3")
    point = next(point for point in curve.points if point.batch_count == 16)

    def expected_s(phase, batch, context=4096):
        ideal = predict_model(chip, shape, phase, batch=batch, context=context, formats="FP8_E4M3")
        return pass_prediction(ideal, chip).expected.time_s

    assert point.token_s == pytest.approx(expected_s("decode", 16), rel=1e-12)
    assert point.first_token_s == pytest.approx(expected_s("prefill", 1, context=4095), rel=1e-12)
    assert point.arriving_first_token_s == point.token_s + point.first_token_s
    assert point.tokens_per_s == pytest.approx(16 / point.token_s, rel=1e-12)


def test_curves_rise_with_the_batch_and_end_at_the_memory(curves):
    capacity = get_chip_and_model("gb10", "llama-3.1-8b")[0].capacity.value
    for curve in curves.curves:
        assert [point.batch_count for point in curve.points] == list(BATCHES[: len(curve.points)])
        assert list(curve.points) == sorted(curve.points, key=lambda point: point.token_s)
        assert all(point.memory_bytes <= capacity for point in curve.points)
    assert len({curve.plan for curve in curves.curves}) == len(curves.curves)


@pytest.mark.parametrize(("token_s", "first_s"), [(None, None), (0.05, None), (0.05, 0.6), (None, 0.7), (0.1, 2.0)])
def test_the_choice_has_the_most_tokens_within_every_limit(curves, token_s, first_s):
    held = with_limits(curves, max_token_s=token_s, max_first_token_s=first_s)
    within = [
        point
        for curve in held.curves
        if curve.is_within_loss
        for point in curve.points
        if point.token_s <= (token_s or 1e9) and point.arriving_first_token_s <= (first_s or 1e9)
    ]
    assert held.choice.point in within
    assert held.choice.point.tokens_per_s * (1 + LEVEL_RATIO) >= max(point.tokens_per_s for point in within)
    assert all(
        point.is_within_limits
        == (point.token_s <= (token_s or 1e9) and point.arriving_first_token_s <= (first_s or 1e9))
        for curve in held.curves
        for point in curve.points
    )


def test_nothing_is_chosen_beyond_the_limit_of_loss_or_of_time(gb10, curves):
    assert with_limits(curves, max_token_s=0.03, max_first_token_s=None).choice is None  # INT4 alone, which loses 5.8 %
    wide = batch_curves(*gb10, max_loss_pct=6.0, max_token_s=0.03)
    assert wide.choice.name == "INT4 (W4A16)"
    assert with_limits(curves, max_token_s=1e-4, max_first_token_s=None).choice is None


def test_a_chip_without_expected_times_has_ideal_ones_and_says_so():
    curves = batch_curves(*get_chip_and_model("mi300x", "llama-3.1-8b"))
    assert {point.time_source for curve in curves.curves for point in curve.points} == {"ideal"}
    assert any(item.code == "ranked-by-bounds" for item in curves.findings)
