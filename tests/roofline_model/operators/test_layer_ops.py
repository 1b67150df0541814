"""Projections, feed-forward block, embedding and lm_head counted by hand, and the laws they obey."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import FORMATS, InvalidValueError, gemm, gemv, total_cost
from roofline_model.operators.elementwise import silu_mul
from roofline_model.operators.layers import embedding, ffn_parts, lm_head, projections
from roofline_model.operators.quantize import quantize

SMALL = st.integers(min_value=1, max_value=64)
HEADS = st.integers(min_value=1, max_value=8)
WEIGHTS = st.sampled_from(sorted(key for key, fmt in FORMATS.items() if fmt.element_bits != 16))


def test_projections_by_hand() -> None:
    works = projections(3, 64, 8, 2, 16, a="BF16", b="INT4")
    assert list(works) == ["q_proj", "k_proj", "v_proj", "o_proj"]
    assert [dict(op.shape) for op in works.values()] == [
        {"M": 3, "N": 128, "K": 64},
        {"M": 3, "N": 32, "K": 64},
        {"M": 3, "N": 32, "K": 64},
        {"M": 3, "N": 64, "K": 128},
    ]
    assert [op.cost.total_flops for op in works.values()] == [
        2 * 3 * 64 * 128,
        2 * 3 * 64 * 32,
        2 * 3 * 64 * 32,
        2 * 3 * 128 * 64,
    ]
    assert dict(works["q_proj"].cost.read_bytes) == {"A": 3 * 64 * 2, "B": 64 * 128 / 2}
    assert dict(works["q_proj"].cost.write_bytes) == {"C": 3 * 128 * 2}
    assert {op.op for op in works.values()} == {"gemv"}


@given(SMALL, SMALL, HEADS, HEADS, SMALL, WEIGHTS)
def test_fused_projections_read_the_tokens_once(rows: int, hidden: int, hkv: int, group: int, d: int, b: str) -> None:
    apart, fused = (projections(rows, hidden, hkv * group, hkv, d, b=b, fused=flag) for flag in (False, True))
    assert list(fused) == ["qkv_proj", "o_proj"]
    first, second = total_cost(op.cost for op in apart.values()), total_cost(op.cost for op in fused.values())
    assert first.total_flops == second.total_flops
    assert first.total_bytes - second.total_bytes == pytest.approx(2 * rows * hidden * 2)


@given(SMALL, SMALL, HEADS, SMALL, WEIGHTS)
def test_as_many_kv_heads_as_heads_is_multi_head(rows: int, hidden: int, heads: int, d: int, b: str) -> None:
    works = projections(rows, hidden, heads, heads, d, b=b)
    assert works["q_proj"] == works["k_proj"] == works["v_proj"]


def test_a_decode_step_is_four_gemvs() -> None:
    works = projections(1, 4096, 32, 8, 128, a="FP16")
    assert works["q_proj"] == gemv(4096, 4096, a="FP16") == gemm(1, 4096, 4096, a="FP16")
    assert works["k_proj"] == gemv(1024, 4096, a="FP16")
    assert {op.op for op in projections(17, 64, 4, 4, 16).values()} == {"gemm"}


def test_ffn_by_hand() -> None:
    parts = ffn_parts(5, 64, 96, a="BF16", b="FP8")
    assert list(parts) == ["gate_proj", "up_proj", "silu_mul", "down_proj"]
    assert parts["gate_proj"] == parts["up_proj"] == gemm(5, 96, 64, a="BF16", b="FP8")
    assert parts["silu_mul"] == silu_mul(5, 96)
    assert parts["down_proj"] == gemm(5, 64, 96, a="BF16", b="FP8")
    assert sum(op.cost.total_flops for op in parts.values()) == 6 * 5 * 64 * 96 + 3 * 5 * 96


def test_a_block_without_gate_by_hand() -> None:
    parts = ffn_parts(5, 64, 96, gated=False)
    assert list(parts) == ["up_proj", "gelu", "down_proj"]
    assert sum(op.cost.total_flops for op in parts.values()) == 4 * 5 * 64 * 96 + 9 * 5 * 96
    assert list(ffn_parts(5, 64, 96, gated=False, fused=True)) == ["up_gelu", "down_proj"]


def test_a_fused_block_by_hand() -> None:
    parts = ffn_parts(5, 64, 96, a="BF16", b="INT8", fused=True)
    assert list(parts) == ["gate_up_silu_mul", "down_proj"]
    first = parts["gate_up_silu_mul"]
    assert first.shape == (("M", 5), ("N", 192), ("K", 64))
    assert first.cost.flops == (("BF16", 4 * 5 * 64 * 96),)
    assert dict(first.cost.read_bytes) == {"A": 5 * 64 * 2, "B": 64 * 192}
    assert dict(first.cost.write_bytes) == {"C": 5 * 96 * 2}


@given(SMALL, SMALL, SMALL, WEIGHTS)
def test_fusion_saves_the_intermediates_and_one_read_of_the_tokens(rows: int, hidden: int, inner: int, b: str) -> None:
    apart = total_cost(op.cost for op in ffn_parts(rows, hidden, inner, b=b).values())
    fused = total_cost(op.cost for op in ffn_parts(rows, hidden, inner, b=b, fused=True).values())
    # gate and up written and read, 16 bit; the tokens read once instead of twice
    assert apart.total_bytes - fused.total_bytes == pytest.approx(4 * rows * inner * 2 + rows * hidden * 2)
    assert apart.total_flops - fused.total_flops == 3 * rows * inner


def test_quantised_activations_by_hand() -> None:
    static = ffn_parts(5, 64, 96, a="FP8")
    assert dict(static["silu_mul"].formats) == {"x": "FP16", "o": "FP8_E4M3"}  # the cast is fused
    assert dict(static["down_proj"].cost.read_bytes)["A"] == 5 * 96
    dynamic = ffn_parts(5, 64, 96, a="FP8", c="BF16", dynamic_activation_quantization=True)
    assert list(dynamic) == ["quantize_input", "gate_proj", "up_proj", "silu_mul", "quantize_hidden", "down_proj"]
    assert dynamic["quantize_input"] == quantize(5, 64, "BF16", "FP8")
    assert dynamic["quantize_hidden"] == quantize(5, 96, "BF16", "FP8")
    assert dict(dynamic["silu_mul"].formats) == {"x": "BF16", "o": "BF16"}
    fused = ffn_parts(5, 64, 96, a="NVFP4", c="BF16", fused=True, dynamic_activation_quantization=True)
    assert list(fused) == ["quantize_input", "gate_up_silu_mul", "quantize_hidden", "down_proj"]
    assert dict(fused["gate_up_silu_mul"].formats)["c"] == "BF16"


def test_embedding_by_hand() -> None:
    operator = embedding(7, 1000, 64, b="INT8", o="BF16")
    assert operator.cost.total_flops == 0
    assert dict(operator.cost.read_bytes) == {"table": 7 * 64}
    assert dict(operator.cost.write_bytes) == {"Y": 7 * 64 * 2}
    assert dict(embedding(5000, 1000, 64).cost.read_bytes) == {"table": 1000 * 64 * 2}  # no more rows than there are


def test_lm_head_is_a_product() -> None:
    assert lm_head(3, 32000, 4096, a="BF16", b="FP8", c="FP32") == gemm(3, 32000, 4096, a="BF16", b="FP8", c="FP32")


@given(SMALL, SMALL, SMALL, SMALL)
def test_rows_cost_no_weights(rows: int, more: int, hidden: int, inner: int) -> None:
    """Tokens share the weights: what grows with them are activations and FLOPs, in proportion."""
    single, many = ffn_parts(rows, hidden, inner), ffn_parts(rows + more, hidden, inner)
    for first, second in zip(single.values(), many.values(), strict=True):
        assert second.cost.total_flops * rows == first.cost.total_flops * (rows + more)
        assert dict(second.cost.read_bytes).get("B") == dict(first.cost.read_bytes).get("B")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: projections(1, 64, 8, 3, 16), r"heads \(Hq=8\) is not divisible by kv_heads \(Hkv=3\)"),
        (lambda: projections(1, 64, 8, 2, 0), "D must"),
        (lambda: projections(1, 64, 8, 2, 16, a="FP8", b="INT8"), "a=FP8_E4M3 and b=INT8 contradict"),
        (lambda: projections(1, 64, 8, 2, 16, a="NF4"), "a=NF4"),
        (lambda: ffn_parts(0, 64, 96), "M must"),
        (lambda: ffn_parts(1, 64, 96, a="INT8", b="FP8"), "contradict"),
        (lambda: ffn_parts(1, 64, 96, c="NF4"), "c=NF4"),
        (lambda: ffn_parts(1, 64, 96, dynamic_activation_quantization=True), "contradicts a=BF16"),
        (
            lambda: ffn_parts(1, 64, 96, a="FP8", c="FP8", dynamic_activation_quantization=True),
            "contradicts a=FP8_E4M3",
        ),
        (lambda: embedding(0, 10, 4), "rows must"),
        (lambda: embedding(1, 0, 4), "vocabulary must"),
        (lambda: lm_head(1, 10, 0), "K must"),
    ],
)
def test_wrong_input_is_refused_by_field(call, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        call()


def test_group_scales_of_weights_are_counted_everywhere() -> None:
    grouped = FORMATS["INT4"].grouped(128, zero_bits=16)  # 4 + 32/128 bits
    weights = 4096 * 14336 * 4.25 / 8
    for fused in (False, True):
        parts = ffn_parts(1, 4096, 14336, b=grouped, fused=fused)
        assert sum(dict(op.cost.read_bytes).get("B", 0) for op in parts.values()) == 3 * weights
    works = projections(1, 4096, 32, 8, 128, b=grouped)
    assert dict(works["k_proj"].cost.read_bytes)["B"] == 4096 * 1024 * 4.25 / 8
    assert dict(lm_head(1, 1000, 4096, b=grouped).cost.read_bytes)["B"] == 4096 * 1000 * 4.25 / 8
