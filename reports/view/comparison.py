"""What changed since a baseline, and over the nights: the diff and the histories behind a report's `--baseline`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.present.display_text import change_words, counted, shown
from reports.present.words.diff_text import (
    common_text,
    counts_text,
    incomparable_texts,
    listed_headline,
    percent,
    run_text,
    runs_text,
    sensitivity_text,
    time_text,
    why_text,
)
from results.diff.baseline import find_baseline
from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.gate import GateResult, gate, parse_fail_on
from results.diff.rules import VERDICTS, DiffRules
from results.diff.stored_sides import baseline_side, side_of
from results.diff.suites import compare_suites
from results.history.alerts import Change
from results.history.case_history import CaseHistory, HistoryOptions, case_histories
from results.records.metrics import get_metric
from results.records.records import RunInfo
from roofline_model.core.finding import findings_text

if TYPE_CHECKING:
    from results.store.store import ResultStore

ROWS_PER_VERDICT = 50
"""Of one verdict the largest changes are listed; `roofline diff --all` lists all."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run against its baseline. `diff` and `result` are None where there is no earlier run to compare with."""

    against: str
    """As it was asked for."""
    diff: SuiteDiff | None
    result: GateResult | None
    histories: tuple[CaseHistory, ...] = ()
    """Of the run's own cases."""
    newest: str = ""
    """Where there is no diff: the run that `latest` would mean; empty where it means none, too."""

    @property
    def changes(self) -> tuple[tuple[CaseHistory, Change], ...]:
        """Every step and drift that stands, open alerts first, then the newest."""
        compared = [
            (history, change)
            for history in self.histories
            for change in history.changes
            if change.status != "withdrawn"
        ]
        compared.sort(key=lambda pair: pair[1].started_at, reverse=True)
        return tuple(sorted(compared, key=lambda pair: not pair[1].is_open))

    @property
    def first_text(self) -> str:
        """What to do where there is no diff: the run that can be compared with, or that there is none."""
        if self.newest:
            return f"`latest` means run {self.newest}, compare with that"
        return "this run can be the first baseline"

    @property
    def alert_count(self) -> int:
        """Changes that nobody has explained."""
        return sum(len(history.alerts) for history in self.histories)


def compare_with_baseline(store: ResultStore, run: RunInfo, against: str) -> Comparison:
    """Return the diff of a run against what `against` means for it (as `roofline diff --against`), and its cases'
    histories.

    Raises what the diff raises: an unknown name, an incomplete baseline, a side that measured nothing.
    """
    histories = _histories(store, run)
    noise, rules, newer = store.noise_floors(run.environment.class_hash), DiffRules(), side_of(store, (run,))
    older = baseline_side(store, against, newer, noise, rules)
    if older is None:
        newest = find_baseline("latest", (run,), store.runs, store.resolve_run).chosen
        return Comparison(against, None, None, histories, newest[0].run_id[:8] if newest else "")
    diff = compare_suites(older, newer, noise, rules)
    return Comparison(against, diff, gate(diff, parse_fail_on(["slower"])), histories)


def changed_cases(diff: SuiteDiff) -> tuple[tuple[CaseDiff, int], ...]:
    """Return the cases that changed, the gravest verdict first and of each the largest changes, with how many cases
    each stands for: those that are invalid for one reason are one row.
    """
    rows: list[tuple[CaseDiff, int]] = []
    for verdict in VERDICTS:
        groups: dict[str, list[CaseDiff]] = {}
        for case in () if verdict == "SAME" else diff.of(verdict):
            groups.setdefault(why_text(case) if verdict == "INVALID" else case.case_key, []).append(case)
        rows += [(members[0], len(members)) for members in groups.values()][:ROWS_PER_VERDICT]
    return tuple(rows)


def against_text(comparison: Comparison) -> str:
    """Return the verdict of the diff as a sentence that names what it is against."""
    diff, result = comparison.diff, comparison.result
    if diff is None or result is None:
        return ""
    runs = diff.before
    older = runs_text(runs)
    text = listed_headline(diff, result)
    return shown(f"Against {older}: {text}.", 600)


def brief_against_text(comparison: Comparison) -> str:
    """Return what became slower, how many cases and by how much at most, or that nothing was judged; without names of
    cases and without a full stop.
    """
    diff, result = comparison.diff, comparison.result
    if diff is None or result is None:
        return f"nothing to compare with yet, {comparison.first_text}"
    newest = max(diff.before, key=lambda run: run.started_at)
    older = f"run {shown(newest.label, 60) or newest.run_id[:8]} ({newest.started_at[:10]})"
    slower = diff.of("SLOWER")
    if not slower:
        why = gate_text(comparison)
        if not diff.is_judged:
            return f"nothing was judged against {older}{f': {why}' if why else ''}"
        return f"{why or 'nothing is slower'}, against {older}"
    most = max(case.change_ratio or 0.0 for case in slower)
    is_one = len(slower) == 1
    extent = f"by {percent(most)}" if is_one else f"by up to {percent(most)}"
    return (
        f"{len(slower)} of {counted(len(diff.cases), 'case')} {'is' if is_one else 'are'} slower {extent} than in "
        f"{older}"
    )


def gate_text(comparison: Comparison) -> str:
    """Return why `roofline diff` would not exit with 0, where no list below says it; empty where it would."""
    diff, result = comparison.diff, comparison.result
    if diff is None or result is None or not result.exit_code:
        return ""
    return "not comparable" if incomparable_texts(diff) else shown(findings_text(result.reasons), 400).rstrip(".")


def compared_texts(comparison: Comparison) -> list[str]:
    """Return what belongs under the diff: counts, what could have been seen, what differs between the environments."""
    diff = comparison.diff
    if diff is None:
        return []
    texts = (counts_text(diff), sensitivity_text(diff), common_text(diff), time_text(diff))
    notes = [text for text in texts if text]
    notes += [f"before: {run_text(run)}" for run in diff.before]
    notes += [f"differs, not comparable: {text}" for text in incomparable_texts(diff)]
    notes += [
        f"differs: {change_words(difference.name, difference.before, difference.after)}"
        for difference in diff.permitted
    ]
    return notes or ["nothing was compared"]


def _histories(store: ResultStore, run: RunInfo) -> tuple[CaseHistory, ...]:
    keys = {record.case.case_key for record in store.records(run.run_id, with_samples=False)}
    every = case_histories(store, options=HistoryOptions(get_metric("time")))
    return tuple(change for change in every if change.case.case_key in keys)
