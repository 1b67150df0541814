"""What one SM of a chip can do per clock, as attention needs it: matrix products, exponentials, FP32, shared memory.

Matrix rates follow from the chip's dense peak, SM count and the peak's clock. The other rates belong to the compute
capability; each has a source and a status, and is None where nobody published it.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.chips.hardware import Device, Quantity
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.attention.flash.versions import VersionTraits, compute_capability

SHARED_BYTES_PER_CLOCK = 128.0
"""Shared memory of one SM, bytes per clock: 32 banks of 4 bytes (CUDA programming guide; FA4 paper for H100 and
B200).
"""

MUFU_SOURCE = "CUDA programming guide, throughput table (8.0), read via a copy; FA4 paper: 16 on H100 and B200"

MUFU_PER_CLOCK = {
    75: Quantity(16, "", "datasheet", source=MUFU_SOURCE),
    80: Quantity(16, "", "datasheet", source=MUFU_SOURCE),
    86: Quantity(16, "", "datasheet", source=MUFU_SOURCE),
    87: Quantity(16, "", "unconfirmed", source="as 8.0 and 8.6; row not read"),
    89: Quantity(16, "", "unconfirmed", source="as 8.6; row not read"),
    90: Quantity(16, "", "secondary", source="FA4 paper, arXiv:2603.05451"),
    100: Quantity(16, "", "secondary", source="FA4 paper, arXiv:2603.05451"),
    103: Quantity(
        32, "", "datasheet", source="NVIDIA blog, Making Softmax More Efficient with Blackwell Ultra: doubled"
    ),
    110: Quantity(16, "", "unconfirmed", source="assumed as 10.0; no published rate"),
    120: Quantity(16, "", "unconfirmed", source="assumed as 8.9; no published rate"),
    121: Quantity(16, "", "unconfirmed", source="assumed as 8.9; no published rate"),
}
"""ex2 results per clock and SM by compute capability; a chip file's `exp_per_clock_per_sm` comes first."""

FP32_LANES = {75: 64, 80: 64}
"""FP32 instructions per clock and SM: 64 on 7.5 and 8.0, 128 since (half of the FLOP rates in openxla's
cuda_core_info_table.cc)."""

LEGACY_MMA_SHARE = {90: 0.63, 100: 0.315, 103: 0.315, 110: 0.315}
"""Share of the tensor peak that mma.sync reaches where a newer instruction exists. 9.0: 0.63 on average
(microbenchmarks of arXiv:2402.13499, value not re-read; FA2's published H100 rates agree). 10.x: the same rate per
clock and SM as 9.0, half the share, because FA2 takes as many clocks on B200 (379 TFLOP/s at head dim 64,
flash-attention issue 1589); 11.0 assumed like 10.0.
"""

LAUNCH_S = {
    80: 2.5e-6,
    86: 2.5e-6,
    87: 2.5e-6,
    89: 2.5e-6,
    90: 2.5e-6,
    100: 1.8e-6,
    103: 1.8e-6,
    120: 1.8e-6,
    121: 1.8e-6,
}
"""Floor of one kernel inside a CUDA graph: 2.4–2.5 µs on A100, H100, H200, 1.7–1.8 µs on B200 and RTX PRO 6000
(measured GEMM floors in ai-dynamo/aiconfigurator tables); neighbours of the same generation take the value over.
"""


@dataclass(frozen=True, slots=True)
class ChipUnits:
    """Rates of a chip for one attention kernel. None: nobody published it, and the term is left out."""

    sm_count: int | None
    clock_hz: float | None
    peak_flops_per_s: float
    """Dense peak of the format the products run in."""
    tensor_ratio: float
    """Share of that peak which the kernel's matrix instruction can sustain."""
    exp_per_clock: float | None
    fp32_lanes_count: int | None
    bandwidth_bytes_per_s: float
    """DRAM, as achieved by a plain read where that was measured."""
    l2_bytes: float | None
    launch_s: float | None
    provenance: str
    """Status of the weakest number."""
    findings: tuple[Finding, ...]


_ORDER = ("measured-here", "datasheet", "measured", "derived", "declared", "secondary", "unconfirmed", "placeholder")


def chip_units(device: Device, traits: VersionTraits, math_format: str) -> ChipUnits:
    """Return the rates `traits`' kernel meets on `device` when its products run in `math_format`.

    Raises `UnsupportedError` when the chip has no path for that format.
    """
    path = device.path(math_format)
    capability = compute_capability(device)
    findings: list[Finding] = []
    clock = path.dense.clock_hz or _value(device, "clock")
    exp = device.chip.get("exp_per_clock_per_sm") or (MUFU_PER_CLOCK.get(capability) if capability else None)
    if exp is not None and exp.status == "unconfirmed":
        findings.append(finding("attention-assumption", kind="exponentials", hardware=device.key, source=exp.source))
    used = [path.dense, device.bandwidth, *([exp] if exp else [])]
    needed = {"SM count": device.count("sm_count"), "clock": clock, "exp rate": exp}
    if missing := [name for name, value in needed.items() if not value]:
        findings.append(finding("attention-assumption", kind="geometry", hardware=device.key, missing=tuple(missing)))
    return ChipUnits(
        sm_count=device.count("sm_count"),
        clock_hz=clock,
        peak_flops_per_s=path.dense.value,
        tensor_ratio=_tensor_ratio(device, traits, math_format, capability, findings),
        exp_per_clock=exp.value if exp else None,
        fp32_lanes_count=FP32_LANES.get(capability, 128) if capability else None,
        bandwidth_bytes_per_s=(device.bandwidth_achieved or device.bandwidth).value,
        l2_bytes=device.last_level_cache.capacity_bytes if device.last_level_cache else None,
        launch_s=LAUNCH_S.get(capability) if capability else None,
        provenance=max((quantity.status for quantity in used), key=_ORDER.index),
        findings=tuple(findings),
    )


def _tensor_ratio(
    device: Device, traits: VersionTraits, math_format: str, capability: int | None, findings: list[Finding]
) -> float:
    """Return the sustained share of the tensor peak, at most 1.

    mma.sync kernels do not throttle a chip and take the instruction's own share; wgmma and tcgen05 kernels, and the
    kernels of other vendors' chips, take the best matrix product anybody measured on the chip (mamf-finder and others,
    `achieved` in the chip's file).
    """
    is_foreign = device.kind == "gpu" and not device.is_placeholder and device.vendor != "nvidia"
    if traits.instruction == "mma.sync" and not is_foreign:
        return LEGACY_MMA_SHARE.get(capability or 0, 1.0)
    for name in (math_format, "BF16", "FP16"):
        path = device.paths.get(name)
        if path is not None and path.achieved is not None:
            return min(1.0, path.achieved.value / path.dense.value)
    findings.append(finding("attention-assumption", kind="peak", hardware=device.key))
    return 1.0


def _value(device: Device, name: str) -> float | None:
    quantity = device.chip.get(name)
    return None if quantity is None else quantity.value
