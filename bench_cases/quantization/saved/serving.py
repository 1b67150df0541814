"""Which engines can load what was quantised here, with the source of each statement. Read in November 2026, none was
run.

The container decides more than the format: engines read safetensors with a `quantization_config`, cut weights for
tensor parallelism, and fuse query, key and value. A weight that cannot be cut cannot be loaded by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench_cases.quantization.plans.layer_report import QuantizationResult
from roofline_model.core.finding import Finding, finding

Answer = Literal["yes", "no", "unverified"]


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """Whether one engine loads a model that this project quantised."""

    engine: str
    answer: Answer
    reason: Finding
    source: str


_TESTS = "tests/bench_cases/quantization"
_VLLM_DOCS = "docs.vllm.ai, features/quantization/torchao"
_PACKED = "Int4OpaqueTensor"
_AO_3499 = "github.com/pytorch/ao/issues/3499"
_AO_3800 = "github.com/pytorch/ao/issues/3800"


def serving_engines(result: QuantizationResult) -> tuple[EngineSupport, ...]:
    """Return the support of other engines for this result. `unverified` means: documented or likely, not tried."""
    if any(layer.tensor == _PACKED for layer in result.quantized):
        transformers = EngineSupport("transformers", "no", finding("engine-loads-otherwise", kind="packed"), _AO_3800)
        vllm = EngineSupport("vLLM", "no", finding("engine-loads-otherwise", kind="packed-cut"), _AO_3499)
    else:
        transformers = EngineSupport("transformers", "yes", finding("engine-loads", kind="transformers"), _TESTS)
        vllm = EngineSupport("vLLM", "unverified", finding("engine-loads-otherwise", kind="fused-export"), _VLLM_DOCS)
    return (
        EngineSupport("roofline-bench (load_quantized)", "yes", finding("engine-loads", kind="own"), _TESTS),
        transformers,
        vllm,
        EngineSupport(
            "SGLang",
            "unverified",
            finding("engine-loads-otherwise", kind="at-start"),
            "docs.sglang.io, advanced_features/quantization",
        ),
        EngineSupport(
            "TensorRT-LLM",
            "no",
            finding("engine-loads-otherwise", kind="other-checkpoints"),
            "nvidia.github.io/TensorRT-LLM, architecture/checkpoint",
        ),
        EngineSupport(
            "llama.cpp", "no", finding("engine-loads-otherwise", kind="gguf"), "github.com/ggml-org/llama.cpp README"
        ),
    )
