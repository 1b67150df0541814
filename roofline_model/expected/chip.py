"""The numbers of a chip that the expected-time models need in one compute format, and what its GPU family shares.

A family shares the L2, the tensor instruction and the library of its generation. Source: the expected-GEMM study of
2026-11-21 (18,000 measured rows, five chips; docs/theory/validation.md). The L2 numbers were fitted on BF16, FP8 and
NVFP4 rows of the family's one measured chip; a family is therefore also "this library on this chip".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypeVar

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.formats.catalog import NumberFormat, get_format

if TYPE_CHECKING:
    from roofline_model.expected.attention.chip import AttentionChip

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
"""`l2_share_ratio`, `l2_edge_factor`, `output_l2_share_ratio`, `clock_loss_ratio` of weight-only kernels, on every
chip.
"""

# Compute capability → family: parts of one generation share the tensor instruction, hence the kernels.
_FAMILY_OF = {
    "80": "sm80", "86": "sm80", "87": "sm80", "89": "sm89", "90": "sm90",
    "100": "sm100", "101": "sm100", "103": "sm100", "110": "sm100", "120": "sm120", "121": "sm120",
}  # fmt: skip


def family_of_architecture(architecture: str) -> str:
    """Return the family of an architecture such as `Blackwell sm_121`: `sm120`.

    Raises `UnsupportedError` for an architecture without measured tensor kernels (other vendors, CPUs, older chips).
    """
    match = re.search(r"sm_?(\d{2,3})", architecture)
    family = _FAMILY_OF.get(match.group(1)) if match else None
    if family is None:
        which = f"architecture {architecture[:60]!r}" if architecture else "a chip whose file names no architecture"
        raise UnsupportedError(
            f"no expected-time constants for {which}; known families: {', '.join(FAMILIES)}; "
            "`roofline fit` makes some from measurements"
        )
    return family


def family_rules(family: str) -> FamilyRules:
    """Return the rules of a family; raises `UnknownNameError` with the known ones."""
    try:
        return FAMILIES[family]
    except KeyError:
        raise UnknownNameError("gpu family", family, FAMILIES) from None


LIKE_RATIO = 1.5
"""Chips of one family whose SM counts differ by less are one design with another memory or clock."""
LIKE_RATE_RATIO = 1.1
"""Above this ratio of the FLOPs per clock and SM in a format, a sister is another design in it (B300 in NVFP4: 1.4)."""
NEAR_FAMILIES = frozenset({"sm89", "sm120"})
"""The newer mma.sync families: the same instructions, an L2 in one piece. What one lends the other is as good as within
a family.
"""


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
    families = {broad_family(sized.family) for sized in (chip, source)}
    if len(families) == 1:
        ratio = chip.sm_count / source.sm_count
        return "sibling" if 1 / LIKE_RATIO < ratio < LIKE_RATIO else "near"
    return "near" if families == NEAR_FAMILIES else "far"


@dataclass(frozen=True, slots=True)
class ChipSpec:
    """One chip computing in one format. Fitted constants belong to exactly these numbers: refit when one changes."""

    key: str
    family: str
    sm_count: int
    clock_hz: float
    peak_flops_per_s: float
    """Dense tensor peak of the compute format; weight-only products compute in 16 bit."""
    bandwidth_bytes_per_s: float
    """DRAM bandwidth as specified, not as achieved."""
    l2_bytes: float

    def __post_init__(self) -> None:
        family_rules(self.family)
        for name in ("sm_count", "clock_hz", "peak_flops_per_s", "bandwidth_bytes_per_s", "l2_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not 0 < value < 1e30:
                raise InvalidValueError(f"chip {self.key}: {name} must be a positive number, got {value!r}")

    @property
    def rules(self) -> FamilyRules:
        """What the chip shares with its family."""
        return family_rules(self.family)

    @property
    def load_bytes_per_s(self) -> float:
        """64 bytes per clock and SM: the unit in which `l2_ratio` and `sm_ratio` of the constants count."""
        return 64.0 * self.sm_count * self.clock_hz

    @property
    def load_bytes_per_flop(self) -> float:
        """`load_bytes_per_s` over the tensor peak: chips are built so that supply follows the tensor rate."""
        return self.load_bytes_per_s / self.peak_flops_per_s

    @classmethod
    def of(cls, device: Device, format_key: str | NumberFormat) -> ChipSpec:
        """Return what the models need of `device` when it computes in `format_key`.

        Raises `UnsupportedError` naming the number that its file lacks, the family that is not known, or the format.
        """
        family = family_of_architecture(device.architecture)
        path = device.path(get_format(format_key).key)
        sm_count = device.count("sm_count")
        clock = device.chip.get("clock")
        clock_hz = clock.value if clock is not None else path.dense.clock_hz
        cache = device.last_level_cache
        if sm_count is None:
            _missing(device, "sm_count", "[chip]")
        if clock_hz is None:
            _missing(device, "clock", "[chip]")
        if cache is None:
            _missing(device, "capacity of its L2", "[[level]]")
        return cls(
            device.key, family, sm_count, clock_hz, path.dense.value, device.bandwidth.value, cache.capacity_bytes
        )


AnyChip = TypeVar("AnyChip", "ChipSpec", "AttentionChip")
SAME_NUMBER_RATIO = 0.02
"""Numbers of one chip that differ by less are two roundings of one specification (2617 MHz, 2.62 GHz)."""


_ROUNDED = ("clock_hz", "bandwidth_bytes_per_s", "l2_bytes")
"""Numbers of a chip that may be rounded, beside its peaks."""


def fitted_numbers(chip: AnyChip, fitted: AnyChip) -> AnyChip:
    """Return `chip` with the numbers its constants were fitted with, where both mean the same one.

    A number that really differs (the peak of another compute format, a user's own description) stays the chip's.
    """
    if chip.key != fitted.key:
        return chip
    names = [field.name for field in fields(chip) if field.name in _ROUNDED or field.name.startswith("peak_")]
    pairs = ((name, getattr(chip, name), getattr(fitted, name)) for name in names)
    same = {
        name: theirs
        for name, ours, theirs in pairs
        if None not in (ours, theirs) and abs(theirs - ours) <= SAME_NUMBER_RATIO * theirs
    }
    return replace(chip, **same)


def _missing(device: Device, what: str, where: str) -> NoReturn:
    raise UnsupportedError(
        f"no expected time for {device.key}: its file gives no {what}. Add it to {where}, with a source; the ideal "
        "time is used."
    )
