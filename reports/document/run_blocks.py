"""One run for a reader: how good its predictions were, or what it decided of a model, and every case on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from reports.document.run_models import model_answer, model_sections
from reports.present.blocks import Block, Column, Command, Heading, Paragraph, more, notes, percent_cell, table
from reports.present.cases import (
    CASES,
    STATUS,
    case_columns,
    case_label,
    case_precision,
    flag_blocks,
    interval_blocks,
    operator_title,
    profile_doubts,
    reason_blocks,
    regime_of,
    title_of,
)
from reports.present.display_text import shown, utc_minutes
from reports.present.words.model_text import issue_notes, verdict_lines
from reports.view.views import are_simulated
from results.cases.errors import ErrorSummary, overall_error
from results.cases.model_results import model_results
from results.diff.rules import BUSY_REASONS
from results.records.plain_form import read_findings
from roofline_model.core.finding import advice_text, code_text
from roofline_model.core.units import counted, format_percent
from roofline_model.operators.case import is_model_case, sizes_text

if TYPE_CHECKING:
    from reports.view.run_state import RunState
    from results.cases.case_result import CaseResult
    from results.cases.model_results import ModelResult
    from results.cases.run import RunAnswer
    from results.records.records import RunInfo

ANSWER_ROW_COUNT = 5
"""Rows of an answer's table."""


def run_blocks(answer: RunAnswer, state: RunState, *, db_option: str, show_all: bool) -> Iterator[Block]:
    """Yield the answer of a run, a dozen lines; with `show_all` every case and what the marks mean.

    `db_option`: the database as the reader named it, for the next command.
    """
    run, short = answer.run, answer.run.run_id[:8]
    kernels = [case for case in answer.cases if not is_model_case(case.case)]
    models = model_results(answer.cases)
    is_simulated = are_simulated(record for case in kernels for record in case.used)
    overall = overall_error(kernels)
    verdicts = [line.rstrip(".") for model in models for line in verdict_lines(model)]
    unpredicted = [] if overall is not None or verdicts else [case for case in kernels if case.pooled is not None]
    yield from _headline(kernels, overall, verdicts, unpredicted, "simulated" if is_simulated else "measured")
    chip = shown(run.hardware_key, 60) or "–"
    yield Paragraph(
        f"Run {short} {shown(run.label, 60)}".rstrip() + f" on {chip}: {_counts_text(answer.cases)}.", "quiet"
    )
    if overall is not None:
        yield from _errors(kernels, overall, None if show_all else ANSWER_ROW_COUNT)
    elif models and not show_all:
        yield Paragraph(f"{models[0].title}. Gain: over 16 bit. !: doubtful.", "quiet")
        yield model_answer(models[0], ANSWER_ROW_COUNT)
    elif unpredicted and not show_all:
        yield table("Measured times", _TIMES, unpredicted[:ANSWER_ROW_COUNT], says_what_is_left_out=False)
    why = _why_unpredicted(run) if unpredicted else []
    doubts = [*why, *state.restarts, *profile_doubts(answer.profiles.values())]
    slow = [state.canary_sentence] if state.slow else []
    yield from notes([*_caveats(run, answer.cases, models, chip, is_simulated=is_simulated), *slow, *doubts])
    yield Command(f"roofline report --run {short}{db_option}")
    yield from more(f"lists every case; `roofline show {short} CASE` shows one whole", is_shown=show_all)
    if show_all:
        yield from about_run(run, _counts_by_process(answer.cases))
        if answer.canaries:
            yield Paragraph(state.canary_sentence, "warning" if state.slow else "plain")
        yield from (Paragraph(text, "warning") for text in doubts)
        yield from _shapes(kernels)
        yield from model_sections(models)
        yield Heading(3, "What the marks mean")
        yield from interval_blocks(answer.cases)
        yield from flag_blocks(answer.cases)


def about_run(run: RunInfo, cases: str) -> Iterator[Block]:
    """Yield when and where a run ran; `cases`: how many it holds, or how many of them follow."""
    yield Heading(3, f"run {run.run_id[:8]} {shown(run.label, 160)}".rstrip())
    exit_code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    chip = shown(run.hardware_key, 60) or "–"
    yield Paragraph(f"{utc_minutes(run.started_at)}, {run.status}{exit_code}, {cases}, chip {chip}")
    if run.is_forced:
        yield Paragraph("forced: measured on a machine that is not that chip", "warning")
    facts = run.environment.facts
    machine = list(dict.fromkeys(shown(facts[name], 80) for name in ("host", "device", "cpu") if facts.get(name)))
    machine += [f"torch {shown(facts['torch'], 40)}"] if facts.get("torch") else []
    machine += [f"commit {commit_label(run)}"] if run.git_commit else []
    if machine:
        yield Paragraph(", ".join(machine))


def commit_label(run: RunInfo) -> str:
    """Return the short commit, with `+` when the working tree had changes."""
    if not run.git_commit:
        return "–"
    return run.git_commit[:9] + ("+" if run.git_is_dirty else "")


def _headline(
    kernels: Sequence[CaseResult],
    overall: ErrorSummary | None,
    verdicts: Sequence[str],
    unpredicted: Sequence[CaseResult],
    origin: str,
) -> Iterator[Block]:
    if overall is not None:
        yield Paragraph(_error_sentence(overall, origin), "verdict")
    yield from (Paragraph(f"{line}.", "verdict") for line in verdicts[: 2 if overall is None else 1])
    failed = [case for case in kernels if case.status == "failed"]
    if failed:
        example = f"{_full_name(failed[0])}: {shown(failed[0].reason) or 'no reason stored'}"
        yield Paragraph(f"{len(failed)} of {counted(len(kernels), 'case')} failed, such as {example}", "failed")
    if unpredicted:
        text = f"{counted(len(unpredicted), 'case')} measured, without a prediction to compare with."
        yield Paragraph(text, "verdict")
    elif overall is None and not verdicts and not failed:
        yield Paragraph("Nothing was measured.", "verdict")


