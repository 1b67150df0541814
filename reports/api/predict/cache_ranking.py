"""Which format should the cache of an attention have? Every format predicted on the chip, and ranked.

Ordered as every prediction is (`roofline_model.recommend.ranking`), by expected times where 16 bit has one, else by ideal ones. Of
level caches the wider one, which loses less, comes first. What a narrow cache costs in quality nobody can say of an attention alone: a model has to be measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from reports.api.predict.analysis_models import Excluded
from reports.api.predict.attention_models import CacheCandidate
from reports.api.predict.base_models import finding_body
from results.verdicts.gain import times_faster
from roofline_model.chips.hardware import Device, doubts_of
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.predict import predict_expected
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.ideal.operator_sequence import predict_operator
from roofline_model.ideal.roofline import Prediction
from roofline_model.kernels.known_kernels import cache_gap
from roofline_model.operators.product import Operator
from roofline_model.recommend.ranking import LEVEL_RATIO, Standing, order_predictions

USUAL_CACHES = ("FP8_E4M3", "INT8", "NVFP4", "INT4")
"""Formats of a cache that inference engines and papers offer; weighed beside 16 bit unless the request names others."""

UNKNOWN_LOSS = "unknown: measure it on a model (`pytest bench_cases -k model_quant --roofline-kv FORMAT`)"
CANNOT_SAVE = "not narrower than 16 bit: nothing to gain"

Source = Literal["expected", "ideal"]


@dataclass(frozen=True, slots=True)
class CacheRanking:
    """The candidates, best first."""

    candidates: list[CacheCandidate]
    baseline: CacheCandidate
    excluded: list[Excluded]
    summary: str
    findings: list[Finding]


class _Time(NamedTuple):
    time_s: float
    source: Source
    low_s: float | None
    high_s: float | None
    provenance: str | None


def rank_caches(
    chip: Device, work: Callable[[str], Operator], wide: str, names: tuple[str, ...] | None
) -> CacheRanking:
    """Return the ranking; `work` gives the attention with a cache of a format, `wide` is the 16-bit format to compare with.

    Raises `UnsupportedError` where the chip cannot compute in 16 bit.
    """
    wide_work = work(wide)
    wide_time, wide_ideal = _time(wide_work, chip), predict_operator(wide_work, chip)
    baseline = _candidate(chip, wide_work, wide_time, wide_ideal, wide_time, wide_work, get_format(wide))
    found, excluded = [baseline], []
    for name in names or USUAL_CACHES:
        fmt = get_format(name)
        if fmt.traffic_bytes_per_element >= get_format(wide).traffic_bytes_per_element:
            if name != wide:
                excluded.append(Excluded(format=fmt.key, reason=CANNOT_SAVE))
            continue
        narrow = work(fmt.key)
        try:
            ideal, time = predict_operator(narrow, chip), _time(narrow, chip)
        except UnsupportedError as error:
            excluded.append(Excluded(format=fmt.key, reason=str(error)))
            continue
        found.append(_candidate(chip, narrow, time, ideal, wide_time, wide_work, fmt))
    # Only times of the baseline's kind compare with it: what has none stands behind, and last what no kernel is known to read.
    tiers: tuple[list[CacheCandidate], ...] = ([], [], [])
    for one in found:
        tiers[2 if one.kernel_gap else int(one.time_source != baseline.time_source)].append(one)
    ranked = [one for tier in tiers for one in _by_time(tier)]
    return CacheRanking(
        ranked, baseline, excluded, _summary(ranked[0], baseline), [*_remarks(ranked), *doubts_of(chip)]
    )


def _by_time(found: list[CacheCandidate]) -> list[CacheCandidate]:
    # Nobody knows the loss of a cache without its model; that of fewer bytes is taken for the larger one, 16 bit loses nothing.
    return order_predictions(
        found, lambda each: Standing(each.time_s, each.low_s, each.high_s, each.memory_saved_ratio, each.kv_bytes)
    )


def _time(work: Operator, chip: Device) -> _Time:
    expected = predict_expected(work, chip)
    if expected is None:
        return _Time(predict_operator(work, chip).time_s, "ideal", None, None, None)
    return _Time(expected.time_s, "expected", expected.low_s, expected.high_s, expected.provenance)


def _candidate(
    chip: Device,
    work: Operator,
    time: _Time,
    ideal: Prediction,
    wide_time: _Time,
    wide_work: Operator,
    fmt: NumberFormat,
) -> CacheCandidate:
    kv_bytes, wide_bytes = _cache_bytes(work), _cache_bytes(wide_work)
    is_baseline = work is wide_work
    speedup = wide_time.time_s / time.time_s
    return CacheCandidate(
        kv_format=fmt.key,
        path=ideal.path,
        time_s=time.time_s,
        time_source=time.source,
        low_s=time.low_s,
        high_s=time.high_s,
        time_provenance=time.provenance,
        ideal_s=ideal.time_s,
        speedup_ratio=speedup,
        kv_bytes=kv_bytes,
        memory_saved_ratio=1 - kv_bytes / wide_bytes,
        bound=ideal.bound,
        quality="reference" if is_baseline else UNKNOWN_LOSS,
        reason="the 16-bit baseline" if is_baseline else _reason(ideal, kv_bytes / wide_bytes, speedup),
        kernel_gap=finding_body(cache_gap(chip, fmt.key)),
    )


def _reason(ideal: Prediction, bytes_ratio: float, speedup: float) -> str:
    widened = f", widened to {ideal.compute_format} before the product" if ideal.path != "native" else ""
    if ideal.bound == "compute":
        return f"compute-bound: the cache is {bytes_ratio:.2f}x the bytes{widened}, the arithmetic takes as long"
    gain = f"{times_faster(speedup)} 16 bit" if speedup >= 1 + LEVEL_RATIO else "not clearly faster than 16 bit"
    if speedup <= 1 / (1 + LEVEL_RATIO):
        gain = f"slower all the same, {times_faster(speedup)} 16 bit: what the narrow kernel takes beside the bytes costs more"
    return f"memory-bound: the cache is {bytes_ratio:.2f}x the bytes{widened}; {gain}"


def _cache_bytes(work: Operator) -> float:
    """Return the bytes of K and V that the kernel reads (of latent attention they are one tensor)."""
    reads = dict(work.cost.read_bytes)
    return reads["K"] + reads.get("V", 0.0)


def _summary(best: CacheCandidate, baseline: CacheCandidate) -> str:
    if best is baseline:
        return (
            f"keep the cache in {baseline.kv_format}: no narrower one that a kernel is known to read is clearly faster"
        )
    saved = f"{best.memory_saved_ratio * 100:.0f} % of the cache saved"
    return f"cache in {best.kv_format}: {best.time_source} {times_faster(best.speedup_ratio)} {baseline.kv_format}, {saved}; its loss has to be measured"


def _remarks(ranked: list[CacheCandidate]) -> list[Finding]:
    return [finding("compute-bound-in-all")] if all(one.bound == "compute" for one in ranked) else []
