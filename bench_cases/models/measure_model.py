"""The path of one case of a whole model: predict, load, quantise, look at memory, quality and host time, then measure
the step.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench_cases.models.model_cases import ModelCase
from bench_cases.models.reference import SEEDED_LLAMAS
from bench_cases.quantization.plans.precisions import PLAIN_FORMATS, PRECISIONS, parse_precision
from bench_cases.quantization.plans.recipes import recipes_of
from bench_cases.quantization.target import Target, target_of_chip
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import MissingDependencyError, RooflineError, UnsupportedError
from roofline_model.core.finding import Finding, finding, stored_form
from roofline_model.formats.catalog import get_format
from roofline_model.models.decoder_step import check_context, step_kernels
from roofline_model.models.format_plan import FormatPlan, PartFormats
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.model_memory import plan_kv_bytes

if TYPE_CHECKING:
    from bench_cases.models.held_models import HeldModel
    from bench_cases.models.model_step import ModelStep
    from bench_cases.models.step_quality import QualityText
    from roofline_model.models.model_pass import ModelPass

HEADROOM_RATIO = 0.9
"""Share of the free memory that the models of a case may take."""
TOKEN_ID_BYTES = 8
"""Token ids are 64-bit integers."""
QUANTIZING_RATIO = 1.6
"""Bytes at the peak of quantising over the 16-bit bytes: weights of 16 bits and of 8 with their scales, and one layer's
work.
"""


def measure_model(roofline: Any, case: ModelCase, *, text_path: Path | None = None) -> None:
    """Declare, then skip with a reason or measure a case with the `roofline` fixture; torch is imported after
    `declare`.
    """
    target = _target(roofline.hardware)
    reason = _shape_reason(case)
    work = None if target is None or reason else case.work(target)
    described = {
        "name": case.model.name,
        "precision": case.precision,
        "phase": case.phase,
        "method": _method(case),
        "is_emulated": _is_emulated(case, target),
        **({"source": "seeded"} if case.model.text in SEEDED_LLAMAS else {}),
    }
    roofline.declare(
        case.case,
        work,
        unavailable=_chip_reason(case, roofline.hardware) or reason,
        extra={"model": described, "tokens_per_call": case.workload.row_count},
    )
    try:
        _measure(roofline, case, text_path)
    except RooflineError as error:  # nothing was measured, and the line says why; a wrong result is no such error
        pytest.skip(str(error))


def _measure(roofline: Any, case: ModelCase, text_path: Path | None) -> None:
    if importlib.util.find_spec("transformers") is None:
        raise MissingDependencyError("transformers", "quant", "measuring a whole model")
    from bench_cases.kernels.proof import KernelProof, launch_count
    from bench_cases.kernels.spec import COMPILED_PROOF
    from bench_cases.models.held_models import MODELS
    from bench_cases.models.host_time import host_time, loaded_reference
    from bench_cases.models.model_step import compiled, make_step, step_ids, vocabulary_size
    from bench_cases.models.step_memory import measure_memory
    from bench_cases.models.step_quality import quality_text
    from bench_cases.quantization.target import read_target

    device = roofline.torch_device
    pass_bytes = pass_bytes_of(case)
    has_original = _has_room_for_both(case, roofline.free_bytes, MODELS.held_bytes, pass_bytes)
    calibration = None
    if case.method == "AWQ" and not case.is_plain:
        reference = MODELS.reference(case.model, device).loaded
        calibration = quality_text(reference, vocabulary_size(reference.model), device, text_path).calibration
    held_model = MODELS.of(case, device, calibration, has_original=has_original)
    model = held_model.loaded.model
    vocabulary = vocabulary_size(model)
    text = quality_text(held_model.loaded, vocabulary, device, text_path)
    ids = step_ids(case.batch_count, case.context_count, vocabulary, device)
    step = make_step(model, ids, case.workload, case.kv)
    original = MODELS.reference(case.model, device) if has_original else None
    roofline.keep(_model_facts(case, held_model), quality=_quality(case, original, held_model, text))
    measured_model = loaded_reference(case.model, model)
    work = _executed_work(replace(case, model=measured_model), held_model, read_target(device))
    if work is not None:
        # A compiled step leaves Python's part behind, and how much of it is nobody's to predict.
        like = model if original is None else original.loaded.model
        host = None if case.is_compiled else host_time(like, case, work, roofline.hardware)
        work = replace(work, host=host)
        roofline.refine(work)
    with compiled(model) if case.is_compiled else nullcontext():
        roofline.keep(memory=memory_facts(held_model, step, measure_memory(step.fn, device), is_saved=case.is_saved))
        if work is not None and device.startswith("cuda"):  # the look at memory was its first call
            roofline.refine(replace(work, launch_count=launch_count(step.fn)))
        proof = KernelProof(case.kernel, COMPILED_PROOF if case.is_compiled else (), step.fn)
        roofline.measure(step.fn, check=proof.checked(step.check), tolerance=step.tolerance)
    if proof.facts:
        roofline.keep(ran=proof.facts)


def _executed_work(case: ModelCase, held_model: HeldModel, target: Target) -> ModelPass | None:
    """Return the pass by what the layers really became, fallbacks included."""
    if held_model.result is None:
        return case.work(target)
    accepted = (*PRECISIONS, *PLAIN_FORMATS)
    became = {layer.name: layer.became for layer in held_model.result.layers if layer.became in accepted}
    return case.executed_work(became, target)


def memory_facts(
    held_model: HeldModel, step: ModelStep, memory: Mapping[str, int | None], *, is_saved: bool = False
) -> dict[str, Any]:
    """Return the bytes of a case: what the model held before and after, its cache, the step's peak, and the process.

    `is_saved`: the model came quantised, and what it was before is not known.
    """
    result = held_model.result
    return {
        "original_bytes": None if is_saved else held_model.held_bytes if result is None else result.before_bytes,
        "held_bytes": held_model.held_bytes,
        "stated_bytes": None
        if result is None
        else result.after_bytes - sum(layer.held_bytes - layer.format_bytes for layer in result.quantized),
        "cache_bytes": step.cached_bytes,
        **memory,
    }


def _model_facts(case: ModelCase, held_model: HeldModel) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": case.model.name,
        "precision": case.precision,
        "phase": case.phase,
        "method": _method(case),
        "source": held_model.loaded.source,
        "decoded_from": case.model.decoded_from,
        "is_compiled": case.is_compiled,
        "parameters_count": held_model.loaded.parameters_count,
    }
    if held_model.result is not None:
        became = Counter(layer.became for layer in held_model.result.layers)
        fallbacks = held_model.result.fallbacks
        facts |= {
            "layers": dict(became),
            "kernels": sorted({layer.kernel for layer in held_model.result.quantized}),
            "is_emulated": not case.is_compiled and any(layer.is_emulated for layer in held_model.result.quantized),
            "fallbacks": list(map(stored_form, dict.fromkeys(item for layer in fallbacks for item in layer.findings)))[
                :8
            ],
            "torchao_release": held_model.result.torchao_release,
            "calibration_tokens_count": held_model.result.calibration_tokens_count,
        }
    return {"model": facts}


def _quality(case: ModelCase, reference: HeldModel | None, held_model: HeldModel, text: QualityText) -> dict[str, Any]:
    """Return the loss against the 16-bit model; measured once per quantised model, and for each narrow cache.

    An untrained model has none: what it predicts is noise, which no format makes worse.
    """
    from bench_cases.models.step_quality import measured_quality, quality_or_reason
    from bench_cases.quantization.kv.cache import make_kv_cache

    if case.is_saved:
        return {"source": "none", "reason": "original-missing"}
    if held_model.result is None and case.kv == case.model.wide:
        return {"source": "reference"}
    if held_model.loaded.is_seeded:
        return {"source": "none", "reason": "untrained"}
    if reference is None:
        return {"source": "none", "reason": "original-too-large"}
    if case.kv != case.model.wide:
        model = reference.loaded.model
        return quality_or_reason(
            lambda: measured_quality(reference, reference, text, lambda: make_kv_cache(model, case.kv))
        )
    if held_model.quality is None:
        held_model.quality = quality_or_reason(lambda: measured_quality(reference, held_model, text))
    return held_model.quality


def _chip_reason(case: ModelCase, chip: Device) -> Finding | None:
    """Return why the chip of --hw does not run the precision as it is; a fallback is a case of its own."""
    if case.is_plain or case.plan:
        return None
    name, target = parse_precision(case.precision).name, _target(chip)
    if target is None:
        return finding("torchao-kernel-missing", kind="capability", hardware=chip.key)
    recipes = recipes_of(name, target.device)
    reasons = [recipe.against_target(target) for recipe in recipes]
    if recipes and (None in reasons or any(recipe.needs for recipe in recipes)):
        return None  # what must be installed is asked when the model is there
    return next(filter(None, reasons), finding("torchao-kernel-missing", name, kind="device", device=target.device))


def _is_emulated(case: ModelCase, target: Target | None) -> bool:
    """Return whether the first recipe that the chip can run decodes its weights apart; a measurement knows it of each
    layer.
    """
    if case.is_plain or case.plan or case.is_compiled or target is None:
        return False
    recipes = recipes_of(parse_precision(case.precision).name, target.device)
    return next((recipe.is_emulated for recipe in recipes if recipe.against_target(target) is None), False)


def _target(chip: Device) -> Target | None:
    """Return the chip of --hw as the choice of a recipe sees it, without kernel packages; None where torchao runs
    nothing.
    """
    if chip.kind == "cpu":
        return Target("cpu")
    try:
        return target_of_chip(chip)
    except RooflineError:
        return None


def _shape_reason(case: ModelCase) -> Finding | None:
    """Return why this model has no such pass, from its shape and the mode alone."""
    if case.mode == "graph":
        return finding("graph-of-growing-cache")
    if case.model.shape is None:
        return None
    try:
        check_context(case.model.shape, case.workload)
        step_kernels(case.model.shape, case.workload, _wide_plan(case))  # a batch × context beyond every kernel's sizes
    except RooflineError as error:
        return finding("unsupported", reason=str(error))
    return None


def pass_bytes_of(case: ModelCase) -> float:
    """Return the least bytes of a case beside its weights: token ids, the cache, and the logits of every token.

    The check of a step reads the logits of its whole sequences once; where the shape is not known, the ids alone count.
    """
    tokens, shape = case.batch_count * case.context_count, case.model.shape
    if shape is None:
        return float(tokens * TOKEN_ID_BYTES)
    logit_bytes = shape.vocab_size * get_format(case.model.wide).traffic_bytes_per_element
    cache_bytes = plan_kv_bytes(shape, _wide_plan(case), case.context_count, case.batch_count)
    return float(tokens * (TOKEN_ID_BYTES + logit_bytes) + cache_bytes)


def _wide_plan(case: ModelCase) -> FormatPlan:
    """Return the plan of the 16-bit model with the case's cache."""
    wide = case.model.wide
    return FormatPlan(PartFormats(wide, wide), case.kv, wide)


