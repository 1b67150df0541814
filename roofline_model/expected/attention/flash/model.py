"""FlashAttention 1 to 4 on a chip: time, what binds it, its parts and bytes; and a side-by-side comparison.

A model of the published kernels, not a bound: tiles, waves, the units of an SM and their overlap (`pipeline.py`),
DRAM traffic (`traffic.py`), split keys with their combine kernel, launch floors. The few fitted numbers stand in
`versions.py` and `units.py` with their sources; the plain speed of light is `attention_ops` and `roofline`.
Operands are cold: each comes from DRAM once, whatever a cache holds from the call before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.cost import OpCost
from roofline_model.core.finding import Finding, finding, finding_json, reason_text, unsupported
from roofline_model.expected.attention.flash.config import (
    FP8_FORMATS,
    VERSIONS_WITH_FP8,
    AttentionShape,
    FlashAttentionConfig,
    FlashAttentionVersion,
)
from roofline_model.expected.attention.flash.pipeline import StepClocks, overlapped, step_clocks
from roofline_model.expected.attention.flash.splits import Work, plan_work
from roofline_model.expected.attention.flash.tiles import ctas_per_sm
from roofline_model.expected.attention.flash.traffic import Traffic, traffic
from roofline_model.expected.attention.flash.units import ChipUnits, chip_units
from roofline_model.expected.attention.flash.versions import (
    FILL_CYCLES_PER_CTA,
    TRAITS,
    VersionTraits,
    emulated_exp_ratio,
    why_unavailable,
)
from roofline_model.operators.attention import attention

__all__ = [
    "AttentionShape",
    "FlashAttentionConfig",
    "FlashAttentionPrediction",
    "FlashAttentionRoofline",
    "FlashAttentionVersion",
    "compare_fa_rows",
    "compare_fa_versions",
]

MODEL_VERSION = "flash-1"
HYPOTHETICAL = "flash-hypothetical"
"""Why a version does not run on a chip where it can be priced all the same: the instruction is missing."""
BANDWIDTH_FILLING_SHARE = 0.5
"""Share of the SMs that must be busy to draw the full DRAM bandwidth (fitted to GEMM tables; adequate there)."""


@dataclass(frozen=True, slots=True)
class FlashAttentionPrediction:
    """One version on one chip. All SI.

    Of a version that lacks its instruction there (`HYPOTHETICAL`) the numbers are those of a chip that had it; of one
    that could not run for another reason every number is None.
    """

    version: FlashAttentionVersion
    hardware: str
    shape: AttentionShape
    config: FlashAttentionConfig
    why_unavailable: Finding | None = None
    """What the chip lacks; None where the version runs."""
    time_s: float | None = None
    bound: str = ""
    """The unit that takes longest alone: memory, tensor, exp (the whole softmax chain), shared or launch."""
    parts: tuple[tuple[str, float | None], ...] = ()
    """Seconds of each unit alone: memory, tensor, shared, exp, vector, dequantize, tail (idle last wave, filling, price
    of a mask), combine (launch of the second kernel of split keys), launch. They overlap, so they do not add up; None:
    not known.
    """
    flops: float | None = None
    """Useful FLOPs, 4·D for each (query, key) pair that mask and sparsity leave."""
    padded_flops: float | None = None
    """FLOPs the tensor cores do: whole tiles, padded head dimension."""
    traffic_bytes: Traffic = ()
    """DRAM bytes by name."""
    tile_rows_count: int | None = None
    tile_keys_count: int | None = None
    ctas_count: int | None = None
    waves_count: float | None = None
    """Thread blocks per SM; None where the SM count is unknown."""
    split_count: int | None = None
    peak_flops_per_s: float | None = None
    compute_format: str = ""
    provenance: str = ""
    """Status of the weakest number of the chip that was used; the kernel's own constants are fitted."""
    findings: tuple[Finding, ...] = ()
    model_version: str = MODEL_VERSION

    @property
    def available(self) -> bool:
        """Whether the chip runs the version."""
        return self.why_unavailable is None

    @property
    def reason(self) -> str:
        """Why not, in one line; empty where it runs."""
        return reason_text(self.why_unavailable)

    @property
    def dram_bytes(self) -> float | None:
        """All DRAM bytes of the call."""
        return math.fsum(size for _, size in self.traffic_bytes) if self.traffic_bytes else None

    @property
    def compulsory_bytes(self) -> float | None:
        """Bytes that no kernel can avoid: Q, K, V and O once."""
        return (
            math.fsum(size for name, size in self.traffic_bytes if name in ("q", "kv", "o"))
            if self.traffic_bytes
            else None
        )

    @property
    def rate_flops_per_s(self) -> float | None:
        """Useful FLOPs per second."""
        return None if self.time_s is None or self.flops is None else self.flops / self.time_s

    @property
    def cost(self) -> OpCost:
        """Work and DRAM traffic as an `OpCost`: O written, all other traffic under its name as read.

        Raises `UnsupportedError` for an unavailable version.
        """
        if self.why_unavailable is not None:
            raise unsupported(self.why_unavailable)
        assert self.flops is not None  # an available version counts them
        written = {name: size for name, size in self.traffic_bytes if name == "o"}
        read = {name: size for name, size in self.traffic_bytes if name != "o"}
        return OpCost({self.compute_format: self.flops}, read, written)

    # The seeds' names, read-only.
    @property
    def predicted_time_us(self) -> float | None:
        """Time in µs (seeds' name)."""
        return None if self.time_s is None else self.time_s * 1e6

    @property
    def arithmetic_intensity(self) -> float | None:
        """FLOP per DRAM byte (seeds' name)."""
        return None if self.flops is None or not self.dram_bytes else self.flops / self.dram_bytes

    @property
    def bottleneck(self) -> str:
        """`memory` or `compute` (seeds' name); for a launch-bound call the larger of the two."""
        if not self.parts:
            return ""
        seconds_of = {name: seconds for name, seconds in self.parts if seconds is not None}
        inside = max(seconds_of["tensor"], seconds_of.get("shared", 0.0), _softmax_s(seconds_of) or 0.0)
        return "memory" if seconds_of["memory"] >= inside else "compute"


