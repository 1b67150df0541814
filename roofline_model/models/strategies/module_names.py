"""From the name of a module in a Hugging Face model to the operators of a strategy and the part of a decoder it is.

Names as the families of `transformers` use them: Llama, Mistral, Qwen, Gemma, Phi, DeepSeek, GPT-NeoX, OPT, Falcon,
MPT, GPT-2, BERT.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import get_format
from roofline_model.models.format_plan import PartFormats
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.operator_type import OperatorType
from roofline_model.operators.operand_formats import is_wide_float

ROLES = ("qkv_proj", "o_proj", "ffn", "router", "lm_head")
"""What `layer_role` answers: parts that `predict model --set PART=FORMAT` knows, too."""

_Q, _K, _V, _O = OperatorType.Q_PROJ, OperatorType.K_PROJ, OperatorType.V_PROJ, OperatorType.O_PROJ
_GATE, _UP, _DOWN = OperatorType.FFN_GATE, OperatorType.FFN_UP, OperatorType.FFN_DOWN
_ROLE_OF = {**dict.fromkeys((_Q, _K, _V), "qkv_proj"), _O: "o_proj", **dict.fromkeys((_GATE, _UP, _DOWN), "ffn")}
_GROUP_OF = {**_ROLE_OF, _GATE: "gate_up_proj", _UP: "gate_up_proj", _DOWN: "down_proj"}
"""Operator → the group of the search whose format it shares: products that engines run as one."""

_ATTENTION = {
    "q_proj": (_Q,), "k_proj": (_K,), "v_proj": (_V,), "o_proj": (_O,), "out_proj": (_O,), "dense": (_O,), "c_proj": (_O,),
    "wo": (_O,), "dense_attention": (_O,), "query": (_Q,), "key": (_K,), "value": (_V,),
    "qkv_proj": (_Q, _K, _V), "query_key_value": (_Q, _K, _V), "c_attn": (_Q, _K, _V), "wqkv": (_Q, _K, _V),
    "q_a_proj": (_Q,), "q_b_proj": (_Q,), "kv_a_proj_with_mqa": (_K, _V), "kv_b_proj": (_K, _V),
}  # fmt: skip
_FFN = {
    "gate_proj": (_GATE,), "up_proj": (_UP,), "down_proj": (_DOWN,), "gate_up_proj": (_GATE, _UP),
    "w1": (_GATE,), "w3": (_UP,), "w2": (_DOWN,), "fc1": (_UP,), "fc2": (_DOWN,), "wo": (_DOWN,),
    "dense_h_to_4h": (_UP,), "dense_4h_to_h": (_DOWN,), "c_fc": (_UP,), "c_proj": (_DOWN,),
}  # fmt: skip
_BERT_FFN = {"intermediate": (_UP,), "output": (_DOWN,)}
"""Parent of a module called `dense`."""
_HEADS = ("lm_head", "embed_out")
_EMBEDDINGS = ("embed_tokens", "wte", "embed_in")
_ROUTERS = ("router", "gate")
_LAYER = re.compile(r"(?:^|\.)(?:layers?|h|blocks?)\.(\d+)\.(.+)$")
_ATTENTION_WORDS = ("attn", "attention")
_FFN_WORDS = ("mlp", "ffn", "feed_forward", "expert", "moe")


def operators_of_module(name: str) -> tuple[tuple[OperatorType, ...], int | None]:
    """Return the operators a module computes, and its layer; no operators for a module that is none of the thirteen.

    `model.layers.3.mlp.gate_up_proj` → gate and up, 3; `lm_head` → embeddings, None.
    """
    leaf = name.rpartition(".")[2].lower()
    if leaf in (*_HEADS, *_EMBEDDINGS):
        return (OperatorType.EMBEDDINGS,), None
    match = _LAYER.search(name)
    if match is None or len(match[1]) > 5:
        return (), None
    return _operators_in_layer(match[2]), int(match[1])


def layer_role(name: str) -> str | None:
    """Return which of `ROLES` a Linear's full name says it is, or None for a name nobody here knows.

    A name outside numbered layers is read as one inside: `q_proj` alone is enough.
    """
    leaf = name.rpartition(".")[2].lower()
    if leaf in _HEADS:
        return "lm_head"
    match = _LAYER.search(name)
    operators = _operators_in_layer(name if match is None else match[2])
    if operators:
        return _ROLE_OF[operators[0]]
    return "router" if leaf in _ROUTERS else None


def layer_group(name: str) -> str | None:
    """Return the group of the search that a Linear belongs to, by its full name: `layers.3.qkv_proj`, `lm_head`; None
    for others.
    """
    operators, layer = operators_of_module(name)
    if operators == (OperatorType.EMBEDDINGS,):
        return "lm_head" if layer_role(name) == "lm_head" else None
    if not operators or layer is None:
        return None
    return f"layers.{layer}.{_GROUP_OF[operators[0]]}"


def _operators_in_layer(path: str) -> tuple[OperatorType, ...]:
    """Return the operators of a module by its path inside a layer, none for an unknown one."""
    *blocks, leaf = path.lower().split(".")
    is_attention = _names_one_of(_ATTENTION_WORDS, blocks)
    if leaf == "dense" and not is_attention:
        return _BERT_FFN.get(blocks[-1], ()) if blocks else ()
    # The block decides between names that both use (GPT-2's c_proj); some stand outside either (OPT's fc1).
    if leaf in _ATTENTION and leaf in _FFN and not blocks:
        return ()
    if is_attention or (leaf not in _FFN and not _names_one_of(_FFN_WORDS, blocks)):
        return _ATTENTION.get(leaf, ())
    return _FFN.get(leaf, ())


def _names_one_of(words: Sequence[str], blocks: Sequence[str]) -> bool:
    return any(word in block for block in blocks for word in words)


def module_formats(config: MixedPrecisionConfig, name: str) -> PartFormats | None:
    """Return the formats a strategy gives a module, or None for a module that no operator names.

    Raises `UnsupportedError` when one module computes operators of different formats (a fused qkv).
    """
    operators, layer = operators_of_module(name)
    formats = [config.formats(operator, layer) for operator in operators]
    if not formats:
        return None
    if len(set(formats)) > 1:
        listed = ", ".join(f"{operator.value}={pair.label}" for operator, pair in zip(operators, formats, strict=True))
        raise UnsupportedError(f"{config.name}: {name} is one matrix, but {listed}; give them one format")
    return formats[0]


def strategy_layer_plan(config: MixedPrecisionConfig, names: Iterable[str]) -> dict[str, str]:
    """Return name → `WEIGHT.ACTIVATION` for the modules that a strategy names, others left out.

    One format alone says that a module is not quantised (`FP16`); a quantised one always has two, because torchao's
    plans read `INT8` alone as weight-only.
    """
    formats_by_module = {name: module_formats(config, name) for name in names}
    return {name: spelled_formats(formats) for name, formats in formats_by_module.items() if formats is not None}


def spelled_formats(formats: PartFormats) -> str:
    """Return formats as torchao's plans read them: one for a wide layer, always both for a narrow one."""
    if is_wide_float(get_format(formats.weights)):
        return formats.label
    return f"{formats.weights}.{formats.activations}"
