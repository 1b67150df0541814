"""A plan whose narrow cache makes attention slower says why; one that is served well by it says nothing."""

from __future__ import annotations

import pytest

from roofline_model.expected.attention.predict import UNSPLIT_NOTE
from roofline_model.expected.predict import predict_expected
from roofline_model.mixed_precision.strategies import get_strategy
from roofline_model.model_recommendation import recommend_model
from roofline_model.ops.attention_ops import attention


@pytest.mark.parametrize(("chip", "batch", "is_slower"), [("l40s", 1, True), ("l40s", 16, False), ("h100", 1, False)])
def test_the_reason_of_fp8_balanced_names_its_attention(chip, batch, is_slower):
    strategies = [get_strategy("fp8_balanced")]
    found = recommend_model(chip, "llama-3-8b", batch=batch, formats=["FP8_E4M3"], strategies=strategies)
    balanced, fp8 = found.candidate("fp8_balanced"), found.candidate("FP8_E4M3")
    assert (balanced.time_s > fp8.time_s) is is_slower
    assert ("as long on its FP8_E4M3 cache as on a 16-bit one: " + UNSPLIT_NOTE in balanced.reason) is is_slower
    assert "cache" not in fp8.reason


def test_the_ratio_is_that_of_the_two_attentions():
    narrow, wide = (
        predict_expected(attention(1, 32, 8, 1, 4096, 128, q="BF16", kv=kv), "l40s") for kv in ("FP8", "BF16")
    )
    found = recommend_model("l40s", "llama-3-8b", formats=["FP8_E4M3"], strategies=[get_strategy("fp8_balanced")])
    assert f"attention takes {narrow.time_s / wide.time_s:.1f}x" in found.candidate("fp8_balanced").reason
    assert (narrow.is_cache_unsplit, wide.is_cache_unsplit) == (True, False)
