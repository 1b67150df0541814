"""Tiles on a chip that no constants were fitted for: the numbers that waves and occupancy need, and what stands in."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.products.fitted.constants import generic_start
from roofline_model.expected.products.parameters import GemmFormats, ProductParameters, gemm_formats
from roofline_model.tiling.resources import CDNA

STAND_IN = "gb10"
"""Chip whose SMs a placeholder borrows: the one that the original documents' B10 stands for."""
STAND_IN_FAMILY, PLAIN_FAMILY = "sm120", "sm80"
"""Family whose tiles a placeholder has, and one of the oldest and smallest matrix instruction for any other chip."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """A chip as the model of tiles needs it."""

    chip: ChipSpec
    formats: GemmFormats
    parameters: ProductParameters
    """With plausible rates, which choose a tile and are good for no time."""
    limits: Device
    """Chip whose limits of an SM count."""
    kernels: str
    """Family of kernels whose needs count, for `occupancy`."""
    has_cache: bool
    """Whether the chip's own last-level cache is known."""
    findings: tuple[Finding, ...]


def stand_in(device: Device, a: str, b: str, c: str) -> StandIn | None:
    """Return what stands in for constants; None where the chip does not say how many SMs it has and how fast they are.

    Raises `UnsupportedError` for a format that the chip has no path for.
    """
    formats = gemm_formats(b, a, c)
    path = device.path(formats.compute_format)
    if path.kind == "dequantize":
        formats = gemm_formats(b, a, c, computes_wide=True)
        path = device.path(formats.compute_format)
    limits = get_hardware(STAND_IN) if device.is_placeholder else device
    cache = device.last_level_cache or limits.last_level_cache
    clock = device.chip.get("clock") or limits.chip.get("clock")
    clock_hz = path.dense.clock_hz if clock is None else clock.value
    sm_count = device.count("sm_count") or limits.count("sm_count")
    if device.kind == "cpu" or sm_count is None or clock_hz is None or cache is None:
        return None
    chip = ChipSpec(
        device.key,
        STAND_IN_FAMILY if device.is_placeholder else PLAIN_FAMILY,
        sm_count,
        clock_hz,
        path.dense.value,
        device.bandwidth.value,
        cache.capacity_bytes,
    )
    findings = [finding("tile-assumed", kind="rates", hardware=device.key)]
    if limits is not device:
        findings.append(
            finding("tile-assumed", kind="sms", hardware=device.key, other_hardware=limits.key, sm_count=sm_count)
        )
    return StandIn(
        chip,
        formats,
        ProductParameters.of(chip, formats, generic_start(chip, formats.family)),
        limits,
        CDNA if device.vendor == "amd" else chip.family,
        device.last_level_cache is not None,
        tuple(findings),
    )
