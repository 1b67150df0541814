"""Decoders as lists of layers: parameters of published models, what each kind reads and keeps, and what is refused."""

from __future__ import annotations

import json

import pytest

from roofline_model.core.errors import DefinitionError, UnknownNameError, UnsupportedError
from roofline_model.models.decoders import find_checkpoint, get_decoder, published_formats
from roofline_model.models.hf.decoder_config import decoder_from_config
from roofline_model.models.layer_kinds import Attention, Latent, Recurrent, ShortConvolution

PLAIN = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}


@pytest.mark.parametrize(
    ("name", "parameters_b"),
    [
        ("llama-3.1-8b", 8.03), ("meta-llama/Llama-3.1-70B-Instruct", 70.55), ("qwen3-235b-a22b", 235.1),
        ("gpt-oss-120b", 116.8), ("deepseek-v3", 671.0), ("qwen3.6-35b-a3b", 34.66), ("qwen3.5-397b-a17b", 396.3),
        ("nemotron-3-nano-30b-a3b", 31.58), ("nemotron-3-super-120b-a12b", 120.7), ("gemma-4-26b-a4b", 25.23),
        ("gemma-4-31b", 30.7), ("minimax-m2.5", 228.7), ("glm-5", 743.9), ("kimi-k2", 1026.4), ("mimo-v2-flash", 308.8),
        ("muse-glimmer-30b", 27.85), ("glm-5.3-flash", 313.3), ("falcon3-7b", 7.456), ("granite-3.1-8b", 8.171),
        ("yi-1.5-9b", 8.829), ("glm-4-9b-chat", 9.4), ("apertus-8b", 8.053), ("smollm2-360m", 0.3618),
        ("lfm2.5-1.2b-instruct", 1.170), ("lfm2-8b-a1b", 8.34), ("ernie-4.5-21b-a3b", 21.83), ("mellum2-12b-a2.5b", 12.15),
    ],
)  # fmt: skip
def test_parameters_are_those_of_the_published_model(name, parameters_b):
    assert get_decoder(name).parameter_count / 1e9 == pytest.approx(parameters_b, rel=5e-4)


def test_every_fourth_layer_of_a_hybrid_keeps_a_cache_and_the_others_a_state():
    decoder = get_decoder("qwen3.5-27b")
    counts = {type(run.mixer): run.count for run in decoder.layers}
    assert counts == {Recurrent: 48, Attention: 16}
    attention = next(run.mixer for run in decoder.layers if isinstance(run.mixer, Attention))
    assert 16 * attention.held_elements(32_768) * 2 == pytest.approx(2.15e9, rel=0.01)  # BF16, 32,768 tokens


def test_a_window_bounds_what_is_read_and_kept():
    windowed = Attention(8, 2, 128, 128, window=1024)
    assert windowed.read_elements(500) == 2 * 256 * 500
    assert windowed.read_elements(100_000) == windowed.held_elements(100_000) == 2 * 256 * 1024
    assert Attention(8, 2, 128, 128, has_own_cache=False).held_elements(100) == 0


def test_sparse_attention_reads_what_its_index_picks_and_keeps_all():
    sparse = Latent(64, 2048, 512, 192, 64, 256, index_heads=32, index_dim=128, index_top_count=2048)
    assert sparse.read_elements(8192) == 576 * 2048
    assert sparse.held_elements(8192) == (576 + 128) * 8192


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"compress_ratios": [4]}, "no model here has compressed attention"),
        ({"layer_types": ["rwkv"] * 32}, "layers of kind 'rwkv' have no model here"),
        ({"hybrid_override_pattern": "MX"}, "layers of kind 'X' have no model here"),
        ({"altup_num_inputs": 4}, "no model here has AltUp layers"),
    ],
)
def test_a_part_without_a_layer_kind_is_refused_by_name(fields, message):
    with pytest.raises(UnsupportedError, match=message):
        decoder_from_config({**PLAIN, **fields}, name="m")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_size": None}, "field 'hidden_size' is missing"),
        ({"hidden_size": "large"}, "hidden_size must be a whole number from 1, got 'large'"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be at most 10,000"),
        ({"layer_types": ["full_attention"]}, "layer_types must list 32 layers"),
        ({"block_configs": [{}] * 32}, "block_configs must give attention and ffn of each layer"),
        ({"intermediate_size": None}, "field 'intermediate_size' is missing"),
        ({"linear_attn_config": "kda"}, "model config has a field that no known file has"),
    ],
)
def test_a_config_that_contradicts_itself_names_the_field(fields, message):
    with pytest.raises(DefinitionError, match=message):
        decoder_from_config({**PLAIN, **fields}, name="m")


def test_layers_by_index_or_with_heads_of_their_own_are_read():
    listed = {"full_attn_idxs": [2, 5], "conv_L_cache": 3, "block_auto_adjust_ff_dim": True, "block_multiple_of": 256}
    decoder = decoder_from_config({**PLAIN, **listed, "block_ff_dim": 6656}, name="m")
    assert {type(run.mixer): run.count for run in decoder.layers} == {ShortConvolution: 30, Attention: 2}
    assert {run.feed_forward.dense_size for run in decoder.layers} == {4608}  # 2/3 of 6656, up to a multiple of 256
    uneven = decoder_from_config({**PLAIN, "num_attention_heads_per_layer": [48, 64] * 16}, name="m")
    assert {run.mixer.heads: run.count for run in uneven.layers} == {48: 16, 64: 16}


def test_a_feed_forward_without_a_gate_has_two_matrices():
    gated, plain = (decoder_from_config({**PLAIN, "model_type": kind}, name="m") for kind in ("llama", "apertus"))
    assert gated.parameter_count - plain.parameter_count == 32 * 4096 * 14336


def test_a_folder_of_configs_is_asked_first_by_the_name_of_a_checkpoint(tmp_path):
    (tmp_path / "owner--Model-8B_config.json").write_text(json.dumps({**PLAIN, "num_hidden_layers": 16}))
    nested = tmp_path / "other-9b"
    nested.mkdir()
    (nested / "config.json").write_text(json.dumps(PLAIN))
    assert get_decoder("owner/Model-8B", tmp_path).layer_count == 16
    assert get_decoder("model-8b-instruct", tmp_path).layer_count == 16
    assert get_decoder("other-9b", tmp_path).layer_count == 32
    with pytest.raises(UnknownNameError, match="--model-dir"):
        get_decoder("absent-7b", tmp_path)
    with pytest.raises(UnknownNameError, match="Or give the path of its config"):
        find_checkpoint("absent-7b")


def test_formats_beside_the_config_are_those_of_exactly_that_checkpoint(tmp_path):
    quantised = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "nv--Model-8B-FP8_config.json").write_text(json.dumps(PLAIN))
    (tmp_path / "nv--Model-8B-FP8_hf_quant_config.json").write_text(json.dumps(quantised))
    decoder = get_decoder("nv/Model-8B-FP8", tmp_path)
    formats = published_formats("nv/Model-8B-FP8", tmp_path, decoder)
    assert {role: each.weights for role, each in formats.roles.items()} == {"attention": "FP8_E4M3", "ffn": "FP8_E4M3"}
    assert formats.cache == "FP8_E4M3"
    assert published_formats("nv/Model-8B", tmp_path, decoder) is None
