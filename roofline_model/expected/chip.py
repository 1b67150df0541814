"""The few numbers of a chip that the expected-time models need, for one compute format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.expected.families import FamilyRules, family_of_architecture, family_rules
from roofline_model.formats.catalog import NumberFormat, get_format


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


SAME_NUMBER_RATIO = 0.02
"""Numbers of one chip that differ by less are two roundings of one specification (2617 MHz, 2.62 GHz)."""


@lru_cache(maxsize=512)
def fitted_numbers(chip: ChipSpec, fitted: ChipSpec) -> ChipSpec:
    """Return `chip` with the numbers its constants were fitted with, where both mean the same one.

    A number that really differs (the peak of another compute format, a user's own description) stays the chip's.
    """
    if chip.key != fitted.key:
        return chip
    names = ("clock_hz", "peak_flops_per_s", "bandwidth_bytes_per_s", "l2_bytes")
    same = {
        name: theirs
        for name in names
        if abs((theirs := getattr(fitted, name)) - getattr(chip, name)) <= SAME_NUMBER_RATIO * theirs
    }
    return replace(chip, **same)


def _missing(device: Device, what: str, where: str) -> NoReturn:
    raise UnsupportedError(
        f"no expected time for {device.key}: its file gives no {what}. Add it to {where}, with a source; the ideal roofline stands."
    )
