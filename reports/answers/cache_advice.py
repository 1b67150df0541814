"""The ranking of an attention's cache formats as an answer: what POST /api/attention/recommend gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reports.answers.option_answer import OptionAnswer, option_figures
from reports.answers.shape_advice import Excluded
from reports.present.predicted.advice import ShortAnswer, cache_answer
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Option
from roofline_model.core.finding import Finding, findings_text, short_text, times_text
from roofline_model.predictions.attention import AttentionQuestion
from roofline_model.recommend.cache import rank_caches
from roofline_model.recommend.ranking import LEVEL_RATIO

UNKNOWN_LOSS = "unknown: measure it on a model (`pytest bench_cases -k model_quant --roofline-kv FORMAT`)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCandidate(OptionAnswer):
    """One format of the cache with its time, its bytes and its reason."""

    kv_format: str
    """Format key of K and V."""
    kv_bytes: float
    """K and V of all sequences in this format, bytes, scales included."""
    memory_saved_ratio: float | None
    """Share of the 16-bit cache's bytes that is saved."""
    quality: str
    """What is known of the loss."""


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
    sizes = " ".join(f"{name}={size}" for name, size in zip(question._fields[:6], question[:6], strict=True))
    return AttentionRecommendation(
        hardware=chip.key,
        phase="decode" if question.Sq == 1 else "prefill",
        **{name: value for name, value in question._asdict().items() if name != "page_tokens"},
        activation_format=query,
        summary=_summary(best, baseline),
        ranked_by="expected" if first.estimate.source == "expected" else "ideal",
        best=_candidate(best, baseline),
        baseline=_candidate(baseline, baseline),
        candidates=tuple(_candidate(option, baseline) for option in ranking.options),
        excluded=tuple(Excluded(each.key, short_text(each.finding)) for each in ranking.excluded),
        findings=tuple(dict.fromkeys(ranking.findings)),
        short_answer=cache_answer(ranking, query, f"attention {sizes} on {chip.key}."),
    )


def _candidate(option: Option, baseline: Option) -> CacheCandidate:
    assert option.memory is not None  # every cache has a size
    is_baseline = option.key == baseline.key
    return CacheCandidate(
        **option_figures(option),
        kv_format=option.key,
        kv_bytes=option.memory.total_bytes,
        memory_saved_ratio=option.memory.saved_ratio,
        quality="reference" if is_baseline else UNKNOWN_LOSS,
        reason="the 16-bit baseline" if is_baseline else _reason(option),
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
