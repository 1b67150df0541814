"""The ranking of an attention's cache formats as an answer: what POST /api/attention/recommend gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from reports.present.answers.options import PREDICTED, PlacedOption, findings_once, placed
from reports.present.encoder import Keys
from reports.present.predicted.advice import ShortAnswer, cache_answer
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Exclusion, Ranking
from roofline_model.core.finding import Finding, first_with, short_text, times_text
from roofline_model.predictions.attention import AttentionQuestion
from roofline_model.recommend.cache import rank_caches
from roofline_model.recommend.ranking import LEVEL_RATIO

UNKNOWN_LOSS = "unknown: measure it on a model (`pytest bench_cases -k model_quant --roofline-kv FORMAT`)"


def cache_quality(each: PlacedOption) -> str:
    """Return what is known of the loss."""
    return "reference" if each.is_baseline else UNKNOWN_LOSS


def cache_reason(each: PlacedOption) -> str:
    """Return why it stands where it stands."""
    option = each.option
    if each.is_baseline:
        return "the 16-bit baseline"
    bytes_ratio = 1 - ((None if option.memory is None else option.memory.saved_ratio) or 0.0)
    speedup_ratio = option.speedup_ratio or 1.0
    widened = first_with(option.findings, "operands-widened")
    to_wide = "" if widened is None else f", widened to {widened.value('compute_format')} before the product"
    size = f"the cache is {bytes_ratio:.2f}× the bytes{to_wide}"
    if option.bound == "compute":
        return f"compute-bound: {size}, the arithmetic takes as long"
    gain = (
        f"{times_text(speedup_ratio)} 16 bit" if speedup_ratio >= 1 + LEVEL_RATIO else "not clearly faster than 16 bit"
    )
    if speedup_ratio <= 1 / (1 + LEVEL_RATIO):
        gain = f"slower, {times_text(speedup_ratio)} 16 bit: what the narrow kernel takes beside the bytes costs more"
    return f"memory-bound: {size}; {gain}"


class CacheCandidate:
    """One format of the cache with its time, its bytes and its reason."""

    JSON_OF = PlacedOption
    JSON_KEYS: ClassVar[Keys] = {
        **PREDICTED,
        "reason": cache_reason,
        "kv_format": "option.key",
        "kv_bytes": "option.memory.total_bytes",
        "memory_saved_ratio": "option.memory.saved_ratio",
        "quality": cache_quality,
    }


def _first_reason(exclusion: Exclusion) -> str:
    """Return why not."""
    return short_text(exclusion.finding)


class ExcludedCache:
    """A format that cannot be recommended, and why."""

    JSON_OF = Exclusion
    JSON_KEYS: ClassVar[Keys] = {"format": "key", "reason": _first_reason}


@dataclass(frozen=True, slots=True)
class AttentionRecommendation:
    """The formats of the cache, best first."""

    JSON_KEYS: ClassVar[Keys] = {
        "hardware": "ranking.question.hardware",
        "phase": "phase",
        **{name: f"question.{name}" for name in AttentionQuestion._fields if name != "page_tokens"},
        "activation_format": "activation_format",
        "summary": "summary",
        "ranked_by": "ranked_by",
        "best": ("best", CacheCandidate),
        "baseline": ("baseline", CacheCandidate),
        "candidates": ("candidates", tuple[CacheCandidate, ...]),
        "excluded": ("ranking.excluded", tuple[ExcludedCache, ...]),
        "findings": "findings",
        "short_answer": "short_answer",
    }

    ranking: Ranking
    question: AttentionQuestion
    activation_format: str
    """Format key of the query."""
    short_answer: ShortAnswer
    """Its first lines: what to take, and the formats beside it."""

    @property
    def phase(self) -> str:
        """decode (one new token) or prefill."""
        return "decode" if self.question.Sq == 1 else "prefill"

    @property
    def best(self) -> PlacedOption:
        """The format to take."""
        return PlacedOption(self.ranking.choice or self.ranking.options[0], self.ranking)

    @property
    def baseline(self) -> PlacedOption:
        """The 16-bit cache that speed-ups are counted against."""
        assert self.ranking.baseline is not None  # of the 16-bit cache
        return PlacedOption(self.ranking.baseline, self.ranking)

    @property
    def candidates(self) -> tuple[PlacedOption, ...]:
        """Best first."""
        return placed(self.ranking)

    @property
    def ranked_by(self) -> Literal["expected", "ideal"]:
        """Kind of time the ranking goes by."""
        return "expected" if self.ranking.options[0].estimate.source == "expected" else "ideal"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What to know about it, may be empty."""
        return findings_once(self.ranking)

    @property
    def summary(self) -> str:
        """The decision in a sentence."""
        choice, baseline = self.best.option, self.baseline.option
        if choice.key == baseline.key:
            return f"keep the cache in {baseline.key}: no narrower one that a kernel is known to read is clearly faster"
        saved_ratio = 0.0 if choice.memory is None else choice.memory.saved_ratio or 0.0
        gain = f"{choice.estimate.source} {times_text(choice.speedup_ratio or 1.0)} {baseline.key}"
        return (
            f"cache in {choice.key}: {gain}, {saved_ratio * 100:.0f} % of the cache saved; its loss has to be measured"
        )


def cache_advice(
    chip: Device, question: AttentionQuestion, query: str, formats: tuple[str, ...] | None = None
) -> AttentionRecommendation:
    """Rank the formats of an attention's cache for a 16-bit query, those named or the usual ones.

    Raises `UnsupportedError` where the chip cannot compute in 16 bit.
    """
    ranking = rank_caches(chip, lambda cache: question.work(cache, query), query, formats)
    sizes = " ".join(f"{name}={size}" for name, size in zip(question._fields[:6], question[:6], strict=True))
    return AttentionRecommendation(
        ranking, question, query, cache_answer(ranking, query, f"attention {sizes} on {chip.key}.")
    )
