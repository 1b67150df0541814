"""Request and answer about the formats of a whole model: ranked plans, excluded ones, the plan to take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from reports.api.answer_models import answer_model
from reports.api.predict.base_models import Answer, Dimension, FindingBody, PhaseName, Request
from roofline_model.predictions.model import PassPrediction

if TYPE_CHECKING:
    PassModel = Answer
else:
    PassModel = answer_model(PassPrediction)

_PLAN_NAME = Annotated[str, Field(strict=True, min_length=1, max_length=121)]


class ModelRecommendRequest(Request):
    """Which formats should a model have for one kind of pass, within these limits?"""

    model_config = ConfigDict(
        **Request.model_config,
        json_schema_extra={
            "examples": [
                {"phase": "decode", "context_tokens": 8192, "max_loss_pct": 2},
                {"phase": "prefill", "batch_count": 4, "memory_limit_gb": 24, "formats": ["FP8", "INT4.BF16"]},
            ]
        },
    )

    phase: PhaseName = Field(default="decode", description="decode: one new token per sequence; prefill: the prompt")
    batch_count: Dimension = Field(default=1, description="sequences in a pass, count")
    context_tokens: Dimension | None = Field(
        default=None, description="tokens a sequence has after the pass; default 4096, or the model's longest"
    )
    memory_limit_gb: float | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="weights, cache and activations have to fit; decimal gigabytes (1e9 bytes); default: the chip's memory",
    )
    memory_headroom_ratio: float = Field(default=0.0, ge=0, lt=1, description="share of that memory to keep free")
    max_latency_s: float | None = Field(default=None, gt=0, le=1e9, description="longest time of a pass, seconds")
    max_loss_pct: float | None = Field(
        default=None,
        ge=0,
        lt=1e6,
        description="most that quality may lose, percent; default: 1 where it was measured on the model, 16 where others published it",
    )
    formats: Annotated[list[_PLAN_NAME], Field(min_length=1, max_length=24)] | None = Field(
        default=None,
        description="uniform plans to weigh in place of the usual ones: `INT4.BF16`, weight.activation.cache",
    )


class TrafficBody(Answer):
    """One kind of pass and its share."""

    phase: str = Field(description="decode or prefill")
    batch_count: int = Field(description="sequences, count")
    context_count: int = Field(description="tokens of a sequence after the pass, count")
    new_count: int = Field(description="new tokens of a sequence, count")
    share_ratio: float = Field(description="share of the passes")


class ModelLimitsBody(Answer):
    """What a plan has to keep."""

    memory_limit_bytes: float | None = Field(description="bytes; null where the chip's memory is not known")
    memory_headroom_ratio: float = Field(description="share of it that stays free")
    max_latency_s: float | None = Field(description="seconds; null: no limit")
    max_loss_pct: float = Field(description="of a loss measured on the model itself, percent")
    max_claimed_loss_pct: float = Field(
        description="of a loss that others published, percent; the same where the request set it"
    )
    is_loss_given: bool = Field(description="whether the request said max_loss_pct")


class PlanMemory(Answer):
    """What has to fit."""

    weights_bytes: float = Field(description="bytes")
    kv_bytes: float = Field(description="KV cache, bytes")
    activation_bytes: float = Field(description="bytes")
    total_bytes: float = Field(description="bytes")


class PlanQualityBody(Answer):
    """What is known of a plan's loss, and from where."""

    source: str = Field(description="reference, measured, estimated, claimed, unknown")
    text: str = Field(description="the loss in words")
    loss_pct: float | None = Field(
        description="rise of perplexity, percent; of a claim its upper end, of task accuracy where no perplexity was published"
    )
    loss_value: float | None = Field(description="sum of the layers' losses, in loss_unit")
    loss_unit: str | None = Field(description="unit of loss_value: `nats/token`; null without a table of losses")
    at_least_pct: float | None = Field(description="what the measured layers alone lose, percent")
    note: str | None = Field(description="what to know about that number; null where there is nothing")


