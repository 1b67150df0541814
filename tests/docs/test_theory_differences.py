"""docs/theory/math.md, "Where the original documents differ": every row, computed by the code it names."""

from __future__ import annotations

import re
from functools import cache

import pytest
from theory_pages import Page, cells

from roofline_model import gemm, get_format, get_hardware, predict_gemv, recommend_quantization
from roofline_model.core.cost import OpCost
from roofline_model.expected.attention.flash.model import (
    FlashAttentionConfig,
    FlashAttentionRoofline,
    compare_fa_versions,
)
from roofline_model.models.hf.parameters import model_kv_bytes, parameter_counts, read_weight_count
from roofline_model.models.llm import kv_crossover_tokens, predict_model
from roofline_model.models.model_registry import get_model
from roofline_model.models.strategies.chip_check import check_strategy
from roofline_model.models.strategies.model_plan import strategy_plan
from roofline_model.models.strategies.strategies import get_strategy
from roofline_model.models.strategies.strategy_file import find_strategy
from roofline_model.models.strategies.strategy_gain import StrategyGain, strategy_gain
from roofline_model.operators.attention import attention, qk_scores
from roofline_model.operators.elementwise import residual_add, rmsnorm, rope, softmax
from roofline_model.operators.kv_cache import kv_cache_bytes
from roofline_model.operators.layers import projections
from roofline_model.recommend.engine import IntegratedQuantizationEngine, QuantizationRecommendation

PAGE = Page("theory/math.md")
SHAPE = (4096, 4096)
GB10 = get_hardware("gb10")
BANDWIDTH = GB10.bandwidth.value
FP16, FP8, NVFP4, INT4 = (get_format(name).bytes_per_element for name in ("FP16", "FP8", "NVFP4", "INT4"))
LLAMA, LLAMA_70B = get_model("llama-3-8b"), get_model("llama-2-70b")
COUNTS = parameter_counts(LLAMA)
IN_LAYERS, EMBEDDING = COUNTS.attention_count + COUNTS.ffn_count, COUNTS.embedding_count
READ_PER_TOKEN = read_weight_count(LLAMA)  # the head is read whole, the embedding table one row


def as_printed(model: str) -> float:
    """Return the weights of a layer by the documents' formula, which counts K and V twice."""
    shape = get_model(model)
    h = shape.hidden_size
    return 4 * h * h + 2 * h * shape.kv_heads * shape.head_dim + 3 * h * shape.ffn_size


def crossover_as_printed(model: str) -> float:
    """Return the crossover with those weights: 16-bit weights and cache, batch 1."""
    shape = get_model(model)
    weights = shape.layer_count * as_printed(model) + shape.vocab_size * shape.hidden_size
    return weights / (shape.layer_count * 2 * shape.kv_heads * shape.head_dim)


def crossover(model: str, weights: str, kv: str) -> str:
    tokens = kv_crossover_tokens(model, weights, kv=kv)
    assert tokens is not None
    return thousands(tokens)


def step_ms(tokens: int, weight_bytes: float, kv: str) -> float:
    """Return the ideal time of reading weights and cache once; no activations."""
    return (READ_PER_TOKEN * weight_bytes + model_kv_bytes(LLAMA, tokens, kv=kv)) / BANDWIDTH * 1e3


def model_ms(model: str, tokens: int, formats: str, kv: str) -> str:
    """Return the ideal decode step with every kernel's activations; INT4 without scales, as the documents count."""
    prediction = predict_model("gb10", model, context=tokens, formats=formats, kv=kv, has_group_scales=False)
    return f"{prediction.time_s * 1e3:.1f}"


def qk_cost(kv_heads: int, tokens: int = 4096) -> OpCost:
    return qk_scores(1, 32, kv_heads, tokens, tokens, 128, q="FP16").cost


def elementwise() -> str:
    intensity_flop_per_bytes = [
        operator(*SHAPE, a="FP16").cost.intensity_flop_per_byte for operator in (softmax, rmsnorm, residual_add, rope)
    ]
    return ", ".join(f"{intensity:.2f}".rstrip("0") for intensity in intensity_flop_per_bytes)


def cache_mib(kv: str) -> str:
    return f"{kv_cache_bytes(1, 8, 32768, 128, kv=kv, layers=32) / 2**20:.0f} MiB"