def _has_room_for_both(case: ModelCase, free: float | None, held_bytes: float, pass_bytes: float = 0.0) -> bool:
    """Return whether the 16-bit model fits beside its quantised copy; `held_bytes` of models will be given back or used
    again.

    `pass_bytes`: what the pass takes beside the weights. Raises `UnsupportedError` where not even the model alone can
    be quantised (until the hand-over, its 16-bit weights and the quantised ones exist side by side), or the pass has no
    room.
    """
    shape = case.model.shape
    if free is None:
        return True
    if pass_bytes > HEADROOM_RATIO * free:
        raise UnsupportedError(
            f"{case.batch_count:,} × {case.context_count:,} tokens need about {pass_bytes / 1e9:.3g} GB for cache and "
            "logits, "
            f"{HEADROOM_RATIO * free / 1e9:.3g} GB are there; take a smaller batch or context"
        )
    if shape is None:
        return True
    size = parameter_counts(shape).total_count * get_format(case.model.wide).traffic_bytes_per_element
    room = HEADROOM_RATIO * free + held_bytes
    is_loaded_only = case.is_plain or case.is_saved
    needed = size if is_loaded_only else QUANTIZING_RATIO * size
    if needed > room:
        raise UnsupportedError(
            f"{case.model.name} needs about {needed / 1e9:.3g} GB to be {'loaded' if is_loaded_only else 'quantised'} "
            "here, "
            f"{room / 1e9:.3g} GB are there for it; take a smaller model"
        )
    return is_loaded_only or needed + size <= room


def _method(case: ModelCase) -> str:
    return "" if case.is_plain else "saved" if case.is_saved else case.method
