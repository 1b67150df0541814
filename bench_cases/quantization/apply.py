"""Applies a precision or a per-layer plan to a model with torchao, wholly or not at all."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import environ
from typing import Any

import torch
from torch import nn

from bench_cases.quantization.calibrated import (
    collect_if_needed,
    method_of,
    parse_method,
    quantize_stand_ins,
)
from bench_cases.quantization.calibration_data import Batch, LayerInputs
from bench_cases.quantization.config_builders import BuildOptions
from bench_cases.quantization.held_bytes import held_bytes, model_bytes
from bench_cases.quantization.plans.layer_plan import (
    LayerDecision,
    PlanRules,
    decide_layers,
    refuse_fallbacks,
    with_finding,
)
from bench_cases.quantization.plans.layer_report import ROUND_TO_NEAREST, LayerOutcome, QuantizationResult
from bench_cases.quantization.plans.plans import ALL_OTHERS, check_model_and_plan, resolve_plan
from bench_cases.quantization.plans.precisions import parse_precision
from bench_cases.quantization.saved.staging import hand_over, quantized_weight
from bench_cases.quantization.survey import LinearSite, find_non_finite, survey_linears
from bench_cases.quantization.target import Target, read_target
from bench_cases.quantization.torchao_configs import DEFAULT_GROUP_ELEMS
from bench_cases.quantization.torchao_library import has_torchao, load_torchao
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import get_format


def apply_quantization(
    model: nn.Module,
    precision: str,
    group_size: int = DEFAULT_GROUP_ELEMS,
    *,
    strict: bool = False,
    exclude: Sequence[str] = (),
    untie: bool = False,
    method: str = ROUND_TO_NEAREST,
    calibration: Iterable[Batch] | None = None,
    compile: bool = False,
    targets: Mapping[str, Target] | None = None,
) -> QuantizationResult | bool:
    """Quantise every Linear of a model in place; return what each became, or False when torchao is not installed.

    precision: see `precisions` (`INT4`, `INT8`, `INT8.INT8`, `FP8`, `NVFP4`, …). What a device or a shape cannot take
    falls back, with the reason in the layer's outcome; with `strict` it is an `UnsupportedError` instead. So does a
    layer that torchao fails on, whose product then fails or is not finite, or whose decoded weight is another one (see
    `trial`). exclude: layer names, `re:` patterns or roles to leave alone. untie: quantise a copy of a weight that the
    embedding shares. method: `round-to-nearest`, `HQQ`, or `AWQ` with `calibration` batches. compile: `model.compile()`
    afterwards. targets: device descriptions by device type, where this machine's must not be read.

    The model changes as a whole at the end or, on any error, not at all. Raises `InvalidValueError` (NaN weights, group
    size, plan keys), `UnsupportedError` (no Linear, strict, no compiler), `UnknownNameError` (precision).
    """
    return apply_plan(
        model,
        {ALL_OTHERS: precision},
        group_size,
        strict=strict,
        exclude=exclude,
        untie=untie,
        method=method,
        calibration=calibration,
        compile=compile,
        targets=targets,
    )


def apply_plan(
    model: nn.Module,
    plan: Mapping[str, str],
    group_size: int = DEFAULT_GROUP_ELEMS,
    *,
    strict: bool = False,
    exclude: Sequence[str] = (),
    untie: bool = False,
    method: str = ROUND_TO_NEAREST,
    calibration: Iterable[Batch] | None = None,
    compile: bool = False,
    targets: Mapping[str, Target] | None = None,
) -> QuantizationResult | bool:
    """Quantise the layers that a plan names (see `plans`), each to its own precision; otherwise as
    `apply_quantization`.
    """
    wanted_method = parse_method(method)
    check_model_and_plan(model, plan)
    for text in plan.values():
        parse_precision(text)  # a wrong name is an error with or without torchao
    rules = PlanRules(group_size, strict, untie)
    if not has_torchao():
        warnings.warn("torchao is not installed, the model stays as it is: pip install -e '.[quant]'", stacklevel=2)
        return False
    if compile:
        need_compiler(model)
    sites = survey_linears(model)
    find_non_finite(sites)
    format_targets = targets or {}
    device_types = sorted({site.weight.device.type for site in sites})
    described = {
        device_type: format_targets.get(device_type) or read_target(device_type) for device_type in device_types
    }
    decisions = decide_layers(sites, resolve_plan(sites, plan, exclude), described, rules)
    inputs = collect_if_needed(model, decisions, wanted_method, calibration)
    before_bytes = model_bytes(model)
    outcomes = _quantize(decisions, wanted_method, inputs, rules, compile)
    _remember_untied(model, decisions)
    is_compiled = compile and any(outcome.is_quantized for outcome in outcomes.values())
    if is_compiled:
        model.compile()
    return QuantizationResult(
        precision=next(iter(plan.values())) if tuple(plan) == (ALL_OTHERS,) else "plan",
        target=", ".join(str(target) for target in described.values()),
        layers=tuple(outcomes.get(site.name) or _left_alone(site) for site in sites),
        before_bytes=before_bytes,
        after_bytes=model_bytes(model),
        is_compiled=is_compiled,
        torchao_release=str(getattr(load_torchao("quantizing a model"), "__version__", "unknown")),
        torch_release=torch.__version__,
        calibration_tokens_count=None if inputs is None else inputs.tokens_count,
    )


_FORMAT_OF_DTYPE = {"float64": "FP64", "float32": "FP32", "bfloat16": "BF16", "float16": "FP16"}


_Original = tuple[int, str]
"""Bytes and dtype of a layer's weight before it is replaced."""


