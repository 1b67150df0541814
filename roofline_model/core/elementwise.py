"""Elementary functions of a number as of an array, so that a formula written once prices one call without arrays.

An operation on an array of one entry costs ten times the one on a number (a product priced as an array of one takes
three times as long). Both give the same bits: what is exact (ceiling, maximum, square root) is Python's own for a
number, what is rounded (logarithm, exponential, powers) comes from numpy's loops either way.

`powered` and `rooted` are the p-norm that joins terms which overlap in time: more than the longest, less than their
sum.
"""

from __future__ import annotations

import math
from typing import Any

_NUMBER = (float, int)
Numbers = Any
"""A `float` or an array of float64; what comes out is of the same kind. (numpy is imported by those who use arrays.)"""


def ceiling(x: Numbers) -> Numbers:
    """Return the whole number at or above each finite `x`."""
    if isinstance(x, float):
        return float(math.ceil(x))
    import numpy as np

    return np.ceil(x)


def larger(x: Numbers, limit: Numbers) -> Numbers:
    """Return each `x`, or `limit` where that is larger; none is NaN. Two numbers give a number."""
    if isinstance(x, float) and isinstance(limit, _NUMBER):
        return x if x >= limit else limit
    import numpy as np

    return np.maximum(x, limit)


def smaller(x: Numbers, limit: Numbers) -> Numbers:
    """Return each `x`, or `limit` where that is smaller; none is NaN. Two numbers give a number."""
    if isinstance(x, float) and isinstance(limit, _NUMBER):
        return x if x <= limit else limit
    import numpy as np

    return np.minimum(x, limit)


def choose(condition: Numbers, yes: Numbers, no: Numbers) -> Numbers:
    """Return `yes` where the condition holds, else `no`; a single condition chooses between whole values."""
    if isinstance(condition, bool):
        return yes if condition else no
    import numpy as np

    return np.where(condition, yes, no)


def to_power(x: Numbers, exponent: Numbers) -> Numbers:
    """Return `x` to the power of `exponent`."""
    if isinstance(x, float):
        import numpy as np

        power = np.asarray(x) ** exponent
        return float(power) if isinstance(exponent, _NUMBER) else power
    return x**exponent


def log2(x: Numbers) -> Numbers:
    """Return the binary logarithm of each `x`."""
    import numpy as np

    return float(np.log2(x)) if isinstance(x, float) else np.log2(x)


def exponential(x: Numbers) -> Numbers:
    """Return e to the power of each `x`."""
    import numpy as np

    return float(np.exp(x)) if isinstance(x, float) else np.exp(x)


def square_root(x: Numbers) -> Numbers:
    """Return the square root of each `x` of at least 0."""
    if isinstance(x, float):
        return math.sqrt(x)
    import numpy as np

    return np.sqrt(x)


def cube_root(x: Numbers) -> Numbers:
    """Return the cube root of each `x`."""
    import numpy as np

    return float(np.cbrt(x)) if isinstance(x, float) else np.cbrt(x)


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
