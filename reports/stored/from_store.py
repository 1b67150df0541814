"""`recommend_from_store`: ranked recommendations from everything that is stored, with what changed since the run
before; for one run, what all stored runs say of its questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reports.present.display_text import counted, shown
from reports.stored.answer import StoredRanking, StoredRecommendations
from reports.stored.changes import changes_since
from reports.stored.evidence import GroupKey, StoredEvidence, read_evidence
from reports.stored.left_out import left_out_notes, left_out_runs, runs_text
from reports.stored.question import StoredQuestion, subject_of
from reports.stored.rankings import Ranked, ranked_groups
from reports.stored.rows.levels import CaseLevel, chip_of, is_of_this_chip
from reports.stored.whole_runs import GivenRuns
from reports.stored.words import calibration_text
from results.cases.losses import StoredLosses
from results.records.model_figures import is_untrained
from results.records.records import HardwareProfile, Record, RunInfo
from roofline_model.core.finding import finding, short_text
from roofline_model.operators.case import is_model_case, pass_name

if TYPE_CHECKING:
    from results.store.store import ResultStore


def recommend_from_store(store: ResultStore, question: StoredQuestion | None = None) -> StoredRecommendations:
    """Return the ranked recommendations of an open store: for every chip, shape and model that a question is about.

    Times are measured where they exist (the level of a case's newest comparable nights), else expected, else ideal;
    losses measured where stored, else claimed; every row says which, how sure, and names its runs and records. Raises
    `StoreError` where the store cannot be read.
    """
    question = question or StoredQuestion()
    return recommend_from_evidence(read_evidence(store, question), question)


def recommend_from_runs(
    runs: Iterable[RunInfo],
    records: Iterable[Record],
    profiles: Mapping[str, HardwareProfile] | None = None,
    question: StoredQuestion | None = None,
) -> StoredRecommendations:
    """Return the same of runs and records in hand, in any order; `profiles`: chips by hash, which add what was not
    run.
    """
    question = question or StoredQuestion()
    by_id, records = {run.run_id: run for run in runs}, tuple(records)
    evidence = StoredEvidence(by_id, records, profiles or {}, whole=GivenRuns(by_id, records))
    return recommend_from_evidence(evidence.narrowed(question), question)


def recommend_from_evidence(evidence: StoredEvidence, question: StoredQuestion) -> StoredRecommendations:
    """Return the rankings that are asked for, each with its changes since the run before."""
    qualities = StoredLosses(evidence.records, evidence.runs)
    groups = {
        key: records
        for key, records in sorted(evidence.groups().items())
        if (not question.hardware_key or key[0] == question.hardware_key)
        and any(question.asks_for(record.case) for record in records)
    }
    untrained = {key: them for key, them in groups.items() if any(map(is_untrained, them))}
    groups = {key: them for key, them in groups.items() if key not in untrained}
    refusals = _refusals(untrained)
    # Cases that failed before their prediction may name no chip; beside others they are no ranking of their own.
    groups = {key: them for key, them in groups.items() if key[0] or not any(other[0] for other in groups)}
    now = ranked_groups(groups, evidence, question, qualities)
    rankings = changes_since(now, groups, evidence, question)
    asked_for = [record for records in groups.values() for record in records if question.asks_for(record.case)]
    levels = tuple(
        {id(level): level for entry in now for level in entry.levels}.values()
    )  # a model's phases share theirs
    return StoredRecommendations(
        rankings=tuple(sorted(rankings, key=_place)),
        missing=_missing(evidence, question, rankings) if rankings or not refusals else refusals,
        notes=(*_notes(now, levels, evidence), *(refusals if rankings else ())),
        run_count=len({record.run_id for record in asked_for}),
        record_count=len(asked_for),
        left_out=left_out_runs(levels, evidence.runs),
    )


def _notes(ranked: Sequence[Ranked], levels: Sequence[CaseLevel], evidence: StoredEvidence) -> tuple[str, ...]:
    """Return the doubts of a calibration, then the runs that were left out; each once."""
    doubts = dict.fromkeys(calibration_text(entry.ranking) for entry in ranked)
    unused = evidence.simulated_run_ids
    simulated = (short_text(finding("records-unused", kind="simulated", run_count=len(unused))),) if unused else ()
    return (*(text for text in doubts if text), *simulated, *left_out_notes(levels, evidence.runs))


def _refusals(untrained: Mapping[GroupKey, Sequence[Record]]) -> tuple[str, ...]:
    """Return why there is no ranking of a model whose weights were drawn from a seed."""
    names = dict.fromkeys(name.removeprefix("model:") for _, name, _, _ in untrained)
    return tuple(f"{shown(name, 80)}: {short_text(finding('untrained'))}" for name in names)


def _place(ranking: StoredRanking) -> tuple[object, ...]:
    """Order rankings: by chip, models before shapes, decode before prefill, then by operator and sizes."""
    asked = ranking.question
    name = pass_name(asked.op, asked.sizes)
    model = "" if name is None else name.model_name
    sizes = tuple(size for _, size in asked.sizes)
    return asked.hardware, asked.subject == "shape", model, asked.op, sizes, asked.mode, asked.cache


def _missing(evidence: StoredEvidence, question: StoredQuestion, rankings: list[StoredRanking]) -> tuple[str, ...]:
    if not evidence.runs:
        return (
            f"nothing is stored{question.words}: measure first, `pytest bench_cases` (docs/reference/measuring.md)",
        )
    if not evidence.records or not rankings:
        keys = {chip_of(record, evidence.runs[record.run_id]) for record in evidence.records}
        chips = sorted((keys | {run.hardware_key for run in evidence.runs.values()}) - {""})
        chips_text = f"; stored chips: {', '.join(shown(chip, 60) for chip in chips)}" if chips else ""
        return (f"no record{question.words} is stored{chips_text}; `roofline runs` lists what is",)
    texts = []
    measured = [record for record in evidence.records if record.status == "measured" and question.asks_for(record.case)]
    if not measured:
        texts.append("no record is measured: every time is a prediction, nothing is known of this machine's kernels")
    elif not any(is_of_this_chip(record, evidence.runs[record.run_id]) for record in measured):
        texts.append("every time was measured by force on another machine: none is of its chip")
    if not any(row.loss.source == "measured" for ranking in rankings for row in ranking.options):
        texts.append(
            "no loss was measured: quality is what others published of the formats (`-k model_quant` and `roofline "
            "losses` measure it)"
        )
    chips = sorted({ranking.question.hardware for ranking in rankings})
    if len(chips) > 1:
        texts.append(
            f"{counted(len(chips), 'chip')} are stored ({', '.join(chips)}): each has rankings of its own, never mixed"
        )
    nameless = sum(not chip_of(record, evidence.runs[record.run_id]) for record in evidence.records)
    if nameless:
        texts.append(
            f"{counted(nameless, 'record')} without a chip: stored by another tool, or failed before a prediction"
        )
    return tuple(texts)


MOST_SHAPES = 40
"""Shapes of a run that are asked about; whole models all are. A ranking costs milliseconds, and each is made twice."""


def recommend_for_run(
    store: ResultStore, records: Iterable[Record], *, is_wanted: bool | None = None, is_forced: bool = False
) -> StoredRecommendations | None:
    """Return what the store recommends for the shapes and models of a run's records, on their chips.

    `is_wanted`: True always, False never, None where another run than one holds the same questions; None is returned
    for no. `is_forced`: disturbed times make results, too. Raises `StoreError` where the store cannot be read.
    """
    records = tuple(records)
    if is_wanted is False or not records or (is_wanted is None and len(store.runs(limit=2)) < 2):
        return None
    recommendations = recommend_from_store(store, replace(question_of_run(records), is_forced=is_forced))
    return _with_origin(recommendations, records[0].run_id) if is_wanted or recommendations.run_count > 1 else None


def _with_origin(recommendations: StoredRecommendations, run_id: str) -> StoredRecommendations:
    """Return the answer with a note where it rests on other runs alone than the one that is reported, and why."""
    nights = {
        run.run_id: run for ranking in recommendations.rankings for row in ranking.options for run in row.evidence
    }
    if not nights or run_id in nights:
        return recommendations
    others = runs_text(
        [shown(run_id[:8], 8) for run_id in sorted(nights, key=lambda key: nights[key].started_at, reverse=True)]
    )
    lost = recommendations.left_out.get(run_id)
    reason = (
        f", which is left out: {lost.why}" if lost else ", because theirs are the newest comparable runs of its cases"
    )
    note = f"these answers come from {others}, not from the run reported here, {shown(run_id[:8], 8)}{reason}"
    # The note says what the line of the run alone would repeat.
    return replace(
        recommendations,
        notes=(note, *(note_kept for note_kept in recommendations.notes if lost is None or note_kept != lost.note)),
    )


def question_of_run(records: Iterable[Record]) -> StoredQuestion:
    """Return the question that a run's records ask: its models, and its first `MOST_SHAPES` shapes, on its chip if it
    has one.
    """
    records = tuple(records)
    shapes = dict.fromkeys(subject_of(record.case) for record in records if not is_model_case(record.case))
    models = dict.fromkeys(subject_of(record.case) for record in records if is_model_case(record.case))
    chips = {prediction.hardware_key for record in records for prediction in record.predictions}
    return StoredQuestion(
        hardware_key=next(iter(chips)) if len(chips) == 1 else "",
        subjects=frozenset((*models, *list(shapes)[:MOST_SHAPES])),
    )
