"""Which precisions are worth measuring on a model: those the device really runs, by the expected time of their real
path.

A precision that would fall back to another one is not a candidate: it would be measured under a wrong name. Expected
times hold what the library does per call beside the product, and the framework's own time on the host, measured on
narrow twins of the model for the candidates that come first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from bench_cases.models.model_cases import ModelCase
from bench_cases.models.reference import ModelReference
from bench_cases.pipeline.settings import PipelineSettings
from bench_cases.quantization.plans.layer_report import ROUND_TO_NEAREST
from bench_cases.quantization.plans.precisions import PRECISIONS, precision_formats
from bench_cases.quantization.plans.recipes import METHOD_PRECISIONS, recipes_of
from bench_cases.quantization.target import Target
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Estimate, Memory, Option, Times
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import (
    Finding,
    finding,
    first_with,
    reason_text,
    short_text,
)
from roofline_model.formats.catalog import format_name, get_format
from roofline_model.models.model_memory import plan_kv_bytes, weights_bytes
from roofline_model.models.model_pass import HostTime, ModelPass
from roofline_model.recommend.loss import UNKNOWN

HostTimes = Callable[[ModelCase, ModelPass], HostTime | None]
"""Case and pass → the framework's own time on the host, or None where it cannot be found."""
MEMORY_SLACK = 1.02
"""A definition leaves out padding, and knows no buffers: within 2 % the measurement decides."""
DISTURBED_RATIO = 1.5
"""On an idle machine the lower quartile of a twin's calls is a few percent above the fastest one."""


def predicted_option(
    precision: str,
    method: str,
    kernel: str,
    *,
    is_emulated: bool = False,
    ideal_s: float | None = None,
    expected: Estimate | None = None,
    memory_bytes: float | None = None,
    host_s: float | None = None,
    time_finding: Finding | None = None,
) -> Option:
    """Return one precision of a model with its predictions; None where there is none.

    `method`: empty for the model's own format. `kernel`: what multiplies. `memory_bytes`: weights and cache. `host_s`:
    the framework's own time, part of the expected one; None: not part of it. `time_finding`: why there is no expected
    time, or what it leaves out.
    """
    weight, _, activation = precision.partition(".")
    host = None if host_s is None else finding("host-time-included", host_s=host_s)
    return Option(
        key=precision,
        formats=(("b", weight), ("a", activation)) if activation else (("b", weight),),
        method=method,
        path="emulated" if is_emulated else "",
        bound="",
        times=Times(None if ideal_s is None else Estimate(ideal_s, source="ideal"), expected),
        memory=None if memory_bytes is None else Memory(memory_bytes),
        loss=UNKNOWN,
        speedup_ratio=None,
        ideal_speedup_ratio=None,
        label=precision_label(precision),
        kernel=kernel,
        findings=tuple(item for item in (time_finding, host) if item is not None),
    )


def precision_label(precision: str) -> str:
    """Return what people call a precision of the pipeline: `INT8 (W8A16)` of the key `INT8`."""
    return format_name(*precision_formats(precision, "BF16"))


def host_time_s(option: Option) -> float | None:
    """Return the framework's own time in the expected time of an option; None where it is not part of it."""
    host = first_with(option.findings, "host-time-included")
    value = None if host is None else host.value("host_s")
    return value if isinstance(value, int | float) else None


def time_finding(option: Option) -> Finding | None:
    """Return why an option has no expected time, or what it leaves out; None where there is nothing to say."""
    return next((item for item in option.findings if item.code != "host-time-included"), None)


def memory_bytes(option: Option) -> float | None:
    """Return the weights and the cache of an option, bytes; None where they are not known."""
    return None if option.memory is None else option.memory.total_bytes


@dataclass(frozen=True, slots=True)
class PipelineRecommendation:
    """The candidates of a model on a device, best first, before anything was measured."""

    baseline: Option
    candidates: tuple[Option, ...]
    left_out: tuple[tuple[str, Finding], ...]
    """(precision, why it is not measured)."""
    too_large: tuple[Option, ...] = ()
    """Candidates whose weights and cache exceed the memory limit by their formats' definition."""
    hardware: str = ""
    """Key of the chip."""

    def speedup(self, candidate: Option, kind: Literal["ideal", "expected"]) -> float | None:
        """Return the predicted speed-up of a candidate."""
        base, candidate_s = (getattr(option.times, f"{kind}_s") for option in (self.baseline, candidate))
        return None if base is None or candidate_s is None else base / candidate_s


def pipeline_case(model: ModelReference, precision: str, settings: PipelineSettings, device: str) -> ModelCase:
    """Return the case that measures a precision (or the model's own format) with a pipeline's settings."""
    is_plain = precision == model.wide
    has_method = not is_plain and precision in METHOD_PRECISIONS.get(settings.method, ())
    return ModelCase(
        model,
        precision,
        settings.phase,
        settings.batch_count,
        settings.make_context_count(device),
        model.wide,
        settings.method if has_method else ROUND_TO_NEAREST,
    )


