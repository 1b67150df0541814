"""A plan whose narrow cache makes attention slower says why; one that is served well by it says nothing."""

from __future__ import annotations

import pytest

from roofline_model.core.finding import has_code
from roofline_model.expected.predict import predict_expected
from roofline_model.models.strategies.strategies import get_strategy
from roofline_model.operators.attention import attention
from roofline_model.recommend.model import recommend_model


@pytest.mark.parametrize(("chip", "batch", "is_slower"), [("l40s", 1, True), ("l40s", 16, False), ("h100", 1, False)])
def test_the_reason_of_fp8_balanced_names_its_attention(chip, batch, is_slower):
    strategies = [get_strategy("fp8_balanced")]
    ranking = recommend_model(chip, "llama-3-8b", batch=batch, formats=["FP8_E4M3"], strategies=strategies)
    balanced, fp8 = ranking.option("fp8_balanced"), ranking.option("FP8_E4M3")
    assert (balanced.estimate.time_s > fp8.estimate.time_s) is is_slower
    assert has_code(balanced.findings, "cache-slower", "unsplit") is is_slower
    assert not has_code(fp8.findings, "cache-slower", "unsplit")


def test_the_ratio_is_that_of_the_two_attentions():
    narrow, wide = (
        predict_expected(attention(1, 32, 8, 1, 4096, 128, q="BF16", kv=kv), "l40s") for kv in ("FP8", "BF16")
    )
    ranking = recommend_model("l40s", "llama-3-8b", formats=["FP8_E4M3"], strategies=[get_strategy("fp8_balanced")])
    slower = next(item for item in ranking.option("fp8_balanced").findings if item.code == "cache-slower")
    assert slower.value("slowdown_ratio") == narrow.time_s / wide.time_s
    assert (narrow.is_cache_unsplit, wide.is_cache_unsplit) == (True, False)
