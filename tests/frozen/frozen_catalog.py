"""The frozen questions: every chip × operator × shape × format × phase, models × plans × batch, and what is stored.

Names of chips, formats and models stand here as they were in 01d84d4: what is added to the project adds no question,
and a question that was asked once stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from random import Random
from typing import Any

from frozen_question import Question, question

CHIPS = (
    "gb10", "b10", "b200", "b300", "gb200", "h100-sxm", "h100-pcie", "h200-sxm", "a100-sxm-80gb", "a100-sxm-40gb", "l4",
    "l40s", "rtx-4090", "rtx-5090", "rtx-pro-6000", "orin-agx-64gb", "thor-t5000", "mi300x",
)  # fmt: skip
CALIBRATED = "run:cpu-amd-epyc-2t/calibrated"
MACHINES = (*CHIPS, CALIBRATED)
MAIN_CHIPS = ("gb10", "h100-sxm", "b200", "a100-sxm-80gb", "rtx-4090", "orin-agx-64gb", "mi300x", CALIBRATED)

PAIRS = (
    "BF16.BF16", "FP16.FP16", "FP32.FP32", "FP8_E4M3.FP8_E4M3", "MXFP8_E4M3.MXFP8_E4M3", "INT8.INT8", "NVFP4.NVFP4",
    "MXFP4.MXFP4", "INT4.INT4", "FP8_E4M3.BF16", "INT8.BF16", "INT4.BF16", "NVFP4.BF16", "MXFP4.BF16", "NF4.BF16",
    "INT4.INT8", "FP8_E5M2.FP8_E4M3", "MXFP6_E3M2.MXFP6_E3M2",
)  # fmt: skip
"""Weight.activation."""
SHAPES = ((1, 4096, 4096), (8, 11008, 4096), (16, 1024, 8192), (64, 4096, 14336), (333, 1000, 777), (4096, 4096, 4096))
"""M, N, K: decode to prefill, one that fits no tile."""
MAIN_PAIRS = ("BF16.BF16", "FP8_E4M3.FP8_E4M3", "INT8.INT8", "NVFP4.NVFP4", "INT4.BF16")
CACHES = ("BF16", "FP8_E4M3", "INT8", "NVFP4", "INT4")
_HEADS = {"Hq": 32, "Hkv": 8, "D": 128}
ATTENTIONS: tuple[Mapping[str, Any], ...] = (
    {"B": 1, **_HEADS, "Sq": 1, "Skv": 4096},
    {"B": 16, **_HEADS, "Sq": 1, "Skv": 32768},
    {"B": 4, "Hq": 64, "Hkv": 8, "Sq": 1, "Skv": 8192, "D": 128, "page_tokens": 16},
    {"B": 1, "Hq": 16, "Hkv": 16, "Sq": 1, "Skv": 1000, "D": 64},
    {"B": 1, **_HEADS, "Sq": 1, "Skv": 8192, "window": 1024},
    {"B": 1, **_HEADS, "Sq": 2048, "Skv": 2048, "causal": True},
    {"B": 2, "Hq": 16, "Hkv": 16, "Sq": 512, "Skv": 512, "D": 64},
    {"B": 1, **_HEADS, "Sq": 256, "Skv": 8192, "causal": True, "window": 4096},
)


def _product(M: int, N: int, K: int, pair: str, c: str = "BF16") -> dict[str, Any]:
    weight, activation = pair.split(".")
    return {"op": "gemm", "M": M, "N": N, "K": K, "a": activation, "b": weight, "c": c}


def _attention(sizes: Mapping[str, Any], kv: str, q: str = "BF16") -> dict[str, Any]:
    return {"op": "attention", **sizes, "q": q, "kv": kv}


ELEMENTWISE: tuple[Mapping[str, Any], ...] = (
    {"op": "softmax", "rows": 4096, "width": 4096, "a": "BF16"},
    {"op": "rmsnorm", "rows": 1, "width": 8192, "a": "BF16"},
    {"op": "rmsnorm", "rows": 512, "width": 4096, "a": "FP16", "o": "FP8_E4M3"},
    {"op": "residual_rmsnorm", "rows": 2048, "width": 4096},
    {"op": "residual_add", "rows": 2048, "width": 4096, "a": "FP32"},
    {"op": "rope", "rows": 512, "width": 5120},
    {"op": "silu_mul", "rows": 2048, "width": 14336},
    {"op": "gelu", "rows": 64, "width": 10240},
    {"op": "embedding", "rows": 512, "vocabulary": 128256, "hidden": 4096},
    {"op": "lm_head", "rows": 1, "vocabulary": 128256, "hidden": 4096},
    {"op": "lm_head", "rows": 8, "vocabulary": 32000, "hidden": 4096, "b": "FP8_E4M3"},
    {"op": "kv_write", "B": 8, "Hkv": 8, "Sq": 1, "D": 128, "kv": "FP8_E4M3"},
    {"op": "kv_read", "B": 1, "Hkv": 8, "Skv": 8192, "D": 128, "kv": "INT8", "target": "BF16", "page_tokens": 16},
    {"op": "quantize", "rows": 2048, "width": 4096, "target": "FP8_E4M3", "scale": "tensor"},
    {"op": "quantize", "rows": 2048, "width": 4096, "target": "NVFP4"},
    {"op": "dequantize", "rows": 4096, "width": 4096, "source": "INT4", "target": "BF16"},
)
PRODUCTS: tuple[Mapping[str, Any], ...] = (
    {"op": "batched_gemm", "batch": 32, "M": 1, "N": 128, "K": 4096, "a": "BF16"},
    {"op": "grouped_gemm", "groups": [[8, 4096, 2048], [0, 4096, 2048], [24, 4096, 2048]], "a": "BF16", "b": "FP8_E4M3"},
    {"op": "experts", "rows": 4, "expert_count": 64, "active_count": 6, "N": 1408, "K": 2048, "a": "BF16", "b": "BF16",
     "c": "BF16"},
    {"op": "experts", "rows": 512, "expert_count": 8, "active_count": 2, "N": 14336, "K": 4096, "a": "FP8_E4M3",
     "b": "FP8_E4M3", "c": "BF16"},
    {"op": "combine_experts", "rows": 64, "hidden": 4096, "inputs": 2},
    {"op": "qk_scores", "B": 1, **_HEADS, "Sq": 512, "Skv": 512},
    {"op": "scores_value", "B": 1, **_HEADS, "Sq": 512, "Skv": 512},
)  # fmt: skip
BLOCKS: tuple[Mapping[str, Any], ...] = (
    {"block": "ffn_parts", "rows": 1, "hidden": 4096, "intermediate": 14336},
    {"block": "ffn_parts", "rows": 1, "hidden": 4096, "intermediate": 14336, "b": "INT4"},
    {"block": "ffn_parts", "rows": 2048, "hidden": 4096, "intermediate": 14336, "a": "FP8_E4M3", "b": "FP8_E4M3",
     "c": "BF16"},
    {"block": "ffn_parts", "rows": 512, "hidden": 2560, "intermediate": 10240, "gated": False, "fused": True},
    {"block": "ffn_parts", "rows": 64, "hidden": 4096, "intermediate": 11008, "a": "FP8_E4M3", "b": "FP8_E4M3",
     "c": "BF16", "dynamic_activation_quantization": True},
    {"block": "projections", "rows": 8, "hidden": 4096, "Hq": 32, "Hkv": 8, "D": 128},
    {"block": "projections", "rows": 2048, "hidden": 4096, "Hq": 32, "Hkv": 8, "D": 128, "b": "NVFP4", "fused": True},
    {"block": "unfused_attention_parts", "B": 1, **_HEADS, "Sq": 1024, "Skv": 1024, "causal": True},
)  # fmt: skip


def _ideal() -> Iterator[Question]:
    for chip, shape, pair in product(MACHINES, SHAPES, PAIRS):
        yield question("ideal", hardware=chip, work=_product(*shape, pair))
    for chip, sizes, kv in product(MACHINES, ATTENTIONS, CACHES):
        yield question("ideal", hardware=chip, work=_attention(sizes, kv))
    for chip, sizes in product(MACHINES, ATTENTIONS):
        yield question("ideal", hardware=chip, work=_attention(sizes, "FP8_E4M3", "FP8_E4M3"))
    for chip, work in product(MACHINES, (*ELEMENTWISE, *PRODUCTS)):
        yield question("ideal", hardware=chip, work=work)
    for chip, shape, pair in product(MACHINES, ((1, 1024, 1024), (1, 8192, 8192)), MAIN_PAIRS):
        yield question("ideal", hardware=chip, work=_product(*shape, pair), cache="warm")
    yield question("ideal", hardware="gb11", work=_product(1, 2, 3, "BF16.BF16"))
    yield question("ideal", hardware="gb10", work=_product(0, 2, 3, "BF16.BF16"))
    yield question("ideal", hardware="gb10", work=_product(1, 2, 3, "FP7.BF16"))


def _ideal_call() -> Iterator[Question]:
    calls: tuple[Mapping[str, Any], ...] = (
        {"call": "predict_gemv", "N": 4096, "K": 4096},
        {"call": "predict_gemv", "N": 4096, "K": 4096, "precision": "FP16", "weight_precision": "INT4", "M": 4},
        {"call": "predict_gemm", "M": 512, "N": 4096, "K": 4096, "precision": "FP8_E4M3"},
        {"call": "predict_gemm", "M": 4096, "N": 4096, "K": 4096, "precision": "NVFP4", "output_precision": "BF16"},
        {"call": "predict_attention", "batch": 1, "num_heads": 32, "seq_len": 2048, "head_dim": 128, "causal": True},
        {"call": "predict_attention", "batch": 8, "num_heads": 32, "seq_len": 1, "head_dim": 128, "kv_len": 8192,
         "num_kv_heads": 8, "kv_precision": "NVFP4"},
        {"call": "predict_unfused_attention", "batch": 1, "num_heads": 32, "seq_len": 1024, "head_dim": 128},
        {"call": "predict_ffn", "batch": 1, "seq_len": 1, "hidden": 4096, "ffn_dim": 14336},
        {"call": "predict_ffn", "batch": 4, "seq_len": 512, "hidden": 4096, "ffn_dim": 11008, "precision": "FP16",
         "gate": False, "weight_precision": "INT4"},
        {"call": "predict_projections", "batch": 1, "seq_len": 512, "hidden": 4096, "num_heads": 32, "head_dim": 128,
         "num_kv_heads": 8},
        {"call": "predict_softmax", "rows": 1024, "width": 1024},
        {"call": "predict_kv_read", "batch": 1, "num_kv_heads": 8, "kv_len": 4096, "head_dim": 128,
         "kv_precision": "FP8_E4M3", "precision": "BF16"},
        {"call": "predict_quantize", "rows": 512, "width": 4096},
    )  # fmt: skip
    for chip, call in product(MACHINES, calls):
        yield question("ideal_call", hardware=chip, **call)


def _expected() -> Iterator[Question]:
    for chip, shape, pair in product(MACHINES, SHAPES, PAIRS):
        yield question("expected", hardware=chip, work=_product(*shape, pair))
    for chip, sizes, kv in product(MACHINES, ATTENTIONS, CACHES):
        yield question("expected", hardware=chip, work=_attention(sizes, kv))
    for chip, sizes in product(MACHINES, ATTENTIONS):
        yield question("expected", hardware=chip, work=_attention(sizes, "FP8_E4M3", "FP8_E4M3"))
    for chip, shape, pair in product(MACHINES, ((1, 1024, 1024), (64, 8192, 8192)), MAIN_PAIRS):
        yield question("expected", hardware=chip, work=_product(*shape, pair), cache="warm")
    for chip, sizes in product(MAIN_CHIPS, ATTENTIONS[:6:5]):
        yield question("expected", hardware=chip, work=_attention(sizes, "BF16"), cache="warm")
    for chip, pair in product(MAIN_CHIPS, ("FP8_E4M3.FP8_E4M3", "NVFP4.NVFP4")):
        yield question("expected", hardware=chip, work=_product(64, 4096, 4096, pair), dynamic=True)
    for chip, work in product(MAIN_CHIPS, (*ELEMENTWISE[:2], *PRODUCTS[:1])):
        yield question("expected", hardware=chip, work=work)
    for kernel, pair in product(("matmul", "int_mm", "tinygemm", "nobody"), MAIN_PAIRS):
        yield question("expected", hardware=CALIBRATED, work=_product(1, 2048, 2048, pair), kernel=kernel)


def _expected_block() -> Iterator[Question]:
    for chip, block in product(MACHINES, BLOCKS):
        yield question("expected_block", hardware=chip, block=block)


def _table() -> Iterator[Question]:
    products = [
        f"gemm,{'decode' if M <= 16 else 'prefill'},{M},{N},{K},,,,,,,,{weight},{activation},,BF16,2e-5"
        for (M, N, K), (weight, activation) in product(SHAPES[::2], (pair.split(".") for pair in MAIN_PAIRS))
    ]
    attentions = [
        f"attention,{phase},,,,{batch},{queries},{keys},32,8,128,{queries > 1},,BF16,{kv},BF16,5e-5"
        for (phase, batch, queries, keys), kv in product(
            (("decode", 4, 1, 4096), ("prefill", 1, 2048, 2048)), CACHES[:3]
        )
    ]
    for chip, rows in product(CHIPS, (products, attentions, [*attentions[:1], *products[:1]])):
        yield question("table", hardware=chip, rows=rows)


def _recommend() -> Iterator[Question]:
    for chip, (M, N, K), times in product(MACHINES, SHAPES, ("ideal", "expected")):
        yield question("recommend", hardware=chip, M=M, N=N, K=K, times=times)
    everything = ["FP8_E4M3", "INT8", "NVFP4", "INT4", "NF4", "MXFP6_E3M2", "INT2", "FP32", "BF16"]
    for chip, times, (M, N, K) in product(MACHINES, ("ideal", "expected"), ((1, 4096, 4096), (2048, 4096, 4096))):
        sizes = {"hardware": chip, "M": M, "N": N, "K": K, "times": times}
        yield question("recommend", **sizes, formats=everything)
        yield question("recommend", **sizes, memory_limit_gb=10.0, model_parameters=8e9)
    for chip, limit in product(MAIN_CHIPS, (0.01, 0.02, 1e-6)):
        yield question("recommend", hardware=chip, M=1, N=4096, K=4096, memory_limit_gb=limit)
    for chip, formats in product(MAIN_CHIPS, (["INT4"], ["FP16", "INT8"], [], ["FP7"])):
        yield question("recommend", hardware=chip, M=16, N=4096, K=4096, times="expected", formats=formats)
    for phase in ("decode", "prefill", "train"):
        yield question("recommend", hardware="gb10", M=1, N=4096, K=4096, phase=phase)


MODELS = (
    "llama-3.1-8b", "llama-3.1-70b", "llama-3.2-1b", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b",
    "gemma-3-4b", "phi-2", "qwen2.5-7b",
)  # fmt: skip
PASSES: tuple[Mapping[str, Any], ...] = (
    {"phase": "decode", "batch": 1},
    {"phase": "decode", "batch": 32},
    {"phase": "prefill", "batch": 1, "context": 2048},
)


def _model() -> Iterator[Question]:
    for chip, name, step in product(MAIN_CHIPS, MODELS, PASSES):
        if name != "phi-2":
            yield question("model", hardware=chip, model=name, **step)
    for chip, formats, step in product(
        MAIN_CHIPS, ("BF16", "INT4.BF16", "FP8_E4M3", "NVFP4", "INT8.INT8.INT8"), PASSES
    ):
        yield question("model", hardware=chip, model="llama-3.1-8b", formats=formats, **step)
    for chip, kv in product(MACHINES, ("FP8_E4M3", "NVFP4")):
        yield question("model", hardware=chip, model="qwen2.5-7b", context=32768, batch=8, kv=kv)
    for chip in MAIN_CHIPS:
        yield question("model", hardware=chip, model="phi-2", context=2048)
        yield question(
            "model",
            hardware=chip,
            model="llama-3.1-8b",
            formats="BF16",
            exceptions=["ffn=INT4.BF16", "o_proj@0-3=FP8_E4M3"],
        )
        yield question("model", hardware=chip, model="llama-3.1-70b", devices=4, link_bytes_per_s=4.5e11)
        yield question("model", hardware=chip, model="llama-3.1-8b", phase="prefill", context=4096, new_tokens=256)
    yield question("model", hardware="gb10", model="llama-9", context=4096)
    yield question("model", hardware="gb10", model="llama-2-7b", context=10_000_000)


def _recommend_model() -> Iterator[Question]:
    for chip, name, step in product(MAIN_CHIPS, MODELS, PASSES):
        yield question("recommend_model", hardware=chip, model=name, **{"context": 2048, **step})
    for chip in MACHINES:
        yield question("recommend_model", hardware=chip, model="llama-3.1-8b", context=32768, batch=8)
    limits: tuple[Mapping[str, Any], ...] = (
        {"memory_limit_bytes": 6e9},
        {"memory_limit_bytes": 1e9},
        {"max_latency_s": 0.005},
        {"max_loss_pct": 1.0},
        {"max_loss_pct": 0.0},
        {"memory_limit_bytes": 12e9, "memory_headroom_ratio": 0.1, "max_loss_pct": 5.0},
        {"formats": ["FP8_E4M3", "INT4.BF16", "NVFP4"]},
        {"extra_formats": ["BF16.BF16.FP8_E4M3", "INT4.BF16.NVFP4", "NF4.BF16"]},
        {"traffic": [{"phase": "decode", "batch": 8, "share": 9.0}, {"phase": "prefill", "context": 2048}]},
    )
    for chip, limit in product(MAIN_CHIPS, limits):
        yield question("recommend_model", hardware=chip, model="llama-3.1-8b", **limit)
    for chip, method in product(("gb10", "h100-sxm", "a100-sxm-80gb"), ("kl", "prior")):
        losses = _small_losses("llama-3.2-1b", 16, method)
        yield question("recommend_model", hardware=chip, model="llama-3.2-1b", losses=losses)
        yield question("recommend_model", hardware=chip, model="llama-3.2-1b", losses=losses, memory_limit_bytes=1.2e9)


def _small_losses(name: str, layer_count: int, method: str = "kl") -> dict[str, Any]:
    """Return losses of every part of a model, as a losses file holds them: larger at both ends, as measured ones
    are.
    """
    parts = {"qkv_proj": 1.0, "o_proj": 0.7, "gate_up_proj": 1.9, "down_proj": 2.3}
    formats = {"FP8_E4M3": 1.0, "INT8": 0.6, "INT4.BF16": 9.0, "NVFP4": 12.0}
    losses: dict[str, dict[str, float]] = {}
    for layer in range(layer_count):
        edge = 1.0 + 3.0 / (1 + min(layer, layer_count - 1 - layer))
        for part, weight in parts.items():
            losses[f"layers.{layer}.{part}"] = {
                label: round(1e-5 * weight * edge * loss, 10) for label, loss in formats.items()
            }
        losses[f"layers.{layer}.kv"] = {"FP8_E4M3": round(1e-5 * edge, 10)}
    tokens = {} if method == "prior" else {"text": "a text", "tokens_count": 4096}
    return {"model": name, "method": method, "unit": "score" if method == "prior" else "nats/token", **tokens,
            "losses": losses}  # fmt: skip


def _cache() -> Iterator[Question]:
    for chip, sizes in product(MACHINES, ATTENTIONS):
        yield question("cache", hardware=chip, sizes=sizes)
    for chip, sizes in product(MAIN_CHIPS, ATTENTIONS[::3]):
        yield question(
            "cache", hardware=chip, sizes=sizes, wide="FP16", formats=["FP8_E5M2", "MXFP8_E4M3", "FP32", "INT4"]
        )


FLASH_CONFIGS: tuple[Mapping[str, Any], ...] = (
    *({"version": version} for version in ("fa1", "fa2", "fa3", "fa4")),
    {"version": "fa2", "causal": True, "qkv_precision": "BF16"},
    {"version": "fa3", "use_native_fp8": True, "qkv_precision": "FP8_E4M3"},
    {"version": "fa4", "use_native_fp8": True, "qkv_precision": "FP8_E4M3", "kv_cache_precision": "NVFP4"},
    {"version": "fa2", "kv_cache_precision": "INT8", "page_size": 16},
    {"version": "fa3", "causal": True, "window_size": 1024},
    {"version": "fa2", "block_sparse": True, "sparsity_ratio": 0.5},
    {"version": "fa2", "split_count": 8},
    {"version": "fa2", "use_native_fp8": True},
)
FLASH_CHIPS = ("b10", *MAIN_CHIPS[:6])


def _flash() -> Iterator[Question]:
    shapes = ([1, 32, 2048, 2048, 128], [8, 32, 1, 8192, 128], [2, 16, 512, 1000, 64])
    for chip, sizes, config in product(FLASH_CHIPS, shapes, FLASH_CONFIGS):
        yield question("flash", hardware=chip, sizes=sizes, num_kv_heads=8, config=config)


def _flash_compare() -> Iterator[Question]:
    options: tuple[Mapping[str, Any], ...] = (
        {},
        {"precision": "FP16"},
        {"seq_len_q": 1, "num_kv_heads": 8, "kv_cache_precision": "FP8_E4M3"},
        {"causal": True},
    )
    for chip, sizes, option in product(MACHINES, ([1, 32, 4096, 128], [4, 16, 1024, 64]), options):
        yield question("flash_compare", hardware=chip, sizes=sizes, **option)


def _flash_unfused() -> Iterator[Question]:
    for chip, sizes in product(MACHINES, ([1, 32, 8, 1024, 1024, 128], [8, 32, 32, 1, 4096, 64])):
        yield question("flash_unfused", hardware=chip, sizes=sizes)
        yield question(
            "flash_unfused", hardware=chip, sizes=sizes, precision="BF16", kv_precision="FP8_E4M3", causal=True
        )


def _tiling() -> Iterator[Question]:
    for chip, shape, pair in product(MACHINES, SHAPES[1:], MAIN_PAIRS):
        yield question("tiling", hardware=chip, work=_product(*shape, pair))
    for chip in MAIN_CHIPS:
        yield question("tiling", hardware=chip, work=_product(64, 4096, 4096, "FP8_E4M3.FP8_E4M3"), cache="warm")
        yield question("tiling", hardware=chip, work=_product(64, 4096, 4096, "FP8_E4M3.FP8_E4M3"), dynamic=True)
    yield question("tiling", hardware="gb10", work=ELEMENTWISE[0])


def _efficiency() -> Iterator[Question]:
    for chip, pair in product(MAIN_CHIPS, ("BF16.BF16", "INT4.BF16")):
        yield question(
            "efficiency", hardware=chip, M=512, K=4096, columns=[128, 1000, 1024, 3000, 4096, 8192], pair=pair
        )


def _sweep() -> Iterator[Question]:
    for chip, pair in product(MACHINES, (*MAIN_PAIRS, "MXFP4.MXFP4", "NF4.BF16")):
        yield question("sweep", hardware=chip, M=[1, 16, 17, 512], N=[1000, 4096], K=[4096], pair=pair)
    for chip in MAIN_CHIPS:
        yield question("sweep", hardware=chip, M=[1, 64], N=[1024, 8192], K=[1024], pair="INT8.INT8", cache="warm")


STRATEGIES = (
    "fp16_baseline", "fp8_balanced", "w4a16_aggressive", "nvfp4_blackwell", "hybrid_long_context", "layerwise_gradient",
)  # fmt: skip


def _strategy() -> Iterator[Question]:
    for chip, name, step in product(MAIN_CHIPS, STRATEGIES, PASSES[::2]):
        yield question("strategy", hardware=chip, name=name, model="llama-3.1-8b", **step)
    for name, model in product(STRATEGIES, ("qwen3-30b-a3b", "deepseek-v2-lite", "phi-2")):
        yield question("strategy", hardware="b200", name=name, model=model, context=2048)


_SEED_MODEL = {"H": 4096, "L": 32, "nh": 32, "nkv": 8, "dh": 128, "dff": 14336}


def _engine() -> Iterator[Question]:
    for chip, phase, length in product(MACHINES, ("decode", "prefill"), (512, 4096, 32768)):
        yield question("engine", hardware=chip, model=_SEED_MODEL, phase=phase, seq_len=length)
    more: tuple[Mapping[str, Any], ...] = (
        {"enable_dynamic": True, "enable_adaptive": True},
        {"batch_size": 16},
        {"memory_limit_gb": 12.0},
        {"memory_limit_gb": 1.0},
        {"max_quality_loss_pct": 0.5},
        {"max_quality_loss_pct": 20.0},
        {"measured_loss_pct": {"w4a16_aggressive": 0.1, "fp8_balanced": 0.2, "nvfp4_blackwell": 30.0}},
        {"phase": "train"},
    )
    for chip, option in product(("b10", *MAIN_CHIPS), more):
        yield question("engine", hardware=chip, model="llama-3.1-8b", **option)
    for chip in MAIN_CHIPS:
        yield question("engine", hardware=chip, model="llama-3.1-70b", phase="prefill", seq_len=2048)


def _selector() -> Iterator[Question]:
    contexts: tuple[Mapping[str, Any] | None, ...] = (
        None,
        {"phase": "decode"},
        {"phase": "prefill"},
        {"is_kv_cache": True, "seq_len": 1024},
        {"is_kv_cache": True, "seq_len": 100_000},
        {"is_kv_cache": True},
        {"mood": "good"},
    )
    for ratio, context in product((1.0, 2.0, 4.0, 6.0, 9.0, 12.0, 25.0, 80.0), contexts):
        stats = {
            "absmax": ratio,
            "mean": 0.0,
            "std": 0.4,
            "percentile_99": 0.9,
            "percentile_999": 1.0,
            "shape": [1, 4096],
        }
        yield question("selector", stats=stats, context=context)
    narrow = {"absmax": 5.0, "mean": 0.1, "std": 0.4, "percentile_99": 0.9, "percentile_999": 1.0, "shape": [8, 64]}
    for candidates in (["NVFP4", "FP8_E4M3", "BF16"], ["INT8", "FP16"], []):
        yield question(
            "selector", stats=narrow, context={"phase": "decode"}, config={"precision_candidates": candidates}
        )
    yield question("selector", stats={**narrow, "percentile_99": 2.0})


def _pareto() -> Iterator[Question]:
    losses = _small_losses("llama-3.2-1b", 16)
    decode, prefill = {"phase": "decode", "batch": 1}, {"phase": "prefill", "context": 2048}
    budgets: tuple[Mapping[str, Any], ...] = (
        {},
        {"memory_bytes": 1.8e9},
        {"memory_bytes": 1.2e9},
        {"memory_bytes": 3e8},
        {"time_s": 1e-3},
        {"time_s": 6e-3, "memory_bytes": 1.6e9},
    )
    for chip, traffic, budget in product(("gb10", "h100-sxm", "a100-sxm-80gb"), ([decode], [prefill]), budgets):
        yield question("pareto", hardware=chip, model="llama-3.2-1b", losses=losses, traffic=traffic, **budget)
    for chip, ideal in product(("gb10", "mi300x", CALIBRATED), (False, True)):
        question_of = {"hardware": chip, "model": "llama-3.2-1b", "losses": losses, "kv_formats": ["FP8_E4M3"]}
        traffic = [{**decode, "batch": 8, "share": 3.0}, prefill]
        yield question("pareto", **question_of, traffic=traffic, is_ideal=ideal, memory_bytes=1.5e9)


def _pareto_problem() -> Iterator[Question]:
    for seed in range(60):
        source = Random(seed)
        groups = {
            f"group{place}": {
                label: [round(source.uniform(0, 1) * 4**narrow, 6), round(source.uniform(1, 3) / 1.5**narrow * 1e-3, 9),
                        float(source.randrange(100, 1000) >> narrow)]
                for narrow, label in enumerate(("BF16", "FP8", "INT4")[: source.randrange(2, 4)])
            }
            for place in range(source.randrange(2, 9))
        }  # fmt: skip
        tight = len(groups) * source.uniform(0.8e-3, 2e-3)
        budget = ({}, {"time_s": tight}, {"time_s": tight, "memory_bytes": 250.0 * len(groups)})[seed % 3]
        yield question("pareto_problem", groups=groups, **budget)


CPU_RUNS = {"cpu-amd-epyc-2t/quick": "quick", "cpu-amd-epyc-2t/calibrated": "calibrated"}
CPU_SHAPES = (
    ("gemm", "128x4096x4096"), ("gemm", "64x1024x1024"), ("gemv", "1x4096x4096"), ("gemv", "8x4096x4096"),
    ("gemv", "1x11264x2048"), ("gemv", "1x1024x1024"),
)  # fmt: skip
ALL_CPU = "cpu-amd-epyc-2t/quick+cpu-amd-epyc-2t/model_quant+cpu-amd-epyc-2t/calibrated"
NIGHT_CHIPS = ("gb10", "h100-sxm", "b10")
NIGHT_SHAPES = (("gemv", "1x4096x4096"), ("gemv", "8x4096x14336"), ("gemm", "512x4096x4096"))


def _runs_by_shape() -> Iterator[dict[str, Any]]:
    """Yield the runs whose shapes are asked about one by one."""
    for (store, run), (op, sizes) in product(CPU_RUNS.items(), CPU_SHAPES):
        yield {"store": store, "run": run, "op": op, "sizes": sizes}
    for chip, number, (op, sizes) in product(NIGHT_CHIPS, range(5), NIGHT_SHAPES):
        yield {"store": "nights", "run": f"{chip}-{number}", "op": op, "sizes": sizes}
    for chip in NIGHT_CHIPS[:2]:
        yield {"store": "nights", "run": f"{chip}-2", "op": "attention"}


def _run_ranking() -> Iterator[Question]:
    for question_of in _runs_by_shape():
        yield question("run_ranking", **question_of)


def _verdict() -> Iterator[Question]:
    for question_of in _runs_by_shape():
        yield question("verdict", **question_of)
    yield question("verdict", store="cpu-amd-epyc-2t/model_quant", run="model_quant")


def _model_results() -> Iterator[Question]:
    yield question("model_results", store="cpu-amd-epyc-2t/model_quant", run="model_quant")
    for number in range(3):
        yield question("model_results", store="models", run=f"models-{number}")


def _stored() -> Iterator[Question]:
    limits: tuple[Mapping[str, Any], ...] = (
        {},
        {"max_loss_pct": 1.0},
        {"max_loss_pct": 0.0},
        {"memory_limit_bytes": 1e7},
    )
    for store, (op, sizes), limit in product((*CPU_RUNS, ALL_CPU), CPU_SHAPES, limits):
        yield question("stored", store=store, op=op, shape=[int(size) for size in sizes.split("x")], **limit)
    for chip, (op, sizes), limit in product(NIGHT_CHIPS, NIGHT_SHAPES, limits):
        shape = [int(size) for size in sizes.split("x")]
        yield question("stored", store="nights", hardware=chip, op=op, shape=shape, **limit)
    for chip in NIGHT_CHIPS:
        yield question("stored", store="nights", hardware=chip, op="attention")
        yield question("stored", store="nights", hardware=chip, phase="decode")
    for store, phase, limit in product(
        (ALL_CPU, "models"), ("decode", "prefill"), (*limits[:3], {"memory_limit_bytes": 2e8})
    ):
        yield question("stored", store=store, model="seeded-llama-156m", phase=phase, **limit)
    yield question("stored", store="nights", hardware="a100-sxm-80gb")


def _diff() -> Iterator[Question]:
    gates: tuple[Mapping[str, Any], ...] = (
        {"fail_on": ["slower"]},
        {"fail_on": ["slower:5%", "gone", "energy:2%"], "max_ambiguous": 2},
        {"min_effect_ratio": 0.05},
    )
    for chip, after, gate in product(NIGHT_CHIPS, range(1, 4), gates):
        yield question("diff", store="nights", before=[f"{chip}-{after - 1}"], after=[f"{chip}-{after}"], **gate)
    for chip in NIGHT_CHIPS:
        yield question("diff", store="nights", before=[f"{chip}-0", f"{chip}-1"], after=[f"{chip}-2", f"{chip}-3"])
        yield question("diff", store="nights", before=[f"{chip}-3"], after=[f"{chip}-4"])
        yield question("diff", store="nights", before=[f"{chip}-3"], after=[f"{chip}-4"], allow=["driver"])
        yield question("diff", store="nights", before=[], after=[f"{chip}-3"], against="latest", fail_on=["slower"])
        yield question("diff", store="nights", before=[], after=[f"{chip}-3"], against="baseline:3", fail_on=["slower"])
        yield question("diff", store="nights", before=[], after=[f"{chip}-0"], against="latest")
    for before, after in ((0, 1), (1, 2)):
        yield question(
            "diff", store="models", before=[f"models-{before}"], after=[f"models-{after}"], fail_on=["slower"]
        )
    for allow in ([], ["torch", "method_version"]):
        yield question("diff", store=ALL_CPU, before=["quick"], after=["calibrated"], allow=allow)
    yield question("diff", store="nights", before=["gb10-0"], after=["h100-sxm-0"])
    yield question("diff", store="nights", before=["gb10-0"], after=["gb10-0"])


def _history() -> Iterator[Question]:
    cases = [f"{sizes}-w16a16-BF16.BF16-matmul-cold" for sizes in (
        "1x4096x4096", "1x8192x4096", "1x2048x4096", "1x1024x4096", "1x512x4096", "1x256x4096",
    )]  # fmt: skip
    for case, metric in product(cases, ("time", "energy", "error", "memory")):
        yield question("history", store="history", case=case, metric=metric)
    for case, branch in product(cases, ("main", "all", "none")):
        yield question("history", store="history", case=case, branch=branch)
    yield question("history", store="history", case="no such case")


def _pipeline() -> Iterator[Question]:
    base = [0.01, 0.0102, 0.0098]
    for seed in range(40):
        source = Random(seed)
        candidates = {
            name: {
                "times_s": [
                    round(0.01 / factor * source.uniform(0.99, 1.01), 9) for _ in range(source.randrange(1, 4))
                ],
                "spread_ratio": (None, 0.005, 0.01, 0.05)[source.randrange(4)],
                "held_bytes": source.randrange(200, 600),
                "loss_ratio": (None, 0.001, 0.02, 0.1)[source.randrange(4)],
            }
            for name in ("INT8", "INT4", "FP8_E4M3", "NVFP4")[: source.randrange(1, 5)]
            for factor in (source.uniform(0.5, 2.5),)
        }
        limits = ({}, {"memory_bytes": 600.0}, {"latency_s": 0.008}, {"loss_pct": 1.0}, {"memory_bytes": 100.0})[
            seed % 5
        ]
        yield question("pipeline", baseline=base, candidates=candidates, limits=limits)
    failed = {"INT4": {"times_s": []}, "INT8": {"times_s": [0.02]}}
    yield question("pipeline", baseline=base, candidates=failed)
    yield question("pipeline", baseline=base, candidates={"INT4": {"times_s": []}})
    yield question("pipeline", baseline=base, candidates={}, limits={"memory_bytes": 900.0}, too_large={"INT8": 1000.0})
    yield question("pipeline", baseline=base, candidates={})


def _gap() -> Iterator[Question]:
    terms = ({}, {"dram": 4e-6, "tensor": 1e-6, "launch": 3e-6}, {"tensor": 9e-6, "l2": 5e-6, "waves": 1e-6, "cast": 5e-7},
             {"dram": 2e-6, "exp": 8e-6, "latency": 2e-6, "launch": 2e-6}, {"dram": 3e-6, "launch": 1e-6, "kernel": 4e-6})  # fmt: skip
    for term, measured, clock in product(terms, (5e-6, 1.1e-5, 4e-5), (None, 0.85, 1.02)):
        expected = 1e-5 if term else None
        yield question(
            "gap", measured_s=measured, ideal_memory_s=3e-6, ideal_compute_s=2e-6, expected_s=expected,
            terms_s=term or None, clock_ratio=clock,
        )  # fmt: skip


FAMILIES: Mapping[str, Callable[[], Iterable[Question]]] = {
    "ideal": _ideal,
    "ideal_call": _ideal_call,
    "expected": _expected,
    "expected_block": _expected_block,
    "table": _table,
    "recommend": _recommend,
    "model": _model,
    "recommend_model": _recommend_model,
    "cache": _cache,
    "flash": _flash,
    "flash_compare": _flash_compare,
    "flash_unfused": _flash_unfused,
    "tiling": _tiling,
    "efficiency": _efficiency,
    "sweep": _sweep,
    "strategy": _strategy,
    "engine": _engine,
    "selector": _selector,
    "pareto": _pareto,
    "pareto_problem": _pareto_problem,
    "run_ranking": _run_ranking,
    "verdict": _verdict,
    "model_results": _model_results,
    "stored": _stored,
    "diff": _diff,
    "history": _history,
    "pipeline": _pipeline,
    "gap": _gap,
}
"""Family → its questions. The name is that of the function in `adapters.py` and of the file of answers."""


@cache
def questions(family: str) -> tuple[Question, ...]:
    """Return the questions of a family, always in the same order."""
    return tuple(FAMILIES[family]())


SAMPLE_SIZE = 300
LEAST_OF_A_FAMILY = 6


def sample(family: str) -> tuple[Question, ...]:
    """Return the questions of a family that every test run asks, spread evenly over all of them."""
    family_questions = questions(family)
    # By the square root: the many questions of the ideal time are alike, the few of a small family are not.
    whole = sum(len(questions(name)) ** 0.5 for name in FAMILIES)
    size = min(len(family_questions), max(LEAST_OF_A_FAMILY, round(SAMPLE_SIZE * len(family_questions) ** 0.5 / whole)))
    return tuple(family_questions[(2 * place + 1) * len(family_questions) // (2 * size)] for place in range(size))
