from __future__ import annotations

import pytest
import torch

pytest.importorskip("torchao")

from bench_cases.quantization import apply_plan, layer_role, plan_to_fqn_config
from bench_cases.quantization.plans.plans import resolve_plan
from bench_cases.quantization.survey import survey_linears
from roofline_model.core.errors import InvalidValueError, UnsupportedError


def test_a_plan_reaches_torchao_layer_by_layer(small_llama, token_ids):
    plan = {"ffn": "INT4", "qkv_proj": "INT8", "model.layers.1.mlp.down_proj": "INT8.INT8", "lm_head": "BF16"}
    result = apply_plan(small_llama, plan)
    became = {layer.name.removeprefix("model.layers."): layer.became for layer in result.layers}
    assert became["0.mlp.down_proj"] == "INT4"
    assert became["1.mlp.down_proj"] == "INT8.INT8"
    assert became["0.self_attn.v_proj"] == "INT8"
    assert became["0.self_attn.o_proj"] == became["lm_head"] == "BF16"
    assert result.layer("lm_head").requested == "BF16"
    assert result.layer("model.layers.0.self_attn.o_proj").requested == ""
    assert not result.fallbacks
    assert result.precision == "plan"
    kinds = {type(layer.weight).__name__ for layer in (small_llama.model.layers[1].mlp.down_proj, small_llama.lm_head)}
    assert kinds == {"Int8Tensor", "Parameter"}
    assert torch.isfinite(small_llama(token_ids).logits).all()


def test_the_strongest_key_wins(small_llama):
    sites = survey_linears(small_llama)
    plan = {
        "*": "INT8",
        "ffn": "INT4",
        r"re:.*\.1\..*": "MXFP8",
        r"re:.*gate_proj": "MXFP4",
        "model.layers.1.mlp.up_proj": "FP8.BF16",
    }
    chosen = {name: precision.name for name, precision in resolve_plan(sites, plan, exclude=["lm_head"]).items()}
    assert chosen["model.layers.1.mlp.up_proj"] == "FP8.BF16"  # full name
    assert chosen["model.layers.1.mlp.gate_proj"] == "MXFP8"  # the first expression that matches
    assert chosen["model.layers.0.mlp.gate_proj"] == "MXFP4"
    assert chosen["model.layers.0.mlp.up_proj"] == "INT4"  # role
    assert chosen["model.layers.0.self_attn.q_proj"] == "INT8"  # everything else
    assert "lm_head" not in chosen


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("model.layers.0.mlp.up_prj", r"Did you mean model\.layers\.0\.mlp\.up_proj"),
        ("router", "matches none of the 15 Linear layers"),
        ("re:[", "is not a regular expression"),
        ("re:q_proj", "matches none"),  # torchao matches whole names
    ],
)
def test_keys_that_reach_nothing(small_llama, key, message):
    with pytest.raises(InvalidValueError, match=message):
        apply_plan(small_llama, {key: "INT8"})
    with pytest.raises(InvalidValueError, match=message):
        apply_plan(small_llama, {"*": "INT8"}, exclude=[key])


def test_the_plan_as_torchaos_own_config(small_llama):
    """What we hand to torchao by ourselves does the same when the user hands it over."""
    import torchao

    plan = {"ffn": "INT4", "o_proj": "INT8"}
    config = plan_to_fqn_config(small_llama, plan, group_size=64)
    assert list(config.fqn_to_config)[:2] == ["model.layers.0.self_attn.o_proj", "model.layers.0.mlp.gate_proj"]
    torchao.quantize_(small_llama, config, filter_fn=None)
    assert type(small_llama.model.layers[0].mlp.up_proj.weight).__name__ == "Int4OpaqueTensor"
    assert small_llama.model.layers[0].mlp.up_proj.weight.block_size == [1, 64]
    assert type(small_llama.model.layers[1].self_attn.o_proj.weight).__name__ == "Int8Tensor"
    assert type(small_llama.lm_head.weight) is torch.nn.Parameter


def test_a_config_handed_on_has_no_fallbacks(small_llama):
    with pytest.raises(UnsupportedError, match="strict=True allows no fallback"):
        plan_to_fqn_config(small_llama, {"*": "FP8"})


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("model.layers.3.self_attn.q_proj", "qkv_proj"),
        ("transformer.h.0.attn.c_attn", "qkv_proj"),
        ("transformer.h.0.attn.c_proj", "o_proj"),
        ("transformer.h.0.mlp.c_proj", "ffn"),
        ("model.layers.3.self_attn.dense", "o_proj"),
        ("encoder.layer.2.attention.self.query", "qkv_proj"),
        ("encoder.layer.2.attention.output.dense", "o_proj"),
        ("encoder.layer.2.intermediate.dense", "ffn"),
        ("encoder.layer.2.output.dense", "ffn"),
        ("model.layers.0.mlp.gate", "router"),
        ("model.layers.0.mlp.gate_proj", "ffn"),
        ("lm_head", "lm_head"),
        ("pooler.dense", None),
        ("", None),
    ],
)
def test_roles(name, role):
    assert layer_role(name) == role


def test_groups_of_the_search_are_keys_stronger_than_roles_and_weaker_than_names(small_llama):
    plan = {
        "layers.0.qkv_proj": "INT8",
        "qkv_proj": "INT4",
        "layers.1.gate_up_proj": "INT4",
        "model.layers.1.mlp.up_proj": "BF16",
    }
    result = apply_plan(small_llama, plan)
    became = {layer.name.removeprefix("model."): layer.became for layer in result.layers}
    assert {became[f"layers.0.self_attn.{letter}_proj"] for letter in "qkv"} == {"INT8"}
    assert {became[f"layers.1.self_attn.{letter}_proj"] for letter in "qkv"} == {"INT4"}
    assert (became["layers.1.mlp.gate_proj"], became["layers.1.mlp.up_proj"]) == ("INT4", "BF16")
    assert (became["layers.0.mlp.gate_proj"], became["layers.1.mlp.down_proj"]) == ("BF16", "BF16")
