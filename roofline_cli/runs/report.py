"""`roofline report`: a stored run as a page, as Markdown, as JSON or as a page for paper, and its figures as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.present.screen import json_text, show_json, show_line
from roofline_cli.screen.output_file import (
    check_is_not_input,
    check_output,
    is_stdout,
    is_stream,
    one_line_errors,
    write_text,
    written_file,
    written_together,
)
from roofline_cli.shared.database import reading, shown_target
from roofline_cli.shared.options import DatabaseOption, JsonOption
from roofline_model.core.errors import InvalidValueError, RooflineError

if TYPE_CHECKING:
    from reports.page.html import ReportFiles
    from reports.view.comparison import Comparison
    from reports.view.views import ReportView
    from results.rankings import StoredRecommendations
    from results.records.records import RunInfo
    from results.store.store import ResultStore

COMMANDS = {
    "report": ("write_run_report", "Write the report of a run: a page, Markdown, JSON or print."),
}

FORMATS = ("html", "md", "json", "pdf-ready")
_OTHER_FILES = frozenset({".png", ".svg", ".pdf", ".md", ".json", ".csv"})
"""Endings of files that a page would be taken for something else in."""
_DEFAULT_FILES = {"html": "report.html", "pdf-ready": "report-print.html"}
"""The other formats go to the terminal."""


RunOption = Annotated[str, typer.Option("--run", metavar="RUN", help="Id prefix, label, latest or latest~1.")]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="html|md|json|pdf-ready",
        help="The page, Markdown for chats and pull requests, JSON, or a page for paper.",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where to write it (default: report.html; md and json: the terminal).",
    ),
]
FiguresOption = Annotated[
    Path | None,
    typer.Option("--figures", metavar="FOLDER", help="Write every figure there, too, as PNG and SVG."),
]
CardOption = Annotated[
    Path | None,
    typer.Option(
        "--card",
        metavar="FILE.png",
        help="Write one picture to share, too, 1200x630: answer, roofline, chip and date.",
    ),
]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="WHICH",
        help="Show what changed since latest, BASELINE[:N], branch:NAME or a run, as diff does, and over the runs.",
    ),
]
HistoryOption = Annotated[
    bool | None,
    typer.Option(
        "--history/--no-history",
        help="Add what all stored runs of the same shapes and models recommend (default: if there are others).",
        show_default=False,
    ),
]
StaticOption = Annotated[
    bool, typer.Option("--static", help="A page without scripts, a tenth of the size: for mail and strict viewers.")
]


ForceOption = Annotated[
    bool, typer.Option("--force", help="Name a result although its times were disturbed or are implausible.")
]


def write_run_report(
    run: RunOption = "latest",
    format_name: FormatOption = "html",
    output: OutputOption = None,
    figures: FiguresOption = None,
    card: CardOption = None,
    baseline: BaselineOption = None,
    history: HistoryOption = None,
    is_static: StaticOption = False,
    force: ForceOption = False,
    db: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the report of a run: a page, Markdown, JSON or print.

    The dual roofline is written beside the page as PNG and SVG.
    """
    _check_options(format_name, output, baseline, is_static, as_json)
    default = _DEFAULT_FILES.get(format_name)
    place = output if output is not None or default is None else Path(default)
    database = shown_target(db)[1]
    if place is not None:
        check_output(place, database)
    if figures is not None:
        check_figures_folder(figures)
    if card is not None:
        _check_card(card, database, place)
    with reading(db) as store:
        info = store.resolve_run(run)
        comparison = None if baseline is None else _comparison(store, info, baseline)
        stored = all_runs(store, info, is_wanted=history, is_forced=force)
        if format_name == "html" and place is not None:
            paths = _write_page(
                store,
                info,
                place,
                database,
                is_static=is_static,
                comparison=comparison,
                stored=stored,
                is_gap_ignored=force,
            )
        else:
            view = stored_view(store, info, with_samples=False, is_gap_ignored=force)
            paths = write_view(view, format_name, place, comparison, stored)
        drawn = None
        if figures is not None:
            view = stored_view(store, info, with_samples=True, is_gap_ignored=force)
            drawn = write_all_figures(view, figures, database, place)
        if card is not None:
            _write_card(stored_view(store, info, with_samples=False, is_gap_ignored=force), card)
            paths = {**paths, "card_path": card}
    if place is None or is_stdout(place):
        return  # it is printed; nothing is said into it
    _tell(info, format_name, paths, comparison, drawn, as_json)


