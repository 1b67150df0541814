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


def at_least_ideal(found: ExpectedPrediction, ideal: Prediction) -> ExpectedPrediction:
    """Return the prediction with its time raised to the ideal one, and the difference given to the side of the roof."""
    missing_s = ideal.time_s - found.time_s
    if missing_s <= 0:
        return found
    side = "dram" if ideal.memory_time_s >= ideal.compute_time_s else "tensor"
    parts, terms = dict(found.parts), dict(found.terms)
    parts[side] = parts.get(side, 0.0) + missing_s
    terms[side] = max(terms.get(side, 0.0), ideal.time_s)
    return replace(
        found,
        time_s=ideal.time_s,
        high_s=max(found.high_s, ideal.time_s),
        parts=tuple(parts.items()),
        terms=tuple(terms.items()),
        binding=side,
        notes=(*found.notes, NOTE),
    )


def floored(
    expected_s: Floats, high_s: Floats, binding: list[str], ideal_s: Floats, memory_s: Floats
) -> tuple[Floats, Floats, list[str]]:
    """Return the same for arrays: times, upper ends and binding terms."""
    import numpy as np

    is_low = expected_s < ideal_s
    sides = np.where(memory_s >= ideal_s, "dram", "tensor")
    named = [str(side) if low else name for name, low, side in zip(binding, is_low, sides, strict=True)]
    return np.maximum(expected_s, ideal_s), np.maximum(high_s, ideal_s), named
