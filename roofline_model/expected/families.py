"""GPU families: what the L2, the tensor instruction and the library of one generation have in common.

Source: the expected-GEMM study of 2026-11-21 (18,000 measured rows, five chips; see docs/validation.md). The L2 numbers were fitted on
BF16, FP8 and NVFP4 rows of the family's one measured chip; a family is therefore also "this library on this chip".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Protocol

from roofline_model.core.errors import UnknownNameError, UnsupportedError

SupplyClass = Literal["mma", "tma"]


@dataclass(frozen=True, slots=True)
class FamilyRules:
    """What all chips of one compute-capability family share."""

    key: str
    supply_class: SupplyClass
    """mma: operands are loaded by the warps (mma.sync); tma: by a copy engine, with multicast (wgmma, tcgen05)."""
    l2_share_ratio: float
    """Read data the L2 keeps, over its nominal size. Two partitions hold half to two thirds, one holds everything."""
    l2_edge_factor: float
    """Exponent of the fall from hit to miss at that size: 10 soft, 40 a cliff of 4 %."""
    output_l2_share_ratio: float
    """The same share for the output, which is written."""
    clock_loss_ratio: float
    """Tensor rate lost per doubling of a kernel's ideal length beyond 50 µs (power and clock)."""
    smallest_mma_elems: int
    """Longer side of the smallest tile: 16 for mma.sync, 64 for wgmma, 128 for tcgen05."""
    has_gemv_kernel: bool
    """Whether the library runs a 16-bit product with one row on a kernel of its own."""


FAMILIES: dict[str, FamilyRules] = {
    rules.key: rules
    for rules in (
        FamilyRules("sm80", "mma", 0.47, 12.0, 0.20, 0.0, 16, True),
        FamilyRules("sm89", "mma", 1.02, 40.0, 0.60, 0.05, 16, True),
        FamilyRules("sm120", "mma", 1.01, 40.0, 0.75, 0.0, 16, True),
        FamilyRules("sm90", "tma", 0.68, 10.0, 0.25, 0.02, 64, False),
        FamilyRules("sm100", "tma", 0.50, 10.0, 1.20, 0.035, 128, False),
    )
}

WEIGHT_ONLY_L2 = (0.75, 12.0, 0.5, 0.0)
"""`l2_share_ratio`, `l2_edge_factor`, `output_l2_share_ratio`, `clock_loss_ratio` of weight-only kernels, on every chip."""

# Compute capability → family: parts of one generation share the tensor instruction, hence the kernels.
_FAMILY_OF = {
    "80": "sm80", "86": "sm80", "87": "sm80", "89": "sm89", "90": "sm90",
    "100": "sm100", "101": "sm100", "103": "sm100", "110": "sm100", "120": "sm120", "121": "sm120",
}  # fmt: skip


def family_of_architecture(architecture: str) -> str:
    """Return the family of an architecture such as `Blackwell sm_121`: `sm120`.

    Raises `UnsupportedError` for an architecture without measured tensor kernels (other vendors, CPUs, older chips).
    """
    found = re.search(r"sm_?(\d{2,3})", architecture)
    family = _FAMILY_OF.get(found.group(1)) if found else None
    if family is None:
        raise UnsupportedError(
            f"no expected-time constants for architecture {architecture[:60]!r}; known families: {', '.join(FAMILIES)}. "
            "The ideal roofline stands; `roofline calibrate` or `roofline fit` gives this chip constants of its own."
        )
    return family


def family_rules(family: str) -> FamilyRules:
    """Return the rules of a family; raises `UnknownNameError` with the known ones."""
    try:
        return FAMILIES[family]
    except KeyError:
        raise UnknownNameError("gpu family", family, FAMILIES) from None


LIKE_RATIO = 1.5
"""Chips of one family whose SM counts and FLOPs per clock and SM differ by less are one design with another memory or clock."""
NEAR_FAMILIES = frozenset({"sm89", "sm120"})
"""The newer mma.sync families: the same instructions, an L2 in one piece. What one lends the other is as good as within a family."""


class SizedChip(Protocol):
    """What the length of a transfer's step goes by."""

    @property
    def family(self) -> str:
        """GPU family, as in `FAMILIES` or finer."""

    @property
    def sm_count(self) -> int:
        """Streaming multiprocessors."""


def broad_family(family: str) -> str:
    """Return the key in `FAMILIES` of a family or a finer one, such as `sm121`; an unknown one stays."""
    return _FAMILY_OF.get(family.removeprefix("sm"), family)


def transfer_step(chip: SizedChip, source: SizedChip) -> str:
    """Return how far constants travel from `source` to `chip`: sibling, near or far (`intervals.DRIFT`)."""
    families = {broad_family(one.family) for one in (chip, source)}
    if len(families) == 1:
        ratio = chip.sm_count / source.sm_count
        return "sibling" if 1 / LIKE_RATIO < ratio < LIKE_RATIO else "near"
    return "near" if families == NEAR_FAMILIES else "far"
