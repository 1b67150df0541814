"""What `roofline diff` prints: the verdict first, then the cases that changed, then what could have been seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline_cli.screen.tables import Cell, Column, Styled, paired_times, show_line, show_table
from roofline_model.core.finding import code_text, findings_text, short_text, subject_text
from roofline_model.core.units import format_quantity

if TYPE_CHECKING:
    from results.diff.case_diff import CaseDiff, SuiteDiff
    from results.diff.gate import GateResult
    from results.diff.rules import Verdict

MOST_ROWS = 40
"""Rows of one verdict; the rest is counted and in --all and --json."""
_STYLES = {"SLOWER": "bold red", "FASTER": "green", "GONE": "red", "INVALID": "yellow", "AMBIGUOUS": "yellow"}
_HEADLINE_STYLES = {0: "bold green", 1: "bold red"}


def show_diff(diff: SuiteDiff, result: GateResult, *, show_all: bool = False) -> None:
    """Print a diff for people."""
    from results.diff.gate import EXIT_NOT_COMPARABLE
    from results.diff.rules import REASONS
    from results.text.diff_text import common_text, counts_text, listed_headline, run_text, sensitivity_text, time_text

    show_line(listed_headline(diff, result), _HEADLINE_STYLES.get(result.exit_code, "bold yellow"))
    if result.exit_code not in (0, EXIT_NOT_COMPARABLE):
        show_line(f"exit code {result.exit_code}: {findings_text(result.reasons)}", "bold")
    for word, runs in (("before", diff.before), ("after ", diff.after)):
        for run in runs:
            show_line(f"{word} {run_text(run)}")
    if min(run.started_at for run in diff.before) > max(run.started_at for run in diff.after):
        show_line("the first side is the newer one: SLOWER here means that it was slower earlier", "yellow")
    _show_environment(diff)
    shown = [case for verdict in _order(show_all) for case in _limited(diff.of(verdict), show_all)]
    if shown:
        show_line()
        show_cases(shown)
        _show_remarks(shown)
    lines = [text for text in (counts_text(diff), sensitivity_text(diff), common_text(diff)) if text]
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
    from results.text.diff_text import incomparable_texts

    for text in incomparable_texts(diff):
        show_line(f"differs, not comparable: {text}", "red")
    if diff.blocking and not diff.method_difference:
        # An entry of a fact that is a table is allowed by the fact's name.
        names = dict.fromkeys(verdict.name.partition(".")[0] for verdict in diff.blocking)
        show_line(f"{' '.join(f'--allow {name}' for name in names)} compares all the same", "red")
    if diff.permitted:
        show_line(f"differs: {'; '.join(difference.text for difference in diff.permitted)}")
    elif not diff.environment:
        show_line("nothing in the environment differs", "dim")


def show_cases(cases: Sequence[CaseDiff]) -> None:
    """Print one row per case."""
    from results.records.case_names import case_title
    from results.text.diff_text import change_text, interval_text, percent, probability, short

    before, after = paired_times([case.before_s for case in cases], [case.after_s for case in cases])
    regimes = {(case.case.cache, case.case.mode) for case in cases}
    columns = (
        Column("Verdict"),
        Column("Case", is_prose=True, least=14),
        Column("Format", is_prose=True, least=8),
        Column("Kernel", is_prose=True, least=10),
        Column("Cache", drop=6 if len(regimes) < 2 else 0),
        Column("Mode", drop=7 if len(regimes) < 2 else 0),
        Column("Before", "right", drop=1),
        Column("After", "right", drop=2),
        Column("Change", "right"),
        Column("95 % interval", "right", drop=3, hide_empty=True),
        Column("q", "right", drop=5, hide_empty=True),
        Column("Processes", "right", drop=9),
        Column("Sees", "right", drop=8, hide_empty=True),
        Column("Reason", drop=4),
    )
    rows: list[list[Cell]] = [
        [
            Styled(case.verdict, _STYLES.get(case.verdict, "")),
            short(case_title(case.case.op, case.case.shape), 80),
            short(case.case.precision_label or "–", 60),
            short(case.case.kernel, 80),
            case.case.cache,
            short(case.case.mode, 20),
            first,
            second,
            change_text(case) if case.change_ratio is not None else "–",
            interval_text(case),
            probability(case.adjusted_p_value),
            f"{case.before_process_count}/{case.after_process_count}",
            "–" if case.smallest_step_ratio is None else percent(case.smallest_step_ratio),
            case.reason,
        ]
        for case, first, second in zip(cases, before, after, strict=True)
    ]
    show_table(columns, rows)


def _show_remarks(cases: Sequence[CaseDiff]) -> None:
    """Print what the rows have no room for; what several cases have in common (a busy machine) is one line."""
    from results.text.diff_text import short

    names: dict[str, list[str]] = {}
    for case in cases:
        names.setdefault("; ".join(_remarks(case)), []).append(case.name)
    for text, members in names.items():
        if text:
            others = f" and {len(members) - 1} more" if len(members) > 1 else ""
            show_line(f"  {short(members[0])}{others}: {short(text, 1000)}", "dim")


def _remarks(case: CaseDiff) -> list[str]:
    """Return cycles, other figures, and what was not used."""
    from results.text.diff_text import changed_metric_texts, signed

    texts = [case.detail] if case.detail else []
    if case.cycles_change_ratio is not None and case.verdict in ("SLOWER", "FASTER"):
        clocks = [format_quantity(clock, "Hz") for clock in (case.clock_before_hz, case.clock_after_hz) if clock]
        texts.append(f"cycles {signed(case.cycles_change_ratio)}, clock {' → '.join(clocks)}")
    texts += map(short_text, case.set_aside)
    texts += changed_metric_texts(case)
    texts += [f"on the quarantine list: {case.quarantine_reason}"] if case.quarantine_reason else []
    texts += [f"expected: {case.expected_reason}"] if case.expected_reason else []
    return texts


def _order(show_all: bool) -> tuple[Verdict, ...]:
    from results.diff.rules import VERDICTS

    return VERDICTS if show_all else tuple(verdict for verdict in VERDICTS if verdict != "SAME")


def _limited(cases: Sequence[CaseDiff], show_all: bool) -> Sequence[CaseDiff]:
    if show_all or len(cases) <= MOST_ROWS:
        return cases
    show_line(
        f"{len(cases)} cases are {cases[0].verdict}, the {MOST_ROWS} largest changes are listed; --all lists all", "dim"
    )
    return cases[:MOST_ROWS]
