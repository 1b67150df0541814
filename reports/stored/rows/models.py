"""The rows of one phase of a model: its precisions with time, held memory and loss, as the stored runs know them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reports.present.display_text import shown
from reports.ranking.shape_ranking import NO_REASON
from reports.stored.rows.levels import CaseLevel
from reports.stored.rows.run_speedups import RunSpeedup, RunSpeedups
from reports.stored.rows.stored_option import (
    StoredOptions,
    evidence_of,
    predicted_half_ratio,
    trust_of,
)
from results.records.records import RunInfo
from results.verdicts.losses import StoredLosses, pass_loss
from results.verdicts.model_results import PassResult, PhaseResult, slow_issue
from roofline_model.core.answer import Estimate, Evidence, Exclusion, Loss, Memory, Option, Times, Trust
from roofline_model.core.finding import Finding, finding
from roofline_model.recommend.search.losses_file import MeasuredLosses


def model_options(
    phase: PhaseResult,
    levels: Mapping[str, CaseLevel],
    reference: RunInfo | None,
    stored_losses: StoredLosses,
    losses: Sequence[MeasuredLosses],
    speedups: RunSpeedups,
) -> tuple[StoredOptions, list[Exclusion]]:
    """Return the precisions of a phase that have a time, unordered, and the others with the reason."""
    options, excluded = [], []
    baseline = phase.of(phase.judged.baseline)
    for model_pass in phase.passes:
        if model_pass.option is None:
            case = model_pass.case
            reason = finding("not-timed", model_pass.label, status=case.status, reason=case.reason or NO_REASON)
            excluded.append(Exclusion(shown(model_pass.label, 100), (reason,)))
            continue
        case_key = model_pass.case.case_key
        speedup = None
        if baseline is not None and model_pass is not baseline and model_pass.measured_s is not None:
            speedup = speedups.of(case_key, baseline.case.case_key, model_pass.measured_speedup)
        times = _times(model_pass)
        level = levels.get(case_key)
        trust = trust_of(times.best, level, reference)
        loss = pass_loss(model_pass, stored_losses, losses)
        options.append(_option(model_pass, times, evidence_of(level), trust, loss, speedup))
    key = "" if baseline is None else baseline.case.case_key
    return StoredOptions(options, next((option for option in options if option.key == key), None)), excluded


def _option(
    model_pass: PassResult,
    times: Times,
    evidence: tuple[Evidence, ...],
    trust: Trust,
    loss: Loss,
    speedup: RunSpeedup | None,
) -> Option:
    case, figures, ideal = model_pass.case.case, model_pass.figures, model_pass.case.ideal
    measured_ratio = model_pass.measured_speedup if speedup is None else speedup.ratio
    speedups = {"measured": measured_ratio, "expected": model_pass.expected_speedup, "ideal": model_pass.ideal_speedup}
    estimate, memory_bytes = times.best, figures.whole_bytes
    memory = None
    if memory_bytes is not None:
        saved_ratio = None if figures.held_ratio is None else 1 - figures.held_ratio
        memory = Memory(memory_bytes, saved_ratio=saved_ratio, is_measured=figures.resident_bytes is not None)
    return Option(
        key=case.case_key,
        formats=case.formats,
        method=shown(figures.method, 60) or "none",
        path="emulated" if figures.is_emulated else _path(model_pass),
        bound="" if ideal is None else ideal.bound,
        times=times,
        memory=memory,
        loss=loss,
        speedup_ratio=1.0 if model_pass.is_baseline else speedups[estimate.source],
        ideal_speedup_ratio=model_pass.ideal_speedup,
        expected_speedup_ratio=model_pass.expected_speedup,
        label=shown(model_pass.label, 100),
        precision=shown(model_pass.label, 100),
        kernel=shown(case.kernel, 60),
        tokens_per_s=figures.tokens_per_call / estimate.time_s,
        evidence=evidence,
        trust=trust if speedup is None else speedup.trusted(trust),
        findings=tuple(_findings(model_pass, estimate.source)),
    )


def _findings(model_pass: PassResult, source: str) -> Iterator[Finding]:
    if source == "measured":
        item = slow_issue([model_pass])
        if item is not None:
            yield item
    elif model_pass.figures.is_emulated:
        yield finding("emulated", model_pass.case.case_key)


def _times(model_pass: PassResult) -> Times:
    """Return the times of a pass; one without any is not ranked."""
    assert model_pass.option is not None  # model_options keeps no others
    measured, measured_s = None, model_pass.measured_s
    if measured_s is not None:
        low_s, high_s = model_pass.case.interval_s
        measured = Estimate(measured_s, low_s, high_s, "measured", half_width_ratio=model_pass.interval_ratio)
    stored, expected = model_pass.case.expected, None
    if stored is not None:
        half_ratio = predicted_half_ratio(stored.time_s, stored.low_s, stored.high_s)
        expected = Estimate(stored.time_s, stored.low_s, stored.high_s, "expected", stored.provenance, half_ratio)
    return Times(model_pass.option.times.ideal, expected, measured)


def _path(model_pass: PassResult) -> str:
    ideal = model_pass.case.ideal
    return "" if ideal is None else shown(ideal.path, 30)
