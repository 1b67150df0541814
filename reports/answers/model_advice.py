"""A recommendation for a whole model as an answer: what `--json` and the API give."""

from __future__ import annotations

from dataclasses import dataclass

from reports.answers.option_answer import OptionAnswer, option_figures
from reports.present.predicted.advice import RankingOn, ShortAnswer, model_answer
from reports.present.predicted.words import Asked, execution_text, place_reason, plan_text, quality_note, with_names
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Alternative, AlternativeRole, Exclusion, Memory, PhaseTime, Source, is_comparable
from roofline_model.core.finding import Finding, findings_text, short_text
from roofline_model.models.llm import predict_model
from roofline_model.models.model_shapes import ModelShape
from roofline_model.predictions.model import PassPrediction, pass_prediction
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.model import ModelRanking
from roofline_model.recommend.plan_formats import plan_name
from roofline_model.recommend.plan_options import PlanOption
from roofline_model.recommend.ranking import Limits, alternative_finding, excess_ratio
from roofline_model.recommend.search.model_problem import TrafficShare
from roofline_model.recommend.search.plan_search import FormatSearch
from roofline_model.recommend.search.search import GroupReason

LIMITS = {
    "misses-memory-limit": "memory",
    "misses-time-limit": "latency",
    "misses-phase-limit": "latency",
    "misses-loss-limit": "quality",
}
"""Code of a missed limit → its name in JSON."""


@dataclass(frozen=True, slots=True)
class PlanQuality:
    """What is known of a plan's loss, and from where."""

    source: str
    """reference, measured, estimated, claimed, unknown."""
    text: str
    """The loss in words."""
    loss_pct: float | None
    """Rise of perplexity, percent; of a claim its upper end, of task accuracy where no perplexity was published."""
    loss_value: float | None
    """Sum of the layers' losses, in loss_unit."""
    loss_unit: str | None
    """Unit of loss_value: `nats/token`; null without a table of losses."""
    at_least_pct: float | None
    """What the measured layers alone lose, percent."""
    note: str | None
    """What to know about that number; null where there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan(OptionAnswer):
    """One plan for the weights, activations and cache of a model; its times are of a pass."""

    plan: str
    """`INT4.BF16`, or the name of a strategy."""
    name: str
    """What people call its formats: `INT4 (W4A16)`; of a mixed plan its key."""
    kind: str
    """baseline, published, uniform, strategy or search."""
    aliases: tuple[str, ...]
    """Other names of the same plan."""
    formats: str
    """The plan in a line: `INT4.BF16; cache FP8_E4M3`."""
    method: str
    """How to get there: none, AWQ, PTQ, native_fp8, …, joined by +."""
    kernels: str | None
    """Kernels of released engines that its narrow parts need; null where none is listed."""
    prudent_s: float
    """Time it is ranked by, seconds: high_s where there is an interval, else time_s."""
    tokens_per_s: float | None
    """Tokens computed at time_s, tokens per second; null for a mix of phases, whose tokens are not of one kind."""
    phases: tuple[PhaseTime, ...]
    """Of a mix of passes, by phase; empty for a single kind."""
    is_speedup_ideal: bool
    """Whether speedup_ratio is of the ideals, as the times cannot be compared."""
    ideal_speedup_ratio: float | None
    """Ideal 16-bit time over the ideal time of this one."""
    memory: Memory | None
    """What it takes of the chip's memory."""
    quality: PlanQuality
    """What is known of its loss."""


@dataclass(frozen=True, slots=True)
class LimitMiss:
    """A limit that a plan misses."""

    limit: str
    """memory, latency or quality."""
    value: float
    """Of the plan, in the limit's unit: bytes, seconds, percent."""
    limit_value: float
    """The limit, in the same unit."""
    excess_ratio: float | None
    """How far beyond it, as a share of the limit; null for a limit of 0."""


@dataclass(frozen=True, slots=True)
class ExcludedPlan:
    """A plan that is not ranked, and why."""

    plan: str
    """Label of the plan."""
    reason: str
    """Why it is excluded."""
    misses: tuple[LimitMiss, ...]
    """Limits that it misses; empty for one that cannot run."""
    candidate: ModelPlan | None
    """Its figures; null where it could not be predicted."""


