"""What a FlashAttention configuration and shape refuse, and what they fill in."""

from __future__ import annotations

from typing import Any

import pytest

from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.attention.flash.config import parse_version
from roofline_model.expected.attention.flash.model import (
    AttentionShape,
    FlashAttentionConfig,
    FlashAttentionRoofline,
    FlashAttentionVersion,
    compare_fa_versions,
)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"version": "fa5"}, "version"),
        ({"use_native_fp8": 1}, "use_native_fp8"),
        ({"causal": "yes"}, "causal"),
        ({"window_size": 0}, "window_size"),
        ({"page_size": -16}, "page_size"),
        ({"split_count": 2.0}, "split_count"),
        ({"block_sparse": True, "sparsity_ratio": 1.0}, "sparsity_ratio"),
        ({"block_sparse": True, "sparsity_ratio": -0.1}, "sparsity_ratio"),
        ({"block_sparse": True, "sparsity_ratio": True}, "sparsity_ratio"),
        ({"sparsity_ratio": 0.3}, "block_sparse"),
        ({"qkv_precision": "NVFP4"}, "qkv_precision"),
        ({"qkv_precision": "FP32"}, "qkv_precision"),
        ({"qkv_precision": "FP8", "kv_cache_precision": "BF16"}, "kv_cache_precision"),
        ({"qkv_precision": "FP16", "kv_cache_precision": "BF16"}, "kv_cache_precision"),
        ({"version": "fa2", "qkv_precision": "FP8", "use_native_fp8": True}, "use_native_fp8"),
        ({"version": "fa3", "qkv_precision": "BF16", "use_native_fp8": True}, "qkv_precision"),
    ],
)
def test_contradictions_name_the_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidValueError, match=named) as caught:
        FlashAttentionConfig(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ((0, 8, 8, 1, 1, 64), "batch"),
        ((1, 0, 1, 1, 1, 64), "num_heads"),
        ((1, 8, 0, 1, 1, 64), "num_kv_heads"),
        ((1, 8, 3, 1, 1, 64), "num_kv_heads"),
        ((1, 8, 16, 1, 1, 64), "num_kv_heads"),
        ((1, 8, 8, 0, 1, 64), "seq_len_q"),
        ((1, 8, 8, 1, 0, 64), "seq_len_kv"),
        ((1, 8, 8, 1, 1, 0), "head_dim"),
        ((1.5, 8, 8, 1, 1, 64), "batch"),
        ((10**6, 10**6, 10**6, 10**6, 1, 64), "batch"),
    ],
)
def test_shapes_name_the_size(sizes: tuple[Any, ...], named: str) -> None:
    with pytest.raises(InvalidValueError, match=named):
        AttentionShape(*sizes)


@pytest.mark.parametrize("mask", [{"causal": True}, {"window_size": 4}])
def test_more_queries_than_keys_cannot_be_masked(mask: dict[str, Any]) -> None:
    config = FlashAttentionConfig(**mask)
    with pytest.raises(InvalidValueError, match="seq_len_q 8 exceeds seq_len_kv 4"):
        FlashAttentionRoofline("h100").predict(1, 8, 8, 4, 64, config)
    assert FlashAttentionRoofline("h100").predict(1, 8, 8, 4, 64).time_s  # cross-attention without a mask is fine


def test_a_length_of_zero_is_not_the_default() -> None:
    with pytest.raises(InvalidValueError, match="seq_len_q"):
        compare_fa_versions(1, 8, 128, 64, seq_len_q=0)


def test_formats_follow_from_each_other() -> None:
    plain = FlashAttentionConfig()
    assert (plain.query_format.key, plain.cache_format.key, plain.output_format.key, plain.math_format.key) == (
        "FP16",
    ) * 4
    native = FlashAttentionConfig("fa3", use_native_fp8=True)
    keys = (native.query_format.key, native.cache_format.key, native.output_format.key, native.math_format.key)
    assert keys == ("FP8_E4M3", "FP8_E4M3", "BF16", "FP8_E4M3")
    widened = FlashAttentionConfig("fa3", qkv_precision="FP8_E5M2", kv_cache_precision="NVFP4_KV")
    assert (widened.math_format.key, widened.cache_format.key) == ("BF16", "NVFP4")
    assert FlashAttentionConfig("fa4", use_native_fp8=True, kv_cache_precision="MXFP8").cache_format.key == "MXFP8_E4M3"


def test_versions_are_named_like_the_seeds() -> None:
    assert [version.value for version in FlashAttentionVersion] == ["fa1", "fa2", "fa3", "fa4"]
    assert parse_version("FA3") is parse_version(FlashAttentionVersion.FA3) is FlashAttentionVersion.FA3
    assert FlashAttentionConfig(version="fa4").version is FlashAttentionVersion.FA4
