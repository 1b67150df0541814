"""Write a report: one self-contained HTML page and, beside it, the dual roofline as PNG and SVG.

The page needs no network. Its own policy forbids everything but the two scripts inside it (`reports.page.interactive`), or every
script in a static page. Whatever a run holds is text: the template escapes it, the plot draws it as text, and the scripts
get it as JSON. Equal input gives equal files. Without script, and on paper, the static figures and tables are there.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from reports.cases.summary import SHAPE_FLAGS
from reports.document.blocks import Bullets, FigureBlock, Paragraph
from reports.document.case_blocks import SAMPLED_CASES
from reports.document.report import Report
from reports.document.report_blocks import report_blocks
from reports.figures.matplotlib_drawer import draw_figure, figure_png, figure_svg
from reports.figures.palette import all_colours
from reports.figures.roofline import roofline_figure
from reports.formats.figure_files import figure_suffix, report_figures
from reports.page.inline_svg import inline_svg
from reports.page.interactive.page_data import page_data, script_json
from reports.page.interactive.page_script import interactive_css, script_policy, scripts, tight_css
from reports.text.display_text import shown
from reports.text.prose import rich
from reports.view.views import ReportView, report_view
from results.records.records import HardwareProfile, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from roofline_model.core.errors import RooflineError

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup
    from matplotlib.figure import Figure as Drawing

    from reports.stored.answer import StoredRecommendations
    from reports.view.comparison import Comparison


class RecordSource(Protocol):
    """What a report asks of a store."""

    def records(self, run_id: str, *, with_samples: bool = True) -> list[Record]:
        """Return the records of a run."""

    def profile(self, profile_hash: str) -> HardwareProfile | None:
        """Return a stored chip profile."""

    def canaries(self, run_id: str) -> list[CanaryReading]:
        """Return the canary readings of a run."""

    def noise_floors(self, class_hash: str) -> dict[tuple[str, str], NoiseFloor]:
        """Return the noise floors of a machine and software, by case key and method hash."""


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The files of one report."""

    html: Path
    png: Path
    svg: Path


STATIC_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
ROW_LIMIT, ADVICE_LIMIT, SHAPE_LIMIT = 200, 40, 24
"""Of an interactive page: rows of its static tables (the scripts show all cases), shapes that are ranked, verdicts not folded away."""


def write_report(
    store: RecordSource,
    run: RunInfo,
    output: Path,
    *,
    is_static: bool = False,
    comparison: Comparison | None = None,
    stored: StoredRecommendations | None = None,
) -> ReportFiles:
    """Write the report of a run to `output` (a folder gets `report.html`) and the plot beside it.

    `report.html` brings `roofline.png` and `roofline.svg`, any other `NAME.html` brings `NAME-roofline.png` and `.svg`.
    `is_static`: a page without scripts, a tenth of the size. `comparison`: what changed against a baseline, to be told;
    `stored`: what all stored runs recommend.
    Raises `RooflineError` when the place cannot be written.
    """
    page = output / "report.html" if output.is_dir() else output
    stem = "roofline" if page.stem == "report" else f"{page.stem}-roofline"
    files = ReportFiles(page, page.with_name(f"{stem}.png"), page.with_name(f"{stem}.svg"))
    records = store.records(run.run_id, with_samples=False)
    is_flagged = any(record.measurement and set(SHAPE_FLAGS) & set(record.measurement.flags) for record in records)
    if is_flagged or (len(records) <= SAMPLED_CASES and not is_static):
        records = store.records(run.run_id)  # their samples are drawn
    view = report_view(
        run,
        records,
        stored_profiles(store, records),
        canaries=store.canaries(run.run_id),
        floors=store.noise_floors(run.environment.class_hash),
        most_ranked=None if is_static else ADVICE_LIMIT,
    )
    first = draw_figure(roofline_figure(view.chips[0].roofline))
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        picture = figure_png(first)
        files.png.write_bytes(picture)
        files.svg.write_text(figure_svg(first), encoding="utf-8")
        page_text = render_page(
            view, (first, picture), is_interactive=not is_static, comparison=comparison, stored=stored
        )
        files.html.write_text(page_text, encoding="utf-8")
    except OSError as error:
        raise RooflineError(
            f"the report cannot be written to {page}: {error.strerror or error}; choose another place with -o"
        ) from None
    return files


