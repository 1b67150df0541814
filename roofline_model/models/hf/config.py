"""Read the shape of a decoder model from its Hugging Face config.json. Local files only: nothing is downloaded.

What a config leaves out is taken from its architecture only where the architecture's own class does so by rule (kv
heads = query heads, head width = hidden / heads, tied embeddings of Gemma). Everything else that is missing is an error
that names the field. Source of field names and rules: the configuration classes of transformers 5.23.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from roofline_model.core.definition_text import read_definition_text, shortened, user_path
from roofline_model.core.errors import DefinitionError, InvalidValueError, UnsupportedError
from roofline_model.models.hf.architectures import ARCHITECTURES, Config, architecture_of
from roofline_model.models.hf.decoder_config import decoder_from_config
from roofline_model.models.hf.stored_formats import CheckpointFormats, RoleFormat, checkpoint_formats
from roofline_model.models.layer_kinds import Role
from roofline_model.models.model_shapes import MAX_LAYERS, LatentAttention, ModelShape

MAX_CONFIG_BYTES = 16 * 1024**2
"""Longest config.json that is read. Published ones of 3 MB list every module that is not quantised."""
SIDECAR = "hf_quant_config.json"
"""What ModelOpt writes beside a config: how it quantised the checkpoint."""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+|[\w.-]+")


def read_config(path: str | Path, *, name: str = "") -> ModelShape:
    """Return the shape that a config.json (or a folder holding one) describes.

    `name` is what the model is called; without it, the config's own `_name_or_path` or the folder's name.
    Raises `DefinitionError` naming file and field, `UnsupportedError` for what cannot be modelled.
    """
    file = user_path(path)
    if file.is_dir():
        file = file / "config.json"
    data = read_json(file)
    beside = file.with_name(SIDECAR)
    return shape_from_config(
        data,
        name=name or own_name(data, file),
        where=f"model config {file}",
        sidecar=read_json(beside) if beside.is_file() else None,
    )


def read_json(file: Path) -> Mapping[str, Any]:
    """Return the fields of a model's JSON file. Raises `DefinitionError` for one that holds no object."""
    text = read_definition_text(
        file, "model config", fix="give the path of a Hugging Face config.json", most_bytes=MAX_CONFIG_BYTES
    )
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"model config {file} cannot be read as JSON: {error}") from None
    if not isinstance(data, dict):
        raise DefinitionError(f"model config {file} must be a JSON object with architectures, hidden_size, …")
    return data


def shape_from_config(
    data: Mapping[str, Any], *, name: str, where: str = "model config", sidecar: Mapping[str, Any] | None = None
) -> ModelShape:
    """Return the shape that the parsed config `data` describes; errors begin with `where`. `sidecar`: the parsed
    hf_quant_config.json beside it, which wins over what the config says of formats.
    """
    architecture = architecture_of(data, where)
    inner = data.get("text_config")
    # A model with a vision tower keeps its decoder's fields one level down.
    merged = {**data, **inner} if isinstance(inner, dict) else dict(data)
    config = Config(merged, architecture.defaults, where)
    heads, layers = config.size("num_attention_heads"), config.size("num_hidden_layers")
    if layers > MAX_LAYERS:
        raise DefinitionError(f"{where}: num_hidden_layers must be at most {MAX_LAYERS:,}, got {layers}")
    hidden = config.size("hidden_size")
    experts = architecture.experts(config)
    latent = _latent(config) if architecture.is_latent else None
    values: dict[str, Any] = {
        "layer_count": layers,
        "hidden_size": hidden,
        "query_heads": heads,
        "kv_heads": config.optional_size("num_key_value_heads") or heads,
        "head_dim": latent.query_dim if latent else _head_dim(config, hidden, heads),
        "ffn_size": 0 if experts and not experts.dense_layer_count else config.size("intermediate_size"),
        "vocab_size": config.size("vocab_size"),
        "max_context_size": config.size("max_position_embeddings"),
        "activation": config.text("hidden_act", "hidden_activation"),
        "has_tied_embedding": config.flag("tie_word_embeddings"),
        "rotary_ratio": config.ratio("partial_rotary_factor"),
        "experts": experts,
        "latent": latent,
        **architecture.biases(config),
        **architecture.fixed,
    }
    window, pattern = architecture.windows(config, values["layer_count"], values["max_context_size"])
    values |= {"window_size": window, "window_pattern": pattern, **_formats(data, config, sidecar, name)}
    try:
        return ModelShape(name=name, source=where, **values)
    except InvalidValueError as error:
        raise DefinitionError(f"{where}: {_in_config_words(str(error).removeprefix(f'{name}: '))}") from None