def _check_card(card: Path, database: Path | None, report: Path | None) -> None:
    """Raise `InvalidValueError` for a place that no picture can be written to."""
    if card.suffix.lower() != ".png":
        raise InvalidValueError(f"--card writes a PNG; name a file that ends in .png, got {str(card)[:160]}")
    check_output(card, database, "--card")
    if report is not None and card.absolute() == report.absolute():
        raise InvalidValueError(f"{card} is the report itself (-o); name another file with --card")


def _write_card(view: ReportView, card: Path) -> None:
    from reports.document.card import card_png

    with written_file(card, "--card") as temporary:
        temporary.write_bytes(card_png(view))


def _check_options(format_name: str, output: Path | None, baseline: str | None, is_static: bool, as_json: bool) -> None:
    """Raise `InvalidValueError` for a format that there is not, and for options that do not go together."""

    if format_name not in FORMATS:
        raise InvalidValueError(
            f"--format must be {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {format_name[:40]!r}"
        )
    if format_name == "html" and output is not None and output.suffix.lower() in _OTHER_FILES:
        raise InvalidValueError(
            f"the report is a page, {str(output)[:160]} is none: name a .html file, or give --format md or json; pictures: "
            "--figures FOLDER"
        )
    if as_json and format_name == "md" and output is None:
        raise InvalidValueError(
            "--json prints one JSON document and --format md Markdown; give the Markdown a file with -o"
        )
    if is_static and format_name != "html":
        raise InvalidValueError(
            f"--static is about the page, and --format {format_name} makes none; leave --static out"
        )


def _tell(
    info: RunInfo,
    format_name: str,
    paths: dict[str, Path],
    comparison: Comparison | None,
    figures: list[Path] | None,
    as_json: bool,
) -> None:
    """Say where the files are; `figures` is None where none were asked for."""
    if as_json:
        show_json(
            {
                "run_id": info.run_id,
                "format": format_name,
                **{name: str(path) for name, path in paths.items()},
                **({} if comparison is None else {"baseline": _verdict_json(comparison)}),
                **({} if figures is None else {"figure_paths": [str(path) for path in figures]}),
            }
        )
        return
    if comparison is not None:
        show_line(_against_line(comparison))
    card = paths.pop("card_path", None)
    first, *others = paths.values()
    show_line(f"report of run {info.run_id[:8]}: {first}")
    if others:
        show_line(f"plots: {', '.join(map(str, others))}")
    if card is not None:
        show_line(f"card: {card}")
    if figures:
        show_line(f"figures: {len(figures) // 2}, each as PNG and SVG, in {figures[0].parent}")


def _write_page(
    store: ResultStore,
    info: RunInfo,
    output: Path,
    database: Path | None,
    *,
    is_static: bool,
    comparison: Comparison | None,
    stored: StoredRecommendations | None,
    is_gap_ignored: bool,
) -> dict[str, Path]:
    """Write the page and the plots beside it, all or none."""

    with one_line_errors(output):
        if is_stream(output):  # the plots would go to /dev
            raise InvalidValueError(f"{output} is not a regular file: a page with plots beside it cannot go there")
        output.parent.mkdir(parents=True, exist_ok=True)
        with written_together(output) as folder:
            written = _written(store, info, folder / output.name, output, is_static, comparison, stored, is_gap_ignored)
            places = [output.with_name(file.name) for file in (written.html, written.png, written.svg)]
            for place in places:
                check_output(place, database)
    return dict(zip(("html_path", "png_path", "svg_path"), places, strict=True))


def _comparison(store: ResultStore, info: RunInfo, baseline: str) -> Comparison:
    from reports.view.comparison import compare_with_baseline

    return compare_with_baseline(store, info, baseline)


def _verdict_json(comparison: Comparison) -> dict[str, object]:
    from reports.document.comparison_json import verdict_json

    return verdict_json(comparison)


