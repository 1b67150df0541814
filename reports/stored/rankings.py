"""Every ranking that the stored records allow: levels chosen, times pooled, rows made, limits kept, best first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reports.cases.errors import expected_doubt
from reports.cases.rows import case_rows
from reports.ranking.losses import StoredLosses
from reports.ranking.shape_ranking import rank_shape
from reports.stored.answer import Refused, StoredRanking
from reports.stored.evidence import GroupKey, StoredEvidence
from reports.stored.ordering import rank_stored
from reports.stored.question import StoredQuestion
from reports.stored.rows.baseline_trust import doubts_to_mend, with_baseline_trust
from reports.stored.rows.levels import CaseLevel, case_level, newest_measuring_run
from reports.stored.rows.models import model_options
from reports.stored.rows.night_speedups import NightSpeedups
from reports.stored.rows.rows import StoredOptions, levels_by_case
from reports.stored.rows.shapes import shape_options
from reports.stored.words import missing_of, summary_of
from reports.text.display_text import shown
from reports.text.labels import regime_title
from results.records.case_names import case_title, is_model_case
from results.records.records import Record, RunInfo
from results.statistics.replication import TotalInterval, total_intervals
from results.verdicts.model_results import ModelResult, PhaseResult, model_results
from roofline_model.core.answer import Question
from roofline_model.core.finding import short_text
from roofline_model.recommend.ranking import Limits

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
    totals: Mapping[str, TotalInterval]


def ranked_groups(
    groups: Groups, evidence: StoredEvidence, question: StoredQuestion, known: StoredLosses
) -> list[Ranked]:
    """Return the rankings of some groups of records, in the order of the groups; a model's group has one for each phase."""
    levels = {key: _levels(records, evidence.runs) for key, records in groups.items()}
    chips = {
        hardware_key: _chip(
            hardware_key, [one for key in levels if key[0] == hardware_key for one in levels[key]], evidence
        )
        for hardware_key in dict.fromkeys(key[0] for key in groups)
    }
    rankeds = []
    for key, members in levels.items():
        chip = chips[key[0]]
        if is_model_case(groups[key][0].case):
            made = _of_model(members, groups[key], chip, question, known)
        else:
            made = _of_shape(members, groups[key], chip, question)
        rankeds += [Ranked(one, key, tuple(members)) for one in made]
    return rankeds


def _levels(records: Sequence[Record], runs: Mapping[str, RunInfo]) -> list[CaseLevel]:
    by_case: dict[str, list[Record]] = {}
    for record in records:
        by_case.setdefault(record.case.case_key, []).append(record)
    # In an order of their own: an answer does not depend on the order of the records.
    return [case_level(by_case[key], runs) for key in sorted(by_case)]


def _chip(hardware_key: str, levels: Sequence[CaseLevel], evidence: StoredEvidence) -> _Chip:
    """Return what is common to a chip's rankings. The spread between processes is learnt from all cases of a level's newest run,
    as a report of that run does, so that it does not depend on what was asked."""
    by_run: dict[str, list[Record]] = {}
    for level in levels:
        if level.is_measured:
            by_run.setdefault(level.newest.run_id, []).extend(level.records)
    totals: dict[str, TotalInterval] = {}
    for run_id, records in by_run.items():
        run = evidence.runs[run_id]
        floors = evidence.floors.get(run.environment.class_hash, {})
        totals |= total_intervals(records, floors, learnt_from=evidence.whole.measured(run, hardware_key))
    return _Chip(
        hardware_key=hardware_key,
        hardware_name=shown(evidence.chip_name(hardware_key), 80),
        evidence=evidence,
        reference=evidence.whole.newest(hardware_key) or newest_measuring_run(levels),
        totals=totals,
    )


def _of_shape(
    levels: Sequence[CaseLevel], records: Sequence[Record], chip: _Chip, question: StoredQuestion
) -> list[StoredRanking]:
    kept, refused = _without_failed(levels)
    rows = case_rows(record for level in (kept or levels) for record in level.records)
    if not rows:
        return []
    # The chip as these records knew it: ceilings are measured anew from time to time, and ideal times compare within one set.
    device = chip.evidence.device(chip.hardware_key, (row.record for row in rows))
    recommendation = rank_shape(chip.hardware_key, rows, device, chip.totals)
    case = rows[0].record.case
    cached = [level for level in levels if level.records and level.records[0].case.cache == recommendation.cache]
    lost = [*refused, *(Refused(name, reason) for name, reason in recommendation.excluded)]
    regime = regime_title(recommendation.cache, recommendation.mode)
    bare = StoredRanking(
        subject="shape",
        hardware_key=recommendation.hardware_key,
        hardware_name=chip.hardware_name,
        title=shown(case_title(case.op, case.shape), 140) + (f", {regime}" if regime else ""),
        op=recommendation.op,
        model="",
        shape_label=recommendation.shape_label,
        phase=recommendation.phase,
        cache=recommendation.cache,
        mode=recommendation.mode,
        baseline_label=recommendation.baseline_label,
        rows=(),
        refused=(),
        summary="",
    )
    by_case = levels_by_case(levels)
    speedups = NightSpeedups(records, by_case, chip.evidence.runs)
    doubt = expected_doubt(device)
    made = shape_options(
        recommendation, by_case, chip.reference, chip.totals, speedups, is_calibration_doubtful=bool(doubt)
    )
    return [_finished(replace(bare, calibration_doubt=doubt), made, lost, cached, question)]


