"""Which formats should a whole model have on this chip, for this traffic? Every plan predicted, ranked, with its reason.

Weighed are 16 bit, the uniform formats that a user would try, some of them with an FP8 cache where it is large, the named
strategies, and, where the losses of the layers are known, the plans of a Pareto search. Those within the limits go by the one
rule for predictions (`tie_ranking.PREDICTION_RULE`), and the first is taken. A plan whose loss nobody measured or published
stands behind those whose loss is known, and a plan without a known kernel on the chip is refused unless the caller named it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from roofline_model.calibration_doubt import doubts_of
from roofline_model.core.finding import short_text
from roofline_model.decoder.model_registry import get_model
from roofline_model.decoder.model_shapes import DEFAULT_CONTEXT, ModelShape
from roofline_model.errors import InvalidValueError, UnsupportedError
from roofline_model.hardware import Device, get_hardware
from roofline_model.mixed_precision.config import MixedPrecisionConfig
from roofline_model.mixed_precision.strategies import list_strategies
from roofline_model.model_choice.answer import ModelCandidate, ModelRecommendation, RefusedPlan
from roofline_model.model_choice.cached_pairs import cached_pairs
from roofline_model.model_choice.gentler import gentler_plan
from roofline_model.model_choice.limits import model_limits
from roofline_model.model_choice.plan_candidates import (
    PlanCandidate,
    add_candidate,
    plan_field,
    uniform_plan,
    wide_format,
)
from roofline_model.model_choice.plan_kernels import plan_kernels, why_no_kernel
from roofline_model.model_choice.plan_quality import LossBook
from roofline_model.model_choice.plan_search import NO_SEARCH, search_plans
from roofline_model.model_choice.ranking import (
    choice_of,
    notes_on_baseline,
    notes_on_choice,
    notes_on_claims,
    notes_on_kernels,
    ranked_plans,
)
from roofline_model.model_choice.time_kinds import CEILINGS_ARE
from roofline_model.model_choice.weighing import PassTimes, Weigher
from roofline_model.pareto.losses_file import MeasuredLosses
from roofline_model.pareto.model_problem import TrafficShare, traffic_share

IsRunnable = Callable[[str], str]


def recommend_model(
    hardware: Device | str,
    model: ModelShape | str,
    *,
    phase: str = "decode",
    batch: int = 1,
    context: int | None = None,
    memory_limit_bytes: float | None = None,
    memory_headroom_ratio: float = 0.0,
    max_latency_s: float | None = None,
    max_loss_pct: float | None = None,
    losses: MeasuredLosses | None = None,
    formats: Iterable[str] | None = None,
    extra_formats: Iterable[str] = (),
    strategies: Sequence[MixedPrecisionConfig] | None = None,
    traffic: Sequence[TrafficShare] | None = None,
    estimate: PassTimes | None = None,
    is_runnable: IsRunnable | None = None,
) -> ModelRecommendation:
    """Return the ranked plans of a model on a chip, what was refused and why, and the plan to take.

    `phase`, `batch`, `context` (default 4096 tokens, or the model's longest) as in `predict_model`, or `traffic`, a mix of
    passes, in their place. Limits: memory (default the chip's; `memory_headroom_ratio` of it stays free), the time of a pass,
    and the loss in percent of perplexity (`max_loss_pct`; default 1 where it was measured, 16 where it is a published claim and
    no `losses` are at hand; of task accuracy where no perplexity was published). `losses`: of the model's layers (`read_losses`); they replace claims and start the Pareto search.
    `formats`: uniform plans in place of the usual ones, `extra_formats`: beside them; `strategies`:
    in place of the six named. `estimate`: prediction of a pass → a better time than the ideal, or None (default: the expected
    time). `is_runnable`: label of a plan or format → empty, or why the caller's device cannot run it.
    Raises a `RooflineError` naming the field: unknown chip, model or format, a context beyond the model's, a bad limit.
    """
    if losses is not None and not isinstance(losses, MeasuredLosses):
        raise InvalidValueError(
            f"losses must be MeasuredLosses (read_losses, MeasuredLosses.of(table, …)), got a {type(losses).__name__}"
        )
    device, shape = get_hardware(hardware), get_model(model)
    shares = _traffic(shape, phase, batch, context, traffic)
    limits = model_limits(
        device,
        memory_limit_bytes=memory_limit_bytes,
        headroom_ratio=memory_headroom_ratio,
        max_latency_s=max_latency_s,
        max_loss_pct=max_loss_pct,
        is_loss_measured=losses is not None and losses.is_in_nats,
    )
    wide = wide_format(shape, device)
    field = plan_field(
        shape,
        device,
        wide,
        formats=formats,
        extra_formats=extra_formats,
        strategies=list_strategies(num_layers=shape.layer_count) if strategies is None else strategies,
        are_strategies_asked_for=strategies is not None,
    )
    book = None if losses is None else LossBook(losses, shape, wide)
    weigher = Weigher(device, shape, shares, estimate=estimate, headroom_ratio=memory_headroom_ratio)
    baseline = weigher.weigh(field.candidates[0], book)

    notes = _notes(device, shape, wide, losses, weigher)
    refused = [RefusedPlan(label, reason) for label, reason in field.left_out]
    plans = list(field.candidates)
    found = NO_SEARCH
    if book is not None:
        found = search_plans(
            device,
            shape,
            book,
            wide=wide,
            traffic=shares,
            limits=limits,
            is_ideal=weigher.is_ideal,
            time_of=weigher.time_s,
            why_not=lambda label: _why_not_searched(label, shape, wide, weigher, is_runnable),
        )
        refused += found.refused
        notes += found.notes
        for one in found.candidates:
            plans = add_candidate(plans, one)
    weighed = _weighed(plans, baseline, weigher, book, is_runnable, refused)
    if formats is None and weigher.is_listed:
        known = [one.formats for one in plans]
        pairs = [one for one in cached_pairs(weighed, device, shape, wide) if one.formats not in known]
        weighed += _weighed(pairs, baseline, weigher, book, is_runnable, refused)
    ranked, missed = ranked_plans(weighed, baseline, limits)
    chosen, misfit = choice_of(ranked, missed, refused, limits)
    notes += notes_on_kernels(ranked)
    if losses is None:
        notes += notes_on_claims(ranked, shape.name)
    if chosen is not None:
        notes += [*notes_on_baseline(baseline, limits), *notes_on_choice(chosen, ranked, baseline)]
    return ModelRecommendation(
        hardware=device.key,
        model=shape.name,
        wide=wide,
        traffic=shares,
        limits=limits,
        candidates=tuple(ranked),
        excluded=(*missed, *refused),
        chosen=chosen,
        baseline=baseline,
        searches=found.searches,
        front=found.front,
        notes=tuple(dict.fromkeys(notes)),
        gentler=None if chosen is None else gentler_plan(chosen, ranked, baseline),
        misfit=misfit,
    )


def _traffic(
    shape: ModelShape, phase: str, batch: int, context: int | None, traffic: Sequence[TrafficShare] | None
) -> tuple[TrafficShare, ...]:
    if traffic is None:
        tokens = min(DEFAULT_CONTEXT, shape.max_context_size) if context is None else context
        return (traffic_share(phase, batch=batch, context=tokens),)
    if not traffic:
        raise InvalidValueError("traffic is empty; name at least one kind of pass, or leave it out")
    if (phase, batch, context) != ("decode", 1, None):
        raise InvalidValueError("traffic says phase, batch and context of every pass; leave those three out")
    return tuple(traffic)


def _why_not_searched(
    label: str, shape: ModelShape, wide: str, weigher: Weigher, is_runnable: IsRunnable | None
) -> str:
    """Return why a format is not searched: no kernel, not on the caller's device, or a time of another kind; else empty.

    `kv=FORMAT` is a format of the cache, for which the caller is not asked.
    """
    name, _, cache = label.partition("=")
    if weigher.is_listed and (gap := why_no_kernel(weigher.device)(label)):
        return gap
    if cache:
        return weigher.why_incomparable(uniform_plan(f"{wide}.{wide}.{cache}", shape, wide))
    reason = is_runnable(label) if is_runnable is not None else ""
    return reason or weigher.why_incomparable(uniform_plan(name, shape, wide))


def _weighed(
    plans: Sequence[PlanCandidate],
    baseline: ModelCandidate,
    weigher: Weigher,
    book: LossBook | None,
    is_runnable: IsRunnable | None,
    refused: list[RefusedPlan],
) -> list[ModelCandidate]:
    """Return the plans that the chip and the caller's device can run; the others are added to `refused`."""
    found = []
    for one in plans:
        reason = is_runnable(one.label) if is_runnable is not None and one.kind != "search" else ""
        if (
            not reason
            and weigher.is_listed
            and not one.is_asked_for
            and one.kind not in ("baseline", "published", "search")
        ):
            reason = plan_kernels(one.formats, weigher.device).gap
        if reason:
            refused.append(RefusedPlan(one.label, reason))
            continue
        try:
            weighed = baseline if one.kind == "baseline" else weigher.weigh(one, book)
        except UnsupportedError as error:
            refused.append(RefusedPlan(one.label, str(error)))
            continue
        # The baseline was weighed before a search could turn out to be nothing else.
        found.append(replace(weighed, aliases=one.aliases))
    return found


def _notes(device: Device, shape: ModelShape, wide: str, losses: MeasuredLosses | None, weigher: Weigher) -> list[str]:
    notes = []
    if device.is_placeholder:
        notes.append(
            f"warning: {device.key} is a placeholder chip with invented numbers; use the real chip for a decision"
        )
    if weigher.is_ideal:
        why_not = "" if device.is_placeholder else weigher.why_no_expected
        notes.append(
            f"ranked by ideal times, the speed of light: {why_not or f'no expected times are known for {device.key}'}"
        )
    elif weigher.is_by_ceilings and (why_not := weigher.why_no_expected):
        notes.append(f"ranked by what the ceilings allow: {CEILINGS_ARE}; {why_not}")
    notes += map(short_text, doubts_of(device))
    if wide != shape.wide_format:
        notes.append(f"{device.key} has no native {shape.wide_format}: {wide} is the 16-bit format here")
    if losses is not None:
        notes.append(f"losses: {losses.source} (confidence {losses.confidence}); added up over layers")
        if not losses.is_of(shape.name):
            notes.append(f"the losses were measured on {losses.model}, the recommendation is for {shape.name}")
    return notes