def sparse() -> list[str]:
    """Return what 30 % sparsity changes of FA2 on GB10: the time, not the bytes of K and V."""
    predictions = [
        FlashAttentionRoofline("gb10").predict(
            1, 32, 4096, 4096, 128, FlashAttentionConfig("fa2", block_sparse=share > 0, sparsity_ratio=share)
        )
        for share in (0.0, 0.3)
    ]
    kv = [dict(prediction.traffic_bytes)["kv"] for prediction in predictions]
    assert kv[0] == kv[1]
    return [
        f"stay at {kv[0]:,.0f} bytes",
        "from {:.2f} to {:.2f} ms".format(*((prediction.time_s or 0) * 1e3 for prediction in predictions)),
    ]


def fa_on_gb10() -> list[str]:
    versions = compare_fa_versions(1, 32, 4096, 128, "gb10")
    assert not versions["fa3"].available
    return [
        f"{(versions['fa1'].time_s or 0) * 1e3:.1f} ms (FA1)",
        f"{(versions['fa2'].time_s or 0) * 1e3:.2f} ms (FA2)",
    ]


def tflops(name: str, key: str) -> str:
    return f"{get_hardware(name).peak_flops_per_s(key) / 1e12:g}"


def ridge(name: str) -> str:
    return f"{get_hardware(name).critical_intensity('FP16'):.0f}"


def thousands(value: float) -> str:
    return f"{value:,.0f}"


def projection_flops(kv_heads: int) -> str:
    return thousands(sum(work.cost.total_flops for work in projections(1, 4096, 32, kv_heads, 128).values()))


def gain(strategy: str) -> StrategyGain:
    """Return what a strategy gains over FP16: one decode step of Llama-3 8B at 4K tokens on GB10."""
    plan = strategy_plan(find_strategy(strategy, num_layers=32), LLAMA)
    return strategy_gain(predict_model("gb10", "llama-3-8b", context=4096, formats=plan), "gb10")


@cache
def engine(phase: str, seq_len: int) -> QuantizationRecommendation:
    """Return what the engine recommends for Llama-3 8B on the documents' placeholder chip."""
    sizes = {"H": 4096, "L": 32, "nh": 32, "nkv": 8, "dh": 128, "dff": 14336}
    return IntegratedQuantizationEngine("b10").recommend(sizes, phase, seq_len)


def strategy_units(strategy: str) -> str:
    """Return in which format a strategy's products run on every chip."""
    q_proj = next(path for path in check_strategy(get_strategy(strategy), "gb10").paths if path.label == "q_proj")
    return f"its products run in {q_proj.compute_format}"


GEMV_FLOPS = 2 * 4096 * 4096
FULL = attention(1, 32, 32, 4096, 4096, 128, q="FP16").cost
ATTENTION_FLOPS = FULL.total_flops
PRINTED_US = (34.0, 17.0, 9.5)
TILES_BYTES = 32 * 4096 * 128 * 128 * FP16
Q_AND_O_BYTES = dict(FULL.read_bytes)["Q"] + dict(FULL.write_bytes)["O"]
SCORES_BYTES = dict(qk_cost(32).write_bytes)["scores"]

MODEL_MS = [
    model_ms("llama-3.1-8b", 32768, "FP16", "FP16"),
    model_ms("llama-3-8b", 4096, "FP8", "FP8"),
    model_ms("llama-3-8b", 4096, "INT4.FP16", "FP16"),
]
EXP_BOUND = FlashAttentionRoofline("b200").predict(4, 32, 8192, 8192, 64, FlashAttentionConfig("fa4")).bound == "exp"

