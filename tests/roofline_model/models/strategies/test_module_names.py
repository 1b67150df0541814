from __future__ import annotations

import pytest

from roofline_model.core.errors import UnsupportedError
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.module_names import (
    ROLES,
    layer_role,
    module_formats,
    operators_of_module,
    strategy_layer_plan,
)
from roofline_model.models.strategies.strategies import create_layerwise_gradient, get_strategy


@pytest.mark.parametrize(
    ("name", "operators", "layer"),
    [
        ("model.layers.3.self_attn.q_proj", "q_proj", 3),
        ("model.layers.31.mlp.down_proj", "ffn_down", 31),
        ("model.layers.0.mlp.gate_up_proj", "ffn_gate ffn_up", 0),
        ("model.layers.0.self_attn.qkv_proj", "q_proj k_proj v_proj", 0),
        ("model.layers.2.self_attn.dense", "o_proj", 2),  # Phi-2
        ("model.layers.2.mlp.fc1", "ffn_up", 2),
        ("model.decoder.layers.7.fc2", "ffn_down", 7),  # OPT
        ("model.decoder.layers.7.self_attn.out_proj", "o_proj", 7),
        ("transformer.h.5.attn.c_proj", "o_proj", 5),  # GPT-2
        ("transformer.h.5.mlp.c_proj", "ffn_down", 5),
        ("transformer.h.5.attn.c_attn", "q_proj k_proj v_proj", 5),
        ("transformer.h.1.self_attention.query_key_value", "q_proj k_proj v_proj", 1),  # Falcon
        ("gpt_neox.layers.4.attention.dense", "o_proj", 4),
        ("gpt_neox.layers.4.mlp.dense_4h_to_h", "ffn_down", 4),
        ("transformer.blocks.4.attn.Wqkv", "q_proj k_proj v_proj", 4),  # MPT
        ("model.layers.1.block_sparse_moe.experts.6.w2", "ffn_down", 1),  # Mixtral
        ("model.layers.1.mlp.experts.6.up_proj", "ffn_up", 1),
        ("model.layers.1.self_attn.kv_b_proj", "k_proj v_proj", 1),  # DeepSeek
        ("encoder.layer.5.attention.self.key", "k_proj", 5),  # BERT
        ("encoder.layer.5.attention.output.dense", "o_proj", 5),
        ("encoder.layer.5.intermediate.dense", "ffn_up", 5),
        ("encoder.layer.5.output.dense", "ffn_down", 5),
        ("lm_head", "embeddings", None),
        ("model.embed_tokens", "embeddings", None),
        ("model.layers.1.mlp.gate", "", 1),  # a router
        ("model.layers.1.input_layernorm", "", 1),
        ("backbone.layers.3.mixer.q_proj", "q_proj", 3),  # outside a block that says attention
        ("rwkv.blocks.2.feed_forward.key", "", 2),  # not attention's key
        ("encoder.block.4.layer.1.DenseReluDense.wo", "ffn_down", 4),  # T5
        ("layers.4.attention.wo", "o_proj", 4),
        ("layers.4.c_proj", "", 4),  # either
        ("classifier", "", None),
        ("", "", None),
        ("model.layers.99999999999.self_attn.q_proj", "", None),
    ],
)
def test_names_of_the_families(name: str, operators: str, layer: int | None) -> None:
    operators_found, where = operators_of_module(name)
    assert [operator.value for operator in operators_found] == operators.split()
    assert where == layer


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("q_proj", "qkv_proj"),  # a module alone, outside any layer
        ("attn.c_attn", "qkv_proj"),
        ("model.layers.1.self_attn.kv_a_proj_with_mqa", "qkv_proj"),
        ("self_attention.dense", "o_proj"),
        ("encoder.layer.5.output.dense", "ffn"),
        ("mlp.experts.6.w2", "ffn"),
        ("transformer.blocks.4.attn.Wqkv", "qkv_proj"),
        ("model.layers.1.mlp.router", "router"),
        ("model.layers.1.block_sparse_moe.gate", "router"),
        ("embed_out", "lm_head"),
        ("model.embed_tokens", None),  # embeddings, but no product
        ("rwkv.blocks.2.feed_forward.key", None),
        ("c_proj", None),
        ("dense", None),
        ("pooler.dense", None),
        ("", None),
    ],
)
def test_roles_of_linears(name: str, role: str | None) -> None:
    assert layer_role(name) == role
    assert role is None or role in ROLES


def test_a_strategy_by_module() -> None:
    names = [f"model.layers.{i}.{leaf}" for i in (0, 31) for leaf in ("self_attn.q_proj", "mlp.gate", "mlp.up_proj")]
    assert strategy_layer_plan(create_layerwise_gradient(32), [*names, "lm_head"]) == {
        "model.layers.0.self_attn.q_proj": "FP16",
        "model.layers.0.mlp.up_proj": "FP16",
        "model.layers.31.self_attn.q_proj": "NVFP4.FP16",
        "model.layers.31.mlp.up_proj": "NVFP4.FP16",
        "lm_head": "FP16",
    }
    assert module_formats(get_strategy("fp8_balanced"), "model.norm") is None
    assert strategy_layer_plan(get_strategy("fp8_balanced"), names[:1]) == {names[0]: "FP8_E4M3.FP8_E4M3"}


def test_a_fused_matrix_needs_one_format() -> None:
    config = MixedPrecisionConfig("mine", "", {"q_proj": "FP8", "k_proj": "INT8", "v_proj": "FP8"})
    with pytest.raises(UnsupportedError, match=r"qkv_proj.*q_proj=FP8_E4M3.FP16, k_proj=INT8.FP16"):
        module_formats(config, "model.layers.0.self_attn.qkv_proj")