def _full_name(case: CaseResult) -> str:
    return f"{title_of(case.case)} {case_label(case.case)}"


def _why_unpredicted(run: RunInfo) -> list[str]:
    """Return why nothing was predicted of any case of a run; nothing where each has a reason of its own."""
    warnings = read_findings(run.environment.facts.get("warnings") or [])
    return [advice_text(item) for item in warnings if item.code == "ceilings-contended"]


_TIMES = (
    Column("Case", lambda each: title_of(each.case), "prose", least=16, is_head=True),
    *case_columns("Format", "Kernel", "Measured", "!"),
)
"""Where there is no prediction to hold the times against."""


def _error_sentence(overall: ErrorSummary, origin: str) -> str:
    """Return how far predictions were off; `origin`: what the times are that they are held against."""
    if overall.median_abs_expected_ratio is None:
        ideal = format_percent(overall.median_abs_error_ratio, 0)
        return f"Ideal times missed the {origin} ones by {ideal} (median of {counted(overall.case_count, 'case')})."
    expected = f"Expected times missed the {origin} ones by {format_percent(overall.median_abs_expected_ratio, 0)}"
    ideal = format_percent(overall.paired_abs_error_ratio, 0)
    return f"{expected} (median of {counted(overall.expected_count, 'case')}), ideal times by {ideal}."


def _worst(case: CaseResult | None, error_ratio: float | None) -> str:
    if case is None or error_ratio is None:
        return "–"
    name = f"{shown(sizes_text(case.case.shape), 60)} {case_precision(case.case)}"
    return f"{name} ({format_percent(error_ratio, 0, signed=True)})"


def _inside(errors: ErrorSummary) -> str:
    return f"{errors.inside_count} of {errors.interval_count}" if errors.interval_count else "–"


_OPERATORS = (
    Column("Operator", lambda each: operator_title(each.worst.case), is_head=True),
    Column("Cases", lambda each: str(each.case_count), "number"),
    Column("Ideal error", lambda each: percent_cell(each.median_abs_error_ratio, 0), "number"),
    Column("Exp. error", lambda each: percent_cell(each.median_abs_expected_ratio, 0), "number"),
    Column("In 80 %", _inside, "number"),
    Column(
        "Worst expected",
        lambda each: _worst(each.worst_expected, each.worst_expected_error_ratio),
        "prose",
        least=24,
        drop=1,
    ),
    Column("Worst ideal", lambda each: _worst(each.worst, each.worst_error_ratio), drop=2),
)


def _errors(kernels: Sequence[CaseResult], overall: ErrorSummary, most_rows: int | None) -> Iterator[Block]:
    """Yield a row of errors for each operator, those with most cases first."""
    by_title: dict[str, list[CaseResult]] = {}
    for case in kernels:
        by_title.setdefault(operator_title(case.case), []).append(case)
    errors = [each for members in by_title.values() if (each := overall_error(members)) is not None]
    errors.sort(key=lambda each: -each.case_count)
    listed = errors[:most_rows]
    yield table("Errors by operator", _OPERATORS, listed, says_what_is_left_out=False)
    inside = " In 80 %: within the expected interval." if overall.expected_count else ""
    first = f"First {len(listed)} of {len(errors)} operators. " if len(listed) < len(errors) else ""
    yield Paragraph(f"{first}Error: median of the absolute errors.{inside}", "quiet")


def _caveats(
    run: RunInfo, cases: Sequence[CaseResult], models: Sequence[ModelResult], chip: str, *, is_simulated: bool
) -> list[str]:
    """Return what weakens the run's times."""
    texts = ["Times are simulated: no kernel ran."] if is_simulated else []
    labels: dict[str, list[str]] = {}
    for case in cases:
        for flag in BUSY_REASONS.intersection(case.flags):
            labels.setdefault(flag, []).append(_full_name(case))
    texts += [
        f"{counted(len(named), 'case')} {flag}, such as {named[0]}: measure again on a quiet machine ({code_text(flag)})"
        for flag, named in sorted(labels.items())
    ]
    texts += issue_notes(models[0].passes) if models else []
    texts += [f"forced: measured on a machine that is not {chip}"] if run.is_forced else []
    return texts


def _shapes(kernels: Iterable[CaseResult]) -> Iterator[Block]:
    """Yield a table for each operator, shape, cache state and mode, and what was not measured of it."""
    groups: dict[tuple[str, str, str, str], list[CaseResult]] = {}
    for result in kernels:
        case = result.case
        groups.setdefault((case.op, case.shape_label, case.cache, case.mode), []).append(result)
    for (op, shape, _, _), members in groups.items():
        title = f"{shown(op, 60)} {shown(shape, 60)}".rstrip() + f", {regime_of(members[0].case)}"
        yield table(title, (*CASES, STATUS), members, title=title)
        yield from reason_blocks(members)


def _counts_by_process(cases: Sequence[CaseResult]) -> str:
    """Return `42 cases: 38 measured, 4 skipped`, and of how many processes where these are several."""
    processes = {record.process.ordinal for case in cases for record in case.timed}
    total = counted(len(cases), "case")
    several = f", in {len(processes)} processes" if len(processes) > 1 else ""
    return (f"{total}: {_counts_text(cases)}" if cases else total) + several


def _counts_text(cases: Iterable[CaseResult]) -> str:
    """Return `38 measured, 4 skipped`."""
    counts = Counter(case.status for case in cases)
    return ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "no case"
