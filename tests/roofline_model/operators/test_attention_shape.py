"""Masks counted: by the closed form and one pair at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import InvalidValueError
from roofline_model.operators.attention_shape import check_attention_shape, keys_read, pages_read, visible_pairs

LENGTHS = st.integers(min_value=1, max_value=40)
WINDOWS = st.none() | st.integers(min_value=1, max_value=50)


def seen(query: int, key: int, sq: int, skv: int, causal: bool, window: int | None) -> bool:
    """The mask itself, one pair at a time."""
    position = skv - sq + query
    if causal and key > position:
        return False
    return window is None or key > position - window


@given(LENGTHS, LENGTHS, st.booleans(), WINDOWS)
def test_counts_equal_the_mask_pair_by_pair(sq: int, before: int, causal: bool, window: int | None) -> None:
    skv = sq + before - 1
    pairs = [(i, j) for i in range(sq) for j in range(skv) if seen(i, j, sq, skv, causal, window)]
    assert visible_pairs(sq, skv, causal=causal, window=window) == len(pairs)
    keys = {j for _, j in pairs}
    assert keys_read(sq, skv, window=window) == len(keys)
    for page_tokens in (1, 4, 16):
        assert pages_read(sq, skv, page_tokens, window=window) == len({j // page_tokens for j in keys})


def test_hand_counts() -> None:
    assert visible_pairs(4, 4) == 16
    assert visible_pairs(4, 4, causal=True) == 1 + 2 + 3 + 4
    assert visible_pairs(2, 5, causal=True) == 4 + 5  # three tokens are in the cache already
    assert visible_pairs(4, 4, causal=True, window=2) == 1 + 2 + 2 + 2
    assert visible_pairs(3, 4, window=2) == 4 + 3 + 2  # positions 1, 2, 3 of a window that cuts the past only
    assert visible_pairs(1, 100, window=7) == 7
    assert (keys_read(1, 100), keys_read(1, 100, window=7), keys_read(10, 100, window=7)) == (100, 7, 16)
    assert pages_read(1, 100, 16, window=7) == 2  # keys 93 to 99 lie in pages 5 (80 to 95) and 6


@given(st.integers(min_value=1, max_value=10**6))
def test_causal_is_half_of_full_plus_half_a_diagonal(s: int) -> None:
    assert 2 * visible_pairs(s, s, causal=True) == visible_pairs(s, s) + s


@given(LENGTHS, st.integers(min_value=0, max_value=10**5), st.booleans())
def test_a_window_as_long_as_the_cache_is_no_window(sq: int, before: int, causal: bool) -> None:
    skv = sq + before
    for window in (skv, skv + 1, 10**9):
        assert visible_pairs(sq, skv, causal=causal, window=window) == visible_pairs(sq, skv, causal=causal)
        assert keys_read(sq, skv, window=window) == skv


@given(LENGTHS, st.integers(min_value=0, max_value=10**5), st.integers(min_value=1, max_value=10**5))
def test_a_causal_prefill_in_two_chunks_is_the_whole(first: int, second: int, window: int) -> None:
    for size in (None, window):
        whole = visible_pairs(first + second, first + second, causal=True, window=size)
        chunks = visible_pairs(first, first, causal=True, window=size)
        chunks += visible_pairs(second, first + second, causal=True, window=size) if second else 0
        assert chunks == whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Hq": 32, "Hkv": 5}, r"heads \(Hq=32\) is not divisible by kv_heads \(Hkv=5\)"),
        ({"Hq": 4, "Hkv": 8}, "not divisible"),
        ({"B": 0}, "B must be"),
        ({"Hq": 0}, "Hq must be"),
        ({"Hkv": -1}, "Hkv must be"),
        ({"Sq": 1.5}, "Sq must be"),
        ({"Skv": True}, "Skv must be"),
        ({"D": "128"}, "D must be"),
        ({"window": 0}, "window must be None .* got 0"),
        ({"window": -1}, "window must be"),
        ({"window": 2.0}, "window must be"),
        ({"window": True}, "window must be"),
        ({"window": 10**10}, "window must be"),
        ({"causal": 2}, "causal must be True or False"),
        ({"causal": "yes"}, "causal must be True or False"),
        ({"Sq": 65, "causal": True}, "Sq must not exceed Skv with causal=True, got Sq=65 and Skv=64"),
        ({"Sq": 65, "window": 8}, "Sq must not exceed Skv with window=8"),
    ],
)
def test_wrong_shapes_are_refused_by_field(change: dict[str, object], words: str) -> None:
    good: dict[str, object] = {"B": 1, "Hq": 8, "Hkv": 2, "Sq": 1, "Skv": 64, "D": 128}
    check_attention_shape(**good)  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=words):
        check_attention_shape(**{**good, **change})  # type: ignore[arg-type]


def test_cross_attention_may_have_more_queries_than_keys() -> None:
    check_attention_shape(1, 8, 8, 100, 7, 64)
    assert visible_pairs(100, 7) == 700


@pytest.mark.parametrize("wrong", [0, -16, 1.5])
def test_pages_hold_at_least_one_token(wrong: object) -> None:
    with pytest.raises(InvalidValueError, match="page_tokens"):
        pages_read(1, 64, wrong)  # type: ignore[arg-type]
