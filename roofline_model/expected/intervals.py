"""80 % intervals: factors on the expected time by regime, and what each step of a transfer adds to them.

A regime is the number of rows (m ≤ 16, 17 to 256, more) and whether the launch floor rules (time ≤ 1.6 floors) or the
body. Factors are quantiles of measured over predicted, on rows the constants were not fitted on: 9.3 and 90.7 %, and
not 10 and 90 %, because the quantiles of a sample hold less than 80 % of the next one (`fitting/cross_validation.py`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from roofline_model.core.definition_text import parse_definition, shown
from roofline_model.core.elementwise import Numbers
from roofline_model.core.errors import DefinitionError, InvalidValueError

REGIMES = ("m16-floor", "m16-body", "m256-floor", "m256-body", "large-floor", "large-body")
FLOOR_RATIO = 1.6
"""Up to this multiple of the launch floor a call is ruled by it."""
_ROW_LIMITS = (16, 256)


@dataclass(frozen=True, slots=True)
class IntervalTable:
    """Low and high factor for each of `REGIMES`, in that order."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        for low, high, regime in zip(self.low, self.high, REGIMES, strict=True):
            if not 0 < low <= 1 <= high < math.inf:
                raise InvalidValueError(f"interval {regime}: need 0 < low ≤ 1 ≤ high, got {low} and {high}")

    @classmethod
    def from_pairs(cls, pairs: Mapping[str, tuple[float, float]]) -> IntervalTable:
        """Return the table of a mapping regime → (low, high); raises `InvalidValueError` for a missing or unknown
        one.
        """
        if set(pairs) != set(REGIMES):
            odd = sorted(set(pairs) ^ set(REGIMES))
            raise InvalidValueError(
                f"interval needs exactly {', '.join(REGIMES)}; missing or unknown: {', '.join(odd)}"
            )
        return cls(tuple(float(pairs[name][0]) for name in REGIMES), tuple(float(pairs[name][1]) for name in REGIMES))

    def pairs(self) -> dict[str, tuple[float, float]]:
        """Return the table as regime → (low, high)."""
        return {name: (low, high) for name, low, high in zip(REGIMES, self.low, self.high, strict=True)}

    def widened(self, other: IntervalTable, share: float) -> IntervalTable:
        """Return this table widened in quadrature of logs by `share` of `other`: two independent sources of error."""

        def joined(mine: float, theirs: float, sign: int) -> float:
            return math.exp(sign * math.hypot(math.log(mine), share * math.log(theirs)))

        return IntervalTable(
            tuple(joined(a, b, -1) for a, b in zip(self.low, other.low, strict=True)),
            tuple(joined(a, b, +1) for a, b in zip(self.high, other.high, strict=True)),
        )


def regimes_of(M: Numbers, time_s: Numbers, launch_s: Numbers) -> Any:
    """Return the index into `REGIMES` of each prediction of `M` rows whose launch floor is `launch_s`."""
    if isinstance(M, int | float):
        rows: Any = bisect_left(_ROW_LIMITS, M)
    else:
        import numpy as np

        rows = np.searchsorted(_ROW_LIMITS, M, side="left")
    return 2 * rows + (time_s > FLOOR_RATIO * launch_s)


def interval_bounds(
    low_ratios: Any, high_ratios: Any, M: Numbers, time_s: Numbers, launch_s: Numbers
) -> tuple[Numbers, Numbers]:
    """Return (low, high) seconds of predictions by the factors of `REGIMES`.

    Factors are those of one table; or an array of shape (predictions, regimes), where each prediction has its own.
    """
    regime = regimes_of(M, time_s, launch_s)
    if isinstance(regime, int):
        return time_s * low_ratios[regime], time_s * high_ratios[regime]
    import numpy as np

    low, high = np.asarray(low_ratios), np.asarray(high_ratios)
    rows = regime if low.ndim == 1 else (np.arange(len(regime)), regime)
    return time_s * low[rows], time_s * high[rows]


LENT_FILE = "lent_intervals.toml"
"""Half-widths of lent constants, beside this module; written by `scripts/fit/make_lent_intervals.py`."""
LENT_SCHEMA = 1


