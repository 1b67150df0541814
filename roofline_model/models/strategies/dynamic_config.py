"""How activations are quantised at run time: format, who shares a scale, how the scale is chosen, when it is given
up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from roofline_model.core.errors import InvalidValueError
from roofline_model.models.strategies.operator_type import OperatorType
from roofline_model.models.strategies.precision_text import canonical_precision

Granularity = Literal["per_token", "per_tensor", "per_channel"]
CalibrationMode = Literal["absmax", "percentile", "mse_optimal"]
GRANULARITIES: tuple[str, ...] = get_args(Granularity)
CALIBRATION_MODES: tuple[str, ...] = get_args(CalibrationMode)

FALLBACK = "FP16"
"""Format of a product whose activation is given up as not quantisable."""


@dataclass(frozen=True, slots=True)
class DynamicQuantConfig:
    """Settings of a `DynamicQuantizer`. Raises a `RooflineError` naming the field.

    Source of the fields and defaults: the original document 004, "How It Works"; percentile and outlier limit are its
    99.9th percentile and its "> 2.0 = severe outliers".
    """

    precision: str = "FP8_E4M3"
    """One format for activation and weight, or WEIGHT.ACTIVATION."""
    granularity: Granularity = "per_token"
    """Elements of the activation that share a scale: a row, everything, or a column (folded into the weight)."""
    calibration_mode: CalibrationMode = "percentile"
    """absmax clips nothing, percentile clips outliers, mse_optimal takes the threshold with the least squared error."""
    fallback_to_fp16: bool = True
    """Multiply in FP16 when the outlier ratio is above `outlier_threshold_ratio`."""
    percentile_pct: float = 99.9
    """Share of the magnitudes of a row, tensor or column that percentile mode leaves unclipped."""
    outlier_threshold_ratio: float = 2.0
    """absmax over the 99.9th percentile above which a tensor has severe outliers."""
    smoothing_factor: float = 0.0
    """Weight of the past in an exponential moving average of the thresholds, 0 to below 1; 0 uses each batch's own.
    Smoothed thresholds are steadier and clip a batch that is larger than those before it. Not for per_token, whose rows
    have no past."""

    def __post_init__(self) -> None:
        if self.granularity not in GRANULARITIES:
            raise InvalidValueError(f"granularity must be {_any_of(GRANULARITIES)}, got {str(self.granularity)[:40]!r}")
        if self.calibration_mode not in CALIBRATION_MODES:
            raise InvalidValueError(
                f"calibration_mode must be {_any_of(CALIBRATION_MODES)}, got {str(self.calibration_mode)[:40]!r}"
            )
        if not isinstance(self.fallback_to_fp16, bool):
            raise InvalidValueError(f"fallback_to_fp16 must be True or False, got {self.fallback_to_fp16!r}")
        check_number("percentile_pct", self.percentile_pct, 50, 100)
        check_number("outlier_threshold_ratio", self.outlier_threshold_ratio, 1, 1e9)
        check_number("smoothing_factor", self.smoothing_factor, 0, 0.9999)
        if self.smoothing_factor and self.granularity == "per_token":
            raise InvalidValueError(
                "smoothing_factor with per_token: the rows of two batches are different tokens; use per_tensor or "
                "per_channel"
            )
        # A dynamic precision is that of a projection: any of them will do to check the text.
        object.__setattr__(self, "precision", canonical_precision(OperatorType.FFN_UP, self.precision))


def check_number(name: str, value: float, low: float, high: float) -> None:
    """Raise `InvalidValueError` unless `value` is a number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidValueError(f"{name} must be a number from {low:g} to {high:g}, got {str(value)[:40]!r}")


def _any_of(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
