"""Intervals: right on average, honest about documents, silent where nothing is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_cases.quality.texts.estimates import Clusters, ratio_estimate
from roofline_model.core.errors import InvalidValueError


def windows(count: int) -> Clusters:
    return Clusters(tuple(range(count)), "windows")


def estimate(tops, bottoms, clusters=None, **more):
    options = {"unit": "nats/token", "tokens_count": 1} | more
    return ratio_estimate(tops, bottoms, clusters or windows(len(tops)), **options)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.5, 10)), min_size=2, max_size=20))
def test_the_figure_is_the_ratio_of_sums_and_lies_inside_what_rows_say(rows):
    tops, bottoms = [a for a, _ in rows], [b for _, b in rows]
    ratio = estimate(tops, bottoms)
    assert ratio.value == pytest.approx(math.fsum(tops) / math.fsum(bottoms))
    ratios = [a / b for a, b in rows]
    slack = 1e-9 * max(1.0, max(ratios))
    assert min(ratios) - slack <= ratio.low_value <= ratio.high_value <= max(ratios) + slack


def test_about_nineteen_of_twenty_intervals_hold_the_truth():
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(80):
        bottoms = generator.integers(50, 150, 40)
        interval = estimate((bottoms * 0.3 + generator.normal(0, 5, 40)).tolist(), bottoms.tolist())
        hits += interval.low_value <= 0.3 <= interval.high_value
    assert 68 <= hits <= 80  # 76 expected; 68 or fewer has a chance below one in a thousand


def test_windows_of_one_document_are_no_independent_trials():
    generator = np.random.default_rng(1)
    documents = np.repeat(np.arange(10), 10)
    values = (1 + generator.normal(0, 0.3, 10))[documents] + generator.normal(0, 0.01, 100)
    honest = estimate(values.tolist(), [1.0] * 100, Clusters.of_documents(documents.tolist()))
    naive = estimate(values.tolist(), [1.0] * 100)
    assert "10 documents" in honest.method
    assert honest.high_value - honest.low_value > 2 * (naive.high_value - naive.low_value)


def test_few_documents_leave_windows_to_draw_from():
    assert Clusters.of_documents([0] * 5 + [1] * 5) == Clusters(tuple(range(10)), "windows")
    assert Clusters.of_documents(range(8)).name == "documents"


def test_a_transform_carries_the_interval_along():
    rows = [1.0, 2.0, 3.0, 2.5]
    plain, exponential = estimate(rows, [2.0] * 4), estimate(rows, [2.0] * 4, transform=np.exp)
    for field in ("value", "low_value", "high_value"):
        # Quantiles lie between two resampled values, where exp is not straight.
        assert getattr(exponential, field) == pytest.approx(math.exp(getattr(plain, field)), rel=0.02)


def test_a_share_without_exception_gets_the_exact_bound():
    share = estimate([1.0] * 10, [1.0] * 10, unit="share")
    # ten of ten: the share whose chance of ten hits is 2.5 %
    assert (share.value, share.high_value) == (1.0, 1.0)
    assert share.low_value**10 == pytest.approx(0.025)
    none = estimate([0.0] * 10, [1.0] * 10, unit="share")
    assert (none.low_value, none.value) == (0.0, 0.0)
    assert (1 - none.high_value) ** 10 == pytest.approx(0.025)


def test_one_part_has_no_interval():
    ratio = estimate([3.0], [2.0])
    assert (ratio.value, ratio.low_value, ratio.high_value) == (1.5, None, None)
    assert "no interval" in str(ratio)


def test_the_same_rows_give_the_same_interval():
    assert estimate([1.0, 2.0, 4.0], [1.0, 1.0, 1.0]) == estimate([1.0, 2.0, 4.0], [1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("tops", "bottoms", "message"),
    [
        ([math.nan, 1.0], [1.0, 1.0], "NaN"),
        ([math.inf, 1.0], [1.0, 1.0], "infinite"),
        ([0.0], [0.0], "nothing to divide"),
    ],
)
def test_what_has_no_figure_is_an_error(tops, bottoms, message):
    with pytest.raises(InvalidValueError, match=message):
        estimate(tops, bottoms)
