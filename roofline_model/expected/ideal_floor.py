"""An expected time of cold operands is never below their ideal time, nor its interval, nor a part below the roof of its unit.

The tables that constants are fitted to rotate over copies of the weights only: activations and the output stay in the L2, so
that a wide, shallow product can be faster than a roofline that fetches everything from memory. `roofline validate`
predicts such rows as they were measured. A call whose operands all come from memory cannot be. The interval is of such
rows, too, and of lent constants wider still: its lower end is the ideal time where the factors would reach below.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roofline_model.core.finding import finding
from roofline_model.expected.prediction import NORM_PARTS
from roofline_model.ideal.operator_sequence import predict_operator
from roofline_model.ideal.published_rate import beaten_ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline_model.chips.hardware import Device
    from roofline_model.expected.prediction import ExpectedPrediction
    from roofline_model.ideal.roofline import Prediction
    from roofline_model.operators.product import Operator

    Floats = NDArray[np.float64]


def at_least_ideal(found: ExpectedPrediction, ideal: Prediction, beaten_ratio: float = 1.0) -> ExpectedPrediction:
    """Return the prediction with its interval and time raised to the ideal one, and no term or part past the roof that binds.

    A raised time keeps its upper factor.
    `beaten_ratio`: a published rate over the peak, where a chip was faster than its rated one (`published_over_peak`).
    """
    memory_s, compute_s = ideal.memory_time_s, ideal.compute_time_s / beaten_ratio
    time_s, low_s, high_s = raised_to_ideal(found.time_s, found.low_s, found.high_s, memory_s, compute_s)
    roofed = under_roofs(found, memory_s, compute_s, time_s)
    if time_s <= found.time_s:
        return roofed if low_s <= found.low_s else replace(roofed, low_s=low_s)
    findings = (*found.findings, finding("ideal-is-limit"))
    return replace(roofed, low_s=low_s, high_s=high_s, binding=_bound(memory_s, compute_s), findings=findings)


def under_roofs(
    found: ExpectedPrediction, memory_s: float, compute_s: float, time_s: float | None = None
) -> ExpectedPrediction:
    """Return the prediction of `time_s` with terms and parts that no unit's roof contradicts.

    Terms, each as if alone, are at least their roof. Of the parts, which share the time, it is the longer roof's: what
    overlaps it is hidden behind it and counts only what it adds, so that those give way first.
    """
    time_s = found.time_s if time_s is None else time_s
    parts, terms = dict(found.parts), dict(found.terms)
    # A kernel that decodes the weight first moves a part of the bytes.
    roofs = {"dram": max(0.0, memory_s - parts.get("dequantize", 0.0)), "tensor": compute_s}
    side = _bound(memory_s, compute_s)
    low = {name: roof_s for name, roof_s in roofs.items() if terms.get(name, 0.0) < roof_s}
    if not low and time_s == found.time_s and parts.get(side, 0.0) >= roofs[side]:
        return found
    terms |= low
    parts[side] = parts.get(side, 0.0) + (time_s - found.time_s)
    missing_s = min(roofs[side], time_s) - parts[side]
    if missing_s > 0:
        parts[side] += missing_s
        overlapped = [name for name in parts if name in NORM_PARTS and name not in (side, "dequantize")]
        for names in (overlapped, [name for name in parts if name != side]):
            missing_s -= _taken(parts, names, missing_s)
    known = tuple((name, value) for name, value in parts.items() if value > 0)
    return replace(found, time_s=time_s, parts=known, terms=tuple(terms.items()))


def _taken(parts: dict[str, float], names: list[str], wanted_s: float) -> float:
    """Take `wanted_s` from these parts in proportion, as far as they go; return how much that was."""
    whole_s = sum(parts[name] for name in names)
    taken_s = min(wanted_s, whole_s)
    for name in names:
        parts[name] *= 1 - taken_s / whole_s if taken_s > 0 else 1.0
    return taken_s


def warm_under_roof(found: ExpectedPrediction, ideal: Prediction, beaten_ratio: float = 1.0) -> ExpectedPrediction:
    """Return the same of warm operands, whose time stays: only where arithmetic binds is its roof known."""
    compute_s = ideal.compute_time_s / beaten_ratio
    return under_roofs(found, 0.0, compute_s) if compute_s > ideal.memory_time_s else found


def _bound(memory_s: float, compute_s: float) -> str:
    return "dram" if memory_s >= compute_s else "tensor"


def cold_limits(work: Operator, device: Device) -> tuple[float, float]:
    """Return what memory and arithmetic take at least of a call with cold operands, for `raised_to_ideal`."""
    ideal = predict_operator(work, device)
    return ideal.memory_time_s, ideal.compute_time_s / beaten_ratio(work, device)


def raised_to_ideal(
    time_s: float, low_s: float, high_s: float, memory_s: float, compute_s: float
) -> tuple[float, float, float]:
    """Return the time and both ends of its interval, raised in the same way, where nothing else is asked for."""
    limit_s = max(memory_s, compute_s)
    if limit_s - time_s <= 0:
        return time_s, max(low_s, limit_s), high_s
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
    return np.maximum(expected_s, ideal_s), np.maximum(low_s, ideal_s), high_s * raised, named
