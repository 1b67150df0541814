"""`roofline runs`: what the database holds, and the care of one run: another label, or its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.document.run_blocks import commit_label
from reports.present.blocks import Block, Column, Command, Span, table
from reports.present.display_text import shown, utc_minutes
from reports.present.screen import MISSING, show_blocks, show_json, show_line
from roofline_cli.runs.show import RunArgument
from roofline_cli.shared.database import reading, shown_target, writing
from roofline_cli.shared.group import typed
from roofline_cli.shared.options import DatabaseOption, JsonOption
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.units import counted

if TYPE_CHECKING:
    from results.operations.run_contents import RunContents
    from results.records.records import RunInfo

COMMANDS = {
    "runs": ("app", "List the runs and what each holds, relabel or delete one."),
}

_LIMIT = 20
_NAMED = 3
"""Operators and formats named of one run; --json names all."""

app = typer.Typer(invoke_without_command=True)


@app.callback()
def list_runs(
    context: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", metavar="INT", min=1, max=100_000, help="Show at most this many, newest first.")
    ] = _LIMIT,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs and what each holds, relabel or delete one.

    Newest first. On a narrow screen `roofline runs --json` has what the table leaves out.
    """
    if context.invoked_subcommand is not None:
        if db is not None or as_json or limit != _LIMIT:
            raise typer.BadParameter(
                f"options go behind the command: roofline runs {context.invoked_subcommand} RUN … --db …"
            )
        return
    from reports.present.encoder import SCHEMA_VERSION, answer_json
    from results.operations.run_contents import run_contents

    with reading(db) as store:
        runs = store.runs(limit=limit)
        contents = run_contents(store, [run.run_id for run in runs])
    if as_json:
        rows = [{**answer_json(run), "holds": _contents_json(contents[run.run_id])} for run in runs]
        show_json({"schema_version": SCHEMA_VERSION, "runs": rows})
        return
    show_blocks(_run_blocks([(run, contents[run.run_id]) for run in runs]))


@app.command("relabel")
def relabel(
    run: RunArgument,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="The new label; '' takes the label away.")],
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give one run another label."""
    from results.operations.run_care import relabel_run

    with writing(db, create=False) as store:
        info = store.resolve_run(run)
        relabel_run(store, info.run_id, label)
    if as_json:
        show_json({"run_id": info.run_id, "label_before": info.label, "label": label})
        return
    before, after = (repr(shown(text, 80)) if text else "no label" for text in (info.label, label))
    show_line(f"run {info.run_id[:8]} of {utc_minutes(info.started_at)}: {before} is now {after}")


@app.command("delete")
def delete(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id prefix, or a label that one run has; never latest.")],
    is_sure: Annotated[
        bool, typer.Option("--yes", help="Delete it; without this, only show what would be deleted.")
    ] = False,
    is_unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Even a run that is not finished; it may be measuring right now.")
    ] = False,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete one run for good: its cases, samples and predictions.

    Without --yes nothing is deleted. `roofline export RUN -o run.json` keeps a copy that `roofline import` brings back
    whole.
    """
    from results.operations.run_care import delete_run, rows_of_run, run_to_delete

    shown_database, _ = shown_target(db)
    with reading(db) as store:
        info = run_to_delete(store, run)
        rows = rows_of_run(store, info.run_id)
    what = f"run {_named(info)}, {counted(rows.record_count, 'record')}, {rows.measurement_count} measured"
    if info.status == "running" and not is_unfinished:
        raise InvalidValueError(
            f"{what} is not finished: it may be measuring right now; nothing was deleted. --unfinished deletes it all "
            "the same"
        )
    if not is_sure:
        raise InvalidValueError(
            f"nothing was deleted: --yes deletes {what} from {shown_database}; `roofline export {info.run_id[:12]} -o "
            "run.json` keeps a copy first"
        )
    with writing(db, create=False) as store:
        gone = delete_run(store, info.run_id)
    if as_json:
        show_json(
            {
                "database": shown_database,
                "run_id": info.run_id,
                "label": info.label,
                "record_count": gone.record_count,
                "measurement_count": gone.measurement_count,
                "canary_count": gone.canary_count,
            }
        )
        return
    show_line(f"{shown_database}: deleted {what}; noise floors and the cases other runs share stay")


def _chips(item: tuple[RunInfo, RunContents]) -> str:
    run, holds = item
    chips = ", ".join(shown(key, 40) for key in holds.hardware_keys) or shown(run.hardware_key, 40) or MISSING
    return f"{chips}{' (forced)' if run.is_forced else ''}"


def _not_measured(item: tuple[RunInfo, RunContents]) -> str:
    return ", ".join(f"{count} {name}" for name, count in item[1].counts.items() if name != "measured") or MISSING


_RUNS = (
    Column("Run", lambda item: item[0].run_id[:8], is_head=True),
    Column("Started", lambda item: utc_minutes(item[0].started_at), drop=1),
    Column("Status", lambda item: Span(item[0].status, "good" if item[0].status == "complete" else "warning"), drop=4),
    Column("Exit", lambda item: MISSING if item[0].exit_code is None else str(item[0].exit_code), "number", drop=11),
    Column("Chip", _chips, drop=3),
    Column("Cases", lambda item: f"{item[1].case_count:,}", "number", drop=2),
    Column("Times", lambda item: "simulated" if item[1].is_simulated else MISSING),
    Column("Not measured", _not_measured, drop=5),
    Column("Operators", lambda item: _first(item[1].ops), "prose", drop=6),
    Column("Formats", lambda item: _first(item[1].precisions), "prose", drop=7),
    Column("Processes", lambda item: f"{item[1].process_count:,}", "number", drop=8),
    Column("Commit", lambda item: commit_label(item[0]), drop=9),
    Column("Host", lambda item: shown(item[0].environment.facts.get("host") or MISSING, 40), drop=10),
    Column("Label", lambda item: shown(item[0].label, 200) or MISSING, "prose"),
)


def _run_blocks(runs: Sequence[tuple[RunInfo, RunContents]]) -> Iterator[Block]:
    yield table("Runs", _RUNS, runs)
    if runs:
        yield Command(f"roofline show {runs[0][0].run_id[:8]}{typed('--db')}")


def _contents_json(holds: RunContents) -> dict[str, Any]:
    return {
        "case_count": holds.case_count,
        "cases_by_outcome": dict(holds.counts),
        "operators": list(holds.ops),
        "precisions": list(holds.precisions),
        "process_count": holds.process_count,
        "hardware": list(holds.hardware_keys),
        "is_simulated": holds.is_simulated,
    }


def _first(names: tuple[str, ...]) -> str:
    more = f" +{len(names) - _NAMED}" if len(names) > _NAMED else ""
    return ", ".join(shown(name, 40) for name in names[:_NAMED]) + more or "–"


def _named(run: RunInfo) -> str:
    label = f" {shown(run.label, 60)!r}" if run.label else ""
    return f"{run.run_id[:8]}{label} of {utc_minutes(run.started_at)}"
