"""Read the shape of a decoder model from its Hugging Face config.json. Local files only: nothing is downloaded.

What a config leaves out is taken from its architecture only where the architecture's own class does so by rule (kv
heads = query heads, head width = hidden / heads, tied embeddings of Gemma). Everything else that is missing is an error
that names the field. Source of field names and rules: the configuration classes of transformers 5.23.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roofline_model.core.definition_text import read_definition_text, shortened, user_path
from roofline_model.core.errors import DefinitionError, InvalidValueError
from roofline_model.models.hf.architectures import ARCHITECTURES, Config, architecture_of
from roofline_model.models.model_shapes import MAX_LAYERS, Experts, LatentAttention, ModelShape

MAX_CONFIG_BYTES = 16 * 1024**2
"""Longest config.json that is read. Published ones of 3 MB list every module that is not quantised."""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+|[\w.-]+")


def read_config(path: str | Path, *, name: str = "") -> ModelShape:
    """Return the shape that a config.json (or a folder holding one) describes.

    `name` is what the model is called; without it, the config's own `_name_or_path` or the folder's name.
    Raises `DefinitionError` naming file and field, `UnsupportedError` for what cannot be modelled.
    """
    file = user_path(path)
    if file.is_dir():
        file = file / "config.json"
    text = read_definition_text(
        file, "model config", fix="give the path of a Hugging Face config.json", most_bytes=MAX_CONFIG_BYTES
    )
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"model config {file} cannot be read as JSON: {error}") from None
    if not isinstance(data, dict):
        raise DefinitionError(f"model config {file} must be a JSON object with architectures, hidden_size, …")
    return shape_from_config(data, name=name or _own_name(data, file), where=f"model config {file}")


def shape_from_config(data: Mapping[str, Any], *, name: str, where: str = "model config") -> ModelShape:
    """Return the shape that the parsed config `data` describes; errors begin with `where`."""
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
    values |= {"window_size": window, "window_pattern": pattern, **_formats(config, experts)}
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


def _own_name(data: Mapping[str, Any], file: Path) -> str:
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


def _formats(config: Config, experts: Experts | None) -> dict[str, str | None]:
    """Return the checkpoint's formats. A quantisation that we cannot name gives None, never a guess."""
    dtype = config.values.get("dtype", config.values.get("torch_dtype"))
    name = str(dtype).removeprefix("torch.") if dtype is not None else None
    wide = _DTYPES.get(name or "")
    scheme = config.values.get("quantization_config")
    if not isinstance(scheme, dict):
        return {"wide_format": wide or "BF16", "weight_format": wide}
    weight = _quantized(scheme)
    if weight == "MXFP4" and experts is not None:  # gpt-oss: only the experts are quantised
        return {"wide_format": wide or "BF16", "weight_format": wide or "BF16", "expert_format": "MXFP4"}
    return {"wide_format": wide or "BF16", "weight_format": weight}


def _quantized(scheme: Mapping[str, Any]) -> str | None:
    """Return the weight format of a `quantization_config`, or None where its method is not one of those known here."""
    method = str(scheme.get("quant_method", "")).lower()
    if method in ("gptq", "awq"):
        return {4: "INT4", 8: "INT8", 2: "INT2"}.get(_whole(scheme.get("bits", scheme.get("w_bit"))))
    if method == "bitsandbytes":
        if scheme.get("load_in_4bit"):
            return "NF4" if scheme.get("bnb_4bit_quant_type", "fp4") == "nf4" else None
        return "INT8" if scheme.get("load_in_8bit") else None
    if method == "modelopt":
        return {"FP8": "FP8_E4M3", "NVFP4": "NVFP4"}.get(str(scheme.get("quant_algo", "")).upper())
    if method == "compressed-tensors":
        return _compressed(scheme)
    return {"fp8": "FP8_E4M3", "fbgemm_fp8": "FP8_E4M3", "mxfp4": "MXFP4"}.get(method)


def _compressed(scheme: Mapping[str, Any]) -> str | None:
    groups = scheme.get("config_groups")
    schemes = set()
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict):
            return None
        kind, bits = str(weights.get("type")), _whole(weights.get("num_bits"))
        four = {16: "NVFP4", 32: "MXFP4"}.get(_whole(weights.get("group_size")))
        schemes.add(
            {("float", 8): "FP8_E4M3", ("int", 8): "INT8", ("int", 4): "INT4", ("float", 4): four}.get((kind, bits))
        )
    return schemes.pop() if len(schemes) == 1 else None


def _whole(value: object) -> int:
    """Return a whole number, or 0 for anything else."""
    return value if isinstance(value, int) else 0


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
