"""Which number format should this product use on this chip? Every candidate predicted, ranked, with its reason.

A format that the chip computes natively gets both operands in that format (W8A8, W4A4); any other is weight-only: the
weight is stored in the format, the activation stays in 16 bit and so does the arithmetic (W8A16, W4A16).
Where both operands are integers they carry no group scales (the convention of the original documents). Weight-only INT4
carries those of AWQ, so that it is weighed against MXFP4 and NVFP4 with their scales; see `_stored_weight`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from roofline_model.case import Case
from roofline_model.errors import InvalidValueError, UnsupportedError
from roofline_model.formats import NumberFormat, get_format
from roofline_model.hardware import Device, get_hardware
from roofline_model.operators import GEMV_MAX_ROWS, Operator, gemm
from roofline_model.quantization_method import AWQ_NOTE, method_of
from roofline_model.recommendation import Candidate, Recommendation, TimeEstimate
from roofline_model.roofline import Prediction, predict
from roofline_model.tie_ranking import by_time_with_ties
from roofline_model.units import format_flops, format_percent, format_time

__all__ = ["DEFAULT_FORMATS", "TIE_RATIO", "Candidate", "Recommendation", "TimeEstimate", "recommend_quantization"]

DEFAULT_FORMATS = ("FP8_E4M3", "MXFP8_E4M3", "INT8", "NVFP4", "MXFP4", "INT4")
"""Formats weighed against the 16-bit baseline unless the caller names others; those the chip declares take part."""

TIE_RATIO = 0.01
"""Times closer than this are equal: quality decides, and the 16-bit baseline is kept."""

PHASES = ("decode", "prefill")

_ONE_PRODUCT_NOTE = (
    "the memory limit was applied to the operands of this one product; give model_parameters for a whole model"
)

# Best first. Formats absent here (a user's own) come last, wider before narrower.
_QUALITY_ORDER = (
    "FP16", "BF16", "FP8_E4M3", "FP8_E5M2", "MXFP8_E4M3", "MXFP8_E5M2", "INT8", "MXINT8", "MXFP6_E2M3", "MXFP6_E3M2",
    "NVFP4", "MXFP4", "NF4", "INT4", "INT2",
)  # fmt: skip

# Loss figures of the original documents (002, "Format Comparison"): claims without a source until measured.
_QUALITY = {
    "FP8_E4M3": "claimed: under 1 % loss", "FP8_E5M2": "claimed: under 1 % loss", "INT8": "claimed: 1-2 % loss with PTQ",
    "INT4": "claimed: 2-5 % loss", "NVFP4": "claimed: 1-2 % loss", "MXFP4": "claimed: 2-3 % loss",
}  # fmt: skip

# The storage of AWQ's own checkpoints and kernels: groups of 128 weights share a 16-bit scale and a 4-bit zero point.
_AWQ_GROUP_ELEMS, _AWQ_SCALE_BITS, _AWQ_ZERO_BITS = 128, 16, 4

# Whose word makes an INT4 unit usable: an invented chip's or the user's own. On real chips no library uses it.
_DECLARED = ("placeholder", "declared", "measured-here")


Times = Callable[[Case], TimeEstimate | None]


@dataclass(frozen=True, slots=True)
class _Question:
    """The checked arguments, carried together."""

    device: Device
    M: int
    N: int
    K: int
    wide: NumberFormat
    model_parameters: float | None
    times: Times | None


def recommend_quantization(
    hardware: Device | str, M: int, N: int, K: int, phase: str | None = None, memory_limit_gb: float | None = None, *,
    model_parameters: float | None = None, formats: Iterable[str] | None = None, times: Times | None = None,
) -> Recommendation:  # fmt: skip
    """Rank the formats for C(M×N) = A(M×K)·B(K×N) on a chip by time; near ties are decided by quality.

    `phase` is a label (decode up to M = 16, prefill above, when not given): the shape alone decides. `memory_limit_gb` is
    decimal and holds the weights of the whole model when `model_parameters` is given, otherwise this product's operands.
    `formats` replaces the default list. `times` may give better times than the ideal; it is asked for each candidate's case
    (`roofline_model.expected.case_times.expected_times` gives the expected ones). Without it the ideals are ranked.
    Raises `InvalidValueError` for a bad phase, limit or shape, `UnknownNameError` for a chip or format nobody knows,
    `UnsupportedError` for a chip without a 16-bit rate.
    """
    device = get_hardware(hardware)
    phase = _phase(phase, M)
    limit_bytes = None if memory_limit_gb is None else _positive("memory_limit_gb", memory_limit_gb) * 1e9
    parameters = None if model_parameters is None else _positive("model_parameters", model_parameters)
    wanted = None if formats is None else _wanted(formats)
    question = _Question(device, M, N, K, _baseline_format(device, wanted or ()), parameters, times)

    baseline = _candidate(question, question.wide)
    rivals, excluded = _rivals(question, wanted)
    everyone = [baseline, *(_with_speedup(rival, baseline) for rival in rivals)]
    notes = _notes(device, everyone)
    if limit_bytes is not None and parameters is None:
        notes.append(_ONE_PRODUCT_NOTE)
    fitting, too_big, misfit, problem = _fitting(everyone, limit_bytes)
    if problem:
        notes.append(problem)
    ranked = _ranked(fitting, baseline)
    ranked[0] = replace(ranked[0], reason=_final_reason(ranked[0], baseline, everyone, too_big, problem))
    return Recommendation(
        device.key, M, N, K, phase, tuple(ranked), (*excluded, *too_big), ranked[0] if ranked[0].precision == baseline.precision else baseline, tuple(notes), misfit
    )  # fmt: skip


def claimed_quality(format_key: str) -> str:
    """Return what the original documents claim a format loses: `claimed: 2-5 % loss`; nobody measured it."""
    return _QUALITY.get(format_key, "claimed: none; measure it")


def _phase(phase: str | None, M: int) -> str:
    if phase is None:
        return "decode" if isinstance(M, int) and M <= GEMV_MAX_ROWS else "prefill"
    if phase not in PHASES:
        raise InvalidValueError(
            f"phase must be decode or prefill (or left out: M up to {GEMV_MAX_ROWS} is decode), got {str(phase)[:40]!r}"
        )
    return phase


def _positive(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
        raise InvalidValueError(f"{name} must be a positive number, got {str(value)[:40]!r}")
    return float(value)


def _wanted(formats: Iterable[str]) -> list[NumberFormat]:
    names = [formats] if isinstance(formats, str) else list(formats)
    if not names:
        raise InvalidValueError("formats is empty; name at least one format, or leave it out for the default list")
    return list({get_format(name).key: get_format(name) for name in names}.values())


def _baseline_format(device: Device, wanted: Sequence[NumberFormat]) -> NumberFormat:
    """Return the 16-bit format of the comparison: one the caller names, else the faster native one, FP16 at a tie.

    GPUs run both at one rate; a CPU may have instructions for one of them only, and then the other is no baseline.
    """
    named = [fmt.key for fmt in wanted if fmt.key in ("FP16", "BF16")]
    order = [key for key in (*named, "FP16", "BF16") if device.declares(key)]
    if not order:
        raise UnsupportedError(
            f"{device.key} declares no 16-bit rate to compare with. Declared: {', '.join(sorted(device.paths))}. Add FP16 or BF16 to its description."
        )
    native = [key for key in order if device.path(key).kind == "native"]
    fastest = max(native or order, key=device.peak_flops_per_s)  # max keeps the first of equals: FP16
    return get_format(named[0] if named and named[0] in order else fastest)


def _rivals(question: _Question, wanted: list[NumberFormat] | None) -> tuple[list[Candidate], list[tuple[str, str]]]:
    """Predict every other format; formats that cannot take part are returned with the reason."""
    device, wide = question.device, question.wide
    if wanted is None:
        wanted = [get_format(key) for key in DEFAULT_FORMATS if device.declares(key)]
    rivals: list[Candidate] = []
    excluded: list[tuple[str, str]] = []
    for fmt in wanted:
        if fmt.key == wide.key:
            continue
        if fmt.traffic_bytes_per_element >= wide.traffic_bytes_per_element:
            excluded.append((fmt.key, f"not narrower than the {wide.key} baseline: nothing to gain"))
            continue
        try:
            rivals.append(_candidate(question, fmt))
        except UnsupportedError as error:
            excluded.append((fmt.key, str(error)))
    return rivals, excluded


def _candidate(question: _Question, fmt: NumberFormat) -> Candidate:
    """Predict one format; the speed-up is filled in by `_with_speedup`."""
    device, wide = question.device, question.wide
    both = fmt.key == wide.key or _takes_both_operands(device, fmt, wide)
    weight = fmt if both else _stored_weight(fmt)
    operator = gemm(question.M, question.N, question.K, a=fmt if both else wide, b=weight, c=wide)
    prediction = predict(operator, device)
    estimate = question.times(operator.case("*", cache="cold")) if question.times else None
    method = "none" if fmt.key == wide.key else method_of(fmt.key, is_both=both)
    return Candidate(
        precision=fmt.key,
        weight_format=fmt.key,
        activation_format=fmt.key if both else wide.key,
        method=method,
        path=prediction.path,
        time_s=prediction.time_s if estimate is None else estimate.time_s,
        time_source="ideal" if estimate is None else estimate.source,
        ideal_s=prediction.time_s,
        speedup=1.0,
        ideal_speedup=1.0,
        memory_bytes=_memory_bytes(question, weight, operator),
        memory_saved_ratio=1 - weight.traffic_bytes_per_element / wide.traffic_bytes_per_element,
        bound=prediction.bound,
        quality="reference" if fmt.key == wide.key else claimed_quality(fmt.key),
        reason=_reason(question, fmt, both, operator, prediction),
        low_s=None if estimate is None else estimate.low_s,
        high_s=None if estimate is None else estimate.high_s,
        time_provenance="" if estimate is None else estimate.provenance,
    )


def _takes_both_operands(device: Device, fmt: NumberFormat, wide: NumberFormat) -> bool:
    """Return whether the activation is quantised too: the unit exists, is no slower than 16 bit, and kernels use it."""
    path = device.path(fmt.key)
    if path.kind != "native" or path.dense.value < device.peak_flops_per_s(wide.key):
        return False
    # AWQ keeps activations in 16 bit, and neither cuBLAS nor torch multiplies INT4 by INT4, although A100 and Ada have
    # the unit. A placeholder's or a user's own rate is taken at its word.
    return fmt.key != "INT4" or path.dense.status in _DECLARED


def _stored_weight(fmt: NumberFormat) -> NumberFormat:
    """Return how a weight-only weight lies in memory: catalog INT4 gets AWQ's scales and zero points (4.15625 bits)."""
    if fmt.key != "INT4" or fmt.scales:
        return fmt
    return fmt.grouped(_AWQ_GROUP_ELEMS, scale_bits=_AWQ_SCALE_BITS, zero_bits=_AWQ_ZERO_BITS)


