"""Shape rules: what a kernel asks of M, N and K, as functions that give the reason why a shape cannot run (or None).

Some kernels do not check: `torch._weight_int8pack_mm` on a CPU reads past its buffers when K is not a multiple of 16
(wrong numbers or a crash, seen with torch 2.13). So a rule is evaluated before any tensor exists.
"""

from __future__ import annotations

from collections.abc import Callable

ShapeRule = Callable[[int, int, int], str | None]

EMULATED_MAX_WEIGHTS = 2048 * 2048
EMULATED_MAX_ROWS = 256


def multiple_of(letter: str, divisor: int) -> ShapeRule:
    """Return the rule that dimension `letter` (M, N or K) is a multiple of `divisor`."""
    index = "MNK".index(letter)

    def rule(M: int, N: int, K: int) -> str | None:
        size = (M, N, K)[index]
        return None if size % divisor == 0 else f"needs {letter} to be a multiple of {divisor}, here {letter} = {size}"

    return rule


def at_least(letter: str, least: int) -> ShapeRule:
    """Return the rule that dimension `letter` (M, N or K) is `least` or more."""
    index = "MNK".index(letter)
    return lambda M, N, K: (
        None if (M, N, K)[index] >= least else f"needs {letter} ≥ {least}, here {letter} = {(M, N, K)[index]}"
    )


def more_rows_than(least: int) -> ShapeRule:
    """Return the rule that M is above `least`."""
    return lambda M, N, K: f"needs M above {least}, here M = {M}" if least >= M else None


def emulated_small(M: int, N: int, K: int) -> str | None:
    """Keep an emulated kernel (about 100 times slower than BF16) to shapes that end in reasonable time."""
    if N * K > EMULATED_MAX_WEIGHTS:
        return f"emulated, small shapes only: N·K ≤ {EMULATED_MAX_WEIGHTS:,}, here {N * K:,}"
    if M > EMULATED_MAX_ROWS:
        return f"emulated, small shapes only: M ≤ {EMULATED_MAX_ROWS}, here {M}"
    return None


def first_reason(rules: tuple[ShapeRule, ...], M: int, N: int, K: int) -> str | None:
    """Return the first reason against the shape, or None when all rules accept it."""
    return next((reason for rule in rules if (reason := rule(M, N, K)) is not None), None)
