"""Which model and formats other programs mean: by name where we know it, else by how many parameters there are.

A GGUF file is called after its quantisation, a hub checkpoint carries it as a suffix. Sources: the ftype names of
llama.cpp (`llama_model_ftype_name` in src/llama-model-loader.cpp, read 2026-11-21); suffixes as the checkpoints of
RedHatAI, neuralmagic, nvidia and Qwen on the hub use them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.model_registry import get_model, list_models, shipped_model
from roofline_model.models.model_shapes import ModelShape

COUNT_TOLERANCE_RATIO = 0.006
"""llama-bench prints `1.24 B`: half a unit of the last digit is 0.4 %."""

# ftype of llama.cpp → plan. Q4_K and its like are mixtures: the file's size says what is read, the name what computes.
_GGUF_BITS = {"1": "INT2", "2": "INT2", "3": "INT4", "4": "INT4", "5": "INT4", "6": "INT8", "8": "INT8"}
_GGUF_WIDE = {"F32": "FP32", "F16": "FP16", "BF16": "BF16"}
_GGUF_NAME = re.compile(
    r"\b(?:mostly |all )?((?:IQ|TQ|Q)(\d)(?:_[A-Z0-9]+)*(?: - (?:Small|Medium|Large))?|BF16|F16|F32|MXFP4(?: "
    r"MoE)?|NVFP4)\b",
    re.I,
)
_FILE_QUANT = re.compile(r"[-._]((?:I|T)?Q\d(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4(?:_MOE)?|NVFP4)$", re.I)

# Suffix of a hub id → plan; the first that fits counts.
_HUB_SUFFIXES = (
    (r"nvfp4(?:a16)?|fp4", "NVFP4"),
    (r"mxfp4", "MXFP4.BF16"),
    (r"fp8(?:[-_](?:dynamic|block|kv|tensor))*", "FP8"),
    (r"quantized[-_.]w8a8|w8a8|int8", "INT8"),
    (r"quantized[-_.]w8a16|w8a16|gptq[-_]int8", "INT8.BF16"),
    (r"quantized[-_.]w4a16|w4a16|awq(?:[-_]int4)?|gptq(?:[-_](?:int4|4bit))?|int4|4bit", "INT4.BF16"),
    (r"bf16", "BF16"),
    (r"fp16", "FP16"),
)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of ours that another program's words mean."""

    shape: ModelShape
    why: str
    """How it was recognised: a name, or a number of parameters."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """Weight format of a GGUF file."""

    name: str
    """As llama.cpp calls it: Q4_K - Medium."""
    formats: str
    """The plan that computes like it; how many bytes there are, the file's size says."""
    is_mixed: bool = True
    """Whether its bits are not those of one format of ours: of a known size, the nearest one is taken."""
    experts: str | None = None
    """Format of routed experts alone, the rest is wider; None: experts have no format of their own."""


def stated_model(name: str) -> KnownModel:
    """Return the model a user named. Raises `UnknownNameError` or what reading its config.json raises."""
    return KnownModel(get_model(name), "named")


def model_of_hub_id(name: str) -> tuple[KnownModel | None, str | None]:
    """Return the model of a hub id or served name, and the formats its suffix says (None: as published)."""
    shape = _without_owner(name)
    if shape is not None:
        return KnownModel(shape, f"called {name[:80]}"), None
    for pattern, formats in _HUB_SUFFIXES:
        base = re.sub(rf"[-_.](?:{pattern})$", "", name.strip(), flags=re.IGNORECASE)
        if base != name.strip():
            shape = _without_owner(base)
            return (KnownModel(shape, f"called {base[:80]}") if shape is not None else None), formats
    return None, None


