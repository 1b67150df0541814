"""Ranked recommendation per shape from a stored run: measured where it was measured, else predicted, and marked which.

Evidence comes first: measured configurations are ranked by their time; formats the run did not measure follow, by the time
that the chip's expected model gives them, then those with an ideal time only, because an ideal time is always shorter than
a real one and would win every mixed list unfairly. Speed-ups compare like with like: measured over the measured baseline,
expected over its expected time, ideal over its ideal (the best 16-bit configuration, FP32 where none ran).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from reports.case_rows import CaseRow, case_rows
from reports.display_text import shown
from reports.regime import regime_rank
from reports.shape_results import Configuration, baseline_of, configurations, speedups
from results.case_names import is_model_case
from results.flags import DOUBTFUL_FLAGS, FLAGS
from results.records import Record
from results.replication import total_intervals
from results.verdict import SIXTEEN_BIT_FORMATS, Totals, are_level, expected_speedup, times_faster
from roofline_model.case import Case
from roofline_model.errors import RooflineError
from roofline_model.formats import get_format
from roofline_model.hardware import Device
from roofline_model.operators import GEMV_MAX_ROWS
from roofline_model.units import format_percent, format_time

if TYPE_CHECKING:
    from roofline_model.auto_quantize import Candidate, Recommendation, TimeEstimate

Source = Literal["measured", "expected", "predicted"]
"""expected: not measured, the time a good kernel takes; predicted: not measured, the ideal time."""
Formats = tuple[str, str]
"""(weight, activation); see `_pair`."""


@dataclass(frozen=True, slots=True)
class RankedRow:
    """One configuration in the ranking of a shape."""

    rank: int
    label: str
    weight_format: str
    activation_format: str
    kernel: str | None
    """None: no kernel of the run; the model proposes the format."""
    method: str
    path: str
    source: Source
    time_s: float
    interval_ratio: float | None
    """± of a measured time, the widest among its processes."""
    ideal_s: float | None
    speedup: float | None
    """Over the baseline: measured over measured, expected over expected or ideal over ideal; None without a baseline."""
    memory_saved_ratio: float | None
    """Share of the weight's 16-bit bytes that the format saves."""
    quality: str
    reason: str
    record_ids: tuple[str, ...]
    """The stored records behind the row."""
    doubts: tuple[str, ...] = ()
    """The flags of its measurements that put the time in doubt, in the order they are explained."""

    @property
    def is_emulated(self) -> bool:
        """True when software stands in for a missing unit, whose cost an ideal time leaves out."""
        return self.path == "emulated" or (self.kernel or "").endswith("_emulated")


@dataclass(frozen=True, slots=True)
class ShapeRecommendation:
    """The ranking of one shape on one chip."""

    hardware_key: str
    op: str
    shape_label: str
    cache: str
    mode: str
    phase: str
    """decode, prefill, or empty for operators that are no products."""
    baseline_label: str
    """What speed-ups are counted against; empty when the run has no 16-bit or FP32 configuration."""
    rows: tuple[RankedRow, ...]
    excluded: tuple[tuple[str, str], ...]
    """(configuration or format, why it is not ranked)."""
    summary: str

    @property
    def best(self) -> RankedRow | None:
        """The first row, or None when nothing could be ranked."""
        return self.rows[0] if self.rows else None


