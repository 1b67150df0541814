"""Figures as JSON for Plotly, from the specifications that reports and files are drawn from: the roofline of the explorer, the
efficiency of a product's tiles, and every figure of a stored run's report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic_core import to_json

from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, find_chip
from reports.api.http.problem import ProblemError, naming
from reports.api.http.service import Service
from reports.api.http.strict_route import StrictRoute
from reports.api.predict.analysis_models import TilingRequest
from reports.api.predict.figure_models import (
    FigureAnswer,
    FigureName,
    FigureOption,
    RooflineFigureRequest,
    RunFigure,
    RunFigures,
)
from reports.api.stored.run_endpoints import RunName, cases_with, read_run, resolved
from roofline_model.formats.catalog import get_format
from roofline_model.predictions.tiling import product_curve

if TYPE_CHECKING:
    from reports.figures.spec import Drawable
    from reports.formats.figure_files import ReportFigure
    from reports.view.views import ReportView

router = APIRouter(tags=["figures"], route_class=StrictRoute)

MOST_CASES = 500


@router.post("/api/figures/roofline", response_model=FigureAnswer, summary="Draw a roofline")
def roofline(request: Request, body: RooflineFigureRequest) -> Response:
    """The roofs of the options, their ideal and expected rates, and the first 500 measured cases of a run."""
    from reports.figures.options_roofline import options_colours, options_roofline
    from reports.figures.plotly_drawer import plotly_json

    options = [_option(option) for option in body.options]
    cases = []
    if body.run is not None:
        run = read_run(request.app.state.service, body.run, "run", "body")
        cases = cases_with(run, body.words, "measured")[:MOST_CASES]
    figure = plotly_json(options_roofline(options, cases, body.focus), with_texts=True)
    colours = {label: list(colour[:2]) for label, colour in options_colours(options, cases).items()}
    return Response(to_json({**figure, "colours": colours}), media_type="application/json")


@router.post("/api/figures/tiling", response_model=FigureAnswer, summary="Draw the efficiency of a product over N")
def tiling(body: TilingRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Share of the tensor peak over N, for the tile chosen at each N and for one fixed tile; N of the question is marked."""
    from reports.figures.plotly_drawer import figure_json
    from reports.figures.tiling import efficiency_figure

    with naming("precision"):
        activation = get_format(body.precision)
    with naming("weight_precision"):
        weight = activation if body.weight_precision is None else get_format(body.weight_precision)
    with naming("hardware_key", "query"):
        chip = find_chip(hardware_key)
        curve = product_curve(chip, (body.M, body.N, body.K), (weight, activation), cache=body.cache)
    title = f"Efficiency against N: M = {body.M}, K = {body.K}, {chip.name}"
    figure = figure_json(efficiency_figure(curve, title=title, asked_columns=body.N))
    return Response(to_json({**figure, "colours": {}}), media_type="application/json")


@router.get("/api/runs/{run}/figures", response_model=RunFigures, summary="List the figures of a run")
def run_figures(request: Request, run: RunName) -> RunFigures:
    """The figures of the run's report, in the order of its sections."""
    from reports.formats.figure_files import report_figures

    specs = ((figure, figure.spec()) for figure in report_figures(_view(request, run)))
    return RunFigures(figures=[FigureName(**_about(figure, spec)) for figure, spec in specs if spec is not None])


@router.get("/api/runs/{run}/figures/{name}", response_model=RunFigure, summary="Draw a figure of a run")
def run_figure(request: Request, run: RunName, name: Annotated[str, Path(max_length=200)]) -> Response:
    """One figure of the run's report: roofline, errors, time, samples, a case's samples, timeline, canary, a model's front."""
    from reports.figures.plotly_drawer import figure_json
    from reports.formats.figure_files import report_figures

    figures = {figure.name: figure for figure in report_figures(_view(request, run))}
    figure = figures.get(name)
    spec = None if figure is None else figure.spec()
    if figure is None or spec is None:
        names = ", ".join(figures)
        raise ProblemError(404, "not-found", f"the report of this run has no figure of that name; it has {names}")
    return Response(to_json({**_about(figure, spec), "figure": figure_json(spec)}), media_type="application/json")


def _about(figure: ReportFigure, spec: Drawable) -> dict[str, Any]:
    from reports.figures.spec import RowFigure

    kind = "rows" if isinstance(spec, RowFigure) else "plane"
    return {"name": figure.name, "title": figure.title, "alternative": figure.alternative, "kind": kind}


def _view(request: Request, run: str) -> ReportView:
    from reports.page.html import read_view

    service: Service = request.app.state.service
    with service.store.reading() as store:
        return read_view(store, resolved(store, run))


def _option(option: FigureOption):  # type: ignore[no-untyped-def]
    from reports.figures.options_roofline import RooflineOption

    return RooflineOption(
        option.key,
        option.label,
        option.compute_format,
        option.path,
        option.memory_level,
        option.peak_flops_per_s,
        option.bandwidth_bytes_per_s,
        option.intensity_flop_per_byte,
        option.flops,
        option.time_s,
        option.bound,
        option.expected_s,
        option.expected_low_s,
        option.expected_high_s,
    )
