"""Every ranking that the stored records allow: levels chosen, times pooled, rows made, limits kept, best first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from reports.present.display_text import regime_title, shown
from reports.ranking.shape_ranking import NO_REASON, rank_shape
from reports.ranking.words import stale_text
from reports.stored.answer import StoredRanking
from reports.stored.evidence import GroupKey, StoredEvidence
from reports.stored.question import StoredQuestion
from reports.stored.rows.baseline_trust import with_baseline_trust
from reports.stored.rows.levels import CaseLevel, case_level, newest_measuring_run
from reports.stored.rows.models import pass_options
from reports.stored.rows.run_speedups import RunSpeedups
from reports.stored.rows.stored_option import StoredOptions, levels_by_case, stored_options
from results.cases.case_result import CaseRecords, CaseResult, by_case, pooled_results
from results.cases.gain import first_gap
from results.cases.losses import StoredLosses
from results.cases.model_results import ModelResult, PhaseResult, model_results
from results.records.records import Record, RunInfo
from roofline_model.chips.hardware import doubts_of
from roofline_model.core.answer import Exclusion, Option, Question
from roofline_model.core.finding import Finding, finding
from roofline_model.operators.case import case_title, is_model_case
from roofline_model.recommend.ranking import MAX_LOSS_PCT, Limits, rank_stored

Groups = Mapping[GroupKey, Sequence[Record]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A ranking with what it was made of."""

    ranking: StoredRanking
    group: GroupKey
    levels: tuple[CaseLevel, ...]


@dataclass(frozen=True, slots=True)
class _Chip:
    """One chip's evidence, as every ranking on it needs it."""

    hardware_key: str
    hardware_name: str
    evidence: StoredEvidence
    reference: RunInfo | None
    """Its newest measuring run."""


def ranked_groups(
    groups: Groups, evidence: StoredEvidence, question: StoredQuestion, losses: StoredLosses
) -> list[Ranked]:
    """Return the rankings of some groups of records, in the order of the groups; a model's group has one for each
    phase.
    """
    levels = {key: _levels(records, evidence.runs) for key, records in groups.items()}
    chips = {}
    for hardware_key in dict.fromkeys(key[0] for key in groups):
        keys = [key for key in levels if key[0] == hardware_key]
        levels |= _pooled(hardware_key, {key: levels[key] for key in keys}, evidence)
        chips[hardware_key] = _chip(hardware_key, [level for key in keys for level in levels[key]], evidence)
    rankeds = []
    for key, members in levels.items():
        chip = chips[key[0]]
        if is_model_case(groups[key][0].case):
            made = _of_model(members, groups[key], chip, question, losses)
        else:
            made = _of_shape(members, groups[key], chip, question)
        rankeds += [Ranked(ranking, key, tuple(members)) for ranking in made]
    return rankeds


def _levels(records: Sequence[Record], runs: Mapping[str, RunInfo]) -> list[CaseLevel]:
    by_case: dict[str, list[Record]] = {}
    for record in records:
        by_case.setdefault(record.case.case_key, []).append(record)
    # In an order of their own: an answer does not depend on the order of the records.
    return [case_level(by_case[key], runs) for key in sorted(by_case)]


def _pooled(
    hardware_key: str, levels: Mapping[GroupKey, Sequence[CaseLevel]], evidence: StoredEvidence
) -> dict[GroupKey, list[CaseLevel]]:
    """Return the levels of one chip with the results of their cases. The spread between processes is learnt from all
    cases of a level's newest run, as a report of that run does, so that it does not depend on what was asked.
    """
    by_run: dict[str, list[CaseRecords]] = {}
    results: dict[str, CaseResult] = {}
    for level in chain.from_iterable(levels.values()):
        if level.records:
            case = level.records[0].case.case_key, level.records
            by_run.setdefault(level.newest.run_id if level.is_measured else "", []).append(case)
    for run_id, cases in by_run.items():
        run = evidence.runs.get(run_id)
        floors = {} if run is None else evidence.floors.get(run.environment.class_hash, {})
        whole = () if run is None else evidence.whole.measured(run, hardware_key)
        results |= {each.case_key: each for each in pooled_results(cases, floors, learnt_from=by_case(whole))}
    return {
        key: [
            replace(level, result=results[level.records[0].case.case_key]) if level.records else level
            for level in members
        ]
        for key, members in levels.items()
    }


