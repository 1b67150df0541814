"""The forms of a report beside the interactive page: Markdown, JSON, a page for paper, and its figures as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roofline_cli.screen.output_file import (
    check_is_not_input,
    check_output,
    one_line_errors,
    write_text,
    written_together,
)
from roofline_cli.screen.tables import json_text
from roofline_model.core.errors import InvalidValueError

if TYPE_CHECKING:
    from reports.stored import StoredRecommendations
    from reports.view.comparison import Comparison
    from reports.view.views import ReportView
    from results.records.records import RunInfo
    from results.store.store import ResultStore


def stored_view(store: ResultStore, info: RunInfo, *, with_samples: bool) -> ReportView:
    """Return the view of a run; `with_samples` reads every sample, which figures of them need."""
    from reports.page.html import stored_profiles
    from reports.view.views import report_view

    records = store.records(info.run_id, with_samples=with_samples)
    floors = store.noise_floors(info.environment.class_hash)
    return report_view(
        info, records, stored_profiles(store, records), canaries=store.canaries(info.run_id), floors=floors
    )


def all_runs(store: ResultStore, info: RunInfo, *, is_wanted: bool | None) -> StoredRecommendations | None:
    """Return what all stored runs say of a run's shapes and models; None where that is not wanted, or it is the only run."""
    from reports.stored import recommend_for_run

    return recommend_for_run(store, store.records(info.run_id, with_samples=False), is_wanted=is_wanted)


def write_view(
    view: ReportView,
    format_name: str,
    place: Path | None,
    comparison: Comparison | None = None,
    stored: StoredRecommendations | None = None,
) -> dict[str, Path]:
    """Write a view as md, json or pdf-ready to its place, or print it where there is none; return the path by its JSON key.

    Markdown is laid out for a terminal, and goes as it is into a pipe. `comparison`: what changed against a baseline; `stored`: what
    all stored runs recommend.
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
        from reports.formats.report_json import report_json

        return json_text(report_json(view, comparison, stored))
    if format_name == "md":
        from reports.formats.markdown import markdown_report

        return markdown_report(view, comparison, stored)
    from reports.page.html import print_page

    return print_page(view, comparison, stored)


def check_figures_folder(folder: Path) -> None:
    """Make the folder where there is none; raises `InvalidValueError` when figures cannot go there."""

    with one_line_errors(folder, "--figures", "folder"):
        if folder.exists() and not folder.is_dir():
            raise InvalidValueError(f"{folder} is not a folder; name another one with --figures")
        folder.mkdir(parents=True, exist_ok=True)


def write_all_figures(view: ReportView, folder: Path, database: Path | None, report: Path | None) -> list[Path]:
    """Write all figures or none, never over the results database or the report of the same command; return where they are."""
    from reports.formats.figure_files import write_figures

    with one_line_errors(folder, "--figures", "folder"), written_together(folder / "figures") as temporary:
        places = [folder / file.name for file in write_figures(view, temporary)]
        for place in places:
            check_output(place, database, "--figures")
            if report is not None:
                check_is_not_input(place, {"the report itself (-o)": report}, "--figures")
        return places
