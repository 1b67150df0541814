"""Fitting a handful of positive constants to measured times: pseudo-Huber in log space, log-normal priors, bounds.

    minimise  Σ w · ρ(ln(predicted / measured))  +  Σ ½ (0.1 / σ · ln(c / c_start))²        over  low ≤ c ≤ high
    ρ(r) = δ² (√(1 + (r/δ)²) − 1), δ = 0.05

The loss counts an error of 50 % about linearly, so that the few rows where a library chose badly do not bend the
constants. Method: bounded Gauss–Newton steps in a trust region (`scipy.optimize.least_squares`), as the GEMM study of
2026-11-21 did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError

Floats = NDArray[np.float64]

LOSS_SCALE = 0.05
"""δ: errors below 5 % count squared, larger ones about linearly."""
ERROR_SCALE = 0.10
"""The error of a typical row, against which a prior's width is weighed."""
MOST_STEPS = 40
_LOG_STEP = 1e-3
"""Step of the numerical derivatives: 0.1 % of a constant, wide enough to look past the kinks of a minimum over
kernels.
"""


@dataclass(frozen=True, slots=True)
class FreeConstant:
    """One constant to be fitted: where it starts, what it may be, and how far it is expected to move."""

    name: str
    start_value: float
    """Starting point and centre of the prior."""
    low_value: float
    high_value: float
    prior_scale: float = 1.0
    """Standard deviation of ln(value / start) that the prior allows: 1 is weak (a factor of 2.7), 0.15 is strong."""

    def __post_init__(self) -> None:
        if not 0 < self.low_value < self.high_value < math.inf or not self.prior_scale > 0:
            raise InvalidValueError(
                f"constant {self.name}: bounds must be positive and rising and prior_scale positive, "
                f"got {self.low_value}, {self.high_value}, {self.prior_scale}"
            )

    @property
    def start(self) -> float:
        """The start inside the bounds."""
        return min(max(self.start_value, self.low_value), self.high_value)


@dataclass(frozen=True, slots=True)
class FittedConstants:
    """What a fit found, and how well it fits the rows it was fitted to."""

    values: Mapping[str, float]
    spreads: Mapping[str, float]
    """Standard deviation of ln(value), by constant, from the curvature at the solution; 0.05 is about ±5 %."""
    at_bound: tuple[str, ...]
    """Constants that ended on a bound: fit results, not physical numbers."""
    row_count: int
    mape_ratio: float
    """In-sample mean |error|."""
    median_ratio: float
    step_count: int


def fit_constants(
    free: Sequence[FreeConstant],
    predict_s: Callable[[Mapping[str, float]], Floats],
    measured_s: Floats,
    *,
    row_weights: Floats | None = None,
    first_values: Mapping[str, float] | None = None,
    most_steps: int = MOST_STEPS,
) -> FittedConstants:
    """Return the constants whose predictions fit the measured times best, seconds in, seconds out.

    `predict_s` maps constants by name to one time per row. `first_values` only chooses where the search begins; the
    prior stays at `start_value`. Raises `InvalidValueError` when there is no row, or a time is not positive and finite.
    """
    from scipy.optimize import least_squares

    measured = np.asarray(measured_s, dtype=np.float64)
    _check(free, measured)
    problem = _Problem(free, predict_s, np.log(measured), row_weights)
    start = problem.clipped({constant.name: constant.start for constant in free} | dict(first_values or {}))
    solution = least_squares(
        problem.residuals,
        start,
        jac=problem.slopes,
        bounds=(problem.low, problem.high),
        method="trf",
        x_scale="jac",
        xtol=1e-4,
        ftol=1e-5,
        gtol=1e-9,
        max_nfev=most_steps,
    )
    values = problem.named(solution.x)
    errors = np.abs(np.exp(problem.log_predictions(solution.x) - problem.log_measured) - 1)
    margin = 1e-3 * (problem.high - problem.low)
    on_bound = (solution.x - problem.low < margin) | (problem.high - solution.x < margin)
    return FittedConstants(
        values=values,
        spreads=dict(zip(values, problem.spreads(solution.x), strict=True)),
        at_bound=tuple(constant.name for constant, is_there in zip(free, on_bound, strict=True) if is_there),
        row_count=len(measured),
        mape_ratio=float(errors.mean()),
        median_ratio=float(np.median(errors)),
        step_count=int(solution.nfev),
    )


