"""`roofline db`: care for the results database."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from roofline_cli.database import move as db_move
from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.screen.tables import Column, decimal_bytes, show_json, show_line, show_table
from roofline_cli.shared.database import reading, schema_version, shown_target, upgraded
from roofline_cli.shared.group import EXIT_FOUND
from roofline_cli.shared.options import DatabaseOption, JsonOption
from roofline_model.core.units import counted

if TYPE_CHECKING:
    from results.operations.stats import StoreStats

COMMANDS = {
    "db": ("app", "Care for the results database."),
}

app = typer.Typer(help="Care for the results database.")
app.command("copy")(db_move.copy_database)
app.command("deliver")(db_move.deliver_results)


@app.callback()
def database() -> None:
    """Care for the results database."""


@app.command("upgrade")
def upgrade(db: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Bring an older database to today's schema; a copy of it is kept.

    A run that is stored does this by itself; commands that only read never change a file.
    """
    from results.store.schema import SCHEMA_VERSION

    shown, path = shown_target(db)
    before = schema_version(db)
    with progress_bar("upgrading", is_quiet=as_json) as advance:
        upgraded(db, advance)
    copies = [] if path is None or before == SCHEMA_VERSION else list(path.parent.glob(f"{path.name}.schema-*.backup*"))
    newest = max(copies, key=lambda copy: copy.stat().st_mtime, default=None)
    if as_json:
        show_json(
            {
                "database": shown,
                "schema_before": before,
                "schema": SCHEMA_VERSION,
                "backup": str(newest) if newest else None,
            }
        )
        return
    if before == SCHEMA_VERSION:
        show_line(f"{shown} has schema {SCHEMA_VERSION} already; nothing to do")
        return
    backup = f"; the old file is kept as {newest}" if newest else ""
    show_line(f"{shown}: schema {before} upgraded to {SCHEMA_VERSION}{backup}")


@app.command("check")
def check(
    quick: Annotated[bool, typer.Option("--quick", help="Do not read every value of every run.")] = False,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Look for damage in pages, references and values.

    Changes nothing. Exit code 1 when something is wrong.
    """

    from results.operations.check import check_store

    shown, _ = shown_target(db)
    with reading(db) as store, progress_bar("checking", is_quiet=as_json) as advance:
        problems = check_store(store, with_values=not quick, progress=advance)
        schema = store.schema_version()
    if as_json:
        documents = [asdict(problem) for problem in problems]
        show_json({"database": shown, "schema": schema, "values_read": not quick, "problems": documents})
    else:
        for problem in problems:
            show_line(f"{problem.kind}: {f'{problem.where}: ' if problem.where else ''}{problem.what}", "red")
        looked = "pages, references and indexes" if quick else "pages, references, indexes and every value"
        verdict = counted(len(problems), "problem") if problems else "whole"
        show_line(f"{shown} (schema {schema}): {verdict}; looked at {looked}")
    if problems:
        raise typer.Exit(EXIT_FOUND)


@app.command("stats")
def stats(db: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Show how much the database holds and what takes the space."""

    from results.operations.stats import stats_of

    shown, _ = shown_target(db)
    with reading(db) as store:
        store_stats = stats_of(store)
        schema = store.schema_version()
    if as_json:
        show_json({"database": shown, "schema": schema, **asdict(store_stats)})
        return
    _print_stats(shown, schema, store_stats)


def _print_stats(shown: str, schema: int, store_stats: StoreStats) -> None:
    columns = (Column("Table"), Column("Rows", "right"), Column("Size", "right", hide_empty=True))
    rows = [[table.name, f"{table.row_count:,}", decimal_bytes(table.size_bytes)] for table in store_stats.tables]
    show_table(columns, rows)
    runs = ", ".join(f"{count:,} {status}" for status, count in store_stats.run_counts.items()) or "none"
    since = (
        f", {store_stats.first_started_at[:10]} to {str(store_stats.last_started_at)[:10]}"
        if store_stats.first_started_at
        else ""
    )
    show_line(f"Runs: {runs}{since}.")
    free = f", {decimal_bytes(store_stats.free_bytes)} of it free" if store_stats.free_bytes else ""
    show_line(f"{shown} (schema {schema}): {decimal_bytes(store_stats.size_bytes)}{free}.")
    show_line(
        f"Raw samples: {decimal_bytes(store_stats.sample_bytes)}; `roofline prune --older-than 90d` drops old ones."
    )
