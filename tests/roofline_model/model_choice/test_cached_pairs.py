"""The usual plans with an FP8 cache: where the cache is large and an engine serves it, and nowhere else."""

from __future__ import annotations

import pytest

from roofline_model.hardware import create_custom_asic
from roofline_model.model_choice.cached_pairs import LEAST_CACHE_RATIO
from roofline_model.recommend.model import recommend_model

PAIR = "INT4.BF16.FP8_E4M3"


def cached(found) -> list[str]:
    """Return the uniform plans with an FP8 cache, ranked or refused."""
    labels = [one.label for one in (*found.candidates, *found.excluded)]
    return sorted(label for label in labels if label.count(".") == 2)


def test_a_24_gb_card_serves_64_sequences_with_narrow_weights_and_cache_alone():
    found = recommend_model("rtx-4090", "llama-3.1-8b", batch=64)
    assert (found.chosen.label, len(found.candidates)) == (PAIR, 1)
    assert "FP8 KV attention" in found.chosen.kernels
    assert found.chosen.quality.loss_pct == pytest.approx(5.8 + 1.0)
    without = next(one for one in found.excluded if one.label == "INT4.BF16").candidate
    assert found.chosen.memory.kv_bytes == pytest.approx(without.memory.kv_bytes / 2)
    assert found.chosen.memory.weights_bytes == without.memory.weights_bytes
    assert found.chosen.time_s < without.time_s


def test_a_small_cache_stays_in_16_bit():
    for batch in (1, 2, 4):
        found = recommend_model("l40s", "llama-3.1-8b", batch=batch)
        memory = found.candidate("INT4.BF16").memory
        assert (PAIR in cached(found)) == (memory.kv_bytes >= LEAST_CACHE_RATIO * memory.total_bytes)
    assert cached(recommend_model("l40s", "llama-3.1-8b")) == []


def test_pairs_stay_out_where_no_engine_serves_them_and_where_plans_are_named():
    for chip in ("a100", "orin", create_custom_asic("mine", 500.0, {"BF16": 100.0, "FP8": 200.0, "INT4": 400.0})):
        assert cached(recommend_model(chip, "llama-3.1-8b", batch=16)) == []
    assert cached(recommend_model("l40s", "llama-3.1-8b", batch=16, formats=["INT4.BF16"])) == []
    own = recommend_model("l40s", "llama-3.1-8b", batch=16, estimate=lambda found: None)
    assert cached(own) == []


def test_a_pair_that_is_named_beside_the_usual_plans_is_weighed_once():
    found = recommend_model("l40s", "llama-3.1-8b", batch=16, extra_formats=["INT4.BF16.FP8", "INT8.BF16.FP8"])
    assert cached(found) == [PAIR, "INT8.BF16.FP8_E4M3"]


def test_blackwell_pairs_its_own_weights_too():
    found = recommend_model("gb10", "llama-3.1-8b", batch=64)
    assert cached(found) == [PAIR, "NVFP4.NVFP4.FP8_E4M3"]
    assert found.chosen.label == "NVFP4.NVFP4.FP8_E4M3"
    assert found.chosen.time_s < found.candidate("NVFP4").time_s
