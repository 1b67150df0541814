"""The ranking of formats for a product as an answer: what `--json` and the API give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.answers.option_answer import OptionAnswer, option_figures
from reports.present.predicted.advice import ShortAnswer, product_answer
from reports.present.predicted.words import Asked
from roofline_model.core.answer import Option, Ranking
from roofline_model.core.finding import Finding, findings_text, first_with
from roofline_model.formats.catalog import operands_label
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.options import product_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(OptionAnswer):
    """One format with its time, memory and reason."""

    format: str
    """Format key of the weight; names the candidate."""
    name: str
    """Format with the widths of its operands: `INT8 (W8A8)`."""
    weight_format: str
    """Format key of B."""
    activation_format: str
    """Format key of A."""
    operands: str
    """Widths in short: W4A16."""
    method: str
    """How to get there: none, PTQ, AWQ, native_fp8, native_fp4, weight_only, …"""
    ideal_speedup_ratio: float | None
    """Ideal 16-bit time over the ideal time of this one."""
    memory_bytes: float
    """What has to fit, bytes."""
    memory_saved_ratio: float | None
    """Share of the 16-bit weight bytes that is saved."""
    quality: str
    """What is known of the loss; a claim until it is measured."""
    engine_gap: Finding | None
    """That no serving engine has a kernel for it on this chip, though a library (torch) may; null where one has."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """A format that cannot be recommended, and why."""

    format: str
    """Format key."""
    reason: str
    """Why not."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The ranked answer, best first."""

    hardware: str
    """Key of the chip."""
    phase: str
    """decode or prefill."""
    M: int
    """Rows of A and C, count."""
    N: int
    """Columns of B and C, count."""
    K: int
    """Columns of A, rows of B, count."""
    precision: str
    """Format key of the best candidate."""
    method: str
    """Method of the best candidate."""
    summary: str
    """The decision in a sentence: `INT4 (AWQ) 4.0x speedup`, or what does not fit."""
    reason: str
    """Why the best one is the best."""
    fits_memory_limit: bool | None
    """Whether the best fits the limit; null without one."""
    ranked_by: Literal["expected", "ideal"]
    """expected where at least one candidate has an expected time; else ideal."""
    best: Candidate
    """The formats to take."""
    baseline: Candidate
    """The 16-bit product that speed-ups are counted against."""
    candidates: tuple[Candidate, ...]
    """Best first."""
    excluded: tuple[Excluded, ...]
    """Formats that are not ranked, with the reason."""
    findings: tuple[Finding, ...]
    """What to know about it, may be empty."""
    short_answer: ShortAnswer
    """Its first lines: what to take, the options by name, what to type next."""


def shape_advice(ranking: Ranking, asked: Asked = ()) -> Recommendation:
    """Return the ranking of a product's formats as an answer; `asked`: the question as it is typed.

    Where nothing fits the memory limit the best one is the one that misses it least, and alone among the candidates.
    """
    best, baseline = ranking.nearest, ranking.baseline
    assert best is not None  # the 16-bit baseline is always predicted
    assert baseline is not None
    ranked = ranking.options or (best,)
    candidates = {option.key: _candidate(option) for option in ranked}
    is_limited = "memory_bytes" in dict(ranking.question.limits)
    is_ideal = all(option.estimate.source == "ideal" for option in ranked)
    return Recommendation(
        hardware=ranking.question.hardware,
        phase=ranking.question.phase,
        **dict(ranking.question.sizes),
        precision=best.key,
        method=best.method,
        summary=str(ranking),
        reason=ranking.reason,
        fits_memory_limit=ranking.choice is not None if is_limited else None,
        ranked_by="ideal" if is_ideal else "expected",
        best=candidates[best.key],
        baseline=candidates.get(baseline.key) or _candidate(baseline),
        candidates=tuple(candidates.values()),
        excluded=tuple(
            Excluded(exclusion.key, findings_text(exclusion.findings))
            for exclusion in ranking.excluded
            if exclusion.option is not best
        ),
        findings=tuple(dict.fromkeys(ranking.findings)),
        short_answer=product_answer(ranking, asked),
    )


def _candidate(option: Option) -> Candidate:
    assert option.memory is not None  # of a product it is known
    return Candidate(
        **option_figures(option),
        format=option.key,
        name=product_name(option),
        weight_format=option.weight_format,
        activation_format=option.activation_format,
        operands=operands_label(option.weight_format, option.activation_format),
        method=option.method,
        ideal_speedup_ratio=option.ideal_speedup_ratio,
        memory_bytes=option.memory.total_bytes,
        memory_saved_ratio=option.memory.saved_ratio,
        quality=loss_text(option.loss),
        reason=findings_text(option.findings),
        engine_gap=first_with(option.findings, "engine-gap"),
    )
