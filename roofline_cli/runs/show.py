"""`roofline show`: one stored run, or everything about some of its cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.text.display_text import prefixed, shown
from roofline_cli.screen.tables import (
    MISSING,
    Cell,
    Column,
    Styled,
    paired_times,
    plus_minus,
    show_json,
    show_line,
    show_more,
    show_next,
    show_notes,
    show_table,
)
from roofline_cli.shared.database import reading
from roofline_cli.shared.group import typed
from roofline_cli.shared.options import AllOption, DatabaseOption, JsonOption, PlotOption, check_plot
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.units import column_times, format_achieved, format_percent

if TYPE_CHECKING:
    from reports.cases.errors import ErrorSummary
    from reports.cases.rows import CaseRow
    from reports.cases.summary import CaseSummary
    from reports.view.run_state import RunState
    from results.records.records import RunInfo
    from results.records.state_records import CanaryReading
    from results.verdicts.model_results import ModelResult

COMMANDS = {
    "show": ("show_run", "Show one run: measured, predicted, error, bound, rate."),
}

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Id prefix, label, latest or latest~1.")]
CasesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CASE...",
        help="Words of a case's operator, sizes or id, as any table names it: show everything about it.",
    ),
]

_STATUS_STYLES = {"measured": "green", "predicted": "yellow", "skipped": "yellow", "failed": "bold red"}


def show_run(
    run: RunArgument,
    cases: CasesArgument = None,
    show_all: AllOption = False,
    plot: PlotOption = False,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one run: measured, predicted, error, bound, rate.

    CASE is words of a case in any order, as in `roofline show latest gemv 4096 int4`: shows everything about the cases
    that have all of them. Where none has, each CASE names cases of its own.
    """
    from reports.cases.errors import profile_doubts
    from reports.cases.summary import run_summaries
    from reports.view.run_state import run_state
    from results.exchange.exported.impossible import without_contended
    from results.verdicts.model_results import model_results
    from roofline_cli.database.transfer_view import show_unpredicted
    from roofline_cli.plot.view import plotted_chips, show_run_plots, stored_profiles
    from roofline_cli.runs.model_view import print_models

    wanted = cases or []
    check_plot(plot, as_json)
    with reading(db) as store:
        info = store.resolve_run(run)
        records = store.records(info.run_id, with_samples=bool(wanted))
        canaries = store.canaries(info.run_id)
        floors = store.noise_floors(info.environment.class_hash)
        profiles = stored_profiles(store, records)
    records = list(without_contended(records, profiles.values()))
    summaries = run_summaries(info, records, floors)
    if wanted:
        chosen = _matching(summaries, wanted, info)
        _show_cases(info, chosen, len(summaries), as_json=as_json)
        if plot:
            show_run_plots(plotted_chips(info, records, profiles, floors, {case.lead.case_key for case in chosen}))
        return
    state = run_state(info, summaries, records, canaries)
    models = model_results(case.result for case in summaries)
    doubts = profile_doubts(profiles.values())
    if as_json:
        show_json(_run_json(info, summaries, models, canaries, state, doubts))
        return
    remarks = [*state.restarts, *doubts]
    slow = state.canary_sentence if state.slow else ""
    _print_answer(info, summaries, models, remarks, slow, show_all=show_all)
    if plot:
        show_run_plots(plotted_chips(info, records, profiles, floors))
    if show_all:
        show_line()
        _print_run(info, _held(summaries))
        if canaries:
            show_line(state.canary_sentence, "yellow" if state.slow else "")
        for line in remarks:
            show_line(line, "yellow")
        _print_shapes(summaries)
        print_models(models)
    show_unpredicted(records)
    if show_all:
        _print_legend(summaries, info)


def _run_json(
    run: RunInfo,
    summaries: tuple[CaseSummary, ...],
    models: Sequence[ModelResult],
    canaries: Sequence[CanaryReading],
    state: RunState,
    doubts: Sequence[str],
) -> dict[str, Any]:
    from reports.answers.answer_json import answer_json, command_json
    from reports.answers.run_answer import run_detail, stored_case
    from reports.ranking.model_results import model_json

    return {
        **command_json(run_detail(run, summaries, state.canary_sentence if canaries else "")),
        "cases": [answer_json(stored_case(case)) for case in summaries],
        "models": [model_json(model) for model in models],
        "canaries": [asdict(canary) for canary in canaries],
        "worker_ends": list(state.restarts),
        "calibration_doubts": doubts,
    }


