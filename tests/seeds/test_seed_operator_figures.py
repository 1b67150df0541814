"""The original documents' figures about attention, feed-forward blocks and whole layers, counted with our operators.

Reproduced where their formulas give them; where not, what holds is tested (docs/theory/math.md, "Where the original
documents differ").
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from roofline_model import get_hardware, predict, total_cost
from roofline_model.core.cost import OpCost
from roofline_model.core.units import GIB, MIB
from roofline_model.operators.attention import attention, qk_scores, scores_value
from roofline_model.operators.elementwise import residual_add, rmsnorm, rope, silu_mul, softmax
from roofline_model.operators.kv_cache import kv_cache_bytes
from roofline_model.operators.layers import embedding, ffn_parts, lm_head, projections


@dataclass(frozen=True)
class Shape:
    """The dimensions that document 002 calls H, L, n_h, n_kv, d_h, d_ff and V."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    vocabulary: int

    def layer(self, rows: int, weights: str) -> OpCost:
        works = projections(rows, self.hidden, self.heads, self.kv_heads, self.head, a="FP16", b=weights)
        block = ffn_parts(rows, self.hidden, self.ffn, a="FP16", b=weights)
        return total_cost(work.cost for work in (*works.values(), *block.values()))

    def weight_bytes(self, weights: str = "FP16") -> float:
        """Weights that a step reads: all layers and the output table."""
        head = lm_head(1, self.vocabulary, self.hidden, a="FP16", b=weights).cost
        return self.layers * dict(self.layer(1, weights).read_bytes)["B"] + dict(head.read_bytes)["B"]

    def cache_bytes(self, tokens: int, kv: str = "FP16") -> float:
        return kv_cache_bytes(1, self.kv_heads, tokens, self.head, kv=kv, layers=self.layers)

    def crossover_tokens(self, weights: str = "FP16", kv: str = "FP16", batch: int = 1) -> float:
        return self.weight_bytes(weights) / (batch * self.cache_bytes(1, kv))


LLAMA3_8B = Shape(4096, 32, 32, 8, 128, 14336, 128256)
LLAMA2_70B = Shape(8192, 80, 64, 8, 128, 28672, 32000)


def intensity(cost: OpCost) -> str:
    return f"{cost.intensity_flop_per_byte:.2f}"


# --- 002, "Elementwise Operations": its intensities forgot the bytes per element


def test_elementwise_intensities_at_16_bit() -> None:
    rows, width = 2048, 4096
    costs = [operator(rows, width, a="FP16").cost for operator in (softmax, rmsnorm, residual_add, rope)]
    assert [intensity(cost) for cost in costs] == ["1.25", "1.25", "0.17", "1.50"]
    # FLOPs and elements are the document's; with one byte per element its own figures come out
    assert [round(cost.total_flops / (cost.total_bytes / 2), 2) for cost in costs] == [2.5, 2.5, 0.33, 3]


def test_silu_and_product() -> None:
    cost = silu_mul(2048, 14336, a="FP16").cost
    assert cost.total_flops == 3 * 2048 * 14336
    assert cost.total_bytes == 3 * 2048 * 14336 * 2


# --- 002, attention


def test_scores_without_fusion_take_a_gibibyte() -> None:
    scores = dict(qk_scores(1, 32, 32, 4096, 4096, 128, q="FP16").cost.write_bytes)["scores"]
    assert scores == GIB


def test_qk_scores_are_memory_bound_on_gb10() -> None:
    multi_head = qk_scores(1, 32, 32, 4096, 4096, 128, q="FP16")
    grouped = qk_scores(1, 32, 8, 4096, 4096, 128, q="FP16")
    assert f"{multi_head.cost.intensity_flop_per_byte:.1f}" == "120.5"
    assert f"{grouped.cost.intensity_flop_per_byte:.1f}" == "123.2"
    ridge = get_hardware("gb10").critical_intensity("FP16")
    assert f"{ridge:.0f}" == "435"
    assert predict(multi_head, "gb10").bound == "memory"
    # the document's limit 2·d_h / a_B, which the intensity approaches from below and never reaches
    long = qk_scores(1, 32, 8, 10**6, 10**6, 128, q="FP16").cost.intensity_flop_per_byte
    assert 127.9 < long < 128


def test_score_times_value_mirrors_qk() -> None:
    first, second = (
        qk_scores(1, 32, 8, 4096, 4096, 128, q="FP16").cost,
        scores_value(1, 32, 8, 4096, 4096, 128, scores="FP16").cost,
    )
    assert first.flops == second.flops
    assert first.total_bytes == second.total_bytes


def test_decode_reads_the_cache_wall() -> None:
    """002: the intensity of QKᵀ in decode tends to 2·d_h / (d_h·kv_B·n_kv/n_h + a_B) for long contexts."""
    cost = qk_scores(1, 32, 8, 1, 10**6, 128, q="FP16", kv="FP8").cost
    assert cost.intensity_flop_per_byte == pytest.approx(2 * 128 / (128 * 1 * 8 / 32 + 2), rel=1e-3)


def test_what_flash_attention_moves() -> None:
    cost = attention(1, 32, 32, 4096, 4096, 128, q="FP16").cost
    assert dict(cost.read_bytes)["Q"] + dict(cost.write_bytes)["O"] == 64 * MIB  # what 004 calls the tiled memory
    its_formula = 32 * 4096 * 128 * 128 * 2  # B·n_h·S·d_h·tiles at 16 bit
    assert its_formula == 4 * GIB
    assert f"{cost.total_flops / 1e9:.0f}" == "275"
    assert f"{cost.total_flops / 62e12 * 1e3:.2f}" == "4.43"
    assert f"{predict(attention(1, 32, 32, 4096, 4096, 128, q='FP16'), 'gb10').time_s * 1e3:.2f}" == "2.31"
    # 004 prints an intensity of 29 without a shape; at this one it is
    assert f"{cost.intensity_flop_per_byte:.0f}" == "2048"


