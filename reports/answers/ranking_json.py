"""Rankings of cases as answers: what the report's JSON, `roofline compare --json`, `recommend --stored --json` and the
API give.

Each answer is declared once: `answer_json` writes it, and the API describes it by the same dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from reports.present.display_text import stored_text
from reports.present.encoder import answer_json
from reports.present.words.evidence_text import missing_texts, note_texts
from reports.present.words.ranking_text import (
    excluded_texts,
    shape_reason,
    shape_summary,
    speedup_basis_text,
    stale_text,
)
from reports.present.words.stored_text import (
    calibration_text,
    change_sentence,
    compared_text,
    confidence_words,
    difference_text,
    reason_text,
    summary_of,
)
from results.cases.gain import doubts_to_mend
from results.cases.saved_bytes import saved_ratio
from roofline_model.core.answer import Confidence, Evidence, Loss, Source
from roofline_model.core.finding import Finding, first_with, short_text
from roofline_model.operators.case import pass_name

if TYPE_CHECKING:
    from results.rankings import RankChange, StoredRanking, StoredRecommendations
    from roofline_model.core.answer import Option, Ranking


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedConfiguration:
    """One configuration in a ranking, with its time, its loss and its records."""

    rank: int
    """Place, from 1, count."""
    label: str
    """The configuration: formats and kernel."""
    role: Literal["take", "riskier", "lower-loss", "safest"] | None
    """What it is named for: the choice, or an alternative beside it; null for the others."""
    weight_format: str | None
    """Format key of the weight; null where not known."""
    activation_format: str | None
    """Format key of the activation; null where not known."""
    kernel: str | None
    """null: no kernel was run or predicted; the model proposes the formats."""
    method: str | None
    """How the weights were quantised; null where not known."""
    path: str | None
    """native, emulated or dequantize."""
    time_source: Source
    """Kind of time_s."""
    time_s: float
    """Seconds."""
    low_s: float | None
    """Lower end of the interval (95 % of a measured, 80 % of an expected time), seconds."""
    high_s: float | None
    """Upper end, seconds."""
    expected_s: float | None
    """Seconds."""
    ideal_s: float | None
    """Seconds."""
    speedup_ratio: float | None
    """Over the baseline, times of the same kind."""
    memory_bytes: float | None
    """Of a product its operands, of a model weights and cache, bytes."""
    memory_saved_ratio: float | None
    """Share of the 16-bit weights that is saved."""
    loss: Loss
    """What is known of its loss."""
    reason: str
    """Why it stands where it stands."""
    kernel_gap: Finding | None
    """Why no kernel is known to run it on this chip: it is ranked last."""
    doubts: tuple[str, ...]
    """What puts its time in doubt; empty where nothing does."""
    record_ids: tuple[str, ...]
    """Stored records behind it: evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfiguration(RankedConfiguration):
    """One configuration of a shape as one run has it."""

    interval_half_width_ratio: float | None
    """± of a measured time: over processes where their spread is known, else the widest inside one of them."""


@dataclass(frozen=True, slots=True)
class ExcludedConfiguration:
    """A configuration or format that one run's ranking leaves out."""

    configuration: str
    """Formats and kernel, or a format key."""
    reason: str
    """Why it is not ranked."""


@dataclass(frozen=True, slots=True)
class RunRanking:
    """The ranking of one shape in one run."""

    op: str
    """Operator: gemv, gemm, …"""
    shape: str
    """Sizes in words."""
    cache: str
    """cold or warm, as measured."""
    mode: str
    """How calls were made: eager, …"""
    phase: str | None
    """decode or prefill; null for operators that are no products."""
    baseline: str | None
    """What speed-ups are counted against."""
    baseline_doubts: tuple[str, ...]
    """What puts the baseline's time, and so every measured speed-up, in doubt; empty where nothing does."""
    summary: str
    """What is first, how much it gains, which time is in doubt."""
    ranked: tuple[RunConfiguration, ...]
    """Best first."""
    excluded: tuple[ExcludedConfiguration, ...]
    """What is not ranked, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConfiguration(RankedConfiguration):
    """One configuration with its time, its loss, its confidence and its evidence."""

    is_baseline: bool
    """Whether speed-ups are counted against it."""
    speedup_low_ratio: float | None
    """Lower end of the 95 % interval of a measured speed-up, by both times; null where one has none."""
    speedup_high_ratio: float | None
    """Upper end of that interval."""
    speedup_basis: str | None
    """Where it and the baseline rest on different runs, what the speed-up is of: `median of 3 runs`, `across runs`."""
    tokens_per_s: float | None
    """Of a model's pass at time_s, tokens per second."""
    is_memory_measured: bool
    """Whether memory_bytes was measured; else computed from the sizes."""
    confidence: Confidence
    """How far to trust its place, of a measured speed-up by the worse of both times."""
    confidence_reason: str
    """Why so far, of its time and of the baseline's."""
    stale_reason: str | None
    """Why the measurement may no longer hold; null for a fresh one."""
    process_count: int
    """Processes that measured it, over its runs, count."""
    evidence: tuple[Evidence, ...]
    """Runs behind it, oldest first; empty for what nobody ran."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A configuration that is not ranked, and why."""

    label: str
    """The configuration: formats and kernel."""
    reason: str
    """Why it is not ranked."""


