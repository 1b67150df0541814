"""The frozen questions' only contact with the project: one function per family, from plain arguments to a plain answer.

**How to adapt.** Whoever renames, moves or merges code edits this file to the new names and nothing else of the frozen
answers: the keyword arguments of a function are those of its questions (`frozen_catalog.py`), and what it returns is
the normalised answer, which stays as it is whatever types the code has. Both are plain numbers, text that identifies
something (keys, codes, names of parts), lists and mappings; never a sentence. An exception passes through: its class
and slug are the answer. Reasons that the code of 01d84d4 knows only as sentences are reduced to codes at the end of
this file; once the code gives findings, map their codes to those there and delete the patterns. Where a new code is
finer than an old one, map it to the old one here. Rows that the store's rankings exclude are named as 01d84d4 shows
them (`FP8 (W8A16) · dequantize`: the case's precision label and kernel; of a model its label), flags and doubts by
their stored keys. Then `python scripts/freeze_answers.py compare FAMILY` says what differs.
"""

from __future__ import annotations

import functools
import json
import lzma
import math
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import roofline_model as rm

ROOT = Path(__file__).resolve().parents[2]

# Shared -------------------------------------------------------------------------------------------------------------


@functools.cache
def _chip(name: str) -> Any:
    """Return a chip by key, or `run:FOLDER/FILE`, the calibrated machine of a run under examples/runs."""
    if not name.startswith("run:"):
        return rm.get_hardware(name)
    from roofline_model.chips.hardware import device_from_profile

    text = (ROOT / "examples" / "runs" / f"{name.removeprefix('run:')}.json").read_text(encoding="utf-8")
    return device_from_profile(json.loads(text)["profiles"][0]["profile"])


def _operator(work: Mapping[str, Any]) -> Any:
    """Return the operator of `{op: gemm, M: …, a: …}`: `op` names the function, the rest are its arguments."""
    arguments = dict(work)
    name = arguments.pop("op")
    if name == "experts":
        from roofline_model.models.experts import expert_product
        from roofline_model.models.model_shapes import Experts

        count, active = arguments.pop("expert_count"), arguments.pop("active_count")
        return expert_product(experts=Experts(count, active, arguments["N"]), **arguments)
    if name == "combine_experts":
        from roofline_model.models.experts import combine_experts

        return combine_experts(**arguments)
    return getattr(rm, name)(**arguments)


def _parts(block: Mapping[str, Any]) -> Any:
    """Return the operators by name of `{block: ffn_parts, rows: …}`."""
    arguments = dict(block)
    return getattr(rm, arguments.pop("block"))(**arguments)


def _ideal(found: Any) -> dict[str, Any]:
    return {
        "time_s": found.time_s,
        "memory_s": found.memory_time_s,
        "compute_s": found.compute_time_s,
        "bound": found.bound,
        "flops": found.flops,
        "read_bytes": found.read_bytes,
        "write_bytes": found.write_bytes,
        "bandwidth_bytes_per_s": found.bandwidth_bytes_per_s,
        "peak_flops_per_s": found.peak_flops_per_s,
        "compute_format": found.compute_format,
        "path": found.path,
        "memory_level": found.memory_level,
        "provenance": found.provenance,
        "model_version": found.model_version,
    }


def _sequence(found: Any) -> dict[str, Any]:
    return {
        "time_s": found.time_s,
        "memory_s": found.memory_time_s,
        "compute_s": found.compute_time_s,
        "bound": found.bound,
        "flops": found.flops,
        "read_bytes": found.read_bytes,
        "write_bytes": found.write_bytes,
        "path": found.path,
        "provenance": found.provenance,
        "parts": [
            [part.name, part.prediction.time_s, part.prediction.bound, part.prediction.path] for part in found.parts
        ],
    }


def _interval(time_s: Any, low_s: Any, high_s: Any, source: str, provenance: str) -> dict[str, Any]:
    return {"time_s": time_s, "low_s": low_s, "high_s": high_s, "source": source, "provenance": provenance}


# Ideal and expected times -------------------------------------------------------------------------------------------


def ideal(hardware: str, work: Mapping[str, Any], cache: str = "cold") -> dict[str, Any]:
    """Answer with the ideal prediction of one operator."""
    return _ideal(rm.predict(_operator(work), _chip(hardware), cache=cache))


def ideal_call(hardware: str, call: str, **arguments: Any) -> dict[str, Any]:
    """Answer with `predict_gemv`, `predict_ffn`, …: the functions of the original documents, by name."""
    found = getattr(rm, call)(_chip(hardware), **arguments)
    return _sequence(found) if hasattr(found, "parts") else _ideal(found)


def expected(
    hardware: str, work: Mapping[str, Any], cache: str = "cold", dynamic: bool = False, kernel: str | None = None
) -> dict[str, Any] | None:
    """Answer with the expected time of one operator; without one, whether a reason is given."""
    operator, chip = _operator(work), _chip(hardware)
    prediction = rm.predict_expected(
        operator, chip, cache=cache, dynamic_activation_quantization=dynamic, kernel=kernel
    )
    if prediction is None:
        return {"expected": None, "has_reason": bool(rm.why_no_expected(operator, chip, cache=cache))}
    return {
        "time_s": prediction.time_s,
        "low_s": prediction.low_s,
        "high_s": prediction.high_s,
        "parts": dict(prediction.parts),
        "terms": dict(prediction.terms),
        "binding": prediction.binding,
        "kernel": prediction.kernel,
        "provenance": prediction.provenance,
        "model_version": prediction.model_version,
    }


