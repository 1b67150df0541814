"""The p-norm that joins terms which overlap in time: more than the longest of them, less than their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def powered(x: Floats, order: int) -> Floats:
    """Return x to the power of `order`, 3 or 4, by products."""
    square = x * x
    return square * square if order == 4 else square * x


def rooted(x: Floats, order: int) -> Floats:
    """Return the root of `order`, 3 or 4: the norm of terms whose powers sum to `x`."""
    import numpy as np

    result: Floats = np.sqrt(np.sqrt(x)) if order == 4 else np.cbrt(x)
    return result