def _quantize(
    decisions: Sequence[LayerDecision], method: str, inputs: LayerInputs | None, rules: PlanRules, compiled: bool
) -> dict[str, LayerOutcome]:
    """Quantise stand-ins, check them, hand them over; return the outcomes by site."""
    methods, checked = [], []
    for decision in decisions:
        its_method, against = method_of(decision, method, inputs)
        methods.append(its_method)
        checked.append(with_finding(decision, against))
    if rules.is_strict:
        refuse_fallbacks(checked)
    root, failures = quantize_stand_ins(
        checked, methods, inputs, lambda name: BuildOptions(compiled, use_hqq=name == "HQQ")
    )
    weights = {}
    for index, decision in enumerate(checked):
        if decision.recipe is None:
            continue
        failure = failures.get(decision.site.name)
        weight, why = (None, failure) if failure else quantized_weight(root, decision)
        if weight is None:
            checked[index] = with_finding(decision, why)
        else:
            weights[decision.site.name] = weight
    if rules.is_strict:
        refuse_fallbacks(checked)
    before = {
        decision.site.name: (held_bytes([decision.site.weight]), _dtype_name(decision.site)) for decision in checked
    }
    hand_over(weights, checked)
    return {
        decision.site.name: _outcome(
            decision, before[decision.site.name], its_method if decision.site.name in weights else ""
        )
        for decision, its_method in zip(checked, methods, strict=True)
    }


def _outcome(decision: LayerDecision, before: _Original, method: str) -> LayerOutcome:
    site, recipe = decision.site, decision.recipe
    (N, K), (size_bytes, dtype) = site.shape, before
    if recipe is None or not method:
        return _unchanged(site, before, decision.requested.requested, decision.findings)
    return LayerOutcome(
        name=site.name,
        aliases=site.aliases,
        N=N,
        K=K,
        requested=decision.requested.requested,
        became=recipe.precision,
        method=method,
        kernel=recipe.kernel,
        tensor=type(site.weight).__name__,
        is_emulated=recipe.is_emulated,
        group_size=decision.group_size,
        original_bytes=size_bytes,
        held_bytes=held_bytes([site.weight]),
        format_bytes=recipe.stored_format(K, decision.group_size, dtype).storage_bytes((N, K)),
        findings=decision.findings,
        padding=tuple(item for item in (recipe.padding, _input_scales(site)) if item is not None),
        notes=(*decision.notes, *_reduced_range(site)),
    )


def _input_scales(site: LinearSite) -> Finding | None:
    return (
        finding("held-beside", kind="input-scales")
        if getattr(site.weight.data, "act_pre_scale", None) is not None
        else None
    )


def _reduced_range(site: LinearSite) -> tuple[Finding, ...]:
    return (Finding("codes-of-7-bits"),) if getattr(site.weight.data, "reduce_range", False) else ()


def _left_alone(site: LinearSite) -> LayerOutcome:
    """Return the outcome of a layer that the plan does not reach."""
    return _unchanged(site, (held_bytes([site.weight]), _dtype_name(site)), "", ())


def _unchanged(site: LinearSite, before: _Original, requested: str, findings: tuple[Finding, ...]) -> LayerOutcome:
    (N, K), (size_bytes, dtype) = site.shape, before
    tensor = type(site.weight).__name__
    is_packed = hasattr(site.weight, "__tensor_flatten__")
    key = None if is_packed else _FORMAT_OF_DTYPE.get(dtype)
    return LayerOutcome(
        name=site.name,
        aliases=site.aliases,
        N=N,
        K=K,
        requested=requested,
        became=key or (tensor if is_packed else dtype),
        method="",
        kernel="",
        tensor=tensor,
        is_emulated=False,
        group_size=None,
        original_bytes=size_bytes,
        held_bytes=size_bytes,
        format_bytes=get_format(key).storage_bytes((N, K)) if key and N and K else size_bytes,
        findings=findings,
    )


def _dtype_name(site: LinearSite) -> str:
    return str(site.weight.dtype).removeprefix("torch.")


def _remember_untied(model: nn.Module, decisions: Sequence[LayerDecision]) -> None:
    """Tell a transformers model that its head is its own now, or loading and saving would tie it again."""
    config: Any = getattr(model, "config", None)
    changed = any(d.site.tied_to and hasattr(d.site.weight, "__tensor_flatten__") for d in decisions)
    if changed and getattr(config, "tie_word_embeddings", False):
        config.tie_word_embeddings = False


def need_compiler(model: nn.Module) -> None:
    """Raise before anything is touched when `torch.compile` could not build kernels for a model on the CPU."""
    if any(parameter.device.type == "cuda" for parameter in model.parameters()):
        return
    candidates = [environ.get("CXX", ""), "g++", "clang++"]
    if not any(name and shutil.which(name.split()[0]) for name in candidates):
        raise UnsupportedError(
            "torch.compile needs a C++ compiler on the CPU (g++, clang++ or $CXX): install one, or leave it out"
        )