def cached_config(model_id: str, cache: Path | None = None) -> Path | None:
    """Return the config.json of a checkpoint that the Hugging Face hub client has downloaded, or None.

    Looks where the client does: HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub; the revision is the one
    `refs/main` names, else the newest snapshot that has the file.
    """
    if not _HUB_ID.fullmatch(model_id) or ".." in model_id:
        return None
    root = (cache or hub_cache()) / f"models--{model_id.replace('/', '--')}"
    try:
        main = root / "refs" / "main"
        if main.is_file():
            named = root / "snapshots" / main.read_text(encoding="utf-8").strip() / "config.json"
            if named.is_file():
                return named
        files = [file for file in root.glob("snapshots/*/config.json") if file.is_file()]
        return max(files, key=lambda file: file.stat().st_mtime) if files else None
    except (OSError, ValueError):
        return None


def hub_cache() -> Path:
    """Return the folder in which the Hugging Face hub client keeps what it downloaded."""
    for variable, below in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if os.environ.get(variable):
            return user_path(os.environ[variable]) / below
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface" / "hub"


def own_name(data: Mapping[str, Any], file: Path) -> str:
    """Return what a config calls its model, else the name of its folder or file."""
    given = data.get("_name_or_path")
    if isinstance(given, str) and given and not Path(given).is_absolute():
        return shortened(given)
    return file.parent.name if file.name == "config.json" and file.parent.name else file.stem


def _head_dim(config: Config, hidden: int, heads: int) -> int:
    given = config.optional_size("head_dim")
    if given is not None:
        return given
    if hidden % heads:
        raise DefinitionError(
            f"{config.where}: head_dim is missing and hidden_size {hidden} is not a multiple of num_attention_heads "
            f"{heads}; add head_dim"
        )
    return hidden // heads


def _latent(config: Config) -> LatentAttention:
    return LatentAttention(
        kv_rank=config.size("kv_lora_rank"),
        nope_dim=config.size("qk_nope_head_dim"),
        rope_dim=config.size("qk_rope_head_dim"),
        value_dim=config.size("v_head_dim"),
        query_rank=config.optional_size("q_lora_rank"),
    )


# torch's names of the formats a checkpoint's unquantised tensors are stored in.
_DTYPES = {"bfloat16": "BF16", "float16": "FP16", "float32": "FP32", "float64": "FP64"}


def _formats(
    data: Mapping[str, Any], config: Config, sidecar: Mapping[str, Any] | None, name: str
) -> dict[str, str | tuple[str, ...] | None]:
    """Return the checkpoint's formats. A quantisation that we cannot name gives None, never a guess."""
    dtype = config.values.get("dtype", config.values.get("torch_dtype"))
    wide = _DTYPES.get(str(dtype).removeprefix("torch."))
    named_wide = wide or "BF16"
    is_quantised = any(isinstance(config.values.get(key), dict) for key in ("quantization_config", "quantization"))
    if not is_quantised and sidecar is None:
        return {"wide_format": named_wide, "weight_format": wide}
    try:
        decoder = decoder_from_config(data, name=name, where=config.where)
        stored = checkpoint_formats(data, sidecar, decoder, where=config.where)
    except UnsupportedError:
        return {"wide_format": named_wide, "weight_format": None}
    present = {matrix.role for matrix in decoder.matrices()}
    return {"wide_format": named_wide, **_plan_of(stored, present, named_wide)}


_GROUPS: Mapping[Role, str] = {
    "ffn": "ffn",
    "attention": "attention",
    "shared_expert": "shared_experts",
    "expert": "experts",
}
"""Role → what a plan of formats calls its parts; the first that is quantised gives the plan its base."""


def _plan_of(
    stored: CheckpointFormats, present: Collection[Role], wide: str
) -> dict[str, str | tuple[str, ...] | None]:
    """Return the formats of roles as a base and exceptions. Quantised experts alone are an exception from 16 bit."""

    def formats_of(own: RoleFormat | None) -> tuple[str, str]:
        if own is None:
            return wide, wide
        return own.weights, wide if own.activations == "BF16" else own.activations

    base = next((stored.roles[role] for role in _GROUPS if role in stored.roles and role != "expert"), None)
    weights, activations = formats_of(base)
    exceptions: list[str] = []
    for role, group in _GROUPS.items():
        own = stored.roles.get(role)
        if role in present and formats_of(own) != (weights, activations):
            exceptions.append(f"{group}={'.'.join(formats_of(own))}")
        if own is not None:
            exceptions += [f"{part}={wide}.{wide}" for part in own.wide_parts]
    usual = weights if weights in ("FP8_E4M3", "NVFP4") else wide
    return {
        "weight_format": weights,
        "activation_format": None if activations == usual else activations,
        "cache_format": stored.cache,
        "format_exceptions": tuple(exceptions),
    }


_WORDS = {
    "query_heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "layer_count": "num_hidden_layers",
    "ffn_size": "intermediate_size",
    "max_context_size": "max_position_embeddings",
    "window_size": "sliding_window",
    "experts.expert_count": "number of experts",
    "experts.active_count": "num_experts_per_tok",
}


def _in_config_words(message: str) -> str:
    """Return a message about a `ModelShape` in the words of the file the user has before them."""
    for ours, theirs in _WORDS.items():
        message = message.replace(ours, theirs)
    return message


def supported_architectures() -> list[str]:
    """Return the architecture names (`architectures` in config.json) that can be read."""
    return sorted(ARCHITECTURES)
