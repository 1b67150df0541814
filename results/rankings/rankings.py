"""Every ranking that the stored records allow: levels chosen, times pooled, options made, limits kept, best first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from results.cases.case_result import CaseResult, by_case, pooled_results, stored_reason
from results.cases.gain import first_gap
from results.cases.losses import StoredLosses
from results.cases.model_results import model_results, pass_label
from results.rankings.evidence import GroupKey, StoredEvidence
from results.rankings.levels import CaseLevel, case_level, newest_measuring_run
from results.rankings.moves import RankChange
from results.rankings.passes import pass_options
from results.rankings.question import StoredQuestion
from results.rankings.run_speedups import RunSpeedups
from results.rankings.shape import rank_shape
from results.rankings.trust import stored_options, with_baseline_trust
from results.records.model_figures import model_figures
from results.records.records import Record, RunInfo
from roofline_model.chips.hardware import Device, doubts_of
from roofline_model.core.answer import Exclusion, Option, Question, Ranking
from roofline_model.core.finding import Finding, finding, findings_text
from roofline_model.core.grouping import grouped
from roofline_model.operators.case import case_title, is_model_case, regime_title
from roofline_model.recommend.ranking import MAX_LOSS_PCT, Limits, rank_stored

Groups = Mapping[GroupKey, Sequence[Record]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRanking(Ranking):
    """What all runs together say of one shape, or of one phase of a model, on one chip."""

    hardware_name: str
    """Product name of the chip, else its key."""
    missing: tuple[Finding, ...] = ()
    """What is not known of this ranking, and what would tell."""
    calibration_doubt: Finding | None = None
    """Why its expected times are in doubt: the calibration they rest on was of a busy machine; None where it was
    not.
    """
    changes: tuple[RankChange, ...] = ()
    """What became of options since the run before."""
    compared: tuple[RunInfo, RunInfo] | None = None
    """The newest run, and the newest one that `changes` compares it with; None without an earlier one."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A ranking with what it was made of."""

    ranking: StoredRanking
    group: GroupKey
    levels: tuple[CaseLevel, ...]


@dataclass(frozen=True, slots=True)
class _Group:
    """The records of one ranking's cases, of a model of the rankings of its phases, with what is asked of them."""

    hardware_key: str
    records: Sequence[Record]
    levels: Sequence[CaseLevel]
    evidence: StoredEvidence
    question: StoredQuestion
    reference: RunInfo | None
    """The chip's newest measuring run."""

    def ranking(
        self,
        question: Question,
        options: Sequence[Option],
        baseline: Option | None,
        lost: Sequence[Exclusion],
        levels: Sequence[CaseLevel],
        device: Device | None,
    ) -> StoredRanking:
        """Return the ranking of options that are no more than pooled: trusted by the nights of their `levels`, those
        that failed since left out, in order, without a choice where its times make no result.
        """
        asked = self.question
        limits = Limits(
            asked.memory_limit_bytes,
            asked.memory_limit_bytes,
            loss_pct=None if asked.max_loss_pct == math.inf else asked.max_loss_pct,
            choice_loss_pct=MAX_LOSS_PCT if asked.max_loss_pct is None else None,
        )
        by_case_key = {level.records[0].case.case_key: level for level in levels if level.records}
        speedups = RunSpeedups(self.records, by_case_key, self.evidence.runs)
        made = stored_options(options, baseline, by_case_key, self.reference, speedups)
        # Where everything failed, the ranking stands for its reasons alone.
        standing = [option for option in made if not has_failed(by_case_key.get(option.key))]
        base = next((option for option in standing if baseline is not None and option.key == baseline.key), None)
        standing = with_baseline_trust(standing, base)
        ranked = rank_stored(question, standing, base, limits)
        by_key = {option.key: option for option in standing}
        choice = None if ranked.choice is None else by_key[ranked.choice.key]
        ordered = tuple(
            by_key[option.key] for option in ranked.options
        )  # their own findings: the summary says the rest
        gap = None if choice is None else first_gap((choice, *ordered[:1]), base)
        is_result = gap is None or self.question.is_forced
        ranking = StoredRanking(
            question=replace(question, limits=limits.values),
            options=ordered,
            baseline=base,
            choice=choice if is_result else None,
            alternatives=ranked.alternatives if is_result else (),
            excluded=(*ranked.excluded, *lost),
            findings=() if gap is None else (gap,),
            hardware_name=self.evidence.chip_name(self.hardware_key),
            calibration_doubt=None if device is None else next(iter(doubts_of(device)), None),
        )
        return replace(ranking, missing=_missing(ranking, standing, levels))

    def device(self, records: Sequence[Record]) -> Device | None:
        """Return the chip as these records knew it: ceilings are measured anew from time to time, and ideal times
        compare within one set.
        """
        return self.evidence.device(self.hardware_key, records)


