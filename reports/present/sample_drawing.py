"""A series of numbers as text: a histogram of samples, and a line of blocks in the order of the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median, quantiles
from typing import Any

from roofline_model.core.units import DECIMAL_PREFIXES, own_prefix

BIN_COUNT = 10
_FENCE_IQR = 4.0
"""Samples farther from the quartiles than this many quartile distances are counted in a row of their own."""
_BLOCKS, _ASCII_BLOCKS = "▁▂▃▄▅▆▇█", "_.-~=+*#"


def histogram_lines(samples_s: Sequence[float], width: int) -> list[str]:
    """Return one line per bin: its lower end, a bar, its count. Equal samples give one line; none give none."""
    if not samples_s:
        return []
    low_s, high_s = _fenced(samples_s)
    if high_s <= low_s:
        low_s, high_s = min(samples_s), max(samples_s)
    step_s = (high_s - low_s) / BIN_COUNT
    labels, counts = _bins(samples_s, low_s, high_s, step_s)
    name_width, count_width = max(map(len, labels)), max(len(str(count)) for count in counts)
    room = max(width - name_width - count_width - 4, 10)
    most = max(counts)
    return [
        f"{label.rjust(name_width)}  " + f"{_bar(count / most * room)} {count}".lstrip()
        for label, count in zip(labels, counts, strict=True)
    ]


def sparkline(values: Sequence[float], width: int, *, is_ascii: bool = False) -> str:
    """Return values in their order as a line of at most `width` blocks of eight heights: the median of each stretch,
    the smallest the lowest; equal ones are in the middle. Empty for none.
    """
    if not values:
        return ""
    parts = min(len(values), width)
    bounds = [index * len(values) // parts for index in range(parts + 1)]
    levels = [median(values[start:stop]) for start, stop in pairwise(bounds)]
    low, span = min(levels), max(levels) - min(levels)
    blocks = _ASCII_BLOCKS if is_ascii else _BLOCKS
    shares = [(level - low) / span if span > 0 else 0.5 for level in levels]
    return "".join(blocks[min(int(share * len(blocks)), len(blocks) - 1)] for share in shares)


def _fenced(samples_s: Sequence[float]) -> tuple[float, float]:
    low_s, high_s = min(samples_s), max(samples_s)
    if len(samples_s) < 4:
        return low_s, high_s
    first_s, _, third_s = quantiles(samples_s, n=4)
    reach_s = _FENCE_IQR * (third_s - first_s)
    return max(low_s, first_s - reach_s), min(high_s, third_s + reach_s)


def _bins(samples_s: Sequence[float], low_s: float, high_s: float, step_s: float) -> tuple[list[str], list[int]]:
    prefix = own_prefix(max(high_s, low_s))
    scale = DECIMAL_PREFIXES[prefix]
    decimals = _decimals(step_s / scale)
    if step_s <= 0:
        return [f"{low_s / scale:.4g} {prefix}s"], [len(samples_s)]
    inside = [0] * BIN_COUNT
    below = above = 0
    for sample_s in samples_s:
        if sample_s < low_s:
            below += 1
        elif sample_s > high_s:
            above += 1
        else:
            inside[min(int((sample_s - low_s) / step_s), BIN_COUNT - 1)] += 1
    labels = [f"{(low_s + index * step_s) / scale:.{decimals}f} {prefix}s" for index in range(BIN_COUNT)]
    counts = inside
    if below:
        labels, counts = [f"below {labels[0]}", *labels], [below, *counts]
    if above:
        labels, counts = [*labels, f"above {high_s / scale:.{decimals}f} {prefix}s"], [*counts, above]
    return labels, counts


def _bar(length: float) -> str:
    """Return a bar of `length` characters, in eighths; what is there at all is seen."""
    eighths = max(round(length * 8), 1) if length > 0 else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _decimals(step: float) -> int:
    """Return how many decimals tell neighbouring bins apart."""
    return next((decimals + 1 for decimals in range(6) if step * 10**decimals >= 1), 6)


def visits_text(extra: Mapping[str, Any]) -> str:
    """Return how many visits to the case agreed: `5 of 7 visits agree, 2 contended`; empty where it had none."""
    visits = extra.get("visits")
    counts = [visits.get(name) for name in ("count", "agreed", "contended")] if isinstance(visits, dict) else [None]
    if not all(isinstance(count, int) for count in counts):
        return ""
    count, agreed, contended = counts
    return f"{agreed} of {count} visits agree" + (f", {contended} contended" if contended else "")
