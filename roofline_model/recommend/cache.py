"""Which format should the cache of an attention have? Every format predicted on the chip, and ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from roofline_model.chips.hardware import Device, doubts_of
from roofline_model.core.answer import Exclusion, Memory, Option, Question, Ranking, Times
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.predict import predict_expected
from roofline_model.formats.catalog import get_format
from roofline_model.formats.usual import CACHES
from roofline_model.ideal.operator_sequence import predict_operator
from roofline_model.kernels.known_kernels import cache_gap
from roofline_model.operators.product import Operator
from roofline_model.recommend.loss import REFERENCE, UNKNOWN
from roofline_model.recommend.options import speedups
from roofline_model.recommend.ranking import rank


def rank_caches(
    device: Device, work: Callable[[str], Operator], wide: str, formats: Iterable[str] | None = None
) -> Ranking:
    """Return the ranking of formats for K and V, by expected time where 16 bit has one, else by the ideal.

    `work` gives the attention with a cache of a format, `wide` is the 16-bit format to compare with. Nobody knows the
    loss of a cache without its model: of level caches the one with more bytes comes first, and 16 bit loses nothing.
    Raises `UnsupportedError` where the chip cannot compute in 16 bit.
    """
    baseline = _option(device, work(wide), wide, None)
    wide_bytes_per_element = get_format(wide).traffic_bytes_per_element
    options, excluded = [baseline], []
    for key in [get_format(name).key for name in formats or CACHES]:
        if get_format(key).traffic_bytes_per_element >= wide_bytes_per_element:
            if key != wide:
                excluded.append(Exclusion(key, (finding("format-excluded", key, kind="as-wide", baseline=wide),)))
            continue
        try:
            options.append(_option(device, work(key), key, baseline))
        except UnsupportedError as error:
            reason = error.finding if isinstance(error.finding, Finding) else None
            excluded.append(
                Exclusion(key, (reason or finding("format-excluded", key, kind="not-computed", hardware=device.key),))
            )
    findings = (
        [finding("bound-by", kind="compute-in-all")] if all(option.bound == "compute" for option in options) else []
    )
    question = Question("cache", device.key, "attention", policy="cache")
    return rank(question, options, baseline, excluded=excluded, findings=(*findings, *doubts_of(device)))


def _option(device: Device, work: Operator, key: str, baseline: Option | None) -> Option:
    ideal, expected = predict_operator(work, device), predict_expected(work, device)
    times = Times.of(ideal.time_s, None if expected is None else expected.estimate)
    cache_bytes = _cache_bytes(work)
    wide_bytes = cache_bytes if baseline is None or baseline.memory is None else baseline.memory.total_bytes
    saved_ratio = 1 - cache_bytes / wide_bytes
    findings = [cache_gap(device, key)]
    if ideal.path != "native":
        findings.append(
            finding("operands-widened", key, format=key, operand="caches", compute_format=ideal.compute_format)
        )
    speedup_ratio, ideal_speedup_ratio = speedups(times, baseline)
    return Option(
        key=key,
        formats=(("kv", key),),
        method="none" if baseline is None else "PTQ",
        path=ideal.path,
        bound=ideal.bound,
        times=times,
        memory=Memory(cache_bytes, cache_bytes=cache_bytes, saved_ratio=saved_ratio),
        loss=REFERENCE if baseline is None else UNKNOWN,
        speedup_ratio=speedup_ratio,
        ideal_speedup_ratio=ideal_speedup_ratio,
        findings=tuple(each for each in findings if each is not None),
    )


def _cache_bytes(work: Operator) -> float:
    """Return the bytes of K and V that the kernel reads (of latent attention they are one tensor)."""
    reads = dict(work.cost.read_bytes)
    return reads["K"] + reads.get("V", 0.0)
