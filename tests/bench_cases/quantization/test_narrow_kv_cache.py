"""Keys and values really held in 8 or 4 bits, measured, against codecs of their own and against the model's logits."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from bench_cases.kernels.products.quantizers import nvfp4_blocks
from bench_cases.models.sources import seeded_llama
from bench_cases.quantization import cache_bytes, make_kv_cache
from bench_cases.quantization.kv.codecs import NVFP4_HEADROOM, Nvfp4KV, kv_codec
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.formats.catalog import get_format
from roofline_model.formats.codecs import round_trip

LAYERS, KV_HEADS, HEAD_DIM = 2, 2, 32
ERROR = {"INT8": 0.02, "FP8": 0.05, "NVFP4": 0.15}
"""Largest relative error of the decoded states (Frobenius): half a step of 127, of 3 mantissa bits, of E2M1's grid."""


@pytest.fixture(scope="module")
def llama():
    return seeded_llama("seeded-llama-1m")


@pytest.fixture
def states():
    return torch.randn(2, 3, 40, 64, generator=torch.Generator().manual_seed(1)).bfloat16()


def decode_steps(model, token_ids, cache, steps=6):
    """Prefill and a few decode steps of given tokens; return the last logits."""
    with torch.no_grad():
        output = model(token_ids[:, :-steps], past_key_values=cache, use_cache=True)
        for position in range(token_ids.shape[1] - steps, token_ids.shape[1]):
            output = model(
                token_ids[:, position : position + 1], past_key_values=output.past_key_values, use_cache=True
            )
    return output.logits[:, -1].float()


@pytest.mark.parametrize("precision", ["INT8", "FP8", "NVFP4"])
def test_codecs_are_close_and_hold_the_formats_bytes(states, precision):
    codec = kv_codec(precision, 64)
    parts = codec.encode(states)
    decoded = codec.decode(parts, torch.float32)
    assert float((decoded - states.float()).norm() / states.float().norm()) < ERROR[precision]
    assert codec.decode(parts, torch.bfloat16).dtype is torch.bfloat16
    held = sum(part.numel() * part.element_size() for part in parts)
    assert held + (4 if precision == "NVFP4" else 0) == codec.stored.storage_bytes(states.shape)


