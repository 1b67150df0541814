"""`roofline db copy` and `roofline db deliver`: results on their way into another database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.screen.tables import Column, show_json, show_line, show_table
from roofline_cli.shared.database import reading, schema_version, shown_target, writing
from roofline_cli.shared.group import EXIT_FOUND
from roofline_cli.shared.options import DatabaseOption, JsonOption
from roofline_model.core.errors import StoreError
from roofline_model.core.finding import advice_text, reason_text
from roofline_model.core.units import counted


def copy_database(
    target: Annotated[str, typer.Argument(metavar="URL|PATH", help="Database to copy to: new, or an earlier copy.")],
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy the whole database into another one, exactly.

    SQLite and PostgreSQL, both ways.

    Run it again to continue an interrupted copy or to bring an older one up to date. Rows and their content hashes are
    compared at the end; exit code 1 when they differ.
    """
    from results.operations.copy import copy_store
    from results.store.schema import SCHEMA_VERSION

    shown, sink = shown_target(db)[0], shown_target(target)[0]
    if schema_version(target) not in (None, SCHEMA_VERSION):  # opening it to write would upgrade what may be refused
        raise StoreError(f"{sink} has another schema than {SCHEMA_VERSION}: `roofline db upgrade --db {sink}` first")
    with (
        reading(db) as source,
        writing(target) as there,
        progress_bar("copying", is_quiet=as_json) as advance,
    ):
        tables = copy_store(source, there, advance)
    is_equal = all(table.is_equal for table in tables)
    if as_json:
        rows = [
            {
                "table": table.name,
                "row_count": table.source.row_count,
                "added_count": table.added_count,
                "updated_count": table.updated_count,
                "is_equal": table.is_equal,
                "source_hash": table.source.content_hash,
                "target_hash": table.target.content_hash,
            }
            for table in tables
        ]
        show_json({"source": shown, "target": sink, "is_equal": is_equal, "tables": rows})
    else:
        columns = (
            Column("Table"),
            Column("Rows", "right"),
            Column("Added", "right"),
            Column("Updated", "right"),
            Column("Content hash"),
        )
        show_table(
            columns,
            [
                [
                    table.name,
                    f"{table.source.row_count:,}",
                    f"{table.added_count:,}",
                    f"{table.updated_count:,}",
                    table.source.content_hash[:16] if table.is_equal else "DIFFERS",
                ]
                for table in tables
            ],
        )
        verdict = (
            "rows and content hashes are equal"
            if is_equal
            else "the two differ: somebody wrote there meanwhile; copy again"
        )
        show_line(f"{shown} → {sink}: {verdict}", "" if is_equal else "red")
    if not is_equal:
        raise typer.Exit(EXIT_FOUND)


def deliver_results(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Deliver these, whichever database they were meant for."),
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option("--spool", metavar="FOLDER", help="Where the runs kept them (default: .roofline/spool here)."),
    ] = None,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send results that waited for their server.

    Runs keep on disk what an unreachable PostgreSQL server does not take.

    Sending a file twice stores nothing twice. Exit code 1 when a file could not be sent; it stays.
    """
    from results.store.delivery.outbox import deliver_files, deliver_waiting
    from results.store.target import SPOOL_FOLDER

    shown, folder = shown_target(db)[0], spool or SPOOL_FOLDER
    with writing(db, create=False) as store:
        deliveries = deliver_files(store, files) if files else deliver_waiting(store, folder)
    if as_json:
        rows = [
            {
                "file": str(delivery.path),
                "outcome": delivery.outcome,
                "record_count": delivery.record_count,
                "added_count": delivery.added_count,
                "reason": reason_text(delivery.reason),
                "torn_bytes": delivery.torn_bytes,
            }
            for delivery in deliveries
        ]
        show_json({"database": shown, "files": rows})
    else:
        for delivery in deliveries:
            if delivery.finding is not None:
                show_line(advice_text(delivery.finding), "yellow")
            if delivery.outcome == "delivered":
                there = delivery.record_count - delivery.added_count
                show_line(
                    f"{delivery.path}: {counted(delivery.added_count, 'record')} delivered, {there} already there"
                )
            else:
                show_line(
                    f"{delivery.path}: left alone, {reason_text(delivery.reason)}",
                    "red" if delivery.outcome == "failed" else "yellow",
                )
        if not deliveries:
            show_line(f"nothing waits in {folder}")
    if any(delivery.outcome == "failed" for delivery in deliveries):
        raise typer.Exit(EXIT_FOUND)