def _chip(hardware_key: str, levels: Sequence[CaseLevel], evidence: StoredEvidence) -> _Chip:
    return _Chip(
        hardware_key=hardware_key,
        hardware_name=shown(evidence.chip_name(hardware_key), 80),
        evidence=evidence,
        reference=evidence.whole.newest(hardware_key) or newest_measuring_run(levels),
    )


def _of_shape(
    levels: Sequence[CaseLevel], records: Sequence[Record], chip: _Chip, question: StoredQuestion
) -> list[StoredRanking]:
    timed, failed = _without_failed(levels)
    cases = [level.result for level in (timed or levels) if level.result is not None]
    if not cases:
        return []
    # The chip as these records knew it: ceilings are measured anew from time to time, and ideal times compare within
    # one set.
    device = chip.evidence.device(chip.hardware_key, (record for each in cases for record in each.records))
    ranked = rank_shape(chip.hardware_key, cases, device)
    cached = [level for level in levels if level.records and level.records[0].case.cache == ranked.question.cache]
    regime = regime_title(ranked.question.cache, ranked.question.mode)
    title = ranked.question.name + (f", {regime}" if regime else "")
    bare = StoredRanking(
        question=replace(ranked.question, name=title, limits=_limits(question).values),
        options=(),
        baseline=None,
        choice=None,
        hardware_name=chip.hardware_name,
        calibration_doubt=None if device is None else next(iter(doubts_of(device)), None),
    )
    by_case_key = levels_by_case(levels)
    speedups = RunSpeedups(records, by_case_key, chip.evidence.runs)
    made = stored_options(ranked.options, ranked.baseline, by_case_key, chip.reference, speedups)
    return [_finished(bare, made, (*failed, *ranked.excluded), cached, question)]


def _of_model(
    levels: Sequence[CaseLevel],
    records: Sequence[Record],
    chip: _Chip,
    question: StoredQuestion,
    losses: StoredLosses,
) -> list[StoredRanking]:
    timed, failed = _without_failed(levels)
    cases = [level.result for level in (timed or levels) if level.result is not None]
    speedups = RunSpeedups(records, levels_by_case(levels), chip.evidence.runs)
    return [
        _of_phase(model, phase, levels, failed, chip, question, losses, speedups)
        for model in model_results(cases)
        for phase in model.phases
        if question.asks_for(phase.passes[0].case.case)
    ]


def _of_phase(
    model: ModelResult,
    phase: PhaseResult,
    levels: Sequence[CaseLevel],
    failed: Sequence[Exclusion],
    chip: _Chip,
    question: StoredQuestion,
    losses: StoredLosses,
    speedups: RunSpeedups,
) -> StoredRanking:
    case = phase.passes[0].case.case
    mine = [level for level in levels if level.records and level.records[0].case.op == case.op]
    device = chip.evidence.device(chip.hardware_key, (record for level in mine for record in level.records))
    doubt = None if device is None else next(iter(doubts_of(device)), None)
    options, excluded = pass_options(phase, losses, question.losses)
    made = stored_options(options, phase.judged.baseline, levels_by_case(mine), chip.reference, speedups)
    names = {shown(case_label(level)) for level in mine}
    regime = "" if model.mode == "eager" else f", {shown(model.mode, 30)}"
    asked = Question(
        *("model", shown(chip.hardware_key, 60), shown(case_title(case.op, case.shape), 140) + regime, case.shape),
        *(phase.phase, "stored", _limits(question).values),
        op=shown(case.op, 140),
        cache=model.cache,
        mode=shown(model.mode, 30),
    )
    bare = StoredRanking(
        question=asked,
        options=(),
        baseline=None,
        choice=None,
        hardware_name=chip.hardware_name,
        calibration_doubt=doubt,
    )
    lost = [*(each for each in failed if each.key in names), *excluded]
    return _finished(bare, made, lost, mine, question)


def _limits(question: StoredQuestion) -> Limits:
    return Limits(
        question.memory_limit_bytes,
        question.memory_limit_bytes,
        loss_pct=None if question.max_loss_pct == math.inf else question.max_loss_pct,
        choice_loss_pct=MAX_LOSS_PCT if question.max_loss_pct is None else None,
    )