@pytest.mark.parametrize("precision", ["INT8", "FP8"])
def test_appending_equals_encoding_at_once(states, precision):
    whole, piecewise = kv_codec(precision, 64), kv_codec(precision, 64)
    pieces = [piecewise.encode(states[:, :, :7]), piecewise.encode(states[:, :, 7:])]
    joined = tuple(torch.cat([a, b], dim=-2) for a, b in zip(*pieces, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(joined, whole.encode(states), strict=True))


def test_nvfp4_agrees_with_the_matrix_quantiser(states):
    """With the tensor scale of `quantizers.nvfp4_blocks` (no headroom), codes and scales are the same."""
    matrix = states.float().flatten(0, -2)
    reference = nvfp4_blocks(matrix)
    codec = Nvfp4KV(64)
    codec.tensor_scale = torch.tensor(reference.tensor_scale)
    packed, scales = codec.encode(states)
    assert torch.equal(scales.flatten(0, -2).view(torch.float8_e4m3fn).float(), reference.scales.float())
    codes = torch.stack((packed & 0x0F, packed >> 4), dim=-1).flatten(-2).flatten(0, -2)
    assert torch.equal(codes, reference.codes)
    assert codec.saturated_count == 0


@pytest.mark.parametrize("precision", ["INT8", "FP8_E4M3", "NVFP4"])
def test_states_are_held_with_the_bits_of_the_codecs(states, precision):
    """Zeros, one value alone, and blocks far below the others included."""
    states = states.float()
    states[0, 0, :3], states[0, 1, 5, 1:], states[1, 2, 7] = 0, 0, states[1, 2, 7] * 1e-6
    codec = kv_codec(precision, 64)
    decoded = codec.decode(codec.encode(states), torch.float32)
    if precision == "NVFP4":
        expected = round_trip(states, precision, absmax=float(states.abs().max()) * NVFP4_HEADROOM)
    else:
        expected = round_trip(states, precision, scale="row", scale_dtype="bfloat16")
    assert decoded.numpy().tolist() == expected.tolist()


def test_nvfp4_counts_what_outgrows_its_scale(states):
    codec = Nvfp4KV(64)
    codec.encode(states)
    codec.encode(states * 3)
    assert codec.saturated_count == 0
    codec.encode(states[:, :, :1] * 1000)
    assert codec.saturated_count > 0


def test_zeros_and_large_values():
    zeros = torch.zeros(1, 1, 2, 32)
    for precision in ("INT8", "FP8", "NVFP4"):
        codec = kv_codec(precision, 32)
        assert torch.equal(codec.decode(codec.encode(zeros), torch.float32), zeros)
        assert torch.isfinite(codec.decode(codec.encode(torch.full((1, 1, 2, 32), 3e4)), torch.float32)).all()


@pytest.mark.parametrize(("precision", "bits"), [("INT8", 8.5), ("FP8", 8.5), ("NVFP4", 4.5)])
def test_a_models_cache(llama, token_ids, precision, bits):
    expected = decode_steps(llama, token_ids, make_kv_cache(llama, "BF16"))
    cache = make_kv_cache(llama, precision)
    logits = decode_steps(llama, token_ids, cache)
    assert 0 < ((logits - expected).norm() / expected.norm()).item() < 0.2
    report = cache.report()
    elements = 2 * LAYERS * KV_HEADS * HEAD_DIM * token_ids.shape[1]
    scales_of_tensors = 2 * LAYERS * 4 if precision == "NVFP4" else 0
    assert report.tokens_count == token_ids.shape[1]
    assert report.held_bytes == report.format_bytes == elements * bits / 8 + scales_of_tensors == cache_bytes(cache)
    assert report.wide_bytes == elements * 2
    assert report.precision == get_format(precision).key
    assert report.wide_layers == ()


def test_sixteen_bits_is_transformers_own_cache(llama, token_ids):
    cache = make_kv_cache(llama, "BF16")
    decode_steps(llama, token_ids, cache)
    assert type(cache).__name__ == "DynamicCache"
    assert cache_bytes(cache) == 2 * LAYERS * KV_HEADS * HEAD_DIM * token_ids.shape[1] * 2


def test_generate_with_a_narrow_cache(llama, token_ids):
    cache = make_kv_cache(llama, "INT8")
    out = llama.generate(token_ids, past_key_values=cache, max_new_tokens=5, do_sample=False, pad_token_id=0)
    assert out.shape == (1, token_ids.shape[1] + 5)
    assert cache.get_seq_length() == token_ids.shape[1] + 4


def test_cache_operations_keep_the_parts_together(states):
    from bench_cases.quantization.kv.cache import NarrowLayer

    layer = NarrowLayer("INT8")
    keys, _ = layer.update(states, states * 2)
    layer.reorder_cache(torch.tensor([1, 0]))
    layer.crop(-10)
    assert layer.get_seq_length() == 30
    layer.batch_repeat_interleave(2)
    layer.batch_select_indices(torch.tensor([0, 2]))
    again, _ = layer.update(states[:, :, :1], states[:, :, :1])
    assert torch.equal(again[:, :, :30], keys[[1, 0], :, :30])
    assert layer.format_bytes() < layer.wide_bytes()
    layer.crop(12)
    assert layer.get_seq_length() == 12
    layer.reset()
    assert layer.get_seq_length() == layer.format_bytes() == layer.wide_bytes() == 0
    assert layer.tensors() == ()


def test_formats_and_shapes_a_cache_cannot_hold(llama):
    from transformers import LlamaConfig

    with pytest.raises(UnknownNameError):
        make_kv_cache(llama, "INT4")
    odd = LlamaConfig(hidden_size=72, num_attention_heads=3, num_hidden_layers=1, intermediate_size=32, vocab_size=16)
    with pytest.raises(UnsupportedError, match="multiple of 16, got 24"):
        make_kv_cache(odd, "NVFP4")


def test_sliding_layers_keep_their_own_cache():
    from transformers import MistralConfig

    config = MistralConfig(
        hidden_size=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_hidden_layers=2,
        intermediate_size=64,
        vocab_size=32,
        sliding_window=8,
    )
    report = make_kv_cache(config, "INT8").report()
    assert len(report.wide_layers) == 2
    assert "SlidingWindow" in report.wide_layers[0].value("layout")
    assert report.held_bytes == 0


def test_an_nvfp4_cache_that_begins_with_zeros(states):
    codec = Nvfp4KV(64)
    first = codec.encode(torch.zeros(2, 3, 4, 64))
    assert not codec.decode(first, torch.float32).any()
    decoded = codec.decode(codec.encode(states), torch.float32)
    assert float((decoded - states.float()).norm() / states.float().norm()) < ERROR["NVFP4"]
    assert not codec.decode(first, torch.float32).any()
    assert codec.saturated_count == 0


@pytest.mark.parametrize("precision", ["INT8", "FP8", "NVFP4"])
def test_caches_that_cannot_be(precision):
    with pytest.raises(InvalidValueError, match="at least one token"):
        kv_codec(precision, 64).encode(torch.zeros(1, 1, 0, 64))
    for head_dim in (0, -16, None, "x"):
        with pytest.raises(InvalidValueError, match="head dimension must be a whole number"):
            kv_codec(precision, head_dim)
    for model in (None, torch.nn.Linear(2, 2)):
        with pytest.raises(UnsupportedError, match="has no attention heads"):
            make_kv_cache(model, precision)
