"""What a checkpoint stores, by the forms in which publishers write it down."""

from __future__ import annotations

import pytest

from roofline_model.core.errors import DefinitionError, UnsupportedError
from roofline_model.engines.amounts import StoredModel, checkpoint_roles
from roofline_model.models.decoders import get_decoder
from roofline_model.models.hf.stored_formats import checkpoint_formats

DENSE, MIXTURE, HYBRID = get_decoder("llama-3.1-8b"), get_decoder("qwen3-235b-a22b"), get_decoder("qwen3.5-35b-a3b")


def group(bits, kind, size=None, activations=True, targets=("Linear",)):
    part = {"num_bits": bits, "type": kind, "group_size": size}
    return {"targets": list(targets), "weights": part, "input_activations": part if activations else None}


def weights(formats):
    return {role: each.weights for role, each in formats.roles.items()}


def test_weights_alone_are_told_from_weights_and_activations():
    config = {"quant_method": "compressed-tensors", "ignore": ["lm_head"]}
    alone = config | {"config_groups": {"0": group(4, "float", 16, activations=False)}}
    both = config | {"config_groups": {"0": group(4, "float", 16)}}
    made = [checkpoint_formats({"quantization_config": each}, None, DENSE) for each in (alone, both)]
    assert [each.roles["ffn"].activations for each in made] == ["BF16", "NVFP4"]
    assert weights(made[0]) == {"attention": "NVFP4", "ffn": "NVFP4"}


def test_the_file_beside_the_config_wins():
    config = {"quantization_config": {"quant_method": "fp8"}}
    sidecar = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]}}
    assert weights(checkpoint_formats(config, sidecar, DENSE)) == {"ffn": "NVFP4"}
    assert weights(checkpoint_formats(config, None, DENSE)) == {"attention": "FP8_E4M3", "ffn": "FP8_E4M3"}


@pytest.mark.parametrize("prefix", ["model.layers.", "model.language_model.layers.", "backbone.layers."])
def test_a_matrix_that_is_excluded_in_every_layer_leaves_its_share(prefix):
    excluded = [f"{prefix}{layer}.self_attn.{name}_proj" for layer in range(32) for name in "qkv"]
    sidecar = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": excluded}}
    share = checkpoint_formats({}, sidecar, DENSE).roles["attention"].share_ratio
    assert share == pytest.approx(4096 / (4096 + 4096 + 2 * 1024))  # the output projection alone


def test_a_checkpoint_that_lists_its_modules_mixes_formats():
    layers = {
        f"model.language_model.layers.{layer}.{name}": {"quant_algo": algorithm}
        for layer in range(40)
        for name, algorithm in (("mlp.experts", "W4A16_NVFP4"), ("linear_attn.out_proj", "FP8"))
    }
    sidecar = {
        "quantization": {
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": layers | {"lm_head": {"quant_algo": "FP8"}},
        }
    }
    formats = checkpoint_formats({}, sidecar, HYBRID)
    assert weights(formats) == {"linear": "FP8_E4M3", "expert": "NVFP4", "lm_head": "FP8_E4M3"}
    assert formats.roles["expert"].activations == "BF16"
    assert formats.roles["linear"].share_ratio < 0.5


def test_block_scales_and_the_format_of_the_cache_are_read():
    blocks = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "gate"]}
    formats = checkpoint_formats({"quantization_config": blocks}, None, MIXTURE)
    assert formats.has_block_scales
    assert weights(formats) == {"attention": "FP8_E4M3", "expert": "FP8_E4M3"}
    scheme = {"config_groups": {"0": group(8, "float")}, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    assert checkpoint_formats({"quantization_config": scheme}, None, DENSE).cache == "FP8_E4M3"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "INT4"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "INT4"),
        (
            {
                "quantization_config": {
                    "quant_method": "bitsandbytes",
                    "load_in_4bit": True,
                    "bnb_4bit_quant_type": "nf4",
                }
            },
            "NF4",
        ),
        ({"quantization": {"bits": 4, "group_size": 64}}, "INT4"),
    ],
)
def test_weight_only_methods_of_everybody_are_read(config, expected):
    formats = checkpoint_formats(config, None, DENSE)
    assert formats.roles["ffn"].weights == expected
    assert formats.roles["ffn"].activations == "BF16"


def test_what_is_not_known_is_named_and_never_taken_for_16_bit():
    for config in (
        {"quantization_config": {"quant_method": "vptq"}},
        {"quantization_config": {"config_groups": {"0": group(3, "int")}}},
        {"quantization": {"bits": 3}},
    ):
        with pytest.raises(UnsupportedError, match="not known here"):
            checkpoint_formats(config, None, DENSE)


@pytest.mark.parametrize(
    "config",
    [
        {"quantization_config": "fp8"},
        {"quantization_config": {"quant_method": "fp8", "ignore": ["re:(["]}},
        {"quantization_config": {"quant_method": "fp8", "ignore": [7]}},
        {"quantization_config": {"config_groups": [group(8, "float")]}},
        {"quantization_config": {"config_groups": {"0": "Linear"}}},
        {"quantization": [4]},
    ],
)
def test_a_field_of_another_kind_is_one_line(config):
    with pytest.raises(DefinitionError, match="model config has a field that no known file has"):
        checkpoint_formats(config, None, DENSE)


def test_bytes_are_those_of_the_published_checkpoint():
    sidecar = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    decoder = get_decoder("llama-3.1-70b")
    stored = StoredModel(decoder, checkpoint_roles(checkpoint_formats({}, sidecar, decoder)), 1.0)
    assert stored.weight_bytes() == pytest.approx(72.7e9, rel=0.005)  # nvidia/Llama-3.1-70B-Instruct-FP8
