"""A product beyond every fitted one says so; others do not."""

from __future__ import annotations

import pytest

from roofline_model.core.finding import has_code
from roofline_model.expected.predict import LARGEST_FITTED_FLOPS, extrapolation, predict_expected
from roofline_model.operators.product import gemm


@pytest.mark.parametrize(("side", "is_beyond"), [(4096, False), (16384, False), (32768, True), (131072, True)])
def test_larger_than_any_fitted_product_is_said_to_be_extrapolated(side, is_beyond):
    prediction = predict_expected(gemm(side, side, side, a="BF16"), "h100")
    assert has_code(prediction.findings, "extrapolated") == is_beyond
    assert (2 * side**3 > LARGEST_FITTED_FLOPS) == is_beyond


def test_the_note_says_how_far_and_not_of_measured_machines():
    work = gemm(32768, 32768, 32768, a="BF16")
    assert extrapolation(work, "fitted").value("flops_factor") == pytest.approx(3.7, abs=0.05)
    assert extrapolation(work, "measured-here") is None
