"""What rounding explains: how far an element of a right result may lie from the exact one. Nothing here is tuned on
kernels.

An element of a product is a sum of K terms, exact value x, and s² is the sum of the squared terms (the size of a sum of
random signs). A right kernel is off by

- the rounding of its result: at most u·|x|, u the unit roundoff of the format (IEEE 754: half a step);
- the rounding of its running sums. A partial sum after j of K terms has the mean square (j/K)²·x² + (j/K)(1 − j/K)·s²
  (terms in an order that does not depend on their signs); K roundings of it, each up to u of it and of either sign,
  spread the result by u·√K·√(x²/3 + s²/6): the √K law, with λ of these spreads exceeded by one element with the
  probability 2·exp(−λ²/2) at most (Hoeffding's inequality; N. Higham and T. Mary, "A new approach to probabilistic
  rounding error analysis", SIAM J. Sci. Comput. 41(5), 2019);
- the rounding of operands that it narrows or decodes on the way: u of every term, of either sign, which spreads the
  result by u·s;
- what it cuts off instead of rounding: always in the same direction, hence in proportion to |x|. Where each term of a
  sum is cut off toward zero, the parts lost have the terms' signs: half of u of the partial sum for each term that is
  not balanced by one of the other sign.

Sums that are promoted to a wider format every few terms are sums of so many independent parts.

λ is stated by how many elements are looked at, and by how often a right kernel may fail: once in `1 /
FALSE_ALARM_RATIO` checks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from roofline_model.formats.catalog import get_format

FALSE_ALARM_RATIO = 1e-9
"""How often the check of a right kernel may fail, if its roundings are independent."""


class Deviation(NamedTuple):
    """The number of an output that is furthest from right, in units of what rounding explains."""

    error: float
    """Distance from the exact value, as a ratio of the number's magnitude; NaN: the output cannot be compared."""
    tolerance: float
    """What rounding explains of it, as a ratio of the same magnitude."""
    where: str = ""
    """Which number it is: for people who look for the fault."""
    values: tuple[Any, ...] = ()
    """An integer and the right one; or the factor that all numbers are off by; empty where the ratio says it best."""

    @property
    def share_ratio(self) -> float:
        """Return error / tolerance; infinite for any error where none is allowed."""
        if math.isnan(self.error):
            return math.inf
        if self.error == 0:
            return 0.0
        return self.error / self.tolerance if self.tolerance > 0 else math.inf

    @property
    def is_right(self) -> bool:
        """Whether rounding explains it."""
        return self.share_ratio <= 1


@dataclass(frozen=True, slots=True)
class Rounding:
    """Where a kernel rounds. All are unit roundoffs (ratio); 0 means exact."""

    result_ratio: float = 0.0
    sums_ratio: float = 0.0
    terms_per_sum: int = 1
    """Terms that are added exactly between two roundings of the running sum (the depth of a tensor core's step)."""
    sums_are_cut: bool = False
    """Running sums are cut off, not rounded."""
    operands_ratio: float = 0.0
    """Of operands that are rounded on the way to their product."""
    cut_ratio: float = 0.0
    """Largest part of a product that is lost when its operands are cut off."""
    has_partials: bool = False
    """Sums of parts of K may be rounded to the result's format before they are added (split-K)."""
    terms_are_cut: bool = False
    """Each term is cut off at the last bit that the running sum keeps."""
    terms_per_promotion: int | None = None
    """Terms after which a running sum is added to one in FP32 and begins anew; None: at the end."""

    def exact_factor(self, K: int) -> float:
        """Return the part of the variance that goes with x² (dimensionless)."""
        # Two parts are the fewest: their squares sum to x²/2 and s².
        of_sums, _ = self.partial_sum_factors(K)
        return self._steps(K) * self.sums_ratio**2 * of_sums + (self.result_ratio**2 / 2 if self.has_partials else 0.0)

    def terms_factor(self, K: int) -> float:
        """Return the part of the variance that goes with s² (dimensionless)."""
        _, of_terms = self.partial_sum_factors(K)
        return (
            self._steps(K) * self.sums_ratio**2 * of_terms
            + self.operands_ratio**2
            + (self.result_ratio**2 if self.has_partials else 0.0)
        )

    def systematic_ratio(self, K: int) -> float:
        """Return the largest error of one direction, as a ratio of |x|."""
        # Cut sums lose half a step on average, of partial sums that are half of x on average; twice that, for uneven
        # terms.
        return self.cut_ratio + (self._steps(K) * self.sums_ratio / 2 if self.sums_are_cut else 0.0)

    def partial_sum_factors(self, K: int) -> tuple[float, float]:
        """Return the mean square of a running sum, as its parts of x² and of s² (dimensionless)."""
        parts = max(1.0, K / self.terms_per_promotion) if self.terms_per_promotion else 1.0
        return 1 / (3 * parts**2), 1 / (6 * parts)

    def _steps(self, K: int) -> float:
        return max(1.0, K / self.terms_per_sum)


@cache
def unit_roundoff(format_key: str) -> float:
    """Return half the step above 1 of a float format, as a ratio; 0 for integers, whose results are exact."""
    mantissa_bits = get_format(format_key).mantissa_bits
    return 0.0 if mantissa_bits is None else 2.0 ** -(mantissa_bits + 1)


def spreads_allowed(count: int) -> float:
    """Return λ: how many spreads the largest of `count` numbers may be off, once in `1 / FALSE_ALARM_RATIO` checks
    beyond.
    """
    return math.sqrt(2 * math.log(2 * max(1, count) / FALSE_ALARM_RATIO))


def mean_square_allowed(count: int) -> float:
    """Return what the mean of `count` squared errors may be, each as a ratio of its spread, as rarely exceeded as a
    single one.

    Source: D. Hsu, S. Kakade, T. Zhang, "A tail inequality for quadratic forms of subgaussian random vectors",
    Electron. Commun. Probab. 17, 2012.
    """
    rarity = -math.log(FALSE_ALARM_RATIO) / max(1, count)
    return 1 + 2 * math.sqrt(rarity) + 2 * rarity


def worst(deviations: list[Deviation]) -> Deviation:
    """Return the deviation that uses most of its tolerance."""
    return max(deviations, key=lambda deviation: deviation.share_ratio)
