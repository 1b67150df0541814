"""The ranking of an attention's cache formats as an answer: what POST /api/attention/recommend gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.answers.shape_advice import Excluded
from reports.present.predicted.advice import ShortAnswer, cache_answer
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Option
from roofline_model.core.finding import Finding, findings_text, first_with, short_text, times_text
from roofline_model.predictions.attention import AttentionQuestion
from roofline_model.recommend.cache import rank_caches
from roofline_model.recommend.ranking import LEVEL_RATIO

UNKNOWN_LOSS = "unknown: measure it on a model (`pytest bench_cases -k model_quant --roofline-kv FORMAT`)"


@dataclass(frozen=True, slots=True)
class CacheCandidate:
    """One format of the cache with its time, its bytes and its reason."""

    kv_format: str
    """Format key of K and V."""
    path: str
    """native, emulated or dequantize."""
    time_s: float
    """Time it is ranked by, seconds."""
    time_source: Literal["expected", "ideal"]
    """Kind of time_s."""
    low_s: float | None
    """Lower end of the 80 % interval, seconds; null for an ideal time."""
    high_s: float | None
    """Upper end of the 80 % interval, seconds; null for an ideal time."""
    time_provenance: str | None
    """Of an expected time: fitted, transferred-sibling, …"""
    ideal_s: float
    """Speed of light, seconds."""
    speedup_ratio: float
    """Time with the 16-bit cache over this one, times of the same source; ideal against ideal where one has no
    expected time."""
    kv_bytes: float
    """K and V of all sequences in this format, bytes, scales included."""
    memory_saved_ratio: float
    """Share of the 16-bit cache's bytes that is saved."""
    bound: str
    """memory or compute, of the ideal time."""
    quality: str
    """What is known of the loss."""
    reason: str
    """Why it stands where it stands."""
    kernel_gap: Finding | None
    """Why no attention kernel is known to read it on this chip: it is ranked last; null where none is known to be
    missing."""


@dataclass(frozen=True, slots=True)
class AttentionRecommendation:
    """The formats of the cache, best first."""

    hardware: str
    """Key of the chip."""
    phase: str
    """decode (one new token) or prefill."""
    B: int
    """Sequences, count."""
    Hq: int
    """Query heads, count."""
    Hkv: int
    """Key/value heads, count."""
    Sq: int
    """New tokens, count."""
    Skv: int
    """Tokens in the cache, count."""
    D: int
    """Elements of a head, count."""
    causal: bool
    """Whether a query sees only the keys up to its own place."""
    window: int | None
    """Keys a query sees, count; null: all."""
    activation_format: str
    """Format key of the query."""
    summary: str
    """The decision in a sentence."""
    ranked_by: Literal["expected", "ideal"]
    """Kind of time the ranking goes by."""
    best: CacheCandidate
    """The format to take."""
    baseline: CacheCandidate
    """The 16-bit cache that speed-ups are counted against."""
    candidates: tuple[CacheCandidate, ...]
    """Best first."""
    excluded: tuple[Excluded, ...]
    """Formats that are not ranked, with the reason."""
    findings: tuple[Finding, ...]
    """What to know about it, may be empty."""
    short_answer: ShortAnswer
    """Its first lines: what to take, and the formats beside it."""


def cache_advice(
    chip: Device, question: AttentionQuestion, query: str, formats: tuple[str, ...] | None = None
) -> AttentionRecommendation:
    """Rank the formats of an attention's cache for a 16-bit query, those named or the usual ones.

    Raises `UnsupportedError` where the chip cannot compute in 16 bit.
    """
    ranking = rank_caches(chip, lambda cache: question.work(cache, query), query, formats)
    first, baseline = ranking.options[0], ranking.baseline
    assert baseline is not None  # of the 16-bit cache
    best = ranking.choice or first
    return AttentionRecommendation(
        hardware=chip.key,
        phase="decode" if question.Sq == 1 else "prefill",
        **{name: value for name, value in question._asdict().items() if name != "page_tokens"},
        activation_format=query,
        summary=_summary(best, baseline),
        ranked_by=_source(first),
        best=_candidate(best, baseline),
        baseline=_candidate(baseline, baseline),
        candidates=tuple(_candidate(option, baseline) for option in ranking.options),
        excluded=tuple(Excluded(each.key, short_text(each.finding)) for each in ranking.excluded),
        findings=tuple(dict.fromkeys(ranking.findings)),
        short_answer=cache_answer(ranking, query, _subject(chip, question)),
    )


def _subject(chip: Device, question: AttentionQuestion) -> str:
    sizes = " ".join(f"{name}={getattr(question, name)}" for name in ("B", "Hq", "Hkv", "Sq", "Skv", "D"))
    return f"attention {sizes} on {chip.key}."


def _source(option: Option) -> Literal["expected", "ideal"]:
    return "expected" if option.estimate.source == "expected" else "ideal"


def _candidate(option: Option, baseline: Option) -> CacheCandidate:
    estimate, memory, ideal = option.estimate, option.memory, option.times.ideal
    assert memory is not None  # every cache has a size and an ideal time
    assert memory.saved_ratio is not None
    assert ideal is not None
    is_baseline = option.key == baseline.key
    return CacheCandidate(
        kv_format=option.key,
        path=option.path,
        time_s=estimate.time_s,
        time_source=_source(option),
        low_s=estimate.low_s,
        high_s=estimate.high_s,
        time_provenance=estimate.provenance or None,
        ideal_s=ideal.time_s,
        speedup_ratio=option.speedup_ratio or 1.0,
        kv_bytes=memory.total_bytes,
        memory_saved_ratio=memory.saved_ratio,
        bound=option.bound,
        quality="reference" if is_baseline else UNKNOWN_LOSS,
        reason="the 16-bit baseline" if is_baseline else _reason(option),
        kernel_gap=first_with(option.findings, "kernel-gap"),
    )


def _reason(option: Option) -> str:
    assert option.memory is not None
    bytes_ratio, speedup_ratio = 1 - (option.memory.saved_ratio or 0.0), option.speedup_ratio or 1.0
    widened = findings_text(each for each in option.findings if each.code == "cache-widened")
    size = f"the cache is {bytes_ratio:.2f}× the bytes{f', {widened}' if widened else ''}"
    if option.bound == "compute":
        return f"compute-bound: {size}, the arithmetic takes as long"
    gain = (
        f"{times_text(speedup_ratio)} 16 bit" if speedup_ratio >= 1 + LEVEL_RATIO else "not clearly faster than 16 bit"
    )
    if speedup_ratio <= 1 / (1 + LEVEL_RATIO):
        gain = f"slower, {times_text(speedup_ratio)} 16 bit: what the narrow kernel takes beside the bytes costs more"
    return f"memory-bound: {size}; {gain}"


def _summary(choice: Option, baseline: Option) -> str:
    if choice.key == baseline.key:
        return f"keep the cache in {baseline.key}: no narrower one that a kernel is known to read is clearly faster"
    saved_ratio = 0.0 if choice.memory is None else choice.memory.saved_ratio or 0.0
    gain = f"{choice.estimate.source} {times_text(choice.speedup_ratio or 1.0)} {baseline.key}"
    return f"cache in {choice.key}: {gain}, {saved_ratio * 100:.0f} % of the cache saved; its loss has to be measured"
