"""Operands with a structure for attention: on them a shifted mask, a lost key, another head or a wrong scale shows at
once.

They are small, and their last tiles are not full.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from bench_cases.kernels.attention.spec import stored_keys, value_size, visible_keys
from bench_cases.kernels.inputs import ascending, uniform
from bench_cases.kernels.rules import Sizes

KEYS, QUERIES, WINDOW = 67, 5, 19
"""No multiples of a tile."""
SHARPNESS = 16.0
"""Of queries that select one key: its score is this times √D, those of others are of this size."""


def small_sizes(sizes: Sizes) -> dict[str, int]:
    """Return the sizes of a small case that a kernel is chosen for in the same way."""
    group, kv_heads = sizes["Hq"] // sizes["Hkv"], min(sizes["Hkv"], 2)
    queries = 1 if sizes["Sq"] == 1 else KEYS if sizes["Sq"] == sizes["Skv"] else QUERIES
    is_banded = 0 < sizes["window"] < sizes["Skv"]
    small = {
        "B": min(sizes["B"], 2),
        "Hq": group * kv_heads,
        "Hkv": kv_heads,
        "Sq": queries,
        "Skv": KEYS,
        "window": WINDOW if is_banded else 0,
    }
    return {**sizes, **small}


def _keys(sizes: Sizes) -> int:
    return sizes["B"] * sizes["Hkv"] * stored_keys(sizes)


def _queries(sizes: Sizes) -> int:
    return sizes["B"] * sizes["Hq"] * sizes["Sq"]


def _selecting(sizes: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """Every query selects one key: the last that it sees, or the first. Values are ascending ids."""
    D, Sq, keys = sizes["D"], sizes["Sq"], stored_keys(sizes)
    k = uniform("signs", _keys(sizes), D, "cpu").sign_()
    q = torch.empty(_queries(sizes), D)
    for row in range(len(q)):
        sequence_head, query = divmod(row, Sq)
        sequence, head = divmod(sequence_head, sizes["Hq"])
        first, last = visible_keys(sizes, query)
        start = (sequence * sizes["Hkv"] + head * sizes["Hkv"] // sizes["Hq"]) * keys
        q[row] = SHARPNESS * k[start + (last - 1 if (query + head) % 2 == 0 else first)]
    return q, k, ascending(len(k), value_size(sizes))


def _even(sizes: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """Every query gives all keys that it sees the same weight: a result is the mean of their ids."""
    values = ascending(_keys(sizes), max(sizes["D"], value_size(sizes)))
    return torch.zeros(_queries(sizes), sizes["D"]), values[:, : sizes["D"]], values[:, : value_size(sizes)]


def _uneven(sizes: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """Large queries and tiny values, and rows of every magnitude between."""
    power = torch.arange(_keys(sizes)).unsqueeze(1) % 5 - 8.0
    k, v = (uniform(role, _keys(sizes), width, "cpu") for role, width in (("k", sizes["D"]), ("v", value_size(sizes))))
    return 4 * uniform("q", _queries(sizes), sizes["D"], "cpu"), k, v * torch.exp2(power)


def structured_operands(sizes: Sizes) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    """Yield a name, Q (B·Hq·Sq, D), K (B·Hkv·stored keys, D) and V (…, Dv), FP32, of small sizes."""
    yield ("one key", *_selecting(sizes))
    yield ("all keys", *_even(sizes))
    yield ("uneven", *_uneven(sizes))