def expected_block(hardware: str, block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Answer with the expected time of several kernels in sequence."""
    from roofline_model.models.decoder_step import StepKernel

    kernels = [StepKernel(name, work, 1) for name, work in _parts(block).items()]
    return _expected_kernels(rm.expected_sequence(rm.expected_kernels(kernels, _chip(hardware))))


def _expected_kernels(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "time_s": found.time_s,
        "low_s": found.low_s,
        "high_s": found.high_s,
        "binding": found.binding,
        "provenance": found.provenance,
        "parts": [
            [
                kernel.kernel.name,
                kernel.kernel.calls_count,
                kernel.time_s,
                kernel.low_s,
                kernel.high_s,
                kernel.binding,
                kernel.provenance,
            ]
            for kernel in found.kernels
        ],
    }


TABLE_COLUMNS = (
    "op,phase,m,n,k,batch,q_len,kv_len,heads,kv_heads,head_dim,causal,weight_format,activation_format,kv_format,"
    "output_format,time_s"
)


def table(hardware: str, rows: Sequence[str]) -> dict[str, Any]:
    """Answer with the predictions of a table of measured kernels; `rows` hold `TABLE_COLUMNS`, as in a CSV file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.csv"
        lines = [f"device,{TABLE_COLUMNS},source", *(f"{hardware},{row},frozen" for row in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        prediction = rm.predict_table(rm.read_kernel_table(path))
    return {
        **{
            name: [None if value != value else value for value in getattr(prediction, name).tolist()]
            for name in ("ideal_s", "expected_s", "low_s", "high_s")
        },
        "provenance": list(prediction.provenance),
        "binding": list(prediction.binding),
        "has_reason": [bool(reason) for reason in prediction.reasons],
        "is_scored": prediction.is_scored.tolist(),
    }


# Which format for a shape -------------------------------------------------------------------------------------------


def recommend(
    hardware: str,
    M: int,
    N: int,
    K: int,
    times: str = "ideal",
    phase: str | None = None,
    memory_limit_gb: float | None = None,
    model_parameters: float | None = None,
    formats: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Answer with the ranking of formats for one product, by ideal or expected times."""
    chip = _chip(hardware)
    ranking = rm.recommend_quantization(
        chip,
        M,
        N,
        K,
        phase,
        memory_limit_gb,
        model_parameters=model_parameters,
        formats=formats,
        times=rm.expected_times(chip) if times == "expected" else None,
        max_loss_pct=None if times == "ideal" else math.inf,  # frozen before the choice had a limit
    )
    options = ranking.options or (ranking.nearest,)
    excluded = [one for one in ranking.excluded if one.option is not ranking.nearest]
    return {
        "phase": ranking.question.phase,
        "options": [_option(option) for option in options],
        "choice": ranking.precision,
        "fits": ranking.choice is not None,
        "baseline": _option(ranking.baseline),
        "excluded": [
            [one.key, _EXCLUSIONS[one.finding.code]]
            for one in sorted(excluded, key=_as_asked(ranking.baseline, formats))
        ],
    }


def _as_asked(baseline: Any, formats: Sequence[str] | None) -> Any:
    """Return a key that sorts exclusions as they were frozen: formats never weighed, then the others as they were
    named.
    """
    from roofline_model.recommend.options import DEFAULT_FORMATS

    named = [rm.get_format(name).key for name in formats or DEFAULT_FORMATS]
    order = [baseline.key, *(key for key in dict.fromkeys(named) if key != baseline.key)]
    return lambda one: (one.option is not None, order.index(one.key))


_EXCLUSIONS = {"not-narrower": "not-narrower", "misses-memory-limit": "limit:memory"}


def _option(one: Any) -> dict[str, Any]:
    formats, estimate = dict(one.formats), one.estimate
    codes = {finding.code for finding in one.findings}
    return {
        "key": one.key,
        "weight_format": formats["b"],
        "activation_format": formats["a"],
        "method": one.method,
        "path": one.path,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "source": estimate.source,
        "provenance": estimate.provenance,
        "ideal_s": one.times.ideal.time_s,
        "speedup": one.speedup_ratio,
        "ideal_speedup": one.ideal_speedup_ratio,
        "memory_bytes": one.memory.total_bytes,
        "memory_saved_ratio": one.memory.saved_ratio,
        "bound": one.bound,
        "loss_pct": one.loss.pct,
        "has_kernel_gap": "kernel-gap" in codes,
        "has_engine_gap": "engine-gap" in codes,
    }


# Whole models -------------------------------------------------------------------------------------------------------


def model(
    hardware: str,
    model: str,
    phase: str = "decode",
    batch: int = 1,
    context: int = 4096,
    new_tokens: int | None = None,
    formats: str = "checkpoint",
    kv: str | None = None,
    exceptions: Sequence[str] = (),
    devices: int = 1,
    link_bytes_per_s: float | None = None,
) -> dict[str, Any]:
    """Answer with one pass of a decoder, kernel by kernel: ideal and expected."""
    chip = _chip(hardware)
    prediction = rm.predict_model(
        chip,
        model,
        phase,
        batch=batch,
        context=context,
        new_tokens=new_tokens,
        formats=formats,
        kv=kv,
        exceptions=exceptions,
        parallel=rm.Parallel(devices, link_bytes_per_s) if devices > 1 else rm.Parallel(),
    )
    step = rm.expected_step(prediction, chip)
    better = _expected_kernels(step)
    if better is not None and step is not None:
        better["all_reduce_s"], better["stream_time_s"] = step.all_reduce_s, step.stream_time_s
    return {
        "time_s": prediction.time_s,
        "graph_time_s": prediction.graph_time_s,
        "stream_time_s": prediction.stream_time_s,
        "tokens_per_s": prediction.tokens_per_s,
        "flops": prediction.flops,
        "moved_bytes": prediction.moved_bytes,
        "bound": prediction.bound,
        "provenance": prediction.provenance,
        "launch_count": prediction.launch_count,
        "all_reduce_s": prediction.all_reduce_s,
        "kv_crossover_tokens": prediction.kv_crossover_tokens,
        "memory": _model_memory(prediction.memory),
        "kernels": [
            [
                kernel.kernel.name,
                kernel.kernel.calls_count,
                kernel.prediction.time_s,
                kernel.prediction.bound,
                kernel.prediction.path,
            ]
            for kernel in prediction.kernels
        ],
        "expected": better,
    }


def _model_memory(memory: Any) -> dict[str, Any]:
    return {
        "weights_bytes": memory.weights_bytes,
        "kv_bytes": memory.kv_bytes,
        "activation_bytes": memory.activation_bytes,
        "total_bytes": memory.total_bytes,
        "fits": memory.fits,
    }


def recommend_model(
    hardware: str,
    model: str,
    losses: Mapping[str, Any] | None = None,
    traffic: Sequence[Mapping[str, Any]] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Answer with the ranked plans of a model; `losses` as in a losses file, `traffic` a list of passes with shares."""
    if losses is not None:
        arguments["losses"] = _losses(losses)
    if traffic is not None:
        arguments["traffic"] = [rm.traffic_share(**share) for share in traffic]
    found = rm.recommend_model(_chip(hardware), model, **arguments)
    return {
        "wide": found.wide,
        "options": [_plan(option, found.baseline) for option in found.options],
        "choice": None if found.choice is None else found.choice.key,
        "baseline": _baseline_plan(found.baseline),
        "is_baseline_fitting": found.limits.memory_bytes is None
        or found.baseline.memory.total_bytes <= found.limits.memory_bytes,
        "alternatives": [[each.role, each.option.key, each.slowdown_ratio] for each in found.alternatives],
        "excluded": [[one.key, _plan_exclusion(one), _excess_ratio(one)] for one in found.excluded],
        "searches": [[search.label, search.choice.choices, search.passes_count] for search in found.searches],
        "front": [[one.loss_value, one.time_s, one.memory_bytes] for one in found.front],
    }


def _baseline_plan(baseline: Any) -> dict[str, Any]:
    """Return the baseline as 01d84d4 had it: priced before a search could turn out to be nothing else, so without its
    name.
    """
    plan = _plan(baseline, baseline)
    return {**plan, "aliases": [name for name in plan["aliases"] if not name.startswith("pareto-")]}


def _losses(losses: Mapping[str, Any]) -> Any:
    """Return measured losses from the fields of a losses file."""
    fields = dict(losses)
    values = {(name, label): loss for name, row in fields.pop("losses").items() for label, loss in row.items()}
    return rm.MeasuredLosses(values, **fields)


def _plan(one: Any, baseline: Any) -> dict[str, Any]:
    from roofline_model.core.answer import is_comparable

    estimate, codes = one.estimate, {finding.code for finding in one.findings}
    return {
        "key": one.key,
        "kind": one.kind,
        "aliases": sorted(one.aliases),
        "method": one.method,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "source": estimate.source,
        "provenance": estimate.provenance,
        "ideal_s": one.times.ideal.time_s,
        "tokens_per_s": one.tokens_per_s,
        "speedup": one.speedup_ratio,
        "ideal_speedup": one.ideal_speedup_ratio,
        "memory_bytes": one.memory.total_bytes,
        "loss_pct": one.loss.pct,
        "loss_value": one.loss.value,
        "loss_at_least_pct": one.loss.at_least_pct,
        "loss_source": one.loss.source,
        "bound": one.bound,
        "has_kernel_gap": "kernel-gap" in codes,
        "is_speedup_ideal": not is_comparable(estimate.source, baseline.estimate.source),
    }


_LIMITS = {"misses-memory-limit": "memory", "misses-time-limit": "latency", "misses-loss-limit": "quality"}
_CANNOT = {
    "no-unit": "no-unit",
    "no-unit-weight-only": "no-unit",
    "kernel-gap": "kernel-gap",
    "search-empty": "search-empty",
}


def _plan_exclusion(one: Any) -> str:
    limits = [_LIMITS[finding.code] for finding in one.findings if finding.code in _LIMITS]
    if limits:
        return "limit:" + "+".join(sorted(limits, key=list(_LIMITS.values()).index))
    return _CANNOT.get(one.finding.code) or f"unclassified: {one.finding}"


def _excess_ratio(one: Any) -> float | None:
    from roofline_model.recommend.ranking import excess_ratio

    return excess_ratio(one.finding) if one.finding.code in _LIMITS else None


# Attention: the cache's format, and FlashAttention as the original documents have it
# ------------------------------------


def cache(
    hardware: str, sizes: Mapping[str, Any], wide: str = "BF16", formats: Sequence[str] | None = None
) -> dict[str, Any]:
    """Answer with the ranking of formats for an attention's cache."""
    from roofline_model.core.finding import short_text
    from roofline_model.recommend.cache import rank_caches

    ranking = rank_caches(_chip(hardware), lambda kv: rm.attention(**sizes, q=wide, kv=kv), wide, formats)
    return {
        "options": [_cached(option) for option in ranking.options],
        "choice": None if ranking.choice is None else ranking.choice.key,
        "baseline": _cached(ranking.baseline),
        "excluded": [[one.key, _reason_code(short_text(one.finding))] for one in ranking.excluded],
    }


def _cached(one: Any) -> dict[str, Any]:
    estimate = one.estimate
    return {
        "key": one.key,
        "path": one.path,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "source": estimate.source,
        "provenance": estimate.provenance or None,
        "ideal_s": one.times.ideal.time_s,
        "speedup": one.speedup_ratio,
        "memory_bytes": one.memory.total_bytes,
        "memory_saved_ratio": one.memory.saved_ratio,
        "bound": one.bound,
        "has_kernel_gap": any(finding.code == "kernel-gap" for finding in one.findings),
    }


def flash(
    hardware: str,
    sizes: Sequence[int],
    num_kv_heads: int | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Answer with one FlashAttention prediction: `sizes` are batch, heads, queries, keys, head dimension."""
    fields = dict(config or {})
    version = rm.FlashAttentionVersion(fields.pop("version", "fa2"))
    asked = rm.FlashAttentionConfig(version, **fields)
    return _flash(rm.FlashAttentionRoofline(_chip(hardware)).predict(*sizes, asked, num_kv_heads=num_kv_heads))


def flash_compare(hardware: str, sizes: Sequence[int], **options: Any) -> dict[str, Any]:
    """Answer with every version side by side: `sizes` are batch, heads, keys, head dimension."""
    compare_fa_versions = rm.compare_fa_versions(*sizes, _chip(hardware), **options)
    return {name: _flash(one) for name, one in compare_fa_versions.items()}


def flash_unfused(
    hardware: str, sizes: Sequence[int], precision: str = "FP16", kv_precision: str | None = None, causal: bool = False
) -> dict[str, Any]:
    """Answer with unfused attention: `sizes` are batch, query heads, key heads, queries, keys, head dimension."""
    attention = rm.unfused_attention(
        _chip(hardware), rm.AttentionShape(*sizes), precision, kv_precision=kv_precision, causal=causal
    )
    return {
        "time_s": attention.time_s,
        "bound": attention.bound,
        "dram_bytes": attention.dram_bytes,
        "score_matrix_bytes": attention.score_matrix_bytes,
        "provenance": attention.provenance,
        "stages": [[stage.name, stage.time_s, stage.bound] for stage in attention.stages],
    }


def _flash(found: Any) -> dict[str, Any]:
    return {
        "version": found.version.value,
        "available": found.available,
        "time_s": found.time_s,
        "bound": found.bound,
        "parts": dict(found.parts),
        "flops": found.flops,
        "padded_flops": found.padded_flops,
        "dram_bytes": found.dram_bytes,
        "compulsory_bytes": found.compulsory_bytes,
        "rate_flops_per_s": found.rate_flops_per_s,
        "intensity_flop_per_byte": found.arithmetic_intensity,
        "tile": [found.tile_rows_count, found.tile_keys_count],
        "ctas_count": found.ctas_count,
        "waves_count": found.waves_count,
        "split_count": found.split_count,
        "peak_flops_per_s": found.peak_flops_per_s,
        "compute_format": found.compute_format,
        "provenance": found.provenance,
        "model_version": found.model_version,
    }


# Tiles and sweeps ---------------------------------------------------------------------------------------------------


def tiling(hardware: str, work: Mapping[str, Any], cache: str = "cold", dynamic: bool = False) -> dict[str, Any] | None:
    """Answer with tile, grid, waves and traffic of one product; None where a GEMV kernel runs it."""
    found = rm.gemm_tiling(_operator(work), _chip(hardware), cache=cache, quantizes_activations=dynamic)
    if found is None:
        return None
    resident = found.occupancy
    return {
        "kernel_family": found.kernel_family,
        "tile": [found.tile_m, found.tile_n, found.split_count],
        "grid": [found.grid_m_count, found.grid_n_count],
        "sm_count": found.sm_count,
        "occupancy": [
            resident.block_count,
            resident.limiter,
            resident.thread_count,
            resident.registers_per_thread_count,
            resident.shared_bytes,
            resident.stage_count,
            resident.tile_k,
            resident.warp_ratio,
        ],
        "operand_bytes": found.operand_bytes,
        "output_bytes": found.output_bytes,
        "dram_bytes": found.dram_bytes,
        "operand_dram_bytes": found.operand_dram_bytes,
        "beyond_compulsory_bytes": found.beyond_compulsory_bytes,
        "requested_bytes": found.requested_bytes,
        "l2_hit_ratio": found.l2_hit_ratio,
        "waves": [found.wave_count, found.resident_wave_count, found.blocks_per_sm_ratio],
        "tail_ratio": found.tail_ratio,
        "padding_ratio": found.padding_ratio,
        "efficiency_ratio": found.efficiency_ratio,
        "time_s": found.expected_s,
        "low_s": found.low_s,
        "high_s": found.high_s,
        "bound": found.bound,
        "provenance": found.provenance,
    }


def efficiency(hardware: str, M: int, K: int, columns: Sequence[int], pair: str) -> dict[str, Any]:
    """Answer with the efficiency over N at fixed M and K."""
    weight, activation = pair.split(".")
    curve = rm.efficiency_curve(M, K, columns, _chip(hardware), a=activation, b=weight)
    return {
        "expected_ratio": curve.expected_ratio,
        "tiles": curve.tiles,
        "fixed_tile": curve.fixed_tile,
        "fixed_tile_ratio": curve.fixed_tile_ratio,
    }


def sweep(hardware: str, M: Sequence[int], N: Sequence[int], K: Sequence[int], pair: str, cache: str = "cold") -> Any:
    """Answer with the columns of a sweep over shapes in one pair of formats; a cell without a value is None."""
    from roofline_model.sweep import format_pairs

    table = rm.sweep_gemm(
        rm.GemmGrid(tuple(M), tuple(N), tuple(K), (_chip(hardware),), format_pairs([pair])), cache=cache
    )
    names = ("M", "N", "K", "flops", "bytes", "ideal_s", "bound", "expected_s", "expected_low_s", "expected_high_s",
             "binding", "provenance")  # fmt: skip
    columns = {name: [None if cell != cell else cell for cell in table[name].tolist()] for name in names}
    return {**columns, "has_reason": [bool(cell) for cell in table["reason"]]}


# Strategies, the engine and the selector of the original documents --------------------------------------------------


def strategy(hardware: str, name: str, model: str, phase: str = "decode", **arguments: Any) -> dict[str, Any]:
    """Answer with how a chip runs a named strategy, and what a pass of a model gains by it."""
    chip, shape = _chip(hardware), rm.get_model(model)
    config = rm.get_strategy(name, num_layers=shape.layer_count)
    prediction = rm.predict_model(chip, shape, phase, formats=rm.strategy_plan(config, shape), **arguments)
    step, gain = rm.expected_step(prediction, chip), rm.strategy_gain(prediction, chip)
    return {
        "paths": [
            [path.label, path.formats.label, path.kind, path.compute_format]
            for path in rm.check_strategy(config, chip).paths
        ],
        "time_s": prediction.time_s,
        "memory": _model_memory(prediction.memory),
        "expected": None if step is None else [step.time_s, step.low_s, step.high_s, step.provenance],
        "speedup": gain.speedup,
        "expected_speedup": gain.expected_speedup,
        "memory_saved_ratio": gain.memory_saved_ratio,
        "weights_saved_ratio": gain.weights_saved_ratio,
        "layer_weights_saved_ratio": gain.layer_weights_saved_ratio,
        "kv_saved_ratio": gain.kv_saved_ratio,
        "baseline_s": gain.baseline_s,
    }


def engine(hardware: str, model: Any, **arguments: Any) -> dict[str, Any]:
    """Answer with what `IntegratedQuantizationEngine` recommends."""
    found = rm.IntegratedQuantizationEngine(_chip(hardware)).recommend(model, **arguments)
    attention = found.fa_config
    return {
        "choice": found.config.strategy_name,
        "kv_format": found.config.kv_cache_precision,
        "attention": None
        if attention is None
        else [attention.version.value, attention.query_format.key, attention.cache_format.key],
        "dynamic": None if found.config.dynamic is None else found.config.dynamic.precision,
        "is_adaptive": found.config.adaptive is not None,
        "speedup": found.predicted_speedup,
        "time_us": found.predicted_time_us,
        "baseline_time_us": found.baseline_time_us,
        "memory_savings_pct": found.memory_savings_pct,
        "kv_cache_bytes": found.kv_cache_bytes,
        "confidence": found.confidence,
        "source": found.ranking.choice.estimate.source,
        "provenance": found.ranking.choice.estimate.provenance,
        "bottlenecks": {
            name: [one["bound"], one["time_us"], one["share_pct"], one["arithmetic_intensity"]]
            for name, one in found.bottleneck_analysis.items()
        },
        "options": _outcomes(found.ranking),
    }


def _outcomes(ranking: Any) -> list[dict[str, Any]]:
    """Return every strategy that was weighed, fastest first, then those that cannot run."""
    within = [(option, None) for option in ranking.options]
    missing = [(one.option, one) for one in ranking.excluded if one.option is not None]
    # The frozen order of equally fast strategies is that in which they were weighed.
    names = [ranking.baseline.key, *(name for name in _strategy_names() if name != ranking.baseline.key)]
    place = {name: at for at, name in enumerate(names)}
    weighed = sorted(within + missing, key=lambda pair: (pair[0].estimate.time_s, place.get(pair[0].key, len(place))))
    fastest_s = min(option.estimate.time_s for option in ranking.options)
    outcomes = []
    for one, exclusion in weighed:
        refused = None if exclusion is None else _strategy_exclusion(exclusion)
        if exclusion is None and one.key != ranking.choice.key:
            refused = "level" if one.estimate.time_s <= fastest_s * 1.05 else "slower"
        figures = {"time_s": one.estimate.time_s, "speedup": one.speedup_ratio, "memory_bytes": one.memory.total_bytes}
        outcomes.append({"key": one.key, **figures, "refused": refused})
    for exclusion in ranking.excluded:
        if exclusion.option is None:
            refused = _reason_code(exclusion.finding.value("error"))
            outcomes.append(
                {"key": exclusion.key, "time_s": None, "speedup": None, "memory_bytes": None, "refused": refused}
            )
    return outcomes


def _strategy_names() -> list[str]:
    return [config.name for config in rm.list_strategies(num_layers=32)]


def _strategy_exclusion(exclusion: Any) -> str:
    codes = {finding.code for finding in exclusion.findings}
    if "misses-memory-limit" in codes:
        return "limit:memory"
    return "limit:quality-unknown" if "loss-unknown" in codes else "limit:quality"


def selector(
    stats: Mapping[str, Any], context: Mapping[str, Any] | None = None, config: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Answer with the format that the adaptive selector gives an activation."""
    statistics = rm.ActivationStats(**{**stats, "shape": tuple(stats["shape"])})
    asked = rm.AdaptivePrecisionSelector(rm.AdaptiveQuantConfig(**config) if config else None)
    return {
        "choice": asked.select_precision("ffn_up", statistics, context),
        "outlier_ratio": statistics.outlier_ratio,
        "dynamic_range": statistics.dynamic_range,
    }


# Pareto searches ----------------------------------------------------------------------------------------------------


def pareto(
    hardware: str,
    model: str,
    losses: Mapping[str, Any],
    traffic: Sequence[Mapping[str, Any]] = (),
    kv_formats: Sequence[str] = (),
    is_ideal: bool = False,
    time_s: float | None = None,
    memory_bytes: float | None = None,
) -> dict[str, Any]:
    """Answer with the plan of least loss of a model within budgets, from losses of its layers."""
    shares = tuple(rm.traffic_share(**share) for share in traffic)
    problem = rm.model_problem(
        _chip(hardware), model, _losses(losses).table, traffic=shares, kv_formats=kv_formats, is_ideal=is_ideal
    )
    chosen = rm.choose_formats(problem.problem, rm.Budgets(time_s, memory_bytes))
    return {
        "fixed": [problem.problem.fixed_time_s, problem.problem.fixed_bytes],
        "pass_time_s": None if chosen.plan is None else problem.pass_time_s(problem.plan(chosen.choices)),
        **_chosen(chosen),
    }


def pareto_problem(
    groups: Mapping[str, Mapping[str, Sequence[float]]], time_s: float | None = None, memory_bytes: float | None = None
) -> dict[str, Any]:
    """Answer with choice and front of a problem given as group → format → [loss, seconds, bytes]."""
    problem = rm.ParetoProblem(
        tuple(
            rm.LayerGroup(name, tuple(rm.FormatChoice(label, *figures) for label, figures in choices.items()))
            for name, choices in groups.items()
        )
    )
    chosen, front = rm.choose_formats(problem, rm.Budgets(time_s, memory_bytes)), rm.pareto_front(problem)
    return {
        **_chosen(chosen),
        "front": [[list(point.labels), point.loss_value, point.time_s, point.memory_bytes] for point in front.points],
        "is_complete": front.is_complete,
        "least_time_s": rm.least_time_s(problem, loss_value=front.points[-1].loss_value),
    }


def _chosen(chosen: Any) -> dict[str, Any]:
    plan = chosen.plan
    return {
        "choice": chosen.choices,
        "plan": None if plan is None else [plan.loss_value, plan.time_s, plan.memory_bytes],
        "bound_value": chosen.bound_value,
        "is_optimal": chosen.is_optimal,
        "misses": [[miss.constraint, miss.least_value, miss.budget_value] for miss in chosen.misses],
        "reasons": [
            [reason.group, reason.chosen.label, reason.constraint, reason.better and reason.better.label, reason.better_time_s,
             reason.better_bytes, reason.cheaper and reason.cheaper.label]
            for reason in chosen.reasons
        ],
    }  # fmt: skip


# What is stored -----------------------------------------------------------------------------------------------------


@functools.cache
def _exported(name: str) -> Any:
    """Return the runs of an exported file: tests/frozen/runs, tests/golden or examples/runs."""
    from results.exchange.exported.load import read_exports

    places = (ROOT / "tests" / "golden" / f"{name}.json", ROOT / "examples" / "runs" / f"{name}.json")
    found = next((place for place in places if place.exists()), None)
    if found is not None:
        return read_exports(found)
    packed = Path(__file__).resolve().parent / "runs" / f"{name}.json.xz"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.json"
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        return read_exports(path)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
"""Of the databases that stay open; they go when the process ends."""


@functools.cache
def _store(name: str) -> Any:
    """Return an open database: a golden one (`store_v1`, a copy that is upgraded), or exported runs joined by `+`."""
    from results.store.store import open_store

    folder = tempfile.TemporaryDirectory()
    _FOLDERS.append(folder)
    path = Path(folder.name) / "results.db"
    golden = ROOT / "tests" / "golden" / f"{name}.sqlite"
    if golden.exists():
        shutil.copyfile(golden, path)
        return open_store(path)
    store = open_store(path)
    for part in name.split("+"):
        for one in _exported(part):
            store.add_run(
                one.run,
                one.profiles,
                one.records,
                processes=one.processes,
                canaries=one.canaries,
                noise_floors=one.noise_floors,
            )
    return store


def _run_records(store: str, run: str, op: str | None = None, sizes: str | None = None) -> tuple[Any, list[Any], Any]:
    """Return a run, its records of an operator and shape (`1x4096x4096`), and the chip that its predictions are of."""
    from roofline_model.chips.hardware import device_from_profile

    opened = _store(store)
    info = opened.resolve_run(run)
    records = list(opened.records(info.run_id, with_samples=False))
    wanted = [record for record in records if op in (None, record.case.op) and sizes in (None, record.case.shape_label)]
    hashes = [prediction.profile_hash for record in records for prediction in record.predictions]
    profile = next(filter(None, map(opened.profile, dict.fromkeys(hashes))), None)
    return (
        info,
        wanted,
        None if profile is None or "key" not in profile.profile else device_from_profile(profile.profile),
    )


def stored(
    store: str,
    hardware: str = "",
    model: str = "",
    phase: str = "",
    op: str = "",
    shape: Sequence[int] = (),
    memory_limit_bytes: float | None = None,
    max_loss_pct: float | None = None,
) -> dict[str, Any]:
    """Answer with the rankings that the stored runs together give."""
    from reports.stored import StoredQuestion, recommend_from_store

    max_loss_pct = math.inf if max_loss_pct is None else max_loss_pct  # frozen before the choice had a limit
    asked = StoredQuestion(hardware, model, phase, op, tuple(shape), memory_limit_bytes, max_loss_pct)
    recommendations = recommend_from_store(_store(store), asked)
    return {
        "rankings": [_stored_ranking(ranking) for ranking in recommendations.rankings],
        "run_count": recommendations.run_count,
        "record_count": recommendations.record_count,
        "left_out_runs": sorted(recommendations.left_out),
        "missing_count": len(recommendations.missing),
    }


def _stored_ranking(found: Any) -> dict[str, Any]:
    from reports.ranking.words import excluded_texts

    return {
        "subject": [found.subject, found.hardware_key, found.op, found.model, found.shape_label, found.phase],
        "regime": [found.cache, found.mode],
        "options": [_stored_row(row) for row in found.options],
        "choice": None if found.choice is None else found.choice.key,
        "baseline": next((row.key for row in found.options if found.is_baseline(row)), None),
        "baseline_doubts": list(found.baseline_doubts),
        "is_calibration_doubtful": bool(found.calibration_doubt),
        "excluded": sorted([label, _reason_code(reason)] for label, reason in excluded_texts(found)),
        "changes": [
            [change.label, change.before_rank, change.after_rank, change.change_ratio, change.verdict or ""]
            for change in found.changes
        ],
    }


def _stored_row(one: Any) -> dict[str, Any]:
    estimate, times, trust, memory = one.estimate, one.times, one.trust, one.memory
    return {
        "key": one.key,
        "formats": [one.weight_format, one.activation_format],
        "kernel": one.kernel,
        "method": one.method,
        "path": one.path,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "source": estimate.source,
        "expected_s": None if times.expected is None else times.expected.time_s,
        "ideal_s": None if times.ideal is None else times.ideal.time_s,
        "speedup": one.speedup_ratio,
        "speedup_interval": [trust.speedup_low_ratio, trust.speedup_high_ratio],
        "is_across_runs": trust.is_across_runs,
        "memory_bytes": None if memory is None else memory.total_bytes,
        "is_memory_measured": memory is not None and memory.is_measured,
        "memory_saved_ratio": None if memory is None else memory.saved_ratio,
        "loss_pct": one.loss.pct,
        "loss_source": one.loss.source,
        "kl_nats_per_token": one.loss.kl_nats_per_token,
        "perplexity_ratio": one.loss.perplexity_ratio,
        "top1_agreement_ratio": one.loss.top1_agreement_ratio,
        "confidence": trust.confidence,
        "doubts": sorted(trust.doubts),
        "is_stale": bool(trust.stale),
        "runs": [run.run_id for run in one.evidence],
        "process_count": sum(run.process_count for run in one.evidence) if one.is_measured else 0,
        "tokens_per_s": one.tokens_per_s,
        "has_kernel_gap": any(item.code == "kernel-gap" for item in one.findings),
        "is_over_doubt": trust.is_over_doubt,
        "interval_ratio": estimate.half_width_ratio,
    }


def run_ranking(store: str, run: str, op: str | None = None, sizes: str | None = None) -> list[dict[str, Any]]:
    """Answer with the ranking of every shape of one run, as its report and `compare` have it."""
    from reports.ranking.shape_ranking import recommend_from_run
    from reports.ranking.words import excluded_texts

    _, records, device = _run_records(store, run, op, sizes)
    return [
        {
            "subject": [
                recommendation.hardware_key,
                recommendation.op,
                recommendation.shape_label,
                recommendation.cache,
                recommendation.mode,
                recommendation.phase,
            ],
            "options": [_ranked_option(option) for option in recommendation.options],
            "choice": None
            if recommendation.choice is None
            else [
                recommendation.choice.weight_format,
                recommendation.choice.activation_format,
                recommendation.choice.kernel,
            ],
            "has_baseline": bool(recommendation.baseline_label),
            "baseline_doubts": list(recommendation.baseline_doubts),
            "excluded": sorted([name, _reason_code(reason)] for name, reason in excluded_texts(recommendation)),
        }
        for recommendation in recommend_from_run(records, device)
    ]


def _ranked_option(one: Any) -> dict[str, Any]:
    from reports.cases.rows import saved_ratio

    estimate, times = one.estimate, one.times
    return {
        "key": one.key,
        "formats": [one.weight_format, one.activation_format],
        "kernel": one.kernel,
        "method": one.method,
        "path": one.path,
        "source": estimate.source,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "interval_ratio": estimate.half_width_ratio,
        "ideal_s": None if times.ideal is None else times.ideal.time_s,
        "expected_s": None if times.expected is None else times.expected.time_s,
        "speedup": one.speedup_ratio,
        "memory_bytes": None if one.memory is None else one.memory.total_bytes,
        "memory_saved_ratio": saved_ratio(one),
        "provenance": "" if times.expected is None else times.expected.provenance,
        "doubts": list(one.trust.doubts),
        "has_kernel_gap": any(item.code == "kernel-gap" for item in one.findings),
    }


def verdict(store: str, run: str, op: str | None = None, sizes: str | None = None) -> list[dict[str, Any]]:
    """Answer with what wins every group of one run, as the terminal's table has it."""
    from results.verdicts.shape_verdict import groups, judge

    _, records, _ = _run_records(store, run, op, sizes)
    return [_verdict(judge(members)) for members in groups(records).values()]


def _verdict(found: Any) -> dict[str, Any]:
    def key(one: Any) -> str | None:
        return None if one is None else one.key

    return {
        "subject": [found.op, found.shape_label, found.cache],
        "options": [_pooled_option(option) for option in found.ranked],
        "choice": key(found.best),
        "baseline": key(found.baseline),
        "rival": key(found.rival),
        "runner_up": key(found.runner_up),
        "level_pair": None if found.level_pair is None else [key(one) for one in found.level_pair],
        "equals": sorted(key(equal) or "" for equal in found.equals),
        "is_contest": found.is_contest,
        "is_win": found.is_win,
        "predicted_speedup": found.predicted_speedup,
        "expected_speedup": found.expected_speedup,
        "measured_speedup": found.measured_speedup,
        "doubts": list(found.doubts),
        "excluded": sorted([one.case.case_key, one.status] for one in found.lost),
    }


def _pooled_option(option: Any) -> dict[str, Any]:
    from results.verdicts.shape_verdict import is_emulation, is_narrow

    measured = option.times.measured
    return {
        "key": option.key,
        "measured_s": option.times.measured_s,
        "low_s": None if measured is None else measured.low_s,
        "high_s": None if measured is None else measured.high_s,
        "time_s": option.estimate.time_s,
        "ideal_s": option.times.ideal_s,
        "expected_s": option.times.expected_s,
        "has_interval": measured is None or not measured.is_sample_range,
        "is_narrow": is_narrow(option),
        "is_emulated": is_emulation(option),
        "doubts": list(option.trust.doubts),
    }


def model_results(store: str, run: str) -> list[dict[str, Any]]:
    """Answer with the passes of the models of one run and what wins each phase."""
    from results.verdicts import model_results as module

    _, records, _ = _run_records(store, run)
    return [
        {
            "model": [found.name.model_name, found.hardware_key, found.cache, found.mode, phase.phase],
            "verdict": _verdict(phase.judged),
            "passes": [
                {
                    "label": one.label,
                    "is_baseline": one.is_baseline,
                    "measured_s": one.measured_s,
                    "ideal_speedup": one.ideal_speedup,
                    "expected_speedup": one.expected_speedup,
                    "measured_speedup": one.measured_speedup,
                    "interval_ratio": one.interval_ratio,
                    "tokens_per_s": one.tokens_per_s,
                    "expected_tokens_per_s": one.expected_tokens_per_s,
                    "parts_s": dict(one.parts_s),
                }
                for one in phase.passes
            ],
        }
        for found in module.model_results(records)
        for phase in found.phases
    ]


def diff(
    store: str,
    before: Sequence[str],
    after: Sequence[str],
    fail_on: Sequence[str] = (),
    allow: Sequence[str] = (),
    against: str | None = None,
    max_ambiguous: int | None = None,
    min_effect_ratio: float = 0.01,
) -> dict[str, Any]:
    """Answer with the verdict of every case between two sides (or a baseline found by `against`), and the exit code."""
    from results.diff.gate import gate, parse_fail_on
    from results.diff.rules import DiffRules
    from results.diff.stored_sides import baseline_side, named_side, side_of
    from results.diff.suites import compare_suites

    opened, rules = _store(store), DiffRules(min_effect_ratio, false_discovery_ratio=0.05)  # the default then
    later = side_of(opened, [opened.resolve_run(name) for name in after])
    noise = opened.noise_floors(later.runs[0].environment.class_hash)
    if against is None:
        earlier = named_side(opened, [opened.resolve_run(name) for name in before])
    else:
        earlier = baseline_side(opened, against, later, noise, rules)
    if earlier is None:
        return {"baseline": None}
    found = compare_suites(earlier, later, noise, rules, allowed=allow)
    result = gate(found, parse_fail_on(fail_on), max_ambiguous)
    return {
        "exit_code": result.exit_code,
        "failures": sorted([failure.case.case_key, failure.rule.kind] for failure in result.failures),
        "is_comparable": found.is_comparable,
        "environment": [[one.name, one.is_blocking] for one in found.environment],
        "counts": [found.unmeasured_count, found.unselected_count],
        "common_change_ratio": found.common_change_ratio,
        "smallest_step_ratio": [found.smallest_step_ratio, found.largest_smallest_step_ratio],
        "cases": [_case_diff(case) for case in found.cases],
    }


def _case_diff(one: Any) -> dict[str, Any]:
    return {
        "key": one.case_key,
        "verdict": one.verdict,
        "reason": one.reason,
        "times_s": [one.before_s, one.after_s],
        "process_counts": [one.before_process_count, one.after_process_count],
        "change_ratio": one.change_ratio,
        "interval": [one.low_ratio, one.high_ratio],
        "p_values": [one.p_value, one.adjusted_p_value],
        "floor_ratio": one.floor_ratio,
        "min_effect_ratio": one.min_effect_ratio,
        "smallest_step_ratio": one.smallest_step_ratio,
        "cycles_change_ratio": one.cycles_change_ratio,
        "metrics": [[two.group, two.name, two.change_ratio, two.verdict] for two in one.metrics],
        "flags": sorted(one.flags),
    }


def history(store: str, case: str, metric: str = "time", branch: str | None = None) -> dict[str, Any]:
    """Answer with the nights of one case in segments and levels, and the changes that were found."""
    from results.history.case_history import case_history

    found = case_history(_store(store), case, metric=metric, branch=branch)
    return {
        "case": found.case.case_key,
        "branch": found.branch,
        "segments": [
            {
                "hardware": segment.hardware_key,
                "nights": [[night.value, night.process_count, night.is_used] for night in segment.nights],
                "levels": [
                    [level.first_index, level.night_count, level.value, level.drift_value] for level in segment.levels
                ],
                "split_change_value": segment.split_change_value,
                "split_count": len(segment.split),
            }
            for segment in found.segments
        ],
        "changes": [
            {
                "kind": change.kind,
                "status": change.status,
                "values": [change.before_value, change.after_value, change.change_value],
                "runs": [change.run_id, change.found_run_id],
                "night_count": change.night_count,
                "is_confirmed": change.is_confirmed,
                "clock_ratio": change.clock_ratio,
                "changed_count": len(change.changed),
            }
            for change in found.changes
        ],
        "alert_count": len(found.alerts),
    }


def pipeline(
    baseline: Sequence[float],
    candidates: Mapping[str, Mapping[str, Any]],
    limits: Mapping[str, float] | None = None,
    baseline_memory_bytes: float = 1050.0,
    too_large: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Answer with the verdict of a pipeline.

    `baseline`: seconds of the 16-bit model per process. `candidates`: precision → `times_s`, and optionally
    `spread_ratio` (None: no interval), `held_bytes`, `loss_ratio` (of the perplexity, over 1). `too_large`: precision →
    bytes.
    """
    from bench_cases.pipeline.measure import MeasuredPair
    from bench_cases.pipeline.recommend import PipelineRecommendation, predicted_option
    from bench_cases.pipeline.records import MeasuredCase, MeasuredQuality, ProcessTime, Spread
    from bench_cases.pipeline.settings import PipelineLimits
    from bench_cases.pipeline.verdict import judge
    from roofline_model.core.answer import Estimate

    def measured(precision: str, times_s: Sequence[float], spread: float | None, held: float, quality: Any) -> Any:
        times = tuple(
            ProcessTime(
                place, time_s, *((None, None) if spread is None else (time_s * (1 - spread), time_s * (1 + spread)))
            )
            for place, time_s in enumerate(times_s, 1)
        )
        known = {"held_bytes": held, "original_bytes": 1000, "cache_bytes": 50, "peak_bytes": 10, "method": "AWQ"}
        if not times:
            return MeasuredCase(precision, "failed", "out of memory")
        return replace(MeasuredCase(precision, "measured", times=times), quality=quality, **known)

    def predicted(precision: str, memory_bytes: float) -> Any:
        expected = Estimate(0.004, 0.003, 0.005)
        known = {"ideal_s": 0.001, "expected": expected, "host_s": 0.002, "memory_bytes": memory_bytes}
        return predicted_option(precision, "AWQ", "a kernel", **known)

    def quality(loss_ratio: float | None) -> Any:
        if loss_ratio is None:
            return MeasuredQuality("none", "not asked for")
        ratio = Spread(1 + loss_ratio, 1 + 0.9 * loss_ratio, 1 + 1.1 * loss_ratio)
        return MeasuredQuality("measured", text="a text", is_language=True, tokens_count=1000, perplexity=ratio)

    base = measured("BF16", baseline, 0.01, 1000, MeasuredQuality("reference"))
    pairs = [
        MeasuredPair(
            base,
            measured(
                name,
                one["times_s"],
                one.get("spread_ratio", 0.01),
                one.get("held_bytes", 300),
                quality(one.get("loss_ratio", 0.01)),
            ),
        )
        for name, one in candidates.items()
    ]
    asked = PipelineRecommendation(
        predicted("BF16", baseline_memory_bytes),
        tuple(predicted(name, 350.0) for name in candidates),
        (),
        tuple(predicted(name, size) for name, size in (too_large or {}).items()),
    )
    found = judge(asked, pairs, PipelineLimits(**(limits or {})), "BF16")
    return {
        "outcome": found.outcome,
        "choice": None if found.winner is None else found.winner.option.key,
        "is_within_limits": found.is_within_limits,
        "baseline_misses": [
            [baseline_miss.limit, baseline_miss.excess_ratio] for baseline_miss in found.baseline_misses
        ],
        "options": [
            {
                "key": one.option.key,
                "speedup": None if one.speedup is None else one.speedup.value,
                "interval": None if one.speedup is None else [one.speedup.low_value, one.speedup.high_value],
                "process_count": None if one.speedup is None else one.speedup.processes_count,
                "is_usable": one.is_usable,
                "misses": [[miss.limit, miss.excess_ratio] for miss in one.misses],
            }
            for one in found.judged
        ],
    }


def gap(**arguments: Any) -> dict[str, Any]:
    """Answer with where a measured time went."""
    found = rm.explain_gap(**arguments)
    return {"expected_s": found.expected_s, "parts": dict(found.parts), "largest": found.largest}


# Reasons as codes (sentences of 01d84d4; delete a pattern once the code gives a finding) ----------------------------

_REASONS: tuple[tuple[str, str], ...] = (
    (r"^failed: |^failed in run ", "failed"),
    (r"^skipped: ", "skipped"),
    (r"more than the limit of|GB, the limit is|more than there is", "limit:memory"),
    (r"what it needs in memory is not known|its memory is unknown", "limit:memory-unknown"),
    (r"^loses .* the limit is|; loses .* the limit is|: above the limit of", "limit:quality"),
    (
        (
            r"its loss is (?:not known|unknown), and a limit|loss unknown: measure it|its loss is neither measured nor "
            r"claimed"
        ),
        "limit:quality-unknown",
    ),
    (r"nothing to gain", "not-narrower"),
    (r"activations would be quantised for nothing", "no-unit"),
    (r"no kernel known on|no serving engine has a kernel", "kernel-gap"),
    (r"no plan within the memory", "search-empty"),
    (r"^as fast as the fastest within", "level"),
    (r"times as long as", "slower"),
)


def _reason_code(reason: str) -> str:
    """Return the code of a sentence that says why something is not ranked; several are joined by `+`."""
    codes = dict.fromkeys(code for pattern, code in _REASONS if re.search(pattern, reason))
    return "+".join(codes) or f"unclassified: {reason}"
