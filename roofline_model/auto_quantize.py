"""Which number format should this product use on this chip? Every candidate predicted, ranked, with its reason.

`format_choices.py` says who takes part and with which operands in that format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from roofline_model.calibration_doubt import doubts_of
from roofline_model.case import Case
from roofline_model.claimed_losses import claimed_quality
from roofline_model.errors import InvalidValueError
from roofline_model.expected.reference_kernel import reference_kernel
from roofline_model.format_choices import DEFAULT_FORMATS, FormatChoice, field_of
from roofline_model.formats import NumberFormat, get_format
from roofline_model.hardware import Device, get_hardware
from roofline_model.operators import GEMV_MAX_ROWS, check_dimension, gemm
from roofline_model.quantization_method import AWQ_BOTH_NOTE, AWQ_NOTE
from roofline_model.recommendation import Candidate, Recommendation, TimeEstimate
from roofline_model.roofline import RoofTimes
from roofline_model.tie_ranking import LEVEL_RATIO, are_level_predictions, order_predictions
from roofline_model.units import format_flops, format_percent, format_time
from roofline_model.weight_storage import WEIGHT_GROUP_ELEMS
from roofline_model.wide_baseline import fastest_wide

__all__ = [
    "DEFAULT_FORMATS",
    "Candidate",
    "Recommendation",
    "TimeEstimate",
    "claimed_quality",
    "recommend_quantization",
]

PHASES = ("decode", "prefill")

_ONE_PRODUCT_NOTE = (
    "the memory limit was applied to the operands of this one product; give model_parameters for a whole model"
)

_OVERHEAD_SHARE = 0.1
"""Where the ideal is less than this part of the expected time, neither bytes nor arithmetic say which format is faster."""

Times = Callable[[Case], TimeEstimate | None]


@dataclass(frozen=True, slots=True)
class _Question:
    """The checked arguments, carried together."""

    device: Device
    M: int
    N: int
    K: int
    model_parameters: float | None
    wide: NumberFormat
    wide_bytes: float
    """What the product moves in 16 bit."""


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
    times: Times | None = None,
) -> Recommendation:
    """Rank the formats for C(M×N) = A(M×K)·B(K×N) on a chip by the rule of every prediction (`order_predictions`).

    `phase` is a label (decode up to M = 16, prefill above, when not given): the shape alone decides. `memory_limit_gb` is
    decimal and holds the weights of the whole model when `model_parameters` is given, otherwise this product's operands.
    `formats` replaces the default list. `times` may give better times than the ideal; it is asked for each candidate's case,
    or for all of them at once where it has a method `many` (`roofline_model.expected.case_times.expected_times` gives the
    expected ones, and has it). Without it the ideals are ranked.
    Raises `InvalidValueError` for a bad phase, limit or shape, `UnknownNameError` for a chip or format nobody knows,
    `UnsupportedError` for a chip without a 16-bit rate.
    """
    device = get_hardware(hardware)
    phase = _phase(phase, M)
    limit_bytes = None if memory_limit_gb is None else _positive("memory_limit_gb", memory_limit_gb) * 1e9
    parameters = None if model_parameters is None else _positive("model_parameters", model_parameters)
    wanted = None if formats is None else _wanted(formats)
    for name, size in (("M", M), ("N", N), ("K", K)):
        check_dimension(name, size)
    field = field_of(device, wanted, None if times is None else fastest_wide(device, M, N, K, times))
    everyone = _candidates(device, M, N, K, parameters, field.choices, times)
    baseline = everyone[0]
    notes = _notes(device, everyone)
    if times is not None and (why_not := _why_ideal(device, M, N, K, everyone)):
        notes.append(why_not)
    notes += doubts_of(device)
    if limit_bytes is not None and parameters is None:
        notes.append(_ONE_PRODUCT_NOTE)
    fitting, too_big, misfit, problem = _fitting(everyone, limit_bytes)
    if problem:
        notes.append(problem)
    ranked = _ranked(fitting, baseline)
    ranked[0] = replace(ranked[0], reason=_final_reason(ranked[0], baseline, everyone, too_big, problem))
    return Recommendation(
        device.key,
        M,
        N,
        K,
        phase,
        tuple(ranked),
        (*field.excluded, *too_big),
        ranked[0] if ranked[0].precision == baseline.precision else baseline,
        tuple(notes),
        misfit,
    )


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


def _candidates(
    device: Device,
    M: int,
    N: int,
    K: int,
    model_parameters: float | None,
    choices: Sequence[FormatChoice],
    times: Times | None,
) -> list[Candidate]:
    """Predict every format, the baseline first."""
    roofs = [choice.roof.at(M, N, K) for choice in choices]
    question = _Question(device, M, N, K, model_parameters, choices[0].fmt, roofs[0].total_bytes)
    estimates = _estimates(question, choices, times)
    found: list[Candidate] = []
    for choice, roof, estimate in zip(choices, roofs, estimates, strict=True):
        found.append(_candidate(question, choice, roof, estimate, found[0] if found else None))
    return found


def _estimates(
    question: _Question, choices: Sequence[FormatChoice], times: Times | None
) -> Sequence[TimeEstimate | None]:
    if times is None:
        return [None] * len(choices)
    op = "gemv" if question.M <= GEMV_MAX_ROWS else "gemm"
    shape = (("M", question.M), ("N", question.N), ("K", question.K))
    cases = [Case(op, shape, choice.formats, "*", cache="cold") for choice in choices]
    many: Callable[[Sequence[Case]], Sequence[TimeEstimate | None]] | None = getattr(times, "many", None)
    return [times(case) for case in cases] if many is None else many(cases)


def _candidate(
    question: _Question,
    choice: FormatChoice,
    roof: RoofTimes,
    estimate: TimeEstimate | None,
    baseline: Candidate | None,
) -> Candidate:
    """Return one format's candidate; None in place of the baseline for the baseline itself."""
    ideal_s = roof.time_s
    time_s, source = (ideal_s, "ideal") if estimate is None else (estimate.time_s, estimate.source)
    ideal_speedup = speedup = 1.0
    if baseline is not None:
        ideal_speedup = baseline.ideal_s / ideal_s
        speedup = baseline.time_s / time_s if source == baseline.time_source else ideal_speedup
    parameters = question.model_parameters
    return Candidate(
        precision=choice.fmt.key,
        weight_format=choice.fmt.key,
        activation_format=choice.formats[0][1],
        method=choice.method,
        path=choice.roof.path,
        time_s=time_s,
        time_source=source,
        ideal_s=ideal_s,
        speedup=speedup,
        ideal_speedup=ideal_speedup,
        memory_bytes=roof.total_bytes if parameters is None else parameters * choice.weight.traffic_bytes_per_element,
        memory_saved_ratio=choice.memory_saved_ratio,
        bound=roof.bound,
        quality=choice.quality,
        reason=_reason(question, choice, roof, estimate) + _stands_for(choice, estimate),
        low_s=None if estimate is None else estimate.low_s,
        high_s=None if estimate is None else estimate.high_s,
        time_provenance="" if estimate is None else estimate.provenance,
        kernel_gap=choice.kernel_gap,
        engine_gap=choice.engine_gap,
        loss_pct=choice.loss_pct,
    )


