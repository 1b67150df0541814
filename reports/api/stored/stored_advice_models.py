"""Answers that rank what the stored runs say, with the evidence of each row. The fields are those of `reports.formats.ranking_json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from reports.api.answer_models import answer_model
from reports.api.base_models import Answer, FindingBody
from reports.api.stored.stored_models import Page
from reports.stored.answer import RankChange, Refused
from roofline_model.core.answer import Loss

if TYPE_CHECKING:
    LossModel = Answer
    RefusedModel = Answer
    RankChangeModel = Answer
else:
    LossModel = answer_model(Loss)
    RefusedModel = answer_model(Refused)
    RankChangeModel = answer_model(RankChange)


class EvidenceBody(Answer):
    """One run that a row rests on."""

    run_id: str = Field(description="id of the run")
    started_at: str = Field(description="UTC, ISO 8601")
    label: str | None = Field(description="its label; null without one")
    process_count: int = Field(description="processes that measured it in this run, count")
    record_ids: list[str] = Field(description="records of that run behind the row")
    run_url: str = Field(description="path of this API: the run")
    case_url: str | None = Field(description="path of this API: the very case in that run; null where it has no key")


class StoredRowBody(Answer):
    """One configuration with its time, its loss, its confidence and its evidence."""

    rank: int = Field(description="place, from 1, count")
    label: str = Field(description="the configuration: formats and kernel")
    weight_format: str | None = Field(description="format key of the weight; null where not known")
    activation_format: str | None = Field(description="format key of the activation; null where not known")
    kernel: str | None = Field(description="null: no kernel was run or predicted; the model proposes the formats")
    method: str | None = Field(description="how the weights were quantised; null where not known")
    path: str | None = Field(description="native, emulated or dequantize")
    is_baseline: bool = Field(description="whether speed-ups are counted against this row")
    time_source: Literal["measured", "expected", "ideal"] = Field(description="kind of time_s")
    time_s: float = Field(description="seconds")
    low_s: float | None = Field(
        description="lower end of the interval (95 % of a measured, 80 % of an expected time), seconds"
    )
    high_s: float | None = Field(description="upper end, seconds")
    expected_s: float | None = Field(description="seconds")
    ideal_s: float | None = Field(description="seconds")
    speedup_ratio: float | None = Field(description="over the baseline, times of the same kind")
    speedup_low_ratio: float | None = Field(
        description="lower end of the 95 % interval of a measured speed-up, by both times; null where one has none"
    )
    speedup_high_ratio: float | None = Field(description="upper end of that interval")
    speedup_basis: str | None = Field(
        description="where row and baseline rest on different nights, what the speed-up is of: `median of 3 nights`, `across runs`"
    )
    tokens_per_s: float | None = Field(description="of a model's pass at time_s, tokens per second")
    memory_bytes: float | None = Field(description="of a product its operands, of a model weights and cache, bytes")
    is_memory_measured: bool = Field(description="whether memory_bytes was measured; else computed from the sizes")
    memory_saved_ratio: float | None = Field(description="share of the 16-bit weights that is saved")
    loss: LossModel = Field(description="what is known of its loss")
    confidence: Literal["high", "medium", "low"] = Field(
        description="how far to trust its place, of a measured speed-up by the worse of both times"
    )
    confidence_reason: str = Field(description="why so far, of its time and of the baseline's")
    reason: str = Field(description="why it stands where it stands")
    kernel_gap: FindingBody | None = Field(
        description="why no kernel is known to run it on this chip: it is ranked last"
    )
    doubts: list[str] = Field(description="what puts its time in doubt; empty where nothing does")
    record_ids: list[str] = Field(description="stored records behind it: evidence")
    stale_reason: str | None = Field(description="why the measurement may no longer hold; null for a fresh one")
    process_count: int = Field(description="processes that measured it, over its runs, count")
    evidence: list[EvidenceBody] = Field(description="runs behind it, oldest first; empty for what nobody ran")
    history_url: str | None = Field(
        description="path of this API: the case over its nights; null for what was not measured"
    )


class StoredRankingBody(Answer):
    """The configurations of one shape, or of one phase of a model, on one chip."""

    subject: Literal["shape", "model"] = Field(
        description="what is ranked for: one product's shape, or a phase of a model"
    )
    hardware: str = Field(description="key of the chip")
    hardware_name: str = Field(description="product name of the chip")
    title: str = Field(description="the question in words")
    op: str = Field(description="operator: gemv, gemm, …; for a model its phase and name, `decode:llama-3.1-8b`")
    model: str | None = Field(description="name of the model; null for a shape")
    shape: str = Field(description="sizes in words")
    phase: str | None = Field(description="decode or prefill; null where neither was said")
    cache: str = Field(description="cold or warm, as measured")
    mode: str = Field(description="how calls were made: eager, …")
    baseline: str | None = Field(description="what speed-ups are counted against")
    baseline_doubts: list[str] = Field(
        description="what puts the baseline's time, and so every measured speed-up, in doubt; empty where nothing does"
    )
    calibration_doubt: str | None = Field(
        description="why its expected times are in doubt: they are of a busy machine; null where they are not"
    )
    summary: str = Field(description="what to take, how fast, at what loss, how sure")
    rows: list[StoredRowBody] = Field(description="best first")
    refused: list[RefusedModel] = Field(description="configurations that are not ranked, with the reason")
    missing: list[str] = Field(description="what is not known, and what would tell")
    compared: str | None = Field(description="the runs that changes is about; null without an earlier one")
    changes: list[RankChangeModel] = Field(description="what became of configurations since the run before")


class StoredRecommendationList(Answer):
    """Rankings by chip, models before shapes."""

    page: Page = Field(description="which part of the list this is")
    run_count: int = Field(description="runs that were looked at, count")
    record_count: int = Field(description="records that were looked at, count")
    missing: list[str] = Field(description="what the database does not hold; empty where it has all that was asked for")
    notes: list[str] = Field(description="what weakens the answer, and which runs were left out of it and why")
    rankings: list[StoredRankingBody] = Field(description="the rankings of this page")