@dataclass(frozen=True, slots=True)
class AlternativePlan:
    """A plan worth naming beside the chosen one."""

    role: AlternativeRole
    """riskier: faster, or all that fits, and loses more than the limit. lower-loss: within the default limit of the
    loss. safest: loses nothing, or least.
    """
    plan: ModelPlan
    """The plan with its figures."""
    slowdown_ratio: float | None
    """Its time over that of the chosen plan; null: not comparable, or nothing is chosen."""
    text: str
    """The plan, its time and its loss, in a line."""


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """One search of a format per group of layers; only where losses of the layers are known."""

    plan: str
    """Label of the plan it made."""
    goal: str
    """What it looked for."""
    loss_source: str
    """Where the losses come from."""
    loss_unit: str | None
    """Unit of every loss of the search: `nats/token`."""
    confidence: str
    """How far sums of these losses are to be trusted."""
    gap_value: float | None
    """How much less a plan might still lose, in loss_unit; 0: proven best."""
    passes_count: int
    """Passes of a model that it predicted, count."""
    groups: tuple[GroupReason, ...]
    """The groups of layers, in the model's order."""


@dataclass(frozen=True, slots=True)
class FrontPlan:
    """A plan of the search that no other beats in loss, time and memory."""

    loss_value: float
    """Sum of the layers' losses, in loss_unit."""
    loss_unit: str | None
    """Unit of loss_value: `nats/token`."""
    time_s: float
    """Of a pass, seconds."""
    memory_bytes: float
    """Bytes."""
    formats: tuple[str, ...]
    """Format of every group, in the order of the groups."""


@dataclass(frozen=True, slots=True)
class ModelRecommendation:
    """The ranked plans of a model on a chip."""

    hardware: str
    """Key of the chip."""
    hardware_name: str
    """Product name of the chip."""
    is_placeholder: bool
    """Whether the chip's numbers are invented, for examples only."""
    model: str
    """Name of the model."""
    wide_format: str
    """16-bit format of the baseline."""
    traffic: tuple[TrafficShare, ...]
    """The passes that the time is of."""
    limits: Limits
    """The limits a plan has to keep."""
    time_source: Source
    """Kind of time that the ranking goes by: expected, ceilings or ideal."""
    summary: str
    """The decision in a sentence, or by how much the nearest misses which limit."""
    chosen: str | None
    """The plan to take; null: none meets the limits."""
    prediction: PassPrediction | None
    """The first pass of the traffic with that plan, kernel by kernel; null where none meets the limits."""
    alternatives: tuple[AlternativePlan, ...]
    """Up to two plans beside the chosen one: what is faster for more loss, or loses less, and what loses least."""
    findings: tuple[Finding, ...]
    """What to know about it, may be empty."""
    baseline: ModelPlan
    """The 16-bit plan that speed-ups are counted against."""
    candidates: tuple[ModelPlan, ...]
    """Best first; those whose loss nobody knows stand last."""
    excluded: tuple[ExcludedPlan, ...]
    """Nearest to the limits first, then what cannot run."""
    searches: tuple[PlanSearch, ...]
    """Searches of a format per layer; empty without losses of the model's layers."""
    front: tuple[FrontPlan, ...]
    """Plans of the searches, least loss first; empty without losses of the model's layers."""
    short_answer: ShortAnswer
    """Its first lines: what to take, the options by name, what to type next."""