def _reason(question: _Question, choice: FormatChoice, roof: RoofTimes, estimate: TimeEstimate | None) -> str:
    """Say in one sentence what limits this candidate and what it asks for."""
    wide, is_both = question.wide, choice.is_both
    is_overhead = estimate is not None and _is_overhead(estimate.source, roof.time_s, estimate.time_s)
    if choice.fmt.key == wide.key:
        return f"the 16-bit baseline, {'bound by what a launch takes' if is_overhead else f'{roof.bound}-bound'}"
    if is_overhead:
        text = "bound by what a launch takes, whatever the format"
    elif roof.bound == "memory":
        text = f"memory-bound: moves {roof.total_bytes / question.wide_bytes:.2f}x the bytes of {wide.key}"
    elif is_both:
        rate, wide_rate = choice.roof.peak_flops_per_s, question.device.peak_flops_per_s(wide.key)
        text = f"compute-bound: native {format_flops(rate)} against {format_flops(wide_rate)} in {wide.key}"
    else:
        text = f"compute-bound: weights are widened, so the arithmetic costs as much as {wide.key}"
    if not is_both:
        text += f" (weight-only, {choice.formats[0][1]} activations)"
    if choice.fmt.key == "INT4":
        text += f"; {AWQ_BOTH_NOTE if is_both else AWQ_NOTE}"
        text += "; no group scales counted" if is_both else f"; group-{WEIGHT_GROUP_ELEMS} scales counted"
    if choice.kernel_gap:
        return f"{text}; no kernel is known to run it here: {choice.kernel_gap}"
    return f"{text}; {choice.engine_gap}" if choice.engine_gap else text


