"""What an engine loads: a model as its published checkpoint stores it, or as checkpoints of a format usually do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from roofline_model.chips.hardware import Device
from roofline_model.core.finding import finding, unsupported
from roofline_model.engines.amounts import StoredModel, checkpoint_roles, gguf_roles, mlx_roles, stored_format
from roofline_model.engines.engine import Engine, EngineConstants
from roofline_model.formats.catalog import get_format
from roofline_model.formats.gguf import MIXES
from roofline_model.models.decoders import Checkpoint, plain_name
from roofline_model.models.layer_kinds import Role

CACHE_16_BIT, CACHE_8_BIT = 2.0, 1.0
"""Bytes of a cached element."""
_QUANTISED: tuple[Role, ...] = ("attention", "linear", "indexer", "ffn", "shared_expert", "expert")
_NVFP4_ROLES: Mapping[str, tuple[Role, ...]] = {
    "gemma-4-26b": ("expert",),
    "nemotron": ("linear", "ffn", "shared_expert", "expert"),
    "qwen3.5": ("attention", "ffn", "shared_expert", "expert"),
    "minimax": ("ffn", "shared_expert", "expert"),
    "glm": ("ffn", "shared_expert", "expert"),
    "deepseek": ("ffn", "shared_expert", "expert"),
}
"""Start of a model's name → what its published NVFP4 checkpoint quantises, by its hf_quant_config.json."""


_MLX_BITS: Mapping[str, int] = {"3BIT": 3, "4BIT": 4, "6BIT": 6, "8BIT": 8}
"""Integers of MLX by name → bits of a code."""


def format_key(name: str) -> str:
    """Return the key of a format of weights: of a GGUF mix its name without what quantisers add, of MLX's integers
    theirs, else the catalog's.

    Raises `UnknownNameError` for a name that is none of these.
    """
    if name.upper() in _MLX_BITS:
        return name.upper()
    mix = name.upper().removeprefix("UD-").replace("_XL", "_M")
    return mix if mix in MIXES and mix not in ("BF16", "F16") else get_format("FP16" if mix == "F16" else name).key


def fetched_weights(engine: Engine, published: str) -> str:
    """Return the format that an engine fetches where none is asked for: its default, but of makers that publish four
    bits those (gpt-oss).
    """
    is_narrow = get_format(published).element_bits <= 4
    return published if engine.default_weights is None or is_narrow else engine.default_weights


def stored_model(
    checkpoint: Checkpoint,
    weights: str,
    engine: Engine,
    constants: EngineConstants,
    device: Device,
    *,
    activations: str | None = None,
    cache_bytes: float | None = None,
    has_block_scales: bool | None = None,
) -> StoredModel:
    """Return a model with most weights in a format, as an engine runs it on a chip.

    `weights`: as `format_key` gives it. Left out, `activations` are what the engine multiplies that format in,
    `cache_bytes` those of the cache that the checkpoint asks for, `has_block_scales` what is usual. Raises
    `UnsupportedError` for a format that the engine does not load.
    """
    decoder, own = checkpoint.decoder, checkpoint.formats
    if weights not in engine.formats or (weights == "MXFP4" and decoder.experts is None):
        raise unsupported(
            finding("engine-excluded", engine.name, kind="format", weight_format=weights, formats=engine.formats)
        )
    if engine.stores_gguf and weights not in ("BF16", "FP16"):
        # llama-quantize leaves experts that a maker ships in MXFP4 as they are; "MXFP4" are those and the rest in Q8_0.
        experts = "MXFP4" if "MXFP4" in (weights, checkpoint.main_format) else None
        roles = gguf_roles(decoder, "Q8_0" if weights == "MXFP4" else weights, experts)
        return StoredModel(decoder, roles, cache_bytes or CACHE_16_BIT)
    if weights in _MLX_BITS:
        return StoredModel(decoder, mlx_roles(decoder, _MLX_BITS[weights]), cache_bytes or CACHE_16_BIT)
    if own is not None and any(each.weights == weights for each in own.roles.values()):
        roles = {
            role: replace(stored, multiplied_in=constants.multiplied_in(stored.multiplied_in, device))
            for role, stored in checkpoint_roles(own).items()
        }
        cache_bytes = cache_bytes or (CACHE_8_BIT if own.cache == "FP8_E4M3" else CACHE_16_BIT)
        return StoredModel(decoder, roles, cache_bytes, has_block_scales=own.has_block_scales)
    if weights in ("BF16", "FP16"):
        return StoredModel(decoder, {}, cache_bytes or CACHE_16_BIT)
    stored = stored_format(weights, activations or constants.multiplied_in(weights, device))
    quantised = dict.fromkeys(quantised_roles(weights, decoder.name), stored)
    is_block = weights == "FP8_E4M3" and decoder.experts is not None if has_block_scales is None else has_block_scales
    return StoredModel(decoder, quantised, cache_bytes or CACHE_16_BIT, has_block_scales=is_block)


def quantised_roles(weights: str, model: str) -> tuple[Role, ...]:
    """Return the roles that published checkpoints of a model store in a format."""
    if weights == "MXFP4":
        return ("expert",)
    if weights == "NVFP4":
        name = plain_name(model)
        return next((roles for start, roles in _NVFP4_ROLES.items() if name.startswith(start)), _QUANTISED)
    return _QUANTISED
