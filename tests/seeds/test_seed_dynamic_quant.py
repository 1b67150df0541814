"""Every code block of the original document 004 about dynamic quantization, with other imports only."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from roofline_model.models.strategies.activation_stats import ActivationStats
from roofline_model.models.strategies.dynamic_config import DynamicQuantConfig
from roofline_model.models.strategies.precision_selector import AdaptivePrecisionSelector, AdaptiveQuantConfig

STATS = ActivationStats(
    absmax=10.0,  # Maximum absolute value
    mean=0.0,  # Mean value
    std=2.0,  # Standard deviation
    percentile_99=8.0,  # 99th percentile
    percentile_999=9.5,  # 99.9th percentile
    shape=(1024, 4096),
)


def test_how_it_works_block() -> None:
    torch = pytest.importorskip("torch")
    from bench_cases.quantization.dynamic.quantizer import DynamicQuantizer

    torch.manual_seed(0)
    x, W = torch.randn(4, 256), torch.randn(128, 256)

    # Configure
    config = DynamicQuantConfig(
        precision="FP8_E4M3",
        granularity="per_token",  # or "per_tensor", "per_channel"
        calibration_mode="percentile",  # or "absmax", "mse_optimal"
        fallback_to_fp16=True,  # Fallback if outliers detected
    )

    quantizer = DynamicQuantizer(config)

    # During inference
    result, metadata = quantizer.quantize_dynamic(
        activation=x,
        weight=W,
        operator_name="ffn_gate",
        target_precision="FP8_E4M3",
    )

    # metadata contains: scale, precision (may be FP16 if fallback), outlier_ratio
    assert result.shape == (4, 128)
    assert metadata["scale"].shape == (4, 1)
    assert metadata["precision"] == "FP8_E4M3"
    assert metadata["outlier_ratio"] == metadata["stats"].outlier_ratio < 2.0
    assert float((result - x @ W.t()).norm() / (x @ W.t()).norm()) < 0.05


def test_activation_statistics_block() -> None:
    stats = STATS
    # Outlier detection
    outlier_ratio = stats.outlier_ratio  # > 2.0 = severe outliers → fallback to FP16
    dynamic_range = stats.dynamic_range  # Effective range (99.9th percentile)
    assert outlier_ratio == 10.0 / 9.5
    assert dynamic_range == 9.5


def test_adaptive_selection_block() -> None:
    config = AdaptiveQuantConfig(
        precision_candidates=["NVFP4", "FP8_E4M3", "FP16"],
        high_outlier_threshold=2.0,  # Switch to FP16
        medium_outlier_threshold=1.5,  # Switch to FP8
        low_outlier_threshold=1.0,  # Can use NVFP4
    )

    selector = AdaptivePrecisionSelector(config)

    # Select precision based on runtime stats
    precision = selector.select_precision(
        operator_name="q_proj",
        activation_stats=STATS,
        context={
            "phase": "decode",
            "seq_len": 4096,
            "is_kv_cache": False,
        },
    )
    # → Returns "NVFP4", "FP8_E4M3", or "FP16" based on outliers + context
    assert precision == "NVFP4"  # 10 / 9.5 = 1.05: few outliers, and decode is bound by memory


def test_example_2_block(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    from bench_cases.quantization.dynamic.quantizer import DynamicQuantizer

    torch.manual_seed(0)
    layers = [SimpleNamespace(idx=idx, q_proj=torch.nn.Linear(2048, 64)) for idx in range(2)]
    model, batch = SimpleNamespace(layers=layers), range(3)
    hidden_states = torch.randn(3, 2048)
    hidden_states[1, 5] = 100.0

    config = DynamicQuantConfig(
        precision="FP8_E4M3",
        granularity="per_token",
        calibration_mode="percentile",
    )

    quantizer = DynamicQuantizer(config)

    # During inference (pseudo-code)
    for layer in model.layers:
        for token in batch:
            # Quantize dynamically
            _, meta = quantizer.quantize_dynamic(
                activation=hidden_states[token],
                weight=layer.q_proj.weight,
                operator_name=f"layer_{layer.idx}_q_proj",
            )

            # Check if fallback occurred
            if meta["fallback"]:
                print(f"Fallback to FP16 due to outliers: {meta['outlier_ratio']:.2f}")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2  # the token with the outlier, in either layer
    assert all(line.startswith("Fallback to FP16 due to outliers: ") for line in lines)
    assert {name: state.fallback_count for name, state in quantizer.states.items()} == {
        "layer_0_q_proj": 1,
        "layer_1_q_proj": 1,
    }
