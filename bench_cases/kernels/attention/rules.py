"""Shape rules of attention kernels: the reason why a shape cannot run, or None."""

from __future__ import annotations

from bench_cases.kernels.attention.spec import AttentionRule, Sizes, mask_kind, value_size


def no_band_mask(sizes: Sizes) -> str | None:
    """Refuse masks that are neither absent nor a square triangle: the kernel has no argument for them."""
    if mask_kind(sizes) != "band":
        return None
    window = (
        f"window {sizes['window']}" if sizes["window"] else f"causal with Sq={sizes['Sq']} below Skv={sizes['Skv']}"
    )
    return f"takes no mask, and {window} needs one in prefill"


def equal_heads(sizes: Sizes) -> str | None:
    """Refuse grouped heads."""
    if sizes["Hq"] == sizes["Hkv"]:
        return None
    return (
        f"has no grouped heads, here {sizes['Hq']} query heads share {sizes['Hkv']}; K and V would have to be repeated"
    )


def equal_values(sizes: Sizes) -> str | None:
    """Refuse values that are narrower than keys."""
    values = value_size(sizes)
    if values == sizes["D"]:
        return None
    return (
        f"has one head size, here keys have {sizes['D']} elements and values {values}; values would have to be padded"
    )


def one_query(sizes: Sizes) -> str | None:
    """Refuse more than one new token: the queries of all heads are taken for queries of one, which needs no mask."""
    return None if sizes["Sq"] == 1 else f"takes one new token of each sequence, here Sq = {sizes['Sq']}"


def head_up_to(most: int) -> AttentionRule:
    """Return the rule that D is `most` or less."""
    return lambda sizes: None if sizes["D"] <= most else f"needs D ≤ {most}, here D = {sizes['D']}"


def head_multiple_of(divisor: int) -> AttentionRule:
    """Return the rule that D is a multiple of `divisor`."""
    return lambda sizes: (
        None if sizes["D"] % divisor == 0 else f"needs D to be a multiple of {divisor}, here D = {sizes['D']}"
    )
