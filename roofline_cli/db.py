"""`roofline db`: care for the results database."""

from __future__ import annotations

import typer

from roofline_cli.options import DatabaseOption, JsonOption
from roofline_cli.screen import show_json, show_line

app = typer.Typer(help="Care for the results database.")


@app.callback()
def database() -> None:
    """Care for the results database."""


@app.command("upgrade")
def upgrade(db: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Bring an older database to today's schema; a copy of it is kept.

    A run that is stored does this by itself; commands that only read never change a file.
    """
    from results.schema import SCHEMA_VERSION
    from roofline_cli.database import schema_version, shown_target, writing

    shown, path = shown_target(db)
    before = schema_version(db)
    with writing(db, create=False):
        pass
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
    kept = f"; the old file is kept as {newest}" if newest else ""
    show_line(f"{shown}: schema {before} upgraded to {SCHEMA_VERSION}{kept}")