def _check(free: Sequence[FreeConstant], measured: Floats) -> None:
    if not free:
        raise InvalidValueError("there is no constant to fit")
    if measured.size == 0:
        raise InvalidValueError("there is no measured row to fit to")
    if not np.all(np.isfinite(measured) & (measured > 0)):
        raise InvalidValueError("measured times must be positive and finite; leave the other rows out of the fit")


class _Problem:
    """Residuals and slopes of one fit, over ln(constant)."""

    def __init__(
        self,
        free: Sequence[FreeConstant],
        predict_s: Callable[[Mapping[str, float]], Floats],
        log_measured: Floats,
        row_weights: Floats | None,
    ) -> None:
        self.free = free
        self.predict_s = predict_s
        self.log_measured = log_measured
        self.weights = np.ones_like(log_measured) if row_weights is None else np.sqrt(row_weights)
        self.low = np.log([constant.low_value for constant in free])
        self.high = np.log([constant.high_value for constant in free])
        self.centre = np.log([constant.start for constant in free])
        self.pull = ERROR_SCALE / np.array([constant.prior_scale for constant in free])
        # The last point is remembered, because its slopes are asked for next.
        self._logs_at = lru_cache(maxsize=1)(lambda point: self._logs(np.frombuffer(point)))

    def named(self, x: Floats) -> dict[str, float]:
        """Return the constants by name."""
        return {constant.name: float(math.exp(value)) for constant, value in zip(self.free, x, strict=True)}

    def clipped(self, values: Mapping[str, float]) -> Floats:
        """Return ln(values) strictly inside the bounds, where the search has to begin."""
        margin = 1e-6 * (self.high - self.low)
        return np.clip(np.log([values[constant.name] for constant in self.free]), self.low + margin, self.high - margin)

    def log_predictions(self, x: Floats) -> Floats:
        """Return ln(predicted time)."""
        return self._logs_at(x.tobytes())

    def _logs(self, x: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(self.predict_s(self.named(x))), dtype=np.float64)

    def residuals(self, x: Floats) -> Floats:
        """Return the square roots of the loss terms, signed: their squares sum to twice the loss."""
        data = self.weights * _softened(self.log_predictions(x) - self.log_measured)
        return np.concatenate([data, self.pull * (x - self.centre)])

    def slopes(self, x: Floats) -> Any:
        """Return the derivatives of `residuals`, forward differences, away from a near bound."""
        base = self.log_predictions(x)
        outer = (self.weights * _softened_slope(base - self.log_measured))[:, None]
        columns = []
        for i in range(len(x)):
            step = _LOG_STEP if x[i] + _LOG_STEP < self.high[i] else -_LOG_STEP
            moved = x.copy()
            moved[i] += step
            columns.append((self._logs(moved) - base) / step)
        return np.vstack([outer * np.stack(columns, axis=1), np.diag(self.pull)])

    def spreads(self, x: Floats) -> list[float]:
        """Return the standard deviation of each ln(constant) from the curvature at the solution."""
        data = self.residuals(x)[: len(self.log_measured)]
        variance = float(np.sum(data**2)) / max(len(data) - len(x), 1)
        # The prior's rows are in units of ERROR_SCALE already; scaled here so that they count as what they are.
        units = np.repeat([math.sqrt(max(variance, 1e-12)), ERROR_SCALE], [len(data), len(x)])
        scaled = self.slopes(x) / units[:, None]
        covariance = np.linalg.pinv(scaled.T @ scaled)
        return [float(value) for value in np.sqrt(np.clip(np.diag(covariance), 0, None))]


def _softened(r: Floats) -> Floats:
    """Return the signed square root of 2ρ(r): its square summed and halved is the pseudo-Huber loss."""
    root: Floats = np.sqrt(2 * (np.sqrt(1 + (r / LOSS_SCALE) ** 2) - 1))
    return np.sign(r) * LOSS_SCALE * root


def _softened_slope(r: Floats) -> Floats:
    """Return the derivative of `_softened`; 1 where the error is 0."""
    u = np.sqrt(1 + (r / LOSS_SCALE) ** 2)
    # d/dr √(2(u−1)) δ = (r/δ) / (u √(2(u−1))), and r/δ = ±√((u−1)(u+1)).
    return np.sqrt((u + 1) / 2) / u
