"""Which formats should a whole model have on this chip, for this traffic? Every plan predicted, ranked, with its
findings.

Weighed are 16 bit, the uniform formats that a user would try, some of them with an FP8 cache where it is large, the
named strategies, and, where the losses of the layers are known, the plans of a Pareto search. A plan without a known
kernel on the chip is excluded unless the caller named it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from roofline_model.chips.hardware import Device, doubts_of
from roofline_model.chips.usable_memory import usable_bytes
from roofline_model.core.answer import Exclusion, Option, Question, Ranking, is_comparable
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding, has_code
from roofline_model.engines.amounts import Layout
from roofline_model.engines.serving import engine_passes
from roofline_model.formats.catalog import get_format
from roofline_model.models.chip_and_model import get_chip_and_model, wide_format
from roofline_model.models.decoder_step import PHASES
from roofline_model.models.decoders import Checkpoint, decoder_of
from roofline_model.models.llm import ONE_DEVICE, ModelPrediction
from roofline_model.models.model_shapes import DEFAULT_CONTEXT, ModelShape
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.strategies import list_strategies
from roofline_model.models.tensor_parallel import Parallel
from roofline_model.recommend.plan_loss import LossBook
from roofline_model.recommend.plan_options import PassTimes, PlanOption, PlanPricer, missing_kernel, plan_kernels
from roofline_model.recommend.plans import (
    CandidatePlan,
    add_candidate,
    cached_pairs,
    candidate_plans,
    uniform_plan,
)
from roofline_model.recommend.ranking import MAX_LOSS_PCT, Limits, is_positive, positive_limit, rank
from roofline_model.recommend.search.front import FormatAssignment
from roofline_model.recommend.search.losses_file import MeasuredLosses
from roofline_model.recommend.search.model_problem import TrafficShare, traffic_share
from roofline_model.recommend.search.plan_search import NO_SEARCH, FormatSearch, search_plans

IsRunnable = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ModelRanking(Ranking):
    """The ranked plans of a model on a chip."""

    options: tuple[PlanOption, ...]
    baseline: PlanOption | None
    choice: PlanOption | None
    wide: str
    """16-bit format of the baseline."""
    traffic: tuple[TrafficShare, ...]
    """The passes that the time is of."""
    limits: Limits
    """The limits a plan has to keep."""
    passes: tuple[ModelPrediction, ...] = ()
    """Each kind of pass with the choice, else with the option that misses the limits least; empty without either."""
    searches: tuple[FormatSearch, ...] = ()
    front: tuple[FormatAssignment, ...] = ()
    """Every plan of the search that no other beats in loss, time and memory, least loss first; empty without losses."""


def recommend_model(
    hardware: Device | str,
    model: ModelShape | str,
    *,
    phase: str = "decode",
    batch: int = 1,
    context: int | None = None,
    memory_limit_bytes: float | None = None,
    memory_headroom_ratio: float = 0.0,
    max_latency_s: float | Mapping[str, float] | None = None,
    max_loss_pct: float | None = None,
    losses: MeasuredLosses | None = None,
    formats: Iterable[str] | None = None,
    extra_formats: Iterable[str] = (),
    strategies: Sequence[MixedPrecisionConfig] | None = None,
    traffic: Sequence[TrafficShare] | None = None,
    parallel: Parallel = ONE_DEVICE,
    estimate: PassTimes | None = None,
    is_runnable: IsRunnable | None = None,
) -> ModelRanking:
    """Return the ranked plans of a model on a chip, what was excluded and why, and the plan to take.

    >>> recommend_model("h100-sxm", "llama-3.1-8b")
    <ModelRanking llama-3.1-8b on h100-sxm: FP8 (W8A8) 4.222 ms, 6 options, 9 excluded>

    - `phase`, `batch`, `context` (default 4096 tokens, or the model's longest): as in `predict_model`. `traffic` is a
      mix of passes instead.
    - Limits: memory in bytes (default the chip's usable; `memory_headroom_ratio` of all stays free), seconds of a pass
      (of a mix by phase: `{"decode": 0.03}`, held against its longest pass), and the loss in percent of perplexity
      (`max_loss_pct`, default 3). Where no perplexity was published it is of task accuracy.
    - `parallel`: the devices that share every layer; times are of all together, memory and its limit of one.
    - `losses`: losses of the model's layers (`read_losses`). They replace published ones and start the Pareto search.
    - `formats`: these uniform plans alone; `extra_formats`: beside the usual ones; `strategies`: instead of the six
      named, or beside `formats`.
    - `estimate`: prediction of a pass → its `Estimate`, or None (default: the expected time).
    - `is_runnable`: label of a plan or format → empty, or the reason why the caller's device cannot run it.

    Raises a `RooflineError` naming the field: unknown chip, model or format, a context beyond the model's, a bad limit.
    """
    if losses is not None and not isinstance(losses, MeasuredLosses):
        raise InvalidValueError(
            f"losses must be MeasuredLosses (read_losses, MeasuredLosses.of(table, …)), got a {type(losses).__name__}"
        )
    device, shape = get_chip_and_model(hardware, model)
    parallel = parallel.linked(device)
    if losses is not None and parallel.device_count > 1:
        raise InvalidValueError(
            "losses start a search of a format for each layer, which knows one device: leave them or the other devices out"
        )
    shares = _traffic(shape, phase, batch, context, traffic)
    phase_latencies_s = _phase_latencies(max_latency_s, shares)
    if isinstance(max_latency_s, Mapping):
        max_latency_s = next(iter(max_latency_s.values()), None)
    limits = model_limits(
        device,
        memory_limit_bytes=memory_limit_bytes,
        headroom_ratio=memory_headroom_ratio,
        max_latency_s=max_latency_s if len(shares) == 1 else None,
        phase_latencies_s=phase_latencies_s,
        max_loss_pct=max_loss_pct,
    )
    are_strategies_asked_for = strategies is not None
    if strategies is None:
        strategies = list_strategies(num_layers=shape.layer_count) if formats is None else ()
    wide = wide_format(shape, device)
    plans, unable = candidate_plans(
        shape,
        device,
        wide,
        formats=formats,
        extra_formats=extra_formats,
        strategies=strategies,
        are_strategies_asked_for=are_strategies_asked_for,
    )
    book = None if losses is None else LossBook(losses, shape, wide)
    pricer = PlanPricer(
        device, shape, shares, estimate=estimate, headroom_ratio=memory_headroom_ratio, parallel=parallel
    )
    baseline = pricer.option(plans[0], book)
    search = NO_SEARCH
    if book is not None:
        search = search_plans(
            device,
            shape,
            book,
            wide=wide,
            traffic=shares,
            limits=limits,
            is_ideal=pricer.is_ideal,
            latency_share_of=lambda plan: pricer.latency_share(plan, limits),
            why_not=lambda label: _why_not_searched(label, shape, wide, pricer, is_runnable),
        )
        for candidate in search.candidates:
            plans = add_candidate(plans, candidate)
    options, excluded = _priced(plans, baseline, pricer, book, is_runnable)
    if formats is None and pricer.is_listed:
        pairs = _new_cached_pairs(options, device, shape, wide, plans)
        more, missing = _priced(pairs, baseline, pricer, book, is_runnable)
        options, excluded = [*options, *more], [*excluded, *missing]
    # Search may have turned out to be nothing else than the baseline, whose names are then more.
    baseline = next((option for _, option in options if option.kind == "baseline"), baseline)
    ranking = rank(
        _question(device, shape, shares, limits, parallel.device_count),
        [option for _, option in options],
        baseline,
        limits=limits,
        excluded=[*unable, *search.excluded, *excluded],
        findings=dict.fromkeys([*_findings(device, shape, wide, losses, pricer), *search.findings]),
    )
    return ModelRanking(
        question=ranking.question,
        # `rank` returns the options that it was given.
        options=cast("tuple[PlanOption, ...]", ranking.options),
        baseline=cast("PlanOption | None", ranking.baseline),
        choice=cast("PlanOption | None", ranking.choice),
        alternatives=ranking.alternatives,
        excluded=ranking.excluded,
        findings=(
            *ranking.findings,
            *_ranked_findings(ranking, shape.name, is_claimed=losses is None),
            *_engine_findings(cast("PlanOption | None", ranking.choice), device, shape, shares, parallel),
        ),
        wide=wide,
        traffic=shares,
        limits=limits,
        passes=pricer.passes(ranking.nearest.plan) if isinstance(ranking.nearest, PlanOption) else (),
        searches=search.searches,
        front=search.front,
    )


def model_limits(
    device: Device,
    *,
    memory_limit_bytes: float | None,
    headroom_ratio: float,
    max_latency_s: float | None,
    phase_latencies_s: Mapping[str, float],
    max_loss_pct: float | None,
) -> Limits:
    """Return checked limits; the memory's default is what is usable of the chip's. Raises `InvalidValueError` naming
    the limit.
    """
    latencies_s = [max_latency_s, *phase_latencies_s.values()]
    for name, value in (("memory_limit_bytes", memory_limit_bytes), *(("max_latency_s", each) for each in latencies_s)):
        if value is not None:
            positive_limit(name, value)
    if max_loss_pct is not None and max_loss_pct != 0 and not is_positive(max_loss_pct, 1e6):
        raise InvalidValueError(f"max_loss_pct must be a percentage from 0, got {str(max_loss_pct)[:40]!r}")
    if headroom_ratio != 0 and not is_positive(headroom_ratio, 1):
        raise InvalidValueError(f"memory_headroom_ratio must be a share from 0 to below 1, got {headroom_ratio!r}")
    if memory_limit_bytes is not None:
        least_bytes: float | None = memory_limit_bytes * (1 - headroom_ratio)
    else:
        least_bytes = usable_bytes(device, headroom_ratio)
    capacity = None if device.capacity is None else device.capacity.value
    return Limits(
        memory_bytes=least_bytes,
        memory_limit_bytes=capacity if memory_limit_bytes is None else memory_limit_bytes,
        headroom_ratio=headroom_ratio,
        time_s=max_latency_s,
        phase_times_s=tuple(phase_latencies_s.items()),
        loss_pct=MAX_LOSS_PCT if max_loss_pct is None else float(max_loss_pct),
        is_loss_given=max_loss_pct is not None,
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


def _phase_latencies(limit: float | Mapping[str, float] | None, traffic: Sequence[TrafficShare]) -> dict[str, float]:
    """Return phase → limit of its passes; empty without one, and where a single kind of pass has the only one."""
    phases = list(dict.fromkeys(share.workload.phase for share in traffic))
    if isinstance(limit, Mapping):
        if unknown := [name for name in limit if name not in phases]:
            fix = "; for both give --traffic decode:… --traffic prefill:…" if unknown[0] in PHASES else ""
            raise InvalidValueError(f"a latency of {unknown[0]!r}: the passes are of {' and '.join(phases)} alone{fix}")
        return {} if len(traffic) == 1 else dict(limit)
    if limit is None or len(traffic) == 1:
        return {}
    if len(phases) > 1:
        example = ",".join(f"{phase}={30 if phase == 'decode' else 500}" for phase in phases)
        raise InvalidValueError(
            f"one latency for {' and '.join(phases)} together says nothing of either: name the phase, e.g. in "
            f"milliseconds {example}"
        )
    return {phases[0]: limit}


def _question(
    device: Device, shape: ModelShape, traffic: Sequence[TrafficShare], limits: Limits, device_count: int
) -> Question:
    work, is_mix = traffic[0].workload, len(traffic) > 1
    of_pass = () if is_mix else (("batch", work.batch_count), ("context", work.context_count))
    devices = (("devices", device_count),) if device_count > 1 else ()
    return Question(
        subject="model",
        hardware=device.key,
        name=shape.name,
        sizes=(*of_pass, *devices),
        phase="" if is_mix else work.phase,
        limits=limits.values,
    )


def _why_not_searched(
    label: str, shape: ModelShape, wide: str, pricer: PlanPricer, is_runnable: IsRunnable | None
) -> Finding | None:
    """Return why a format is not searched: no kernel, not on the caller's device, or a time of another kind; else None.

    `kv=FORMAT` is a format of the cache, for which the caller is not asked.
    """
    name, _, cache = label.partition("=")
    if pricer.is_listed and (gap := missing_kernel(pricer.device, label)) is not None:
        return gap
    if cache:
        return pricer.why_incomparable(uniform_plan(f"{wide}.{wide}.{cache}", shape, wide))
    reason = is_runnable(label) if is_runnable is not None else ""
    if reason:
        return finding("cannot-run", label, error=reason)
    return pricer.why_incomparable(uniform_plan(name, shape, wide))


def _priced(
    plans: Sequence[CandidatePlan],
    baseline: PlanOption,
    pricer: PlanPricer,
    book: LossBook | None,
    is_runnable: IsRunnable | None,
) -> tuple[list[tuple[CandidatePlan, PlanOption]], list[Exclusion]]:
    """Return the plans that the chip and the caller's device can run with their options, and the others."""
    options: list[tuple[CandidatePlan, PlanOption]] = []
    excluded: list[Exclusion] = []
    for candidate in plans:
        reason = _why_not_run(candidate, pricer, is_runnable)
        if reason is not None:
            excluded.append(Exclusion(candidate.label, (reason,)))
            continue
        try:
            option = baseline if candidate.kind == "baseline" else pricer.option(candidate, book)
        except UnsupportedError as error:
            excluded.append(Exclusion(candidate.label, (finding("cannot-run", candidate.label, error=str(error)),)))
            continue
        # The baseline was priced before a search could turn out to be nothing else.
        options.append((candidate, replace(option, aliases=candidate.aliases)))
    return options, excluded


def _new_cached_pairs(
    options: Iterable[tuple[CandidatePlan, PlanOption]],
    device: Device,
    shape: ModelShape,
    wide: str,
    plans: Iterable[CandidatePlan],
) -> list[CandidatePlan]:
    """Return the priced plans whose cache is large with an FP8 cache, but for those that are plans already."""
    weighed = [(candidate, option.memory) for candidate, option in options if option.memory is not None]
    formats = [candidate.formats for candidate in plans]
    return [pair for pair in cached_pairs(weighed, device, shape, wide) if pair.formats not in formats]


def _why_not_run(candidate: CandidatePlan, pricer: PlanPricer, is_runnable: IsRunnable | None) -> Finding | None:
    reason = is_runnable(candidate.label) if is_runnable is not None and candidate.kind != "search" else ""
    if reason:
        return finding("cannot-run", candidate.label, error=reason)
    is_free = candidate.is_asked_for or candidate.kind in ("baseline", "published", "search")
    return None if is_free or not pricer.is_listed else plan_kernels(candidate.formats, pricer.device)[1]


def _findings(
    device: Device, shape: ModelShape, wide: str, losses: MeasuredLosses | None, pricer: PlanPricer
) -> list[Finding]:
    """Return what to know about the answer as a whole before it is ranked."""
    findings = [finding("placeholder-chip", device.key)] if device.is_placeholder else []
    if pricer.is_ideal or pricer.is_by_ceilings:
        findings.append(finding("ranked-by-bounds", device.key, kind="ideals" if pricer.is_ideal else "ceilings"))
        if not device.is_placeholder and (why_not := pricer.why_no_expected) is not None:
            findings.append(why_not)
    findings += doubts_of(device)
    if wide != shape.wide_format:
        findings.append(finding("other-wide-format", shape.name, own=shape.wide_format, wide=wide))
    if losses is not None:
        findings.append(
            finding("losses-applied", losses.model, kind="used", source=losses.source, confidence=losses.confidence)
        )
        if losses.note:
            findings.append(finding("losses-doubtful", losses.model, kind="note", note=losses.note))
        if not losses.is_of(shape.name):
            findings.append(finding("losses-doubtful", losses.model, kind="other-model", model=shape.name))
    return findings


def _ranked_findings(ranking: Ranking, model: str, *, is_claimed: bool) -> list[Finding]:
    """Return what to know of the ranked plans together: whose their claims are, what their times stand for."""
    findings: list[Finding] = []
    options, choice, baseline = ranking.options, ranking.choice, ranking.baseline
    if is_claimed:
        claimed = [option for option in options if option.loss.source == "claimed"]
        for kind, is_own in (("model", True), ("others", False)):
            keys = tuple(option.key for option in claimed if option.loss.is_of_model == is_own)
            findings += [finding("losses-published", model, kind=kind, options=keys)] if keys else []
    if choice is None or baseline is None:
        return findings
    near = [option for option in options if _is_near_reference(option, choice)]
    if near:
        kernel = next(item.value("kernel") for item in near[0].findings if item.code == "reference-kernel")
        keys = tuple(option.key for option in near)
        findings.append(finding("reference-kernel", kind="options", kernel=str(kernel), options=keys))
    if baseline.estimate.source != "ceilings":
        untimed = tuple(option.key for option in options if option.estimate.source == "ceilings")
        findings += [finding("untimed-kernels", options=untimed)] if untimed else []
    return findings


def _engine_findings(
    choice: PlanOption | None, device: Device, shape: ModelShape, shares: Sequence[TrafficShare], parallel: Parallel
) -> list[Finding]:
    """Return what the decode step of a uniform plan takes in each engine that is known for it, the fastest first."""
    if choice is None or len(shares) > 1 or shares[0].workload.phase != "decode" or choice.kind not in _UNIFORM_KINDS:
        return []
    plan, count = choice.plan, parallel.device_count
    return engine_passes(
        Checkpoint(decoder_of(shape), None, shape.expert_format or shape.weight_format or shape.wide_format),
        plan.of("experts" if shape.experts is not None else "ffn").weights,
        device,
        batch=shares[0].workload.batch_count,
        context=shares[0].workload.context_count,
        cache_bytes=get_format(plan.kv).nominal_bits / 8,
        layout=Layout(count, count, expert_rank_count=count, link_bytes_per_s=parallel.link_bytes_per_s),
    )


_UNIFORM_KINDS = ("baseline", "published", "uniform")


def _is_near_reference(option: Option, choice: Option) -> bool:
    """Return whether an option rests on another kernel's times, and is the choice or begins its interval before its
    end.
    """
    if not has_code(option.findings, "reference-kernel") or has_code(option.findings, "kernel-gap"):
        return False
    estimate = option.estimate
    begins_s = estimate.time_s if estimate.low_s is None else estimate.low_s
    is_alike = is_comparable(estimate.source, choice.estimate.source)
    return is_alike and (option is choice or begins_s <= choice.estimate.prudent_s)
