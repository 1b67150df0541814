"""Rules of shapes: why a kernel cannot run the sizes of a case. Evaluated before any tensor exists.

Some kernels do not check: `torch._weight_int8pack_mm` on a CPU reads past its buffers when K is not a multiple of 16
(wrong numbers or a crash, seen with torch 2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from roofline_model.core.finding import Finding, finding

Sizes = Mapping[str, int]
"""The letters of a case: M, N and K of a product."""
Rule = Callable[[Sizes], Finding | None]
"""Returns the reason against sizes, or None."""

EMULATED_MAX_WEIGHTS = 2048 * 2048
EMULATED_MAX_ROWS = 256


def multiple_of(letter: str, divisor: int) -> Rule:
    """Return the rule that dimension `letter` is a multiple of `divisor`."""

    def rule(sizes: Sizes) -> Finding | None:
        if sizes[letter] % divisor == 0:
            return None
        return finding(
            "shape-not-taken", kind="multiple", dimension=letter, multiple_count=divisor, size_count=sizes[letter]
        )

    return rule


def at_least(letter: str, least: int) -> Rule:
    """Return the rule that dimension `letter` is `least` or more."""

    def rule(sizes: Sizes) -> Finding | None:
        if sizes[letter] >= least:
            return None
        return finding("shape-not-taken", kind="below", dimension=letter, least_count=least, size_count=sizes[letter])

    return rule


def at_most(letter: str, most: int) -> Rule:
    """Return the rule that dimension `letter` is `most` or less."""
    return lambda sizes: _above("above", letter, sizes[letter], most)


def emulated_small(sizes: Sizes) -> Finding | None:
    """Keep an emulated kernel (about 100 times slower than BF16) to shapes that end in reasonable time."""
    weights = sizes["N"] * sizes["K"]
    return _above("emulated", "N·K", weights, EMULATED_MAX_WEIGHTS) or _above(
        "emulated", "M", sizes["M"], EMULATED_MAX_ROWS
    )


ONE_THREAD_MAX_PRODUCTS = 2**36
"""Most M·N·K of a kernel whose threads walk K alone, each with a load of its own per product.

A load unit serves one such thread per clock and SM: 48 SMs at 2.4 GHz make some 10¹¹ products a second, and a call
takes 0.6 s at most. A case is some twenty calls and is ended after a minute.
"""
INT32_INDICES = 2**31
"""A kernel that computes its indices in 32 bits reads elsewhere beyond so many elements."""


def one_thread_per_output(sizes: Sizes) -> Finding | None:
    """Keep a kernel of one thread per output and 32-bit indices to shapes that are right and end in time."""
    M, N, K = sizes["M"], sizes["N"], sizes["K"]
    if (refusal := _above("serial", "M·N·K", M * N * K, ONE_THREAD_MAX_PRODUCTS)) is not None:
        return refusal
    largest = max(M * K, N * K, M * N)
    if largest < INT32_INDICES:
        return None
    return finding("shape-not-taken", kind="indices", limit_count=INT32_INDICES, size_count=largest)


def first_refusal(kernel: str, refusals: Iterable[Finding | None]) -> Finding | None:
    """Return the first refusal of a kernel's rules, with the kernel as its subject; None when all rules accept."""
    refusal = next((refusal for refusal in refusals if refusal is not None), None)
    return None if refusal is None else replace(refusal, subject=kernel)


def _above(kind: str, dimension: str, size: int, most: int) -> Finding | None:
    if size <= most:
        return None
    return finding("shape-not-taken", kind=kind, dimension=dimension, most_count=most, size_count=size)