def _print_shapes(summaries: Iterable[CaseSummary]) -> None:
    """Print a table for each operator, shape, cache state and mode; whole models have tables of their own."""
    groups: dict[tuple[str, str, str, str], list[CaseSummary]] = {}
    for case in summaries:
        lead = case.lead
        if not is_of_model(case):
            groups.setdefault((lead.op, lead.shape_label, lead.cache, lead.mode), []).append(case)
    for (op, shape, _, _), members in groups.items():
        show_line()
        print_cases(f"{op} {shape}".rstrip() + f", {members[0].regime}", members)


_ANSWER_COLUMNS = (
    Column("Operator"),
    Column("Cases", "right"),
    Column("Ideal error", "right"),
    Column("Exp. error", "right", hide_empty=True),
    Column("In 80 %", "right", hide_empty=True),
    Column("Worst expected", is_prose=True, least=24, drop=1, hide_empty=True),
    Column("Worst ideal", drop=2),
)


def _print_answer(
    run: RunInfo,
    summaries: Sequence[CaseSummary],
    models: Sequence[ModelResult],
    doubts: Sequence[str],
    slow: str,
    *,
    show_all: bool,
) -> None:
    """Print how good the predictions were, or what the run decided of a model, and what to type next: a dozen lines."""
    from reports.cases.errors import overall_error
    from results.text.model_text import issue_notes
    from roofline_cli.runs.model_view import ANSWER_ROW_COUNT, print_model_answer

    pooled = [case.pooled for case in summaries if not is_of_model(case)]
    timed = [row.record for row in pooled if row.record.measurement is not None]
    is_simulated = bool(timed) and all(record.is_simulated for record in timed)
    overall = overall_error(pooled)
    verdicts = _model_verdicts(models)
    if overall is not None:
        show_line(_error_sentence(overall, "simulated" if is_simulated else "measured"), "bold")
    for sentence in verdicts[: 2 if overall is None else 1]:
        show_line(f"{sentence}.", "bold")
    failed = [row for row in pooled if row.status == "failed"]
    if failed:
        example = f"{failed[0].title} {failed[0].label}: {failed[0].reason or 'no reason stored'}"
        show_line(f"{len(failed)} of {_counted(len(pooled))} failed, such as {example}", "bold red")
    measured_cases = [case for case in summaries if case.pooled.measured_s is not None and not is_of_model(case)]
    unpredicted = measured_cases if overall is None and not verdicts else []
    if unpredicted:
        show_line(f"{_counted(len(unpredicted))} measured, without a prediction to compare with.", "bold")
    elif overall is None and not verdicts and not failed:
        show_line("Nothing was measured.", "bold")
    chip = shown(run.hardware_key, 60) or "–"
    show_line(
        f"Run {run.run_id[:8]} {shown(run.label, 60)}".rstrip() + f" on {chip}: {_counts_text(summaries)}.", "dim"
    )
    if overall is not None:
        rows = _error_rows(pooled)
        shown_rows = rows if show_all else rows[:ANSWER_ROW_COUNT]
        show_table(_ANSWER_COLUMNS, shown_rows, says_what_is_left_out=False)
        inside = " In 80 %: within the expected interval." if overall.expected_count else ""
        first = f"First {len(shown_rows)} of {len(rows)} operators. " if len(shown_rows) < len(rows) else ""
        show_line(f"{first}Error: median of the absolute errors.{inside}", "dim")
    elif models and not show_all:
        show_line(f"{models[0].title}. Gain: over 16 bit. !: doubtful.", "dim")
        print_model_answer(models[0])
    elif unpredicted and not show_all:
        _show_times(unpredicted[:ANSWER_ROW_COUNT])
    notes = ["Times are simulated: no kernel ran."] if is_simulated else []
    notes += _busy_notes(summaries)
    notes += issue_notes(models[0].passes) if models else []
    notes += [f"forced: measured on a machine that is not {chip}"] if run.is_forced else []
    notes += _unpredicted_notes(run) if unpredicted else []
    show_notes([*notes, *([slow] if slow else []), *doubts])
    short = run.run_id[:8]
    show_next(f"roofline report --run {short}{typed('--db')}")
    show_more(f"lists every case; `roofline show {short} CASE` shows one whole", is_shown=show_all)


