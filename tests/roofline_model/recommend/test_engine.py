"""The engine's recommendation: computed for the chip and the context, limited by quality and memory, honest about
sources.
"""

from __future__ import annotations

import pytest

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, has_code
from roofline_model.models.llm import predict_model
from roofline_model.models.step_expected import expected_step
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.model_plan import strategy_plan
from roofline_model.models.strategies.strategies import get_strategy
from roofline_model.recommend.engine import IntegratedQuantizationEngine, QuantizationRecommendation

LLAMA = {"H": 4096, "L": 32, "nh": 32, "nkv": 8, "dh": 128, "dff": 14336}


def remarks(recommendation):
    return {item.value("kind") for item in recommendation.ranking.findings if item.code == "engine-remark"}


@pytest.fixture(scope="module")
def on_gb10() -> QuantizationRecommendation:
    return IntegratedQuantizationEngine("gb10").recommend("llama-3-8b", "decode", 4096, enable_dynamic=True)


def exclusions(recommendation: QuantizationRecommendation) -> dict[str, Finding]:
    return {exclusion.key: exclusion.finding for exclusion in recommendation.ranking.excluded}


def test_the_answer_has_every_field_of_the_document(on_gb10):
    names = (
        "config mixed_precision fa_config predicted_speedup predicted_time_us baseline_time_us memory_savings_pct "
        "kv_cache_bytes expected_quality_loss confidence reason bottleneck_analysis"
    )
    assert all(hasattr(on_gb10, name) for name in names.split())
    assert on_gb10.config.mixed_precision is on_gb10.mixed_precision
    assert on_gb10.config.fa_config is on_gb10.fa_config
    assert on_gb10.config.strategy_name == on_gb10.mixed_precision.name


def test_figures_are_those_of_the_predictions(on_gb10):
    strategy, shape = on_gb10.mixed_precision, "llama-3-8b"
    passes = []
    for config in (strategy, get_strategy("fp16_baseline")):
        model = predict_model("gb10", shape).model
        passes.append(predict_model("gb10", shape, context=4096, formats=strategy_plan(config, model)))
    ours, theirs = (expected_step(step, "gb10") for step in passes)
    assert ours is not None
    assert theirs is not None
    assert on_gb10.ranking.choice.estimate.source == "expected"
    assert on_gb10.predicted_time_us == pytest.approx(ours.time_s * 1e6)
    assert on_gb10.baseline_time_us == pytest.approx(theirs.time_s * 1e6)
    assert on_gb10.predicted_speedup == pytest.approx(theirs.time_s / ours.time_s)
    assert on_gb10.kv_cache_bytes == passes[0].memory.kv_bytes
    sizes = [step.memory.weights_bytes + step.memory.kv_bytes for step in passes]
    assert on_gb10.memory_savings_pct == pytest.approx(100 * (1 - sizes[0] / sizes[1]))


def test_gb10_gets_the_attention_it_can_run(on_gb10):
    assert on_gb10.fa_config is not None
    assert on_gb10.fa_config.version.value == "fa2"
    assert on_gb10.fa_config.kv_cache_precision == on_gb10.config.kv_cache_precision == "NVFP4"
    unavailable = [item.subject for item in on_gb10.ranking.findings if item.value("kind") == "kernel-unavailable"]
    assert "fa3" in unavailable
    hopper = IntegratedQuantizationEngine("h100").recommend(LLAMA, "prefill", 8192)
    assert hopper.fa_config is not None
    assert hopper.fa_config.version.value == "fa3"


def test_the_limit_on_quality_decides():
    engine = IntegratedQuantizationEngine("gb10")
    careful = engine.recommend(LLAMA, max_quality_loss_pct=0)
    assert careful.config.strategy_name == "fp16_baseline"
    assert careful.predicted_speedup == 1.0
    assert careful.ranking.headline.value("kind") == "stay"
    # What is measured replaces what is claimed, both ways.
    bad = engine.recommend(LLAMA, measured_loss_pct={"nvfp4_blackwell": 3.0})
    assert bad.config.strategy_name == "fp8_balanced"
    missed = exclusions(bad)["nvfp4_blackwell"]
    assert (missed.code, missed.value("value_pct"), missed.value("limit_pct")) == ("misses-loss-limit", 3.0, 1.0)
    good = engine.recommend(LLAMA, measured_loss_pct={"w4a16_aggressive": 0.1})
    assert good.config.strategy_name == "w4a16_aggressive"
    assert good.expected_quality_loss == "measured: 0.1%"


