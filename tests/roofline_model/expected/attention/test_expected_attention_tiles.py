"""Whole tiles of a causal prefill: the closed form against walking over every tile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model.expected.attention.prefill import count_tiles


def walked(query, keys, window, causal, rows, columns):
    """Return (tiles, blocks, longest) by the definition."""
    prefix = keys - query
    counts = []
    for tile in range(-(-query // rows)):
        first_row = tile * rows + prefix
        last_row = min((tile + 1) * rows, query) - 1 + prefix
        last = (last_row if causal else keys - 1) // columns
        first = max(0, first_row - (window - 1)) // columns
        counts.append(last - first + 1)
    return len(counts), sum(counts), max(counts)


@given(
    query=st.integers(1, 700),
    prefix=st.integers(0, 900),
    window=st.integers(1, 2000),
    causal=st.booleans(),
    tile=st.sampled_from([(64, 32), (64, 256), (64, 64), (128, 32), (16, 128)]),
)
def test_closed_form_counts_what_a_walk_counts(query, prefix, window, causal, tile):
    keys = query + prefix
    window = min(window, keys)
    arrays = [np.array([value]) for value in (query, keys, window)]
    counted = count_tiles(*arrays, np.array([causal]), rows=tile[0], columns=tile[1])
    counts = (counted.query_tiles[0], counted.blocks[0], counted.longest[0])
    assert counts == walked(query, keys, window, causal, *tile)


@pytest.mark.parametrize(
    ("query", "keys", "window", "causal", "expected"),
    [
        (64, 64, 64, True, (1, 2, 2)),  # one tile of 64 rows sees two blocks of 32 keys
        (128, 128, 128, True, (2, 2 + 4, 4)),
        (128, 128, 128, False, (2, 4 + 4, 4)),
        (64, 1024, 1024, True, (1, 32, 32)),  # chunk at the end of a long prefix
        (1024, 1024, 32, True, (16, 2 + 15 * 3, 3)),  # window of one block: its own two, and the one before
    ],
)
def test_counts_by_hand(query, keys, window, causal, expected):
    counted = count_tiles(
        np.array([query]), np.array([keys]), np.array([window]), np.array([causal]), rows=64, columns=32
    )
    assert (counted.query_tiles[0], counted.blocks[0], counted.longest[0]) == expected


def test_rows_are_counted_independently():
    queries = np.array([1, 64, 65, 4096])
    together = count_tiles(queries, queries, queries, np.ones(4, dtype=bool), rows=64, columns=256)
    for place, query in enumerate(queries):
        alone = count_tiles(*[np.array([query])] * 3, np.array([True]), rows=64, columns=256)
        assert together.blocks[place] == alone.blocks[0]
        assert together.longest[place] == alone.longest[0]