# A part of the first cell, then what the second cell has to say.
DIFFERENCES = [
    ("H100 has 1979", [tflops("h100", "FP16"), tflops("b200", "FP16"), ridge("h100"), ridge("b200"), "295", "281"]),
    ("GB10: NVFP4 1000", [tflops("gb10", key) for key in ("NVFP4", "FP8", "INT8", "FP16")] + ["273.06", "232"]),
    (
        "4H² + 2H·d_kv",
        [
            f"{IN_LAYERS / 1e9:.3f} G",
            f"{EMBEDDING / 1e9:.3f} G",
            f"{(IN_LAYERS + 2 * EMBEDDING) / 1e9:.2f} G",
            "8.03 G",
            f"{32 * as_printed('llama-3-8b') / 1e9:.3f} G",
        ],
    ),
    ("8·B·H²", [projection_flops(8), projection_flops(32)]),
    (
        "about 1600 tokens",
        [
            "114,512",
            crossover("llama-3-8b", "FP16", "FP16"),
            crossover("llama-2-70b", "FP16", "FP16"),
            *(thousands(crossover_as_printed(name)) for name in ("llama-3-8b", "llama-2-70b")),
        ],
    ),
    (
        "QKᵀ in prefill",
        [
            f"{qk_cost(32).intensity_flop_per_byte:.1f}",
            f"{qk_cost(8).intensity_flop_per_byte:.1f}",
            f"{2 * 128 / FP16:.0f} at most",
            ridge("gb10"),
        ],
    ),
    (
        "0.494, 0.988",
        [
            "0.987, 1.97 and 3.53",
            *(f"{GEMV_FLOPS / (us * 1e6):.3g}" for us in PRINTED_US),
            f"{(GEMV_FLOPS + 16384) / 34e-6 / 1e9:.0f} GB/s",
            *(f"{predict_gemv('b10', 4096, 4096, key).predicted_tflops:.2f}" for key in ("FP16", "FP8")),
        ],
    ),
    ("Elementwise", [elementwise()]),
    (
        "The crossover comes later",
        [
            crossover("llama-3-8b", "FP16", "FP16"),
            crossover("llama-3-8b", "FP8", "FP8"),
            crossover("llama-3-8b", "FP8", "NVFP4"),
            crossover("llama-2-70b", "FP8", "NVFP4"),
        ],
    ),
    (
        "128 tiles",
        [
            f"{TILES_BYTES / 2**30:.0f} GiB at 2 bytes",
            f"{Q_AND_O_BYTES / 2**20:.0f} MiB is Q and O",
            f"{SCORES_BYTES / 2**30:.0f} GiB (32 heads",
        ],
    ),
    ("30 % sparsity", [f"{100 * 820 / 1175:.0f} % of the 1175", *sparse()]),
    ("1175 MB", ["1160", cache_mib("NVFP4"), f"FP16 {cache_mib('FP16')}", f"FP8 {cache_mib('FP8')}"]),
    (
        "91.6, 52.3",
        [
            f"{step_ms(32768, FP16, 'FP16'):.1f} ms",
            f"{step_ms(4096, FP8, 'FP8'):.1f} ms",
            f"{step_ms(4096, INT4, 'FP16'):.1f} ms",
            "the three are {}, {} and {} ms".format(*MODEL_MS),
        ],
    ),
    (
        "FlashAttention has intensity",
        [f"{gemm(8, 4096, 4096).cost.intensity_flop_per_byte:.1f} at M = 8"]
        + [f"{gemm(m, 4096, 4096).cost.intensity_flop_per_byte:.0f} at M = {m}" for m in (128, 2048)]
        + [
            f"{FULL.intensity_flop_per_byte:.0f} with 32 heads",
            f"{attention(1, 32, 8, 4096, 4096, 128, causal=True).cost.intensity_flop_per_byte:.0f} with a causal mask",
            f"{attention(1, 32, 8, 1, 4096, 128).cost.intensity_flop_per_byte:.1f} in decode",
        ],
    ),
    ("FA3 or FA4 is chosen", ["wgmma", "tcgen05", "b10"]),
    (
        "`fp8_balanced`",
        [
            recommend_quantization("b10", 2048, 4096, 4096).precision,
            f"{recommend_quantization('b10', 2048, 4096, 4096).speedup:.1f} times",
        ],
    ),
    ("is AWQ", ["round to nearest"]),
    ("always memory-bound", [f"d_h = 64 takes longer for its {'exponentials' if EXP_BOUND else 'products'}"]),
    (
        "FA1 33.8",
        [
            f"{ATTENTION_FLOPS / 1e9:.0f} GFLOP",
            f"{ATTENTION_FLOPS / 62e12 * 1e3:.2f} ms",
            f"{ATTENTION_FLOPS / GB10.peak_flops_per_s('FP16') * 1e3:.2f} ms",
            *fa_on_gb10(),
        ],
    ),
    ("mixture of depths", ["Block sparsity is an option"]),
    (
        "45.8 ms",
        [
            f"{READ_PER_TOKEN * FP16 / 1e9:.1f} GB of weights",
            f"{model_kv_bytes(LLAMA, 4096) / 1e9:.2f} GB of cache",
            f"{step_ms(4096, FP16, 'FP16'):.1f} ms",
            f"{model_ms('llama-3-8b', 4096, 'FP16', 'FP16')} ms with the activations",
        ],
    ),
    ("torchao has no FP8", ["FP8, NVFP4 and MX"]),
    ("Quality loss", ["published ranges"]),
    (
        "32K decode gets",
        [
            f"`{engine('decode', 32768).config.strategy_name}` has the same cache",
            f"{engine('decode', 32768).predicted_speedup:.2f} times FP16",
        ],
    ),
    (
        "`layerwise_gradient`",
        [
            f"{100 * gain('layerwise_gradient').layer_weights_saved_ratio:.1f} %",
            f"1/{1 / (1 - gain('layerwise_gradient').layer_weights_saved_ratio):.2f} of the time",
        ],
    ),
    ("save 50, 75 and 72 %", [f"NVFP4 saves {100 * gain('nvfp4_blackwell').memory_saved_ratio:.0f} %"]),
    ("reaches 1000 TFLOPS", [strategy_units("nvfp4_blackwell")]),
    ("about 34 µs on GB10", [f"{predict_gemv('gb10', 4096, 4096).time_s * 1e6:.1f} µs"]),
    ("248 TFLOPS", [tflops("gb10", "INT4"), tflops("gb10", "BF16")]),
    ("INT8: H100 3958", [tflops("h100", "INT8"), tflops("b200", "INT8")]),
    ("intensity of about 4", [f"{predict_gemv('gb10', 4096, 4096, 'NVFP4').arithmetic_intensity:.2f}"]),
    (
        "6.6 % more storage",
        [
            f"{100 * (NVFP4 / get_format('MXFP4').bytes_per_element - 1):.1f} %",
            f"{100 * (get_format('NVFP4').storage_bytes(SHAPE) / get_format('MXFP4').storage_bytes(SHAPE) - 1):.1f} %",
        ],
    ),
]


