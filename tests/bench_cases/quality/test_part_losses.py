"""Losses for the search: each part of a decoder narrow alone, each layer's cache; what cannot be is refused."""

from __future__ import annotations

import copy

import pytest
from simulated_formats import simulated

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from bench_cases.models.reference import SEEDED_LLAMAS  # noqa: E402
from bench_cases.quality import compare_models, measured_losses  # noqa: E402
from bench_cases.quality.mixed_cache import make_mixed_cache  # noqa: E402
from bench_cases.quality.model_outputs import logits_of  # noqa: E402
from bench_cases.quality.part_losses import grouped_sites  # noqa: E402
from bench_cases.quantization import apply_quantization, make_kv_cache  # noqa: E402
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError  # noqa: E402
from roofline_model.models.model_shapes import ModelShape  # noqa: E402

SHAPE = SEEDED_LLAMAS["seeded-llama-1m"].shape("FP16")


def test_losses_are_those_of_each_group_alone(small_llama, few_windows, untouched):
    with untouched(small_llama):
        table = measured_losses(small_llama, few_windows, ["INT4", "FP8"], kv_formats=["INT8"], wide="FP16")
        other = copy.deepcopy(small_llama)
        with simulated(other, "INT4", [f"model.layers.0.self_attn.{part}_proj" for part in "qkv"]):
            alone = compare_models(small_llama, other, few_windows).kl
        cached = compare_models(
            small_llama,
            small_llama,
            few_windows,
            quantized_cache=lambda: make_mixed_cache(small_llama, ("BF16", "INT8")),
        ).kl
    assert table.values["layers.0.qkv_proj", "INT4.FP16"] == pytest.approx(alone.value, rel=1e-9)
    assert table.values["layers.1.kv", "INT8"] == pytest.approx(cached.value, rel=1e-9)
    names = {name for name, _ in table.values}
    parts = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "kv")
    assert names == {"lm_head", *(f"layers.{layer}.{part}" for layer in range(2) for part in parts)}
    assert {name for name, _ in table.by_part(SHAPE)} == names
    assert table.confidence == "high"
    assert "184 predictions" in table.source


def test_a_plain_feed_forward_block_has_its_own_groups(few_windows):
    from transformers import PhiConfig, PhiForCausalLM

    config = PhiConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = PhiForCausalLM(config).eval()
    parts = {name: [site.name for site in sites] for name, sites in grouped_sites(model).items()}
    assert parts["layers.0.up_proj"] == ["model.layers.0.mlp.fc1"]
    assert parts["layers.0.down_proj"] == ["model.layers.0.mlp.fc2"]
    assert parts["layers.0.o_proj"] == ["model.layers.0.self_attn.dense"]
    table = measured_losses(model, few_windows, ["INT4"])
    shape = ModelShape(
        "phi", "here", 1, 64, 2, 2, 32, 128, 512, 64, ffn="plain", wide_format="FP32", weight_format="FP32"
    )
    assert {name for name, _ in table.by_part(shape)} == set(parts)
    assert all(value > 0 for value in table.values.values())


def test_layers_have_caches_of_their_own(small_llama, few_windows):
    cache = make_mixed_cache(small_llama, ("INT8", "BF16"))
    with torch.no_grad():
        narrow = logits_of(small_llama, few_windows.ids, "", make_cache=lambda: cache)
        both = logits_of(small_llama, few_windows.ids, "", make_cache=lambda: make_kv_cache(small_llama, "INT8"))
        wide = logits_of(small_llama, few_windows.ids, "")
    assert [type(layer).__name__ for layer in cache.layers] == ["NarrowLayer", "DynamicLayer"]
    assert not torch.equal(narrow, wide)
    assert not torch.equal(narrow, both)
    with pytest.raises(InvalidValueError, match="3 formats for a cache of 2 layers"):
        make_mixed_cache(small_llama, ("INT8",) * 3)
    with pytest.raises(UnknownNameError, match="MXFP4"), torch.no_grad():
        logits_of(small_llama, few_windows.ids, "", make_cache=lambda: make_mixed_cache(small_llama, ("MXFP4", "BF16")))


def test_a_window_of_its_own_layout_is_not_left_wide_in_silence():
    from transformers import MistralConfig

    sliding = MistralConfig(
        num_hidden_layers=1, sliding_window=8, hidden_size=64, num_attention_heads=4, num_key_value_heads=2
    )
    with pytest.raises(UnsupportedError, match="layout of its own"):
        make_mixed_cache(sliding, ("INT8",))


def test_what_is_refused(small_llama, few_windows):
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=512,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_local_experts=2,
    )
    with pytest.raises(InvalidValueError, match="below 16 bit"):
        measured_losses(small_llama, few_windows, ["INT4", "BF16"])
    with pytest.raises(UnsupportedError, match="no Linear of Linear is a decoder's"):
        measured_losses(nn.Linear(8, 8), few_windows, ["INT4"])
    names = {name for name, _ in measured_losses(MixtralForCausalLM(config).eval(), few_windows, ["INT4"]).values}
    assert not any("gate_up" in name or "down" in name for name in names)
    apply_quantization(small_llama, "INT8")
    with pytest.raises(InvalidValueError, match="16-bit model"):
        measured_losses(small_llama, few_windows, ["INT4"])