def _memory_bytes(question: _Question, weight: NumberFormat, operator: Operator) -> float:
    if question.model_parameters is not None:
        return question.model_parameters * weight.traffic_bytes_per_element
    return operator.cost.total_bytes


def _with_speedup(candidate: Candidate, baseline: Candidate) -> Candidate:
    ideal = baseline.ideal_s / candidate.ideal_s
    is_alike = candidate.time_source == baseline.time_source
    return replace(candidate, speedup=baseline.time_s / candidate.time_s if is_alike else ideal, ideal_speedup=ideal)


def _reason(question: _Question, fmt: NumberFormat, both: bool, operator: Operator, prediction: Prediction) -> str:
    """Say in one sentence what limits this candidate and what it asks for."""
    device, wide = question.device, question.wide
    if fmt.key == wide.key:
        return f"the 16-bit baseline, {prediction.bound}-bound"
    wide_bytes = gemm(question.M, question.N, question.K, a=wide).cost.total_bytes
    if prediction.bound == "memory":
        text = f"memory-bound: moves {operator.cost.total_bytes / wide_bytes:.2f}x the bytes of {wide.key}"
    elif both:
        text = f"compute-bound: native {format_flops(prediction.peak_flops_per_s)} against {format_flops(device.peak_flops_per_s(wide.key))} in {wide.key}"
    else:
        text = f"compute-bound: weights are widened, so the arithmetic costs as much as {wide.key}"
    if not both:
        text += f" (weight-only, {wide.key} activations)"
    if fmt.key == "INT4":
        text += f"; {AWQ_NOTE}"
        text += "; no group scales counted" if both else f"; group-{_AWQ_GROUP_ELEMS} scales counted"
    return text


