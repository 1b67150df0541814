"""Read a decoder as a list of layers from its Hugging Face config.json, by the fields that are there, not by class.

Source of the field names: the configuration classes of transformers 5.23 and those that publishers ship with their
checkpoints (Nemotron-H, Kimi Linear, MiniMax, MiMo, Step). What has no layer kind here is refused by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roofline_model.core.definition_text import reading_fields
from roofline_model.core.errors import DefinitionError, UnsupportedError
from roofline_model.models.layer_kinds import (
    Attention,
    Decoder,
    FeedForward,
    Latent,
    LayerRun,
    Mixer,
    Recurrent,
    ShortConvolution,
)
from roofline_model.models.model_shapes import MAX_LAYERS

_WITHOUT_MODEL = {
    "compress_ratios": "compressed attention",
    "lru_width": "recurrent layers",
    "cross_attention_layers": "cross-attention layers",
    "attn_layer_period": "Mamba-1 layers",
    "attention_other_setting": "uneven layers",
    "engram_layer_ids": "n-gram embeddings",
    "altup_num_inputs": "AltUp layers",
}
"""Field → the part of a model that has no layer kind here."""
_ATTENTION_KINDS = (
    "full_attention",
    "sliding_attention",
    "chunked_attention",
    "attention",
    "deepseek_sparse_attention",
)
_INNER = ("text_config", "llm_config", "language_config")
"""Where a model with a vision tower keeps its decoder's fields."""
_GATED = ("muse_glimmer_text", "qwen3_next")
"""Kinds of models whose attention has an output gate that their config does not name."""
_UNGATED = ("apertus", "arcee", "nemotron")
"""Kinds of models whose feed-forward has one matrix before the activation."""