def _of_model(
    levels: Sequence[CaseLevel],
    records: Sequence[Record],
    chip: _Chip,
    question: StoredQuestion,
    known: StoredLosses,
) -> list[StoredRanking]:
    kept, refused = _without_failed(levels)
    pooled = [record for level in (kept or levels) for record in level.records]
    speedups = NightSpeedups(records, levels_by_case(levels), chip.evidence.runs)
    return [
        _of_phase(model, phase, levels, refused, chip, question, known, speedups)
        for model in model_results(pooled, chip.totals)
        for phase in model.phases
        if question.asks_for(phase.passes[0].records[0].case)
    ]


def _of_phase(
    model: ModelResult,
    phase: PhaseResult,
    levels: Sequence[CaseLevel],
    failed: Sequence[Refused],
    chip: _Chip,
    question: StoredQuestion,
    known: StoredLosses,
    speedups: NightSpeedups,
) -> StoredRanking:
    case = phase.passes[0].records[0].case
    mine = [level for level in levels if level.records and level.records[0].case.op == case.op]
    doubt = expected_doubt(chip.evidence.device(chip.hardware_key, (record for one in mine for record in one.records)))
    made, refused = model_options(
        phase,
        levels_by_case(mine),
        chip.reference,
        known,
        question.losses,
        chip.totals,
        speedups,
        is_calibration_doubtful=bool(doubt),
    )
    names = {shown(case_label(level)) for level in mine}
    regime = "" if model.mode == "eager" else f", {shown(model.mode, 30)}"
    baseline = phase.of(phase.judged.baseline)
    bare = StoredRanking(
        subject="model",
        hardware_key=shown(chip.hardware_key, 60),
        hardware_name=chip.hardware_name,
        title=shown(case_title(case.op, case.shape), 140) + regime,
        op=shown(case.op, 140),
        model=shown(model.name.model_name, 100),
        shape_label=shown(case.shape_label, 60),
        phase=phase.phase,
        cache=model.cache,
        mode=shown(model.mode, 30),
        baseline_label="" if baseline is None else shown(baseline.label, 100),
        rows=(),
        refused=(),
        summary="",
        calibration_doubt=doubt,
    )
    lost = [*(one for one in failed if one.label in names), *refused]
    return _finished(bare, made, lost, mine, question)


def _finished(
    bare: StoredRanking,
    made: StoredOptions,
    lost: Sequence[Refused],
    levels: Sequence[CaseLevel],
    question: StoredQuestion,
) -> StoredRanking:
    # Where everything failed, the ranking stands for its reasons alone.
    failed = {level.records[0].case.case_key for level in levels if has_failed(level)}
    baseline = None if made.baseline is None or made.baseline.key in failed else made.baseline
    options = with_baseline_trust([option for option in made.options if option.key not in failed], baseline)
    limits = Limits(
        question.memory_limit_bytes,
        question.memory_limit_bytes,
        loss_pct=question.max_loss_pct,
        claimed_loss_pct=question.max_loss_pct,
    )
    asked = Question(
        subject=bare.subject,
        hardware=bare.hardware_key,
        name=bare.title,
        phase=bare.phase,
        policy="stored",
        limits=limits.values,
    )
    ranking = rank_stored(asked, options, baseline, limits)
    labels = {option.key: option.label for option in options}
    missed = [Refused(labels[each.key], shown("; ".join(map(short_text, each.findings)))) for each in ranking.excluded]
    done = replace(
        bare,
        rows=ranking.options,
        refused=tuple(dict.fromkeys((*missed, *lost))),
        baseline=baseline,
        baseline_doubts=doubts_to_mend(baseline.trust.doubts) if baseline is not None and baseline.is_measured else (),
        reasons=made.reasons,
    )
    return replace(done, summary=summary_of(done), missing=missing_of(done, options, levels))


def _without_failed(levels: Sequence[CaseLevel]) -> tuple[list[CaseLevel], list[Refused]]:
    """Return the levels that stand, and those whose case failed in a newer run: what is wrong now is not recommended."""
    kept, refused = [], []
    for level in levels:
        if has_failed(level) and level.lost is not None:
            why = f"failed in run {level.lost.run_id[:8]}, after it was measured: {level.lost.reason or 'no reason was stored'}"
            refused.append(Refused(shown(case_label(level)), shown(why)))
        elif level.records:
            kept.append(level)
    return kept, refused


def has_failed(level: CaseLevel) -> bool:
    """Return whether a measured case failed in a newer run."""
    return level.is_measured and level.lost is not None and level.lost.status == "failed"


def case_label(level: CaseLevel) -> str:
    """Return what a ranking calls a level's case: precision and kernel; of a model its precision."""
    from results.records.model_figures import model_figures
    from results.verdicts.model_results import pass_label

    record = level.records[0]
    figures = model_figures(record)
    if figures is not None:
        return pass_label(record.case, figures)
    return f"{record.case.precision_label or 'no format'} ({record.case.kernel})"
