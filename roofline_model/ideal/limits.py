"""The shortest time that a chip allows at all: what decides whether a time is impossible.

The ideal time is at the rated clock and bandwidth, and neither is a physical limit: boards raise their own clock where
power and heat allow (an RTX 5090 rated at 2407 MHz multiplies at 2.8 GHz), and owners raise that of GDDR memory. So the
limit takes the chip's highest clock (`clock_max` of its file) and, where owners can raise it, its highest bandwidth
(`bandwidth_max`); a file without `clock_max` leaves arithmetic without a limit. Every surface asks here.
"""

from __future__ import annotations

from typing import Protocol

from roofline_model.chips.hardware import Device

RATED_MARGIN = 1.02
"""How far a time may beat a limit from documents: data sheets print two or three digits (3.35 TB/s of a memory with
3352 GB/s), and a few boards of a model clock 1.5 % higher than the others (RTX 5090: 3135 of 3090 MHz)."""
MEASURED_MARGIN = 2.0
"""The same of ceilings that a machine measured of itself: other work in the calibration can halve them."""
CACHE_FACTOR = 100.0
"""How many times as fast as its memory the nearest cache of a chip may be: some tens, on CPUs and GPUs alike."""
LAST_CACHE_FACTOR = 20.0
"""The same of its last-level cache: some seven times (an L1 of 64 bytes a clock), and its bandwidth may be low."""
_GUESSES = ("placeholder", "unconfirmed", "declared")
"""Statuses of numbers that convict nobody: invented, unsure, or a description without a document."""


class Roofed(Protocol):
    """The sides of an ideal time, predicted or stored."""

    @property
    def read_bytes(self) -> float:
        """Bytes read at least."""

    @property
    def write_bytes(self) -> float:
        """Bytes written at least."""

    @property
    def compute_time_s(self) -> float | None:
        """FLOPs at the dense peak, seconds."""

    @property
    def compute_format(self) -> str:
        """Formats whose units compute, joined by `+`."""


def limit_s(ideal: Roofed, device: Device, *, cache: str | None = None) -> float:
    """Return the shortest time that the chip allows for a call, seconds; 0 where no number of it can be a limit.

    `cache`: `warm` leaves all operands in a cache; None (not known) as many as the last-level cache holds; with any
    other state every byte comes from memory.
    """
    return max(memory_limit_s(ideal.read_bytes + ideal.write_bytes, device, cache), _compute_limit_s(ideal, device))


def limit_speed(ideal: Roofed, device: Device) -> tuple[float | None, float | None]:
    """Return the highest clock in Hz where arithmetic sets `limit_s` of operands that may lie in a cache, else the
    highest bandwidth in bytes per second; None for the other, and for a clock that the chip's file does not have.
    """
    total_bytes = ideal.read_bytes + ideal.write_bytes
    if _compute_limit_s(ideal, device) > memory_limit_s(total_bytes, device, None):
        most = device.chip.get("clock_max")
        return None if most is None else most.value, None
    return None, device.chip.get("bandwidth_max", device.bandwidth).value


def memory_limit_s(total_bytes: float, device: Device, cache: str | None) -> float:
    """Return the shortest time that the chip's memory and caches allow for some bytes, seconds; `cache` as in
    `limit_s`; 0 where its bandwidth is a guess.
    """
    bandwidth = device.chip.get("bandwidth_max", device.bandwidth)
    if device.bandwidth.status in _GUESSES:
        return 0.0
    level = device.last_level_cache
    held_bytes = total_bytes if cache == "warm" else 0.0
    if cache is None and level is not None:
        held_bytes = min(total_bytes, level.capacity_bytes)
    rate = bandwidth.value * _margin(device.bandwidth.status)
    limits_s = [(total_bytes - held_bytes) / rate, held_bytes / (CACHE_FACTOR * rate)]
    if level is not None and level.bandwidth is not None:
        limits_s.append(held_bytes / (LAST_CACHE_FACTOR * level.bandwidth.value))
    return max(limits_s)


def _compute_limit_s(ideal: Roofed, device: Device) -> float:
    factors = [_over_peak(device, key) for key in ideal.compute_format.split("+") if key]
    if not ideal.compute_time_s or not factors or None in factors:
        return 0.0
    return ideal.compute_time_s / max(filter(None, factors))


def _over_peak(device: Device, format_key: str) -> float | None:
    """Return how far a unit may exceed its dense peak; None where nothing limits it."""
    path = device.paths.get(format_key)
    if path is None or path.dense.status in _GUESSES:
        return None
    if path.dense.status == "measured-here":
        return MEASURED_MARGIN
    most, rated_hz = device.chip.get("clock_max"), path.dense.clock_hz
    if most is None or rated_hz is None:
        return None
    # A kernel may sum in FP16, where the unit is faster so.
    return RATED_MARGIN * max(1.0, most.value / rated_hz) * max(1.0, path.accumulate_factor)


def _margin(status: str) -> float:
    return MEASURED_MARGIN if status == "measured-here" else RATED_MARGIN