def _show_times(cases: Sequence[CaseSummary]) -> None:
    """Print what was measured where there is no prediction to hold it against, a row each."""
    rows = [case.pooled for case in cases]
    times = column_times([row.measured_s for row in rows])
    columns = (
        Column("Case", is_prose=True, least=16),
        Column("Format", drop=1),
        Column("Kernel", is_prose=True, least=8),
        Column("Measured", "right"),
        Column("!", hide_empty=True),
    )
    doubts = ["!" if case.doubts else MISSING for case in cases]
    cells = [
        [row.title, row.precision, row.kernel, time, doubt]
        for row, time, doubt in zip(rows, times, doubts, strict=True)
    ]
    show_table(columns, cells, says_what_is_left_out=False)


def _unpredicted_notes(run: RunInfo) -> list[str]:
    """Return why nothing was predicted of any case of a run, and what to do; nothing where each has a reason of its
    own.
    """
    from results.records.plain_form import read_findings
    from roofline_model.core.finding import advice_text

    warnings = read_findings(run.environment.facts.get("warnings") or [])
    return [advice_text(item) for item in warnings if item.code == "ceilings-contended"]


def _busy_notes(cases: Sequence[CaseSummary]) -> list[str]:
    """Return which times other work spoiled, so that none of them counts in a comparison."""
    from results.diff.rules import BUSY_REASONS
    from roofline_model.core.finding import code_text

    labels: dict[str, list[str]] = {}
    for case in cases:
        for flag in BUSY_REASONS.intersection(case.flags):
            labels.setdefault(flag, []).append(f"{case.pooled.title} {case.pooled.label}")
    return [
        f"{_counted(len(named))} {flag}, such as {named[0]}: measure again on a quiet machine ({code_text(flag)})"
        for flag, named in sorted(labels.items())
    ]


def is_of_model(case: CaseSummary) -> bool:
    """Return whether a case is a pass of a whole model."""
    from roofline_model.operators.case import is_model_case

    return is_model_case(case.lead.record.case)


def _error_sentence(overall: ErrorSummary, origin: str) -> str:
    """Return how far predictions were off; `origin`: what the times are that they are held against."""
    if overall.median_abs_expected_ratio is None:
        ideal = format_percent(overall.median_abs_error_ratio, 0)
        return f"Ideal times missed the {origin} ones by {ideal} (median of {_counted(overall.case_count)})."
    expected = f"Expected times missed the {origin} ones by {format_percent(overall.median_abs_expected_ratio, 0)}"
    ideal = format_percent(overall.paired_abs_error_ratio, 0)
    return f"{expected} (median of {_counted(overall.expected_count)}), ideal times by {ideal}."


def _error_rows(rows: Sequence[CaseRow]) -> list[list[Cell]]:
    """Return a row of errors for each operator, those with most cases first."""
    from reports.cases.errors import overall_error

    names = {row.case_id: f"{row.shape_label} {row.precision}" for row in rows}

    def worst(case_id: str, error_ratio: float | None) -> str:
        if error_ratio is None:
            return MISSING
        return f"{names.get(case_id, case_id)} ({format_percent(error_ratio, 0, signed=True)})"

    titles = dict.fromkeys(row.op_title for row in rows)
    by_title = ((title, overall_error(row for row in rows if row.op_title == title)) for title in titles)
    errors_by_title = sorted(((title, each) for title, each in by_title if each), key=lambda pair: -pair[1].case_count)
    return [
        [
            title,
            str(each.case_count),
            format_percent(each.median_abs_error_ratio, 0),
            format_percent(each.median_abs_expected_ratio, 0),
            f"{each.inside_count} of {each.interval_count}" if each.interval_count else "–",
            worst(each.worst_expected_case_id, each.worst_expected_error_ratio),
            worst(each.worst_case_id, each.worst_error_ratio),
        ]
        for title, each in errors_by_title
    ]


def _model_verdicts(models: Sequence[ModelResult]) -> list[str]:
    from results.text.model_text import verdict_lines

    return [sentence.rstrip(".") for model in models for sentence in verdict_lines(model)]


