"""Statistics of one activation tensor, and what they say about outliers. The numbers only; tensors live in bench_cases.

Source of the names and of the outlier ratio: the original document 004, "Activation Statistics".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline_model.core.errors import InvalidValueError

Magnitude = float
"""A number in the activation's own unit. The document's field names carry no unit, so the type says it."""


@dataclass(frozen=True, slots=True)
class ActivationStats:
    """Statistics over all elements of a tensor. Raises `InvalidValueError` for numbers that no tensor can have.

    Percentiles are of |x|: the smallest magnitude that at least that share of the elements does not exceed.
    """

    absmax: Magnitude
    mean: Magnitude
    std: Magnitude
    percentile_99: Magnitude
    percentile_999: Magnitude
    """99.9th percentile."""
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        named = {name: getattr(self, name) for name in ("absmax", "mean", "std", "percentile_99", "percentile_999")}
        for name, number in named.items():
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise InvalidValueError(f"{name} must be a finite number, got {str(number)[:40]}")
        for low, high in (("percentile_99", "percentile_999"), ("percentile_999", "absmax")):
            if not 0 <= named[low] <= named[high]:
                raise InvalidValueError(f"{low} must be from 0 to {high} ({named[high]:g}), got {named[low]:g}")
        if named["std"] < 0 or abs(named["mean"]) > named["absmax"] * (1 + 1e-6):
            raise InvalidValueError(
                f"std must not be negative and |mean| not above absmax ({named['absmax']:g}), got std {named['std']:g} "
                f"and mean {named['mean']:g}"
            )
        object.__setattr__(self, "shape", tuple(self.shape))
        sizes = self.shape
        if not sizes or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
            raise InvalidValueError(f"shape must hold whole numbers of at least 1, got {sizes}")

    @property
    def outlier_ratio(self) -> float:
        """absmax over the 99.9th percentile by rank: 1 without outliers; infinite when nearly everything is zero.

        Not the number that `codecs.outlier_ratio` gives for a tensor: that interpolates the percentile.
        """
        if self.percentile_999 == 0:
            return math.inf if self.absmax else 1.0
        return self.absmax / self.percentile_999

    @property
    def dynamic_range(self) -> float:
        """The effective range: the 99.9th percentile (seeds' name)."""
        return self.percentile_999

    @property
    def element_count(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.shape)
