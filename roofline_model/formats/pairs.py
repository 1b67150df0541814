"""Pairs of formats, weight (or cache) first: how they are typed and named."""

from __future__ import annotations

from roofline_model.core.errors import UnknownNameError
from roofline_model.formats.catalog import NumberFormat, get_format

Pair = tuple[NumberFormat, NumberFormat]
"""Weight or cache, and activation."""


def format_pair(text: str) -> Pair:
    """Return weight and activation format of `INT8` (both) or `INT4.BF16` (weight first, as in test ids)."""
    try:
        both = get_format(text)
    except UnknownNameError:
        weight, _, activation = text.partition(".")
        if not (weight and activation):
            raise
        return get_format(weight), get_format(activation)
    return both, both


def pair_label(pair: Pair) -> str:
    """Return `INT8` when both operands share a format, else `INT4.BF16`."""
    weight, activation = pair
    return weight.key if weight.key == activation.key else f"{weight.key}.{activation.key}"
