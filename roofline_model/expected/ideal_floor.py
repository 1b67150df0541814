"""An expected time of cold operands is never below their ideal time.

The tables that constants are fitted to rotate over copies of the weights only: activations and the output stay in the L2, so
that a wide, shallow product can be faster than a roofline that fetches everything from memory. `roofline validate`
predicts such rows as they were measured. A call whose operands all come from memory cannot be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline_model.expected.predict import ExpectedPrediction
    from roofline_model.roofline import Prediction

    Floats = NDArray[np.float64]

NOTE = "fitted to kernels whose activations were in the L2: the ideal time of cold operands is the lower limit"


def at_least_ideal(found: ExpectedPrediction, ideal: Prediction, beaten_ratio: float = 1.0) -> ExpectedPrediction:
    """Return the prediction with its time raised to the ideal one, and the difference given to the side of the roof.

    The interval then begins at the ideal time, too, and keeps its upper factor.
    `beaten_ratio`: a published rate over the peak, where a chip was faster than its rated one (`published_over_peak`).
    """
    limit_s, low_s, high_s = raised_to_ideal(
        found.time_s, found.low_s, found.high_s, ideal.memory_time_s, ideal.compute_time_s, beaten_ratio
    )
    missing_s = limit_s - found.time_s
    if missing_s <= 0:
        return found
    side = "dram" if ideal.memory_time_s >= limit_s else "tensor"
    parts, terms = dict(found.parts), dict(found.terms)
    parts[side] = parts.get(side, 0.0) + missing_s
    terms[side] = max(terms.get(side, 0.0), limit_s)
    return replace(
        found,
        time_s=limit_s,
        low_s=low_s,
        high_s=high_s,
        parts=tuple(parts.items()),
        terms=tuple(terms.items()),
        binding=side,
        notes=(*found.notes, NOTE),
    )


def raised_to_ideal(
    time_s: float, low_s: float, high_s: float, memory_s: float, compute_s: float, beaten_ratio: float
) -> tuple[float, float, float]:
    """Return the time and both ends of its interval, raised in the same way, where nothing else is asked for."""
    limit_s = max(memory_s, compute_s / beaten_ratio)
    if limit_s - time_s <= 0:
        return time_s, low_s, high_s
    return limit_s, limit_s, limit_s * high_s / time_s


def floored(
    expected_s: Floats, low_s: Floats, high_s: Floats, binding: list[str], ideal_s: Floats, memory_s: Floats
) -> tuple[Floats, Floats, Floats, list[str]]:
    """Return the same for arrays: times, both ends of the interval, and binding terms."""
    import numpy as np

    is_low = expected_s < ideal_s
    sides = np.where(memory_s >= ideal_s, "dram", "tensor")
    named = [str(side) if low else name for name, low, side in zip(binding, is_low, sides, strict=True)]
    raised = np.where(is_low, ideal_s / expected_s, 1.0)
    return np.maximum(expected_s, ideal_s), np.where(is_low, ideal_s, low_s), high_s * raised, named
