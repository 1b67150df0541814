"""How far predictions are from measured times: mean, median, 90 %, bias and coverage, per group of rows.

error = (predicted − measured) / measured; negative: the prediction was too fast. Ratios; percent exists only in print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors of one set of rows; None where no row has both a prediction and a measured time."""

    row_count: int
    """Rows scored: predicted, and with a measured time."""
    mape_ratio: float | None
    """Mean |error|."""
    median_ratio: float | None
    """Median |error|."""
    p90_ratio: float | None
    """90 % of the rows have a smaller |error|."""
    bias_ratio: float | None
    """Mean signed error."""
    coverage_ratio: float | None
    """Share of measured times inside [low, high]; None without intervals."""


@dataclass(frozen=True, slots=True)
class GroupAccuracy:
    """One device × op × phase × format: expected and ideal errors side by side."""

    device: str
    op: str
    phase: str
    formats: str
    row_count: int
    """All rows of the group, those without a prediction included."""
    expected: Accuracy
    ideal: Accuracy
    provenance: str
    """Of the expected times; several are joined by `+`."""


def accuracy(
    predicted_s: Floats, measured_s: Floats, low_s: Floats | None = None, high_s: Floats | None = None
) -> Accuracy:
    """Return the errors of the rows that have both times; NaN in either leaves a row out."""
    is_finite = np.isfinite(predicted_s) & np.isfinite(measured_s)
    if not is_finite.any():
        return Accuracy(0, None, None, None, None, None)
    measured = measured_s[is_finite]
    error = predicted_s[is_finite] / measured - 1
    size = np.abs(error)
    coverage = None
    if low_s is not None and high_s is not None:
        low, high = low_s[is_finite], high_s[is_finite]
        has_interval = np.isfinite(low) & np.isfinite(high)
        if has_interval.any():
            inside = (measured >= low) & (measured <= high)
            coverage = float(inside[has_interval].mean())
    return Accuracy(
        row_count=int(is_finite.sum()),
        mape_ratio=float(size.mean()),
        median_ratio=float(np.median(size)),
        p90_ratio=float(np.quantile(size, 0.9)),
        bias_ratio=float(error.mean()),
        coverage_ratio=coverage,
    )


def mean_over_groups(groups: Sequence[GroupAccuracy]) -> list[tuple[str, str, str, int, float, float | None]]:
    """Return (op, phase, formats, groups, mean expected MAPE, mean ideal MAPE) over chips: each chip counts once."""
    kinds = dict.fromkeys((group.op, group.phase, group.formats) for group in groups)
    rows = []
    for kind in kinds:
        members = [group for group in groups if (group.op, group.phase, group.formats) == kind]
        expected = [group.expected.mape_ratio for group in members if group.expected.mape_ratio is not None]
        ideal = [group.ideal.mape_ratio for group in members if group.ideal.mape_ratio is not None]
        if expected:
            rows.append(
                (*kind, len(expected), sum(expected) / len(expected), sum(ideal) / len(ideal) if ideal else None)
            )
    return rows