class FlashAttentionRoofline:
    """FlashAttention on one chip (seeds' name). Holds the chip and nothing else."""

    def __init__(self, hardware: Device | str) -> None:
        self.hardware = get_hardware(hardware)

    def predict(
        self,
        batch: int,
        num_heads: int,
        seq_len_q: int,
        seq_len_kv: int,
        head_dim: int,
        config: FlashAttentionConfig | None = None,
        *,
        num_kv_heads: int | None = None,
    ) -> FlashAttentionPrediction:
        """Return time, bound, parts and bytes of one call.

        `num_kv_heads` defaults to `num_heads`; `config` to FA2 in FP16. A version this chip cannot run comes back with
        `available=False`, and with the time of a chip that had its instruction. Raises
        `InvalidValueError` naming a size or field that cannot be.
        """
        shape = AttentionShape(
            batch, num_heads, num_heads if num_kv_heads is None else num_kv_heads, seq_len_q, seq_len_kv, head_dim
        )
        return predict_flash_attention(self.hardware, shape, config or FlashAttentionConfig())


def predict_flash_attention(
    hardware: Device | str, shape: AttentionShape, config: FlashAttentionConfig
) -> FlashAttentionPrediction:
    """Return the prediction of `config` for `shape` on a chip."""
    device = get_hardware(hardware)
    shape.check_mask(config)
    traits = TRAITS[config.version]
    why_not = why_unavailable(traits, device, shape.head_dim, native_fp8=config.use_native_fp8)
    if why_not is not None and why_not.code != HYPOTHETICAL:
        return FlashAttentionPrediction(config.version, device.key, shape, config, why_not)
    units = chip_units(device, traits, config.math_format.key)
    work, cost = plan_work(shape, config, device), attention_cost(shape, config)
    resident_ctas = ctas_per_sm(work.tile, device, config.version)
    moved = traffic(shape, config, cost, traits, work, units.sm_count, units.l2_bytes, resident_ctas)
    emulated = 0.0
    if config.version is FlashAttentionVersion.FA4:
        emulated = emulated_exp_ratio(device, causal=config.causal, head_dim=shape.head_dim)
    clocks = step_clocks(work.tile, config, traits, units, emulated)
    useful_flops = cost.total_flops * config.visited_ratio
    parts = _parts(work, units, traits, clocks, moved, useful_flops, native_fp8=config.use_native_fp8)
    time_s = _time_s(work, units, traits, clocks, parts)
    return FlashAttentionPrediction(
        version=config.version,
        hardware=device.key,
        shape=shape,
        config=config,
        why_unavailable=why_not,
        time_s=time_s,
        bound=_bound(parts),
        parts=tuple(parts.items()),
        flops=useful_flops,
        padded_flops=_padded_flops(work),
        traffic_bytes=moved,
        tile_rows_count=work.tile.rows_count,
        tile_keys_count=work.tile.keys_count,
        ctas_count=work.ctas_count,
        waves_count=work.ctas_count / units.sm_count if units.sm_count else None,
        split_count=work.split_count,
        peak_flops_per_s=units.peak_flops_per_s,
        compute_format=config.math_format.key,
        provenance=units.provenance,
        findings=(
            *((why_not,) if why_not is not None else ()),
            *units.findings,
            *_findings(shape, config, traits, emulated),
        ),
    )