def _is_overhead(source: str, ideal_s: float, time_s: float) -> bool:
    """Return whether an expected time is so far from the ideal that what every launch takes is most of it."""
    return source == "expected" and ideal_s < _OVERHEAD_SHARE * time_s


def _stands_for(choice: FormatChoice, estimate: TimeEstimate | None) -> str:
    """Name the kernel that an expected time is of, where another one may be faster."""
    if choice.is_both or estimate is None or estimate.source != "expected":
        return ""
    kernel = reference_kernel(choice.fmt.key, choice.formats[0][1], estimate.provenance)
    return f"; expected time: {kernel}" if kernel else ""


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


def _why_ideal(device: Device, M: int, N: int, K: int, everyone: Sequence[Candidate]) -> str:
    """Return why nothing has a better time than the ideal, and how to get one, in the words of every prediction; else empty."""
    from roofline_model.expected.predict import why_no_expected

    if device.is_placeholder or any(one.time_source != "ideal" for one in everyone):
        return ""
    return why_no_expected(gemm(M, N, K, a=everyone[0].precision), device)


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
        (
            candidate.precision,
            f"needs {_gigabytes(candidate.memory_bytes)}, {_gigabytes(candidate.memory_bytes - limit_bytes)} more than the limit of {limit}",
        )
        for candidate in everyone
        if candidate not in fitting
    ]
    return fitting, excluded, misfit, problem


def _gigabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:.3g} GB"


def _ranked(candidates: Iterable[Candidate], baseline: Candidate) -> list[Candidate]:
    """Sort by the one rule for predictions, the baseline among the others: it loses nothing, so it wins where all are level.

    Behind an expected baseline a format with an ideal time only comes last: the two cannot be compared. Behind all of them
    stands what no kernel is known to run on the chip.
    """
    tiers: tuple[list[Candidate], list[Candidate], list[Candidate]] = ([], [], [])
    for candidate in candidates:
        tiers[2 if candidate.kernel_gap else int(not _is_comparable(candidate, baseline))].append(candidate)
    return [one for tier in tiers for one in _in_order(tier)]


def _is_comparable(candidate: Candidate, baseline: Candidate) -> bool:
    """Return whether the two times may be held against each other: an ideal one not against an expected one."""
    return not (baseline.time_source == "expected" and candidate.time_source == "ideal")


def _in_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    return order_predictions(
        candidates,
        time_s=lambda one: one.time_s,
        high_s=lambda one: one.high_s,
        loss_pct=lambda one: one.loss_pct,
        memory_bytes=lambda one: one.memory_bytes,
    )


def _are_level(one: Candidate, other: Candidate) -> bool:
    """Return whether two candidates cannot be told apart by time (`are_level_predictions`)."""
    return are_level_predictions(one.time_s, other.time_s, one_high_s=one.high_s, other_high_s=other.high_s)