def ranked_groups(
    groups: Groups, evidence: StoredEvidence, question: StoredQuestion, losses: StoredLosses
) -> list[Ranked]:
    """Return the rankings of some groups of records, in the order of the groups; a model's group has one for each
    phase.
    """
    levels = {key: _levels(records, evidence.runs) for key, records in groups.items()}
    references = {}
    for hardware_key in dict.fromkeys(key[0] for key in groups):
        of_chip = {key: members for key, members in levels.items() if key[0] == hardware_key}
        levels |= _pooled(hardware_key, of_chip, evidence)
        every = chain.from_iterable(of_chip.values())
        references[hardware_key] = evidence.newest.get(hardware_key) or newest_measuring_run(every)
    rankeds = []
    for key, members in levels.items():
        group = _Group(key[0], groups[key], members, evidence, question, references[key[0]])
        is_model = is_model_case(groups[key][0].case)
        made = _of_model(group, losses) if is_model else _of_shape(group)
        rankeds += [Ranked(ranking, key, tuple(members)) for ranking in made]
    return rankeds


def _levels(records: Sequence[Record], runs: Mapping[str, RunInfo]) -> list[CaseLevel]:
    by_case = grouped(records, lambda record: record.case.case_key)
    # In an order of their own: an answer does not depend on the order of the records.
    return [case_level(by_case[key], runs) for key in sorted(by_case)]


def _pooled(
    hardware_key: str, levels: Mapping[GroupKey, Sequence[CaseLevel]], evidence: StoredEvidence
) -> dict[GroupKey, list[CaseLevel]]:
    """Return the levels of one chip with the results of their cases. The spread between processes is learnt from all
    cases of a level's newest run, as a report of that run does, so that it does not depend on what was asked.
    """
    results: dict[str, CaseResult] = {}
    of_records = (level for level in chain.from_iterable(levels.values()) if level.records)
    by_run = grouped(of_records, lambda level: level.newest.run_id if level.is_measured else "")
    for run_id, members in by_run.items():
        cases = [(level.records[0].case.case_key, level.records) for level in members]
        run = evidence.runs.get(run_id)
        floors = {} if run is None else evidence.floors.get(run.environment.class_hash, {})
        whole = () if run is None else evidence.measured(run, hardware_key)
        results |= {each.case_key: each for each in pooled_results(cases, floors, learnt_from=by_case(whole))}
    return {
        key: [
            replace(level, result=results[level.records[0].case.case_key]) if level.records else level
            for level in members
        ]
        for key, members in levels.items()
    }


def _of_shape(group: _Group) -> list[StoredRanking]:
    timed, failed = _without_failed(group.levels)
    cases = [level.result for level in (timed or group.levels) if level.result is not None]
    if not cases:
        return []
    device = group.device([record for each in cases for record in each.records])
    ranked = rank_shape(group.hardware_key, cases, device)
    asked = ranked.question
    cached = [level for level in group.levels if level.records and level.records[0].case.cache == asked.cache]
    question = replace(asked, name=", ".join(filter(None, (asked.name, regime_title(asked.cache, asked.mode)))))
    return [group.ranking(question, ranked.options, ranked.baseline, (*failed, *ranked.excluded), cached, device)]


def _of_model(group: _Group, losses: StoredLosses) -> list[StoredRanking]:
    """Return a ranking for each phase of a model that is asked for."""
    timed, failed = _without_failed(group.levels)
    cases = [level.result for level in (timed or group.levels) if level.result is not None]
    rankings = []
    for model in model_results(cases):
        for phase in model.phases:
            case = phase.passes[0].case.case
            if not group.question.asks_for(case):
                continue
            levels = [level for level in group.levels if level.records and level.records[0].case.op == case.op]
            options, excluded = pass_options(phase, losses, group.question.losses)
            name = ", ".join([case_title(case.op, case.shape), *([] if model.mode == "eager" else [model.mode])])
            question = Question(
                *("model", group.hardware_key, name, case.shape, phase.phase, "stored"),
                op=case.op,
                cache=model.cache,
                mode=model.mode,
            )
            names = set(map(case_label, levels))
            lost = [*(each for each in failed if each.key in names), *excluded]
            device = group.device([record for level in levels for record in level.records])
            rankings.append(group.ranking(question, options, phase.judged.baseline, lost, levels, device))
    return rankings


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
        findings.append(finding("stale", options=_labels(stale), reason=findings_text(stale[0].trust.stale)))
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
            label, reason = case_label(level), stored_reason(level.lost)
            failed.append(Exclusion(label, (finding("failed-since", label, run=level.lost.run_id[:8], reason=reason),)))
        elif level.records:
            timed.append(level)
    return timed, failed


def has_failed(level: CaseLevel | None) -> bool:
    """Return whether a measured case failed in a newer run."""
    return level is not None and level.is_measured and level.lost is not None and level.lost.status == "failed"


def case_label(level: CaseLevel) -> str:
    """Return what a ranking calls a level's case: precision and kernel; of a model its precision."""
    record = level.records[0]
    figures = model_figures(record)
    return record.case.configuration_label if figures is None else pass_label(record.case, figures)
