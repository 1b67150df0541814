"""`roofline db`: care for the results database."""

from __future__ import annotations

from dataclasses import asdict

import typer

from reports.present.blocks import Paragraph
from reports.present.screen import present
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
    said = f"{shown} has schema {SCHEMA_VERSION} already; nothing to do"
    if before != SCHEMA_VERSION:
        backup = f"; the old file is kept as {newest}" if newest else ""
        said = f"{shown}: schema {before} upgraded to {SCHEMA_VERSION}{backup}"
    kept = str(newest) if newest else None
    present(
        lambda: {"database": shown, "schema_before": before, "schema": SCHEMA_VERSION, "backup": kept},
        lambda: [Paragraph(said)],
        as_json=as_json,
    )


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
    verdict = counted(len(problems), "problem") if problems else "whole"
    present(
        lambda: {"database": shown, "schema": schema, "problems": list(map(asdict, problems))},
        lambda: (
            *(
                Paragraph(f"{each.kind}: {f'{each.where}: ' if each.where else ''}{each.what}", "failed")
                for each in problems
            ),
            Paragraph(f"{shown} (schema {schema}): {verdict}; looked at pages, references and every value"),
        ),
        as_json=as_json,
    )
    if problems:
        raise typer.Exit(EXIT_FOUND)