def model_advice(
    ranking: ModelRanking,
    chip: Device,
    shape: ModelShape,
    asked: Asked = (),
    ranking_on: RankingOn | None = None,
) -> ModelRecommendation:
    """Return the ranking of a model's plans as an answer; the plan to take is predicted kernel by kernel. `asked`: the
    question as it is typed.
    """
    baseline, choice = ranking.baseline, ranking.choice
    assert baseline is not None  # 16 bit is always predicted
    unit = next((option.loss.unit for option in ranking.options if option.loss.unit), None)
    return ModelRecommendation(
        hardware=chip.key,
        hardware_name=chip.name,
        is_placeholder=chip.is_placeholder,
        model=ranking.question.name,
        wide_format=ranking.wide,
        traffic=ranking.traffic,
        limits=ranking.limits,
        time_source=baseline.estimate.source,
        summary=str(ranking),
        chosen=None if choice is None else choice.key,
        prediction=None if choice is None else _first_pass(choice, ranking, chip, shape),
        alternatives=tuple(_alternative(each, ranking) for each in ranking.alternatives),
        findings=tuple(dict.fromkeys(ranking.findings)),
        baseline=_plan(baseline, ranking),
        candidates=tuple(_plan(option, ranking) for option in ranking.options),
        excluded=tuple(_excluded(exclusion, ranking) for exclusion in ranking.excluded),
        searches=tuple(_search(search, unit) for search in ranking.searches),
        front=tuple(
            FrontPlan(point.loss_value, unit, point.time_s, point.memory_bytes, point.labels) for point in ranking.front
        ),
        short_answer=model_answer(ranking, chip, asked, ranking_on=ranking_on),
    )


def _first_pass(choice: PlanOption, ranking: ModelRanking, chip: Device, shape: ModelShape) -> PassPrediction:
    """Return the first pass with the plan to take: no question about a prediction could name a mixed plan."""
    work = ranking.traffic[0].workload
    ideal = predict_model(
        chip,
        shape,
        work.phase,
        batch=work.batch_count,
        context=work.context_count,
        new_tokens=work.new_count,
        formats=choice.plan,
        memory_headroom_ratio=ranking.limits.headroom_ratio,
    )
    return pass_prediction(ideal, chip)


def _plan(option: PlanOption, ranking: ModelRanking) -> ModelPlan:
    estimate, loss, baseline = option.estimate, option.loss, ranking.baseline
    return ModelPlan(
        **option_figures(option) | {"path": execution_text(option.execution), "reason": place_reason(option)},
        plan=option.key,
        name=plan_name(option),
        kind=option.kind,
        aliases=option.aliases,
        formats=plan_text(option.parts),
        method=option.method,
        kernels=option.kernel,
        prudent_s=estimate.prudent_s,
        tokens_per_s=option.tokens_per_s,
        phases=option.phases,
        is_speedup_ideal=baseline is not None and not is_comparable(estimate.source, baseline.estimate.source),
        ideal_speedup_ratio=option.ideal_speedup_ratio,
        memory=option.memory,
        quality=PlanQuality(
            source=loss.source,
            text=loss_text(loss),
            loss_pct=loss.pct,
            loss_value=loss.value,
            loss_unit=loss.unit or None,
            at_least_pct=loss.at_least_pct,
            note=quality_note(option) or None,
        ),
    )


def _alternative(alternative: Alternative, ranking: ModelRanking) -> AlternativePlan:
    option = alternative.option
    assert isinstance(option, PlanOption)  # of a model's ranking
    return AlternativePlan(
        role=alternative.role,
        plan=_plan(option, ranking),
        slowdown_ratio=alternative.slowdown_ratio,
        text=short_text(alternative_finding(alternative, ranking)),
    )


def _excluded(exclusion: Exclusion, ranking: ModelRanking) -> ExcludedPlan:
    option = exclusion.option
    assert option is None or isinstance(option, PlanOption)  # of a model's ranking
    return ExcludedPlan(
        plan=exclusion.key,
        reason=findings_text(map(with_names, exclusion.findings)),
        misses=tuple(_miss(item) for item in exclusion.findings if item.code in LIMITS),
        candidate=None if option is None else _plan(option, ranking),
    )


def _miss(item: Finding) -> LimitMiss:
    (_, value), (_, limit_value) = item.values[:2]
    return LimitMiss(LIMITS[item.code], value, limit_value, excess_ratio(item))  # type: ignore[arg-type]


def _search(search: FormatSearch, loss_unit: str | None) -> PlanSearch:
    problem = search.choice.problem
    return PlanSearch(
        plan=search.label,
        goal=short_text(search.goal),
        loss_source=problem.loss_source,
        loss_unit=loss_unit,
        confidence=problem.confidence,
        gap_value=search.choice.gap_value,
        passes_count=search.passes_count,
        groups=search.choice.reasons,
    )
