"""Regimes, interval factors and how they widen."""

from __future__ import annotations

import numpy as np
import pytest

from roofline_model import InvalidValueError
from roofline_model.expected.intervals import REGIMES, IntervalTable, across_families, for_sibling, regimes_of

TABLE = IntervalTable((0.9, 0.8, 0.91, 0.81, 0.92, 0.82), (1.1, 1.2, 1.11, 1.21, 1.12, 1.22))


def test_regimes_are_rows_and_floor():
    m = np.array([1.0, 16, 16, 17, 256, 257, 4096])
    time_s = np.array([1.0, 1.6, 1.7, 1.0, 2.0, 1.5, 9.0])
    assert [REGIMES[i] for i in regimes_of(m, time_s, 1.0)] == [
        "m16-floor", "m16-floor", "m16-body", "m256-floor", "m256-body", "large-floor", "large-body",
    ]  # fmt: skip


def test_bounds_multiply_the_time():
    low, high = TABLE.bounds(np.array([1.0, 4096.0]), np.array([2.0, 10.0]), 1.0)
    assert low.tolist() == pytest.approx([1.6, 8.2])
    assert high.tolist() == pytest.approx([2.4, 12.2])


def test_tables_are_read_by_regime_and_checked():
    assert IntervalTable.from_pairs(TABLE.pairs()) == TABLE
    with pytest.raises(InvalidValueError, match="large-body"):
        IntervalTable.from_pairs({name: pair for name, pair in TABLE.pairs().items() if name != "large-body"})
    with pytest.raises(InvalidValueError, match="m16-floor"):
        IntervalTable((1.1, *TABLE.low[1:]), TABLE.high)
    with pytest.raises(InvalidValueError, match="low ≤ 1 ≤ high"):
        IntervalTable(TABLE.low, (0.9, *TABLE.high[1:]))


def test_widening_adds_logs_in_quadrature():
    three, four = (
        IntervalTable((np.exp(-0.3),) * 6, (np.exp(0.3),) * 6),
        IntervalTable((np.exp(-0.4),) * 6, (np.exp(0.4),) * 6),
    )
    both = three.widened(four, 1.0)
    assert both.high[0] == pytest.approx(np.exp(0.5))
    assert both.low[0] == pytest.approx(np.exp(-0.5))
    assert three.widened(four, 0.0).high == pytest.approx(three.high)


@pytest.mark.parametrize("family", ["BF16", "FP8", "NVFP4", "INT8", "INT4"])
def test_a_sibling_is_between_its_own_chip_and_another_family(family):
    sibling, across = for_sibling(TABLE, family), across_families(family)
    for i in range(len(REGIMES)):
        assert sibling.low[i] < TABLE.low[i]
        assert sibling.high[i] > TABLE.high[i]
        assert sibling.low[i] <= across.low[i] ** 0.5 + 1e-12
        assert sibling.high[i] >= across.high[i] ** 0.5 - 1e-12
