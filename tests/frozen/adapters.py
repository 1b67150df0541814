"""The frozen questions' only contact with the project: one function per family, from plain arguments to a plain answer.

**How to adapt.** Whoever renames, moves or merges code edits this file to the new names and nothing else of the frozen
answers: the keyword arguments of a function are those of its questions (`frozen_catalog.py`), and what it returns is
the normalised answer, which stays as it is whatever types the code has. Both are plain numbers, text that identifies
something (keys, codes, names of parts), lists and mappings; never a sentence. An exception passes through: its class
and slug are the answer. Reasons that the code of 01d84d4 knows only as sentences are reduced to codes at the end of
this file; once the code gives findings, map their codes to those there and delete the patterns. Where a new code is
finer than an old one, map it to the old one here. Rows that the store's rankings exclude are named as 01d84d4 shows
them (`FP8 (W8A16) · dequantize`: the case's precision label and kernel; of a model its label), flags and doubts by
their stored keys. Then `python scripts/checks/freeze_answers.py compare FAMILY` says what differs.
"""

from __future__ import annotations

import functools
import json
import lzma
import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
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
    from roofline_model.chips.stored_profile import device_from_profile

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


def _ideal(prediction: Any) -> dict[str, Any]:
    return {
        "time_s": prediction.time_s,
        "memory_s": prediction.memory_time_s,
        "compute_s": prediction.compute_time_s,
        "bound": prediction.bound,
        "flops": prediction.flops,
        "read_bytes": prediction.read_bytes,
        "write_bytes": prediction.write_bytes,
        "bandwidth_bytes_per_s": prediction.bandwidth_bytes_per_s,
        "peak_flops_per_s": prediction.peak_flops_per_s,
        "compute_format": prediction.compute_format,
        "path": prediction.path,
        "memory_level": prediction.memory_level,
        "provenance": prediction.provenance,
        "model_version": prediction.model_version,
    }


def _sequence(sequence: Any) -> dict[str, Any]:
    return {
        "time_s": sequence.time_s,
        "memory_s": sequence.memory_time_s,
        "compute_s": sequence.compute_time_s,
        "bound": sequence.bound,
        "flops": sequence.flops,
        "read_bytes": sequence.read_bytes,
        "write_bytes": sequence.write_bytes,
        "path": sequence.path,
        "provenance": sequence.provenance,
        "parts": [
            [part.name, part.prediction.time_s, part.prediction.bound, part.prediction.path] for part in sequence.parts
        ],
    }


def _interval(time_s: Any, low_s: Any, high_s: Any, source: str, provenance: str) -> dict[str, Any]:
    return {"time_s": time_s, "low_s": low_s, "high_s": high_s, "source": source, "provenance": provenance}


# Ideal and expected times -------------------------------------------------------------------------------------------


def ideal(hardware: str, work: Mapping[str, Any], cache: str = "cold") -> dict[str, Any]:
    """Answer with the ideal prediction of one operator."""
    return _ideal(rm.predict(_operator(work), _chip(hardware), cache=cache))


_OPERATORS: dict[str, Callable[..., Any]] = {
    "predict_unfused_attention": lambda batch, num_heads, seq_len, head_dim: rm.unfused_attention_parts(
        batch, num_heads, num_heads, seq_len, seq_len, head_dim, q="FP16"
    ),
    "predict_projections": lambda batch, seq_len, hidden, num_heads, head_dim, num_kv_heads: rm.projections(
        batch * seq_len, hidden, num_heads, num_kv_heads, head_dim, a="FP16"
    ),
    "predict_softmax": lambda rows, width: rm.softmax(rows, width, a="FP16"),
    "predict_kv_read": lambda batch, num_kv_heads, kv_len, head_dim, kv_precision, precision: rm.kv_read(
        batch, num_kv_heads, kv_len, head_dim, kv=kv_precision, target=precision
    ),
    "predict_quantize": lambda rows, width: rm.quantize(rows, width, "FP16", "FP8_E4M3"),
}
"""Frozen call → the operator, or the kernels by name, that it predicted."""


