"""The ranking of one shape: measured where it was measured, else predicted, and marked which.

Evidence comes first: measured configurations are ranked by their time, level ones by loss and memory (`order_measured`, the
order of stored runs, too); formats that were not measured follow, by the time that the chip's expected model gives them, then those with an ideal time only, because an ideal time is always shorter than
a real one and would win every mixed list unfairly. Speed-ups compare like with like: measured over the measured baseline,
expected over its expected time, ideal over its ideal (the best 16-bit configuration, FP32 where none ran).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reports.cases.rows import CaseRow, regime_rank, weight_saved_ratio
from reports.ranking.losses import product_loss
from reports.ranking.ranked_row import RankedRow, ShapeRecommendation, Source
from reports.ranking.shape_results import Configuration, baseline_of, configurations, speedups
from reports.ranking.shape_summary import shape_summary
from reports.text.display_text import shown
from results.verdicts.contenders import standing as contender_standing
from results.verdicts.gain import times_faster
from results.verdicts.shape_verdict import SIXTEEN_BIT_FORMATS, Totals, expected_speedup
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Estimate, Option, Ranking
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, findings_text, short_text
from roofline_model.core.units import format_percent
from roofline_model.operators.case import Case
from roofline_model.operators.product import GEMV_MAX_ROWS
from roofline_model.recommend.claimed_losses import product_loss_pct
from roofline_model.recommend.ranking import Standing, maybe_faster, order_predictions

if TYPE_CHECKING:
    from roofline_model.expected.predict import ExpectedTimes

Formats = tuple[str, str]
"""(weight, activation); see `_pair`."""


def rank_shape(
    hardware_key: str, rows: Sequence[CaseRow], device: Device | None, totals: Totals
) -> ShapeRecommendation:
    """Return the ranking of the rows of one operator, shape and mode on one chip; there must be at least one.

    `device`: the chip, whose model adds the formats that were not run; None: only what is stored is ranked. `totals`: the
    intervals over processes by case key.
    """
    case = rows[0].record.case
    cache = _preferred_cache(rows)
    rows = [row for row in rows if row.cache == cache]
    ranked = configurations(rows, totals)
    advice = _advice(case, ranked, device)
    candidates = _by_formats(advice)
    baseline = baseline_of(ranked)
    timed = [one for one in ranked if one.is_measured]
    measured = [_row_of(one, baseline, candidates.get(_formats(one))) for one in timed]
    tried = {_formats(one) for one in ranked if one.is_measured}
    excluded = _excluded(rows, tried | {_formats(one) for one in ranked})
    refused = {_pair(row.weight_format, row.activation_format) for row in rows if row.status in ("failed", "skipped")}
    predicted = _predicted_rows(ranked, baseline, advice, tried, refused, device)
    # What no kernel is known to run here comes last; before it an emulated kernel, whose ideal time leaves out what it costs.
    ordered = [*measured, *_ordered(predicted)]
    numbered = tuple(replace(row, rank=rank) for rank, row in enumerate(ordered, start=1))
    if advice:
        excluded += tuple((shown(each.key, 60), shown(short_text(each.finding))) for each in advice.excluded)
    first = rows[0]
    return ShapeRecommendation(
        hardware_key=shown(hardware_key, 60),
        op=first.op,
        shape_label=first.shape_label,
        cache=cache,
        mode=first.mode,
        phase=phase_of(case),
        baseline_label=baseline.label
        if baseline
        else (advice.baseline.key if advice and advice.baseline and not measured else ""),
        rows=numbered,
        excluded=excluded,
        summary=shape_summary(
            numbered, timed, baseline, maybe_faster(timed, lambda one: contender_standing(one.contender))
        ),
        baseline_doubts=baseline.contender.doubts if baseline and baseline.is_measured else (),
    )


def _ordered(predicted: Sequence[RankedRow]) -> list[RankedRow]:
    """Return predicted rows in order: of each kind of evidence by the rule of every recommendation."""
    tiers: dict[tuple[bool, bool, bool], list[RankedRow]] = {}
    for row in predicted:
        tiers.setdefault((bool(row.kernel_gap), row.is_emulated, row.source == "ideal"), []).append(row)
    return [row for tier in sorted(tiers) for row in order_predictions(tiers[tier], standing)]


def standing(row: RankedRow) -> Standing:
    """Return what a predicted row is ordered by."""
    has_interval = row.source == "expected"
    return Standing(
        row.time_s,
        row.low_s if has_interval else None,
        row.high_s if has_interval else None,
        product_loss_pct(row.weight_format, row.activation_format),
        row.memory_bytes,
    )


def _advice(case: Case, ranked: tuple[Configuration, ...], device: Device | None) -> Ranking | None:
    """Ask the model for its ranking of this shape; None where it has no answer (no chip, no product, no 16-bit rate)."""
    shape = dict(case.shape)
    if device is None or set(shape) != {"M", "N", "K"}:
        return None
    from roofline_model.recommend.shape import recommend_quantization

    try:
        return recommend_quantization(device, shape["M"], shape["N"], shape["K"], times=_best_times(ranked, device))
    except RooflineError:
        return None


@dataclass(frozen=True, slots=True)
class _BestTimes:
    """The seam to the model: the fastest measured kernel of a case's formats, else the chip's expected time."""

    fastest_s: Mapping[Formats, float]
    expected: ExpectedTimes

    def __call__(self, case: Case) -> Estimate | None:
        return self._measured(case) or self.expected(case)

    def many(self, cases: Sequence[Case]) -> list[Estimate | None]:
        """Return the same for each case; the expected ones are priced together."""
        expected = self.expected.many(cases)
        return [self._measured(case) or found for case, found in zip(cases, expected, strict=True)]

    def _measured(self, case: Case) -> Estimate | None:
        formats = dict(case.formats)
        time_s = self.fastest_s.get(_pair(formats.get("b", ""), formats.get("a", "")))
        return None if time_s is None else Estimate(time_s, source="measured")


def _best_times(ranked: tuple[Configuration, ...], device: Device) -> _BestTimes:
    from roofline_model.expected.predict import expected_times

    fastest_s: dict[Formats, float] = {}
    for one in ranked:
        if one.measured_s is not None:
            fastest_s.setdefault(_formats(one), one.measured_s)
    return _BestTimes(fastest_s, expected_times(device))


def _row_of(one: Configuration, baseline: Configuration | None, candidate: Option | None) -> RankedRow:
    predicted, measured = speedups(one, baseline)
    expected_s = _expected_s(one)
    source: Source = "measured" if one.is_measured else "ideal" if expected_s is None else "expected"
    time_s = next(time for time in (one.measured_s, expected_s, one.ideal_s) if time is not None)
    promised = expected_speedup(one.contender, baseline.contender if baseline else None)
    likely = predicted if promised is None else promised
    expected = next((row.record.expected for row in one.rows if row.record.expected is not None), None)
    low_s, high_s = one.contender.low_s, one.contender.high_s
    if source == "expected" and expected is not None:
        low_s, high_s = expected.low_s, expected.high_s
    within_ratio = max((row.interval_ratio for row in one.rows if row.interval_ratio is not None), default=None)
    total_ratio = one.contender.total_ratio
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
        interval_ratio=within_ratio if total_ratio is None else total_ratio,
        ideal_s=one.ideal_s,
        speedup=measured if one.is_measured else likely,
        memory_saved_ratio=weight_saved_ratio(one.rows[0].record, one.weight_format),
        loss=product_loss(one.weight_format, one.activation_format),
        reason_rest=_reason(one, baseline, predicted, measured, promised),
        is_gain=measured is not None and baseline is not None and one is not baseline,
        record_ids=tuple(row.record_id for row in one.rows),
        doubts=one.contender.doubts,
        case_key=one.case_key,
        low_s=low_s,
        high_s=high_s,
        memory_bytes=next((row.record.ideal.total_bytes for row in one.rows if row.record.ideal is not None), None),
        expected_s=expected_s,
        provenance=shown(expected.provenance, 60) if expected is not None else "",
        findings=_kernel_gap(candidate) if candidate and not one.is_measured else (),
    )


def _predicted_rows(
    ranked: tuple[Configuration, ...],
    baseline: Configuration | None,
    advice: Ranking | None,
    tried: set[Formats],
    refused: set[Formats],
    device: Device | None,
) -> list[RankedRow]:
    """Return what was predicted and not measured: stored predictions first, then formats only the model knows of."""
    candidates = _by_formats(advice)
    stored = [one for one in ranked if not one.is_measured and _formats(one) not in tried]
    rows = [_row_of(one, baseline, candidates.get(_formats(one))) for one in stored]
    known = tried | refused | {_formats(one) for one in stored}
    ideal_s = (
        baseline.ideal_s
        if baseline and baseline.ideal_s
        else (_ideal_s(advice.baseline) if advice and advice.baseline else None)
    )
    expected_s = _baseline_expected_s(baseline, device) if baseline else None
    for formats, candidate in candidates.items():
        # Another 16-bit format than the measured one is no choice: it costs the same, and the kernel that runs is known.
        is_other_wide = (
            candidate.method == "none" and baseline is not None and baseline.is_measured and baseline.is_sixteen_bit
        )
        if formats not in known and candidate.estimate.source != "measured" and not is_other_wide:
            rows.append(_row_of_candidate(candidate, ideal_s, expected_s))
    return rows


def _expected_s(one: Configuration) -> float | None:
    """Return the expected time that was stored with a configuration."""
    return next((row.expected_s for row in one.rows if row.expected_s is not None), None)


def _baseline_expected_s(baseline: Configuration, device: Device | None) -> float | None:
    """Return the expected time that expected speed-ups are counted against: as stored, else what the chip's model says."""
    stored = _expected_s(baseline)
    if stored is not None or device is None:
        return stored
    from roofline_model.expected.predict import expected_times

    case = baseline.contender.case
    if not {"a", "b", "c"} <= dict(case.formats).keys():
        return None
    try:
        found = expected_times(device)(case)
    except RooflineError:  # a user's format that this process has not loaded
        return None
    return None if found is None else found.time_s