def recommend_from_run(
    records: Iterable[Record], hardware: Device | None, *, totals: Totals | None = None
) -> list[ShapeRecommendation]:
    """Return one ranking per chip, operator, shape and mode, in the order they were run.

    Each ranks one cache state, never two: cold where it was measured, else flushed, else the next of `regime_rank`. `hardware` (the chip the run's predictions are for) adds the formats
    that were not run; without it, or for operators that are no products, only what the run stored is ranked. `totals`: the
    intervals over processes by case key; None: from these records alone. Passes of whole models are no shapes of an operator:
    `results.model_results` judges them.
    """
    records = tuple(one for one in records if not is_model_case(one.case))
    totals = total_intervals(records) if totals is None else totals
    rows = case_rows(records)
    groups: dict[tuple[str, str, str, str], list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault((row.hardware_key, row.op, row.shape_label, row.mode), []).append(index)
    # Cases that failed before their prediction carry no chip: they explain an exclusion, they make no ranking.
    found = []
    for (hardware_key, op, shape, mode), members in groups.items():
        if hardware_key or not any(other[1:] == (op, shape, mode) for other in groups if other[0]):
            lost = [] if not hardware_key else groups.get(("", op, shape, mode), [])
            indices = [*members, *lost]
            device = hardware if hardware is not None and hardware_key in ("", hardware.key) else None
            found.append(
                _recommend(hardware_key, [records[i].case for i in indices], [rows[i] for i in indices], device, totals)
            )
    return found


def _recommend(
    hardware_key: str, cases: list[Case], rows: list[CaseRow], device: Device | None, totals: Totals
) -> ShapeRecommendation:
    cache = _preferred_cache(rows)
    rows = [row for row in rows if row.cache == cache]
    ranked = configurations(rows, totals)
    advice = _advice(cases[0], ranked, device)
    candidates = _by_formats(advice)
    baseline = baseline_of(ranked)
    measured = [_row_of(one, baseline, candidates.get(_formats(one))) for one in ranked if one.is_measured]
    tried = {_formats(one) for one in ranked if one.is_measured}
    excluded = _excluded(rows, tried | {_formats(one) for one in ranked})
    refused = {_pair(row.weight_format, row.activation_format) for row in rows if row.status in ("failed", "skipped")}
    predicted = _predicted_rows(ranked, baseline, advice, tried, refused)
    # An emulated kernel's ideal time leaves out what emulating costs: it stands behind every honest prediction.
    ordered = [*measured, *sorted(predicted, key=lambda row: (row.is_emulated, row.source == "predicted", row.time_s))]
    numbered = tuple(replace(row, rank=rank) for rank, row in enumerate(ordered, start=1))
    if advice:
        excluded += tuple((shown(name, 60), shown(reason)) for name, reason in advice.excluded)
    first = rows[0]
    return ShapeRecommendation(
        hardware_key=shown(hardware_key, 60),
        op=first.op,
        shape_label=first.shape_label,
        cache=cache,
        mode=first.mode,
        phase=_phase(cases[0]),
        baseline_label=baseline.label if baseline else (advice.baseline.precision if advice and not measured else ""),
        rows=numbered,
        excluded=excluded,
        summary=_summary(numbered, baseline.precision if baseline else "16 bit", _level(ranked)),
    )


def _advice(case: Case, ranked: tuple[Configuration, ...], device: Device | None) -> Recommendation | None:
    """Ask the model for its ranking of this shape; None where it has no answer (no chip, no product, no 16-bit rate)."""
    shape = dict(case.shape)
    if device is None or set(shape) != {"M", "N", "K"}:
        return None
    from roofline_model.auto_quantize import recommend_quantization

    try:
        return recommend_quantization(device, shape["M"], shape["N"], shape["K"], times=_best_times(ranked, device))
    except RooflineError:
        return None


def _best_times(ranked: tuple[Configuration, ...], device: Device) -> Callable[[Case], TimeEstimate | None]:
    """Return the seam to the model: the fastest measured kernel of the case's formats, else the chip's expected time."""
    from roofline_model.auto_quantize import TimeEstimate
    from roofline_model.expected.case_times import expected_times

    expected = expected_times(device)

    fastest_s: dict[Formats, float] = {}
    for one in ranked:
        if one.measured_s is not None:
            fastest_s.setdefault(_formats(one), one.measured_s)

    def times(case: Case) -> TimeEstimate | None:
        formats = dict(case.formats)
        time_s = fastest_s.get(_pair(formats.get("b", ""), formats.get("a", "")))
        return expected(case) if time_s is None else TimeEstimate(time_s, "measured")

    return times


def _row_of(one: Configuration, baseline: Configuration | None, candidate: Candidate | None) -> RankedRow:
    predicted, measured = speedups(one, baseline)
    expected_s = _expected_s(one)
    source: Source = "measured" if one.is_measured else "predicted" if expected_s is None else "expected"
    time_s = next(time for time in (one.measured_s, expected_s, one.ideal_s) if time is not None)
    promised = expected_speedup(one.contender, baseline.contender if baseline else None)
    likely = predicted if promised is None else promised
    return RankedRow(
        rank=0,
        label=one.label,
        weight_format=one.weight_format,
        activation_format=one.activation_format,
        kernel=one.kernel,
        method=shown(candidate.method, 60) if candidate else _plain_method(one),
        path=one.rows[0].path,
        source=source,
        time_s=time_s,
        interval_ratio=max((row.interval_ratio for row in one.rows if row.interval_ratio is not None), default=None),
        ideal_s=one.ideal_s,
        speedup=measured if one.is_measured else likely,
        memory_saved_ratio=_memory_saved(one.weight_format),
        quality=shown(candidate.quality) if candidate else "",
        reason=_reason(one, baseline, predicted, measured, promised),
        record_ids=tuple(row.record_id for row in one.rows),
        doubts=tuple(key for key in FLAGS if key in DOUBTFUL_FLAGS & one.contender.flags),
    )


def _predicted_rows(
    ranked: tuple[Configuration, ...], baseline: Configuration | None, advice: Recommendation | None,
    tried: set[Formats], refused: set[Formats],
) -> list[RankedRow]:  # fmt: skip
    """Return what was predicted and not measured: stored predictions first, then formats only the model knows of."""
    candidates = _by_formats(advice)
    stored = [one for one in ranked if not one.is_measured and _formats(one) not in tried]
    rows = [_row_of(one, baseline, candidates.get(_formats(one))) for one in stored]
    known = tried | refused | {_formats(one) for one in stored}
    ideal_s = baseline.ideal_s if baseline and baseline.ideal_s else (advice.baseline.ideal_s if advice else None)
    expected_s = _expected_s(baseline) if baseline else None
    for formats, candidate in candidates.items():
        if formats not in known and candidate.time_source != "measured":
            rows.append(_row_of_candidate(candidate, ideal_s, expected_s))
    return rows


def _expected_s(one: Configuration) -> float | None:
    """Return the expected time that was stored with a configuration."""
    return next((row.expected_s for row in one.rows if row.expected_s is not None), None)


def _row_of_candidate(
    candidate: Candidate, baseline_ideal_s: float | None, baseline_expected_s: float | None
) -> RankedRow:
    is_expected = candidate.time_source == "expected"
    time_s = candidate.time_s if is_expected else candidate.ideal_s
    baseline_s = baseline_expected_s if is_expected else baseline_ideal_s
    formats = (("a", candidate.activation_format), ("b", candidate.weight_format))
    return RankedRow(
        rank=0,
        label=shown(Case("gemm", (), formats, "*").precision_label, 60),
        weight_format=candidate.weight_format,
        activation_format=candidate.activation_format,
        kernel=None,
        method=shown(candidate.method, 60),
        path=candidate.path,
        source="expected" if is_expected else "predicted",
        time_s=time_s,
        interval_ratio=None,
        ideal_s=candidate.ideal_s,
        speedup=baseline_s / time_s if baseline_s else None,
        memory_saved_ratio=_memory_saved(candidate.weight_format),
        quality=shown(candidate.quality),
        reason=shown(candidate.reason),
        record_ids=(),
    )


def _reason(
    one: Configuration, baseline: Configuration | None, predicted: float | None, measured: float | None,
    likely: float | None,
) -> str:  # fmt: skip
    row = one.rows[0]
    words = []
    if one is baseline:
        words.append("the baseline")
    elif measured is not None and baseline is not None:
        promises = [f"expected {times_faster(likely)}"] if likely is not None else []
        promises += [f"ideal {times_faster(predicted)}"] if predicted is not None else []
        ideal = f" ({', '.join(promises)})" if promises else ""
        words.append(f"measured {times_faster(measured)} {baseline.precision}{ideal}")
    elif one.is_measured:
        words.append("measured; no measured 16-bit or FP32 kernel to compare with")
    elif likely is not None and predicted is not None and baseline is not None:
        words.append(
            f"expected {times_faster(likely)} {baseline.precision} (ideal {times_faster(predicted)}), not measured"
        )
    elif predicted is not None and baseline is not None:
        words.append(f"predicted {times_faster(predicted)} {baseline.precision}, not measured")
    else:
        words.append("predicted, not measured")
    if one.measured_s is not None and one.ideal_s is not None:
        words.append(f"{format_percent(one.ideal_s / one.measured_s, 0)} of its roof")
    if row.bound:
        words.append(f"{row.bound}-bound")
    if row.path not in ("", "native"):
        words.append("emulated, not native" if row.path == "emulated" else f"widened to {row.compute_format} first")
    if one.contender.is_emulated and not one.is_measured:
        words.append("the prediction leaves out what emulating costs")
    return ", ".join(words)


def _summary(rows: tuple[RankedRow, ...], baseline: str, level: str) -> str:
    if not rows:
        return "nothing could be ranked: no case was measured or predicted"
    best = rows[0]
    if best.source != "measured" and best.is_emulated:
        return f"only emulated kernels were predicted ({best.label}), without what emulating costs"
    gain = "" if best.speedup is None else f", {times_faster(best.speedup)} {baseline}"
    evidence = {"measured": "measured", "expected": "not measured, expected"}.get(best.source, "predicted only")
    text = f"{best.label}: {evidence} {format_time(best.time_s)}{gain}{level}"
    promise = next((row for row in rows if row.source != "measured" and not row.is_emulated), None)
    if (
        best.source == "measured"
        and promise is not None
        and promise.speedup
        and promise.speedup > max(best.speedup or 1.0, 1.0)
    ):
        text += (
            f"; worth trying: {promise.label}, {promise.source} {times_faster(promise.speedup)} and not measured here"
        )
    return text


def _level(ranked: tuple[Configuration, ...]) -> str:
    """Name the measured runner-up when the two intervals overlap: a ranking inside the noise is no ranking."""
    if len(ranked) < 2 or not ranked[0].is_measured or not are_level(ranked[0].contender, ranked[1].contender):
        return ""
    return f"; level with {ranked[1].label} within the intervals"


def _excluded(rows: list[CaseRow], ranked: set[Formats]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for row in rows:
        if row.status == "failed" or (
            row.status == "skipped" and _pair(row.weight_format, row.activation_format) not in ranked
        ):
            found.setdefault(row.label, f"{row.status}: {row.reason or 'no reason was stored'}")
    return tuple(found.items())


def _preferred_cache(rows: list[CaseRow]) -> str:
    """Return the cache state to judge by: cold where it was measured, because a model's weights rarely stay in cache."""
    usable = [row for row in rows if row.measured_s is not None] or rows
    return min((row.cache for row in usable), key=lambda cache: regime_rank(cache, rows[0].mode))


def _phase(case: Case) -> str:
    rows = dict(case.shape).get("M")
    if case.op not in ("gemv", "gemm") or rows is None:
        return ""
    return "decode" if rows <= GEMV_MAX_ROWS else "prefill"


def _memory_saved(weight_format: str) -> float | None:
    try:
        saved = 1 - get_format(weight_format).traffic_bytes_per_element / 2 if weight_format else None
    except RooflineError:  # a user's format that this process has not loaded
        return None
    return saved


def _plain_method(one: Configuration) -> str:
    """Name the method of a configuration the model has no candidate for."""
    if one.is_sixteen_bit:
        return "none"
    return "weight_only" if one.weight_format != one.activation_format else ""


def _by_formats(advice: Recommendation | None) -> dict[Formats, Candidate]:
    candidates = advice.candidates if advice else ()
    return {_pair(one.weight_format, one.activation_format): one for one in candidates}


def _formats(one: Configuration) -> Formats:
    return _pair(one.weight_format, one.activation_format)


def _pair(weight: str, activation: str) -> Formats:
    """Identify a precision: BF16 and FP16 activations are one choice to who picks a weight format, and cost the same."""
    return weight, "16 bit" if activation in SIXTEEN_BIT_FORMATS else activation