class _Fields:
    """The fields of one config, by any of the names that publishers give them."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        inner: Mapping[str, Any] = next((data[name] for name in _INNER if isinstance(data.get(name), Mapping)), {})
        self.all: dict[str, Any] = {**data, **inner}
        self.where = where

    def get(self, *names: str) -> Any:
        """Return the first of these that is set, or None; published files write null for "not used"."""
        return next((self.all[name] for name in names if self.all.get(name) is not None), None)

    def size(self, *names: str) -> int:
        """Return a size from 1."""
        return self._whole(names, 1)

    def size_or_zero(self, *names: str) -> int:
        """Return a size, 0 where none is given."""
        return self._whole(names, 0) if self.get(*names) is not None else 0

    def size_or_none(self, *names: str) -> int | None:
        """Return a size, None where none is given."""
        return self.size_or_zero(*names) or None

    def per_layer(self, name: str, layers: int) -> list[Any] | None:
        """Return a list with an entry for each layer; None without it."""
        entries = self.get(name)
        if entries is None:
            return None
        if not isinstance(entries, list) or len(entries) < layers:
            raise DefinitionError(f"{self.where}: {name} must list {layers} layers")
        return entries

    def _whole(self, names: Sequence[str], least: int) -> int:
        value = self.get(*names)
        if value is None:
            raise DefinitionError(f"{self.where}: field {names[0]!r} is missing")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**40:
            raise DefinitionError(
                f"{self.where}: {names[0]} must be a whole number from {least}, got {str(value)[:40]!r}"
            )
        return value


def decoder_from_config(data: Mapping[str, Any], *, name: str, where: str = "model config") -> Decoder:
    """Return the decoder that the parsed config.json `data` describes; errors begin with `where`.

    Raises `DefinitionError` for a field that is missing or contradicts another, `UnsupportedError` that names the part
    without a layer kind.
    """
    with reading_fields(where):
        return _decoder(_Fields(data, where), name)


def _decoder(fields: _Fields, name: str) -> Decoder:
    part = next((part for field, part in _WITHOUT_MODEL.items() if fields.get(field)), None)
    if part is not None:
        raise UnsupportedError(
            f"{fields.where}: no model here has {part}; the other layers alone would give a wrong answer"
        )
    if fields.get("hybrid_override_pattern") is not None or fields.get("layers_block_type") is not None:
        layers = _mixers_and_blocks(fields)
    elif fields.get("block_configs") is not None:
        layers = _searched_layers(fields)
    else:
        layers = _plain_layers(fields)
    runs = Counter(layers)
    tied = fields.get("tie_word_embeddings", "tie_embedding")
    return Decoder(
        name=name,
        hidden_size=fields.size("hidden_size"),
        vocab_size=fields.size("vocab_size"),
        layers=tuple(LayerRun(mixer, block, count) for (mixer, block), count in runs.items()),
        has_tied_embedding=bool(tied),
        has_post_norms=str(fields.get("model_type")).startswith("gemma"),
        per_layer_embedding_size=fields.size_or_zero("hidden_size_per_layer_input"),
    )


_Layer = tuple[Mixer | None, FeedForward | None]


def _layer_count(fields: _Fields) -> int:
    layers = fields.size("num_hidden_layers")
    if layers > MAX_LAYERS:
        raise DefinitionError(f"{fields.where}: num_hidden_layers must be at most {MAX_LAYERS:,}, got {layers}")
    return layers


def _plain_layers(fields: _Fields) -> list[_Layer]:
    layers = _layer_count(fields)
    mixer, block = _mixer_of(fields, layers), _block_of(fields, layers)
    return [(mixer(layer), block(layer)) for layer in range(layers)]


# --- mixers


def _mixer_of(fields: _Fields, layers: int) -> Callable[[int], Mixer]:
    """Return the function that gives the mixer of a layer."""
    kinds = fields.per_layer("layer_types", layers)
    interval = fields.size_or_zero("full_attention_interval")
    kimi = fields.get("linear_attn_config") or {}
    shared_from = layers - fields.size_or_zero("num_kv_shared_layers")
    index_kinds = fields.per_layer("indexer_types", layers)
    head_counts = fields.per_layer("num_attention_heads_per_layer", layers)
    full_layers = fields.get("full_attn_idxs")
    patterns = fields.per_layer("hybrid_layer_pattern", layers)

    def kind_of(layer: int) -> str:
        if kinds is not None:
            return str(kinds[layer])
        if layer + 1 in (kimi.get("kda_layers") or ()):
            return "linear_attention"
        if full_layers is not None:
            return "full_attention" if layer in full_layers else "conv"
        if interval:
            return "full_attention" if (layer + 1) % interval == 0 else "linear_attention"
        if patterns is not None:
            return "sliding_attention" if patterns[layer] else "full_attention"
        if fields.get("model_type") == "llama4_text":
            return "full_attention" if (layer + 1) % 4 == 0 else "chunked_attention"
        return (
            "full_attention"
            if not fields.get("sliding_window") or fields.get("use_sliding_window") is False
            else "sliding_attention"
        )

    def mixer(layer: int) -> Mixer:
        kind = kind_of(layer)
        if kind == "linear_attention":
            return _kimi_delta(fields, kimi) if kimi else _gated_delta(fields)
        if kind in ("conv", "short_conv"):
            return ShortConvolution(fields.size("conv_dim", "hidden_size"), fields.size("conv_L_cache"))
        if kind in ("mamba", "mamba2"):
            return _mamba(fields)
        if kind not in _ATTENTION_KINDS:
            raise UnsupportedError(f"{fields.where}: layers of kind {kind[:40]!r} have no model here")
        if fields.get("kv_lora_rank"):
            return _latent(fields, has_own_index=index_kinds is None or index_kinds[layer] == "full")
        mixer = _attention(fields, kind, has_own_cache=layer < shared_from)
        return mixer if head_counts is None else replace(mixer, heads=head_counts[layer])

    return mixer


def _attention(fields: _Fields, kind: str, *, has_own_cache: bool) -> Attention:
    heads = fields.size("num_attention_heads")
    kv_heads = fields.size_or_zero("num_key_value_heads") or heads
    head = fields.size_or_zero("head_dim") or fields.size("hidden_size") // heads
    window = {
        "sliding_attention": fields.size_or_none("sliding_window"),
        "chunked_attention": fields.size_or_none("attention_chunk_size"),
    }.get(kind)
    key, value = head, fields.size_or_zero("v_head_dim") or head
    if window is not None and fields.get("swa_head_dim") is not None:
        heads, kv_heads = fields.size("swa_num_attention_heads"), fields.size("swa_num_key_value_heads")
        key, value = fields.size("swa_head_dim"), fields.size("swa_v_head_dim")
    is_global = window is None and fields.get("global_head_dim") is not None
    if is_global:
        key = value = fields.size("global_head_dim")
        kv_heads = fields.size_or_zero("num_global_key_value_heads") or kv_heads
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        key_dim=key,
        value_dim=value,
        window=window,
        has_gate=bool(fields.get("attn_output_gate", "attention_output_gate")) or fields.get("model_type") in _GATED,
        has_own_cache=has_own_cache,
        is_value_key=is_global and bool(fields.get("attention_k_eq_v")),
    )


def _latent(fields: _Fields, *, has_own_index: bool) -> Latent:
    return Latent(
        heads=fields.size("num_attention_heads"),
        query_rank=fields.size_or_zero("q_lora_rank"),
        kv_rank=fields.size("kv_lora_rank"),
        nope_dim=fields.size("qk_nope_head_dim"),
        rope_dim=fields.size_or_zero("qk_rope_head_dim"),
        value_dim=fields.size("v_head_dim"),
        has_gate=bool(fields.get("mla_use_output_gate")),
        index_heads=fields.size_or_zero("index_n_heads"),
        index_dim=fields.size_or_zero("index_head_dim"),
        index_top_count=fields.size_or_none("index_topk"),
        has_own_index=has_own_index,
    )


def _gated_delta(fields: _Fields) -> Recurrent:
    return Recurrent(
        kind="gated-delta",
        key_heads=fields.size("linear_num_key_heads"),
        value_heads=fields.size("linear_num_value_heads"),
        key_dim=fields.size("linear_key_head_dim"),
        value_dim=fields.size("linear_value_head_dim"),
        convolution_size=fields.size("linear_conv_kernel_dim"),
    )


def _kimi_delta(fields: _Fields, config: Mapping[str, Any]) -> Recurrent:
    own = _Fields(config, f"{fields.where}: linear_attn_config")
    heads, head = own.size("num_heads"), own.size("head_dim")
    return Recurrent("kimi-delta", heads, heads, head, head, own.size_or_zero("short_conv_kernel_size") or 4)


def _mamba(fields: _Fields) -> Recurrent:
    return Recurrent(
        kind="mamba2",
        key_heads=fields.size("n_groups", "mamba_n_groups"),
        value_heads=fields.size("mamba_num_heads", "mamba_n_heads"),
        key_dim=fields.size("ssm_state_size", "mamba_d_state"),
        value_dim=fields.size("mamba_head_dim", "mamba_d_head"),
        convolution_size=fields.size("conv_kernel", "mamba_d_conv"),
    )


# --- feed-forward blocks


def _block_of(fields: _Fields, layers: int) -> Callable[[int], FeedForward]:
    """Return the function that gives the feed-forward block of a layer."""
    experts = _experts(fields)
    dense = FeedForward(dense_size=_dense_size(fields), is_gated=fields.get("model_type") not in _UNGATED)
    first = fields.size_or_zero("num_dense_layers", "first_k_dense_replace", "moe_layer_start_index")
    kinds = fields.per_layer("mlp_layer_types", layers)
    every = fields.get("moe_layer_freq")
    step = fields.size_or_zero("interleave_moe_layer_step", "decoder_sparse_step") or 1
    dense_layers = fields.get("mlp_only_layers") or ()

    def has_experts(layer: int) -> bool:
        if kinds is not None:
            return bool(kinds[layer] == "sparse")
        if isinstance(every, list):
            return bool(every[layer])
        return layer >= first and (layer + 1) % step == 0 and layer not in dense_layers

    if experts is None and not dense.dense_size:
        raise DefinitionError(f"{fields.where}: field 'intermediate_size' is missing")
    return lambda layer: experts if experts is not None and has_experts(layer) else dense


def _dense_size(fields: _Fields) -> int:
    """Return the width of a dense feed-forward; LFM2's is two thirds of what its config says, rounded up (Lfm2MLP)."""
    size = fields.size_or_zero(
        "dense_intermediate_size", "intermediate_size_mlp", "block_ff_dim", "intermediate_size", "ffn_dim"
    )
    if not fields.get("block_auto_adjust_ff_dim"):
        return size
    multiple = fields.size("block_multiple_of")
    return -(-int((fields.get("block_ffn_dim_multiplier") or 1) * int(2 * size / 3)) // multiple) * multiple


def _experts(fields: _Fields) -> FeedForward | None:
    count = fields.size_or_zero("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    if not count:
        return None
    width = fields.size("moe_intermediate_size", "expert_intermediate_size", "intermediate_size")
    model_type = str(fields.get("model_type"))
    if model_type == "llama4_text":  # `intermediate_size` is an expert's there, and one expert is shared
        shared = width = fields.size("intermediate_size")
    else:
        shared = fields.size_or_zero(
            "shared_expert_intermediate_size", "share_expert_dim", "moe_shared_expert_intermediate_size"
        )
        shared = shared or fields.size_or_zero("shared_intermediate_size")
        shared = shared or width * fields.size_or_zero(
            "n_shared_experts", "num_shared_experts", "moe_num_shared_experts"
        )
    return FeedForward(
        dense_size=fields.size("intermediate_size") if model_type == "gemma4_text" else 0,
        expert_count=count,
        active_count=fields.size(
            "num_experts_per_tok", "experts_per_token", "top_k_experts", "num_experts_per_token", "moe_k"
        ),
        expert_size=width,
        expert_input_size=fields.size_or_none("moe_latent_size", "routed_expert_hidden_size"),
        shared_size=shared,
        has_shared_gate=model_type.startswith(("qwen2_moe", "qwen3_next", "qwen3_5")),
        is_gated=fields.get("mlp_hidden_act") != "relu2",
    )


# --- families whose config lists the layers in a way of its own


def _mixers_and_blocks(fields: _Fields) -> list[_Layer]:
    """Return the layers of Nemotron-H and of hybrids with Mamba2: each is a mixer or a feed-forward block alone."""
    letters = fields.get("hybrid_override_pattern")
    names = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
    kinds = [names.get(letter, letter) for letter in letters] if letters else list(fields.get("layers_block_type"))
    plain = fields.get("mlp_hidden_act") == "relu2"
    head = fields.size_or_zero("attention_head_dim", "head_dim") or fields.size("hidden_size") // fields.size(
        "num_attention_heads"
    )
    parts: dict[str, Callable[[], _Layer]] = {
        "mamba": lambda: (_mamba(fields), None),
        "attention": lambda: (
            Attention(fields.size("num_attention_heads"), fields.size("num_key_value_heads"), head, head),
            None,
        ),
        "mlp": lambda: (None, FeedForward(dense_size=fields.size("intermediate_size"), is_gated=not plain)),
        "moe": lambda: (None, _experts(fields)),
    }
    unknown = next((kind for kind in kinds if kind not in parts), None)
    if unknown is not None:
        raise UnsupportedError(f"{fields.where}: layers of kind {str(unknown)[:40]!r} have no model here")
    made = {kind: parts[kind]() for kind in dict.fromkeys(kinds)}
    return [made[kind] for kind in kinds]


def _searched_layers(fields: _Fields) -> list[_Layer]:
    """Return the layers of a model whose blocks were searched one by one (Llama-Nemotron): some have no attention."""
    heads, hidden = fields.size("num_attention_heads"), fields.size("hidden_size")
    head = fields.size_or_zero("head_dim") or hidden // heads
    layers: list[_Layer] = []
    for block in fields.per_layer("block_configs", _layer_count(fields)) or ():
        try:
            attention, ffn = block["attention"], block["ffn"]
            mixer = (
                None if attention.get("no_op") else Attention(heads, heads // attention["n_heads_in_group"], head, head)
            )
            # As the publisher's code rounds it: two thirds of the multiple, up to 256.
            size = 0 if ffn.get("no_op") else -(-int(2 * ffn["ffn_mult"] * hidden / 3) // 256) * 256
        except (KeyError, TypeError, ZeroDivisionError):
            raise DefinitionError(f"{fields.where}: block_configs must give attention and ffn of each layer") from None
        layers.append((mixer, FeedForward(dense_size=size) if size else None))
    return layers
