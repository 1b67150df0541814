"""Which number format should this product use on this chip? Every format priced, ranked, with what to know about
each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline_model.chips.hardware import Device, doubts_of, get_hardware
from roofline_model.core.answer import Option, Question, Ranking
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.ranking_display import PICTURES
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.product import GEMV_MAX_ROWS, check_dimension, gemm, product_op
from roofline_model.recommend.options import (
    CaseTimes,
    default_formats,
    fastest_sixteen_bit,
    named_formats,
    product_formats,
    product_options,
)
from roofline_model.recommend.picture import product_picture
from roofline_model.recommend.ranking import MAX_LOSS_PCT, Limits, positive_limit, rank

PHASES = ("decode", "prefill")
PICTURES["shape"] = product_picture


def recommend_quantization(
    hardware: Device | str,
    M: int,
    N: int,
    K: int,
    phase: str | None = None,
    memory_limit_gb: float | None = None,
    *,
    model_parameters: float | None = None,
    formats: Iterable[str] | None = None,
    times: CaseTimes | None = None,
    max_loss_pct: float | None = None,
) -> Ranking:
    """Rank the formats for C(M×N) = A(M×K)·B(K×N) on a chip.

    >>> recommend_quantization("gb10", 1, 4096, 4096)
    <Ranking gemv 1x4096x4096 on gb10: INT4 (W4A16) 31.74 µs, 7 options, 0 excluded>

    `phase` is a label (decode up to M = 16, prefill above, when not given): the shape alone decides.
    `memory_limit_gb` is decimal and holds the weights of the whole model when `model_parameters` is given, otherwise
    this product's operands. `formats` replaces the default list: what the chip declares, and on a custom chip with
    `times` all. `times` may give better times than the ideal; it is asked for each option's case, or for all of them
    at once where it has a method `many` (`roofline_model.expected.predict.expected_times` gives the expected ones,
    and has it). Without it the ideals are ranked (policy `ideal`). `max_loss_pct` is what the choice may lose,
    percent; left out it is `MAX_LOSS_PCT`, and any amount without `times` and on an invented chip, whose figures are
    for examples. A faster option beyond it keeps its place. Raises `InvalidValueError` for a bad phase, limit or
    shape, `UnknownNameError` for an unknown chip or format, `UnsupportedError` for a chip without a 16-bit rate.
    """
    device = get_hardware(hardware)
    phase = _phase(phase, M)
    limit_bytes = None if memory_limit_gb is None else positive_limit("memory_limit_gb", memory_limit_gb) * 1e9
    parameters = None if model_parameters is None else positive_limit("model_parameters", model_parameters)
    if formats is None and times is not None:
        formats = default_formats(device) or None
    wanted = None if formats is None else _wanted(formats)
    for name, size in (("M", M), ("N", N), ("K", K)):
        check_dimension(name, size)
    fastest = None if times is None else fastest_sixteen_bit(device, (M, N, K), times)
    taking_part, excluded = product_formats(device, wanted, fastest)
    options = product_options(device, (M, N, K), taking_part, model_parameters=parameters, times=times)
    if max_loss_pct is None and times is not None and not device.is_placeholder:
        max_loss_pct = MAX_LOSS_PCT
    limits = Limits(limit_bytes, limit_bytes, choice_loss_pct=max_loss_pct)
    question = Question(
        subject="shape",
        hardware=device.key,
        name=f"{product_op(M)} {M}x{N}x{K}",
        sizes=(("M", M), ("N", N), ("K", K)),
        phase=phase,
        policy="ideal" if times is None else "evidence",
        limits=limits.values,
    )
    findings = _findings(device, (M, N, K), options, is_ideal_asked=times is None)
    if limit_bytes is not None and parameters is None:
        findings.append(finding("limit-of-one-product"))
    return rank(
        question,
        options,
        options[0],
        limits=limits,
        excluded=excluded,
        findings=findings,
    )


def _phase(phase: str | None, M: int) -> str:
    if phase is None:
        return "decode" if isinstance(M, int) and M <= GEMV_MAX_ROWS else "prefill"
    if phase not in PHASES:
        raise InvalidValueError(
            f"phase must be decode or prefill (or left out: M up to {GEMV_MAX_ROWS} is decode), got {str(phase)[:40]!r}"
        )
    return phase


def _wanted(formats: Iterable[str]) -> list[NumberFormat]:
    return list({get_format(name).key: get_format(name) for name in named_formats(formats)}.values())


def _findings(
    device: Device, shape: tuple[int, int, int], options: Sequence[Option], *, is_ideal_asked: bool
) -> list[Finding]:
    """Return what to know about the answer as a whole: of the chip, and of the kinds of time that were ranked."""
    findings = [finding("placeholder-chip", device.key)] if device.is_placeholder else []
    doubts = doubts_of(device)
    if is_ideal_asked:
        return [*findings, *doubts]
    baseline = options[0]
    if baseline.estimate.source == "ideal" and not device.is_placeholder:
        from roofline_model.expected.predict import why_no_expected

        if (why_not := why_no_expected(gemm(*shape, a=baseline.key), device)) is not None:
            findings.append(why_not)
    findings += doubts
    by_source: dict[str, list[str]] = {}
    for option in options:
        by_source.setdefault(option.estimate.source, []).append(option.key)
    if len(by_source) > 1:
        findings += [finding("mixed-sources", source=source, options=tuple(keys)) for source, keys in by_source.items()]
    return findings
