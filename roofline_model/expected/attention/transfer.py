"""Attention constants for a chip that has none of its own: from a sibling or a relative, rescaled, with a wider interval.

Rules: attention study of 2026-11-21, section 2.5. Ratios, floors and rates per clock are kept; what counts clocks goes with
1 / clock. Only kernels of one family transfer: constants of an mma.sync chip on Hopper or datacentre Blackwell (or the
reverse) were 20 to 84 % off, and are refused. A100 and H100 share the 16-bit decode kernel, and there alone would do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.constants import FittedAttention, constant_ranges

SIBLING_WIDENING, SIBLING_DRIFT = 1.15, 0.06
"""Log factors of a sibling: the source's times the first, in quadrature with the second. A judgement: the rows behind the
constants hold no pair of siblings."""
FAMILY_SHARE = 0.6
"""Share of the class's log factors that another chip of the same family gets in quadrature; a judgement, too."""

CLASS_INTERVALS: Mapping[bool, Mapping[str, Mapping[str, tuple[float, float]]]] = {
    True: {
        "prefill": {"floor": (0.73, 1.42), "mid": (0.69, 1.46), "bulk": (0.81, 1.18)},
        "decode": {"floor": (0.87, 1.02), "mid": (0.86, 1.18), "bulk": (0.76, 1.19)},
    },
    False: {
        "prefill": {"floor": (0.91, 1.12), "mid": (0.85, 1.19), "bulk": (0.78, 1.24)},
        "decode": {"floor": (0.60, 1.85), "mid": (0.73, 1.48), "bulk": (0.41, 1.25)},
    },
}
"""By `is_sync`, phase and regime: 9.3 and 90.7 % quantiles of measured over predicted when a whole chip is predicted with
the constants of another family of its class. mma.sync: L40S, RTX PRO 6000 and (16 bit) A100, each from each, without the
per-head kernel on an 8-bit cache; else: H100 from B200 and the reverse. 2026-11-21, 8,900 rows."""

DOUBLE_EXP = {"efficiency_64": 1.22, "efficiency_128": 1.16, "efficiency_256": 1.10}
"""sm103 computes twice as many exponentials per clock as sm100. Assumed: half of the softmax time is exp; not measured."""


@dataclass(frozen=True, slots=True)
class _Kinship:
    """Families whose constants a family may take, nearest first, and what that is called."""

    family: str
    provenance: str


# sm110 (Thor) has the tensor units of sm100 but a twentieth of its bandwidth: nobody has compared their attention.
_RELATIVES: Mapping[str, tuple[_Kinship, ...]] = {
    "sm80": (_Kinship("sm80", "transferred-sibling"), _Kinship("sm89", "transferred-class"), _Kinship("sm120", "transferred-class")),
    "sm86": (_Kinship("sm80", "transferred-family"), _Kinship("sm89", "transferred-class")),
    "sm87": (_Kinship("sm80", "transferred-family"), _Kinship("sm89", "transferred-class")),
    "sm89": (_Kinship("sm89", "transferred-family"), _Kinship("sm120", "transferred-class"), _Kinship("sm80", "transferred-class")),
    "sm90": (_Kinship("sm90", "transferred-sibling"), _Kinship("sm100", "transferred-class")),
    "sm100": (_Kinship("sm100", "transferred-sibling"), _Kinship("sm90", "transferred-class")),
    "sm103": (_Kinship("sm100", "transferred-sibling"), _Kinship("sm90", "transferred-class")),
    "sm110": (_Kinship("sm100", "transferred-class"),),
    "sm120": (_Kinship("sm120", "transferred-family"), _Kinship("sm89", "transferred-class"), _Kinship("sm80", "transferred-class")),
    "sm121": (_Kinship("sm120", "transferred-family"), _Kinship("sm89", "transferred-class"), _Kinship("sm80", "transferred-class")),
}  # fmt: skip


def nearest(chip: AttentionChip, phase: str, known: Sequence[FittedAttention]) -> FittedAttention | None:
    """Return constants for `chip` from the nearest relative in `known`, or None where no family may lend any."""
    for kin in _RELATIVES.get(chip.family, ()):
        sources = [
            one
            for one in known
            if one.phase == phase
            and one.chip.family == kin.family
            and one.chip.key != chip.key
            and one.provenance in ("fitted", "measured-here")
        ]
        if sources:
            # Several chips of one family: the one with the nearest clock shares the product line.
            source = min(sources, key=lambda one: abs(math.log(one.chip.clock_hz / chip.clock_hz)))
            return transferred(source, chip, kin.provenance)
    return None


def transferred(source: FittedAttention, chip: AttentionChip, provenance: str) -> FittedAttention:
    """Return the constants of `source` as `chip` would have them, named by `provenance`."""
    ranges = constant_ranges(source.phase)
    stretch = source.chip.clock_hz / chip.clock_hz
    values = {name: value * (stretch if ranges[name].is_cycles else 1.0) for name, value in source.values.items()}
    note = f"constants of {source.chip.key}"
    if chip.family == "sm103" and source.chip.family == "sm100" and source.phase == "prefill":
        values = {name: value * _exp_gain(name) for name, value in values.items()}
        note += ", prefill rates raised for twice the exponentials per clock (assumed)"
    if abs(stretch - 1) > 0.005:
        note += f", latencies x {stretch:.3f} for the clock"
    return replace(
        source,
        chip=chip,
        values=values,
        intervals=_widened(source, provenance),
        provenance=provenance,
        sources=(source.chip.key,),
        note=note,
    )


def _exp_gain(name: str) -> float:
    return next((gain for stem, gain in DOUBLE_EXP.items() if name.startswith(f"{stem}_")), 1.0)


def _plain(regime: str) -> str:
    return regime.split("-")[0]


def _widened(source: FittedAttention, provenance: str) -> dict[str, tuple[float, float]]:
    """Return the interval factors of transferred constants: own error and that of the transfer, in quadrature of logs."""
    across = CLASS_INTERVALS[source.chip.rules.is_sync][source.phase]

    # The class's factors hold the model's own error already; within a family only a part of them is added to it.
    share = {"transferred-sibling": 0.0, "transferred-family": FAMILY_SHARE}.get(provenance, 1.0)

    def wider(own: float, class_factor: float, sign: int) -> float:
        mine, theirs = abs(math.log(own)), share * abs(math.log(class_factor))
        least = math.hypot(SIBLING_WIDENING * mine, SIBLING_DRIFT)
        return math.exp(sign * max(least, math.hypot(mine, theirs) if share < 1 else theirs))

    return {
        regime: (wider(low, across[_plain(regime)][0], -1), wider(high, across[_plain(regime)][1], +1))
        for regime, (low, high) in source.intervals.items()
    }
