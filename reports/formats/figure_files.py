"""Every figure of a report as files, PNG and SVG: for papers, slides and chats. Light background, equal input gives
equal files.

Letters in the SVG files are paths, so that they look the same where a font is missing; `figure_svg(…,
text_as_paths=False)` keeps them as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reports.figures.drawing.matplotlib_drawer import draw, figure_png, figure_svg
from reports.figures.drawing.spec import Beside, Drawable, Stack
from reports.figures.errors import errors_figure
from reports.figures.gaps import gaps_figure
from reports.figures.pareto import pareto_figure
from reports.figures.roofline import roofline_figure
from reports.figures.samples import MOST_DOTS, samples_figure, spreads_figure
from reports.figures.timeline import canary_figure, run_stack
from reports.present.cases import name_of
from reports.present.display_text import counted
from reports.present.models import model_title
from reports.view.run_state import RunTimeline
from reports.view.sample_series import shape_flags
from reports.view.views import ChipView, ReportView

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from results.cases.case_result import CaseResult
    from results.cases.model_results import ModelResult


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """One figure: where it goes, what it shows, and how it is drawn."""

    name: str
    """File name without an ending: letters, digits and `-`."""
    title: str
    alternative: str
    """What it shows, for those who do not see it."""
    spec: Callable[[], Drawable | None]
    """What it is drawn from; None: the run holds nothing of the kind."""
    is_dense: bool = False
    """Whether a page shows it as a picture, not as shapes: half the size, and no work for the browser."""

    def draw(self, *, is_alone: bool = False) -> Drawing | None:
        """Return the figure drawn with matplotlib; `is_alone`: nothing beside it names a small one, so its title
        does.
        """
        spec = self.spec()
        return None if spec is None else draw(spec, self.title if is_alone else "")


MOST_SVG_POINTS, MOST_SVG_SPANS = 1_000, 200
"""Points of a roofline, and cases of a run over time, that are shapes of a page."""


def report_figures(view: ReportView) -> Iterator[ReportFigure]:
    """Yield the figures of a report, in the order of its sections; whether one has anything to show is known when it is
    drawn.
    """
    for chip in view.chips:
        yield from _of_chip(view, chip, figure_suffix(view, chip))
    for chip in view.chips:
        for model in chip.models:
            for phase in model.phases:
                title = f"{model_title(model)}: {phase.phase}, speed against quality"
                yield ReportFigure(
                    pareto_name(model, phase.phase),
                    title,
                    f"{title}: tokens per second over the measured loss of each precision.",
                    partial(pareto_figure, phase, title=title, subtitle=_subtitle(view)),
                )
    over_time = view.timeline
    if over_time.channels:
        title = "Power and clock over the run"
        yield ReportFigure(
            "timeline",
            title,
            f"{title}, with the interval of each case.",
            partial(_timeline, view, over_time),
            len(over_time.spans) > MOST_SVG_SPANS,
        )
    if view.state.canaries:
        yield ReportFigure(
            "canary", "Canary over the run", view.state.canary_sentence, partial(canary_figure, view.state)
        )


def write_figures(view: ReportView, folder: Path) -> list[Path]:
    """Write every figure that has something to show into an existing folder; return the files, PNG before SVG."""
    written: list[Path] = []
    for report_figure in report_figures(view):
        figure = report_figure.draw(is_alone=True)
        if figure is None:
            continue
        png, svg = folder / f"{report_figure.name}.png", folder / f"{report_figure.name}.svg"
        png.write_bytes(figure_png(figure))
        svg.write_text(figure_svg(figure), encoding="utf-8")
        written += [png, svg]
    return written


def figure_suffix(view: ReportView, chip: ChipView) -> str:
    """Return what tells a chip's figures from another's: nothing where there is one chip."""
    if len(view.chips) == 1:
        return ""
    place = next(number for number, other in enumerate(view.chips, start=1) if other is chip)
    return f"-{place}-{_slug(chip.hardware_key)}".rstrip("-")


def pareto_name(model: ModelResult, phase: str) -> str:
    """Return the name of the figure of a model's phase."""
    return f"pareto-{_slug(model_title(model))}-{_slug(phase)}"


def _of_chip(view: ReportView, chip: ChipView, suffix: str) -> Iterator[ReportFigure]:
    where, subtitle = chip.hardware_name, _subtitle(view)
    measured = f"{chip.roofline.measured_count} of {counted(len(chip.roofline.points), 'point')} measured"
    yield ReportFigure(
        f"roofline{suffix}",
        f"Dual roofline of {where}",
        f"Dual roofline of {where}: {counted(len(chip.roofline.roofs), 'roof')}, {measured}.",
        partial(roofline_figure, chip.roofline),
        len(chip.roofline.points) > MOST_SVG_POINTS,
    )
    makers: tuple[tuple[str, str, str, Callable[..., Drawable | None]], ...] = (
        (
            "errors",
            f"Prediction errors on {where}",
            "Errors per operator and precision: every case a dot, medians as bars.",
            errors_figure,
        ),
        (
            "time",
            f"Where the time went on {where}",
            "One bar per case, split from its ideal roof to the measured time.",
            gaps_figure,
        ),
        ("samples", f"Samples on {where}", "Samples of every case around their median.", spreads_figure),
    )
    for name, title, alternative, make in makers:
        spec = partial(make, chip.cases, title=title, subtitle=subtitle)
        yield ReportFigure(f"{name}{suffix}", title, alternative, spec)
    for index, (label, process) in enumerate(chip.series, start=1):
        title = f"{name_of(process.case)} {label}".rstrip() + f": {', '.join(shape_flags(process))}"
        yield ReportFigure(
            f"samples{suffix}-{index:02d}",
            title,
            f"{title}: samples in order, and their distribution.",
            partial(_samples, process),
        )


def _samples(process: CaseResult) -> Beside:
    measured = process.measurements[0]
    interval_s = (measured.ci_low_s, measured.ci_high_s)
    return samples_figure(measured.samples_s, measured.median_s, interval_s, most_dots=MOST_DOTS)


def _timeline(view: ReportView, timeline: RunTimeline) -> Stack | None:
    stack = run_stack(view, timeline)
    return None if stack is None else replace(stack, subtitle=_subtitle(view))


def _subtitle(view: ReportView) -> str:
    simulated = "simulated times, no kernel ran" if view.is_simulated else ""
    return " · ".join(part for part in (view.run_name, view.date, view.machine, simulated) if part)


def _slug(text: str) -> str:
    """Return what is fit for a file name anywhere: letters, digits, `-`, at most 60 characters."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()[:60].strip("-")
