"""`roofline db`: care for the results database."""

from __future__ import annotations

from dataclasses import asdict

import typer

from reports.present.screen import show_json, show_line
from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.shared.database import reading, schema_version, shown_target, upgraded
from roofline_cli.shared.group import EXIT_FOUND
from roofline_cli.shared.options import DatabaseOption, JsonOption
from roofline_model.core.units import counted

COMMANDS = {
    "db": ("app", "Care for the results database."),
}

app = typer.Typer(help="Care for the results database.")


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
def check(db: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Look for damage in pages, references and values.

    Changes nothing. Exit code 1 when something is wrong.
    """
    from results.operations.check import check_store

    shown, _ = shown_target(db)
    with reading(db) as store, progress_bar("checking", is_quiet=as_json) as advance:
        problems = check_store(store, advance)
        schema = store.schema_version()
    if as_json:
        show_json({"database": shown, "schema": schema, "problems": [asdict(problem) for problem in problems]})
    else:
        for problem in problems:
            show_line(f"{problem.kind}: {f'{problem.where}: ' if problem.where else ''}{problem.what}", "red")
        verdict = counted(len(problems), "problem") if problems else "whole"
        show_line(f"{shown} (schema {schema}): {verdict}; looked at pages, references and every value")
    if problems:
        raise typer.Exit(EXIT_FOUND)
