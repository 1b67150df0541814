"""Write a report: one self-contained HTML page and, beside it, the dual roofline as PNG and SVG.

The page needs no network. Its own policy forbids everything but the two scripts inside it (`reports.page.interactive`), or every
script in a static page. Whatever a run holds is text: the template escapes it, the plot draws it as text, and the scripts
get it as JSON. Equal input gives equal files. Without script, and on paper, the static figures and tables are there.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from reports.advice.shape_matrix import entries_and_matrices, reason_spans
from reports.cases.calibration_doubt import doubtful_words
from reports.cases.energy import case_energy
from reports.cases.gap import LABELS, expected_gap
from reports.cases.sample_series import MAX_SERIES, SHAPE_FLAGS
from reports.cases.state import case_state, clock_text, state_of
from reports.figures.matplotlib_drawer import draw_figure, draw_stack, figure_png, figure_svg
from reports.figures.palette import all_colours
from reports.figures.roofline import roofline_figure
from reports.figures.small_plots import draw_canaries, draw_samples
from reports.figures.timeline import run_stack
from reports.page.inline_svg import inline_svg
from reports.page.interactive.page_data import page_data, script_json
from reports.page.interactive.page_script import interactive_css, script_policy, scripts, tight_css
from reports.ranking.model_results import model_sentences, model_title, part_columns
from reports.stored.words import confidence_words, short_confidence_words, speedup_words
from reports.text.display_text import counted, prefixed, shown
from reports.text.environment_words import environment_words
from reports.text.prose import prose
from reports.text.regime import regime_title, regime_words
from reports.view.roofline_view import RooflineView
from reports.view.run_timeline import RunTimeline, run_timeline
from reports.view.views import ReportView, case_anchors, record_anchors, report_view, utc_minutes
from results.records.flags import DOUBTFUL_FLAGS
from results.records.records import HardwareProfile, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from results.statistics.replication import width_text
from results.text.model_text import (
    EMULATED_MARK,
    embedding_text,
    energy_text,
    kl_text,
    model_notes,
    perplexity_text,
    text_source,
    tokens_text,
    top1_text,
)
from results.verdicts.gain import times_faster
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import code_text, finding, findings_text, short_text
from roofline_model.core.units import format_bandwidth, format_flops, format_memory, format_percent, format_time
from roofline_model.recommend.loss import loss_text

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

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
SVG_POINTS = 1_000
"""More points than this are a picture, not shapes: half the size, and no work for the browser."""
SVG_SPANS = 200
"""The same for the cases of a run over time."""
SAMPLED_CASES = 500
"""Up to so many records are read with their samples, so that those of any case can be looked at."""


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
            view, first, picture, is_interactive=not is_static, comparison=comparison, stored=stored
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
    first: Figure | None = None,
    first_png: bytes | None = None,
    *,
    is_interactive: bool = False,
    comparison: Comparison | None = None,
    stored: StoredRecommendations | None = None,
) -> str:
    """Return the whole page of a view; `first` is the figure of its first chip and `first_png` its picture, if they are made already.

    A static page holds no script at all. An interactive one holds the static figures and tables, too, of long ones the
    beginning, for who has no scripts and for paper.
    """
    from markupsafe import Markup

    limit = ROW_LIMIT if is_interactive else None
    figures = [
        draw_figure(roofline_figure(chip.roofline)) for chip in (view.chips[1:] if first is not None else view.chips)
    ]
    figures = figures if first is None else [first, *figures]
    plots = [
        _roofline_markup(one, chip.roofline, f"p{index}-", None if index else first_png)
        for index, (one, chip) in enumerate(zip(figures, view.chips, strict=True))
    ]
    canary_plot = (
        inline_svg(figure_svg(draw_canaries(view.state), text_as_paths=False), "c-") if view.state.canaries else ""
    )
    timeline = run_timeline(view)
    stated = [(case, state) for case in view.cases if (state := case_state(case)) is not None]
    data = page_data(view, () if comparison is None else comparison.histories, stored) if is_interactive else None
    return _template().render(
        view=view,
        css=Markup(tight_css(_css()) + (interactive_css() if is_interactive else "")),
        policy=script_policy() if is_interactive else STATIC_POLICY,
        data=None if data is None else Markup(script_json(data)),
        live=None if data is None else data["chips"],
        scripts=[Markup(text) for text in scripts()] if is_interactive else [],
        row_limit=limit,
        sampled_cases=SAMPLED_CASES,
        shape_limit=SHAPE_LIMIT if is_interactive else None,
        shapes=[entries_and_matrices(chip.shapes, chip.recommendations) for chip in view.chips],
        comparison=comparison,
        stored=stored,
        stored_numbers={} if stored is None else {one.key: at for at, one in enumerate(stored.rankings, start=1)},
        histories=data["histories"] if data is not None else (),
        compared=() if comparison is None else _told().compared_rows(comparison),
        plots=[Markup(plot) for plot in plots],
        stated=stated,
        has_sm_clock=any(state.clock_low_hz is not None for _, state in stated),
        sample_plots=_sample_plots(view),
        canary_plot=Markup(canary_plot),
        timeline=timeline,
        timeline_plot=Markup(_timeline_markup(view, timeline)),
        anchors=record_anchors(view, limit),
        rows_of_cases=case_anchors(view, limit),
        facts=_facts(view),
        gap_labels=tuple(LABELS.items()),
    )


def _roofline_markup(figure: Figure, view: RooflineView, prefix: str, png: bytes | None) -> str:
    if len(view.points) <= SVG_POINTS:
        return inline_svg(figure_svg(figure, text_as_paths=False), prefix)
    picture = base64.b64encode(png if png is not None else figure_png(figure)).decode("ascii")
    return f'<img alt="" src="data:image/png;base64,{picture}">'


def _timeline_markup(view: ReportView, timeline: RunTimeline) -> str:
    stack = run_stack(view, timeline)
    if stack is None:
        return ""
    figure = draw_stack(stack)
    if len(timeline.spans) <= SVG_SPANS:
        return inline_svg(figure_svg(figure, text_as_paths=False), "t-")
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(figure_png(figure)).decode("ascii")}">'


def _sample_plots(view: ReportView) -> dict[str, list[tuple[Any, Any]]]:
    """Return the (series, drawing) pairs of each chip's flagged cases, as many as a page may hold, by the chip's number."""
    from markupsafe import Markup

    drawn, left = {}, MAX_SERIES
    for number, chip in enumerate(view.chips):
        pairs = []
        for index, series in enumerate(chip.series[:left]):
            svg = figure_svg(draw_samples(series), text_as_paths=False)
            pairs.append((series, Markup(inline_svg(svg, f"s{number}-{index}-"))))
        drawn[str(number)] = pairs
        left -= len(pairs)
    return drawn


def _told() -> ModuleType:
    """Return the words of a comparison, imported by a page that has one: they bring the diff and the database along."""
    from reports.view import comparison

    return comparison


@cache
def _template() -> Template:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=False,
        keep_trailing_newline=True,
        loader=FunctionLoader(_read),
    )
    environment.filters.update(
        time=format_time,
        percent=format_percent,
        width=lambda ratio: "–" if ratio is None else width_text(ratio),
        meanings=lambda flags: "; ".join(f"{flag}: {code_text(flag)}" for flag in flags),
        signed_percent=lambda ratio: format_percent(ratio, signed=True),
        bandwidth=format_bandwidth,
        flops=format_flops,
        doubtful_words=doubtful_words,
        speedup=lambda ratio: "–" if ratio is None else times_faster(ratio),
        watts=lambda power_w: "–" if power_w is None else f"{power_w:.4g} W",
        prefixed=prefixed,
        clock=clock_text,
        energy=case_energy,
        state=case_state,
        row_state=lambda row: None if row.record.measurement is None else state_of([row.record.measurement]),
        gap=expected_gap,
        attribution=lambda case: next(
            (measurement.attribution for measurement in case.measurements if measurement.attribution), None
        ),
        meaning=code_text,
        reason_spans=lambda reasons: reason_spans(list(reasons)),
        doubtful=lambda flag: flag in DOUBTFUL_FLAGS,
        regime=lambda one: regime_words(one.cache, one.mode),
        regime_title=lambda one: regime_title(one.cache, one.mode),
        shown=shown,
        loss=loss_text,
        kernel_gap=lambda row: shown(findings_text(item for item in row.findings if item.code == "kernel-gap")),
        speedup_words=speedup_words,
        confidence_words=confidence_words,
        short_confidence_words=short_confidence_words,
        finding_texts=lambda findings: tuple(shown(short_text(item)) for item in findings),
        model_title=model_title,
        model_sentences=model_sentences,
        # The page says `emulated` in words where other tables have a mark.
        model_notes=lambda models: [model_note.removeprefix(f"{EMULATED_MARK} ") for model_note in model_notes(models)],
        part_columns=part_columns,
        bytes=format_memory,
        brief_time=lambda time_s: format_time(time_s, 3),
        tokens=tokens_text,
        energy_per_tokens=energy_text,
        kl=kl_text,
        top1=top1_text,
        perplexity=perplexity_text,
        text_source=text_source,
        embedding=embedding_text,
        prose=prose,
        finding=short_text,
        plot_summary=_plot_summary,
        against=lambda compared: _told().against_text(compared),
        compared_texts=lambda compared: _told().compared_texts(compared),
        gate_text=lambda compared: _told().gate_text(compared),
    )
    environment.globals["measured_rule"] = short_text(finding("order-of-measured"))
    environment.tests["doubtful_flag"] = lambda flag: flag in DOUBTFUL_FLAGS
    environment.tests["several"] = lambda rows: len(rows) > 1
    return environment.get_template("report.html.j2")


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


def _plot_summary(view: RooflineView) -> str:
    """Describe a plot for those who do not see it."""
    points = f"{counted(len(view.points), 'case')}, {view.measured_count} of them measured"
    best = f" {'. '.join(view.highlight.lines)}." if view.highlight else ""
    return (
        f"{view.title}: {counted(len(view.roofs), 'roof')}, {points}.{best} The numbers are in the table of all cases."
    )


def _facts(view: ReportView) -> list[tuple[str, str]]:
    run = view.run
    dirty = " (with uncommitted changes)" if run.git_is_dirty else ""
    facts = [
        ("run", shown(run.run_id)),
        ("label", shown(run.label) or "–"),
        ("started", utc_minutes(run.started_at)),
        ("finished", utc_minutes(run.finished_at)),
        ("status", run.status if run.exit_code is None else f"{run.status}, exit code {run.exit_code}"),
        ("hardware asked for", shown(run.hardware_key) or "–"),
        ("command", shown(run.command) or "–"),
        ("git", f"{shown(run.git_branch or '–', 80)} {shown(run.git_commit or '', 40)}{dirty}".strip()),
        ("plugin version", shown(run.plugin_version) or "–"),
        ("hardware profiles", ", ".join(f"{chip.hardware_name} ({chip.hardware_key})" for chip in view.chips)),
    ]
    said = {name for name, _ in facts}
    return [*facts, *(pair for pair in environment_words(view.environment) if pair[0] not in said)]
