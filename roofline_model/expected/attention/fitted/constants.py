"""The constants of the attention model: their names, ranges and priors, and a fitted set with its interval and
evidence.

Names end in `_16bit` or `_8bit` where a constant belongs to a width: of the arithmetic in prefill, of the cache in
decode. µs and ns in names are meant; ratios and counts per clock have no dimension that a user needs.

The residual correction of a fitted set is what the formulas leave over on one chip, smooth surfaces over the sizes of a
call (`expected/grid_surface.py`). Each width has a surface of its own, because it runs kernels of its own. Errors under
cross-validation: docs/theory/validation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding
from roofline_model.expected.attention.chip import PREFILL_EDGE, AttentionChip, hit_ratio
from roofline_model.expected.attention.decode import DecodeWork
from roofline_model.expected.constants_file import Evidence
from roofline_model.expected.grid_surface import Grid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from roofline_model.expected.attention.prefill import PrefillWork
    from roofline_model.expected.attention.shape import AttentionShapes

    Floats = NDArray[np.float64]

_GRID = Grid(
    (
        (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0),
        (4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0),
        (0.0, 2.0, 4.0, 6.0),
        (6.0, 7.0, 8.0),
    )
)
GRIDS: Mapping[str, Grid] = MappingProxyType({"prefill": _GRID, "decode": _GRID})
"""Phase → knots, in log2: sequences × key/value heads, keys that a token may see, query heads of a group, head size.
Chosen under cross-validation by site: without the head size of its own 0.5 points worse in prefill and decode alike.
"""


@dataclass(frozen=True, slots=True)
class AttentionCorrection:
    """The surfaces of one phase on one chip."""

    phase: str
    log_ratio: Mapping[str, tuple[float, ...]]
    """Width → ln(measured / predicted) at the knots, the first axis major. A width without rows has none."""

    def __post_init__(self) -> None:
        for values in self.log_ratio.values():
            GRIDS[self.phase].check(values)

    def logs(self, width: str, sizes: tuple[Floats, ...]) -> Floats:
        """Return ln of the factor on the predicted time of each row; 0 for a width without a surface."""
        import numpy as np

        values = self.log_ratio.get(width)
        return np.zeros(len(sizes[0])) if values is None else GRIDS[self.phase].logs(values, sizes)

    def scaled(self, share: float) -> AttentionCorrection:
        """Return the surfaces as another chip keeps them: `share` of each value."""
        return AttentionCorrection(
            self.phase, {width: tuple(share * value for value in values) for width, values in self.log_ratio.items()}
        )


def surface_sizes(shapes: AttentionShapes) -> tuple[Floats, ...]:
    """Return the columns of `GRIDS` for each call."""
    batch, heads, kv_heads, dim, window = (
        getattr(shapes, name).astype(float) for name in ("batch", "heads", "kv_heads", "head_dim", "window")
    )
    return batch * kv_heads, window, heads / kv_heads, dim


def fit_surface(phase: str, sizes: tuple[Floats, ...], log_ratio: Floats) -> tuple[float, ...]:
    """Return the surface of one width through ln(measured / predicted) of its rows."""
    if phase not in GRIDS:
        raise InvalidValueError(f"attention phase must be {' or '.join(GRIDS)}, got {phase!r}")
    return GRIDS[phase].fit(sizes, log_ratio)


def surface_trust(work: PrefillWork | DecodeWork, learnt_on: AttentionChip) -> Floats:
    """Return from 0 to 1 how much of a surface holds for each row.

    It was learnt where a benchmark replayed the same buffers on `learnt_on`. Where the share of bytes found in L2
    differs (a cold cache, a smaller L2), DRAM hides what the surface saw, so it fades with that difference, as for
    products.
    """
    import numpy as np

    chip = work.chip
    if isinstance(work, DecodeWork):
        moved, touched = work.moved_bytes, work.moved_bytes + work.append_bytes
        here = hit_ratio(touched, chip, chip.rules.cache_edge_factor)
        there = hit_ratio(touched, learnt_on, learnt_on.rules.cache_edge_factor)
    else:
        moved = work.attention_bytes
        here, there = (hit_ratio(moved, board, PREFILL_EDGE) for board in (chip, learnt_on))
    hit_share = here * (1 - work.evicted_bytes / moved)
    result: Floats = np.square(1.0 - np.abs(there - hit_share))
    return result


PHASES = ("prefill", "decode")
WIDTHS = ("16bit", "8bit")
REGIMES = ("floor", "mid", "bulk")
"""floor: below 1.5 launch floors; mid: below 8; bulk: above. Launch floor: the smallest `launch_us` of the phase."""
FLOOR_RATIO, MID_RATIO = 1.5, 8.0
MIXES = ("16bit", "cache8bit", "8bit")
"""Formats that share an interval: all 16 bit; only the cache 8 bit; activations and cache 8 bit."""


@dataclass(frozen=True, slots=True)
class ConstantRange:
    """Where a fit of one constant begins, what it may be, and how far few rows may move it."""

    start_value: float
    """Plausible on any chip."""
    low_value: float
    high_value: float
    prior_scale: float
    """Standard deviation of ln(value / transferred value) over chips."""
    is_cycles: bool = False
    """Whether it counts clocks of the chip, so that it goes with 1 / clock to another one."""


def _cycles(start: float, low: float, high: float, prior: float) -> ConstantRange:
    return ConstantRange(start, low, high, prior, True)


SHARED: Mapping[str, Mapping[str, ConstantRange]] = MappingProxyType(
    {
        "prefill": {
            "dram_ratio": ConstantRange(0.70, 0.4, 0.95, 0.15),
            "l2_bytes_per_clock": ConstantRange(9.0, 3.0, 40.0, 0.4),
        },
        "decode": {
            "dram_ratio": ConstantRange(0.85, 0.5, 0.95, 0.15),
            "l2_bytes_per_clock": ConstantRange(15.0, 3.0, 40.0, 0.4),
            "miss_us": ConstantRange(6.0, 0.05, 40.0, 0.6),
        },
    }
)
"""Phase → constants that all widths share. dram_ratio: share of the specified bandwidth; l2_bytes_per_clock: per SM;
miss_us: DRAM reads that start up, of a call whose operands do not fit in L2."""

BY_WIDTH: Mapping[str, Mapping[str, ConstantRange]] = MappingProxyType(
    {
        "prefill": {
            "launch_us": ConstantRange(11.5, 3.0, 25.0, 0.25),
            "cta_us_64": _cycles(1.5, 0.02, 15.0, 0.5),
            "cta_us_128": _cycles(2.0, 0.02, 20.0, 0.5),
            "cta_us_256": _cycles(3.0, 0.02, 30.0, 0.5),
            "latency_ratio_64": ConstantRange(1.4, 0.05, 6.0, 0.5),
            "latency_ratio_128": ConstantRange(0.8, 0.05, 6.0, 0.5),
            "latency_ratio_256": ConstantRange(0.8, 0.05, 6.0, 0.5),
            "efficiency_64": ConstantRange(0.40, 0.03, 1.0, 0.3),
            "efficiency_128": ConstantRange(0.48, 0.03, 1.0, 0.3),
            "efficiency_256": ConstantRange(0.45, 0.03, 1.0, 0.3),
        },
        "decode": {
            "launch_us": ConstantRange(5.0, 1.0, 20.0, 0.25),
            "cta_us": _cycles(3.0, 0.1, 30.0, 0.5),
            "tile_growth": ConstantRange(0.5, 0.01, 6.0, 0.5),
            "token_ns": _cycles(8.0, 0.3, 40.0, 0.4),
            "combine_us": _cycles(1.5, 0.02, 10.0, 0.5),
            "combine_split_us": _cycles(0.1, 0.001, 1.0, 0.5),
            "head_launch_us": ConstantRange(3.5, 1.0, 20.0, 0.25),
            "head_cta_us": _cycles(5.0, 0.2, 30.0, 0.5),
            "head_token_ns": _cycles(10.0, 0.1, 100.0, 0.6),
            "head_split_us": _cycles(4.0, 0.1, 15.0, 0.5),
            "head_fill_us": _cycles(1.0, 0.01, 6.0, 0.6),
        },
    }
)
"""Phase → stems of constants of each width.