def attention_cost(shape: AttentionShape, config: FlashAttentionConfig) -> OpCost:
    """Return the work and the compulsory traffic of the fused operator; block sparsity is not in it."""
    return attention(
        shape.batch_size,
        shape.query_heads,
        shape.kv_heads,
        shape.query_count,
        shape.kv_count,
        shape.head_dim,
        q=config.query_format,
        kv=config.cache_format,
        o=config.output_format,
        causal=config.causal,
        window=config.window_size,
        page_tokens=config.page_size,
    ).cost


def compare_fa_versions(
    batch: int,
    num_heads: int,
    seq_len: int,
    head_dim: int,
    hardware_key: Device | str = "b10",
    *,
    seq_len_q: int | None = None,
    num_kv_heads: int | None = None,
    precision: str | None = None,
    **options: Any,
) -> dict[str, FlashAttentionPrediction]:
    """Return every version's prediction by its short name (`fa1` … `fa4`), in order.

    `seq_len_q` defaults to `seq_len` (self-attention of a prompt; 1 is a decode step). `precision` None compares each
    version at its best as the seeds do: FP16 for fa1 and fa2, FP8 for fa3 and fa4 where the chip has FP8 units. Then
    part of the gain is the format's, and a finding says so. A format given is used by all. `options` are fields of
    `FlashAttentionConfig` (causal, window_size, kv_cache_precision, …).
    """
    device = get_hardware(hardware_key)
    roofline = FlashAttentionRoofline(device)
    has_fp8 = device.declares("FP8_E4M3") and device.path("FP8_E4M3").kind == "native"
    results = {}
    for version in FlashAttentionVersion:
        wanted = precision
        if wanted is None:
            wanted = "FP8_E4M3" if version in VERSIONS_WITH_FP8 and has_fp8 else "FP16"
        native = wanted.upper() in (*FP8_FORMATS, "FP8") and version in VERSIONS_WITH_FP8 and has_fp8
        config = FlashAttentionConfig(version, qkv_precision=wanted, use_native_fp8=native, **options)
        results[version.value] = roofline.predict(
            batch,
            num_heads,
            seq_len if seq_len_q is None else seq_len_q,
            seq_len,
            head_dim,
            config,
            num_kv_heads=num_kv_heads,
        )
    return results if precision is not None else _with_format_findings(results)


def _with_format_findings(results: dict[str, FlashAttentionPrediction]) -> dict[str, FlashAttentionPrediction]:
    """Say of every FP8 prediction that is compared with 16-bit ones that the formats differ."""
    wide = [name for name, answer in results.items() if answer.available and answer.compute_format not in FP8_FORMATS]
    if not wide:
        return results
    differing = finding("flash-counted", kind="formats-differ", versions=tuple(wide))
    return {
        name: replace(answer, findings=(*answer.findings, differing))
        if answer.compute_format in FP8_FORMATS
        else answer
        for name, answer in results.items()
    }


