"""`roofline push`: runs on their way into another database."""

from __future__ import annotations

from typing import Annotated

import typer

from reports.present.blocks import Paragraph
from reports.present.screen import present
from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.shared.database import named_runs, reading, schema_version, shown_target, writing
from roofline_cli.shared.options import DatabaseOption, JsonOption
from roofline_model.core.errors import StoreError
from roofline_model.core.units import counted

COMMANDS = {
    "push": ("push_runs", "Copy finished runs to another database, each once."),
}


def push_runs(
    target: Annotated[str, typer.Argument(metavar="URL|PATH", help="Database to copy to.")],
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN...", help="Only these, finished or not (default: all that are finished)."),
    ] = None,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy finished runs to another database, each once.

    SQLite and PostgreSQL, both ways. What is there already stays; run it again to continue a push that was broken off.
    """
    from reports.present.encoder import SCHEMA_VERSION as JSON_VERSION
    from results.store.push import finished_runs, push
    from results.store.schema import SCHEMA_VERSION

    shown, sink = shown_target(db)[0], shown_target(target)[0]
    if schema_version(target) not in (None, SCHEMA_VERSION):  # opening it to write would upgrade what may be refused
        raise StoreError(f"{sink} has another schema than {SCHEMA_VERSION}: `roofline db upgrade --db {sink}` first")
    with reading(db) as source:
        chosen = [run for name in runs or () for run in named_runs(source, name)] or finished_runs(source)
        with writing(target) as there, progress_bar("pushing", is_quiet=as_json) as advance:
            pushed = []
            for number, each in enumerate(push(source, there, chosen), start=1):
                pushed.append(each)
                advance(f"run {each.run.run_id[:8]}", number, len(chosen))
    records = counted(sum(each.added_count for each in pushed), "new record")
    rows = [{"run_id": each.run.run_id, "added_count": each.added_count} for each in pushed]
    present(
        lambda: {"schema_version": JSON_VERSION, "source": shown, "target": sink, "runs": rows},
        lambda: [Paragraph(f"{shown} → {sink}: {counted(len(pushed), 'run')} there, {records}")],
        as_json=as_json,
    )
