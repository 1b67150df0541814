"""Elementary functions of one number as of an array: a formula written once prices a single product without arrays.

An operation on an array of one entry costs ten times the one on a number. Both give the same bits: what is exact (the whole
number above, the larger of two) is Python's own, what is rounded (log2, powers) comes from numpy's own loops either way.
"""

from __future__ import annotations

import math
from typing import Any

Numbers = Any
"""A `float` or an array of float64: which of both goes in comes out."""


def ceiling(x: Numbers) -> Numbers:
    """Return the whole number at or above each finite `x`."""
    if isinstance(x, float):
        return float(math.ceil(x))
    import numpy as np

    return np.ceil(x)


def larger(x: Numbers, limit: Numbers) -> Numbers:
    """Return each `x`, or `limit` where that is larger; none is NaN."""
    if isinstance(x, float):
        return x if x >= limit else limit
    import numpy as np

    return np.maximum(x, limit)


def smaller(x: Numbers, limit: Numbers) -> Numbers:
    """Return each `x`, or `limit` where that is smaller; none is NaN."""
    if isinstance(x, float):
        return x if x <= limit else limit
    import numpy as np

    return np.minimum(x, limit)


def to_power(x: Numbers, exponent: Numbers) -> Numbers:
    """Return `x` to the power of `exponent`. Python's own `**` of a number rounds in another way than numpy's of an array."""
    if isinstance(x, float):
        import numpy as np

        return float(np.asarray(x) ** exponent)
    return x**exponent