def compare_fa_rows(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    """Return `compare_fa_versions` as plain rows for a table or JSON; the arguments are the same.

    Each row: version, available, reason, time_s, speedup (against the slowest available version), bound,
    rate_flops_per_s, dram_bytes, intensity_flop_per_byte, compute_format, tile, ctas_count, split_count, parts,
    findings.
    """
    results = compare_fa_versions(*arguments, **options)
    times = [result.time_s for result in results.values() if result.available and result.time_s is not None]
    slowest = max(times, default=None)
    return [
        {
            "version": name,
            "available": answer.available,
            "reason": answer.reason,
            "time_s": answer.time_s,
            "speedup": slowest / answer.time_s if answer.available and answer.time_s and slowest else None,
            "bound": answer.bound,
            "rate_flops_per_s": answer.rate_flops_per_s,
            "dram_bytes": answer.dram_bytes,
            "intensity_flop_per_byte": answer.arithmetic_intensity,
            "compute_format": answer.compute_format,
            "tile": f"{answer.tile_rows_count}x{answer.tile_keys_count}" if answer.tile_rows_count else "",
            "ctas_count": answer.ctas_count,
            "split_count": answer.split_count,
            "parts": dict(answer.parts),
            "findings": [finding_json(item) for item in answer.findings],
        }
        for name, answer in results.items()
    ]


def _parts(
    work: Work,
    units: ChipUnits,
    traits: VersionTraits,
    clocks: StepClocks | None,
    moved: Traffic,
    useful_flops: float,
    *,
    native_fp8: bool,
) -> dict[str, float | None]:
    """Return the seconds of each unit alone.

    Without the chip's SMs nothing of a kernel's overlap can be counted; then neither is what its tiles compute in vain,
    which would make the version with the largest tiles the slowest.
    """
    parts: dict[str, float | None] = dict.fromkeys(("shared", "exp", "vector", "dequantize", "tail"))
    total_bytes = math.fsum(size for _, size in moved)
    busy = 1.0
    if units.sm_count is not None:
        busy = min(1.0, min(work.ctas_count, units.sm_count) / (BANDWIDTH_FILLING_SHARE * units.sm_count))
    parts["memory"] = total_bytes / (units.bandwidth_bytes_per_s * busy)
    computed = useful_flops if clocks is None else _padded_flops(work)
    parts["tensor"] = computed / (units.peak_flops_per_s * units.tensor_ratio)
    if clocks is not None and units.sm_count is not None and units.clock_hz is not None:
        scores_s = work.total_blocks * work.tile.scores_count / (units.sm_count * units.clock_hz)
        parts["shared"] = scores_s * clocks.shared_clocks_per_score
        parts["exp"] = scores_s * clocks.exp_clocks_per_score
        parts["vector"] = scores_s * clocks.vector_clocks_per_score
        parts["dequantize"] = scores_s * clocks.dequantize_clocks_per_score
        step_s = _step_s(work, units.clock_hz, traits, clocks)
        idle = (
            work.busiest_sm_blocks(units.sm_count, longest_first=traits.longest_first)
            - work.total_blocks / units.sm_count
        )
        filling = FILL_CYCLES_PER_CTA
        if native_fp8:
            filling += (traits.fp8_fill_clocks_per_element or 0.0) * work.tile.rows_count * work.tile.head_dim
        filling_s = math.ceil(work.ctas_count / units.sm_count) * filling / units.clock_hz
        parts["tail"] = idle * step_s + filling_s
    parts["combine"] = units.launch_s if work.splits_keys and work.split_count > 1 else 0.0
    parts["launch"] = units.launch_s
    return parts


def _time_s(
    work: Work, units: ChipUnits, traits: VersionTraits, clocks: StepClocks | None, parts: Mapping[str, float | None]
) -> float:
    """Return the kernel's time: SM time overlapped with DRAM time, then the combine kernel and the launches."""
    on_chip_s = parts["tensor"] or 0.0
    if clocks is not None and units.sm_count is not None and units.clock_hz is not None:
        on_chip_s = work.total_blocks / units.sm_count * _step_s(work, units.clock_hz, traits, clocks) + (
            parts["tail"] or 0.0
        )
    kernel_s = overlapped((on_chip_s, parts["memory"] or 0.0), traits.memory_overlap_factor)
    return kernel_s + (parts["combine"] or 0.0) + (parts["launch"] or 0.0)


def _step_s(work: Work, clock_hz: float, traits: VersionTraits, clocks: StepClocks) -> float:
    """Return the seconds of one tile step on one SM."""
    return work.tile.scores_count * clocks.combined(traits.overlap_factor) / clock_hz


def _padded_flops(work: Work) -> float:
    return 4.0 * work.total_blocks * work.tile.scores_count * work.tile.head_dim


def _bound(parts: Mapping[str, float | None]) -> str:
    """Return the name of the longest of memory, tensor, shared, exp (the softmax chain) and launch."""
    seconds_of = {name: seconds for name, seconds in parts.items() if seconds is not None}
    candidates: dict[str, float] = {
        name: seconds_of[name] for name in seconds_of if name in ("memory", "tensor", "shared")
    }
    softmax_s = _softmax_s(seconds_of)
    if softmax_s is not None:
        candidates["exp"] = softmax_s
    if "launch" in seconds_of:
        candidates["launch"] = seconds_of["launch"] + seconds_of.get("combine", 0.0)
    return max(candidates, key=lambda name: candidates[name])


def _softmax_s(parts: Mapping[str, float]) -> float | None:
    if "exp" not in parts:
        return None
    return parts["exp"] + parts["vector"] + parts["dequantize"]


def _findings(
    shape: AttentionShape, config: FlashAttentionConfig, traits: VersionTraits, emulated_ratio: float
) -> list[Finding]:
    findings, maths = [], config.math_format
    if config.query_format.key in FP8_FORMATS and not config.use_native_fp8:
        query = config.query_format.key
        findings.append(finding("operands-widened", operand="inputs", format=query, compute_format=maths.key))
    if config.cache_format.element_bits < maths.element_bits:
        cache = config.cache_format.key
        findings.append(finding("operands-widened", operand="keys and values", format=cache, compute_format=maths.key))
    if not traits.has_gqa and shape.group_size > 1:
        findings.append(
            finding("flash-counted", kind="heads-repeated", kernel=traits.version.value, repeat_count=shape.group_size)
        )
    if config.window_size is not None and traits.version is FlashAttentionVersion.FA1:
        findings.append(finding("flash-counted", kind="window", kernel=traits.version.value))
    if config.sparsity_ratio:
        findings.append(finding("flash-counted", kind="block-sparsity"))
    if emulated_ratio:
        findings.append(finding("flash-counted", kind="polynomials", exponentials_ratio=emulated_ratio))
    return findings
