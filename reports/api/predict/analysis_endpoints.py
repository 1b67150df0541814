"""POST /api/analyze, /api/recommend, /api/tiling: under a millisecond each, kept for the next one who asks.

Computed in the event loop: handing so little to a thread or a process takes longer than doing it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import APIRouter, Request
from fastapi.responses import Response

from reports.api.answer_models import answer_model
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip
from reports.api.http.fast_path import FastPathRoute
from reports.api.http.problem import naming
from reports.api.http.service import Service
from reports.api.predict import analysis
from reports.api.predict.analysis_models import (
    AnalyzeRequest,
    ProductRequest,
    RecommendRequest,
    TilingRequest,
)
from reports.formats.shape_advice import Recommendation
from roofline_model.formats.catalog import get_format
from roofline_model.predictions.product import ProductPrediction, Shape
from roofline_model.predictions.tiling import TilingAnswer

router = APIRouter(tags=["one product"], route_class=FastPathRoute)


@router.post("/api/analyze", response_model=answer_model(ProductPrediction), summary="Predict one product")
async def analyze(request: Request, body: AnalyzeRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Ideal time of C(M×N) = A(M×K)·B(K×N), what bounds it, and the expected time with its interval."""
    chip, (activation, weight) = asked_chip(request, hardware_key), _formats(body.precision, body.weight_precision)
    with naming("precision"):
        return _json(analysis.analysis_json(chip, _shape(body), activation, weight, body.cache))


@router.post(
    "/api/recommend", response_model=answer_model(Recommendation), summary="Rank the number formats for one product"
)
async def recommend(request: Request, body: RecommendRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Every format predicted and ranked by expected time where the chip has one, else by the ideal; with reasons."""
    chip = asked_chip(request, hardware_key)
    names = None
    if body.formats is not None:
        with naming("formats"):
            names = tuple(get_format(name).key for name in body.formats)
    service: Service = request.app.state.service
    question = (chip, _shape(body), body.phase, body.memory_limit_gb, body.model_parameters, names)
    found = service.recommendations.get(question)
    if found is None:
        with _naming_chip_or("formats", names is not None):
            found = analysis.recommendation_json(*question)
        service.recommendations.put(question, found)
    return _json(found)


@router.post("/api/tiling", response_model=answer_model(TilingAnswer), summary="Explain the tile of one product")
async def tiling(request: Request, body: TilingRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Tile, blocks, waves, tail, occupancy and its limiter, L2 hits, and where the expected time goes."""
    chip, (activation, weight) = asked_chip(request, hardware_key), _formats(body.precision, body.weight_precision)
    with naming("hardware_key", "query"):
        return _json(analysis.tiling_json(chip, _shape(body), activation, weight, body.cache))


def _shape(body: ProductRequest) -> Shape:
    return body.M, body.N, body.K


def _formats(precision: str, weight_precision: str | None) -> tuple[str, str]:
    """Return the keys of activation and weight format."""
    with naming("precision"):
        activation = get_format(precision).key
    with naming("weight_precision"):
        return activation, activation if weight_precision is None else get_format(weight_precision).key


@contextmanager
def _naming_chip_or(field: str, is_given: bool) -> Iterator[None]:
    """Name the field that was given, else the chip: a default list can only fail by what the chip lacks."""
    with naming(field) if is_given else naming("hardware_key", "query"):
        yield


def _json(text: str | bytes) -> Response:
    return Response(text, media_type="application/json")
