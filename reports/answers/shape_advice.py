"""The ranking of formats for a product as an answer: what `--json` and the API give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.present.predicted.advice import ShortAnswer, product_answer
from reports.present.predicted.words import Asked
from roofline_model.core.answer import Option, Ranking
from roofline_model.core.finding import Finding, findings_text, first_with
from roofline_model.formats.catalog import operands_label
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.options import product_name


@dataclass(frozen=True, slots=True)
class Candidate:
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
    path: str
    """native, emulated or dequantize."""
    time_s: float
    """Time it is ranked by, seconds."""
    time_source: str
    """ideal or expected."""
    low_s: float | None
    """Lower end of the 80 % interval, seconds; null for an ideal time."""
    high_s: float | None
    """Upper end of the 80 % interval, seconds; null for an ideal time."""
    time_provenance: str | None
    """Of an expected time: fitted, transferred-sibling, …"""
    ideal_s: float
    """Speed of light, seconds."""
    speedup_ratio: float
    """16-bit time over this one, from times of the same source."""
    ideal_speedup_ratio: float
    """Ideal 16-bit time over the ideal time of this one."""
    memory_bytes: float
    """What has to fit, bytes."""
    memory_saved_ratio: float
    """Share of the 16-bit weight bytes that is saved."""
    bound: str
    """memory or compute, of the ideal time."""
    quality: str
    """What is known of the loss; a claim until it is measured."""
    reason: str
    """Why it stands where it stands."""
    kernel_gap: Finding | None
    """Why no kernel is known to run it on this chip: it is ranked last; null where none is known to be missing."""
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
    operands, estimate, ideal, memory = dict(option.formats), option.estimate, option.times.ideal, option.memory
    assert ideal is not None  # of a product all are known
    assert memory is not None
    assert memory.saved_ratio is not None
    assert option.speedup_ratio is not None
    assert option.ideal_speedup_ratio is not None
    return Candidate(
        format=option.key,
        name=product_name(option),
        weight_format=operands["b"],
        activation_format=operands["a"],
        operands=operands_label(operands["b"], operands["a"]),
        method=option.method,
        path=option.path,
        time_s=estimate.time_s,
        time_source=estimate.source,
        low_s=estimate.low_s,
        high_s=estimate.high_s,
        time_provenance=estimate.provenance or None,
        ideal_s=ideal.time_s,
        speedup_ratio=option.speedup_ratio,
        ideal_speedup_ratio=option.ideal_speedup_ratio,
        memory_bytes=memory.total_bytes,
        memory_saved_ratio=memory.saved_ratio,
        bound=option.bound,
        quality=loss_text(option.loss),
        reason=findings_text(option.findings),
        kernel_gap=first_with(option.findings, "kernel-gap"),
        engine_gap=first_with(option.findings, "engine-gap"),
    )
