"""Figures as JSON for Plotly, from the specifications that reports and files are drawn from: the roofline of the
explorer, the efficiency of a product's tiles, and every figure of a stored run's report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict, Field
from pydantic_core import to_json

from reports.api.answer_models import json_response
from reports.api.base_models import NAME_PATTERN, RATE_TEXT, Answer, Document, RequestBody
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, find_chip
from reports.api.http.problem import ProblemError, naming
from reports.api.http.service import Service
from reports.api.predict.product import TilingRequest
from reports.api.stored.run_endpoints import RunName, cases_with, read_run, resolved
from reports.present.encoder import SCHEMA_VERSION
from roofline_model.formats.catalog import get_format
from roofline_model.predictions.tiling import product_curve

if TYPE_CHECKING:
    from reports.figures.spec import Drawable
    from reports.formats.figure_files import ReportFigure
    from reports.view.views import ReportView

router = APIRouter(tags=["figures"])

MOST_CASES = 500
MOST_OPTIONS = 64

Label = Annotated[str, Field(min_length=1, max_length=120)]
Word = Annotated[str, Field(max_length=60)]
Positive = Annotated[float, Field(gt=1e-30, lt=1e30)]


class FigureOption(RequestBody):
    """One format of a question, as the answer to it has it."""

    key: Label = Field(description="comes back as `customdata` of its points")
    label: Label = Field(description="name of the option: `INT4 (W4A16)`; decides its colour")
    compute_format: Word = Field(description="format key of the unit that computes it")
    path: Word = Field(default="", description="native, dequantize, emulated; may be empty")
    memory_level: Word = Field(default="DRAM", description="where its operands come from")
    peak_flops_per_s: Positive = Field(description=RATE_TEXT)
    bandwidth_bytes_per_s: Positive = Field(description="bytes per second")
    intensity_flop_per_byte: Positive = Field(description="FLOP per byte moved")
    flops: Positive = Field(description="work, FLOP")
    time_s: Positive = Field(description="ideal time, seconds")
    bound: Word = Field(description="memory or compute")
    expected_s: Positive | None = Field(default=None, description="expected time, seconds")
    expected_low_s: Positive | None = Field(default=None, description="lower end of its 80 % interval, seconds")
    expected_high_s: Positive | None = Field(default=None, description="upper end of its 80 % interval, seconds")


class RooflineFigureRequest(RequestBody):
    """Options and measured cases for one roofline; what a field leaves out is not drawn."""

    model_config = ConfigDict(
        **RequestBody.model_config,
        json_schema_extra={
            "examples": [
                {
                    "options": [
                        {
                            "key": "FP16",
                            "label": "FP16",
                            "compute_format": "FP16",
                            "peak_flops_per_s": 125e12,
                            "bandwidth_bytes_per_s": 273e9,
                            "intensity_flop_per_byte": 1.0,
                            "flops": 33_554_432,
                            "time_s": 123e-6,
                            "bound": "memory",
                        }
                    ]
                }
            ]
        },
    )

    options: list[FigureOption] = Field(default=[], max_length=MOST_OPTIONS, description="formats to draw")
    names: list[Label] = Field(
        default=[], max_length=MOST_OPTIONS, description="labels of formats that are not drawn but need a colour, too"
    )
    focus: Label | None = Field(default=None, description="key of the option that is drawn larger")
    run: Annotated[str, Field(max_length=200, pattern=NAME_PATTERN)] | None = Field(
        default=None, description="run whose measured cases are drawn: id, label, latest"
    )
    words: str = Field(default="", max_length=200, description="each word has to be in the case's id or operator")


class FigureAnswer(Document):
    """A figure for Plotly. A colour `$3` is the fourth of `palette`, `$3/0.5` the same at half opacity."""

    data: list[dict[str, Any]] = Field(
        description="traces; `customdata`: option's key, `case:` and a case key, or a line"
    )
    layout: dict[str, Any] = Field(description="axes, fonts, ground")
    margin: dict[str, Any] = Field(description="room around the plane, pixels of a `wide` figure and of a `narrow` one")
    brief_titles: dict[str, str] = Field(description="titles of the axes where there is little room")
    notes: list[str] = Field(description="what the figure cannot show")
    labels: list[dict[str, Any]] = Field(description="texts whose place depends on the size of the figure")
    legend: list[dict[str, Any]] = Field(description="looks and what they mean")
    cards: dict[str, Any] = Field(description="what is told of a thing pointed at, where no text of its trace does")
    ground: str = Field(description="colour of the ground")
    palette: list[list[str]] = Field(description="[on a light page, on a dark page] of every colour")
    colours: dict[str, list[str]] = Field(description="label of a format → [on a light page, on a dark page]")


class FigureName(Answer):
    """A figure of a run's report."""

    name: str = Field(description="its name, as of its file")
    title: str = Field(description="its title")
    alternative: str = Field(description="what it shows, for those who do not see it")
    kind: Literal["plane", "rows"] = Field(description="planes with axes, or a row per name")


