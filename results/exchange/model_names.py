"""Which model and formats other programs mean: by name where we know it, else by how many parameters there are.

A GGUF file is called after its quantisation, a hub checkpoint carries it as a suffix. Sources: the ftype names of
llama.cpp (`llama_model_ftype_name` in src/llama-model-loader.cpp, read 2026-11-21); suffixes as the checkpoints of
RedHatAI, neuralmagic, nvidia and Qwen on the hub use them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from string import ascii_lowercase
from typing import Any

from results.exchange.foreign import printable
from roofline_model.core.finding import Finding, finding
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.model_registry import get_model, list_models, shipped_model
from roofline_model.models.model_shapes import ModelShape

LONGEST_NAME = 120
COUNT_TOLERANCE_RATIO = 0.006
"""llama-bench prints `1.24 B`: half a unit of the last digit is 0.4 %."""

_MODEL_OPTIONS = "--model NAME or its config.json"

# ftype of llama.cpp → plan. Q4_K and its like are mixtures: the file's size says what is read, the name what computes.
_GGUF_BITS = {"1": "INT2", "2": "INT2", "3": "INT4", "4": "INT4", "5": "INT4", "6": "INT8", "8": "INT8"}
_GGUF_UNMIXED = {
    "F32": "FP32", "F16": "FP16", "BF16": "BF16", "MXFP4": "MXFP4.BF16", "MXFP4_MOE": "MXFP4.BF16",
    "NVFP4": "NVFP4.BF16",
}  # fmt: skip
_GGUF_NAME = re.compile(
    r"\b(?:mostly |all )?((?:IQ|TQ|Q)(\d)(?:_[A-Z0-9]+)*(?: - (?:Small|Medium|Large))?|BF16|F16|F32|MXFP4(?: "
    r"MoE)?|NVFP4)\b",
    re.I,
)
_FILE_QUANT = re.compile(r"[-._]((?:I|T)?Q\d(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4(?:_MOE)?|NVFP4)$", re.I)
_FILE_END = re.compile(r"(-\d{5}-of-\d{5})?(\.gguf)?$", re.I)

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
class NamedModel:
    """A model as a foreign file names it, and what we know of it."""

    name: str
    """Ours where it is known, else theirs."""
    shape: ModelShape | None = None
    recognised: str = ""
    """By what it was recognised, a name or a number of parameters; empty where it was not."""
    unknown: Finding | None = None
    """Why it was not."""
    formats: str | None = None
    """As `--formats` takes it; None: not known."""
    quantization: str = ""
    """As the file calls it; empty where it does not say."""
    kv_format: str | None = None
    weight_bytes: float | None = None

    @property
    def label(self) -> str:
        """Its name as cases have it: one line of `LONGEST_NAME` characters or fewer."""
        return printable(" ".join(self.name.split()))[:LONGEST_NAME] or "unnamed"

    @property
    def facts(self) -> dict[str, Any]:
        """Facts to store with the record."""
        return {"recognised_by": self.recognised, "quantization": self.quantization, "compared_as": self.formats or ""}


@dataclass(frozen=True, slots=True)
class Quantization:
    """Weight format of a GGUF file."""

    name: str
    """As llama.cpp calls it: Q4_K - Medium."""
    formats: str
    """The plan that computes like it; how many bytes there are, the file's size says."""
    is_mixed: bool = True
    """Whether its bits are not those of one format of ours: of a known size, the nearest one is taken."""

    @property
    def experts(self) -> str | None:
        """Format of routed experts alone, the rest is wider; None: experts have no format of their own."""
        return "MXFP4" if self.formats == "MXFP4.BF16" else None


def stated_model(name: str) -> NamedModel:
    """Return the model a user named. Raises `UnknownNameError` or what reading its config.json raises."""
    return _recognised(get_model(name), "named")


