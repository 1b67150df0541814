"""The four FlashAttention kernels as facts: what each needs of a chip, which head dimensions it has, how well it
overlaps.

Sources of the structure: FA1 arXiv:2205.14135 and flash-attention v1.0.9 (`fmha_*`); FA2 arXiv:2307.08691 and
`csrc/flash_attn`; FA3 arXiv:2407.08608 and `hopper/`; FA4 arXiv:2603.05451 and `flash_attn/cute` (all in
Dao-AILab/flash-attention). The few fitted constants say from which published points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from roofline_model.chips.hardware import Device
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.attention.flash.config import FlashAttentionVersion
from roofline_model.kernels.attention_kernels import ATTENTION_KERNELS, newest_flash


@dataclass(frozen=True, slots=True)
class VersionTraits:
    """One kernel generation."""

    version: FlashAttentionVersion
    instruction: str
    """Matrix instruction it is written with: mma.sync, wgmma or tcgen05."""
    head_dims: tuple[int, ...]
    """Head dimensions it is built for; others are padded up to the next one."""
    has_gqa: bool
    """Key heads may be fewer than query heads. Without it K and V are repeated for every query head first."""
    has_split_kv: bool
    keeps_output: bool
    """The running output stays on chip for all keys. FA1 sends it through memory after each block of keys."""
    longest_first: bool
    """Longest tiles are scheduled first (LPT), so that short ones fill the last wave of a causal call."""
    overlap_factor: float
    """p in (Σ t^p)^(1/p) over the units of an SM: 1 is one after the other, large is perfect overlap. Fitted."""
    memory_overlap_factor: float
    """The same between the SM and DRAM."""
    fp8_fill_clocks_per_element: float | None
    """Further clocks per thread block and element of its query tile (rows × head dimension) with FP8 products, which
    nothing hides: FA3 transposes V inside the kernel and permutes the output. None: no FP8 path. Fitted.
    """
    vector_ops_per_score: float
    """FP32 instructions per score beside the exponential: scale, maximum, sum, conversion, share of rescaling.

    Fitted.
    """


TRAITS: Mapping[FlashAttentionVersion, VersionTraits] = MappingProxyType(
    {
        traits.version: traits
        for traits in (
            # Keys outside, queries inside: no score matrix in memory, but the output passes through it per key
            # block.
            VersionTraits(
                FlashAttentionVersion.FA1,
                "mma.sync",
                (16, 32, 64, 128),
                has_gqa=False,
                has_split_kv=False,
                keeps_output=False,
                longest_first=False,
                overlap_factor=1.0,
                memory_overlap_factor=2.0,
                fp8_fill_clocks_per_element=None,
                vector_ops_per_score=4.8,
            ),
            # Queries outside: one block owns its rows; softmax and products overlap only between warps and
            # blocks.
            VersionTraits(
                FlashAttentionVersion.FA2,
                "mma.sync",
                (32, 64, 96, 128, 192, 256),
                has_gqa=True,
                has_split_kv=True,
                keeps_output=True,
                longest_first=False,
                overlap_factor=1.5,
                memory_overlap_factor=4.0,
                fp8_fill_clocks_per_element=None,
                vector_ops_per_score=4.8,
            ),
            # Hopper: asynchronous wgmma and copies, two warp groups in ping-pong, FP8.
            VersionTraits(
                FlashAttentionVersion.FA3,
                "wgmma",
                (64, 96, 128, 192, 256),
                has_gqa=True,
                has_split_kv=True,
                keeps_output=True,
                longest_first=True,
                overlap_factor=2.5,
                memory_overlap_factor=4.0,
                fp8_fill_clocks_per_element=0.4,
                vector_ops_per_score=4.8,
            ),
            # Blackwell: tensor memory, two query tiles per block, part of exp on the FMA units, rescaling when
            # needed.
            VersionTraits(
                FlashAttentionVersion.FA4,
                "tcgen05",
                (64, 96, 128, 192, 256),
                has_gqa=True,
                has_split_kv=True,
                keeps_output=True,
                longest_first=True,
                overlap_factor=4.0,
                memory_overlap_factor=4.0,
                fp8_fill_clocks_per_element=0.0,
                vector_ops_per_score=2.4,
            ),
        )
    }
)
"""The fitted constants (rounded to two digits, November 2026) and the published points that fixed them:

