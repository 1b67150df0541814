"""`roofline export` and `roofline import`: carry a run from one machine to another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from roofline_cli.options import DatabaseOption, JsonOption
from roofline_cli.runs import RunArgument
from roofline_cli.screen import show_json, show_line

MAX_IMPORT_BYTES = 2**30
"""An export of 100,000 records with all samples is far smaller; the whole file is read into memory."""


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

    from roofline_cli.database import reading, shown_target
    from roofline_cli.output_file import check_output, write_text
    from roofline_model.errors import InvalidValueError

    if file_format not in ("csv", "json"):
        raise InvalidValueError(f"--format must be csv or json, got {file_format[:40]!r}")
    from results.export import export_run_json, write_csv

    if output is not None:
        check_output(output, shown_target(db)[1])
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

    for file in files:
        check_import(file)
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


def check_import(path: Path) -> None:
    """Raise `InvalidValueError` for what can never be an exported run: no file, a pipe, CSV, more than `MAX_IMPORT_BYTES`.

    Looking does not open the file: opening a pipe that nobody writes to would wait for ever.
    """
    import stat

    from roofline_model.errors import InvalidValueError

    shown = str(path) if len(str(path)) <= 160 else f"{str(path)[:160]}…"
    wanted = "give a file that `roofline export --format json` wrote"
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise InvalidValueError(
            f"{shown} cannot be read ({getattr(error, 'strerror', None) or error}): {wanted}"
        ) from None
    if stat.S_ISDIR(found.st_mode):
        raise InvalidValueError(f"{shown} is a folder: {wanted}")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidValueError(f"{shown} is not a regular file: {wanted}")
    if path.suffix.lower() == ".csv":
        raise InvalidValueError(
            f"{shown}: CSV cannot be imported, it holds only a part of a run; use `roofline export RUN --format json`"
        )
    if found.st_size > MAX_IMPORT_BYTES:
        raise InvalidValueError(
            f"{shown} holds {found.st_size / 2**30:.1f} GiB, more than an import reads (1 GiB): {wanted}"
        )
