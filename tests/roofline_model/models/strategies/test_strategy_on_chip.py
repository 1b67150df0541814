from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model.chips.hardware import create_custom_asic, list_hardware
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.models.format_plan import plan_from_text
from roofline_model.models.llm import predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.strategies.chip_check import check_strategy, validate_strategy
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.layer_precisions import LayerPrecisions
from roofline_model.models.strategies.model_plan import strategy_plan
from roofline_model.models.strategies.operator_type import PROJECTIONS, OperatorType
from roofline_model.models.strategies.strategies import STRATEGIES, create_layerwise_gradient, get_strategy

LLAMA = get_model("llama-3-8b")


def kinds(name: str, chip: str) -> dict[str, str]:
    return kinds_of(get_strategy(name), chip)


def kinds_of(config: MixedPrecisionConfig, chip: str) -> dict[str, str]:
    return {path.label: path.kind for path in check_strategy(config, chip).paths}


def test_nvfp4_under_16_bit_activations_is_decoded_everywhere() -> None:
    """b10 has an FP4 unit at four times FP16's rate; with FP16 activations nothing runs on it."""
    for chip in ("b10", "gb10", "h100"):
        check = check_strategy(get_strategy("nvfp4_blackwell"), chip)
        assert {path.operator for path in check.dequantized} == {*PROJECTIONS, OperatorType.KV_CACHE}
        assert all(path.compute_format == "FP16" for path in check.dequantized)
        reasons = [finding for path in check.dequantized for finding in path.findings]
        assert {reason.code for reason in reasons} == {"operands-widened"}
        assert {dict(reason.values)["compute_format"] for reason in reasons} == {"FP16"}


def test_fp8_is_native_where_the_chip_has_the_unit() -> None:
    on_hopper, on_ampere = kinds("fp8_balanced", "h100"), kinds("fp8_balanced", "a100-sxm-80gb")
    assert {on_hopper[projection.value] for projection in PROJECTIONS} == {"native"}
    assert {on_ampere[projection.value] for projection in PROJECTIONS} == {"dequantize"}
    assert on_hopper["kv_cache"] == "dequantize"  # attention multiplies in FP16
    assert (on_hopper["softmax"], on_hopper["embeddings"], on_hopper["qk_matmul"]) == ("vector", "storage", "native")


def test_ranges_of_layers_are_told_apart() -> None:
    check = check_strategy(create_layerwise_gradient(), "gb10")
    labels = [path.label for path in check.paths if path.operator is OperatorType.FFN_UP]
    assert labels == ["ffn_up@0-10", "ffn_up@11-21", "ffn_up@22-31"]
    assert "ffn_up@0-10" not in [path.label for path in check.dequantized]


@pytest.mark.parametrize("chip", list_hardware(), ids=lambda chip: chip.key)
def test_every_shipped_chip_can_be_checked(chip) -> None:
    for name in STRATEGIES:
        check = check_strategy(get_strategy(name), chip)
        assert check.is_runnable == (not check.unsupported)
        assert {path.operator for path in check.paths} == set(OperatorType)


def test_what_a_chip_cannot_run_is_refused_by_name() -> None:
    chip = create_custom_asic("int8 only", 100.0, {"INT8": 10.0})
    with pytest.raises(
        UnsupportedError, match=r"fp16_baseline: q_proj=FP16 \(and \d+ more\): int8-only has no rate for FP16"
    ):
        validate_strategy(get_strategy("fp16_baseline"), chip)
    assert validate_strategy(get_strategy("fp16_baseline"), "gb10").is_runnable


def test_a_uniform_strategy_is_the_plan_written_by_hand() -> None:
    """INT4.FP16 with 16-bit embeddings and head: the same kernels, bytes and time."""
    ours = predict_model("gb10", LLAMA, formats=strategy_plan(get_strategy("w4a16_aggressive"), LLAMA))
    by_hand = plan_from_text("INT4.FP16", LLAMA, exceptions=["lm_head=FP16", "embedding=FP16"])
    theirs = predict_model("gb10", LLAMA, formats=by_hand)
    assert ours.kernels == theirs.kernels
    assert ours.memory == theirs.memory
    assert ours.time_s == theirs.time_s
    assert ours.plan.label == "w4a16_aggressive"


def test_formats_by_operator_reach_the_plan() -> None:
    plan = strategy_plan(get_strategy("hybrid_long_context"), LLAMA)
    assert plan.of("qkv_proj", 0).label == plan.of("o_proj", 31).label == "FP8_E4M3.FP16"
    assert plan.of("ffn", 5).label == "NVFP4.FP16"
    assert plan.of("lm_head").label == plan.of("embedding").label == "FP16"
    assert (plan.kv, plan.wide) == ("NVFP4", "FP16")


def test_formats_by_layer_reach_the_plan_and_time_and_memory_follow() -> None:
    gradient = create_layerwise_gradient(32, kv_cache_precision="FP8")
    plan = strategy_plan(gradient, LLAMA)
    for layer in range(32):
        for part, operator in (("qkv_proj", "q_proj"), ("o_proj", "o_proj"), ("ffn", "ffn_down")):
            assert plan.of(part, layer) == gradient.formats(operator, layer)
    prediction = predict_model("gb10", LLAMA, formats=plan)
    counts = {
        kernel.kernel.work.formats[1][1]: kernel.kernel.calls_count
        for kernel in prediction.kernels
        if kernel.kernel.name == "o_proj"
    }
    assert counts == {"FP16": 11, "FP8_E4M3": 11, "NVFP4": 10}
    # Matrices of one Llama-3 8B layer, in elements; norms, embedding and head stay in 16 bit.
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    small = (2 * 32 + 1) * 4096
    expected = layer * (11 * 2 + 11 * 1 + 10 * 4.53125 / 8) + 2 * (2 * 128256 * 4096 + small)
    assert prediction.memory.weights_bytes == pytest.approx(expected, rel=1e-12)


