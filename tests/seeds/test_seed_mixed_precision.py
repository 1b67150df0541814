"""Every code block of the original document 004 about mixed precision, with other imports only, and its figures."""

from __future__ import annotations

import pytest

from roofline_model.models.llm import predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.model_plan import strategy_plan
from roofline_model.models.strategies.operator_type import OperatorType
from roofline_model.models.strategies.strategies import create_layerwise_gradient, create_nvfp4_blackwell, get_strategy
from roofline_model.models.strategies.strategy_gain import strategy_gain


def test_operator_types_block() -> None:
    # Attention projections
    OperatorType.Q_PROJ  # noqa: B018
    OperatorType.K_PROJ  # noqa: B018
    OperatorType.V_PROJ  # noqa: B018
    OperatorType.O_PROJ  # noqa: B018

    # Attention compute
    OperatorType.QK_MATMUL  # noqa: B018
    OperatorType.SV_MATMUL  # noqa: B018
    OperatorType.SOFTMAX  # noqa: B018

    # FFN (2/3 of total compute!)
    OperatorType.FFN_GATE  # noqa: B018
    OperatorType.FFN_UP  # noqa: B018
    OperatorType.FFN_DOWN  # noqa: B018

    # Other
    OperatorType.KV_CACHE  # noqa: B018
    OperatorType.RMSNORM  # noqa: B018
    OperatorType.EMBEDDINGS  # noqa: B018
    assert len(OperatorType) == 13


def test_nvfp4_blackwell_block() -> None:
    config = create_nvfp4_blackwell()
    # "All weights: NVFP4; Activations: FP16; KV cache: NVFP4_KV"
    for operator in ("q_proj", "k_proj", "v_proj", "o_proj", "ffn_gate", "ffn_up", "ffn_down"):
        assert config.get_precision(operator) == "NVFP4"
        assert config.get_activation(operator) == "FP16"
    assert config.get_precision(OperatorType.KV_CACHE) == "NVFP4"  # NVFP4_KV is a name for it
    assert config.claims is not None
    assert (config.claims.speedup, config.claims.quality_loss, config.claims.memory_saved_ratio) == (4.0, "<1%", 0.72)


def test_custom_strategy_block() -> None:
    custom = MixedPrecisionConfig(
        name="Custom Strategy",
        description="Aggressive FFN, conservative attention",
        operator_precisions={
            # Attention: FP8 for speed
            OperatorType.Q_PROJ.value: "FP8_E4M3",
            OperatorType.K_PROJ.value: "FP8_E4M3",
            OperatorType.V_PROJ.value: "FP8_E4M3",
            OperatorType.O_PROJ.value: "FP8_E4M3",
            # FFN: NVFP4 for max speed (2/3 of compute!)
            OperatorType.FFN_GATE.value: "NVFP4",
            OperatorType.FFN_UP.value: "NVFP4",
            OperatorType.FFN_DOWN.value: "NVFP4",
            # KV cache: NVFP4 for long context
            OperatorType.KV_CACHE.value: "NVFP4_KV",
        },
        default_activation_precision="FP16",
        kv_cache_precision="NVFP4_KV",
    )
    assert custom.get_precision(OperatorType.Q_PROJ) == "FP8_E4M3"
    assert custom.get_precision(OperatorType.FFN_DOWN) == "NVFP4"
    assert custom.get_precision(OperatorType.KV_CACHE) == custom.kv_cache_precision == "NVFP4"
    assert custom.get_precision(OperatorType.SOFTMAX) == "FP16"  # not named: not quantised


def test_layerwise_block() -> None:
    # Progressive quantization: early layers more precise, later layers aggressive
    config = create_layerwise_gradient(num_layers=32)
    precisions = [config.get_precision("ffn_up", layer) for layer in range(32)]
    assert precisions == ["FP16"] * 11 + ["FP8_E4M3"] * 11 + ["NVFP4"] * 10  # 0-10, 11-21, 22-31


