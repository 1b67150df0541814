"""The frozen questions' only contact with the project: one function per family, from plain arguments to a plain answer.

**How to adapt.** Whoever renames, moves or merges code edits this file to the new names and nothing else of the frozen
answers: the keyword arguments of a function are those of its questions (`frozen_catalog.py`), and what it returns is the
normalised answer, which stays as it is whatever types the code has. Both are plain numbers, text that identifies something
(keys, codes, names of parts), lists and mappings; never a sentence. An exception passes through: its class and slug are the
answer. Reasons that the code of 01d84d4 knows only as sentences are reduced to codes at the end of this file; once the code
gives findings, map their codes to those there and delete the patterns. Where a new code is finer than an old one, map it to
the old one here. Then `python scripts/freeze_answers.py compare FAMILY` says what differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import roofline_model as rm

ROOT = Path(__file__).resolve().parents[2]

# Shared -------------------------------------------------------------------------------------------------------------


@cache
def _chip(name: str) -> Any:
    """Return a chip by key, or `run:FOLDER/FILE`, the calibrated machine of a run under examples/runs."""
    if not name.startswith("run:"):
        return rm.get_hardware(name)
    from roofline_model.device_profile import device_from_profile

    text = (ROOT / "examples" / "runs" / f"{name.removeprefix('run:')}.json").read_text(encoding="utf-8")
    return device_from_profile(json.loads(text)["profiles"][0]["profile"])


def _operator(work: Mapping[str, Any]) -> Any:
    """Return the operator of `{op: gemm, M: …, a: …}`: `op` names the function, the rest are its arguments."""
    arguments = dict(work)
    name = arguments.pop("op")
    if name == "experts":
        from roofline_model.decoder.model_shapes import Experts
        from roofline_model.ops.expert_ops import expert_product

        count, active = arguments.pop("expert_count"), arguments.pop("active_count")
        return expert_product(experts=Experts(count, active, arguments["N"]), **arguments)
    if name == "combine_experts":
        from roofline_model.ops.expert_ops import combine_experts

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
    found = rm.predict_expected(operator, chip, cache=cache, dynamic_activation_quantization=dynamic, kernel=kernel)
    if found is None:
        return {"expected": None, "has_reason": bool(rm.why_no_expected(operator, chip, cache=cache))}
    return {
        "time_s": found.time_s,
        "low_s": found.low_s,
        "high_s": found.high_s,
        "parts": dict(found.parts),
        "terms": dict(found.terms),
        "binding": found.binding,
        "kernel": found.kernel,
        "provenance": found.provenance,
        "model_version": found.model_version,
    }


def expected_block(hardware: str, block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Answer with the expected time of several kernels in sequence."""
    from roofline_model.decoder.decoder_step import StepKernel

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
                one.kernel.name,
                one.kernel.calls_count,
                one.time_s,
                one.low_s,
                one.high_s,
                one.binding,
                one.provenance,
            ]
            for one in found.kernels
        ],
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
    found = rm.recommend_quantization(
        chip,
        M,
        N,
        K,
        phase,
        memory_limit_gb,
        model_parameters=model_parameters,
        formats=formats,
        times=rm.expected_times(chip) if times == "expected" else None,
    )
    options = found.options or (found.nearest,)
    excluded = [one for one in found.excluded if one.option is not found.nearest]
    return {
        "phase": found.question.phase,
        "options": [_option(one) for one in options],
        "choice": found.precision,
        "fits": found.choice is not None,
        "baseline": _option(found.baseline),
        "excluded": [
            [one.key, _EXCLUSIONS[one.finding.code]] for one in sorted(excluded, key=_as_asked(found.baseline, formats))
        ],
    }


def _as_asked(baseline: Any, formats: Sequence[str] | None) -> Any:
    """Return a key that sorts exclusions as they were frozen: formats never weighed, then the others as they were named."""
    from roofline_model.recommend.options import DEFAULT_FORMATS

    named = [rm.get_format(name).key for name in formats or DEFAULT_FORMATS]
    order = [baseline.key, *(key for key in dict.fromkeys(named) if key != baseline.key)]
    return lambda one: (one.option is not None, order.index(one.key))


_EXCLUSIONS = {"not-narrower": "not-narrower", "misses-memory-limit": "limit:memory"}


def _option(one: Any) -> dict[str, Any]:
    formats, estimate = dict(one.formats), one.estimate
    codes = {found.code for found in one.findings}
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
    found = rm.predict_model(
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
    step = rm.expected_step(found, chip)
    better = _expected_kernels(step)
    if better is not None and step is not None:
        better["all_reduce_s"], better["stream_time_s"] = step.all_reduce_s, step.stream_time_s
    return {
        "time_s": found.time_s,
        "graph_time_s": found.graph_time_s,
        "stream_time_s": found.stream_time_s,
        "tokens_per_s": found.tokens_per_s,
        "flops": found.flops,
        "moved_bytes": found.moved_bytes,
        "bound": found.bound,
        "provenance": found.provenance,
        "launch_count": found.launch_count,
        "all_reduce_s": found.all_reduce_s,
        "kv_crossover_tokens": found.kv_crossover_tokens,
        "memory": _model_memory(found.memory),
        "kernels": [
            [one.kernel.name, one.kernel.calls_count, one.prediction.time_s, one.prediction.bound, one.prediction.path]
            for one in found.kernels
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
        "options": [_plan(one, found.baseline) for one in found.options],
        "choice": None if found.choice is None else found.choice.key,
        "baseline": _baseline_plan(found.baseline),
        "is_baseline_fitting": found.limits.memory_bytes is None
        or found.baseline.memory.total_bytes <= found.limits.memory_bytes,
        "lower_loss_alternative": next(
            ([one.option.key, one.max_loss_pct, one.slowdown_ratio] for one in found.alternatives), None
        ),
        "excluded": [[one.key, _plan_exclusion(one), _excess_ratio(one)] for one in found.excluded],
        "searches": [[one.label, one.choice.choices, one.passes_count] for one in found.searches],
        "front": [[one.loss_value, one.time_s, one.memory_bytes] for one in found.front],
    }


def _baseline_plan(baseline: Any) -> dict[str, Any]:
    """Return the baseline as 01d84d4 had it: priced before a search could turn out to be nothing else, so without its name."""
    plan = _plan(baseline, baseline)
    return {**plan, "aliases": [name for name in plan["aliases"] if not name.startswith("pareto-")]}


def _losses(losses: Mapping[str, Any]) -> Any:
    """Return measured losses from the fields of a losses file."""
    fields = dict(losses)
    values = {(name, label): loss for name, row in fields.pop("losses").items() for label, loss in row.items()}
    return rm.MeasuredLosses(values, **fields)


def _plan(one: Any, baseline: Any) -> dict[str, Any]:
    from roofline_model.core.answer import is_comparable

    estimate, codes = one.estimate, {found.code for found in one.findings}
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
    limits = [_LIMITS[found.code] for found in one.findings if found.code in _LIMITS]
    if limits:
        return "limit:" + "+".join(sorted(limits, key=list(_LIMITS.values()).index))
    return _CANNOT.get(one.finding.code) or f"unclassified: {one.finding}"


def _excess_ratio(one: Any) -> float | None:
    from roofline_model.recommend.ranking import excess_ratio

    return excess_ratio(one.finding) if one.finding.code in _LIMITS else None
