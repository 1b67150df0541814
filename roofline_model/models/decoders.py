"""Decoders by name: shipped ones (`decoders.toml` and the model catalog), or those of a folder of config.json files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from roofline_model.core.errors import RooflineError, UnknownNameError
from roofline_model.models.hf.config import SIDECAR, own_name, read_json
from roofline_model.models.hf.decoder_config import decoder_from_config
from roofline_model.models.hf.stored_formats import CheckpointFormats, checkpoint_formats
from roofline_model.models.layer_kinds import Attention, Decoder, FeedForward, Latent, LayerRun, Mixer
from roofline_model.models.model_registry import config_path, get_model, list_models
from roofline_model.models.model_shapes import ModelShape

_FILE = Path(__file__).parent / "decoders.toml"
_SUFFIXES = re.compile(r"-(instruct|it|base|bf16|fp8|nvfp4|hf|chat)$")
"""What names of checkpoints add to the name of a model."""


@cache
def _shipped() -> Mapping[str, Mapping[str, Any]]:
    models: dict[str, Mapping[str, Any]] = {}
    for name, fields in tomllib.loads(_FILE.read_text(encoding="utf-8"))["models"].items():
        models |= dict.fromkeys([name, *fields.get("same_as", ())], fields)
    return models


def decoder_names() -> tuple[str, ...]:
    """Return the names of all shipped decoders."""
    return (*(shape.name for shape in list_models()), *_shipped())


def get_decoder(name: str, folder: Path | None = None) -> Decoder:
    """Return a decoder: of a config.json in `folder` that has this name, else a shipped one.

    Names are those of checkpoints (`Qwen/Qwen3-32B`) or of models (`qwen3-32b`). Raises `UnknownNameError` for a name
    that neither has.
    """
    if folder is not None and (path := _config_in(folder, name)) is not None:
        return decoder_from_config(read_json(path), name=name, where=f"model config {path}")
    plain = plain_name(name)
    shipped = _shipped().get(plain)
    if shipped is not None:
        return decoder_from_config(shipped, name=plain)
    try:
        return decoder_of(get_model(plain))
    except RooflineError:
        raise UnknownNameError("model", name, decoder_names(), fix="give its config.json with --model-dir") from None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A decoder with what its files, or its maker, say of the formats that it is stored in."""

    decoder: Decoder
    formats: CheckpointFormats | None
    """As its own files say; None where they say nothing, or there are none."""
    main_format: str
    """Format that most of its weights are published in."""


def find_checkpoint(name: str) -> Checkpoint:
    """Return a model by its shipped name, the path of a config.json or of a folder that holds one, or an id of the
    local hub cache. An hf_quant_config.json beside the config is read, too. Nothing is downloaded.

    Raises `UnknownNameError` for another name, `DefinitionError` and `UnsupportedError` for a file.
    """
    path = config_path(name)
    if path is None:
        try:
            return Checkpoint(get_decoder(name), None, published_weights(name))
        except UnknownNameError:
            fix = "Or give the path of its config.json."
            raise UnknownNameError("model", name, decoder_names(), fix=fix) from None
    data = read_json(path)
    decoder = decoder_from_config(data, name=own_name(data, path), where=f"model config {path}")
    formats = _formats_of(data, path, path.with_name(SIDECAR), decoder)
    return Checkpoint(decoder, formats, "BF16" if formats is None else formats.main_format)


def published_formats(name: str, folder: Path, decoder: Decoder) -> CheckpointFormats | None:
    """Return what the checkpoint of exactly this name stores, by the files of a folder; None where it has none or
    they say nothing of formats.
    """
    path = _config_in(folder, name)
    if path is None or path.name.lower() != f"{name.replace('/', '--')}_config.json".lower():
        return None
    beside = path.with_name(path.name.replace("_config.json", "_hf_quant_config.json"))
    return _formats_of(read_json(path), path, beside, decoder)


def _formats_of(data: Mapping[str, Any], path: Path, beside: Path, decoder: Decoder) -> CheckpointFormats | None:
    sidecar = read_json(beside) if beside.is_file() else None
    formats = checkpoint_formats(data, sidecar, decoder, where=f"model config {path}")
    return formats if formats.roles else None


def published_weights(name: str) -> str:
    """Return the format that the maker's own checkpoint stores most weights in; BF16 where nothing else is known."""
    try:
        shape = get_model(plain_name(name))
    except RooflineError:
        return "BF16"
    return shape.expert_format or shape.weight_format or "BF16"


def decoder_of(shape: ModelShape) -> Decoder:
    """Return the layers of a model of the catalog."""
    layers = tuple(_runs(shape))
    sizes = shape.hidden_size, shape.vocab_size
    return Decoder(shape.name, *sizes, layers, shape.has_tied_embedding, has_post_norms=shape.norm_count == 4)


def _runs(shape: ModelShape) -> Iterator[LayerRun]:
    counts: dict[tuple[bool, bool], int] = {}
    for layer in range(shape.layer_count):
        key = shape.is_windowed(layer), shape.has_experts(layer)
        counts[key] = counts.get(key, 0) + 1
    for (is_windowed, has_experts), count in counts.items():
        yield LayerRun(_mixer(shape, is_windowed=is_windowed), _block(shape, has_experts=has_experts), count)


def _mixer(shape: ModelShape, *, is_windowed: bool) -> Mixer:
    latent = shape.latent
    if latent is not None:
        ranks = latent.query_rank or 0, latent.kv_rank
        return Latent(shape.query_heads, *ranks, latent.nope_dim, latent.rope_dim, latent.value_dim)
    window = shape.window_size if is_windowed else None
    return Attention(shape.query_heads, shape.kv_heads, shape.head_dim, shape.head_dim, window)


def _block(shape: ModelShape, *, has_experts: bool) -> FeedForward:
    experts = shape.experts
    if experts is None or not has_experts:
        return FeedForward(shape.ffn_size, is_gated=shape.ffn == "gated")
    return FeedForward(
        expert_count=experts.expert_count,
        active_count=experts.active_count,
        expert_size=experts.ffn_size,
        shared_size=experts.shared_ffn_size,
        has_shared_gate=experts.has_shared_gate,
    )


def _config_in(folder: Path, name: str) -> Path | None:
    """Return the config of a model in a folder: `OWNER--MODEL_config.json`, `MODEL.json` or `MODEL/config.json`."""
    wanted, plain = name.replace("/", "--").lower(), plain_name(name)
    candidates: dict[str, Path] = {}
    for path in sorted(folder.glob("*")):
        stem = path.name.removesuffix(".json").removesuffix("_config")
        if path.is_dir() and (path / "config.json").is_file():
            path, stem = path / "config.json", path.name
        elif path.suffix != ".json" or stem.endswith("_hf_quant"):
            continue
        if wanted in (stem.lower(), stem.rpartition("--")[2].lower()):
            return path
        candidates.setdefault(plain_name(stem.replace("--", "/")), path)
    return candidates.get(plain)


def plain_name(name: str) -> str:
    """Return the name of a model without owner, case and what checkpoints add."""
    plain = name.rsplit("/", 1)[-1].lower()
    while (shorter := _SUFFIXES.sub("", plain)) != plain:
        plain = shorter
    return plain.removeprefix("nvidia-").removeprefix("meta-")
