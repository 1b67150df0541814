"""Memory of a chip that a model can have: what is left beside the system, the driver and the engine itself. The one
answer that predictions and recommendations give to `fits`.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.chips.hardware import Device

GIB = 2**30


@dataclass(frozen=True, slots=True)
class MemoryShare:
    """A part of a chip's memory that no model gets."""

    name: str
    """system, reserve, driver or engine."""
    size_bytes: float
    source: str


DRIVER = MemoryShare(
    "driver",
    0.75 * GIB,
    source="memory.total of nvidia-smi less the total of a CUDA device query: B200 183,359 MiB and 178.35 GiB (0.71 GiB), H100 "
    "81,559 MiB and 79.1 GiB in logs of vLLM (0.55 GiB); the larger one, rounded up",
)
"""A GPU with memory of its own: what the driver keeps of what it reports."""
ENGINE = MemoryShare(
    "engine",
    1e9,
    source="CUDA context, cuBLAS and cuDNN workspaces and launch buffers take 0.3 to 1 GB of a process: "
    "nairr.readthedocs.io, GPU Estimate; read 2026-11-27",
)
"""Beside weights, cache and the buffers of a pass, which are counted themselves."""
RESERVE = MemoryShare(
    "reserve",
    8 * GIB,
    source="hosts with a GB10 hang, and do not report, where an engine leaves 7 GiB (vllm-project/vllm 46307); operators stop "
    "it at 8 GiB (Hugging Face, nvidia/GLM-5.3-Flash-FP4-Local, discussion 7); read 2026-11-27",
)
"""Memory that CPU and GPU share, of a GB10: what has to stay free, because the system goes down with the engine."""
RESERVE_OF_BYTES = 121.69 * GIB
"""All memory of the machines that the reserve was found on; a smaller one keeps the same share."""


def memory_shares(device: Device) -> tuple[MemoryShare, ...]:
    """Return what no model gets of a chip's memory; empty for a chip that is no GPU: nothing is known of its system.

    A chip whose file has `[memory] system` shares its memory with the CPU. The share of an engine (`vllm serve
    --gpu-memory-utilization`, 0.9 unless given) is a setting, not a limit: it can be raised to all that is left here.
    """
    if device.kind != "gpu" or device.capacity is None:
        return ()
    if device.system_memory is None:
        return DRIVER, ENGINE
    system = MemoryShare("system", device.system_memory.value, device.system_memory.source)
    reserve_bytes = RESERVE.size_bytes * min(1.0, device.capacity.value / RESERVE_OF_BYTES)
    return system, MemoryShare(RESERVE.name, reserve_bytes, RESERVE.source), ENGINE


def usable_bytes(device: Device, headroom_ratio: float = 0.0) -> float | None:
    """Return the bytes for weights, cache and buffers of one device; None where its file states no capacity.

    `headroom_ratio`: share of the memory that the caller keeps free; it counts where it is more than the shares above.
    """
    if device.capacity is None:
        return None
    taken_bytes = sum(share.size_bytes for share in memory_shares(device))
    return max(0.0, device.capacity.value - max(taken_bytes, headroom_ratio * device.capacity.value))