def _against_line(comparison: Comparison) -> str:
    """Return the verdict against the baseline as one line."""
    from reports.view.comparison import against_text

    nothing = f"nothing to compare with yet: no earlier complete run here is what {comparison.against[:40]!r} means"
    return against_text(comparison) or nothing


def _written(
    store: ResultStore,
    info: RunInfo,
    place: Path,
    output: Path,
    is_static: bool,
    comparison: Comparison | None,
    stored: StoredRecommendations | None,
    is_gap_ignored: bool,
) -> ReportFiles:
    """Write page and plots to `place`; an error names the place the user chose."""
    from reports.page.html import write_report

    try:
        return write_report(
            store,
            info,
            place,
            is_static=is_static,
            comparison=comparison,
            stored=stored,
            is_gap_ignored=is_gap_ignored,
        )
    except RooflineError as error:
        raise RooflineError(str(error).replace(str(place.parent), str(output.parent))) from None


def stored_view(store: ResultStore, info: RunInfo, *, with_samples: bool, is_gap_ignored: bool = False) -> ReportView:
    """Return the view of a run; `with_samples` reads every sample, which figures of them need; `is_gap_ignored`:
    disturbed times make results, too.
    """
    from reports.view.views import report_view
    from results.cases.run import stored_profiles

    records = store.records(info.run_id, with_samples=with_samples)
    floors = store.noise_floors(info.environment.class_hash)
    return report_view(
        info,
        records,
        stored_profiles(store, records),
        canaries=store.canaries(info.run_id),
        floors=floors,
        is_gap_ignored=is_gap_ignored,
    )


def all_runs(
    store: ResultStore, info: RunInfo, *, is_wanted: bool | None, is_forced: bool = False
) -> StoredRecommendations | None:
    """Return what all stored runs say of a run's shapes and models; None where that is not wanted, or it is the only
    run.
    """
    from results.rankings import recommend_for_run

    records = store.records(info.run_id, with_samples=False)
    return recommend_for_run(store, records, is_wanted=is_wanted, is_forced=is_forced)


def write_view(
    view: ReportView,
    format_name: str,
    place: Path | None,
    comparison: Comparison | None = None,
    stored: StoredRecommendations | None = None,
) -> dict[str, Path]:
    """Write a view as md, json or pdf-ready to its place, or print it where there is none; return the path by its JSON
    key.

    Markdown is laid out for a terminal, and goes as it is into a pipe. `comparison`: what changed against a baseline;
    `stored`: what all stored runs recommend.
    """

    if place is None and format_name == "md" and sys.stdout.isatty():
        from roofline_cli.runs.report_view import show_report

        show_report(view, comparison, stored)
        return {}
    text = _text(view, format_name, comparison, stored)
    if place is None:
        sys.stdout.write(text)
        return {}
    write_text(place, text)
    return {"path": place}


def _text(
    view: ReportView, format_name: str, comparison: Comparison | None, stored: StoredRecommendations | None
) -> str:
    if format_name == "json":
        from reports.document.report_json import report_json

        return json_text(report_json(view, comparison, stored))
    if format_name == "md":
        from reports.document.report import Report
        from reports.document.report_blocks import report_blocks
        from reports.present.markdown import markdown

        return markdown(report_blocks(Report(view, comparison, stored)))
    from reports.page.html import print_page

    return print_page(view, comparison, stored)


def check_figures_folder(folder: Path) -> None:
    """Make the folder where there is none; raises `InvalidValueError` when figures cannot go there."""

    with one_line_errors(folder, "--figures", "folder"):
        if folder.exists() and not folder.is_dir():
            raise InvalidValueError(f"{folder} is not a folder; name another one with --figures")
        folder.mkdir(parents=True, exist_ok=True)


def write_all_figures(view: ReportView, folder: Path, database: Path | None, report: Path | None) -> list[Path]:
    """Write all figures or none, never over the results database or the report of the same command; return where they
    are.
    """
    from reports.formats.figure_files import write_figures

    with one_line_errors(folder, "--figures", "folder"), written_together(folder / "figures") as temporary:
        places = [folder / file.name for file in write_figures(view, temporary)]
        for place in places:
            check_output(place, database, "--figures")
            if report is not None:
                check_is_not_input(place, {"the report itself (-o)": report}, "--figures")
        return places