@cache
def differences() -> list[list[str]]:
    rows = [cells(line) for line in PAGE.tables_under("## Where the original documents differ") if "---" not in line]
    return [row for row in rows if row[0] != "The documents say"]


@pytest.mark.parametrize(("claim", "figures"), DIFFERENCES, ids=[claim for claim, _ in DIFFERENCES])
def test_what_holds_instead(claim: str, figures: list[str]) -> None:
    matching = [row for row in differences() if claim in row[0]]
    assert len(matching) == 1
    assert not [
        figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d]|\.\d)", matching[0][1])
    ], matching[0][1]
    assert len(matching[0]) == 3
    assert matching[0][2]


def test_the_models_of_the_differences_are_those_computed_here() -> None:
    text = PAGE.section("Where the original")
    for name, model in (("Llama-3 8B", LLAMA), ("Llama-2 70B", LLAMA_70B)):
        sizes = (
            f"H = {model.hidden_size}, {model.layer_count} layers, n_h = {model.query_heads}, n_kv = {model.kv_heads}"
        )
        assert (
            f"{name} has {sizes}, d_h = {model.head_dim}, d_ff = {model.ffn_size}, a vocabulary of {model.vocab_size:,}"
            in text
        )
    assert f"GB10's {BANDWIDTH / 1e9:g} GB/s" in text


def test_every_row_is_checked() -> None:
    assert len(differences()) == len(DIFFERENCES)
    impossible = step_ms(4096, FP8, "FP8"), step_ms(4096, INT4, "FP16")
    assert impossible[0] > 23.7
    assert impossible[1] > 15.2
    assert kv_crossover_tokens(LLAMA, "FP16", batch=8) == pytest.approx(114_512 / 8)  # "it scales as 1/batch"


def test_nothing_is_left_for_later() -> None:
    assert not [row for row in differences() if "later part" in row[2]]