Prefill: launch_us floor of the kernel chain; cta_us_D fixed cost of a CTA (µs·SM); efficiency_D share of the dense
peak; latency_ratio_D time of a CTA that is alone over its share of that rate. Decode, grouped kernel: launch_us;
cta_us fixed cost of a CTA; tile_growth its growth with the query tile; token_ns latency per token at D = 128;
combine_us and combine_split_us the reduction over splits. Decode, per-head kernel: the same with head_, head_fill_us
until all threads have work."""


def constant_ranges(phase: str, widths: tuple[str, ...] = WIDTHS) -> dict[str, ConstantRange]:
    """Return the range of every constant of a phase by full name."""
    return {
        **SHARED[phase],
        **{f"{stem}_{width}": bounds for width in widths for stem, bounds in BY_WIDTH[phase].items()},
    }


@dataclass(frozen=True, slots=True, eq=False)
class FittedAttention:
    """Constants of one phase on one chip, the chip numbers they belong to, their interval and evidence."""

    chip: AttentionChip
    phase: str
    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    """Regime → (low, high): 10 % and 90 % quantiles of measured over predicted, on rows that were not fitted. One for
    each of `REGIMES`; one of `REGIMES` and `MIXES`, `floor-8bit`, goes before it for rows of those formats.
    """
    evidence: Evidence
    provenance: str = "fitted"
    """fitted; transferred-sibling; transferred-family; transferred-class; measured-here."""
    sources: tuple[str, ...] = ()
    """Chips that the constants were transferred from; empty when they are the chip's own."""
    findings: tuple[Finding, ...] = ()
    correction: AttentionCorrection | None = None
    """What the formulas leave over on this chip; None: nothing is known about it."""
    correction_chip: AttentionChip | None = None
    """The chip whose rows the correction was learnt on; None: this one."""
    head_half_width_log_ratio: float = 0.0
    """Half-width (a log) that a transfer adds for the per-head decode kernel on an 8-bit cache, beside the interval."""
    faster: FittedAttention | None = None
    """Constants of a published kernel that runs on this chip and is faster than the lent one
    (`../published_kernel.py`); None: there is none.
    """
    is_kernel_alone: bool = False
    """Whether the time is of the attention kernel without the rotation and the append to the cache beside it."""

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise InvalidValueError(f"attention phase must be {' or '.join(PHASES)}, got {self.phase!r}")
        ranges = constant_ranges(self.phase)
        if unknown := sorted(set(self.values) - set(ranges)):
            raise InvalidValueError(f"unknown {self.phase} constant {unknown[0]!r}; known: {', '.join(ranges)}")
        widths = self.widths
        if not widths:
            raise InvalidValueError(f"{self.phase} constants of {self.chip.key} are complete for no width")
        needed = constant_ranges(self.phase, widths)
        if missing := [name for name in needed if name not in self.values]:
            raise InvalidValueError(f"{self.phase} constant {missing[0]} of {self.chip.key} is missing")
        for name, value in self.values.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise InvalidValueError(f"{self.phase} constant {name} must be a positive number, got {value!r}")
        allowed = {*REGIMES, *(f"{regime}-{mix}" for regime in REGIMES for mix in MIXES)}
        if not set(REGIMES) <= set(self.intervals) <= allowed:
            raise InvalidValueError(
                f"{self.phase} interval needs {', '.join(REGIMES)} and may have one of them for formats, as in "
                "floor-8bit"
            )
        for regime, (low, high) in self.intervals.items():
            if not 0 < low <= 1 <= high < math.inf:
                raise InvalidValueError(
                    f"{self.phase} interval {regime}: need 0 < low ≤ 1 ≤ high, got {low} and {high}"
                )

    @property
    def widths(self) -> tuple[str, ...]:
        """Widths that have constants."""
        return tuple(width for width in WIDTHS if f"launch_us_{width}" in self.values)

    def factors(self, mix: str) -> list[tuple[float, float]]:
        """Return (low, high) of each of `REGIMES` for rows of one of `MIXES`."""
        return [self.intervals.get(f"{regime}-{mix}", self.intervals[regime]) for regime in REGIMES]

    @property
    def floor_us(self) -> float:
        """The launch floor that the regimes count in."""
        return min(self.values[f"launch_us_{width}"] for width in self.widths)