class ModelPlan(Answer):
    """One plan for the weights, activations and cache of a model."""

    plan: str = Field(description="`INT4.BF16`, or the name of a strategy")
    kind: str = Field(description="baseline, published, uniform or strategy")
    aliases: list[str] = Field(description="other names of the same plan")
    formats: str = Field(description="the plan in a line: `INT4.BF16; cache FP8_E4M3`")
    method: str = Field(description="how to get there: none, AWQ, PTQ, native_fp8, …, joined by +")
    path: str = Field(description="how the chip runs it")
    kernels: str | None = Field(
        description="kernels of released engines that its narrow parts need; null where none is listed"
    )
    kernel_gap: FindingBody | None = Field(
        description="why no kernel is known for a part of a plan that was named, which is never the one to take; null for others"
    )
    ideal_s: float = Field(description="speed of light of a pass, seconds")
    time_s: float = Field(description="time of a pass, seconds")
    time_source: str = Field(description="expected or ideal")
    prudent_s: float = Field(
        description="time it is ranked by, seconds: high_s where there is an interval, else time_s"
    )
    low_s: float | None = Field(description="lower end of the 80 % interval, seconds")
    high_s: float | None = Field(description="upper end of the 80 % interval, seconds")
    time_provenance: str | None = Field(description="of an expected time: fitted, transferred-sibling, …")
    tokens_per_s: float = Field(description="tokens computed at time_s, tokens per second")
    speedup_ratio: float = Field(description="16-bit time over this one, times of the same kind")
    is_speedup_ideal: bool = Field(description="whether that is of the ideals, as the times cannot be compared")
    ideal_speedup_ratio: float = Field(description="ideal 16-bit time over the ideal time of this one")
    bound: str = Field(description="memory or compute, of the ideal time")
    memory: PlanMemory = Field(description="what it takes of the chip's memory")
    quality: PlanQualityBody = Field(description="what is known of its loss")
    reason: str = Field(description="why it stands where it stands")


class LimitMissBody(Answer):
    """A limit that a plan misses."""

    limit: str = Field(description="memory, latency or quality")
    value: float = Field(description="of the plan, in the limit's unit: bytes, seconds, percent")
    limit_value: float = Field(description="the limit, in the same unit")
    excess_ratio: float | None = Field(description="how far beyond it, as a share of the limit; null for a limit of 0")


class ExcludedPlanBody(Answer):
    """A plan that is not ranked, and why."""

    plan: str = Field(description="label of the plan")
    reason: str = Field(description="why it is excluded")
    misses: list[LimitMissBody] = Field(description="limits that it misses; empty for one that cannot run")
    candidate: ModelPlan | None = Field(description="its figures; null where it could not be predicted")


class AlternativePlanBody(Answer):
    """The plan that a tighter limit of the loss would choose in place of one that loses much."""

    plan: str = Field(description="label of the plan, to be found among the plans")
    max_loss_pct: float = Field(description="the limit of the loss that chooses it, percent")
    slowdown_ratio: float | None = Field(description="its time over that of the chosen plan; null: not comparable")
    text: str = Field(description="the plan, its loss and its cost in time, in a line")


class ModelRecommendation(Answer):
    """The ranked plans of a model on a chip."""

    hardware: str = Field(description="key of the chip")
    hardware_name: str = Field(description="product name of the chip")
    is_placeholder: bool = Field(description="the chip's numbers are invented, for examples only")
    model: str = Field(description="name of the model")
    wide_format: str = Field(description="16-bit format of the baseline")
    traffic: list[TrafficBody] = Field(description="the passes that the time is of")
    limits: ModelLimitsBody = Field(description="the limits a plan has to keep")
    time_source: Literal["expected", "ideal"] = Field(description="kind of time that the ranking goes by")
    summary: str = Field(description="the decision in a sentence, or by how much the nearest misses which limit")
    chosen: str | None = Field(description="the plan to take; null: none meets the limits")
    prediction: PassModel | None = Field(
        description="the pass with that plan, as /predict tells one, kernel by kernel; null where none meets the limits"
    )
    lower_loss_alternative: AlternativePlanBody | None = Field(
        description="what loses little in place of the chosen plan; null where that loses little, or nothing else does"
    )
    findings: list[FindingBody] = Field(description="what to know about it, may be empty")
    baseline: ModelPlan = Field(description="the 16-bit plan that speed-ups are counted against")
    candidates: list[ModelPlan] = Field(description="best first; those whose loss nobody knows stand last")
    excluded: list[ExcludedPlanBody] = Field(description="nearest to the limits first, then what cannot run")