def stored_profiles(store: RecordSource, records: Iterable[Record]) -> dict[str, HardwareProfile]:
    """Return the chip profiles that the records' predictions used, by hash; unknown hashes are left out."""
    hashes = dict.fromkeys(prediction.profile_hash for record in records for prediction in record.predictions)
    profiles = {one: store.profile(one) for one in hashes if one}
    return {one: profile for one, profile in profiles.items() if profile is not None}


def render_page(
    view: ReportView,
    first: tuple[Drawing, bytes] | None = None,
    *,
    is_interactive: bool = False,
    comparison: Comparison | None = None,
    stored: StoredRecommendations | None = None,
) -> str:
    """Return the whole page of a view; `first` is the drawing of its first chip's roofline and its PNG, if they are made
    already.

    A static page holds no script at all. An interactive one holds the static figures and tables, too, of long ones the
    beginning, for who has no scripts and for paper.
    """
    from markupsafe import Markup

    data = page_data(view, () if comparison is None else comparison.histories, stored) if is_interactive else None
    limits = (ROW_LIMIT, SHAPE_LIMIT) if is_interactive else (None, None)
    report = Report(view, comparison, stored, data, *limits).with_places()
    drawn = {} if first is None else {f"roofline{figure_suffix(view, view.chips[0])}": first}
    return _template().render(
        view=view,
        content=tuple(report_blocks(report)),
        figures=_figures(view, drawn),
        css=Markup(tight_css(_css()) + (interactive_css() if is_interactive else "")),
        policy=script_policy() if is_interactive else STATIC_POLICY,
        data=None if data is None else Markup(script_json(data)),
        scripts=[Markup(text) for text in scripts()] if is_interactive else [],
        row_limit=ROW_LIMIT,
    )


def _figures(view: ReportView, drawn: dict[str, tuple[Drawing, bytes]]) -> Callable[[FigureBlock], tuple[Markup, str]]:
    """Return what gives the markup of a figure and what it shows; those in `drawn` are drawn already, with their PNG."""
    from markupsafe import Markup

    figures = {figure.name: figure for figure in report_figures(view)}

    def markup(block: FigureBlock) -> tuple[Markup, str]:
        figure = figures[block.name]
        drawing, png = drawn.get(block.name) or (figure.draw(), None)
        if drawing is None:
            return Markup(""), figure.alternative
        if not figure.is_dense:
            return Markup(inline_svg(figure_svg(drawing, text_as_paths=False), f"{block.name}-")), figure.alternative
        picture = base64.b64encode(png or figure_png(drawing)).decode("ascii")
        return Markup(f'<img alt="" src="data:image/png;base64,{picture}">'), figure.alternative

    return markup


@cache
def _template() -> Template:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(_read))
    environment.filters.update(
        shown=shown,
        rich=rich,
        kind=lambda block: type(block).__name__,
        classes=lambda block: f"{block.look} {_CLASSES.get((type(block), block.tone), block.tone)}".strip(),
        page_columns=lambda columns: [pair for pair in enumerate(columns) if pair[1].medium != "text"],
    )
    environment.globals["cell_classes"] = {"name": "", "number": "n", "brief": "some", "prose": "wide"}
    return environment.get_template("report.html.j2")


_CLASSES = {
    (Paragraph, "plain"): "",
    (Bullets, "plain"): "",
    (Paragraph, "verdict"): "headline",
    (Bullets, "verdict"): "",
    (Bullets, "warning"): "warnings",
}
"""Block and tone → its class, where that is not the tone."""


def _read(name: str) -> str:
    return resources.files("reports.page").joinpath("templates", name).read_text(encoding="utf-8")


def _css() -> str:
    """Return the style sheet, with the plot's colours as variables for light and dark pages; print is always light.

    Dark is what the system asks for unless the page was set to light, and what the page was set to.
    """
    light = " ".join(f"{ink.variable}: {ink.light};" for ink in all_colours())
    dark = " ".join(f"{ink.variable}: {ink.dark};" for ink in all_colours()) + "\n" + _read("dark.css")
    return (
        f":root {{ {light} }}\n{_read('report.css')}{_read('advice.css')}"
        f'@media screen and (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f'@media screen {{ :root[data-theme="dark"] {{ {dark} }} }}\n'
        ':root[data-theme="light"] { color-scheme: light; }\n:root[data-theme="dark"] { color-scheme: dark; }\n'
    )
