"""`roofline runs`: what the database holds, and the care of one run: another label, or its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present.display_text import shown
from reports.present.screen import MISSING, Cell, Column, Styled, show_json, show_line, show_next, show_table
from roofline_cli.runs.show import RunArgument, commit_label, utc_minutes
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
    columns = (
        Column("Run"),
        Column("Started (UTC)", drop=1),
        Column("Status", drop=4),
        Column("Exit", "right", drop=11),
        Column("Chip", drop=3),
        Column("Cases", "right", drop=2),
        Column("Times", hide_empty=True),
        Column("Not measured", drop=5, hide_empty=True),
        Column("Operators", is_prose=True, drop=6),
        Column("Formats", is_prose=True, drop=7),
        Column("Processes", "right", drop=8),
        Column("Commit", drop=9),
        Column("Host", drop=10),
        Column("Label", is_prose=True),
    )
    show_table(columns, [_row(run, contents[run.run_id]) for run in runs])
    if runs:
        show_next(f"roofline show {runs[0].run_id[:8]}{typed('--db')}")


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
    show_line(f"run {info.run_id[:8]} of {utc_minutes(info.started_at)} UTC: {before} is now {after}")


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


def _row(run: RunInfo, holds: RunContents) -> list[Cell]:
    chip = ", ".join(shown(key, 40) for key in holds.hardware_keys) or shown(run.hardware_key, 40) or "–"
    others = ", ".join(f"{count} {name}" for name, count in holds.counts.items() if name != "measured")
    return [
        run.run_id[:8],
        utc_minutes(run.started_at),
        Styled(run.status, "green" if run.status == "complete" else "yellow"),
        "–" if run.exit_code is None else str(run.exit_code),
        f"{chip}{' (forced)' if run.is_forced else ''}",
        f"{holds.case_count:,}",
        "simulated" if holds.is_simulated else MISSING,
        others or "–",
        _first(holds.ops),
        _first(holds.precisions),
        f"{holds.process_count:,}",
        commit_label(run),
        shown(run.environment.facts.get("host") or "–", 40),
        shown(run.label, 200) or "–",
    ]


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
    return f"{run.run_id[:8]}{label} of {utc_minutes(run.started_at)} UTC"