# --- 002, feed-forward block and projections


def test_the_feed_forward_block_is_two_thirds_of_a_layer() -> None:
    hidden, tokens = 3 * 1024, 7
    inner = hidden * 8 // 3
    products = [work.cost.total_flops for name, work in ffn_parts(tokens, hidden, inner).items() if name != "silu_mul"]
    flops = [work.cost.total_flops for work in projections(tokens, hidden, 24, 24, 128).values()]
    assert sum(products) == 6 * tokens * hidden * inner == 16 * tokens * hidden**2
    assert sum(flops) == 8 * tokens * hidden**2
    assert sum(products) / (sum(products) + sum(flops)) == pytest.approx(2 / 3)


def test_decode_flops_of_the_projections() -> None:
    def flops(kv_heads: int) -> float:
        works = projections(1, 4096, 32, kv_heads, 128, a="FP16")
        return sum(work.cost.total_flops for work in works.values())

    assert flops(32) == 8 * 4096**2 == 134_217_728  # multi-head: the document's count
    assert flops(8) == 2 * (2 * 4096 * 32 * 128 + 2 * 4096 * 1024) == 83_886_080


def test_projection_intensity_in_decode() -> None:
    cost = projections(1, 4096, 32, 8, 128, a="FP16")["q_proj"].cost
    assert intensity(cost) == "1.00"


def test_full_model_flops_of_a_multi_head_model() -> None:
    """002, "Full Model Totals", L = 32, H = n_h·d_h = 4096, d_ff = 11008, V = 32000 (Llama-2 7B)."""
    layers, hidden, heads, head, inner, vocabulary = 32, 4096, 32, 128, 11008, 32000

    def flops(batch: int, tokens: int, context: int) -> float:
        rows = batch * tokens
        works = projections(rows, hidden, heads, heads, head, a="FP16")
        block = {name: work for name, work in ffn_parts(rows, hidden, inner, a="FP16").items() if name != "silu_mul"}
        inside = attention(batch, heads, heads, tokens, context, head, q="FP16")
        layer = sum(work.cost.total_flops for work in (*works.values(), *block.values(), inside))
        return layers * layer + lm_head(rows, vocabulary, hidden, a="FP16").cost.total_flops

    b, s = 3, 2048
    prefill = (
        layers * (8 * b * s * hidden**2 + 4 * b * heads * s**2 * head + 6 * b * s * hidden * inner)
        + 2 * b * s * hidden * vocabulary
    )
    decode = (
        layers * (8 * b * hidden**2 + 4 * b * heads * s * head + 6 * b * hidden * inner) + 2 * b * hidden * vocabulary
    )
    assert flops(b, s, s) == prefill
    assert flops(b, 1, s) == decode


def test_weights_of_llama_3_8b() -> None:
    layers = LLAMA3_8B.layers * dict(LLAMA3_8B.layer(1, "FP16").read_bytes)["B"] / 2
    table = dict(embedding(128256, 128256, 4096, b="FP16").cost.read_bytes)["table"] / 2
    assert f"{layers / 1e9:.3f}" == "6.979"
    assert f"{table / 1e9:.3f}" == "0.525"
    assert f"{(layers + 2 * table) / 1e9:.2f}" == "8.03"
    per_layer = 2 * 4096 * 32 * 128 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert layers == 32 * per_layer
    assert f"{32 * (4 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) / 1e9:.3f}" == "8.053"  # the document's formula


# --- the cache


@pytest.mark.parametrize(("kv", "mebibytes"), [("FP16", 4096), ("FP8", 2048), ("NVFP4_KV", 1160)])
def test_cache_of_llama_3_8b_at_32k(kv: str, mebibytes: int) -> None:
    assert LLAMA3_8B.cache_bytes(32768, kv) == mebibytes * MIB


@pytest.mark.parametrize(
    ("shape", "weights", "kv", "tokens"),
    [
        (LLAMA3_8B, "FP16", "FP16", 114_512),
        (LLAMA3_8B, "FP8", "FP8", 114_512),
        (LLAMA3_8B, "FP8", "NVFP4", 202_173),
        (LLAMA2_70B, "FP16", "FP16", 419_392),
        (LLAMA2_70B, "FP8", "NVFP4", 740_444),
    ],
)
def test_where_the_cache_overtakes_the_weights(shape: Shape, weights: str, kv: str, tokens: int) -> None:
    crossover_tokens = shape.crossover_tokens(weights, kv)
    assert round(crossover_tokens) == tokens
    assert shape.crossover_tokens(weights, kv, batch=8) == pytest.approx(crossover_tokens / 8)


def test_ideal_decode_of_llama_3_8b_on_gb10() -> None:
    bandwidth = get_hardware("gb10").bandwidth.value

    def milliseconds(context: int) -> str:
        return f"{(LLAMA3_8B.weight_bytes() + LLAMA3_8B.cache_bytes(context)) / bandwidth * 1e3:.1f}"

    assert f"{LLAMA3_8B.weight_bytes() / 1e9:.1f}" == "15.0"
    assert milliseconds(4096) == "56.9"
    assert milliseconds(32768) == "70.7"