def lent_half_widths(operation: str) -> Mapping[str, float]:
    """Return step → half-width (a log, 80 %) that a transfer adds in quadrature to the interval of the chips that lend.

    `operation`: products or attention. Each covers chips of the measured rows, left out whole, to 80 % on average
    (`fitting/transfer_drift.py`). Only `sibling` has none to leave out: sisters of one design with another memory or
    clock are not among those rows. The published ceilings of eight such pairs stand in (docs/theory/validation.md).
    """
    text = resources.files("roofline_model.expected").joinpath(LENT_FILE).read_text(encoding="utf-8")
    data = parse_definition(text)
    if data.get("schema") != LENT_SCHEMA:
        raise DefinitionError(f"{LENT_FILE}: schema must be {LENT_SCHEMA}, got {shown(data.get('schema'))}")
    return MappingProxyType({step: float(entry["half_width"]) for step, entry in data[operation].items()})


DRIFT: Mapping[str, float] = lent_half_widths("products")
"""Of products: sibling; near, another product of the family, or between sm89 and sm120; far, another family (FP8 has
its own); format, a kernel family that only other chips were measured with, leaning on one that this chip has.
"""


def drift_of(steps: Iterable[str], kernel_family: str, drift: Mapping[str, float] = DRIFT) -> float:
    """Return the joint half-width of independent steps; a step may have a value of its own for a kernel family."""
    return math.hypot(*(drift.get(f"{step}-{kernel_family}", drift[step]) for step in steps))


def joined_factors(pair: tuple[float, float], half_width: float) -> tuple[float, float]:
    """Return (low, high) factors widened in quadrature of logs by an independent error of this half-width."""
    low, high = (math.hypot(math.log(factor), half_width) for factor in pair)
    return math.exp(-low), math.exp(high)


def outwards(pair: tuple[float, float]) -> tuple[float, float]:
    """Return (low, high) with four digits: rounding never makes an interval narrower."""
    return math.floor(pair[0] * 1e4) / 1e4, math.ceil(pair[1] * 1e4) / 1e4


def drifted(table: IntervalTable, half_width: float) -> IntervalTable:
    """Return the factors of lent constants: the lender's own, and the error of the transfer beside it."""
    pairs = [joined_factors(pair, half_width) for pair in zip(table.low, table.high, strict=True)]
    return IntervalTable(tuple(low for low, _ in pairs), tuple(high for _, high in pairs))


def hull(tables: Sequence[IntervalTable]) -> IntervalTable:
    """Return the widest of several tables, regime by regime."""
    return IntervalTable(
        tuple(min(lows) for lows in zip(*(table.low for table in tables), strict=True)),
        tuple(max(highs) for highs in zip(*(table.high for table in tables), strict=True)),
    )


ACROSS_FAMILIES: Mapping[str, IntervalTable] = MappingProxyType(
    {
        "BF16": IntervalTable((0.75, 0.88, 0.75, 0.84, 0.76, 0.83), (1.32, 1.23, 1.34, 1.22, 1.31, 1.22)),
        "FP8": IntervalTable((0.88, 0.85, 0.89, 0.84, 0.88, 0.83), (1.15, 1.15, 1.14, 1.17, 1.21, 1.21)),
        "NVFP4": IntervalTable((0.69, 0.76, 0.68, 0.75, 0.78, 0.84), (1.45, 1.26, 1.46, 1.24, 1.63, 1.27)),
        "WO": IntervalTable((0.65, 0.81, 0.69, 0.79, 0.74, 0.82), (1.55, 1.45, 1.35, 1.35, 1.32, 1.24)),
    }
)
"""Factors where nothing is known of the constants but the kernel family: 10 and 90 % quantiles of measured over
predicted over every chip of the 18,000 rows left out in turn (2026-11-21), rounded outwards. WO: weight-only kernels.
"""


def across_families(kernel_family: str) -> IntervalTable:
    """Return the factors for constants of which nothing is known: a caller's own, or where a fit begins."""
    return ACROSS_FAMILIES.get(kernel_family, ACROSS_FAMILIES["WO"])
