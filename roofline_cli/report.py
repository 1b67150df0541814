"""`roofline report`: the HTML page and the dual roofline plot of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofline_cli.options import DatabaseOption, JsonOption
from roofline_cli.screen import show_json, show_line


def write_run_report(
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="Id prefix, label, latest or latest~1.")] = "latest",
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE.html", help="Where to write the page; the plots go beside it."),
    ] = Path("report.html"),
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the HTML report and the dual roofline plot of a run.

    The plot lies beside the page as PNG and SVG.
    """
    from reports.html import write_report
    from roofline_cli.database import reading
    from roofline_model.errors import InvalidValueError

    if output.is_dir():
        raise InvalidValueError(f"{output} is a folder; name a file, e.g. -o {output / 'report.html'}")
    with reading(db) as store:
        info = store.resolve_run(run)
        try:
            files = write_report(store, info, output)
        except OSError as error:
            raise InvalidValueError(
                f"the report cannot be written to {output}: {error.strerror or error}; name another file with -o"
            ) from None
    if as_json:
        show_json(
            {
                "run_id": info.run_id,
                "html_path": str(files.html),
                "png_path": str(files.png),
                "svg_path": str(files.svg),
            }
        )
        return
    show_line(f"report of run {info.run_id[:8]}: {files.html}")
    show_line(f"plots: {files.png}, {files.svg}")
