"""Reference to a model that is not loaded: its name in results, and its shape for predictions. No torch here.

Seeded Llamas, whose weights are drawn from a seed, are names and shapes here, too: a prediction needs no weights.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from bench_cases.models.decoded_gguf import decoded_from
from bench_cases.quantization.plans.precisions import PRECISIONS
from roofline_model.core.definition_text import shortened, user_path
from roofline_model.core.errors import RooflineError, UnsupportedError
from roofline_model.models.hf.config import cached_config, read_config
from roofline_model.models.model_registry import get_model
from roofline_model.models.model_shapes import ModelShape

_UNSAFE = re.compile(r"[^A-Za-z0-9._/+-]")
MAX_NAME_CHARS = 80
REPORT_FILE = "quantization.json"
"""What `save_quantized` writes beside the weights (`quantization.save_load` imports torch, this file must not)."""


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A model that was asked for, by the text of `--roofline-model`."""

    text: str
    """What loads it: a seeded name, a folder, a hub id."""
    name: str
    """What results call it; of a folder its own name and six digits of its config.json (of a decoded GGUF file the name
    that it was decoded with), never a path.
    """
    shape: ModelShape | None
    """None: its architecture is not one that can be predicted, or nothing of it is here yet."""
    why_no_shape: str = ""
    decoded_from: str = ""
    """What its weights were stored in before they were decoded to 16 or 32 bits (`Q4_1`); empty for original
    weights.
    """
    saved_precision: str = ""
    """Of a folder that `save_quantized` wrote: what most of its layers are; empty for a model that is not quantised
    yet.
    """

    @property
    def wide(self) -> str:
        """The 16-bit (or wider) format it computes in before anything is quantised."""
        return "BF16" if self.shape is None else self.shape.wide_format


def find_model(text: str | None) -> ModelReference:
    """Return the reference of a model; None is the default.

    A path that does not exist is an `UnsupportedError`, before anything is collected; what else cannot be loaded (an id
    nobody has) is said when it is.
    """
    model_name = (text or DEFAULT_MODEL).strip()
    if model_name in SEEDED_LLAMAS:
        return ModelReference(model_name, model_name, SEEDED_LLAMAS[model_name].shape())
    if model_name.startswith((".", "/", "~")) or model_name.count("/") > 1:
        _require_folder(model_name)
    try:
        path = user_path(model_name)
        config = path / "config.json" if path.is_dir() else None
    except (RooflineError, OSError):
        config = None
    try:
        if config is not None and config.is_file():
            name = _folder_name(path, config)
            saved = _saved_precision(path)
            shape, stored_format = read_config(config, name=name), decoded_from(config)[1]
            return ModelReference(str(path), name, shape, decoded_from=stored_format, saved_precision=saved)
        cached = cached_config(model_name)
        shape = get_model(model_name) if cached is None else read_config(cached, name=model_name)
        return ModelReference(model_name, _clean(model_name), shape)
    except (RooflineError, OSError) as error:
        name = _clean(model_name) if config is None else _folder_name(path, config)
        saved = "" if config is None else _saved_precision(path)
        return ModelReference(
            model_name if config is None else str(path), name, None, str(error), saved_precision=saved
        )


def _require_folder(text: str) -> None:
    path = user_path(text)
    if not path.exists():
        raise UnsupportedError(
            f"no such folder: {shortened(text)}. Give a folder with config.json, a hub id, or "
            f"{', '.join(SEEDED_LLAMAS)}"
        )


def _saved_precision(folder: Path) -> str:
    """Return the precision of a saved quantised model, from the report beside its weights; empty where there is none.

    A damaged report is told when the model is loaded.
    """
    try:
        described = json.loads((folder / REPORT_FILE).read_text(encoding="utf-8"))
        became = [layer["became"] for layer in described["result"]["layers"] if layer["method"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    precisions = [name for name in became if name in PRECISIONS]
    return max(dict.fromkeys(precisions), key=precisions.count) if precisions else ""


def _folder_name(folder: Path, config: Path) -> str:
    """Return a name that two folders of different models do not share, wherever they lie."""
    if given := decoded_from(config)[0]:
        return _clean(given)
    try:
        digits = hashlib.sha256(config.read_bytes()).hexdigest()[:6]
    except OSError:
        digits = "unread"
    return f"{_clean(folder.resolve().name)[: MAX_NAME_CHARS - 7]}-{digits}"


def _clean(text: str) -> str:
    return _UNSAFE.sub("_", text)[:MAX_NAME_CHARS] or "model"


@dataclass(frozen=True, slots=True)
class SeededLlama:
    """A Llama whose weights are drawn from a seed: real kernels and real memory, untrained quality."""

    name: str
    hidden_size: int
    intermediate_size: int
    layers_count: int
    heads_count: int
    kv_heads_count: int
    vocabulary_size: int
    positions_count: int
    is_tied: bool = False
    """Whether the head shares the embedding's weight."""

    def shape(self, wide: str = "BF16") -> ModelShape:
        """Return the shape of the model for predictions, stored in `wide`."""
        return ModelShape(
            name=self.name,
            source="the seeded models of bench_cases",
            layer_count=self.layers_count,
            hidden_size=self.hidden_size,
            query_heads=self.heads_count,
            kv_heads=self.kv_heads_count,
            head_dim=self.hidden_size // self.heads_count,
            ffn_size=self.intermediate_size,
            vocab_size=self.vocabulary_size,
            max_context_size=self.positions_count,
            has_tied_embedding=self.is_tied,
            wide_format=wide,
            weight_format=wide,
        )


SEEDED_LLAMAS = {
    spec.name: spec
    for spec in (
        SeededLlama("seeded-llama-1m", 128, 384, 2, 4, 2, 512, 512),
        SeededLlama("seeded-llama-1m-tied", 128, 384, 2, 4, 2, 512, 512, is_tied=True),
        SeededLlama("seeded-llama-156m", 1024, 2816, 8, 16, 4, 32000, 4096),
    )
}
"""Shapes whose layers every 4-bit kernel takes (all sizes are multiples of 128): for tests, and for a decode that reads
more than a laptop's last-level cache."""

DEFAULT_MODEL = "seeded-llama-156m"
