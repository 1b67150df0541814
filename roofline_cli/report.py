"""`roofline report`: the HTML page and the dual roofline plot of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline_cli.options import DatabaseOption, JsonOption
from roofline_cli.screen import show_json, show_line

if TYPE_CHECKING:
    from reports.html import ReportFiles
    from results.records import RunInfo
    from results.store import ResultStore


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
    from roofline_cli.database import reading, shown_target
    from roofline_cli.output_file import check_output, one_line_errors, written_together
    from roofline_model.errors import InvalidValueError

    database = shown_target(db)[1]
    check_output(output, database)
    with one_line_errors(output):
        if output.exists() and not output.is_file():
            raise InvalidValueError(f"{output} is not a regular file: a page with plots beside it cannot go there")
    with reading(db) as store:
        info = store.resolve_run(run)
        with one_line_errors(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            with written_together(output) as folder:
                written = _written(store, info, folder, output)
                places = [output.with_name(file.name) for file in (written.html, written.png, written.svg)]
                for place in places:
                    check_output(place, database)
    html, png, svg = places
    if as_json:
        show_json(
            {
                "run_id": info.run_id,
                "html_path": str(html),
                "png_path": str(png),
                "svg_path": str(svg),
            }
        )
        return
    show_line(f"report of run {info.run_id[:8]}: {html}")
    show_line(f"plots: {png}, {svg}")


def _written(store: ResultStore, info: RunInfo, folder: Path, output: Path) -> ReportFiles:
    """Write page and plots into `folder`; an error names the place the user chose."""
    from reports.html import write_report
    from roofline_model.errors import RooflineError

    try:
        return write_report(store, info, folder / output.name)
    except RooflineError as error:
        raise RooflineError(str(error).replace(str(folder), str(output.parent))) from None
