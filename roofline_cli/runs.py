"""`roofline runs` and `roofline show`: what the database holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline_cli.options import DatabaseOption, JsonOption
from roofline_cli.screen import Cell, Column, Styled, show_json, show_line, show_table

if TYPE_CHECKING:
    from reports.case_rows import CaseRow
    from results.records import RunInfo

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Id prefix, label, latest or latest~1.")]

_STATUS_STYLES = {"measured": "green", "predicted": "yellow", "skipped": "yellow", "failed": "bold red"}


def list_runs(
    limit: Annotated[
        int, typer.Option("--limit", metavar="INT", min=1, max=100_000, help="Show at most this many, newest first.")
    ] = 20,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs of the database, newest first."""
    from roofline_cli.database import reading

    with reading(db) as store:
        found = store.runs(limit=limit)
    if as_json:
        show_json({"runs": [run_json(run) for run in found]})
        return
    columns = (
        Column("Run"), Column("Started (UTC)"), Column("Status"), Column("Exit", "right", drop=3), Column("Chip"),
        Column("Commit", drop=2), Column("Host", drop=1), Column("Label", is_prose=True),
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [
            run.run_id[:8],
            _minutes(run.started_at),
            Styled(run.status, "green" if run.status == "complete" else "yellow"),
            "–" if run.exit_code is None else str(run.exit_code),
            f"{run.hardware_key or '–'}{' (forced)' if run.is_forced else ''}",
            commit_label(run),
            str(run.environment.facts.get("host") or "–")[:40],
            run.label or "–",
        ]
        for run in found
    ]
    show_table(columns, rows)


def show_run(run: RunArgument, db: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Show one run: measured, predicted, error, bound, rate."""
    from reports.case_rows import case_rows
    from roofline_cli.database import reading

    with reading(db) as store:
        info = store.resolve_run(run)
        rows = case_rows(store.records(info.run_id, with_samples=False), is_forced=info.is_forced)
    if as_json:
        show_json({"run": run_json(info), "cases": [case_json(row) for row in rows]})
        return
    _print_run(info, len(rows))
    has_caches = len({row.cache for row in rows}) > 1
    groups: dict[tuple[str, str], list[CaseRow]] = {}
    for row in rows:
        groups.setdefault((row.op, row.shape_label), []).append(row)
    for (op, shape), members in groups.items():
        show_line()
        print_cases(f"{op} {shape}", members, has_caches=has_caches)


def print_cases(title: str, rows: list[CaseRow], *, has_caches: bool) -> None:
    """Print the cases of one shape side by side; what was not measured keeps its reason in a line below.

    `has_caches`: the run holds several cache states. They tell rows apart then, and stay on the narrowest screen.
    """
    from roofline_cli.numbers import paired_times, plus_minus
    from roofline_model.units import format_achieved, format_percent

    ideal, measured = paired_times([row.ideal_s for row in rows], [row.measured_s for row in rows])
    columns = (
        Column("Format"), Column("Kernel", is_prose=True, least=13), Column("Cache", drop=0 if has_caches else 4), Column("Measured", "right", hide_empty=True),
        Column("±", "right", drop=2, hide_empty=True),
        Column("Ideal", "right"), Column("Error", "right", hide_empty=True), Column("Bound", drop=3),
        Column("Rate", "right", drop=1, hide_empty=True),
        Column("Status", drop=5),
    )  # fmt: skip
    cells: list[list[Cell]] = [
        [
            row.precision, row.kernel, row.cache, time, plus_minus(row.interval_ratio), predicted,
            format_percent(row.error_ratio, signed=True), row.bound or "–", format_achieved(row.bound, row.achieved_bytes_per_s, row.achieved_flops_per_s),
            Styled(row.status, _STATUS_STYLES.get(row.status, "")),
        ]
        for row, time, predicted in zip(rows, measured, ideal, strict=True)
    ]  # fmt: skip
    show_table(columns, cells, title=title)
    print_reasons(rows)


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
            show_line(f"  {text}: {names or 'all'}", "yellow")
        else:
            show_line(f"  {status}: {names}{': ' if names else ''}{text}", _STATUS_STYLES[status])


def _print_run(run: RunInfo, case_count: int) -> None:
    show_line(f"run {run.run_id[:8]} {run.label}".rstrip(), "bold")
    exit_code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    show_line(
        f"{_minutes(run.started_at)} UTC, {run.status}{exit_code}, {case_count} cases, chip {run.hardware_key or '–'}"
    )
    if run.is_forced:
        show_line("forced: measured on a machine that is not that chip", "yellow")
    facts = run.environment.facts
    machine = list(dict.fromkeys(str(facts[name]) for name in ("host", "device", "cpu") if facts.get(name)))
    machine += [f"torch {facts['torch']}"] if facts.get("torch") else []
    show_line(", ".join([*machine, f"commit {commit_label(run)}"]))


def commit_label(run: RunInfo) -> str:
    """Return the short commit, with `+` when the working tree had changes."""
    if not run.git_commit:
        return "–"
    return run.git_commit[:9] + ("+" if run.git_is_dirty else "")


def _minutes(timestamp: str) -> str:
    return timestamp[:16].replace("T", " ") or "–"


def run_json(run: RunInfo) -> dict[str, Any]:
    """Return a run's own fields as JSON."""
    return {
        "run_id": run.run_id,
        "label": run.label,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "status": run.status,
        "exit_code": run.exit_code,
        "hardware": run.hardware_key,
        "is_forced": run.is_forced,
        "command": run.command,
        "git_commit": run.git_commit,
        "git_branch": run.git_branch,
        "git_is_dirty": run.git_is_dirty,
        "plugin_version": run.plugin_version,
        "environment": dict(run.environment.facts),
    }


def case_json(row: CaseRow) -> dict[str, Any]:
    """Return one case of a run as JSON; every key ends in its unit."""
    return {
        "record_id": row.record_id,
        "case_key": row.case_key,
        "case_id": row.case_id,
        "op": row.op,
        "shape": row.shape_label,
        "weight_format": row.weight_format,
        "activation_format": row.activation_format,
        "kernel": row.kernel,
        "cache": row.cache,
        "mode": row.mode,
        "process": row.process,
        "status": row.status,
        "reason": row.reason or None,
        "hardware": row.hardware_key or None,
        "measured_s": row.measured_s,
        "measured_ci_half_width_ratio": row.interval_ratio,
        "ideal_s": row.ideal_s,
        "error_ideal_ratio": row.error_ratio,
        "expected_s": row.expected_s,
        "error_expected_ratio": row.expected_error_ratio,
        "bound": row.bound or None,
        "path": row.path or None,
        "achieved_bytes_per_s": row.achieved_bytes_per_s,
        "achieved_flops_per_s": row.achieved_flops_per_s,
        "roof_share_ratio": row.roof_share_ratio,
        "intensity_flop_per_byte": row.intensity_flop_per_byte,
        "power_w": row.power_w,
        "energy_j": row.energy_j,
        "max_error_ratio": row.max_error,
        "tolerance_ratio": row.tolerance,
        "flags": list(row.flags),
        "notes": list(row.notes),
    }
