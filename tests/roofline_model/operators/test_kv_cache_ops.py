"""The cache: its size, appending, gathering; in pages and in quantised formats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import FORMATS, InvalidValueError
from roofline_model.operators.attention import attention
from roofline_model.operators.kv_cache import kv_cache_bytes, kv_read, kv_write

SMALL = st.integers(min_value=1, max_value=64)
KEYS = st.sampled_from(sorted(key for key, fmt in FORMATS.items() if fmt.element_bits <= 16))


def test_sizes_by_hand() -> None:
    assert kv_cache_bytes(1, 8, 4096, 128) == 2 * 8 * 4096 * 128 * 2
    assert kv_cache_bytes(3, 8, 4096, 128, kv="FP8", layers=32) == 32 * 3 * 2 * 8 * 4096 * 128
    assert kv_cache_bytes(1, 8, 32, 128, kv="NVFP4") == 2 * 8 * 32 * 128 * 4.53125 / 8
    # DeepSeek-V3 keeps 576 elements per token and layer.
    assert kv_cache_bytes(1, 1, 100, 576, layers=61, shared_kv=True) == 61 * 100 * 576 * 2
    assert kv_cache_bytes(1, 2, 10, 192, Dv=128) == 2 * 10 * (192 + 128) * 2


def test_pages_are_kept_whole() -> None:
    paged = kv_cache_bytes(2, 8, 100, 128, layers=4, page_tokens=16)
    assert paged == 4 * 2 * 112 * 2 * 8 * 128 * 2 + 2 * 7 * 4  # seven pages of 16 for 100 tokens
    assert kv_cache_bytes(2, 8, 112, 128, layers=4, page_tokens=16) == paged


def test_writing_by_hand() -> None:
    operator = kv_write(3, 8, 5, 128, source="BF16", kv="FP8", page_tokens=16)
    elements = 3 * 5 * 2 * 8 * 128
    assert operator.op == "kv_write"
    assert operator.shape == (("B", 3), ("Hkv", 8), ("Sq", 5), ("D", 128), ("page", 16))
    assert dict(operator.cost.read_bytes) == {"new_kv": elements * 2, "slots": 3 * 5 * 8}
    assert dict(operator.cost.write_bytes) == {"cache": elements}
    assert operator.cost.total_flops == 2 * elements  # divide by a known scale, round
    assert kv_write(3, 8, 5, 128, kv="NVFP4").cost.total_flops == 4 * elements  # and search the block's scale
    assert kv_write(3, 8, 5, 128).cost.total_flops == 0
    assert kv_write(3, 8, 5, 128, source="FP32", kv="BF16").cost.total_flops == 0


def test_reading_by_hand() -> None:
    operator = kv_read(3, 8, 100, 128, kv="NVFP4", target="BF16", page_tokens=16)
    elements = 3 * 100 * 2 * 8 * 128
    assert dict(operator.cost.read_bytes) == {"cache": elements * 4.53125 / 8, "block_table": 3 * 7 * 4}
    assert dict(operator.cost.write_bytes) == {"KV": elements * 2}
    assert operator.cost.total_flops == elements
    assert operator.formats == (("kv", "NVFP4"), ("o", "BF16"))
    plain = kv_read(3, 8, 100, 128)
    assert (plain.cost.total_flops, plain.cost.total_write_bytes) == (0, elements * 2)
    assert kv_read(3, 8, 100, 128, kv="FP8").formats == (("kv", "FP8_E4M3"), ("o", "FP16"))


@given(SMALL, SMALL, SMALL, SMALL, KEYS, st.booleans())
def test_what_attention_reads_is_what_was_written(b: int, hkv: int, s: int, d: int, kv: str, shared: bool) -> None:
    written = kv_write(b, hkv, s, d, source="BF16", kv=kv, shared_kv=shared).cost.total_write_bytes
    reads = dict(attention(b, hkv, hkv, 1, s, d, kv=kv, shared_kv=shared).cost.read_bytes)
    assert reads["K"] + reads.get("V", 0) == pytest.approx(written)
    assert written == pytest.approx(kv_cache_bytes(b, hkv, s, d, kv=kv, shared_kv=shared))
    assert dict(kv_read(b, hkv, s, d, kv=kv, target="FP32", shared_kv=shared).cost.read_bytes)[
        "cache"
    ] == pytest.approx(written)


@given(SMALL, SMALL, st.integers(min_value=1, max_value=5000), st.integers(min_value=1, max_value=64), KEYS)
def test_pages_waste_less_than_one_page_per_sequence(b: int, hkv: int, s: int, page: int, kv: str) -> None:
    plain, paged = kv_cache_bytes(b, hkv, s, 64, kv=kv), kv_cache_bytes(b, hkv, s, 64, kv=kv, page_tokens=page)
    table = 4 * b * -(-s // page)
    per_token = plain / s
    assert plain <= paged - table + 1e-6
    assert paged - table < plain + (page - 0.999) * per_token


@given(SMALL, SMALL, SMALL, SMALL, KEYS)
def test_tokens_add_up(b: int, hkv: int, s: int, d: int, kv: str) -> None:
    single, all_at_once = kv_write(b, hkv, 1, d, kv=kv).cost * s, kv_write(b, hkv, s, d, kv=kv).cost
    assert single.total_bytes == pytest.approx(all_at_once.total_bytes)
    assert single.total_flops == all_at_once.total_flops


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kv_write(1, 8, 1, 128, source="BF16", kv="FP32"), "kv=FP32 is wider than source=BF16"),
        (lambda: kv_write(1, 8, 1, 128, source="NF4"), "source=NF4"),
        (lambda: kv_write(0, 8, 1, 128), "B must"),
        (lambda: kv_write(1, 8, 0, 128), "Sq must"),
        (lambda: kv_write(1, 8, 1, 128, page_tokens=0), "page_tokens"),
        (lambda: kv_read(1, 8, 1, 128, kv="FP32", target="BF16"), "target=BF16 is narrower than kv=FP32"),
        (lambda: kv_read(1, 8, 0, 128), "Skv must"),
        (lambda: kv_read(1, 8, 4, 128, page_tokens=-1), "page_tokens"),
        (lambda: kv_read(1, 8, 4, 128, target="NF4"), "target=NF4"),
        (lambda: kv_cache_bytes(1, 0, 1, 128), "Hkv must"),
        (lambda: kv_cache_bytes(1, 8, 1, 0), "D must"),
        (lambda: kv_cache_bytes(1, 8, 1.5, 128), "S must"),
        (lambda: kv_cache_bytes(1, 8, 1, 128, layers=0), "layers must"),
        (lambda: kv_cache_bytes(1, 8, 1, 128, Dv=0), "Dv must"),
    ],
)
def test_wrong_input_is_refused_by_field(call, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        call()