def _row_of_candidate(
    candidate: Option, baseline_ideal_s: float | None, baseline_expected_s: float | None
) -> RankedRow:
    estimate, operands = candidate.estimate, dict(candidate.formats)
    is_expected = estimate.source == "expected"
    time_s = estimate.time_s if is_expected else _ideal_s(candidate)
    baseline_s = baseline_expected_s if is_expected else baseline_ideal_s
    formats = (("a", operands["a"]), ("b", operands["b"]))
    return RankedRow(
        rank=0,
        label=shown(Case("gemm", (), formats, "*").precision_label, 60),
        weight_format=operands["b"],
        activation_format=operands["a"],
        kernel=None,
        method=shown(candidate.method, 60),
        path=candidate.path,
        source="expected" if is_expected else "ideal",
        time_s=time_s,
        interval_ratio=None,
        ideal_s=_ideal_s(candidate),
        speedup=baseline_s / time_s if baseline_s else None,
        memory_saved_ratio=weight_saved_ratio(None, operands["b"]),
        loss=product_loss(operands["b"], operands["a"]),
        reason_rest=shown(findings_text(candidate.findings)),
        record_ids=(),
        memory_bytes=None if candidate.memory is None else candidate.memory.total_bytes,
        expected_s=time_s if is_expected else None,
        low_s=estimate.low_s if is_expected else None,
        high_s=estimate.high_s if is_expected else None,
        provenance=shown(estimate.provenance, 60) if is_expected else "",
        findings=_kernel_gap(candidate),
    )


