"""`roofline export` and `roofline import`: carry a run from one machine to another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from roofline_cli.options import DatabaseOption, JsonOption
from roofline_cli.runs import RunArgument
from roofline_cli.screen import show_json, show_line


def export_run(
    run: RunArgument,
    file_format: Annotated[
        str, typer.Option("--format", metavar="csv|json", help="json is complete and can be imported again.")
    ] = "json",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here instead of stdout.")
    ] = None,
    db: DatabaseOption = None,
) -> None:
    """Write one run as JSON (complete) or CSV (a row per case)."""
    import io
    import json

    from roofline_cli.database import reading
    from roofline_model.errors import InvalidValueError

    if file_format not in ("csv", "json"):
        raise InvalidValueError(f"--format must be csv or json, got {file_format[:40]!r}")
    from results.export import export_run_json, write_csv

    with reading(db) as store:
        info = store.resolve_run(run)
        if file_format == "json":
            text = json.dumps(export_run_json(store, info.run_id), indent=1, allow_nan=False) + "\n"
        else:
            stream = io.StringIO(newline="")
            write_csv(store, info.run_id, stream)
            text = stream.getvalue()
    if output is None:
        sys.stdout.write(text)
        return
    write_text(output, text)
    show_line(f"run {info.run_id[:8]} written to {output}")


def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Exported JSON files.")],
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add exported runs to the database.

    Records it already has are recognised and left alone.
    """
    from results.load import import_file
    from roofline_cli.database import writing

    imported = []
    with writing(db) as store:
        for file in files:
            found = import_file(store, file)
            imported.append(
                {
                    "file": str(file),
                    "run_ids": list(found.run_ids),
                    "added_count": found.added,
                    "duplicate_count": found.duplicates,
                }
            )
            if not as_json:
                names = ", ".join(run_id[:8] for run_id in found.run_ids)
                show_line(f"{file}: run {names}: {found.added} records added, {found.duplicates} already there")
    if as_json:
        show_json({"imported": imported})


def write_text(path: Path, text: str) -> None:
    """Write a file; raises `InvalidValueError` naming the path when that is impossible."""
    from roofline_model.errors import InvalidValueError

    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be written: {error.strerror or error}; name another file with -o"
        ) from None
