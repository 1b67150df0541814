"""Figures of a whole model's record other than time: tokens, memory, loss of quality. Read from the stored facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from results.records.plain_form import read_findings
from results.records.records import Record
from roofline_model.core.finding import Finding, code_text
from roofline_model.recommend.search.losses_file import loss_pct


@dataclass(frozen=True, slots=True)
class Interval:
    """One figure with its 95 % interval; without ends where nothing is known about the spread."""

    value: float
    low_value: float | None
    high_value: float | None


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """One record of a whole model. What was not measured is None."""

    model_name: str
    precision: str
    """As it was asked for: INT4, INT8.INT8, …, `plan`, or the model's own format."""
    phase: str
    """decode or prefill."""
    method: str
    """round-to-nearest, HQQ, AWQ; empty for the model's own format."""
    kv_format: str
    """Format of the KV cache."""
    batch_count: int
    context_count: int
    tokens_per_call: int
    is_emulated: bool
    """Whether the weights are decoded in a step of their own by every call."""
    original_bytes: int | None
    """What the model held before it was quantised."""
    held_bytes: int | None
    stated_bytes: int | None
    """What it should hold by the formats' definitions."""
    cache_bytes: int | None
    peak_bytes: int | None
    """What one step allocates at most beside what was there."""
    process_bytes: int | None
    quality_source: str
    """measured; reference: this is what others are compared with; none: `quality_reason` says why; empty: not looked
    at.
    """
    quality_reason: str
    quality_text: str
    is_language: bool
    """Whether quality was measured on text; random tokens tell formats apart and say nothing about language."""
    quality_tokens_count: int | None
    kl_nats_per_token: Interval | None
    top1_agreement_ratio: Interval | None
    perplexity_ratio: Interval | None
    reference_perplexity: Interval | None
    median_s: float | None
    energy_j: float | None = None
    """Of one call; None where no sensor was read."""
    issue_s: float | None = None
    """What the host takes to issue one call. Where it is known the time is the GPU's alone; None: the host is part of
    it.
    """
    layer_counts: tuple[tuple[str, int], ...] = ()
    """What the Linears became → how many of them; empty where nothing was quantised."""
    kernels: tuple[str, ...] = ()
    """What a quantised Linear calls, in words."""
    fallbacks: tuple[Finding, ...] = ()
    """Why layers did not become what was asked for."""
    embedding_cosine_ratio: Interval | None = None
    """Of an encoder: mean cosine between both models' embeddings of a sentence."""
    rank_agreement_ratio: Interval | None = None
    """Of an encoder: Spearman's correlation of the sentences' pairwise similarities."""
    nearest_kept_ratio: Interval | None = None
    """Of an encoder: share of the sentences whose most similar other one stays the same."""
    is_untrained: bool = False
    """Whether its weights were drawn from a seed: it has no quality to lose, whatever was stored."""
    decoded_from: str = ""
    """What the reference's weights were stored in before they were decoded (`Q4_1`); empty for original weights."""

    @property
    def energy_j_per_token(self) -> float | None:
        """Of a generated token in decode, of a prompt token in prefill."""
        return None if self.energy_j is None else self.energy_j / self.tokens_per_call

    @property
    def held_ratio(self) -> float | None:
        """Bytes held over the bytes of the original."""
        return self.held_bytes / self.original_bytes if self.held_bytes is not None and self.original_bytes else None

    @property
    def tokens_per_s(self) -> float | None:
        """Generated tokens per second in decode, prompt tokens in prefill, over all sequences."""
        return self.tokens_per_call / self.median_s if self.median_s else None

    @property
    def resident_bytes(self) -> int | None:
        """Weights and cache."""
        return None if self.held_bytes is None else self.held_bytes + (self.cache_bytes or 0)

    @property
    def whole_bytes(self) -> int | None:
        """Weights and cache as measured, else as the formats state them; None where neither is known."""
        if self.resident_bytes is not None or self.stated_bytes is None:
            return self.resident_bytes
        return self.stated_bytes + (self.cache_bytes or 0)

    @property
    def loss_pct(self) -> float | None:
        """The measured loss in percent of perplexity; None where none was measured."""
        return None if self.loss is None else self.loss.value

    @property
    def loss(self) -> Interval | None:
        """The measured loss in percent with its 95 % interval; None where none was measured.

        On text the measured ratio of perplexities. On random tokens, where perplexity means nothing, 100·(e^KL − 1):
        the rise on text that the 16-bit model writes itself, for there cross-entropy exceeds entropy by exactly KL. Of
        an encoder, which has no perplexity, the part of the rank agreement that is lost.
        """
        if (ranks := self.rank_agreement_ratio) is not None:
            mirrored = Interval(ranks.value, ranks.high_value, ranks.low_value)
            return _each_end(mirrored, lambda value: 100 * (1 - value))
        if self.is_language and self.perplexity_ratio is not None:
            return _each_end(self.perplexity_ratio, lambda value: 100 * (value - 1))
        return None if self.kl_nats_per_token is None else _each_end(self.kl_nats_per_token, loss_pct)


