"""What one block of a tiled GEMM needs of an SM, how many blocks fit there together, and what stops the next one.

The resources are those of ordinary CUTLASS kernels of the GPU family, written down as rules, not read from a binary:

- mma (sm80, sm89, sm120): 4 warps up to a 128 × 128 tile, else 8; accumulators and double-buffered fragments in
  registers, 40 more for addresses; three stages of k in shared memory where they fit (of half the k if need be), else
  two.
- sm90: one or two consumer warp groups (a second one from 128 rows) and a producer of 40 registers per thread;
  accumulators in the consumers' registers; as many stages as fit beside the output tile, because the kernel is
  persistent.
- sm100: accumulators in tensor memory (512 columns of 128 lanes per SM, two buffers where they fit), so that registers
  hardly count; stages as on sm90.
- cdna (AMD): 4 waves of 64 lanes; otherwise as mma, with two stages where three do not fit, and up to 512 registers
  per lane.

Limits of the SM come from the chip's file (CUDA's arch_traits). Source of the rules: CUTLASS documentation, "Efficient
GEMM in CUDA" and the collective-builder defaults; NVIDIA PTX ISA 8.7, "Tensor Memory".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnsupportedError

STAGE_BYTES = (128, 64)
"""Bytes of k per row and stage: a line of the swizzled shared-memory layout, or half of one where three stages do not
fit.
"""
CDNA = "cdna"
"""Family of AMD's data-centre chips; the others are those of `expected.chip`."""
_WAVE_LANES = {CDNA: 64}
"""Lanes of a warp, 32 on every other family."""
_MOST_REGISTERS = {CDNA: 512}
_FIXED_REGISTERS = 40
_PRODUCER_REGISTERS = 40
_WARP_GROUP = 128
_TENSOR_MEMORY_COLUMNS = 512
_MOST_STAGES = 12


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks of one kernel that are resident on an SM together, and what limits them."""

    block_count: int
    """Blocks resident per SM, count."""
    limiter: str
    """shared memory, registers, tensor memory, warps or blocks."""
    thread_count: int
    """Threads of a block, count."""
    registers_per_thread_count: int
    """Registers of a thread that holds accumulators, a count."""
    shared_bytes: int
    """Shared memory of a block, bytes."""
    stage_count: int
    """Stages in shared memory, count."""
    tile_k: int
    """Size of one stage along k, in elements: a power of two, and so a multiple of every scale block."""
    warp_ratio: float
    """Resident warps over the most the SM can hold: what profilers call theoretical occupancy."""


def occupancy(
    device: Device,
    family: str,
    tile_m: int,
    tile_n: int,
    *,
    a_bytes: float,
    b_bytes: float,
    output_bytes: float,
    widest_bits: int | None = None,
) -> Occupancy:
    """Return how many blocks of a `tile_m` × `tile_n` tile fit on one SM of `device`.

    `a_bytes`, `b_bytes`, `output_bytes`: per element, block scales included. `widest_bits`: bits of the wider operand's
    element alone, which set the k of a stage; None: there are no scales, the bytes say it. Raises `UnsupportedError`
    when the chip's file lacks a limit, or when not even one block fits.
    """
    element_bytes = max(a_bytes, b_bytes) if widest_bits is None else widest_bits / 8
    limits = {
        name: _limit(device, name)
        for name in (
            "shared_memory_per_sm",
            "shared_memory_per_block",
            "registers_per_sm",
            "warps_per_sm",
            "blocks_per_sm",
        )
    }
    persistent = family in ("sm90", "sm100")
    held_bytes = tile_m * min(tile_n, 64) * output_bytes if persistent else 0.0
    for line in STAGE_BYTES:
        # 6-bit elements lie in the room of 8 bits or leave the rest of the line empty: whole powers of two either way.
        tile_k = max(16, 1 << int(math.log2(line / element_bytes)))
        stage = tile_k * (tile_m * a_bytes + tile_n * b_bytes)
        stages = _stages(limits["shared_memory_per_block"], stage, held_bytes, persistent)
        if stages >= 3:
            break
    shared = int(stages * stage + held_bytes)
    threads, registers, block_registers = _threads(family, tile_m, tile_n)
    lanes = _WAVE_LANES.get(family, 32)
    reserved = (
        device.chip["shared_memory_reserved_per_block"].value
        if "shared_memory_reserved_per_block" in device.chip
        else 0.0
    )
    fits = {
        "shared memory": int(limits["shared_memory_per_sm"] // (shared + reserved)),
        "registers": int(limits["registers_per_sm"] // block_registers),
        "warps": int(limits["warps_per_sm"] // (threads // lanes)),
        "blocks": int(limits["blocks_per_sm"]),
    }
    if family == "sm100":
        fits["tensor memory"] = max(1, _TENSOR_MEMORY_COLUMNS // _tensor_columns(tile_m, tile_n))
    limiter = min(fits, key=lambda name: fits[name])
    count = fits[limiter]
    if count < 1:
        raise UnsupportedError(
            f"a {tile_m}x{tile_n} tile does not fit on one SM of {device.key}: too much {limiter}; choose a smaller "
            "tile"
        )
    return Occupancy(
        count, limiter, threads, registers, shared, stages, tile_k, count * (threads // lanes) / limits["warps_per_sm"]
    )


def _limit(device: Device, name: str) -> float:
    quantity = device.chip.get(name)
    if quantity is None:
        raise UnsupportedError(
            f"{device.key} gives no {name}, so its occupancy is unknown; add it to [chip] of its file"
        )
    return quantity.value


def _stages(limit: float, stage: float, held_bytes: float, persistent: bool) -> int:
    """Return the stages of k in shared memory: all that fit for a persistent kernel, else three, else two."""
    fit = int((limit - held_bytes) // stage)
    return max(2, min(fit, _MOST_STAGES if persistent else 3))


def _threads(family: str, tile_m: int, tile_n: int) -> tuple[int, int, int]:
    """Return (threads of a block, registers of an accumulating thread, registers of the block)."""
    if family == "sm100":
        threads = 6 * 32 + 64  # load, MMA, scheduler and epilogue warps; accumulators are in tensor memory
        return threads, 96, threads * 96
    if family == "sm90":
        consumers = (2 if tile_m >= 128 else 1) * _WARP_GROUP
        registers = _rounded(tile_m * tile_n // consumers + _FIXED_REGISTERS + 24)
        return consumers + _WARP_GROUP, registers, consumers * registers + _WARP_GROUP * _PRODUCER_REGISTERS
    lanes = _WAVE_LANES.get(family, 32)
    warps = 4 if tile_m * tile_n <= 128 * 128 or family == CDNA else 8
    down = max(1, min(tile_m // 16, 2 if warps == 4 or tile_n >= tile_m else 4))
    warp_m, warp_n = tile_m / down, tile_n / (warps // down)
    threads = lanes * warps
    # Fragments of one k16 step in 16 bit, both operands, double buffered: 2 · 16 · 2 B · (m + n) / (32 lanes · 4 B).
    fragments = (warp_m + warp_n) / 2 * (32 / lanes)
    most = _MOST_REGISTERS.get(family, 248)
    registers = _rounded(int(tile_m * tile_n / threads + fragments) + _FIXED_REGISTERS, most)
    return threads, registers, threads * registers


def _tensor_columns(tile_m: int, tile_n: int) -> int:
    """Return tensor-memory columns of a block: FP32 accumulators, 128 rows each, twice where that fits."""
    columns = max(32, tile_n) * max(1, tile_m // 256)  # 256 rows are a pair of SMs with 128 each
    return min(2 * columns, _TENSOR_MEMORY_COLUMNS)


def _rounded(registers: int, most: int = 248) -> int:
    """Registers are handed out in eights; a thread has at most 255 but on AMD's chips."""
    return min(most, -(-registers // 8) * 8)