def _notes(device: Device, everyone: Sequence[Candidate]) -> list[str]:
    notes = []
    if device.is_placeholder:
        notes.append(
            f"warning: {device.key} is a placeholder chip with invented numbers; use the real chip for a decision"
        )
    sources = list(dict.fromkeys(candidate.time_source for candidate in everyone))
    if len(sources) > 1:
        listed = "; ".join(
            f"{source}: {', '.join(c.precision for c in everyone if c.time_source == source)}" for source in sources
        )
        notes.append(
            f"times of different kinds are ranked together ({listed}): an ideal time is a lower bound that a kernel may miss"
            + (", so it ranks behind expected ones" if everyone[0].time_source == "expected" else "")
        )
    return notes


def _fitting(
    everyone: list[Candidate], limit_bytes: float | None
) -> tuple[list[Candidate], list[tuple[str, str]], str, str]:
    """Split by memory. When nothing fits, the smallest stays; the last two values say so, in short and in full."""
    if limit_bytes is None:
        return everyone, [], "", ""
    limit = _gigabytes(limit_bytes)
    fitting = [candidate for candidate in everyone if candidate.memory_bytes <= limit_bytes]
    misfit = problem = ""
    if not fitting:
        smallest = min(everyone, key=lambda candidate: (candidate.memory_bytes, candidate.time_s))
        fitting = [smallest]
        missing = _gigabytes(smallest.memory_bytes - limit_bytes)
        misfit = f"nothing fits in {limit}; smallest: {smallest.precision}, misses by {missing}"
        problem = f"nothing fits in {limit}: the smallest, {smallest.precision}, needs {_gigabytes(smallest.memory_bytes)} and misses by {missing}"
    excluded = [
        (candidate.precision, f"needs {_gigabytes(candidate.memory_bytes)}, {_gigabytes(candidate.memory_bytes - limit_bytes)} more than the limit of {limit}")
        for candidate in everyone
        if candidate not in fitting
    ]  # fmt: skip
    return fitting, excluded, misfit, problem


