"""One pass of a model as the API tells it: of the formats that a request names, or of a plan that was recommended."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from reports.api.catalog.catalog_models import ModelKernel, ModelMemory, ModelPrediction, ModelPredictRequest
from reports.api.catalog.chip_lookup import find_chip, find_model
from reports.api.predict.base_models import finding_bodies, finding_body
from roofline_model.chips.hardware import Device, doubts_of
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import optional_text, reason_text
from roofline_model.core.memo import Memo
from roofline_model.kernels.known_kernels import plan_gap
from roofline_model.models import llm
from roofline_model.models.decoder_step import Workload
from roofline_model.models.format_plan import AS_PUBLISHED, plan_coverage, plan_from_text, wide_head_exceptions
from roofline_model.models.model_shapes import DEFAULT_CONTEXT, ModelShape
from roofline_model.models.step_expected import expected_step, why_no_step
from roofline_model.recommend.plans import wide_format

KEPT_MODEL_ANSWERS = 512


@lru_cache(KEPT_MODEL_ANSWERS)
def prediction_json(model: str, chip_key: str, body: ModelPredictRequest) -> str:
    """Return the `ModelPrediction` of a request as JSON. Raises as `predict_model`."""
    shape, chip = find_model(model), find_chip(chip_key)
    plan = plan_from_text(body.formats or AS_PUBLISHED, shape, kv=body.kv_format)
    kept = wide_head_exceptions(plan, shape) if body.wide_head and body.formats else ()
    found = llm.predict_model(
        chip,
        shape,
        body.phase,
        batch=body.batch_count,
        context=body.context_tokens or default_context(shape),
        formats=body.formats or AS_PUBLISHED,
        kv=body.kv_format,
        exceptions=kept,
        attention_kernel=body.attention_kernel,
    )
    return prediction_body(found, chip).model_dump_json()


def default_context(shape: ModelShape) -> int:
    """Return the tokens of a sequence where a request names none."""
    return min(DEFAULT_CONTEXT, shape.max_context_size)


def prediction_body(found: llm.ModelPrediction, chip: Device) -> ModelPrediction:
    """Return a pass as the API tells it."""
    expected, memory, used = expected_step(found, chip), found.memory, found.plan.base
    wide = _WIDE.of((chip, found.model), lambda: lru_cache(KEPT_MODEL_ANSWERS)(partial(_wide_pass, chip, found.model)))(
        found.workload, found.attention_kernel
    )
    per_kernel = (
        [None] * len(found.kernels)
        if expected is None
        else [one.kernel.calls_count * one.time_s for one in expected.kernels]
    )
    kernels = [
        ModelKernel(
            name=one.kernel.name,
            op=one.kernel.work.op,
            calls_count=one.kernel.calls_count,
            time_s=one.time_s,
            expected_s=expected_s,
            bound=one.prediction.bound,
            path=one.prediction.path,
            flops=one.flops,
            moved_bytes=one.moved_bytes,
        )
        for one, expected_s in zip(found.kernels, per_kernel, strict=True)
    ]
    return ModelPrediction(
        hardware=chip.key,
        model=found.model.name,
        phase=found.workload.phase,
        batch_count=found.workload.batch_count,
        context_tokens=found.workload.context_count,
        formats=found.plan.label,
        baseline_format=wide.format,
        speedup_ratio=None if wide.time_s is None else wide.time_s / found.time_s,
        expected_speedup_ratio=None
        if wide.expected_s is None or expected is None
        else wide.expected_s / expected.time_s,
        coverage=optional_text(plan_coverage(found.plan)),
        activation_format=used.activations,
        kv_format=found.plan.kv,
        attention_kernel=found.attention_kernel,
        time_s=found.time_s,
        expected_s=None if expected is None else expected.time_s,
        expected_low_s=None if expected is None else expected.low_s,
        expected_high_s=None if expected is None else expected.high_s,
        expected_reason=reason_text(why_no_step(found, chip)) if expected is None else None,
        tokens_per_s=found.tokens_per_s,
        expected_tokens_per_s=None if expected is None else found.token_count / expected.time_s,
        kernel_gap=finding_body(plan_gap(chip, used.weights, used.activations, found.plan.kv)),
        launch_count=found.launch_count,
        flops=found.flops,
        moved_bytes=found.moved_bytes,
        bound=found.bound,
        provenance=found.provenance,
        kernels=kernels,
        findings=finding_bodies((*found.findings, *doubts_of(chip))),
        memory=ModelMemory(
            weights_bytes=memory.weights_bytes,
            kv_bytes=memory.kv_bytes,
            activation_bytes=memory.activation_bytes,
            total_bytes=memory.total_bytes,
            capacity_bytes=memory.capacity_bytes,
            fits=memory.fits,
        ),
    )


class _WidePass(NamedTuple):
    """The same pass in 16 bit; None where the chip declares no such rate."""

    format: str | None = None
    time_s: float | None = None
    expected_s: float | None = None


_WIDE: Memo[Callable[[Workload, str | None], _WidePass]] = Memo(64)
"""By chip and model: every format of a page is held against the same pass."""


def _wide_pass(chip: Device, shape: ModelShape, workload: Workload, attention_kernel: str | None) -> _WidePass:
    try:
        wide = wide_format(shape, chip)
    except UnsupportedError:
        return _WidePass()
    found = llm.predict_model(
        chip,
        shape,
        workload.phase,
        batch=workload.batch_count,
        context=workload.context_count,
        new_tokens=workload.new_count,
        formats=wide,
        attention_kernel=attention_kernel,
    )
    expected = expected_step(found, chip)
    return _WidePass(wide, found.time_s, None if expected is None else expected.time_s)