def _matching(summaries: tuple[CaseSummary, ...], wanted: list[str], run: RunInfo) -> list[CaseSummary]:
    whole = [case for case in summaries if _is_meant(case, " ".join(wanted))]
    if whole:
        return whole
    for part in wanted:
        if not any(_is_meant(case, part) for case in summaries):
            examples = ", ".join(case.lead.case_id for case in summaries[:2])
            example_text = f"it has {_counted(len(summaries))}, such as {examples}" if summaries else "it has no cases"
            raise InvalidValueError(
                f"no case of run {run.run_id[:8]} has {part[:60]!r} in its operator, sizes or id; {example_text}; "
                f"`roofline show {run.run_id[:8]}` lists them"
            )
    return [case for case in summaries if any(_is_meant(case, part) for part in wanted)]


def _is_meant(case: CaseSummary, part: str) -> bool:
    """Return whether all words of one argument name this case."""
    from roofline_model.operators.case import is_meant

    record = case.lead.record
    return is_meant(record.case, part.split(), record.test_id)


def _show_cases(run: RunInfo, cases: list[CaseSummary], case_count: int, *, as_json: bool) -> None:
    from roofline_cli.runs.case_view import case_detail_json, print_case

    if as_json:
        from reports.answers.answer_json import SCHEMA_VERSION, answer_json

        environment = {"class_hash": run.environment.class_hash, "class_facts": dict(run.environment.class_facts)}
        details = [case_detail_json(case) for case in cases]
        show_json(
            {
                "schema_version": SCHEMA_VERSION,
                "run": answer_json(run),
                "environment": dict(run.environment.facts),
                "environment_class": environment,
                "cases": details,
            }
        )
        return
    _print_run(run, f"{len(cases)} of {_counted(case_count)}")
    for case in cases:
        show_line()
        print_case(case, run)


def print_cases(title: str, cases: list[CaseSummary]) -> None:
    """Print the cases of one shape, cache state and mode side by side; what was not measured keeps its reason in a line
    below.
    """

    rows = [case.pooled for case in cases]
    ideal, measured = paired_times([row.ideal_s for row in rows], [row.measured_s for row in rows])
    expected = column_times([row.expected_s for row in rows])
    columns = (
        Column("Format"),
        Column("Kernel", is_prose=True, least=12),
        Column("Measured", "right", hide_empty=True),
        Column("!", hide_empty=True),
        Column("±", "right", drop=3, hide_empty=True),
        Column("Ideal", "right", drop=1),
        Column("Error", "right", hide_empty=True),
        Column("Expected", "right", drop=4, hide_empty=True),
        Column("Exp. error", "right", drop=2, hide_empty=True),
        Column("Bound", drop=8),
        Column("Rate", "right", drop=6, hide_empty=True),
        Column("Energy", "right", drop=5, hide_empty=True),
        Column("Power", "right", drop=7, hide_empty=True),
        Column("Status", drop=9),
    )
    has_doubts = any(case.doubts for case in cases)
    cells: list[list[Cell]] = [
        [
            row.precision,
            row.kernel,
            time,
            "!" if case.doubts else "" if has_doubts else "–",
            plus_minus_cell(case),
            predicted,
            format_percent(row.error_ratio, signed=True),
            expected_time,
            format_percent(row.expected_error_ratio, signed=True),
            row.bound or "–",
            format_achieved(row.bound, row.achieved_bytes_per_s, row.achieved_flops_per_s),
            *_energy_cells(case),
            Styled(row.status, _STATUS_STYLES.get(row.status, "")),
        ]
        for case, row, time, predicted, expected_time in zip(cases, rows, measured, ideal, expected, strict=True)
    ]
    show_table(columns, cells, title=title)
    print_reasons(rows)


def plus_minus_cell(case: CaseSummary) -> str:
    """Print `±1.2 %` of the total interval; of the one within, with a mark, where the total is not known."""

    text = plus_minus(case.plus_minus_ratio)
    return f"{text}*" if case.total_ratio is None and case.within_ratio is not None else text


def _energy_cells(case: CaseSummary) -> tuple[str, str]:
    from reports.cases.state import case_energy

    energy = case_energy(case)
    power_w = energy.power_w if energy is not None else case.lead.power_w
    return prefixed(energy.energy_j if energy else None, "J"), prefixed(power_w, "W")