def _gigabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:.3g} GB"


def _ranked(candidates: Iterable[Candidate], baseline: Candidate) -> list[Candidate]:
    """Sort: what beats the baseline by more than a tie, then the baseline, then the rest.

    Behind an expected baseline a format with an ideal time only comes last: the two cannot be compared.
    """
    faster, same, slower, unknown = [], [], [], []
    for candidate in candidates:
        if candidate.precision == baseline.precision:
            same.append(candidate)
        elif not _is_comparable(candidate, baseline):
            unknown.append(candidate)
        elif _beats(candidate, baseline):
            faster.append(candidate)
        else:
            slower.append(candidate)
    return [
        *_by_time_then_quality(faster), *same, *_by_time_then_quality(slower), *_by_time_then_quality(unknown)
    ]  # fmt: skip


def _is_comparable(candidate: Candidate, baseline: Candidate) -> bool:
    """Return whether the two times may be held against each other: an ideal one not against an expected one."""
    return not (baseline.time_source == "expected" and candidate.time_source == "ideal")


def _beats(candidate: Candidate, baseline: Candidate) -> bool:
    """Return whether both the time shown and the like-with-like speed-up are better by more than a tie."""
    return candidate.speedup > 1 + TIE_RATIO and baseline.time_s / candidate.time_s > 1 + TIE_RATIO


def _by_time_then_quality(candidates: list[Candidate]) -> list[Candidate]:
    return by_time_with_ties(candidates, time_s=lambda one: one.time_s, better=_quality_rank, tie_ratio=TIE_RATIO)


def _quality_rank(candidate: Candidate) -> tuple[int, float]:
    if candidate.precision in _QUALITY_ORDER:
        return _QUALITY_ORDER.index(candidate.precision), 0.0
    return len(_QUALITY_ORDER), -get_format(candidate.precision).nominal_bits


def _final_reason(
    best: Candidate, baseline: Candidate, everyone: Sequence[Candidate], too_big: Sequence[tuple[str, str]], problem: str
) -> str:  # fmt: skip
    """Complete the winner's sentence with what only the whole ranking knows."""
    if problem:
        return f"{problem}; {best.reason}"
    kind = "" if baseline.time_source == "ideal" else f" by {baseline.time_source} times"
    dropped = [name for name, _ in too_big]
    if best.precision == baseline.precision:
        others = [candidate for candidate in everyone if candidate.precision not in (baseline.precision, *dropped)]
        if not others:
            return f"stay at {best.precision}: there is no other candidate"
        others = [candidate for candidate in others if _is_comparable(candidate, baseline)]
        if not others:
            return f"stay at {best.precision}: no other candidate has an {baseline.time_source} time to compare with"
        gains = {other.precision: min(other.speedup, baseline.time_s / other.time_s) - 1 for other in others}
        nearest = max(gains, key=gains.__getitem__)
        gain = format_percent(gains[nearest], signed=True)
        return f"stay at {best.precision}: no candidate is more than 1 % faster{kind} (the nearest, {nearest}: {gain})"
    tied = [
        candidate.precision
        for candidate in everyone
        if candidate.precision not in dropped
        and abs(candidate.time_s / best.time_s - 1) <= TIE_RATIO
        and _quality_rank(candidate) > _quality_rank(best)
    ]
    said = [best.reason]
    if kind and best.time_source == baseline.time_source:
        said.append(
            f"{best.time_source} {format_time(best.time_s)} against {format_time(baseline.time_s)} in {baseline.precision}, "
            f"where the ideals would give {best.ideal_speedup:.1f}x"
        )
    if tied:
        said.append(f"as fast as {' and '.join(tied)} (within 1 %) and preferred for its quality")
    if baseline.precision in dropped:
        said.append(f"{baseline.precision} does not fit the memory limit")
    return "; ".join(said)
