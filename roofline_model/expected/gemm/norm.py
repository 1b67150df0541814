"""The p-norm that joins terms which overlap in time: more than the longest of them, less than their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def powered(x: Floats, order: int | Ints) -> Floats:
    """Return x to the power of `order`, 3 or 4, by products; an array has one order for each column."""
    square = x * x
    if isinstance(order, int):
        return square * square if order == 4 else square * x
    import numpy as np

    result: Floats = square * np.where(order == 4, square, x)
    return result


def rooted(x: Floats, order: int | Ints) -> Floats:
    """Return the root of `order`, 3 or 4: the norm of terms whose powers sum to `x`."""
    import numpy as np

    if isinstance(order, int):
        result: Floats = np.sqrt(np.sqrt(x)) if order == 4 else np.cbrt(x)
        return result
    result = np.sqrt(np.sqrt(x))
    cubic = order == 3
    result[..., cubic] = np.cbrt(x[..., cubic])
    return result
