"""What attention of a given shape touches: the score pairs it computes, the keys it reads, the pages they lie in.

Letters: B sequences, Hq query heads, Hkv key/value heads, Sq new tokens, Skv tokens in the cache (the new ones
included), D head size. The last query sees the last key: query i stands at position Skv − Sq + i.
"""

from __future__ import annotations

from roofline_model.core.errors import InvalidValueError
from roofline_model.operators.product import MAX_DIMENSION, check_dimension


def check_heads(Hq: int, Hkv: int) -> None:
    """Raise `InvalidValueError` unless every key/value head serves the same number of query heads."""
    check_dimension("Hq", Hq)
    check_dimension("Hkv", Hkv)
    if Hq % Hkv:
        raise InvalidValueError(
            f"heads (Hq={Hq}) is not divisible by kv_heads (Hkv={Hkv}): each key/value head serves Hq/Hkv query heads"
        )


def check_mask(Sq: int, Skv: int, *, causal: bool, window: int | None) -> None:
    """Raise `InvalidValueError` unless `causal` and `window` make sense for these lengths."""
    if causal not in (0, 1):
        raise InvalidValueError(f"causal must be True or False, got {causal!r}")
    if window is not None and (
        isinstance(window, bool) or not isinstance(window, int) or not 1 <= window <= MAX_DIMENSION
    ):
        raise InvalidValueError(
            f"window must be None (every key) or a whole number of keys from 1 to {MAX_DIMENSION:,}, got {window!r}"
        )
    if (causal or window is not None) and Sq > Skv:
        given = "causal=True" if causal else f"window={window}"
        raise InvalidValueError(
            f"Sq must not exceed Skv with {given}, got Sq={Sq} and Skv={Skv}: Skv counts the new tokens, too"
        )


def check_attention_shape(
    B: int, Hq: int, Hkv: int, Sq: int, Skv: int, D: int, *, causal: bool = False, window: int | None = None
) -> None:
    """Raise `InvalidValueError` naming the letter that is wrong."""
    for name, size in (("B", B), ("Sq", Sq), ("Skv", Skv), ("D", D)):
        check_dimension(name, size)
    check_heads(Hq, Hkv)
    check_mask(Sq, Skv, causal=causal, window=window)


def visible_pairs(Sq: int, Skv: int, *, causal: bool = False, window: int | None = None) -> int:
    """Return how many (query, key) pairs of one head are not masked.

    `causal`: a query sees no key after itself. `window` = w: of the keys up to itself it sees the last w, itself among
    them; without `causal` the keys after it stay visible. Full: Sq·Skv. Causal with Sq = Skv = S: S·(S + 1)/2, half of
    full plus half a diagonal.
    """
    check_mask(Sq, Skv, causal=causal, window=window)
    before = Skv - Sq  # keys ahead of the first query
    width = Skv if window is None else min(window, Skv)
    if causal:
        return _seen_backwards(Skv, width) - _seen_backwards(before, width)
    if window is None:
        return Sq * Skv
    return Sq * Skv - (_hidden_by_window(Skv, width) - _hidden_by_window(before, width))


def keys_read(Sq: int, Skv: int, *, window: int | None = None) -> int:
    """Return how many keys of one head at least one query sees: Skv, or min(Skv, Sq + window − 1)."""
    return Skv if window is None else min(Skv, Sq + window - 1)


def pages_read(Sq: int, Skv: int, page_tokens: int, *, window: int | None = None) -> int:
    """Return how many pages of `page_tokens` tokens hold the keys that are read; the cache begins at a page's start."""
    check_dimension("page_tokens", page_tokens)
    first = Skv - keys_read(Sq, Skv, window=window)
    return (Skv - 1) // page_tokens - first // page_tokens + 1


def _seen_backwards(count: int, width: int) -> int:
    """Return the sum of min(position, width) over positions 1 … count."""
    rising = min(count, width)
    return rising * (rising + 1) // 2 + (count - rising) * width


def _hidden_by_window(count: int, width: int) -> int:
    """Return the sum of max(0, position − width) over positions 1 … count."""
    beyond = max(0, count - width)
    return beyond * (beyond + 1) // 2