def test_claims_are_called_claims_and_confidence_follows():
    placeholder = IntegratedQuantizationEngine("b10").recommend(LLAMA)
    assert placeholder.expected_quality_loss == "claimed: <1%"
    assert placeholder.confidence == "low"
    assert has_code(placeholder.ranking.findings, "placeholder-chip")
    measured = IntegratedQuantizationEngine("h100").recommend(
        LLAMA, "prefill", 2048, measured_loss_pct={"fp8_balanced": 0.2}
    )
    claimed = IntegratedQuantizationEngine("h100").recommend(LLAMA, "prefill", 2048)
    order = ["low", "medium", "high"]
    assert order.index(measured.confidence) == order.index(claimed.confidence) + 1


def test_a_model_that_does_not_fit_says_by_how_much():
    engine = IntegratedQuantizationEngine("gb10")
    tight = engine.recommend("llama-3-8b", memory_limit_gb=8)
    assert tight.config.strategy_name == "nvfp4_blackwell"
    assert exclusions(tight)["fp16_baseline"].code == "misses-memory-limit"
    with pytest.raises(InvalidValueError, match="1 GB"):
        engine.recommend("llama-3-8b", memory_limit_gb=1)


def test_dynamic_and_adaptive_are_set_where_they_mean_something():
    engine = IntegratedQuantizationEngine("gb10")
    prefill = engine.recommend(LLAMA, "prefill", 2048, enable_dynamic=True, enable_adaptive=True)
    assert prefill.config.dynamic is not None
    assert prefill.config.dynamic.precision == "FP8_E4M3"
    assert prefill.config.adaptive is not None
    decode = engine.recommend(LLAMA, enable_dynamic=True)
    assert decode.config.dynamic is None
    assert "activations-wide" in remarks(decode)
    assert engine.recommend(LLAMA, "prefill", 2048).config.dynamic is None


def test_block_sparsity_is_taken_where_the_model_has_such_a_mask_and_offered_at_long_contexts():
    engine = IntegratedQuantizationEngine("b10")
    dense, sparse = (engine.recommend(LLAMA, "decode", 32768, sparsity_ratio=ratio) for ratio in (None, 0.3))
    assert dense.fa_config is not None
    assert sparse.fa_config is not None
    assert (dense.fa_config.block_sparse, sparse.fa_config.block_sparse) == (False, True)
    assert sparse.fa_config.sparsity_ratio == 0.3
    assert "sparsity-unasked" in remarks(dense)
    assert "sparsity-unasked" not in remarks(sparse)
    assert "sparsity-unasked" not in remarks(engine.recommend(LLAMA, "decode", 4096))


def test_strategies_of_the_users_own():
    mine = MixedPrecisionConfig("mine", operator_precisions={"ffn_up": "INT4", "ffn_gate": "INT4", "ffn_down": "INT4"})
    engine = IntegratedQuantizationEngine("gb10")
    unknown = engine.recommend(LLAMA, strategies=[mine])
    assert unknown.config.strategy_name == "fp16_baseline"
    assert exclusions(unknown)["mine"].code == "loss-unknown"
    assert engine.recommend(LLAMA, strategies=[mine], measured_loss_pct={"mine": 0.5}).config.strategy_name == "mine"
    # Up alone in INT4: two products in place of one, and still faster than reading it in 16 bit.
    odd = MixedPrecisionConfig("odd", operator_precisions={"ffn_up": "INT4"})
    ranking = engine.recommend(LLAMA, strategies=[odd], measured_loss_pct={"odd": 0.1})
    assert ranking.ranking.option("odd").estimate.time_s < ranking.ranking.baseline.estimate.time_s
    assert ranking.config.strategy_name == "odd"
    mla = MixedPrecisionConfig("apart", operator_precisions={"k_proj": "INT4"})
    (refused,) = engine.recommend("deepseek-v2-lite", strategies=[mla]).ranking.excluded
    assert refused.option is None
    assert "gives keys and values by one matrix" in refused.finding.value("error")


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ({"H": 4096}, {}, "model_config lacks L, nh, nkv, dh, dff"),
        ({**LLAMA, "heads": 3}, {}, "has heads, which nobody knows"),
        ({**LLAMA, "nkv": 5}, {}, "must be a multiple of kv_heads"),
        (LLAMA, {"phase": "train"}, "phase must be prefill or decode"),
        (LLAMA, {"seq_len": 0}, "context must be a whole number"),
        (LLAMA, {"memory_limit_gb": -1}, "memory_limit_gb must be a positive number"),
        (LLAMA, {"max_quality_loss_pct": float("nan")}, "max_quality_loss_pct must be a number"),
        (LLAMA, {"measured_loss_pct": {"x": float("inf")}}, "measured_loss_pct of x"),
    ],
)
def test_bad_questions_are_named(model, options, message):
    with pytest.raises(InvalidValueError, match=message):
        IntegratedQuantizationEngine("gb10").recommend(model, **options)
