"""POST /api/figures/roofline: the figure of the explorer, from the specification that reports are drawn from."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from reports.api.http.strict_route import StrictRoute
from reports.api.predict.figure_models import FigureAnswer, FigureOption, RooflineFigureRequest
from reports.api.stored.run_endpoints import cases_with, read_run

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


def _option(one: FigureOption):  # type: ignore[no-untyped-def]
    from reports.figures.options_roofline import RooflineOption

    return RooflineOption(
        one.key,
        one.label,
        one.compute_format,
        one.path,
        one.memory_level,
        one.peak_flops_per_s,
        one.bandwidth_bytes_per_s,
        one.intensity_flop_per_byte,
        one.flops,
        one.time_s,
        one.bound,
        one.expected_s,
        one.expected_low_s,
        one.expected_high_s,
    )