@dataclass(frozen=True, slots=True)
class StoredChange:
    """What became of one configuration since the run before."""

    label: str
    """The configuration, as in the rows."""
    before_rank: int | None
    """Place before, count; null: it was not ranked."""
    after_rank: int | None
    """Place now, count; null: it is not ranked."""
    change_ratio: float | None
    """Of the measured time between the nights: (after − before) / before; null where it was not measured on both."""
    verdict: str | None
    """SLOWER, FASTER, SAME, AMBIGUOUS or INVALID, as `roofline diff` calls it; null where nothing was compared."""
    environment: tuple[str, ...]
    """What differs between the machines of both sides, in words: `driver 580.95 → 590.12`."""
    sentence: str
    """`INT4 W4A16 (tinygemm) fell from 1st to 3rd: its measured time rose 12.1 % …; driver 580.95 → 590.12`."""


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The configurations of one shape, or of one phase of a model, on one chip."""

    subject: Literal["shape", "model"]
    """What is ranked for: one product's shape, or a phase of a model."""
    hardware: str
    """Key of the chip."""
    hardware_name: str
    """Product name of the chip."""
    title: str
    """The question in words."""
    op: str
    """Operator: gemv, gemm, …; for a model its phase and name, `decode:llama-3.1-8b`."""
    model: str | None
    """Name of the model; null for a shape."""
    shape: str
    """Sizes in words."""
    phase: str | None
    """decode or prefill; null where neither was said."""
    cache: str
    """cold or warm, as measured."""
    mode: str
    """How calls were made: eager, …"""
    baseline: str | None
    """What speed-ups are counted against."""
    baseline_doubts: tuple[str, ...]
    """What puts the baseline's time, and so every measured speed-up, in doubt; empty where nothing does."""
    calibration_doubt: str | None
    """Why its expected times are in doubt: they are of a busy machine; null where they are not."""
    summary: str
    """What to take, how fast, at what loss, how sure."""
    gap: Finding | None
    """Why there is no result: its times were disturbed or are implausible; null where there is one."""
    rows: tuple[StoredConfiguration, ...]
    """Best first."""
    refused: tuple[Refused, ...]
    """Configurations that are not ranked, with the reason."""
    missing: tuple[str, ...]
    """What is not known, and what would tell."""
    compared: str | None
    """The runs that changes is about; null without an earlier one."""
    changes: tuple[StoredChange, ...]
    """What became of configurations since the run before."""


@dataclass(frozen=True, slots=True)
class StoredAnswers:
    """Rankings by chip, models before shapes."""

    run_count: int
    """Runs that were looked at, count."""
    record_count: int
    """Records that were looked at, count."""
    missing: tuple[str, ...]
    """What the database does not hold; empty where it has all that was asked for."""
    notes: tuple[str, ...]
    """What weakens the answer, and which runs were left out of it and why."""
    rankings: tuple[StoredAnswer, ...]
    """The rankings that were asked for."""


def run_ranking(ranking: Ranking) -> RunRanking:
    """Return the ranking of one shape in one run as an answer."""
    return RunRanking(
        op=ranking.question.op,
        shape=ranking.question.shape_label,
        cache=ranking.question.cache,
        mode=ranking.question.mode,
        phase=ranking.question.phase or None,
        baseline=ranking.baseline_label or None,
        baseline_doubts=doubts_to_mend(ranking.baseline),
        summary=shape_summary(ranking),
        ranked=tuple(
            RunConfiguration(
                **_figures(option, ranking),
                memory_saved_ratio=saved_ratio(option),
                reason=shape_reason(option, ranking),
                interval_half_width_ratio=option.estimate.half_width_ratio,
            )
            for option in ranking.options
        ),
        excluded=tuple(ExcludedConfiguration(name, reason) for name, reason in excluded_texts(ranking)),
    )