def model_of_gguf(
    file_name: str, description: str, parameter_count: float | None
) -> tuple[KnownModel | None, Finding | None]:
    """Return the model of a GGUF file, or None and why not.

    By the file's name without its quantisation; else the model of ours with as many parameters, where there is one
    shape.
    """
    stem = re.sub(r"\.gguf$", "", file_name.replace("\\", "/").rpartition("/")[2], flags=re.IGNORECASE)
    stem = re.sub(r"-\d{5}-of-\d{5}$", "", stem)
    shipped = shipped_model(_FILE_QUANT.sub("", stem)) if stem else None
    if shipped is not None and _agrees(shipped, parameter_count):
        return KnownModel(shipped, f"file {stem[:80]}"), None
    if parameter_count is None:
        return None, finding(
            "import-incomplete", kind="model", options="--model NAME or its config.json", model=description[:60]
        )
    near = [
        (abs(count / parameter_count - 1), shape)
        for shape, count in _counted()
        if abs(count / parameter_count - 1) <= COUNT_TOLERANCE_RATIO
    ]
    if not near:
        billions = f"{parameter_count / 1e9:.2f}"
        return None, finding(
            "import-incomplete",
            kind="model",
            options="--model NAME or its config.json",
            model=description[:60],
            billion_parameters=billions,
        )
    nearest = min(distance for distance, _ in near)
    best = [shape for distance, shape in near if distance <= nearest + 1e-9]
    family = [shape for shape in best if _family(shape.name) == _family(description)] or best
    if len({_sizes(shape) for shape in family}) > 1:
        candidates = tuple(shape.name for shape in family)
        return None, finding(
            "import-incomplete",
            kind="model-ambiguous",
            options="--model",
            model=description[:60],
            candidates=candidates,
        )
    return KnownModel(family[0], f"{parameter_count / 1e9:.2f} billion parameters"), None


def quantization_of(description: str, file_name: str) -> Quantization | None:
    """Return how a GGUF file stores its weights, by llama.cpp's description of it or by its name; None: neither
    says.
    """
    match = _GGUF_NAME.search(description)
    if match is None:
        stem = re.sub(r"(-\d{5}-of-\d{5})?\.gguf$", "", file_name, flags=re.IGNORECASE)
        match = _FILE_QUANT.search(stem)
        if match is None:
            return None
    name = match.group(1)
    word = name.upper().split(" ")[0]
    if word in _GGUF_WIDE:
        return Quantization(name, _GGUF_WIDE[word], is_mixed=False)
    if word.startswith("MXFP4"):
        return Quantization(name, "MXFP4.BF16", is_mixed=False, experts="MXFP4")
    if word == "NVFP4":
        return Quantization(name, "NVFP4.BF16", is_mixed=False)
    bits = re.match(r"[IT]?Q(\d)", word)
    width = _GGUF_BITS.get(bits.group(1)) if bits else None
    return None if width is None else Quantization(name, f"{width}.BF16")


def _without_owner(name: str) -> ModelShape | None:
    """Return the shipped model of a hub id, whoever has put a copy of it on the hub."""
    return shipped_model(name) or shipped_model(name.rpartition("/")[2])


def _agrees(shape: ModelShape, parameter_count: float | None) -> bool:
    """Whether a named model has the file's parameters: files are renamed, weights are not."""
    if parameter_count is None:
        return True
    return abs(parameter_counts(shape).total_count / parameter_count - 1) <= 0.02


@lru_cache(maxsize=1)
def _counted() -> tuple[tuple[ModelShape, int], ...]:
    return tuple((shape, parameter_counts(shape).total_count) for shape in list_models())


def _family(text: str) -> str:
    match = re.match(r"[a-z]+", text.strip().lower())
    return match.group() if match else ""


def _sizes(shape: ModelShape) -> tuple[object, ...]:
    return (
        shape.layer_count,
        shape.hidden_size,
        shape.query_heads,
        shape.kv_heads,
        shape.head_dim,
        shape.ffn_size,
        shape.vocab_size,
        shape.experts,
        shape.latent,
    )


def plan_formats(
    formats: str, kv_format: str | None, shape: ModelShape
) -> tuple[tuple[tuple[str, str], ...], Finding | None]:
    """Return the formats of a case (a, b, kv) under a plan, or none and why. Of several, a and b are the experts'."""
    from roofline_model.models.format_plan import EXPERTS, stored_plan

    try:
        plan = stored_plan(formats, shape, kv=kv_format)
    except RooflineError as error:
        return (), finding("unsupported", reason=str(error))
    most = plan.base if shape.experts is None else plan.of(EXPERTS[0])
    return (("a", most.activations), ("b", most.weights), ("kv", plan.kv)), None
