"""Which engines can load what was quantised here, with the source of each statement. Read in November 2026, none was
run.

The container decides more than the format: engines read safetensors with a `quantization_config`, cut weights for
tensor parallelism, and fuse query, key and value. A weight that cannot be cut cannot be loaded by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench_cases.quantization.plans.layer_report import QuantizationResult

Answer = Literal["yes", "no", "unverified"]


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """Whether one engine loads a model that this project quantised."""

    engine: str
    answer: Answer
    why: str
    source: str


_VLLM_DOCS = "docs.vllm.ai, features/quantization/torchao"
_PACKED = "Int4OpaqueTensor"
_AO_3499 = "github.com/pytorch/ao/issues/3499"
_AO_3800 = "github.com/pytorch/ao/issues/3800"


def serving_engines(result: QuantizationResult) -> tuple[EngineSupport, ...]:
    """Return the support of other engines for this result. `unverified` means: documented or likely, not tried."""
    tensors = {layer.tensor for layer in result.quantized}
    return (_here(), _transformers(tensors), _vllm(tensors), _sglang(), *_other_containers())


def _here() -> EngineSupport:
    return EngineSupport("roofline-bench (load_quantized)", "yes", "equal logits after reload", "tests of this project")


def _transformers(tensors: set[str]) -> EngineSupport:
    if _PACKED in tensors:
        return EngineSupport(
            "transformers",
            "no",
            "save_pretrained writes torchao weights as safetensors, and packed CPU INT4 has no safetensors form",
            _AO_3800,
        )
    return EngineSupport(
        "transformers",
        "yes",
        "export_transformers writes what from_pretrained reads: equal logits",
        "tests of this project",
    )


def _vllm(tensors: set[str]) -> EngineSupport:
    if _PACKED in tensors:
        return EngineSupport("vLLM", "no", "its loader cuts weights, and packed CPU INT4 cannot be cut", _AO_3499)
    return EngineSupport(
        "vLLM",
        "unverified",
        "loads torchao checkpoints that transformers wrote, which export_transformers does; not run here; query, key "
        "and value must share one precision, because it fuses them",
        _VLLM_DOCS,
    )


def _sglang() -> EngineSupport:
    return EngineSupport(
        "SGLang",
        "unverified",
        "documents quantising the 16-bit checkpoint itself at start (--torchao-config int8wo, int4wo-128, fp8wo, …): "
        "give it the original",
        "docs.sglang.io, advanced_features/quantization",
    )


def _other_containers() -> tuple[EngineSupport, ...]:
    return (
        EngineSupport(
            "TensorRT-LLM",
            "no",
            "loads checkpoints of its own and of Model Optimizer; torchao is not among the sources it lists",
            "nvidia.github.io/TensorRT-LLM, architecture/checkpoint",
        ),
        EngineSupport(
            "llama.cpp",
            "no",
            "loads GGUF, whose block formats differ in codes and scales",
            "github.com/ggml-org/llama.cpp README",
        ),
    )
