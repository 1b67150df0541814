"""What `roofline diff` prints: the verdict first, then the cases that changed, then what could have been seen."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import table
from reports.present.changes import CHANGES, JUDGEMENTS
from reports.present.screen import show, show_line, show_more, show_next, show_notes
from roofline_cli.shared.group import typed
from roofline_model.core.finding import code_text, short_text, subject_text
from roofline_model.core.units import counted, format_quantity, sentence

if TYPE_CHECKING:
    from results.diff.case_diff import CaseDiff, SuiteDiff
    from results.diff.gate import GateResult
    from results.diff.rules import Verdict

_HEADLINE_STYLES = {0: "bold green", 1: "bold red"}


ANSWER_ROW_COUNT = 5
"""Rows of the answer's table: the gravest verdicts first."""


def show_diff(
    diff: SuiteDiff,
    result: GateResult,
    simulated_ids: Collection[str] = (),
    *,
    against: str = "",
    show_all: bool = False,
) -> None:
    """Print the verdict, the gravest cases, up to two caveats, and what to type next: a dozen lines; `show_all`: the
    rest. `simulated_ids`: runs of which no kernel ran. `against`: the words that named the older side; empty where its
    runs were named.
    """
    from reports.present.words.diff_text import (
        common_text,
        counts_text,
        exit_text,
        incomparable_texts,
        listed_headline,
        sensitivity_text,
    )
    from results.diff.gate import EXIT_MACHINE, EXIT_NOT_COMPARABLE

    show_line(
        sentence(listed_headline(diff, result, simulated_ids)), _HEADLINE_STYLES.get(result.exit_code, "bold yellow")
    )
    if result.exit_code not in (0, EXIT_NOT_COMPARABLE):
        show_line(f"exit code {result.exit_code}: {exit_text(result)}", "bold")
    before, after = (", ".join(run.short_name for run in runs) for runs in (diff.before, diff.after))
    if min(run.started_at for run in diff.before) > max(run.started_at for run in diff.after):
        show_line("The first side is the newer one: SLOWER here means that it was slower earlier.", "yellow")
    if result.exit_code == EXIT_NOT_COMPARABLE:
        show_notes(f"differs: {text}" for text in incomparable_texts(diff))
        _show_allowed(diff)
    moved = [case for verdict in _order(False) for case in diff.of(verdict)]
    if moved:
        show(table("Changes", CHANGES, moved[:ANSWER_ROW_COUNT], says_what_is_left_out=False))
    counts = counts_text(diff)
    show_line(f"{before} → {after}{f': {counts}' if counts else ''}.", "dim")
    if result.exit_code != EXIT_NOT_COMPARABLE:
        notes = [f"differs: {difference.text}" for difference in diff.permitted]
        notes += [subject_text(item) for item in diff.unused_quarantine]
        notes += [text for text in (common_text(diff), sensitivity_text(diff)) if text]
        show_notes(notes)
    if result.exit_code == EXIT_NOT_COMPARABLE:
        show_next(f"roofline runs{typed('--db')}", "lists what else there is to compare")
    elif result.exit_code == EXIT_MACHINE:
        show_next("roofline doctor")
    else:
        newest = max(diff.before, key=lambda run: run.started_at).run_id[:8]
        baseline = shlex.quote(against) if against and len(diff.before) > 1 else newest
        runs = f"--run {diff.after[-1].run_id[:8]} --baseline {baseline}"
        show_next(f"roofline report {runs}{typed('--db')}")
    hidden = f"{counted(len(diff.cases), 'case')}, intervals and reasons" if diff.cases else "runs and machines"
    show_more(f"lists {hidden}", is_shown=show_all)
    if show_all:
        show_line()
        _show_details(diff, result)


def _show_details(diff: SuiteDiff, result: GateResult) -> None:
    """Print the runs, what differs between them, and every case."""
    from reports.present.words.diff_text import common_text, run_text, sensitivity_text, time_text
    from results.diff.rules import REASONS

    for word, runs in (("before", diff.before), ("after ", diff.after)):
        for run in runs:
            show_line(f"{word} {run_text(run)}")
    _show_environment(diff)
    shown = [case for verdict in _order(True) for case in diff.of(verdict)]
    if shown:
        show_line()
        show(table("Changes", (*CHANGES, *JUDGEMENTS), shown))
        _show_remarks(shown)
    lines = [text for text in (sensitivity_text(diff), common_text(diff)) if text]
    if lines:
        show_line()
    for text in lines:
        show_line(text)
    for item in diff.unused_quarantine:
        show_line(subject_text(item), "yellow")
    if shown and (text := time_text(diff)):
        show_line(text, "dim")
    for code in dict.fromkeys(case.reason for case in shown if case.reason in REASONS):
        show_line(f"{code}: {code_text(code)}", "dim")


def _show_environment(diff: SuiteDiff) -> None:
    """Print what differs between the sides, what makes them incomparable in red."""
    from reports.present.words.diff_text import incomparable_texts

    for text in incomparable_texts(diff):
        show_line(f"differs, not comparable: {text}", "red")
    _show_allowed(diff)
    if diff.permitted:
        show_line(f"differs: {'; '.join(difference.text for difference in diff.permitted)}")
    elif not diff.environment:
        show_line("nothing in the environment differs", "dim")


def _show_allowed(diff: SuiteDiff) -> None:
    """Print the options that compare all the same, where any does."""
    if diff.blocking and not diff.method_difference:
        # An entry of a fact that is a table is allowed by the fact's name.
        names = dict.fromkeys(verdict.name.partition(".")[0] for verdict in diff.blocking)
        show_line(f"{' '.join(f'--allow {name}' for name in names)} compares all the same", "red")


def _show_remarks(cases: Sequence[CaseDiff]) -> None:
    """Print what the rows have no room for; what several cases have in common (a busy machine) is one line."""
    from reports.present.words.diff_text import short

    names: dict[str, list[str]] = {}
    for case in cases:
        names.setdefault("; ".join(_remarks(case)), []).append(case.name)
    for text, members in names.items():
        if text:
            others = f" and {len(members) - 1} more" if len(members) > 1 else ""
            show_line(f"  {short(members[0])}{others}: {short(text, 1000)}", "dim")


def _remarks(case: CaseDiff) -> list[str]:
    """Return cycles, other figures, and what was not used."""
    from reports.present.words.diff_text import changed_metric_texts, percent, signed

    texts = [case.detail] if case.detail else []
    if case.cycles_change_ratio is not None and case.verdict in ("SLOWER", "FASTER"):
        clocks = [format_quantity(clock, "Hz") for clock in (case.clock_before_hz, case.clock_after_hz) if clock]
        texts.append(f"cycles {signed(case.cycles_change_ratio)}, clock {' → '.join(clocks)}")
    if case.others_before_ratio is not None and case.others_after_ratio is not None and case.reason == "load-differs":
        shares = (case.others_before_ratio, case.others_after_ratio)
        texts.append(f"others used {' → '.join(map(percent, shares))} of the CPUs")
    texts += map(short_text, case.set_aside)
    texts += changed_metric_texts(case)
    texts += [f"on the quarantine list: {case.quarantine_reason}"] if case.quarantine_reason else []
    texts += [f"expected: {case.expected_reason}"] if case.expected_reason else []
    return texts


def _order(show_all: bool) -> tuple[Verdict, ...]:
    from results.diff.rules import VERDICTS

    return VERDICTS if show_all else tuple(verdict for verdict in VERDICTS if verdict != "SAME")
