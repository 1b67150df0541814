"""The ranking of one shape: measured where it was measured, else predicted, and marked which.

Evidence comes first: measured configurations are ranked by their time, level ones by loss and memory (`order_measured`,
the order of stored runs, too); formats that were not measured follow, by the time that the chip's expected model gives
them, then those with an ideal time only, because an ideal time is always shorter than a real one and would win every
mixed list unfairly. Speed-ups compare like with like: measured over the measured baseline, expected over its expected
time, ideal over its ideal (the best 16-bit configuration, FP32 where none ran).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from results.cases.case_result import CaseResult, stored_reason
from results.cases.errors import regime_rank
from results.cases.gain import first_gap
from results.cases.saved_bytes import weight_saved_ratio
from results.cases.shape_verdict import (
    SIXTEEN_BIT_FORMATS,
    is_emulation,
    is_sixteen_bit,
    judge,
)
from results.rankings.question import phase_of
from results.records.records import Record
from roofline_model.chips.hardware import Device
from roofline_model.core.answer import (
    Estimate,
    Exclusion,
    Memory,
    Option,
    Question,
    Ranking,
    Times,
)
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding
from roofline_model.core.grouping import grouped
from roofline_model.operators.case import Case, case_title, is_model_case
from roofline_model.recommend.loss import formats_loss
from roofline_model.recommend.ranking import MAX_LOSS_PCT, Limits, rank_stored

if TYPE_CHECKING:
    from roofline_model.expected.predict import ExpectedTimes

Formats = tuple[str, str]
"""(weight, activation); see `_pair`."""
NO_FORMAT = "no format"
"""What people call the formats of an operator that has none."""


def recommend_from_run(
    cases: Iterable[CaseResult], hardware: Device | None, *, is_gap_ignored: bool = False
) -> list[Ranking]:
    """Return one ranking per chip, operator, shape and mode, in the order they were run.

    Each ranks one cache state, never two: cold where it was measured, else flushed, else the next of `regime_rank`.
    `hardware` (the chip the run's predictions are for) adds the formats that were not run; without it, or for operators
    that are no products, only what the run stored is ranked. `is_gap_ignored`: disturbed times are ranked to a choice,
    too. Passes of whole models are no shapes of an operator: `results.cases.model_results` judges them.
    """
    groups = grouped(
        (result for result in cases if not is_model_case(result.case)),
        lambda result: (result.hardware_key, result.case.op, result.case.shape_label, result.case.mode),
    )
    # Cases that failed before their prediction carry no chip: they explain an exclusion, they make no ranking.
    recommendations = []
    for (hardware_key, op, shape, mode), members in groups.items():
        if hardware_key or not any(other[1:] == (op, shape, mode) for other in groups if other[0]):
            lost = [] if not hardware_key else groups.get(("", op, shape, mode), [])
            device = hardware if hardware is not None and hardware_key in ("", hardware.key) else None
            ranking = rank_shape(hardware_key, [*members, *lost], device, is_gap_ignored=is_gap_ignored)
            recommendations.append(ranking)
    return recommendations


def rank_shape(
    hardware_key: str, cases: Sequence[CaseResult], device: Device | None, *, is_gap_ignored: bool = False
) -> Ranking:
    """Return the ranking of the cases of one operator, shape and mode on one chip; there must be at least one.

    `device`: the chip, whose model adds the formats that were not run; None: only what is stored is ranked.
    """
    case, cache = cases[0].case, _preferred_cache(cases)
    cases = [each for each in cases if each.case.cache == cache]
    leads = {each.case_key: each.lead for each in cases}
    judged = judge(cases)
    ranked, baseline = judged.options, judged.baseline
    advice = _advice(case, ranked, device)
    candidates = _by_formats(advice)
    timed = [option for option in ranked if option.is_measured]
    measured = [_stated(each, leads[each.key], candidates.get(_formats(each))) for each in timed]
    tried = {_formats(option) for option in timed}
    lost = [record for each in cases for record in each.records if record.status in ("failed", "skipped")]
    excluded = _excluded(lost, {_formats(option) for option in ranked})
    refused = {_case_formats(record.case) for record in lost}
    predicted = _predicted_options(ranked, leads, baseline, advice, tried, refused, device)
    base = _baseline_option([*measured, *predicted], baseline, advice)
    if advice:
        excluded += tuple(Exclusion(each.key, (each.finding,)) for each in advice.excluded)
    title, phase = case_title(case.op, case.shape), phase_of(case.op, case.shape)
    question = Question(
        *("shape", hardware_key, title, case.shape, phase, "stored"),
        op=case.op,
        cache=cache,
        mode=case.mode,
    )
    ranking = rank_stored(question, (*measured, *predicted), base, Limits(choice_loss_pct=MAX_LOSS_PCT))
    by_key = {option.key: option for option in (*measured, *predicted)}
    options = tuple(by_key[option.key] for option in ranking.options)  # without what explains the choice
    choice = None if ranking.choice is None else by_key[ranking.choice.key]
    taken = next((each for each in timed if choice is not None and each.key == choice.key), None)
    gap = None if is_gap_ignored else first_gap((taken, *timed[:1]), baseline)
    return Ranking(
        question=question,
        options=options,
        baseline=base,
        choice=choice if gap is None else None,
        alternatives=ranking.alternatives if gap is None else (),
        findings=() if gap is None else (gap,),
        excluded=excluded,
    )


def _baseline_option(options: Sequence[Option], baseline: Option | None, advice: Ranking | None) -> Option | None:
    """Return the option of the baseline that ran; where nothing was measured, else the model's 16-bit proposal."""
    if baseline is not None:
        return next((option for option in options if option.key == baseline.key), None)
    if advice is None or advice.baseline is None or any(option.is_measured for option in options):
        return None
    key = advice.baseline.key
    return next((option for option in options if option.kernel is None and option.weight_format == key), None)


def _advice(case: Case, ranked: tuple[Option, ...], device: Device | None) -> Ranking | None:
    """Ask the model for its ranking of this shape; None where it has no answer (no chip, no product, no 16-bit
    rate).
    """
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
        return [self._measured(case) or estimate for case, estimate in zip(cases, expected, strict=True)]

    def _measured(self, case: Case) -> Estimate | None:
        time_s = self.fastest_s.get(_case_formats(case))
        return None if time_s is None else Estimate(time_s, source="measured")


def _best_times(ranked: tuple[Option, ...], device: Device) -> _BestTimes:
    from roofline_model.expected.predict import expected_times

    fastest_s: dict[Formats, float] = {}
    for option in ranked:
        if option.is_measured:
            fastest_s.setdefault(_formats(option), option.estimate.time_s)
    return _BestTimes(fastest_s, expected_times(device))


def _stated(pooled: Option, lead: Record, candidate: Option | None) -> Option:
    """Return the option of what was run, with all that is said of it and fit to be shown.

    `lead`: its first record; `candidate`: what the model says of its formats.
    """
    weight, activation, ideal = pooled.weight_format, pooled.activation_format, lead.ideal
    memory = None if pooled.memory is None else replace(pooled.memory, saved_ratio=weight_saved_ratio(lead, weight))
    return replace(
        pooled,
        formats=(("a", activation), ("b", weight)),
        method=candidate.method if candidate else _plain_method(pooled),
        path=ideal.path if ideal else "",
        bound=ideal.bound if ideal else "",
        times=_stated_times(pooled),
        memory=memory,
        precision=pooled.precision or NO_FORMAT,
        findings=_findings(pooled, lead, candidate),
    )


def _stated_times(pooled: Option) -> Times:
    """Return the times of what was run; an expected one beside a measured one is named without its interval."""
    expected = pooled.times.expected
    if expected is None:
        return pooled.times
    ends = (None, None) if pooled.is_measured else (expected.low_s, expected.high_s)
    named = replace(expected, low_s=ends[0], high_s=ends[1])
    return replace(pooled.times, expected=named)


def _findings(pooled: Option, lead: Record, candidate: Option | None) -> tuple[Finding, ...]:
    """Return how the chip computes it where that is not natively; of what was not measured also what keeps it from
    running.
    """
    ideal = lead.ideal
    findings = []
    if ideal is not None and ideal.path not in ("", "native", "emulated"):
        widened = {"format": pooled.weight_format, "operand": "operands", "compute_format": ideal.compute_format}
        findings.append(finding("operands-widened", **widened))
    if not pooled.is_measured:
        of_candidate = () if candidate is None else candidate.findings
        findings += [item for item in of_candidate if item.code == "kernel-gap"]
        findings += [finding("emulated", pooled.label)] if is_emulation(pooled) else []
    return tuple(findings)


def _predicted_options(
    ranked: tuple[Option, ...],
    leads: Mapping[str, Record],
    baseline: Option | None,
    advice: Ranking | None,
    tried: set[Formats],
    refused: set[Formats],
    device: Device | None,
) -> list[Option]:
    """Return what was predicted and not measured: stored predictions first, then formats only the model knows of."""
    candidates = _by_formats(advice)
    stored = [each for each in ranked if not each.is_measured and _formats(each) not in tried]
    options = [_stated(each, leads[each.key], candidates.get(_formats(each))) for each in stored]
    formats_seen = tried | refused | {_formats(each) for each in stored}
    ideal_s = (
        baseline.times.ideal_s
        if baseline and baseline.times.ideal_s
        else (_ideal_s(advice.baseline) if advice and advice.baseline else None)
    )
    expected_s = _baseline_expected_s(baseline, leads[baseline.key].case, device) if baseline else None
    for formats, candidate in candidates.items():
        # Another 16-bit format than the measured one is no choice: it costs the same, and the kernel that runs is
        # known.
        is_other_wide = (
            candidate.method == "none" and baseline is not None and baseline.is_measured and is_sixteen_bit(baseline)
        )
        if formats not in formats_seen and candidate.estimate.source != "measured" and not is_other_wide:
            options.append(_proposal(candidate, ideal_s, expected_s))
    return options


def _baseline_expected_s(baseline: Option, case: Case, device: Device | None) -> float | None:
    """Return the expected time that expected speed-ups are counted against: as stored, else what the chip's model
    says.
    """
    stored = baseline.times.expected_s
    if stored is not None or device is None:
        return stored
    from roofline_model.expected.predict import expected_times

    if not {"a", "b", "c"} <= dict(case.formats).keys():
        return None
    try:
        estimate = expected_times(device)(case)
    except RooflineError:  # a user's format that this process has not loaded
        return None
    return None if estimate is None else estimate.time_s


def _proposal(candidate: Option, baseline_ideal_s: float | None, baseline_expected_s: float | None) -> Option:
    """Return the option of formats that nobody ran: the kernel is the library's choice."""
    estimate, operands = candidate.estimate, dict(candidate.formats)
    formats = (("a", operands["a"]), ("b", operands["b"]))
    ideal_s = _ideal_s(candidate)
    is_expected = estimate.source == "expected"
    baseline_s = baseline_expected_s if is_expected else baseline_ideal_s
    expected = replace(estimate, half_width_ratio=None)
    label = Case("gemm", (), formats, "*").precision_label
    saved_ratio = weight_saved_ratio(None, operands["b"])
    memory = None if candidate.memory is None else Memory(candidate.memory.total_bytes, saved_ratio=saved_ratio)
    is_emulated = candidate.path == "emulated"
    return Option(
        key=f"{operands['b']}.{operands['a']}",
        formats=formats,
        method=candidate.method,
        path=candidate.path,
        bound=candidate.bound,
        times=Times(Estimate(ideal_s, source="ideal"), expected if is_expected else None),
        memory=memory,
        loss=formats_loss(formats),
        speedup_ratio=baseline_s / (estimate.time_s if is_expected else ideal_s) if baseline_s else None,
        ideal_speedup_ratio=baseline_ideal_s / ideal_s if baseline_ideal_s else None,
        label=label,
        precision=label,
        findings=(*candidate.findings, *([finding("emulated", label)] if is_emulated else [])),
    )


def _ideal_s(option: Option) -> float:
    assert option.times.ideal is not None  # every option of a product has one
    return option.times.ideal.time_s


def _excluded(lost: Iterable[Record], ranked: set[Formats]) -> tuple[Exclusion, ...]:
    """Return the cases without a time: those that failed, and those skipped in formats that nothing else runs in."""
    excluded: dict[str, Exclusion] = {}
    for record in lost:
        if record.status == "failed" or _case_formats(record.case) not in ranked:
            label = record.case.configuration_label
            reason = finding("not-timed", label, status=record.status, reason=stored_reason(record))
            excluded.setdefault(label, Exclusion(label, (reason,)))
    return tuple(excluded.values())


def _preferred_cache(cases: Sequence[CaseResult]) -> str:
    """Return the cache state to judge by: cold where it was measured, because a model's weights rarely stay in
    cache.
    """
    usable = [each for each in cases if each.pooled is not None] or cases
    return min((each.case.cache for each in usable), key=lambda cache: regime_rank(cache, cases[0].case.mode))


def _plain_method(option: Option) -> str:
    """Name the method of a configuration the model has no candidate for."""
    if is_sixteen_bit(option):
        return "none"
    return "weight_only" if option.weight_format != option.activation_format else ""


def _by_formats(advice: Ranking | None) -> dict[Formats, Option]:
    options = advice.options if advice else ()
    return {_pair(dict(option.formats)["b"], dict(option.formats)["a"]): option for option in options}


def _formats(option: Option) -> Formats:
    return _pair(option.weight_format, option.activation_format)


def _case_formats(case: Case) -> Formats:
    formats = dict(case.formats)
    return _pair(formats.get("b", ""), formats.get("a", ""))


def _pair(weight: str, activation: str) -> Formats:
    """Identify a precision: BF16 and FP16 activations are one choice to who picks a weight format, and cost the
    same.
    """
    return weight, "16 bit" if activation in SIXTEEN_BIT_FORMATS else activation