def ideal_call(hardware: str, call: str, **arguments: Any) -> dict[str, Any]:
    """Answer with `predict_gemv`, `predict_ffn`, … of the original documents, or with the operator's prediction."""
    if call in _OPERATORS:
        work = _OPERATORS[call](**arguments)
        predicted = rm.predict_sequence if isinstance(work, dict) else rm.predict_operator
        prediction = predicted(work, _chip(hardware))
    else:
        prediction = getattr(rm, call)(_chip(hardware), **arguments)
    return _sequence(prediction) if hasattr(prediction, "parts") else _ideal(prediction)


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
        "model_version": _VERSIONS.get(prediction.model_version, prediction.model_version),
    }


_VERSIONS = {"expected-6": "expected-5"}
"""Version of the expected model → the one that was frozen; the questions whose answers it changed are listed by id."""


def expected_block(hardware: str, block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Answer with the expected time of several kernels in sequence."""
    from roofline_model.models.decoder_step import StepKernel

    kernels = [StepKernel(name, work, 1) for name, work in _parts(block).items()]
    return _expected_kernels(rm.expected_sequence(rm.expected_kernels(kernels, _chip(hardware))))


def _expected_kernels(step: Any) -> dict[str, Any] | None:
    if step is None:
        return None
    return {
        "time_s": step.time_s,
        "low_s": step.low_s,
        "high_s": step.high_s,
        "binding": step.binding,
        "provenance": step.provenance,
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
            for kernel in step.kernels
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
    excluded = [exclusion for exclusion in ranking.excluded if exclusion.option is not ranking.nearest]
    return {
        "phase": ranking.question.phase,
        "options": [_option(option) for option in options],
        "choice": ranking.precision,
        "fits": ranking.choice is not None,
        "baseline": _option(ranking.baseline),
        "excluded": [
            [exclusion.key, _EXCLUSIONS[exclusion.finding.code]]
            for exclusion in sorted(excluded, key=_as_asked(ranking.baseline, formats))
        ],
    }


def _as_asked(baseline: Any, formats: Sequence[str] | None) -> Any:
    """Return a key that sorts exclusions as they were frozen: formats never weighed, then the others as they were
    named.
    """
    from roofline_model.recommend.options import DEFAULT_FORMATS

    named = [rm.get_format(name).key for name in formats or DEFAULT_FORMATS]
    order = [baseline.key, *(key for key in dict.fromkeys(named) if key != baseline.key)]
    return lambda exclusion: (exclusion.option is not None, order.index(exclusion.key))


_EXCLUSIONS = {"not-narrower": "not-narrower", "misses-memory-limit": "limit:memory"}


def _option(option: Any) -> dict[str, Any]:
    formats, estimate = dict(option.formats), option.estimate
    codes = {finding.code for finding in option.findings}
    return {
        "key": option.key,
        "weight_format": formats["b"],
        "activation_format": formats["a"],
        "method": option.method,
        "path": option.path,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "source": estimate.source,
        "provenance": estimate.provenance,
        "ideal_s": option.times.ideal.time_s,
        "speedup": option.speedup_ratio,
        "ideal_speedup": option.ideal_speedup_ratio,
        "memory_bytes": option.memory.total_bytes,
        "memory_saved_ratio": option.memory.saved_ratio,
        "bound": option.bound,
        "loss_pct": option.loss.pct,
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
    ranking = rm.recommend_model(_chip(hardware), model, **arguments)
    return {
        "wide": ranking.wide,
        "options": [_plan(option, ranking.baseline) for option in ranking.options],
        "choice": None if ranking.choice is None else ranking.choice.key,
        "baseline": _baseline_plan(ranking.baseline),
        "is_baseline_fitting": ranking.limits.memory_bytes is None
        or ranking.baseline.memory.total_bytes <= ranking.limits.memory_bytes,
        "alternatives": [[each.role, each.option.key, each.slowdown_ratio] for each in ranking.alternatives],
        "excluded": [
            [exclusion.key, _plan_exclusion(exclusion), _excess_ratio(exclusion)] for exclusion in ranking.excluded
        ],
        "searches": [[search.label, search.choice.choices, search.passes_count] for search in ranking.searches],
        "front": [[point.loss_value, point.time_s, point.memory_bytes] for point in ranking.front],
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


def _plan(option: Any, baseline: Any) -> dict[str, Any]:
    from roofline_model.core.answer import is_comparable

    estimate, codes = option.estimate, {finding.code for finding in option.findings}
    return {
        "key": option.key,
        "kind": option.kind,
        "aliases": sorted(option.aliases),
        "method": option.method,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "source": estimate.source,
        "provenance": estimate.provenance,
        "ideal_s": option.times.ideal.time_s,
        "tokens_per_s": option.tokens_per_s,
        "speedup": option.speedup_ratio,
        "ideal_speedup": option.ideal_speedup_ratio,
        "memory_bytes": option.memory.total_bytes,
        "loss_pct": option.loss.pct,
        "loss_value": option.loss.value,
        "loss_at_least_pct": option.loss.at_least_pct,
        "loss_source": option.loss.source,
        "bound": option.bound,
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


def _plan_exclusion(exclusion: Any) -> str:
    limits = [_LIMITS[finding.code] for finding in exclusion.findings if finding.code in _LIMITS]
    if limits:
        return "limit:" + "+".join(sorted(limits, key=list(_LIMITS.values()).index))
    return _CANNOT.get(exclusion.finding.code) or f"unclassified: {exclusion.finding}"


def _excess_ratio(exclusion: Any) -> float | None:
    from roofline_model.recommend.ranking import excess_ratio

    return excess_ratio(exclusion.finding) if exclusion.finding.code in _LIMITS else None


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
        "excluded": [[exclusion.key, _reason_code(short_text(exclusion.finding))] for exclusion in ranking.excluded],
    }


def _cached(option: Any) -> dict[str, Any]:
    estimate = option.estimate
    return {
        "key": option.key,
        "path": option.path,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "source": estimate.source,
        "provenance": estimate.provenance or None,
        "ideal_s": option.times.ideal.time_s,
        "speedup": option.speedup_ratio,
        "memory_bytes": option.memory.total_bytes,
        "memory_saved_ratio": option.memory.saved_ratio,
        "bound": option.bound,
        "has_kernel_gap": any(finding.code == "kernel-gap" for finding in option.findings),
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
    call_config = rm.FlashAttentionConfig(version, **fields)
    return _flash(rm.FlashAttentionRoofline(_chip(hardware)).predict(*sizes, call_config, num_kv_heads=num_kv_heads))


def flash_compare(hardware: str, sizes: Sequence[int], **options: Any) -> dict[str, Any]:
    """Answer with every version side by side: `sizes` are batch, heads, keys, head dimension."""
    compare_fa_versions = rm.compare_fa_versions(*sizes, _chip(hardware), **options)
    return {name: _flash(prediction) for name, prediction in compare_fa_versions.items()}


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


def _flash(prediction: Any) -> dict[str, Any]:
    return {
        "version": prediction.version.value,
        "available": prediction.available,
        "time_s": prediction.time_s,
        "bound": prediction.bound,
        "parts": dict(prediction.parts),
        "flops": prediction.flops,
        "padded_flops": prediction.padded_flops,
        "dram_bytes": prediction.dram_bytes,
        "compulsory_bytes": prediction.compulsory_bytes,
        "rate_flops_per_s": prediction.rate_flops_per_s,
        "intensity_flop_per_byte": prediction.arithmetic_intensity,
        "tile": [prediction.tile_rows_count, prediction.tile_keys_count],
        "ctas_count": prediction.ctas_count,
        "waves_count": prediction.waves_count,
        "split_count": prediction.split_count,
        "peak_flops_per_s": prediction.peak_flops_per_s,
        "compute_format": prediction.compute_format,
        "provenance": prediction.provenance,
        "model_version": prediction.model_version,
    }


# Tiles and sweeps ---------------------------------------------------------------------------------------------------


def tiling(hardware: str, work: Mapping[str, Any], cache: str = "cold", dynamic: bool = False) -> dict[str, Any] | None:
    """Answer with tile, grid, waves and traffic of one product; None where a GEMV kernel runs it."""
    gemm_plan = rm.gemm_tiling(_operator(work), _chip(hardware), cache=cache, quantizes_activations=dynamic)
    if gemm_plan is None:
        return None
    resident = gemm_plan.occupancy
    return {
        "kernel_family": gemm_plan.kernel_family,
        "tile": [gemm_plan.tile_m, gemm_plan.tile_n, gemm_plan.split_count],
        "grid": [gemm_plan.grid_m_count, gemm_plan.grid_n_count],
        "sm_count": gemm_plan.sm_count,
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
        "operand_bytes": gemm_plan.operand_bytes,
        "output_bytes": gemm_plan.output_bytes,
        "dram_bytes": gemm_plan.dram_bytes,
        "operand_dram_bytes": gemm_plan.operand_dram_bytes,
        "beyond_compulsory_bytes": gemm_plan.beyond_compulsory_bytes,
        "requested_bytes": gemm_plan.requested_bytes,
        "l2_hit_ratio": gemm_plan.l2_hit_ratio,
        "waves": [gemm_plan.wave_count, gemm_plan.resident_wave_count, gemm_plan.blocks_per_sm_ratio],
        "tail_ratio": gemm_plan.tail_ratio,
        "padding_ratio": gemm_plan.padding_ratio,
        "efficiency_ratio": gemm_plan.efficiency_ratio,
        "time_s": gemm_plan.expected_s,
        "low_s": gemm_plan.low_s,
        "high_s": gemm_plan.high_s,
        "bound": gemm_plan.bound,
        "provenance": gemm_plan.provenance,
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
    ranking = rm.IntegratedQuantizationEngine(_chip(hardware)).recommend(model, **arguments)
    attention = ranking.fa_config
    return {
        "choice": ranking.config.strategy_name,
        "kv_format": ranking.config.kv_cache_precision,
        "attention": None
        if attention is None
        else [attention.version.value, attention.query_format.key, attention.cache_format.key],
        "dynamic": None if ranking.config.dynamic is None else ranking.config.dynamic.precision,
        "is_adaptive": ranking.config.adaptive is not None,
        "speedup": ranking.predicted_speedup,
        "time_us": ranking.predicted_time_us,
        "baseline_time_us": ranking.baseline_time_us,
        "memory_savings_pct": ranking.memory_savings_pct,
        "kv_cache_bytes": ranking.kv_cache_bytes,
        "confidence": ranking.confidence,
        "source": ranking.ranking.choice.estimate.source,
        "provenance": ranking.ranking.choice.estimate.provenance,
        "bottlenecks": {
            name: [share["bound"], share["time_us"], share["share_pct"], share["arithmetic_intensity"]]
            for name, share in ranking.bottleneck_analysis.items()
        },
        "options": _outcomes(ranking.ranking),
    }


def _outcomes(ranking: Any) -> list[dict[str, Any]]:
    """Return every strategy that was weighed, fastest first, then those that cannot run."""
    within = [(option, None) for option in ranking.options]
    missing = [(exclusion.option, exclusion) for exclusion in ranking.excluded if exclusion.option is not None]
    # The frozen order of equally fast strategies is that in which they were weighed.
    names = [ranking.baseline.key, *(name for name in _strategy_names() if name != ranking.baseline.key)]
    place = {name: at for at, name in enumerate(names)}
    weighed = sorted(within + missing, key=lambda pair: (pair[0].estimate.time_s, place.get(pair[0].key, len(place))))
    fastest_s = min(option.estimate.time_s for option in ranking.options)
    outcomes = []
    for excluded_option, exclusion in weighed:
        refused = None if exclusion is None else _strategy_exclusion(exclusion)
        if exclusion is None and excluded_option.key != ranking.choice.key:
            refused = "level" if excluded_option.estimate.time_s <= fastest_s * 1.05 else "slower"
        figures = {
            "time_s": excluded_option.estimate.time_s,
            "speedup": excluded_option.speedup_ratio,
            "memory_bytes": excluded_option.memory.total_bytes,
        }
        outcomes.append({"key": excluded_option.key, **figures, "refused": refused})
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
    chooser = rm.AdaptivePrecisionSelector(rm.AdaptiveQuantConfig(**config) if config else None)
    return {
        "choice": chooser.select_precision("ffn_up", statistics, context),
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
    """Return the runs of an exported file: tests/frozen/runs or examples/runs."""
    from results.exchange.exported.load import read_exports

    example = ROOT / "examples" / "runs" / f"{name}.json"
    if example.exists():
        return read_exports(example)
    packed = Path(__file__).resolve().parent / "runs" / f"{name}.json.xz"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.json"
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        return read_exports(path)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
"""Of the databases that stay open; they go when the process ends."""


@functools.cache
def _store(name: str) -> Any:
    """Return an open database of exported runs, their names joined by `+`."""
    from results.store.store import open_store

    folder = tempfile.TemporaryDirectory()
    _FOLDERS.append(folder)
    store = open_store(Path(folder.name) / "results.db")
    for part in name.split("+"):
        for calibration in _exported(part):
            store.add_run(
                calibration.run,
                calibration.profiles,
                calibration.records,
                processes=calibration.processes,
                canaries=calibration.canaries,
                noise_floors=calibration.noise_floors,
            )
    return store


def _run_records(store: str, run: str, op: str | None = None, sizes: str | None = None) -> tuple[Any, list[Any], Any]:
    """Return a run, its records of an operator and shape (`1x4096x4096`), and the chip that its predictions are of."""
    from roofline_model.chips.stored_profile import device_from_profile

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
    question = StoredQuestion(hardware, model, phase, op, tuple(shape), memory_limit_bytes, max_loss_pct)
    recommendations = recommend_from_store(_store(store), question)
    return {
        "rankings": [_stored_ranking(ranking) for ranking in recommendations.rankings],
        "run_count": recommendations.run_count,
        "record_count": recommendations.record_count,
        "left_out_runs": sorted(recommendations.left_out),
        "missing_count": len(recommendations.missing),
    }


def _stored_ranking(ranking: Any) -> dict[str, Any]:
    from reports.ranking.words import excluded_texts
    from results.verdicts.gain import doubts_to_mend
    from roofline_model.operators.case import pass_name

    return {
        "subject": [
            ranking.question.subject,
            ranking.question.hardware,
            ranking.question.op,
            "" if (name := pass_name(ranking.question.op, ranking.question.sizes)) is None else name.model_name,
            ranking.question.shape_label,
            ranking.question.phase,
        ],
        "regime": [ranking.question.cache, ranking.question.mode],
        "options": [_stored_row(row) for row in ranking.options],
        "choice": None if ranking.choice is None else ranking.choice.key,
        "baseline": next((row.key for row in ranking.options if ranking.is_baseline(row)), None),
        "baseline_doubts": list(doubts_to_mend(ranking.baseline)),
        "is_calibration_doubtful": bool(ranking.calibration_doubt),
        "excluded": sorted([label, _reason_code(reason)] for label, reason in excluded_texts(ranking)),
        "changes": [
            [change.label, change.before_rank, change.after_rank, change.change_ratio, change.verdict or ""]
            for change in ranking.changes
        ],
    }


def _stored_row(option: Any) -> dict[str, Any]:
    estimate, times, trust, memory = option.estimate, option.times, option.trust, option.memory
    return {
        "key": option.key,
        "formats": [option.weight_format, option.activation_format],
        "kernel": option.kernel,
        "method": option.method,
        "path": option.path,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "source": estimate.source,
        "expected_s": None if times.expected is None else times.expected.time_s,
        "ideal_s": None if times.ideal is None else times.ideal.time_s,
        "speedup": option.speedup_ratio,
        "speedup_interval": [trust.speedup_low_ratio, trust.speedup_high_ratio],
        "is_across_runs": trust.is_across_runs,
        "memory_bytes": None if memory is None else memory.total_bytes,
        "is_memory_measured": memory is not None and memory.is_measured,
        "memory_saved_ratio": None if memory is None else memory.saved_ratio,
        "loss_pct": option.loss.pct,
        "loss_source": option.loss.source,
        "kl_nats_per_token": option.loss.kl_nats_per_token,
        "perplexity_ratio": option.loss.perplexity_ratio,
        "top1_agreement_ratio": option.loss.top1_agreement_ratio,
        "confidence": trust.confidence,
        "doubts": sorted(trust.doubts),
        "is_stale": bool(trust.stale),
        "runs": [run.run_id for run in option.evidence],
        "process_count": sum(run.process_count for run in option.evidence) if option.is_measured else 0,
        "tokens_per_s": option.tokens_per_s,
        "has_kernel_gap": any(item.code == "kernel-gap" for item in option.findings),
        "is_over_doubt": trust.is_over_doubt,
        "interval_ratio": estimate.half_width_ratio,
    }


def run_ranking(store: str, run: str, op: str | None = None, sizes: str | None = None) -> list[dict[str, Any]]:
    """Answer with the ranking of every shape of one run, as its report and `compare` have it."""
    from reports.ranking.shape_ranking import recommend_from_run
    from reports.ranking.words import excluded_texts
    from results.cases.case_result import case_results
    from results.verdicts.gain import doubts_to_mend

    _, records, device = _run_records(store, run, op, sizes)
    return [
        {
            "subject": [
                recommendation.question.hardware,
                recommendation.question.op,
                recommendation.question.shape_label,
                recommendation.question.cache,
                recommendation.question.mode,
                recommendation.question.phase,
            ],
            "options": [_ranked_option(option) for option in recommendation.options],
            "choice": _first_of_run(recommendation),
            "has_baseline": bool(recommendation.baseline_label),
            "baseline_doubts": list(doubts_to_mend(recommendation.baseline)),
            "excluded": sorted([name, _reason_code(reason)] for name, reason in excluded_texts(recommendation)),
        }
        for recommendation in recommend_from_run(case_results(records), device)
    ]


def _first_of_run(recommendation: Any) -> list[Any] | None:
    """Return what stands first and a kernel runs: frozen before the choice had a limit."""
    first = recommendation.first
    if first is None or recommendation.gap is not None or first not in recommendation.runnable:
        return None
    return [first.weight_format, first.activation_format, first.kernel]


def _ranked_option(option: Any) -> dict[str, Any]:
    from results.cases.saved_bytes import saved_ratio

    estimate, times = option.estimate, option.times
    return {
        "key": option.key,
        "formats": [option.weight_format, option.activation_format],
        "kernel": option.kernel,
        "method": option.method,
        "path": option.path,
        "source": estimate.source,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "interval_ratio": estimate.half_width_ratio,
        "ideal_s": None if times.ideal is None else times.ideal.time_s,
        "expected_s": None if times.expected is None else times.expected.time_s,
        "speedup": option.speedup_ratio,
        "memory_bytes": None if option.memory is None else option.memory.total_bytes,
        "memory_saved_ratio": saved_ratio(option),
        "provenance": "" if times.expected is None else times.expected.provenance,
        "doubts": list(option.trust.doubts),
        "has_kernel_gap": any(item.code == "kernel-gap" for item in option.findings),
    }


def verdict(store: str, run: str, op: str | None = None, sizes: str | None = None) -> list[dict[str, Any]]:
    """Answer with what wins every group of one run, as the terminal's table has it."""
    from results.cases.case_result import case_results
    from results.verdicts.shape_verdict import groups, judge

    _, records, _ = _run_records(store, run, op, sizes)
    return [_verdict(judge(members)) for members in groups(case_results(records)).values()]


def _verdict(verdict: Any) -> dict[str, Any]:
    def key(option: Any) -> str | None:
        return None if option is None else option.key

    return {
        "subject": [verdict.op, verdict.shape_label, verdict.cache],
        "options": [_pooled_option(option) for option in verdict.ranked],
        "choice": key(verdict.best),
        "baseline": key(verdict.baseline),
        "rival": key(verdict.rival),
        "runner_up": key(verdict.runner_up),
        "level_pair": None if verdict.level_pair is None else [key(side) for side in verdict.level_pair],
        "equals": sorted(key(equal) or "" for equal in verdict.equals),
        "is_contest": verdict.is_contest,
        "is_win": verdict.is_win,
        "predicted_speedup": verdict.predicted_speedup,
        "expected_speedup": verdict.expected_speedup,
        "measured_speedup": verdict.measured_speedup,
        "doubts": list(verdict.doubts),
        "excluded": sorted([record.case.case_key, record.status] for record in verdict.lost),
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
    from results.cases.case_result import case_results
    from results.verdicts import model_results as module

    _, records, _ = _run_records(store, run)
    return [
        {
            "model": [result.name.model_name, result.hardware_key, result.cache, result.mode, phase.phase],
            "verdict": _verdict(phase.judged),
            "passes": [
                {
                    "label": step.label,
                    "is_baseline": step.is_baseline,
                    "measured_s": step.measured_s,
                    "ideal_speedup": step.ideal_speedup,
                    "expected_speedup": step.expected_speedup,
                    "measured_speedup": step.measured_speedup,
                    "interval_ratio": step.interval_ratio,
                    "tokens_per_s": step.tokens_per_s,
                    "expected_tokens_per_s": step.expected_tokens_per_s,
                    "parts_s": dict(step.parts_s),
                }
                for step in phase.passes
            ],
        }
        for result in module.model_results(case_results(records))
        for phase in result.phases
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
    comparison = compare_suites(earlier, later, noise, rules, allowed=allow)
    result = gate(comparison, parse_fail_on(fail_on), max_ambiguous)
    return {
        "exit_code": result.exit_code,
        "failures": sorted([failure.case.case_key, failure.rule.kind] for failure in result.failures),
        "is_comparable": comparison.is_comparable,
        "environment": [[difference.name, difference.is_blocking] for difference in comparison.environment],
        "counts": [comparison.unmeasured_count, comparison.unselected_count],
        "common_change_ratio": comparison.common_change_ratio,
        "smallest_step_ratio": [comparison.smallest_step_ratio, comparison.largest_smallest_step_ratio],
        "cases": [_case_diff(case) for case in comparison.cases],
    }


def _case_diff(case: Any) -> dict[str, Any]:
    return {
        "key": case.case_key,
        "verdict": case.verdict,
        "reason": case.reason,
        "times_s": [case.before_s, case.after_s],
        "process_counts": [case.before_process_count, case.after_process_count],
        "change_ratio": case.change_ratio,
        "interval": [case.low_ratio, case.high_ratio],
        "p_values": [case.p_value, case.adjusted_p_value],
        "floor_ratio": case.floor_ratio,
        "min_effect_ratio": case.min_effect_ratio,
        "smallest_step_ratio": case.smallest_step_ratio,
        "cycles_change_ratio": case.cycles_change_ratio,
        "metrics": [[two.group, two.name, two.change_ratio, two.verdict] for two in case.metrics],
        "flags": sorted(case.flags),
    }


def history(store: str, case: str, metric: str = "time", branch: str | None = None) -> dict[str, Any]:
    """Answer with the nights of one case in segments and levels, and the changes that were found."""
    from results.history.case_history import case_history

    case_points = case_history(_store(store), case, metric=metric, branch=branch)
    return {
        "case": case_points.case.case_key,
        "branch": case_points.branch,
        "segments": [
            {
                "hardware": segment.hardware_key,
                "nights": [[point.value, point.process_count, point.is_used] for point in segment.nights],
                "levels": [
                    [level.first_index, level.night_count, level.value, level.drift_value] for level in segment.levels
                ],
                "split_change_value": segment.split_change_value,
                "split_count": len(segment.split),
            }
            for segment in case_points.segments
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
            for change in case_points.changes
        ],
        "alert_count": len(case_points.alerts),
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
    from pipeline_runs import BASELINE
    from pipeline_runs import measured as measured_case

    from bench_cases.pipeline.measure import MeasuredPair
    from bench_cases.pipeline.recommend import PipelineRecommendation, predicted_option
    from bench_cases.pipeline.settings import PipelineLimits
    from bench_cases.pipeline.verdict import judge
    from roofline_model.core.answer import Estimate

    def measured(precision: str, times_s: Sequence[float], spread: float | None, **given: Any) -> Any:
        if not times_s:
            return measured_case(precision, reason="out of memory")
        return measured_case(precision, *times_s, spread=spread, method="AWQ", **given)

    def predicted(precision: str, memory_bytes: float) -> Any:
        expected = Estimate(0.004, 0.003, 0.005)
        figures = {"ideal_s": 0.001, "expected": expected, "host_s": 0.002, "memory_bytes": memory_bytes}
        return predicted_option(precision, "AWQ", "a kernel", **figures)

    def quality(loss_ratio: float | None) -> dict[str, Any]:
        if loss_ratio is None:
            return {"source": "none", "reason": "not asked for"}
        ends = (1 + loss_ratio, 1 + 0.9 * loss_ratio, 1 + 1.1 * loss_ratio)
        ratio = dict(zip(("value", "low", "high"), ends, strict=True))
        return {"source": "measured", "text": "a text", "is_language": True, "perplexity_ratio": ratio}

    base = measured("BF16", baseline, 0.01, **{name: BASELINE[name] for name in ("held_bytes", "quality")})
    pairs = [
        MeasuredPair(
            base,
            measured(
                name,
                figures["times_s"],
                figures.get("spread_ratio", 0.01),
                held_bytes=figures.get("held_bytes", 300),
                quality=quality(figures.get("loss_ratio", 0.01)),
            ),
        )
        for name, figures in candidates.items()
    ]
    question = PipelineRecommendation(
        predicted("BF16", baseline_memory_bytes),
        tuple(predicted(name, 350.0) for name in candidates),
        (),
        tuple(predicted(name, size) for name, size in (too_large or {}).items()),
    )
    verdict = judge(question, pairs, PipelineLimits(**(limits or {})))
    return {
        "outcome": verdict.outcome,
        "choice": None if verdict.winner is None else verdict.winner.option.key,
        "is_within_limits": verdict.is_within_limits,
        "baseline_misses": [
            [baseline_miss.limit, baseline_miss.excess_ratio] for baseline_miss in verdict.baseline_misses
        ],
        "options": [
            {
                "key": judged.option.key,
                "speedup": None if judged.speedup is None else judged.speedup.value,
                "interval": None if judged.speedup is None else [judged.speedup.low_value, judged.speedup.high_value],
                "process_count": None if judged.speedup is None else judged.speedup.processes_count,
                "is_usable": judged.is_usable,
                "misses": [[miss.limit, miss.excess_ratio] for miss in judged.misses],
            }
            for judged in verdict.judged
        ],
    }


def gap(**arguments: Any) -> dict[str, Any]:
    """Answer with where a measured time went."""
    explained = rm.explain_gap(**arguments)
    return {"expected_s": explained.expected_s, "parts": dict(explained.parts), "largest": explained.largest}


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