def model_of_hub_id(name: str) -> NamedModel:
    """Return the model of a hub id or served name, empty for none, with the formats its suffix says (None: as
    published).
    """
    base = name.strip()
    formats: str | None = None
    if (shape := _without_owner(base)) is None:
        for pattern, plan in _HUB_SUFFIXES:
            base, is_suffixed = re.subn(rf"[-_.](?:{pattern})$", "", base, flags=re.IGNORECASE)
            if is_suffixed:
                shape, formats = _without_owner(base), plan
                break
    if shape is not None:
        return replace(_recognised(shape, f"called {base[:80]}"), formats=formats)
    if not name:
        return NamedModel("unnamed", unknown=finding("import-incomplete", kind="model-unnamed", options="--model"))
    unknown = finding("import-incomplete", kind="model", options=_MODEL_OPTIONS, model=name[:80])
    return NamedModel(name, unknown=unknown, formats=formats)


def model_of_gguf(file_name: str, description: str, parameter_count: float | None) -> NamedModel:
    """Return the model of a GGUF file, or why it is not known.

    By the file's name without its quantisation; else the model of ours with as many parameters, where there is one
    shape.
    """
    stem = _FILE_END.sub("", file_name.replace("\\", "/").rpartition("/")[2])
    shipped = shipped_model(_FILE_QUANT.sub("", stem)) if stem else None
    # Files are renamed, weights are not.
    if shipped and (not parameter_count or _distance(parameter_counts(shipped).total_count, parameter_count) <= 0.02):
        return _recognised(shipped, f"file {stem[:80]}")
    missing: dict[str, Any] = {"kind": "model", "options": _MODEL_OPTIONS, "model": description[:60]}
    if parameter_count is not None:
        distances = [(_distance(count, parameter_count), shape) for shape, count in _counted()]
        nearest = min(distance for distance, _ in distances)
        best = [shape for distance, shape in distances if distance <= nearest + 1e-9]
        family = [shape for shape in best if _family(shape.name) == _family(description)] or best
        if nearest > COUNT_TOLERANCE_RATIO:
            missing["billion_parameters"] = f"{parameter_count / 1e9:.2f}"
        elif len(set(map(_SIZES, family))) == 1:
            return _recognised(family[0], f"{parameter_count / 1e9:.2f} billion parameters")
        else:
            names = tuple(shape.name for shape in family)
            missing |= {"kind": "model-ambiguous", "options": "--model", "candidates": names}
    return NamedModel(description, unknown=finding("import-incomplete", **missing))


def quantization_of(description: str, file_name: str) -> Quantization | None:
    """Return how a GGUF file stores its weights, by llama.cpp's description of it or by its name; None: neither
    says.
    """
    match = _GGUF_NAME.search(description) or _FILE_QUANT.search(_FILE_END.sub("", file_name))
    if match is None:
        return None
    name = match.group(1)
    word = name.upper().split(" ")[0]
    if word in _GGUF_UNMIXED:
        return Quantization(name, _GGUF_UNMIXED[word], is_mixed=False)
    width = _GGUF_BITS.get(word.partition("Q")[2][:1])
    return None if width is None else Quantization(name, f"{width}.BF16")


def _recognised(shape: ModelShape, recognised: str) -> NamedModel:
    return NamedModel(shape.name, shape, recognised)


def _without_owner(name: str) -> ModelShape | None:
    """Return the shipped model of a hub id, whoever has put a copy of it on the hub."""
    return shipped_model(name) or shipped_model(name.rpartition("/")[2])


def _distance(count: float, other: float) -> float:
    return abs(count / other - 1)


@lru_cache(maxsize=1)
def _counted() -> tuple[tuple[ModelShape, int], ...]:
    return tuple((shape, parameter_counts(shape).total_count) for shape in list_models())


def _family(text: str) -> str:
    return "".join(takewhile(ascii_lowercase.__contains__, text.strip().lower()))


_SIZES = attrgetter(
    "layer_count", "hidden_size", "query_heads", "kv_heads", "head_dim", "ffn_size", "vocab_size", "experts", "latent"
)
