"""The ranking of an attention's cache formats as POST /api/attention/recommend answers with it."""

from __future__ import annotations

from typing import Any

from reports.api.predict.analysis_models import Excluded
from reports.api.predict.attention_models import CacheCandidate
from reports.api.predict.base_models import finding_bodies, finding_body
from roofline_model.core.answer import Option, Ranking
from roofline_model.core.finding import findings_text, short_text, times_text
from roofline_model.recommend.ranking import LEVEL_RATIO

UNKNOWN_LOSS = "unknown: measure it on a model (`pytest bench_cases -k model_quant --roofline-kv FORMAT`)"


def ranking_fields(ranking: Ranking) -> dict[str, Any]:
    """Return the fields of an `AttentionRecommendation` that the ranking fills; `ranking.baseline` and a first option exist."""
    first, baseline = ranking.options[0], ranking.baseline
    assert baseline is not None  # of the 16-bit cache
    return {
        "summary": _summary(ranking.choice or first, baseline),
        "ranked_by": first.estimate.source,
        "best": _candidate(ranking.choice or first, baseline),
        "baseline": _candidate(baseline, baseline),
        "candidates": [_candidate(option, baseline) for option in ranking.options],
        "excluded": [Excluded(format=each.key, reason=short_text(each.finding)) for each in ranking.excluded],
        "findings": finding_bodies(ranking.findings),
    }


def _candidate(option: Option, baseline: Option) -> CacheCandidate:
    estimate, memory, ideal = option.estimate, option.memory, option.times.ideal
    assert memory is not None  # every cache has a size and an ideal time
    assert memory.saved_ratio is not None
    assert ideal is not None
    is_baseline = option.key == baseline.key
    gap = next((each for each in option.findings if each.code == "kernel-gap"), None)
    return CacheCandidate(
        kv_format=option.key,
        path=option.path,
        time_s=estimate.time_s,
        time_source="expected" if estimate.source == "expected" else "ideal",
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
        kernel_gap=finding_body(gap),
    )


def _reason(option: Option) -> str:
    assert option.memory is not None
    bytes_ratio, speedup_ratio = 1 - (option.memory.saved_ratio or 0.0), option.speedup_ratio or 1.0
    widened = findings_text(each for each in option.findings if each.code == "cache-widened")
    size = f"the cache is {bytes_ratio:.2f}x the bytes{f', {widened}' if widened else ''}"
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
