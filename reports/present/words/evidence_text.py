"""What the answers of stored runs rest on, in words: what a question is about, what is missing, and which runs no
ranking uses because they are in doubt or `roofline diff` would not compare them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reports.present.cases import for_the_next
from reports.present.display_text import change_words
from results.diff.environments import differences, method_difference
from results.rankings import StoredQuestion, StoredRecommendations
from results.rankings.levels import CaseLevel, SetAside, chip_of, is_of_this_chip
from results.records.flags import FLAGS
from results.records.records import RunInfo
from roofline_model.core.finding import Finding, finding, short_text
from roofline_model.core.units import counted

_SHOWN_FACTS = 2
_SHOWN_RUNS = 3


def basis_text(answer: StoredRecommendations) -> str:
    """Return what the rows shown rest on: `114 records of 1 run`."""
    runs = [run for ranking in answer.rankings for option in ranking.options for run in option.evidence]
    record_count = len({record_id for run in runs for record_id in run.record_ids})
    return f"{counted(record_count, 'record')} of {counted(len({run.run_id for run in runs}), 'run')}"


def looked_at_text(answer: StoredRecommendations) -> str:
    """Return what the questions were asked of: `168 records of 2 runs`."""
    return f"{counted(answer.record_count, 'record')} of {counted(answer.run_count, 'run')}"


def question_text(question: StoredQuestion) -> str:
    """Return what narrows an answer: ` of gemm on gb10`; empty where everything is asked for."""
    parts = [
        f" of {question.model or question.op}" if question.model or question.op else "",
        f" {'x'.join(map(str, question.shape))}" if question.shape else "",
        f" in {question.phase}" if question.phase else "",
        f" on {question.hardware_key}" if question.hardware_key else "",
    ]
    return "".join(parts)


def missing_texts(answer: StoredRecommendations) -> tuple[str, ...]:
    """What the database does not hold, most important first; empty where it has all that was asked for."""
    evidence, rankings, question = answer.evidence, answer.rankings, answer.question
    if not rankings and answer.untrained:
        return _refusals(answer)
    asked = question_text(question)
    if not evidence.runs:
        return (f"nothing is stored{asked}: measure first, `pytest bench_cases` (docs/reference/measuring.md)",)
    if not rankings:
        keys = {chip_of(record, evidence.runs[record.run_id]) for record in evidence.records}
        chips = sorted((keys | {run.hardware_key for run in evidence.runs.values()}) - {""})
        chips_text = f"; stored chips: {', '.join(chips)}" if chips else ""
        return (f"no record{asked} is stored{chips_text}; `roofline runs` lists what is",)
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
    nameless_count = sum(not chip_of(record, evidence.runs[record.run_id]) for record in evidence.records)
    if nameless_count:
        texts.append(
            f"{counted(nameless_count, 'record')} without a chip: stored by another tool, or failed before a prediction"
        )
    return tuple(texts)


def note_texts(answer: StoredRecommendations) -> tuple[str, ...]:
    """What weakens the answer, and which runs were left out of it and why."""
    runs, unused = answer.evidence.runs, answer.evidence.simulated_run_ids
    doubts = dict.fromkeys(for_the_next(ranking.calibration_doubt) for ranking in answer.rankings)
    simulated = [finding("records-unused", kind="simulated", run_count=len(unused))] if unused else []
    refusals = _refusals(answer) if answer.rankings else ()
    left_out = _left_out_texts(answer.levels, runs)
    origin = _origin_text(answer)
    if origin:  # it says what the line of the run reported alone would repeat
        alone = [runs[answer.reported_run_id].short_name] if answer.reported_run_id in runs else []
        left_out = {line: names for line, names in left_out.items() if names != alone}
    notes = (origin, *doubts, *map(short_text, simulated), *left_out, *refusals)
    return tuple(text for text in notes if text)


def _refusals(answer: StoredRecommendations) -> tuple[str, ...]:
    """Return why there is no ranking of a model whose weights were drawn from a seed."""
    return tuple(f"{name}: {short_text(finding('untrained'))}" for name in answer.untrained)


def _origin_text(answer: StoredRecommendations) -> str:
    """Return that the answer rests on other runs alone than the one that is reported, and why; empty where it does
    not.
    """
    run_id = answer.reported_run_id
    nights = {run.run_id: run for ranking in answer.rankings for row in ranking.options for run in row.evidence}
    if not run_id or not nights or run_id in nights:
        return ""
    newest = sorted(nights, key=lambda key: nights[key].started_at, reverse=True)
    whys = _whys_by_run(answer.levels, answer.evidence.runs).get(run_id)
    reason = (
        f"which is left out: {'; '.join(whys)}"
        if whys
        else "because theirs are the newest comparable runs of its cases"
    )
    others = _runs_text([key[:8] for key in newest])
    return f"these answers come from {others}, not from the run reported here, {run_id[:8]}, {reason}"


def _left_out_texts(levels: Sequence[CaseLevel], runs: Mapping[str, RunInfo]) -> dict[str, list[str]]:
    """Return one line for all runs that are left out for the same reason, the newest first, and their names."""
    used = {run.run_id for level in levels for run in level.runs}
    whys_by_run = _whys_by_run(levels, runs)
    alike: dict[str, list[str]] = {}
    for run_id in sorted(whys_by_run, key=lambda key: (runs[key].started_at, key), reverse=True):
        whys = whys_by_run[run_id]
        for why, case_count in whys.items():
            part = f" for {counted(case_count, 'case')}" if run_id in used or len(whys) > 1 else ""
            alike.setdefault(f"{part}: {why}", []).append(runs[run_id].short_name)
    return {
        f"{_runs_text(names)} {'is' if len(names) == 1 else 'are'} left out{why}": names for why, names in alike.items()
    }


def _runs_text(names: list[str]) -> str:
    """Return `run a`, or `runs a, b, c and 2 more`."""
    names_text, more = ", ".join(names[:_SHOWN_RUNS]), len(names) - _SHOWN_RUNS
    return f"run {names_text}" if len(names) == 1 else f"runs {names_text}{f' and {more} more' if more > 0 else ''}"


def _whys_by_run(levels: Iterable[CaseLevel], runs: Mapping[str, RunInfo]) -> dict[str, dict[str, int]]:
    """Return run id → why a level does not use it → for how many cases."""
    whys: dict[str, dict[str, int]] = {}
    for level in levels:
        for exclusion in level.set_aside:
            run_id = exclusion.record.run_id
            why = "; ".join(_reasons(runs[run_id], exclusion, level))
            if why:
                counts = whys.setdefault(run_id, {})
                counts[why] = counts.get(why, 0) + 1
    return whys


def _reasons(run: RunInfo, exclusion: SetAside, level: CaseLevel) -> Iterator[str]:
    """Yield what kept a run out of a level; nothing where that is not stored."""
    if exclusion.is_incomparable:
        facts = [
            change_words(difference.name, difference.before, difference.after)
            for difference in differences([run], [level.newest])
            if difference.is_blocking
        ]
        texts_by_reason = {
            "measured by another method": method_difference(exclusion.record.method, level.records[0].method),
            "on another machine or with other software": facts,
        }
        reasons = [f"{what} ({_first(texts)})" for what, texts in texts_by_reason.items() if texts]
        if reasons:
            yield (
                f"not comparable with run {level.newest.short_name}, {' and '.join(reasons)}; `roofline diff` lists all"
            )
    yield from map(_doubt_text, exclusion.doubts)


def _doubt_text(item: Finding) -> str:
    """Return a doubt of a night, a flag with its key: `another process used the GPU: times are too long
    (shared-device)`.
    """
    return f"{short_text(item)} ({item.code})" if item.code in FLAGS else short_text(item)


def _first(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN_FACTS} more" if len(texts) > _SHOWN_FACTS else ""
    return f"{', '.join(texts[:_SHOWN_FACTS])}{more}"