def _why_stay(best: Candidate, others: Sequence[Candidate], kind: str) -> str:
    """Say why no other candidate is surely faster than 16 bit."""
    gains = {one.precision: min(one.speedup, best.time_s / one.time_s) - 1 for one in others}
    nearest = max(others, key=lambda one: gains[one.precision])
    gain = gains[nearest.precision]
    said = f"the nearest, {nearest.precision}: {format_percent(gain, signed=True)}"
    if gain <= LEVEL_RATIO or nearest.high_s is None:
        return f"no candidate is more than {LEVEL_RATIO:.0%} faster{kind} ({said})".replace("%", " %", 1)
    ends = f"its 80 % interval ends at {format_time(nearest.high_s)}, that of {best.precision} at {format_time(best.high_s or best.time_s)}"
    return f"no candidate is surely faster{kind} ({said}, but {ends})"


def _final_reason(
    best: Candidate,
    baseline: Candidate,
    everyone: Sequence[Candidate],
    too_big: Sequence[tuple[str, str]],
    problem: str,
) -> str:
    """Complete the winner's sentence with what only the whole ranking knows."""
    if problem:
        return f"{problem}; {best.reason}"
    kind = "" if baseline.time_source == "ideal" else f" by {baseline.time_source} times"
    dropped = [name for name, _ in too_big]
    if best.precision == baseline.precision:
        others = [candidate for candidate in everyone if candidate.precision not in (baseline.precision, *dropped)]
        if not others:
            return f"stay at {best.precision}: there is no other candidate"
        others = [one for one in others if not one.kernel_gap]
        if not others:
            return f"stay at {best.precision}: no kernel is known to run any other candidate here"
        others = [candidate for candidate in others if _is_comparable(candidate, baseline)]
        if not others:
            return f"stay at {best.precision}: no other candidate has an {baseline.time_source} time to compare with"
        is_overhead = _is_overhead(best.time_source, best.ideal_s, best.time_s)
        overhead = "; what a launch takes is most of every time" if is_overhead else ""
        return f"stay at {best.precision}: {_why_stay(best, others, kind)}{overhead}"
    tied = [
        candidate
        for candidate in everyone
        if candidate.precision not in (best.precision, *dropped)
        and not candidate.kernel_gap
        and _are_level(candidate, best)
        and _loses_more(candidate, best)
    ]
    said = [best.reason]
    if kind and best.time_source == baseline.time_source:
        said.append(
            f"{best.time_source} {format_time(best.time_s)} against {format_time(baseline.time_s)} in {baseline.precision}, "
            f"where the ideals would give {best.ideal_speedup:.1f}x"
        )
    less_sure = [
        one
        for one in everyone
        if one.precision not in dropped
        and not one.kernel_gap
        and _is_comparable(one, best)
        and one.time_s < best.time_s
        and not _are_level(one, best)
        and one.high_s is not None
        and best.high_s is not None
        and one.high_s > best.high_s
    ]
    if less_sure:
        one = min(less_sure, key=lambda other: other.time_s)
        said.append(
            f"{one.precision} is expected faster ({format_time(one.time_s)}) but less surely: its 80 % interval ends at "
            f"{format_time(one.high_s or one.time_s)}, not {format_time(best.high_s or best.time_s)}"
        )
    if tied:
        said.append(
            f"level with {' and '.join(one.precision for one in tied)} (within 5 %) and preferred for its quality"
        )
    if baseline.precision in dropped:
        said.append(f"{baseline.precision} does not fit the memory limit")
    return "; ".join(said)


def _loses_more(one: Candidate, other: Candidate) -> bool:
    """Return whether a candidate's loss is known to be larger than another's, or is unknown beside a known one."""
    if other.loss_pct is None:
        return False
    return one.loss_pct is None or one.loss_pct > other.loss_pct
