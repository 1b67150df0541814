"""Parts of a published config.json that nothing here models, found by their fields, whatever class the file names.

Priced as attention or as a dense FFN they would give an answer that looks right: four times the cache for a model of
which every fourth layer has one. Source of the field names: the configuration classes of transformers 5.23 and those
that publishers ship with their checkpoints (Qwen3-Next and 3.5, Nemotron-H, Jamba, Bamba, Falcon-H1, LFM2,
RecurrentGemma, Kimi Linear, MiniMax, DeepSeek V3.2 and V4, GLM 5, MiMo V2, Gemma 3n and 4, Llama 4, DeciLM).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

LATENT, EXPERTS = "latent attention", "experts"
SHARED_EXPERTS, DENSE_FIRST = "shared experts", "leading dense layers"

_FIELDS: dict[str, str] = {
    "linear attention": r"full_attention_interval|linear_(attn|conv|head|key|num|value).*|kda_.+|gdn_.+|attn_type_list|layer_group_size",
    "state-space layers": r"(.*_)?(mamba|ssm)(_.+)?|hybrid_override_pattern|d_state|state_size|d_conv"
    r"|attn_layer_(indices|period|offset)|time_step_rank",
    "convolution layers": r"conv_kernel|conv_L_cache|short_conv.*|full_attn_idxs",
    "recurrent layers": r"lru_width|rwkv.*",
    "sparse attention": r"index_(topk|n_heads|head_dim)|compress_ratios|(use_)?sparse_.+|moba_.+|nsa_.+",
    "chunked attention": r"attention_chunk_size",
    "cross-attention layers": r"cross_attention_layers|is_encoder_decoder",
    "uneven layers": r"block_configs|global_head_dim|num_global_key_value_heads|swa_.+_heads|swa_head_dim"
    r"|hybrid_layer_pattern|attention_other_setting",
    "shared caches": r"num_kv_shared_layers|attention_k_eq_v|kv_source_layer_ids",
    "gated attention": r"attn_output_gate|attention_output_gate|mla_use_output_gate",
    "hyper-connections": r"hc_mult",
    "per-layer embeddings": r"hidden_size_per_layer_input|engram_.+",
    "latent experts": r"moe_latent_size|routed_expert_hidden_size",
    "interleaved experts": r"interleave_moe_layer_step|expert_layer_(period|offset)",
    LATENT: r"kv_lora_rank",
    EXPERTS: r"num_(local_|routed_)?experts|n_routed_experts|moe_num_experts",
    SHARED_EXPERTS: r"n_shared_experts|num_shared_experts|shared_expert_intermediate_size|share_expert_dim",
    DENSE_FIRST: r"first_k_dense_replace",
}
"""Part → the fields that say a model has it."""
_PATTERNS = {part: re.compile(pattern) for part, pattern in _FIELDS.items()}
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "interleave_moe_layer_step": (1,),
    "expert_layer_offset": (0,),
    "expert_layer_period": (1,),
}
_LAYER_KINDS = ("layer_types", "layers_block_type", "layer_block_type", "block_types", "_block_types")
_MODELLED_KINDS = ("full_attention", "sliding_attention", "attention")
_KINDS = {"linear": "linear attention", "mamba": "state-space layers", "conv": "convolution layers", "recurrent": "recurrent layers",
          "sparse": "sparse attention", "chunked": "chunked attention"}  # fmt: skip
# Other parts of a model with pictures or sound, and lists of modules; none is a layer of the decoder.
_ELSEWHERE = re.compile(r".*(vision|visual|image|video|audio|speech|quantization|compression).*|auto_map|.*_plan")
_MAX_DEPTH = 20


def unmodelled_parts(config: Mapping[str, Any], modelled: Collection[str]) -> dict[str, str]:
    """Return each part of a parsed config.json that has no model → the field that shows it, the costliest first.

    `modelled` are those of `LATENT`, `EXPERTS`, `SHARED_EXPERTS` and `DENSE_FIRST` that the class has.
    """
    parts: dict[str, str] = {}
    for path, name, value in _fields(config, "", 0):
        for kind in value if name in _LAYER_KINDS and isinstance(value, list) else ():
            if isinstance(kind, str) and kind not in _MODELLED_KINDS:
                part = next((part for word, part in _KINDS.items() if word in kind), f"layers of kind {kind[:40]!r}")
                parts.setdefault(part, path)
        part = next((part for part, pattern in _PATTERNS.items() if pattern.fullmatch(name)), "")
        if part and part not in modelled and _is_used(name, value):
            parts.setdefault(part, path)
    order = [*_PATTERNS]
    return dict(sorted(parts.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def _fields(config: Mapping[str, Any], above: str, depth: int) -> Iterator[tuple[str, str, Any]]:
    for key, value in config.items():
        name = str(key)  # transformers' id2label has numbers
        if _ELSEWHERE.fullmatch(name) or name.endswith("dtype"):
            continue
        yield above + name, name, value
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            yield from _fields(value, f"{above}{name}.", depth + 1)


def _is_used(name: str, value: Any) -> bool:
    """Return whether a field says that the part is there: published files write 0, null, false or [] for "none"."""
    if name in _NEUTRAL:
        return value not in (None, *_NEUTRAL[name])
    if name == "attn_type_list":  # 1 is full attention
        return isinstance(value, list) and any(kind != 1 for kind in value)
    return any(value) if isinstance(value, list) else bool(value)
