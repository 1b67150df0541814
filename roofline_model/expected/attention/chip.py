"""What the attention model reads of a chip, the rules of its kernel family, and the time to move bytes from its DRAM or
L2.

The rules are those of the kernels that TensorRT-LLM runs on that family; they were found on measured kernels
(attention study of 2026-11-21, 8,900 rows) and, for launch rules, read in the public sources of that library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[Any]

PrefillTrigger = Literal["activation", "cache"]


@dataclass(frozen=True, slots=True)
class FamilyRules:
    """What the kernels of one GPU family do alike on every chip of it."""

    key: str
    is_sync: bool
    """Kernels built on warp-level mma.sync; else on the asynchronous tensor units of Hopper and Blackwell."""
    usable_l2_ratio: float
    """Working set, as a share of the L2 bytes, at which half of the reads miss."""
    cache_edge_factor: float
    """Exponent of the fall from hit to miss around that size when a decode reads a cache again: one L2 falls off a
    cliff.
    """
    tile_rows_count: int
    """Query rows of one prefill CTA."""
    tile_columns_count: int
    """Keys of one block of a prefill CTA."""
    eight_bit_prefill: PrefillTrigger
    """Which operand makes the prefill compute in FP8: the activation, or already an 8-bit cache."""
    head_blocks_16bit_count: int = 4
    """CTAs of 256 threads of the per-head decode kernel that an SM holds (its registers decide), 16-bit cache."""
    head_blocks_8bit_count: int = 4
    """The same with an 8-bit cache."""

    @property
    def is_datacentre_blackwell(self) -> bool:
        """Whether decode runs the generated kernels of sm100."""
        return self.key in ("sm100", "sm103", "sm110")


def _usable(nominal: float) -> float:
    # The study counted an L2 of 50 MiB as 50e6 bytes; the registry keeps true bytes.
    return nominal * 1e6 / 2**20


def _sync(key: str, usable: float, **more: int) -> FamilyRules:
    edge = 30.0 if usable > 1 else 10.0
    return FamilyRules(key, True, _usable(usable), edge, 64, 32, "activation", **more)


def _asynchronous(key: str, **more: int) -> FamilyRules:
    return FamilyRules(key, False, _usable(0.80), 10.0, 64, 256, "cache", **more)


# sm80's L2 has two partitions that mirror each other's reads, as those of Hopper and B200; that of Ada and RTX
# Blackwell is one.
_RULES = (
    _sync("sm80", 0.80),
    _sync("sm86", 0.80),
    _sync("sm87", 0.80),
    _sync("sm89", 1.15, head_blocks_8bit_count=3),
    _asynchronous("sm90"),
    _asynchronous("sm100", head_blocks_16bit_count=3),
    _asynchronous("sm103", head_blocks_16bit_count=3),
    _asynchronous("sm110", head_blocks_16bit_count=3),
    _sync("sm120", 1.15, head_blocks_16bit_count=3),
    _sync("sm121", 1.15, head_blocks_16bit_count=3),
)
FAMILIES: Mapping[str, FamilyRules] = MappingProxyType({rules.key: rules for rules in _RULES})
"""Family key → rules. Tile sizes and FP8 rule: attention study of 2026-11-21, section 1.0; its usable L2 of two
partitions, 0.70, is 0.80 here (0.1 points better in decode). Blocks per SM: the count
out of 2 to 8 that explains the waves of the per-head kernel (the next best one is 12 to 90 % worse on those rows)."""


@dataclass(frozen=True, slots=True)
class AttentionChip:
    """The numbers of a chip that the attention model needs. Peaks are dense."""

    key: str
    family: str
    sm_count: int
    clock_hz: float
    peak_16bit_flops_per_s: float
    peak_8bit_flops_per_s: float | None
    bandwidth_bytes_per_s: float
    l2_bytes: float
    accumulate_factor: float = 1.0
    """How many times as long the tensor unit takes to sum in FP32, as attention does, as in FP16: 2 on GeForce
    parts.
    """

    @property
    def rules(self) -> FamilyRules:
        """Rules of the family."""
        return FAMILIES[self.family]

    @classmethod
    def of(cls, device: Device) -> AttentionChip:
        """Read a registry chip; raises `UnsupportedError` naming the number or family that is missing."""
        family = family_of(device)
        if family not in FAMILIES:
            raise UnsupportedError(
                f"expected attention time on {device.key}: no kernel family for "
                f"{family or 'a chip without compute capability'}. "
                f"Known families: {', '.join(FAMILIES)}. Use the ideal prediction, or measure this machine."
            )
        cache = device.last_level_cache
        clock = device.chip.get("clock")
        sm_count = device.count("sm_count")
        missing = [
            name
            for name, value in (("chip.sm_count", sm_count), ("chip.clock", clock), ("an L2 [[level]]", cache))
            if value is None
        ]
        if missing or sm_count is None or clock is None or cache is None:
            raise UnsupportedError(
                f"expected attention time on {device.key} needs {', '.join(missing)}. Add it to the chip's file."
            )
        peak = device.paths.get("FP8_E4M3")
        return cls(
            key=device.key,
            family=family,
            sm_count=sm_count,
            clock_hz=clock.value,
            peak_16bit_flops_per_s=device.peak_flops_per_s("BF16"),
            peak_8bit_flops_per_s=peak.dense.value if peak is not None and peak.kind == "native" else None,
            bandwidth_bytes_per_s=device.bandwidth.value,
            l2_bytes=cache.capacity_bytes,
            # BF16 products are only ever summed in FP32: FP16's second rate says how fast the unit could go.
            accumulate_factor=device.path("FP16").accumulate_factor if device.declares("FP16") else 1.0,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values; a missing peak is left out."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in plain.items() if value is not None}


def family_of(device: Device) -> str:
    """Return the family key of a chip such as `sm90`, from its compute capability or architecture; "" where unknown."""
    capability = device.match.compute_capability
    if capability is not None:
        return "sm" + capability.replace(".", "")
    match = re.search(r"\bsm_(\d+)\b", device.architecture)
    return f"sm{match.group(1)}" if match else ""


PREFILL_EDGE = 10.0
"""Exponent of the fall from hit to miss in prefill on every chip; 4 and 6 fit worse, 20 and 40 too."""
SMOOTH_MAX = 4
"""Exponent of the smooth maximum of two overlapping times; any value from 3 on fits alike."""


def hit_ratio(working_set: FloatArray, chip: AttentionChip, edge: float) -> FloatArray:
    """Return the share of bytes that a repeated call finds in L2, for the bytes it touches between two uses.

    `edge` is the exponent of the fall from all to none around the usable size.
    """
    import numpy as np

    relative = working_set / (chip.rules.usable_l2_ratio * chip.l2_bytes)
    return 1.0 / (1.0 + np.minimum(relative, 1e3) ** edge)


def memory_times(
    moved: FloatArray, hits: FloatArray, chip: AttentionChip, dram_ratio: float, l2_bytes_per_clock: float
) -> tuple[FloatArray, FloatArray]:
    """Return (L2, DRAM) times in µs of `moved` bytes, of which the share `hits` is found in L2.

    `dram_ratio` is the share of the specified bandwidth that is reached, `l2_bytes_per_clock` counts per SM.
    """
    hit_bytes = hits * moved
    l2_rate = l2_bytes_per_clock * chip.sm_count * chip.clock_hz * 1e-6
    return hit_bytes / l2_rate, (moved - hit_bytes) / (dram_ratio * chip.bandwidth_bytes_per_s * 1e-6)


def smooth_max(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return (a⁴ + b⁴)^¼: the longer of two times that overlap, a little more where they are alike."""
    return (first**SMOOTH_MAX + second**SMOOTH_MAX) ** (1.0 / SMOOTH_MAX)  # type: ignore[no-any-return]