def _finished(
    bare: StoredRanking,
    made: StoredOptions,
    lost: Sequence[Exclusion],
    levels: Sequence[CaseLevel],
    question: StoredQuestion,
) -> StoredRanking:
    # Where everything failed, the ranking stands for its reasons alone.
    failed = {level.records[0].case.case_key for level in levels if has_failed(level)}
    baseline = None if made.baseline is None or made.baseline.key in failed else made.baseline
    options = with_baseline_trust([option for option in made.options if option.key not in failed], baseline)
    ranking = rank_stored(bare.question, options, baseline, _limits(question))
    ranked = {option.key: option for option in options}
    choice = None if ranking.choice is None else ranked[ranking.choice.key]
    first = ranked[ranking.options[0].key] if ranking.options else None
    gap = None if choice is None else first_gap((choice, first), baseline)
    is_result = gap is None or question.is_forced
    done = replace(
        bare,
        options=tuple(
            ranked[option.key] for option in ranking.options
        ),  # their own findings: the summary says the rest
        excluded=(*ranking.excluded, *lost),
        baseline=baseline,
        choice=choice if is_result else None,
        alternatives=ranking.alternatives if is_result else (),
        findings=() if gap is None else (gap,),
    )
    return replace(done, missing=_missing(done, options, levels))


def _missing(ranking: StoredRanking, options: Sequence[Option], levels: Sequence[CaseLevel]) -> tuple[Finding, ...]:
    """Return what is not known of a ranking, and what would tell. `options`: all of it, those beyond the limits too."""
    findings = []
    measured = [option for option in options if option.is_measured]
    if not measured:
        findings.append(finding("evidence-missing", kind="none-measured"))
    elif len(measured) == 1:
        findings.append(finding("evidence-missing", measured[0].label, kind="one-measured"))
    if not ranking.baseline_label:
        findings.append(finding("evidence-missing", kind="baseline"))
    elif measured and not any(ranking.is_baseline(option) and option.is_measured for option in options):
        findings.append(finding("evidence-missing", ranking.baseline_label, kind="baseline-unmeasured"))
    unknown = [option for option in options if option.loss.source == "unknown"]
    if unknown:
        findings.append(finding("evidence-missing", kind="losses", options=_labels(unknown)))
    forced_count = sum(level.runs[-1].is_forced for level in levels)
    if forced_count:
        findings.append(finding("records-unused", kind="forced", case_count=forced_count))
    stale = [option for option in options if option.trust.stale]
    if stale:
        findings.append(finding("stale", options=_labels(stale), reason=stale_text(stale[0].trust)))
    classes = {level.newest.environment.class_hash for level in levels if level.is_measured}
    if len(classes) > 1:
        findings.append(finding("evidence-missing", kind="environments"))
    return tuple(findings)


def _labels(options: Sequence[Option]) -> tuple[str, ...]:
    names = list(dict.fromkeys(option.label for option in options))
    return (*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else []))


def _without_failed(levels: Sequence[CaseLevel]) -> tuple[list[CaseLevel], list[Exclusion]]:
    """Return the levels that stand, and those whose case failed in a newer run: what is wrong now is not
    recommended.
    """
    timed, failed = [], []
    for level in levels:
        if has_failed(level) and level.lost is not None:
            label = shown(case_label(level))
            reason = level.lost.reason or NO_REASON
            failed.append(Exclusion(label, (finding("failed-since", label, run=level.lost.run_id[:8], reason=reason),)))
        elif level.records:
            timed.append(level)
    return timed, failed


def has_failed(level: CaseLevel) -> bool:
    """Return whether a measured case failed in a newer run."""
    return level.is_measured and level.lost is not None and level.lost.status == "failed"


def case_label(level: CaseLevel) -> str:
    """Return what a ranking calls a level's case: precision and kernel; of a model its precision."""
    from results.cases.model_results import pass_label
    from results.records.model_figures import model_figures

    record = level.records[0]
    figures = model_figures(record)
    if figures is not None:
        return pass_label(record.case, figures)
    return record.case.configuration_label