def model_figures(record: Record) -> ModelFigures | None:
    """Return the figures of a record, or None for one that is of no whole model. Raises nothing: facts of others are
    skipped.
    """
    model = record.extra.get("model")
    if not isinstance(model, Mapping) or not isinstance(model.get("precision"), str):
        return None
    shape, formats = dict(record.case.shape), dict(record.case.formats)
    memory, quality = _mapping(record.extra.get("memory")), _mapping(record.extra.get("quality"))
    if is_untrained(record) and quality.get("source") != "reference":
        quality = {"source": "none", "reason": "untrained"}
    return ModelFigures(
        model_name=_text(model.get("name")),
        precision=_text(model.get("precision")),
        phase=_text(model.get("phase")),
        method=_text(model.get("method")),
        kv_format=formats.get("kv", ""),
        batch_count=shape.get("B", 1),
        context_count=shape.get("Skv", 1),
        tokens_per_call=_count(record.extra.get("tokens_per_call")) or 1,
        is_emulated=model.get("is_emulated") is True,
        original_bytes=_count(memory.get("original_bytes")),
        held_bytes=_count(memory.get("held_bytes")),
        stated_bytes=_count(memory.get("stated_bytes")),
        cache_bytes=_count(memory.get("cache_bytes")),
        peak_bytes=_count(memory.get("peak_bytes")),
        process_bytes=_count(memory.get("process_bytes")),
        quality_source=_text(quality.get("source")),
        quality_reason=code_text(_text(quality.get("reason"))),
        quality_text=_text(quality.get("text")),
        is_language=quality.get("is_language") is True,
        quality_tokens_count=_count(quality.get("tokens_count")),
        kl_nats_per_token=_interval(quality.get("kl_nats_per_token")),
        top1_agreement_ratio=_interval(quality.get("top1_agreement_ratio")),
        perplexity_ratio=_interval(quality.get("perplexity_ratio")),
        reference_perplexity=_interval(quality.get("reference_perplexity")),
        median_s=record.measurement.median_s if record.measurement else None,
        energy_j=record.measurement.energy_j if record.measurement else None,
        issue_s=_number(record.extra.get("issue_s")),
        layer_counts=tuple((_text(name), _count(count) or 0) for name, count in _mapping(model.get("layers")).items()),
        kernels=_texts(model.get("kernels")),
        fallbacks=_findings(model.get("fallbacks")),
        embedding_cosine_ratio=_interval(quality.get("embedding_cosine_ratio")),
        rank_agreement_ratio=_interval(quality.get("rank_agreement_ratio")),
        nearest_kept_ratio=_interval(quality.get("nearest_kept_ratio")),
        is_untrained=is_untrained(record),
        decoded_from=_text(model.get("decoded_from")),
    )


def is_untrained(record: Record) -> bool:
    """Return whether a record is of a model whose weights were drawn from a seed: no advice rests on it."""
    return _mapping(record.extra.get("model")).get("source") == "seeded"


def _each_end(interval: Interval, change: Callable[[float], float]) -> Interval:
    ends = (None if end is None else change(end) for end in (interval.low_value, interval.high_value))
    return Interval(change(interval.value), *ends)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list | tuple) else ()


def _findings(value: Any) -> tuple[Finding, ...]:
    try:
        return read_findings(value)
    except ValueError:
        return ()


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _interval(value: Any) -> Interval | None:
    bounds = _mapping(value)
    middle = _number(bounds.get("value"))
    return None if middle is None else Interval(middle, _number(bounds.get("low")), _number(bounds.get("high")))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number that no float can say
        return None