def recommendations_json(recommendations: StoredRecommendations) -> dict[str, Any]:
    """Return the whole answer of the stored runs; every number's key ends in its unit, missing is null."""
    return answer_json(
        StoredAnswers(
            run_count=recommendations.run_count,
            record_count=recommendations.record_count,
            missing=missing_texts(recommendations),
            notes=note_texts(recommendations),
            rankings=tuple(map(stored_answer, recommendations.rankings)),
        ),
        stored_text,
    )


def stored_answer(ranking: StoredRanking) -> StoredAnswer:
    """Return what all stored runs say of one question as an answer."""
    return StoredAnswer(
        subject="model" if ranking.question.subject == "model" else "shape",
        hardware=ranking.question.hardware,
        hardware_name=ranking.hardware_name,
        title=ranking.question.name,
        op=ranking.question.op,
        model=None if (name := pass_name(ranking.question.op, ranking.question.sizes)) is None else name.model_name,
        shape=ranking.question.shape_label,
        phase=ranking.question.phase or None,
        cache=ranking.question.cache,
        mode=ranking.question.mode,
        baseline=ranking.baseline_label or None,
        baseline_doubts=doubts_to_mend(ranking.baseline),
        calibration_doubt=calibration_text(ranking) or None,
        summary=summary_of(ranking),
        gap=ranking.gap if ranking.choice is None else None,
        rows=tuple(_stored_configuration(option, ranking) for option in ranking.options),
        refused=tuple(Refused(label, reason) for label, reason in excluded_texts(ranking)),
        missing=tuple(map(short_text, ranking.missing)),
        compared=compared_text(ranking) or None,
        changes=tuple(map(_stored_change, ranking.changes)),
    )


def _stored_change(change: RankChange) -> StoredChange:
    return StoredChange(
        label=change.label,
        before_rank=change.before_rank,
        after_rank=change.after_rank,
        change_ratio=change.change_ratio,
        verdict=change.verdict,
        environment=tuple(map(difference_text, change.environment)),
        sentence=change_sentence(change),
    )


def _stored_configuration(option: Option, ranking: StoredRanking) -> StoredConfiguration:
    trust, memory = option.trust, option.memory
    return StoredConfiguration(
        **_figures(option, ranking),
        memory_saved_ratio=None if memory is None else memory.saved_ratio,
        reason=reason_text(option, ranking),
        is_baseline=ranking.is_baseline(option),
        speedup_low_ratio=trust.speedup_low_ratio,
        speedup_high_ratio=trust.speedup_high_ratio,
        speedup_basis=speedup_basis_text(trust) or None,
        tokens_per_s=option.tokens_per_s,
        is_memory_measured=memory is not None and memory.is_measured,
        confidence=trust.confidence,
        confidence_reason=confidence_words(trust),
        stale_reason=stale_text(trust) or None,
        process_count=sum(run.process_count for run in option.evidence) if option.is_measured else 0,
        evidence=option.evidence,
    )


def _figures(option: Option, ranking: Ranking) -> dict[str, Any]:
    """Return what one run and all runs alike say of an option, by field of `RankedConfiguration`."""
    estimate, times, memory = option.estimate, option.times, option.memory
    return {
        "rank": ranking.rank_of(option),
        "label": option.label,
        "role": ranking.roles.get(option.key),
        "weight_format": option.weight_format or None,
        "activation_format": option.activation_format or None,
        "kernel": option.kernel,
        "method": option.method or None,
        "path": option.path or None,
        "time_source": estimate.source,
        "time_s": estimate.time_s,
        "low_s": estimate.low_s,
        "high_s": estimate.high_s,
        "expected_s": None if times.expected is None else times.expected.time_s,
        "ideal_s": None if times.ideal is None else times.ideal.time_s,
        "speedup_ratio": option.speedup_ratio,
        "memory_bytes": None if memory is None else memory.total_bytes,
        "loss": option.loss,
        "kernel_gap": first_with(option.findings, "kernel-gap"),
        "doubts": option.trust.doubts,
        "record_ids": option.record_ids,
    }