FA3: overlap 2.5 and 4.8 FP32 instructions: FP16 on H100 at 16k tokens, head dim 64, 128, 256 (497, 648, 756 TFLOP/s;
FA3 paper, figure 5); 0.4 clocks per element: its FP8 rates at 512 and 1024 tokens (none are published for FA4). FA2:
overlap 1.5: the same figure at 16k tokens (324, 370, 326). FA4: overlap 4.0 and 2.4 instructions: chosen between
machines, not fitted to one. At head dim 128 and 8192 tokens on B200 one published 1535 TFLOP/s (flash-attention pull
request 2280), others 1357 to 1613 (2605, the paper); the model gives 1421, and 1535 would take an overlap of 6. Memory
overlap 4: measured attention kernels, where any value ≥ 3 does. FA1: overlap 1 because its four warps meet at a barrier
in every 16-row step; memory overlap 2 so that FA2 is 1.7 to 3 times as fast on A100 at long sequences (FA2 paper,
section 4.1). All other points of these tables, and GB10's, are predictions
(tests/roofline_model/expected/attention/flash/test_flash_published.py).
"""

POLYNOMIAL_OPS_PER_EXP = 7.0
"""FP32 instructions of one emulated exp2: 3 FMA (degree 3), 1 maximum, 1 rounding add, 2 subtractions.
Counted in the compiled FA4 kernel, per pair with packed f32x2 instructions."""

FILL_CYCLES_PER_CTA = 2000.0
"""Clocks of one thread block that nothing hides: first loads before, output after the loop. Fitted to the 512- and
1024-token points of FA3 FP16 head dim 128 on H100 (467 and 565 TFLOP/s); other versions take it over.
"""

MASK_OVERHEAD_RATIO = 0.12
"""Extra time per share of blocks that a causal mask or window hides: unequal tiles, masking of the diagonal. Fitted: at
16k tokens causal FA2, FA3 (H100) and FA4 (B200) compute 0.90 to 0.95 of the rate without a mask, and hide half of the
blocks.
"""


def why_unavailable(
    traits: VersionTraits, device: Device, head_dim: int, *, native_fp8: bool = False
) -> Finding | None:
    """Return why `device` cannot run this version at `head_dim`; None where it can.

    A placeholder chip may run all versions, and so may a custom chip: neither says what it lacks.
    """
    version = traits.version.value
    if head_dim > traits.head_dims[-1]:
        return finding(
            "flash-unavailable",
            kind="head-dim",
            kernel=version,
            head_dim=head_dim,
            largest_head_dim=traits.head_dims[-1],
        )
    if native_fp8 and device.path("FP8_E4M3").kind != "native":
        return finding(
            "flash-unavailable", kind="fp8", hardware=device.key, reason=device.path("FP8_E4M3").reason or None
        )
    if ATTENTION_KERNELS[version].model_on(device) is not None:
        return None
    if device.kind == "cpu":
        return finding("flash-unavailable", kind="gpus", kernel="FlashAttention", hardware=device.key)
    if device.vendor != "nvidia":
        return finding(
            "flash-hypothetical", kind="vendor", kernel=version, instruction=traits.instruction, hardware=device.key
        )
    return _missing_instruction(traits, device)


def padded_head_dim(traits: VersionTraits, head_dim: int) -> int:
    """Return the head dimension the kernel computes with: the next one it is built for."""
    return next((size for size in traits.head_dims if size >= head_dim), head_dim)


def compute_capability(device: Device) -> int | None:
    """Return the compute capability as ten times major plus minor (Hopper: 90), or None where unknown."""
    capability = device.match.capability
    return None if capability is None else capability[0] * 10 + capability[1]


def emulated_exp_ratio(device: Device, *, causal: bool, head_dim: int) -> float:
    """Return the share of exponentials that FA4 computes with polynomials instead of the special function unit.

    Source: `_TUNING_CONFIG` and `apply_exp2_convert` of flash_attn/cute: of each `ex2_emu_freq` positions the last four
    are emulated, in two of the four 32-wide fragments of a row. 0 on sm_103, whose unit is twice as fast.
    """
    if compute_capability(device) == 103:
        return 0.0
    frequency = 10 if head_dim > 64 and not causal else 16
    emulated = sum(1 for position in range(0, 32, 2) if position % frequency >= frequency - 4)
    return emulated / 16 * 2 / 4


def _missing_instruction(traits: VersionTraits, device: Device) -> Finding:
    """Return what an NVIDIA chip lacks that does not run this version."""
    capability = device.match.capability
    if capability is None:
        return finding("flash-hypothetical", kind="capability", hardware=device.key)
    chips = {"wgmma": "Hopper", "tcgen05": "sm_100 to sm_110"}.get(traits.instruction)
    return finding(
        "flash-hypothetical",
        kind="instruction",
        kernel=traits.version.value,
        instruction=traits.instruction,
        hardware=device.key,
        capability=f"sm_{compute_capability(device)}",
        chips=chips,
        instead=None if chips is None else newest_flash(capability),
    )


def newest_available(device: Device, head_dim: int) -> FlashAttentionVersion | None:
    """Return the newest version that `device` can run at `head_dim`, or None."""
    for version in reversed(FlashAttentionVersion):
        if why_unavailable(TRAITS[version], device, head_dim) is None:
            return version
    return None