def recommend_precisions(
    model: ModelReference, settings: PipelineSettings, chip: Device, target: Target, host_times: HostTimes
) -> PipelineRecommendation:
    """Rank the precisions that `target` runs by expected time; the ones without an expected time follow, by ideal time.

    Raises `UnsupportedError` when none is left, with the reasons.
    """
    precisions: list[tuple[ModelCase, Option]] = []
    left_out: list[tuple[str, Finding]] = []
    for name in settings.formats or PRECISIONS:
        if (reason := _why_not_run(name, target)) is not None:
            left_out.append((name, reason))
            continue
        case = pipeline_case(model, name, settings, target.device)
        precisions.append((case, _candidate(case, chip, target, None)))
    if not precisions:
        reasons = "; ".join(f"{name}: {short_text(reason)}" for name, reason in left_out)
        raise UnsupportedError(f"{target} runs none of the formats asked for: {reasons}")
    base_case = pipeline_case(model, model.wide, settings, target.device)
    baseline = _candidate(base_case, chip, target, host_times)
    limit = settings.limits.memory_bytes
    too_large = tuple(candidate for _, candidate in precisions if _exceeds(candidate, limit))
    precisions = sorted(
        (candidate for candidate in precisions if not _exceeds(candidate[1], limit)),
        key=lambda candidate: _rank(candidate[1]),
    )
    # The host's time takes seconds to find: for what will be measured, after a first ranking without it.
    first = [_candidate(case, chip, target, host_times) for case, _ in precisions[: settings.candidates_count]]
    slower = [
        (candidate.key, _why_behind(candidate, settings)) for _, candidate in precisions[settings.candidates_count :]
    ]
    return PipelineRecommendation(baseline, tuple(sorted(first, key=_rank)), (*slower, *left_out), too_large, chip.key)


def _why_not_run(name: str, target: Target) -> Finding | None:
    """Return why a device does not run a precision as it is; None where it does."""
    recipes = recipes_of(name, target.device)
    if not recipes:
        return finding("torchao-kernel-missing", name, kind="device", device=target.device)
    reasons = [recipe.against_target(target) for recipe in recipes]
    return None if None in reasons else reasons[0]


def _candidate(case: ModelCase, chip: Device, target: Target, host_times: HostTimes | None) -> Option:
    recipe = next(
        (runnable for runnable in recipes_of(case.precision, target.device) if runnable.against_target(target) is None),
        None,
    )
    predicted = partial(
        predicted_option,
        case.precision,
        "" if case.is_plain else case.method,
        "transformers" if recipe is None else recipe.kernel,
        is_emulated=recipe is not None and recipe.is_emulated,
    )
    work = case.work(target)
    if work is None:
        return predicted(time_finding=finding("shape-unknown", reason=case.model.why_no_shape or None))
    host = None if host_times is None else _undisturbed(host_times(case, work))
    work = replace(work, host=host)
    held_bytes = weights_bytes(work.shape, work.plan) + plan_kv_bytes(
        work.shape, work.plan, work.workload.context_count, work.workload.batch_count
    )
    ideal_s = work.ideal(chip).time_s
    expected = work.expected(chip)
    if expected is None:
        return predicted(ideal_s=ideal_s, memory_bytes=held_bytes, time_finding=work.why_no_expected(chip))
    left_out = None if host_times is None or host is not None else _left_out(chip)
    return predicted(
        ideal_s=ideal_s,
        expected=Estimate(expected.time_s, expected.low_s, expected.high_s),
        memory_bytes=held_bytes,
        host_s=None if host is None else dict(expected.parts).get("host", 0.0),
        time_finding=left_out,
    )


def _left_out(chip: Device) -> Finding:
    """Return what an expected time without the framework's own leaves out."""
    return finding("host-time-unknown") if chip.kind == "cpu" else finding("device-time", kind="step")


def _undisturbed(host: HostTime | None) -> HostTime | None:
    """Return the framework's time with the fastest call in place of the lower quartile where other work was in every
    call.

    The baseline and each candidate are looked at in turn: what disturbed one alone must not become a speed-up.
    """
    if host is None or host.time_s <= DISTURBED_RATIO * host.low_s:
        return host
    return replace(host, time_s=host.low_s)


def _rank(option: Option) -> tuple[bool, bool, float]:
    """Sort by expected time; without one, kernels of their own come before emulations, and the ideal time decides."""
    expected_s, ideal_s = option.times.expected_s, option.times.ideal_s
    if expected_s is not None:
        return False, False, expected_s
    is_emulated = option.path == "emulated"
    return True, is_emulated, get_format(option.weight_format).element_bits if ideal_s is None else ideal_s


def _exceeds(option: Option, limit_bytes: float | None) -> bool:
    """Return whether a candidate is too large whatever is measured; what is close is left to the measurement."""
    needed_bytes = memory_bytes(option)
    return limit_bytes is not None and needed_bytes is not None and needed_bytes > MEMORY_SLACK * limit_bytes


def _why_behind(option: Option, settings: PipelineSettings) -> Finding:
    return finding(
        "behind-the-best", best_count=settings.candidates_count, note=reason_text(time_finding(option)) or None
    )