class RunFigures(Document):
    """The figures of a run's report, in the order of its sections."""

    figures: list[FigureName] = Field(description="figures that have something to show")


class RunFigure(FigureName, Document):
    """A figure of a run's report."""

    figure: dict[str, Any] = Field(
        description="data, layout, palette and legend as of `FigureAnswer`; one with rows has rows, orders and totals besides"
    )


@router.post("/api/figures/roofline", response_model=FigureAnswer, summary="Draw a roofline")
def roofline(request: Request, body: RooflineFigureRequest) -> Response:
    """The roofs of the options, their ideal and expected rates, and the first 500 measured cases of a run."""
    from reports.figures.options_roofline import RooflineOption, options_colours, options_roofline
    from reports.figures.plotly_drawer import plotly_json

    options = [
        RooflineOption(**option.model_dump(exclude={"time_s"}), ideal_s=option.time_s) for option in body.options
    ]
    cases = []
    if body.run is not None:
        run = read_run(request.app.state.service, body.run, "run", "body")
        cases = cases_with(run, body.words, "measured")[:MOST_CASES]
    figure = plotly_json(options_roofline(options, cases, body.focus), with_texts=True)
    colours = {label: list(colour[:2]) for label, colour in options_colours(options, cases, body.names).items()}
    return _document({**figure, "colours": colours})


@router.post("/api/figures/tiling", response_model=FigureAnswer, summary="Draw the efficiency of a product over N")
def tiling(body: TilingRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Share of the tensor peak over N, for the tile chosen at each N and for one fixed tile; N of the question is
    marked.
    """
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
    return _document({**figure, "colours": {}})


@router.get("/api/runs/{run}/figures", response_model=RunFigures, summary="List the figures of a run")
def run_figures(request: Request, run: RunName) -> RunFigures:
    """The figures of the run's report, in the order of its sections."""
    from reports.formats.figure_files import report_figures

    specs = ((figure, figure.spec()) for figure in report_figures(_view(request, run)))
    return RunFigures(figures=[FigureName(**_about(figure, spec)) for figure, spec in specs if spec is not None])


@router.get("/api/runs/{run}/figures/{name}", response_model=RunFigure, summary="Draw a figure of a run")
def run_figure(
    request: Request,
    run: RunName,
    name: Annotated[str, Path(max_length=200, description="name of the figure, as the list of figures gives it")],
) -> Response:
    """One figure of the run's report: roofline, errors, time, samples, a case's samples, timeline, canary, a model's
    front.
    """
    from reports.figures.plotly_drawer import figure_json
    from reports.formats.figure_files import report_figures

    figures = {figure.name: figure for figure in report_figures(_view(request, run))}
    figure = figures.get(name)
    spec = None if figure is None else figure.spec()
    if figure is None or spec is None:
        names = ", ".join(figures)
        raise ProblemError(404, "not-found", f"the report of this run has no figure of that name; it has {names}")
    return _document({**_about(figure, spec), "figure": figure_json(spec)})


def _document(figure: dict[str, Any]) -> Response:
    return json_response(to_json({"schema_version": SCHEMA_VERSION, **figure}))


def _about(figure: ReportFigure, spec: Drawable) -> dict[str, Any]:
    from reports.figures.spec import RowFigure

    kind = "rows" if isinstance(spec, RowFigure) else "plane"
    return {"name": figure.name, "title": figure.title, "alternative": figure.alternative, "kind": kind}


def _view(request: Request, run: str) -> ReportView:
    from reports.page.html import read_view

    service: Service = request.app.state.service
    with service.store.reading() as store:
        return read_view(store, resolved(store, run))
