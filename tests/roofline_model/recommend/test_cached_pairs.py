"""The usual plans with an FP8 cache: where the cache is large and an engine serves it, and nowhere else."""

from __future__ import annotations

import pytest

from roofline_model.chips.hardware import create_custom_asic
from roofline_model.recommend.model import recommend_model
from roofline_model.recommend.plans import LEAST_CACHE_RATIO

PAIR = "INT4.BF16.FP8_E4M3"


def cached(ranking) -> list[str]:
    """Return the uniform plans with an FP8 cache, ranked or refused."""
    labels = [option.key for option in (*ranking.options, *ranking.excluded)]
    return sorted(label for label in labels if label.count(".") == 2)


def test_a_24_gb_card_serves_64_sequences_with_narrow_weights_and_cache_alone():
    ranking = recommend_model("rtx-4090", "llama-3.1-8b", batch=64, max_loss_pct=16.0)
    assert (ranking.choice.key, len(ranking.options)) == (PAIR, 1)
    assert "FP8 KV attention" in ranking.choice.kernel
    assert ranking.choice.loss.pct == pytest.approx(5.8 + 1.0)
    without = next(exclusion for exclusion in ranking.excluded if exclusion.key == "INT4.BF16").option
    assert ranking.choice.memory.cache_bytes == pytest.approx(without.memory.cache_bytes / 2)
    assert ranking.choice.memory.weight_bytes == without.memory.weight_bytes
    assert ranking.choice.estimate.time_s < without.estimate.time_s


def test_a_small_cache_stays_in_16_bit():
    for batch in (1, 2, 4):
        ranking = recommend_model("l40s", "llama-3.1-8b", batch=batch, max_loss_pct=16.0)
        memory = ranking.option("INT4.BF16").memory
        assert (PAIR in cached(ranking)) == (memory.cache_bytes >= LEAST_CACHE_RATIO * memory.total_bytes)
    assert cached(recommend_model("l40s", "llama-3.1-8b", max_loss_pct=16.0)) == []


def test_pairs_stay_out_where_no_engine_serves_them_and_where_plans_are_named():
    for chip in ("a100", "orin", create_custom_asic("mine", 500.0, {"BF16": 100.0, "FP8": 200.0, "INT4": 400.0})):
        assert cached(recommend_model(chip, "llama-3.1-8b", batch=16)) == []
    assert cached(recommend_model("l40s", "llama-3.1-8b", batch=16, formats=["INT4.BF16"])) == []
    ideal_ranking = recommend_model("l40s", "llama-3.1-8b", batch=16, estimate=lambda prediction: None)
    assert cached(ideal_ranking) == []


def test_a_pair_that_is_named_beside_the_usual_plans_is_weighed_once():
    ranking = recommend_model("l40s", "llama-3.1-8b", batch=16, extra_formats=["INT4.BF16.FP8", "INT8.BF16.FP8"])
    assert cached(ranking) == [PAIR, "INT8.BF16.FP8_E4M3"]


def test_blackwell_pairs_its_own_weights_too():
    ranking = recommend_model("gb10", "llama-3.1-8b", batch=64, max_loss_pct=16.0)
    assert cached(ranking) == [PAIR, "NVFP4.NVFP4.FP8_E4M3"]
    pair = ranking.option("NVFP4.NVFP4.FP8_E4M3")
    assert pair.estimate.time_s < ranking.option("NVFP4").estimate.time_s
    assert ranking.choice.key in cached(ranking)