def test_a_cache_may_vary_with_depth() -> None:
    config = MixedPrecisionConfig("kv", "", {}, layers=(LayerPrecisions(4, 31, {"kv_cache": "FP8"}),), layer_count=32)
    plan = strategy_plan(config, LLAMA)
    assert [plan.kv_of(layer) for layer in (0, 3, 4, 31)] == ["FP16", "FP16", "FP8_E4M3", "FP8_E4M3"]
    full = predict_model("b10", LLAMA, formats=strategy_plan(get_strategy("fp16_baseline"), LLAMA))
    assert predict_model("b10", LLAMA, formats=plan).memory.kv_bytes == full.memory.kv_bytes * (4 + 28 / 2) / 32


def test_mixtures_of_experts_keep_a_wide_router() -> None:
    shape = get_model("gpt-oss-20b")
    plan = strategy_plan(get_strategy("nvfp4_blackwell"), shape)
    assert plan.of("router", 3).label == "FP16"
    assert plan.of("experts", 3).label == "NVFP4.FP16"
    gradient = strategy_plan(create_layerwise_gradient(shape.layer_count), shape)
    assert [gradient.of("experts", layer).weights for layer in (0, shape.layer_count - 1)] == ["FP16", "NVFP4"]
    assert predict_model("gb10", shape, formats=gradient).memory.weights_bytes > 0


@pytest.mark.parametrize("model", ["llama-3-8b", "phi-2", "gemma-3-27b", "deepseek-v3", "gpt-oss-20b"])
def test_every_strategy_predicts_every_kind_of_model(model: str) -> None:
    shape = get_model(model)
    for name in STRATEGIES:
        plan = strategy_plan(get_strategy(name, num_layers=shape.layer_count), shape)
        for phase in ("decode", "prefill"):
            assert predict_model("gb10", shape, phase, context=512, formats=plan).time_s > 0


def test_every_operator_may_have_a_format_of_its_own() -> None:
    formats = {
        "q_proj": "FP8", "k_proj": "INT8", "v_proj": "FP8", "o_proj": "INT4", "ffn_gate": "NVFP4", "ffn_up": "INT4",
        "ffn_down": "FP8.FP8", "qk_matmul": "FP8", "sv_matmul": "FP8",
    }  # fmt: skip
    layers = (
        LayerPrecisions(0, 3, {"q_proj": "FP16", "ffn_down": "FP16"}),
        LayerPrecisions(8, 31, {"ffn_gate": "INT4"}),
    )
    config = MixedPrecisionConfig("each", "", formats, kv_cache_precision="FP8", layers=layers, layer_count=32)
    plan = strategy_plan(config, LLAMA)
    for layer in range(32):
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            assert plan.of(part, layer) == config.formats(part, layer)
        for part in ("gate", "up", "down"):
            assert plan.of(f"{part}_proj", layer) == config.formats(f"ffn_{part}", layer)
        assert plan.products_of(layer) == ("FP8_E4M3", "FP8_E4M3")
    names = {kernel.kernel.name for kernel in predict_model("h100", LLAMA, formats=plan).kernels}
    assert {"qv_proj", "k_proj", "q_proj", "gate_proj", "up_proj", "gate_up_proj", "quantize_query"} <= names
    experts = strategy_plan(
        MixedPrecisionConfig("e", "", {"ffn_up": "INT4", "ffn_down": "FP8"}), get_model("deepseek-v3")
    )
    for prefix in ("", "experts_", "shared_"):
        formats_of = [experts.of(f"{prefix}{part}_proj", 5).weights for part in ("gate", "up", "down")]
        assert formats_of == ["FP16", "INT4", "FP8_E4M3"]


def test_attention_multiplies_in_the_strategys_format() -> None:
    formats = {"qk_matmul": "FP8", "sv_matmul": "FP8"}
    config = MixedPrecisionConfig("fp8-attention", "", formats, kv_cache_precision="FP8")
    for chip, path in (("h100", "native"), ("gb10", "native"), ("a100-sxm-80gb", "dequantize")):
        prediction = predict_model(chip, LLAMA, "prefill", formats=strategy_plan(config, LLAMA))
        assert {kernel.prediction.path for kernel in prediction.kernels if kernel.kernel.name == "attention"} == {path}
        assert kinds_of(config, chip)["qk_matmul"] == path  # the check and the prediction agree


def test_a_plain_ffn_has_no_gate_to_agree_with() -> None:
    formats = {"ffn_gate": "FP8", "ffn_up": "INT4", "ffn_down": "INT4"}
    plan = strategy_plan(MixedPrecisionConfig("p", "", formats), get_model("phi-2"))
    assert plan.of("ffn", 0).label == "INT4.FP16"


def test_a_wider_format_of_the_residual_stream_is_kept() -> None:
    plan = strategy_plan(MixedPrecisionConfig("b", "", {"rmsnorm": "BF16", "ffn_up": "BF16"}, "BF16", "BF16"), LLAMA)
    assert (plan.wide, plan.base.label, plan.kv) == ("BF16", "BF16", "BF16")


def test_a_strategy_of_another_depth_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"made for 32 layers, phi-2 has \d+.*create_layerwise_gradient"):
        strategy_plan(create_layerwise_gradient(32), replace(get_model("phi-2"), layer_count=30))