def _ideal_s(option: Option) -> float:
    assert option.times.ideal is not None  # every option of a product has one
    return option.times.ideal.time_s


def _kernel_gap(option: Option) -> tuple[Finding, ...]:
    return tuple(item for item in option.findings if item.code == "kernel-gap")


def _reason(
    one: Configuration,
    baseline: Configuration | None,
    predicted: float | None,
    measured: float | None,
    likely: float | None,
) -> str:
    row = one.rows[0]
    words = []
    if one is baseline:
        words.append("the baseline")
    elif measured is not None and baseline is not None:
        promises = [f"expected {times_faster(likely)}"] if likely is not None else []
        promises += [f"ideal {times_faster(predicted)}"] if predicted is not None else []
        ideal = f" ({', '.join(promises)})" if promises else ""
        words.append(f"{baseline.precision}{ideal}")
    elif one.is_measured:
        words.append("measured; no measured 16-bit or FP32 kernel to compare with")
    elif likely is not None and predicted is not None and baseline is not None:
        words.append(
            f"expected {times_faster(likely)} {baseline.precision} (ideal {times_faster(predicted)}), not measured"
        )
    elif predicted is not None and baseline is not None:
        words.append(f"ideal {times_faster(predicted)} {baseline.precision}, not measured")
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


def _excluded(rows: list[CaseRow], ranked: set[Formats]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for row in rows:
        if row.status == "failed" or (
            row.status == "skipped" and _pair(row.weight_format, row.activation_format) not in ranked
        ):
            found.setdefault(row.label, f"{row.status}: {row.reason or 'no reason was stored'}")
    return tuple(found.items())


def _preferred_cache(rows: Sequence[CaseRow]) -> str:
    """Return the cache state to judge by: cold where it was measured, because a model's weights rarely stay in cache."""
    usable = [row for row in rows if row.measured_s is not None] or rows
    return min((row.cache for row in usable), key=lambda cache: regime_rank(cache, rows[0].mode))


def phase_of(case: Case) -> str:
    """Return decode for a product of few rows, prefill for any other; empty for operators that are no products."""
    rows = dict(case.shape).get("M")
    if case.op not in ("gemv", "gemm") or rows is None:
        return ""
    return "decode" if rows <= GEMV_MAX_ROWS else "prefill"


def _plain_method(one: Configuration) -> str:
    """Name the method of a configuration the model has no candidate for."""
    if one.is_sixteen_bit:
        return "none"
    return "weight_only" if one.weight_format != one.activation_format else ""


def _by_formats(advice: Ranking | None) -> dict[Formats, Option]:
    options = advice.options if advice else ()
    return {_pair(dict(option.formats)["b"], dict(option.formats)["a"]): option for option in options}


def _formats(one: Configuration) -> Formats:
    return _pair(one.weight_format, one.activation_format)


def _pair(weight: str, activation: str) -> Formats:
    """Identify a precision: BF16 and FP16 activations are one choice to who picks a weight format, and cost the same."""
    return weight, "16 bit" if activation in SIXTEEN_BIT_FORMATS else activation
