"""Which part of a decoder a Linear is, from its name: the parts that `predict model --set PART=FORMAT` knows, too.

Names are those of Hugging Face's decoder and encoder classes (Llama, Mistral, Qwen, Gemma, Phi, GPT-2, OPT, BERT).
"""

from __future__ import annotations

ROLES = ("qkv_proj", "o_proj", "ffn", "router", "lm_head")

_LAST_NAMES = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value", "c_attn", "wqkv", "query", "key", "value"),
    "o_proj": ("o_proj", "out_proj", "dense_attention", "wo"),
    "ffn": (
        "gate_proj", "up_proj", "down_proj", "gate_up_proj", "fc1", "fc2", "c_fc", "w1", "w2", "w3",
        "dense_h_to_4h", "dense_4h_to_h",
    ),
    "router": ("router", "gate"),
    "lm_head": ("lm_head", "embed_out"),
}  # fmt: skip
_ROLE_OF_LAST_NAME = {last: role for role, names in _LAST_NAMES.items() for last in names}

_ENDINGS = {
    "attention.output.dense": "o_proj",  # BERT: two layers are called `dense`, the name before tells them apart
    "attention.dense": "o_proj",
    "self_attn.dense": "o_proj",
    "self_attention.dense": "o_proj",
    "attn.c_proj": "o_proj",
    "intermediate.dense": "ffn",
    "output.dense": "ffn",
    "mlp.c_proj": "ffn",
}
"""Longer endings that decide where the last name alone does not; the first that fits holds."""


def layer_role(name: str) -> str | None:
    """Return the part of the decoder that a Linear's full name says it is, or None for a name nobody here knows."""
    for ending, role in _ENDINGS.items():
        if name == ending or name.endswith("." + ending):
            return role
    return _ROLE_OF_LAST_NAME.get(name.rpartition(".")[2])
