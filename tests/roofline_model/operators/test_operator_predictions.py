"""Predictions by name, alone and in sequence: they are the roofline of the counted operator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import InvalidValueError, create_custom_asic, gemm, predict, predict_gemm, predict_gemv
from roofline_model.core.finding import finding, has_code
from roofline_model.ideal import operator_predictions as named
from roofline_model.ideal.operator_sequence import predict_operator, predict_sequence
from roofline_model.operators.attention import attention, unfused_attention_parts
from roofline_model.operators.elementwise import softmax
from roofline_model.operators.layers import embedding, ffn_parts, projections

CHIPS = st.sampled_from(["b10", "gb10", "h100", "a100", "b200"])
SMALL = st.integers(min_value=1, max_value=2048)


def test_attention_on_the_placeholder_by_hand() -> None:
    prefill = named.predict_attention("b10", 1, 32, 4096, 128)
    assert prefill.flops == 4 * 32 * 4096 * 4096 * 128
    assert prefill.time_s == prefill.flops / 200e12
    assert prefill.bottleneck == "compute"
    decode = named.predict_attention("b10", 1, 32, 1, 128, kv_len=4096, num_kv_heads=8)
    assert decode.time_s == (2 * 8 * 4096 * 128 * 2 + 2 * 32 * 128 * 2) / 1000e9
    assert decode.bottleneck == "memory"
    narrow = named.predict_attention("b10", 1, 32, 1, 128, kv_len=4096, num_kv_heads=8, kv_precision="NVFP4")
    assert narrow.path == "dequantize"
    assert (
        finding("operands-widened", operand="keys and values", format="NVFP4", compute_format="FP16") in narrow.findings
    )
    assert narrow.compute_time_s == decode.compute_time_s


def test_an_ffn_on_the_placeholder_by_hand() -> None:
    prediction = named.predict_ffn("b10", 1, 1, 4096, 14336)
    weights = 3 * 4096 * 14336 * 2
    activations = 2 * (4096 + 14336) * 2 + 3 * 14336 * 2 + (14336 + 4096) * 2
    assert prediction.time_s == pytest.approx((weights + activations) / 1000e9)
    assert [part.name for part in prediction.parts] == ["gate_proj", "up_proj", "silu_mul", "down_proj"]
    assert prediction.bottleneck == prediction.bound == "memory"
    assert prediction.flops == 6 * 4096 * 14336 + 3 * 14336
    assert prediction.predicted_time_us == prediction.time_s * 1e6
    assert prediction.predicted_tflops == prediction.flops / prediction.time_s / 1e12
    assert prediction.arithmetic_intensity == pytest.approx(prediction.flops / (weights + activations))
    assert prediction.read_bytes + prediction.write_bytes == weights + activations
    assert prediction.provenance == "placeholder"
    prefill = named.predict_ffn("b10", 4, 2048, 4096, 14336)
    assert prefill.bottleneck == "compute"
    assert 199 < prefill.critical_ai < 201  # a little FP32 beside the FP16


def test_a_gate_less_block_has_two_products() -> None:
    assert named.predict_ffn("b10", 1, 8, 64, 256, gate=False).flops == 4 * 8 * 64 * 256 + 9 * 8 * 256


@given(CHIPS, SMALL, SMALL, SMALL)
def test_a_sequence_is_the_sum_of_its_parts_and_no_faster_than_their_roofline(
    chip: str, rows: int, hidden: int, inner: int
) -> None:
    parts = ffn_parts(rows, hidden, inner)
    sequence = predict_sequence(parts, chip)
    assert sequence.time_s == pytest.approx(sum(predict(work, chip).time_s for work in parts.values()))
    assert sequence.memory_time_s <= sequence.time_s * (1 + 1e-12)
    assert sequence.compute_time_s <= sequence.time_s * (1 + 1e-12)
    assert sequence.time_s <= sequence.memory_time_s + sequence.compute_time_s
    prediction = predict_sequence({"product": gemm(rows, hidden, inner)}, chip)
    alone = predict_gemm(chip, rows, hidden, inner)
    assert (prediction.time_s, prediction.bound, prediction.findings) == (alone.time_s, alone.bound, alone.findings)
    assert prediction.critical_ai == pytest.approx(alone.critical_ai)


@given(CHIPS, SMALL, SMALL, st.sampled_from(["FP16", "FP8", "INT8", "NVFP4"]))
def test_gemv_is_gemm_at_one_row(chip: str, n: int, k: int, precision: str) -> None:
    assert predict_gemv(chip, n, k, precision) == predict_gemm(chip, 1, n, k, precision)


@given(CHIPS, st.integers(min_value=1, max_value=64), SMALL)
def test_decode_is_prefill_with_one_query(chip: str, batch: int, context: int) -> None:
    decode = named.predict_attention(chip, batch, 8, 1, 64, kv_len=context, num_kv_heads=2)
    assert named.predict_attention(chip, batch, 8, 1, 64, kv_len=context, num_kv_heads=2, causal=True) == decode


@given(CHIPS, SMALL, st.sampled_from([1, 2, 4, 8]))
def test_fused_attention_is_never_slower(chip: str, length: int, kv_heads: int) -> None:
    fused = named.predict_attention(chip, 1, 8, length, 64, num_kv_heads=kv_heads)
    parts = unfused_attention_parts(1, 8, kv_heads, length, length, 64, q="FP16")
    unfused = predict_sequence(parts, chip)
    assert [part.name for part in unfused.parts] == ["qk_scores", "softmax", "scores_value"]
    assert fused.time_s < unfused.time_s


def test_attention_predicts_its_operator() -> None:
    work = attention(1, 8, 8, 4, 4, 64, q="FP16", causal=True)
    assert named.predict_attention("gb10", 1, 8, 4, 64, causal=True) == predict(work, "gb10")


def test_projections_follow_the_heads() -> None:
    prediction = predict_sequence(projections(16, 4096, 32, 8, 128, a="FP16"), "b10")
    assert prediction.flops == 2 * 16 * (2 * 4096 * 4096 + 2 * 4096 * 1024)
    fused = predict_sequence(projections(16, 4096, 32, 8, 128, a="FP16", fused=True), "b10")
    assert fused.time_s < prediction.time_s


def test_a_chip_without_fp32_counts_elementwise_work_at_its_16_bit_rate() -> None:
    chip = create_custom_asic("Plain", bandwidth_gb_s=500, flops_by_precision={"FP16": 50.0, "INT8": 100.0})
    prediction = predict_operator(softmax(1024, 1024, a="FP16"), chip)
    assert prediction.bound == "memory"
    assert prediction.compute_time_s == 5 * 1024 * 1024 / 50e12
    assert has_code(prediction.findings, "rate-not-declared", "elementwise")
    assert named.predict_ffn(chip, 1, 1, 64, 256).time_s > 0
    copy = predict_operator(embedding(4, 100, 64, b="FP16"), chip)
    assert not copy.findings
    assert predict_operator(softmax(8, 8), "gb10") == predict(softmax(8, 8), "gb10")


def test_warm_reaches_every_part() -> None:
    cold, warm = (named.predict_ffn("a100", 1, 1, 1024, 2048, cache=cache) for cache in ("cold", "warm"))
    assert warm.time_s < cold.time_s
    assert {part.prediction.memory_level for part in warm.parts} == {"L2"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: named.predict_attention("b10", 1, 32, 1, 128, num_kv_heads=5), r"kv_heads \(Hkv=5\)"),
        (lambda: named.predict_attention("b10", 1, 32, 8, 128, kv_len=4, causal=True), "Sq must not exceed Skv"),
        (lambda: named.predict_ffn("b10", -1, -1, 64, 64), "batch must"),
        (lambda: named.predict_ffn("b10", 1, 0, 64, 64), "seq_len must"),
        (lambda: predict_sequence({}, "b10"), "at least one operator"),
    ],
)
def test_wrong_input_is_refused_by_field(call, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        call()
