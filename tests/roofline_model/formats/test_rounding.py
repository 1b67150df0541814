"""The law of what rounding explains, held against roundings that are made here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roofline_model.formats.rounding import (
    FALSE_ALARM_RATIO,
    Rounding,
    spreads_allowed,
    unit_roundoff,
)


def test_unit_roundoffs_are_half_a_step_above_one():
    assert unit_roundoff("FP32") == float(np.finfo(np.float32).eps) / 2
    assert unit_roundoff("FP16") == float(np.finfo(np.float16).eps) / 2
    assert {key: unit_roundoff(key) for key in ("TF32", "BF16", "FP8_E4M3", "INT8", "NF4")} == {
        "TF32": 2.0**-11,
        "BF16": 2.0**-8,
        "FP8_E4M3": 2.0**-4,
        "INT8": 0,
        "NF4": 0,
    }


@pytest.mark.parametrize("count", [1, 1000, 10**6])
def test_the_multiplier_makes_false_alarms_as_rare_as_stated(count):
    """Hoeffding's bound for `count` numbers together."""
    assert count * 2 * math.exp(-(spreads_allowed(count) ** 2) / 2) == pytest.approx(FALSE_ALARM_RATIO)


@pytest.mark.parametrize("K", [64, 1024])
@pytest.mark.parametrize("mean", [0.0, 0.5])
def test_sums_in_sixteen_bits_spread_as_the_law_says(K, mean):
    """Running sums of FP16, rounded one by one: their spread is below the law's, which takes every rounding for the
    largest, and not far below. Terms of one sign (mean 0.5) have larger partial sums.
    """
    random = np.random.default_rng(K)
    terms = (random.standard_normal((4000, K)) + mean).astype(np.float16).astype(np.float64)
    running = np.zeros(len(terms), np.float16)
    for k in range(K):
        running = (running.astype(np.float64) + terms[:, k]).astype(np.float16)
    exact = terms.sum(axis=1)
    law = Rounding(sums_ratio=2.0**-11)
    variance = law.exact_factor(K) * exact**2 + law.terms_factor(K) * (terms**2).sum(axis=1)
    seen = float(np.sqrt(np.mean((running.astype(np.float64) - exact) ** 2 / variance)))
    assert 0.2 < seen < 1


def test_a_tensor_core_rounds_once_a_step_and_cuts_one_way():
    law = Rounding(sums_ratio=2.0**-13, terms_per_sum=32, sums_are_cut=True)
    assert law.exact_factor(320) == pytest.approx(10 * 2.0**-26 / 3)
    assert law.systematic_ratio(320) == pytest.approx(10 * 2.0**-14)
    assert Rounding(cut_ratio=2.0**-9).systematic_ratio(5) == 2.0**-9
    assert Rounding(operands_ratio=2.0**-8).terms_factor(100) == 2.0**-16
    assert Rounding(result_ratio=2.0**-8, has_partials=True).terms_factor(100) == 2.0**-16