def test_quick_start_block(capsys: pytest.CaptureFixture[str]) -> None:
    # Get pre-configured strategy
    config = get_strategy("nvfp4_blackwell")

    # Check precision for each operator
    for op in OperatorType:
        precision = config.get_precision(op)
        print(f"{op.value}: {precision}")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 13
    assert lines[0] == "q_proj: NVFP4"
    assert "kv_cache: NVFP4" in lines
    assert "rmsnorm: FP16" in lines


@pytest.mark.parametrize(
    ("name", "savings"),
    [("fp16_baseline", 0.0), ("fp8_balanced", 0.50), ("w4a16_aggressive", 0.75), ("nvfp4_blackwell", 0.72)],
)
def test_memory_savings_column(name: str, savings: float) -> None:
    """The document's savings are those of the layers' matrices; with 16-bit embeddings the whole model saves less."""
    gain = gain_of(name, 4096)
    assert gain.layer_weights_saved_ratio == pytest.approx(savings, abs=0.005)
    assert gain.weights_saved_ratio == pytest.approx(
        savings * 6.979 / 8.030, abs=0.005
    )  # 6.979 G of 8.030 G parameters


def test_hybrid_long_context_saves_what_the_document_says() -> None:
    """60 % of weights and cache at 8K tokens, embeddings included; "60-75%" at 32K."""
    assert gain_of("hybrid_long_context", 8192).memory_saved_ratio == pytest.approx(0.60, abs=0.01)
    assert 0.60 <= gain_of("hybrid_long_context", 32768).memory_saved_ratio <= 0.75


def test_layerwise_gradient_cannot_save_what_the_document_says() -> None:
    """11 layers at 16 bit, 11 at 8, 10 at 4.53 save 39.6 % of the layers' matrices; the document claims 55 %."""
    saved = (11 * 0 + 11 * 0.5 + 10 * (1 - 4.53125 / 16)) / 32
    assert saved == pytest.approx(0.396, abs=0.0005)
    gain = gain_of("layerwise_gradient", 4096)
    assert gain.layer_weights_saved_ratio == pytest.approx(saved, abs=1e-9)
    assert gain.speedup < 1 / (1 - saved) < 1.66  # and so no 2.5x either: decode is as fast as its bytes


def test_decode_speedups_stay_below_the_ratio_of_bytes() -> None:
    """ "4.0x" for NVFP4 (and INT4) would need every byte of the step at a quarter: head and norms are 16 bit."""
    for name, claimed, computed in (
        ("nvfp4_blackwell", 4.0, 3.0),
        ("w4a16_aggressive", 4.0, 3.0),
        ("fp8_balanced", 2.0, 1.9),
    ):
        speedup = gain_of(name, 4096).speedup
        assert speedup < claimed
        assert speedup == pytest.approx(computed, rel=0.05), name


def test_decode_times_of_the_document_do_not_follow() -> None:
    """45.8 ms for FP16 on GB10 at 4K would need 340 GB/s; weights and cache at its 273 GB/s take 57 ms."""
    prediction = predict_model(
        "gb10",
        "llama-3-8b",
        context=4096,
        formats=strategy_plan(get_strategy("fp16_baseline"), get_model("llama-3-8b")),
    )
    assert prediction.time_s == pytest.approx(57.0e-3, rel=0.01)
    assert prediction.moved_bytes / 45.8e-3 > 335e9


def test_kv_cache_column() -> None:
    """32K tokens of Llama-3 8B: 4096, 2048 and 1160 MiB (the document prints 1175)."""
    shape = get_model("llama-3-8b")
    for name, mib in (("fp16_baseline", 4096), ("fp8_balanced", 2048), ("nvfp4_blackwell", 1160)):
        plan = strategy_plan(get_strategy(name), shape)
        prediction = predict_model("b10", shape, context=32768, formats=plan, max_context=32768)
        assert prediction.memory.kv_bytes == mib * 1024**2


def gain_of(name: str, context: int):
    shape = get_model("llama-3-8b")
    plan = strategy_plan(get_strategy(name, num_layers=shape.layer_count), shape)
    # The documents count INT4 without group scales (`--no-group-scales`).
    prediction = predict_model("gb10", shape, context=context, formats=plan, max_context=32768, has_group_scales=False)
    return strategy_gain(prediction, "gb10")
