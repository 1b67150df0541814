"""The p-norm that joins terms which overlap in time: more than the longest of them, less than their sum."""

from __future__ import annotations

from roofline_model.core.elementwise import Numbers, cube_root, square_root


def powered(x: Numbers, order: Numbers) -> Numbers:
    """Return x to the power of `order`, 3 or 4, by products; an array has one order for each column."""
    square = x * x
    if isinstance(order, int):
        return square * square if order == 4 else square * x
    import numpy as np

    return square * np.where(order == 4, square, x)


def rooted(x: Numbers, order: Numbers) -> Numbers:
    """Return the root of `order`, 3 or 4: the norm of terms whose powers sum to `x`."""
    if isinstance(order, int):
        return square_root(square_root(x)) if order == 4 else cube_root(x)
    result = square_root(square_root(x))
    cubic = order == 3
    result[..., cubic] = cube_root(x[..., cubic])
    return result
