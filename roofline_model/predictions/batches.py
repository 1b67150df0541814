"""Batch against latency for a served model: per format the time per token and the tokens per second of every batch.

A decode step gives every sequence of a batch one token, so its time is the time per token. `first_token_s` is that of
one request alone on an idle chip, as everywhere; one that arrives while the batch decodes waits for the step in flight
first. Queueing is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Source, is_comparable
from roofline_model.core.finding import Finding
from roofline_model.models.llm import ModelPrediction, first_token_pass, predict_model
from roofline_model.models.model_shapes import DEFAULT_CONTEXT, ModelShape
from roofline_model.recommend.expected_passes import ExpectedPasses
from roofline_model.recommend.model import ModelRanking, recommend_model
from roofline_model.recommend.plan_formats import plan_name
from roofline_model.recommend.plan_options import PlanOption
from roofline_model.recommend.ranking import LEVEL_RATIO

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DRAWN_KINDS = ("baseline", "published", "uniform")
"""Kinds of plans that are one format; mixed strategies are no line of their own."""


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """One batch of one format."""

    batch_count: int
    """Sequences that are decoded together, count."""
    token_s: float
    """Time per token of a sequence: one decode step, seconds."""
    first_token_s: float
    """Time to the first token of one request alone, as `predict model` has it: its own prefill, seconds."""
    arriving_first_token_s: float
    """Of a request that arrives while the batch decodes: the step in flight and its own prefill, seconds."""
    tokens_per_s: float
    """Of all sequences together, tokens per second."""
    memory_bytes: float
    """Weights, cache and activations, bytes."""
    time_source: Source
    """expected, ceilings or ideal."""
    is_within_limits: bool = True
    """Whether it keeps both limits of time."""


@dataclass(frozen=True, slots=True)
class BatchCurve:
    """The batches of one format that fit the memory."""

    plan: str
    """Key of the plan."""
    name: str
    """What people call its formats: `INT4 (W4A16)`."""
    loss_pct: float | None
    """What quality loses at most, percent; null: nobody knows."""
    is_loss_claimed: bool
    """Whether that was published, not measured."""
    is_within_loss: bool
    """Whether it keeps the limit of loss; only such a format is named the best."""
    points: tuple[BatchPoint, ...]
    """Smallest batch first."""


@dataclass(frozen=True, slots=True)
class BatchChoice:
    """The format and the batch with the most tokens per second within the limits."""

    plan: str
    """Key of the plan."""
    name: str
    """What people call its formats."""
    point: BatchPoint
    """Its batch with its times."""


@dataclass(frozen=True, slots=True)
class BatchCurves:
    """What a chip serves of a model, per format and batch."""

    hardware: str
    """Key of the chip."""
    hardware_name: str
    """Product name of the chip."""
    model: str
    """Name of the model."""
    context_count: int
    """Tokens of a sequence in the cache, the new one among them; the prompt of a new request has the others; count."""
    max_loss_pct: float
    """Most that quality may lose, percent."""
    max_token_s: float | None
    """Limit of the time per token, seconds; null: none."""
    max_first_token_s: float | None
    """Limit of the time to the first token of a request that arrives, seconds; null: none."""
    curves: tuple[BatchCurve, ...]
    """In the order of the ranking for one sequence."""
    choice: BatchChoice | None
    """null where nothing keeps the limits."""
    findings: tuple[Finding, ...]
    """What to know about the times, may be empty."""


def batch_curves(
    chip: Device,
    shape: ModelShape,
    *,
    context: int | None = None,
    memory_limit_bytes: float | None = None,
    max_loss_pct: float | None = None,
    max_token_s: float | None = None,
    max_first_token_s: float | None = None,
    batches: Sequence[int] = BATCHES,
) -> BatchCurves:
    """Return the curves of the formats that `recommend_model` ranks for one sequence, and of the alternatives it names.

    Raises a `RooflineError` as `recommend_model`.
    """
    tokens = min(DEFAULT_CONTEXT, shape.max_context_size) if context is None else context
    ranking = recommend_model(
        chip, shape, context=tokens, memory_limit_bytes=memory_limit_bytes, max_loss_pct=max_loss_pct
    )
    assert ranking.limits.loss_pct is not None  # of a model it is always set
    passes = ExpectedPasses(chip)
    assert ranking.baseline is not None  # 16 bit is always predicted
    for batch in batches:  # the reference that every other format is held against comes first
        passes(_pass(chip, shape, ranking.baseline, "decode", batch, tokens))
    passes(first_token_pass(_pass(chip, shape, ranking.baseline, "decode", 1, tokens), chip))
    keys = {option.key for option in ranking.options}
    curves = (
        BatchCurve(
            plan=option.key,
            name=plan_name(option),
            loss_pct=0.0 if option.loss.source == "reference" else option.loss.pct,
            is_loss_claimed=option.loss.source == "claimed",
            is_within_loss=option.key in keys,
            points=_points(chip, shape, option, batches, tokens, ranking.limits.memory_bytes, passes),
        )
        for option in _drawn(ranking)
    )
    return with_limits(
        BatchCurves(
            hardware=chip.key,
            hardware_name=chip.name,
            model=shape.name,
            context_count=tokens,
            max_loss_pct=ranking.limits.loss_pct,
            max_token_s=None,
            max_first_token_s=None,
            curves=tuple(curve for curve in curves if curve.points),
            choice=None,
            findings=tuple(dict.fromkeys(item for item in ranking.findings if item.severity != "info")),
        ),
        max_token_s=max_token_s,
        max_first_token_s=max_first_token_s,
    )


def with_limits(curves: BatchCurves, *, max_token_s: float | None, max_first_token_s: float | None) -> BatchCurves:
    """Return the same curves held against other limits of time, with the choice that these leave."""
    held = tuple(
        replace(
            curve,
            points=tuple(
                replace(
                    point,
                    is_within_limits=point.token_s <= (max_token_s or inf)
                    and point.arriving_first_token_s <= (max_first_token_s or inf),
                )
                for point in curve.points
            ),
        )
        for curve in curves.curves
    )
    return replace(
        curves,
        max_token_s=max_token_s,
        max_first_token_s=max_first_token_s,
        curves=held,
        choice=_choice(held),
    )


def _choice(curves: Sequence[BatchCurve]) -> BatchChoice | None:
    """Return the most tokens per second within the limits; of rates level with it the format that is ranked first."""
    best = [
        (curve, max(within, key=lambda point: point.tokens_per_s))
        for curve in curves
        if curve.is_within_loss and (within := [point for point in curve.points if point.is_within_limits])
    ]
    if not best:
        return None
    source = best[0][1].time_source
    alike = [(curve, point) for curve, point in best if is_comparable(point.time_source, source)]
    most = max(point.tokens_per_s for _, point in alike)
    curve, point = next(pair for pair in alike if pair[1].tokens_per_s * (1 + LEVEL_RATIO) >= most)
    return BatchChoice(curve.plan, curve.name, point)


def _drawn(ranking: ModelRanking) -> list[PlanOption]:
    """Return the ranked plans of one format, then the alternatives that the ranking names."""
    named = [each.option for each in ranking.alternatives if isinstance(each.option, PlanOption)]
    plans = {option.key: option for option in (*ranking.options, *named)}
    return [option for option in plans.values() if option.kind in DRAWN_KINDS]


def _points(
    chip: Device,
    shape: ModelShape,
    option: PlanOption,
    batches: Sequence[int],
    tokens: int,
    memory_bytes: float | None,
    passes: ExpectedPasses,
) -> tuple[BatchPoint, ...]:
    prefill_s, _ = _time(first_token_pass(_pass(chip, shape, option, "decode", 1, tokens), chip), passes)
    points = []
    for batch in batches:
        step = _pass(chip, shape, option, "decode", batch, tokens)
        if memory_bytes is not None and step.memory.total_bytes > memory_bytes:
            break
        token_s, source = _time(step, passes)
        points.append(
            BatchPoint(
                batch_count=batch,
                token_s=token_s,
                first_token_s=prefill_s,
                arriving_first_token_s=token_s + prefill_s,
                tokens_per_s=step.token_count / token_s,
                memory_bytes=step.memory.total_bytes,
                time_source=source,
            )
        )
    return tuple(points)


def _pass(chip: Device, shape: ModelShape, option: PlanOption, phase: str, batch: int, tokens: int) -> ModelPrediction:
    return predict_model(chip, shape, phase, batch=batch, context=tokens, formats=option.plan)


def _time(prediction: ModelPrediction, passes: ExpectedPasses) -> tuple[float, Source]:
    step = passes(prediction)
    return (prediction.time_s, "ideal") if step is None else (step.time_s, step.source)
