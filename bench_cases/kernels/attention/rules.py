"""Shape rules of attention kernels: the reason why a shape cannot run, or None."""

from __future__ import annotations

from bench_cases.kernels.attention.spec import mask_kind, value_size
from bench_cases.kernels.rules import Sizes
from roofline_model.core.finding import Finding, finding


def no_band_mask(sizes: Sizes) -> Finding | None:
    """Refuse masks that are neither absent nor a square triangle: the kernel has no argument for them."""
    if mask_kind(sizes) != "band":
        return None
    if sizes["window"]:
        return finding("shape-not-taken", kind="mask", window_count=sizes["window"])
    return finding("shape-not-taken", kind="mask", query_count=sizes["Sq"], cached_count=sizes["Skv"])


def equal_heads(sizes: Sizes) -> Finding | None:
    """Refuse grouped heads."""
    if sizes["Hq"] == sizes["Hkv"]:
        return None
    return finding("shape-not-taken", kind="heads", query_heads_count=sizes["Hq"], kv_heads_count=sizes["Hkv"])


def equal_values(sizes: Sizes) -> Finding | None:
    """Refuse values that are narrower than keys."""
    values = value_size(sizes)
    if values == sizes["D"]:
        return None
    return finding("shape-not-taken", kind="head-sizes", key_size_count=sizes["D"], value_size_count=values)


def one_query(sizes: Sizes) -> Finding | None:
    """Refuse more than one new token: the queries of all heads are taken for queries of one, which needs no mask."""
    return None if sizes["Sq"] == 1 else finding("shape-not-taken", kind="new-tokens", query_count=sizes["Sq"])