def _print_legend(cases: tuple[CaseSummary, ...], run: RunInfo) -> None:
    """Explain once what ± and the flags mean, and where the rest is."""
    show_line()
    print_interval_meaning(cases)
    print_flag_meanings(cases)
    show_line(
        f"`roofline show {run.run_id[:8]} CASE` shows everything about the cases with the words of CASE in their name",
        "dim",
    )


def print_interval_meaning(cases: Iterable[CaseSummary]) -> None:
    """Say which interval the ± of a table is."""
    cases = list(cases)
    if any(case.total_ratio is not None for case in cases):
        show_line("± is interval_total: it knows how far fresh processes differ", "dim")
    if any(case.total_ratio is None and case.within_ratio is not None for case in cases):
        show_line("* ± is of one process: another may differ by more; `roofline doctor --noise` says how much", "dim")


def print_flag_meanings(cases: Iterable[CaseSummary]) -> None:
    """Explain the flags that occur, one line each."""
    from results.records.flags import DOUBTFUL_FLAGS, FLAGS
    from roofline_model.core.finding import code_text

    occurring = {flag for case in cases for flag in case.flags}
    for flag in FLAGS:
        if flag in occurring:
            show_line(
                f"{flag}{' (!)' if flag in DOUBTFUL_FLAGS else ''}: {code_text(flag)}",
                "yellow" if flag in DOUBTFUL_FLAGS else "dim",
            )


def print_reasons(rows: list[CaseRow]) -> None:
    """Say once per reason which cases were not measured, and once per warning which ones it concerns.

    A reason that all rows share names none of them.
    """
    remarks: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.status != "measured":
            remarks.setdefault((row.status, row.reason or "no reason stored"), []).append(row.label)
        for flag in row.flags:
            remarks.setdefault(("flag", flag), []).append(row.label)
    for (status, text), labels in remarks.items():
        names = "" if len(labels) == len(rows) else ", ".join(dict.fromkeys(labels))
        if status == "flag":
            if len(labels) == sum(row.measured_s is not None for row in rows):
                names = "all that were measured" if names else "all"
            show_line(f"  {text}: {names}", "yellow")
        else:
            show_line(f"  {status}: {names}{': ' if names else ''}{text}", _STATUS_STYLES[status])


def _print_run(run: RunInfo, cases: str) -> None:
    show_line(f"run {run.run_id[:8]} {shown(run.label, 160)}".rstrip(), "bold")
    exit_code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    chip = shown(run.hardware_key, 60) or "–"
    show_line(f"{utc_minutes(run.started_at)} UTC, {run.status}{exit_code}, {cases}, chip {chip}")
    if run.is_forced:
        show_line("forced: measured on a machine that is not that chip", "yellow")
    facts = run.environment.facts
    machine = list(dict.fromkeys(shown(facts[name], 80) for name in ("host", "device", "cpu") if facts.get(name)))
    machine += [f"torch {shown(facts['torch'], 40)}"] if facts.get("torch") else []
    machine += [f"commit {commit_label(run)}"] if run.git_commit else []
    if machine:
        show_line(", ".join(machine))


def _held(cases: tuple[CaseSummary, ...]) -> str:
    """Return `42 cases: 38 measured, 4 skipped`, and of how many processes where these are several."""
    processes = len({row.process for case in cases for row in case.rows if row.status == "measured"})
    held = f"{_counted(len(cases))}: {_counts_text(cases)}"
    return (held if cases else _counted(0)) + (f", in {processes} processes" if processes > 1 else "")


def _counts_text(cases: Sequence[CaseSummary]) -> str:
    """Return `38 measured, 4 skipped`."""
    from collections import Counter

    counts = Counter(case.pooled.status for case in cases)
    return ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "no case"


def _counted(case_count: int) -> str:
    return "1 case" if case_count == 1 else f"{case_count} cases"


def commit_label(run: RunInfo) -> str:
    """Return the short commit, with `+` when the working tree had changes."""
    if not run.git_commit:
        return "–"
    return run.git_commit[:9] + ("+" if run.git_is_dirty else "")


def utc_minutes(timestamp: str) -> str:
    """Return a stored time as `2026-11-21 10:34`."""
    return timestamp[:16].replace("T", " ") or "–"
