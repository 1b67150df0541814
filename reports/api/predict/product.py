"""POST /api/analyze, /api/recommend, /api/tiling: one product; `router` is what the app includes.

Each takes under a millisecond, rankings are kept for the next one who asks. They are computed in the event loop:
handing so little to a thread or a process takes longer than doing it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from reports.api.answer_models import answer_bytes, json_response
from reports.api.base_models import CACHE_TEXT, CacheName, Dimension, FormatName, PhaseName, RequestBody
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip, find_chip
from reports.api.http.openapi import answered
from reports.api.http.problem import naming
from reports.present.answers.products import Recommendation, shape_advice
from reports.present.predicted.words import asked_chip_words
from roofline_model.expected.predict import expected_times
from roofline_model.formats.catalog import Pair, get_format
from roofline_model.predictions.product import ProductPrediction, Shape, predict_product
from roofline_model.predictions.tiling import TilingAnswer, product_tiling
from roofline_model.recommend.shape import recommend_quantization

router = APIRouter(tags=["one product"])

KEPT_ANSWERS = 4_096
"""Rankings that are kept: a few kilobytes each."""

_SHAPE = {"M": 1, "N": 4096, "K": 4096}


def _with_examples(*bodies: dict[str, Any]) -> ConfigDict:
    return ConfigDict(**RequestBody.model_config, json_schema_extra={"examples": list(bodies)})


class ProductRequest(RequestBody):
    """C(M×N) = A(M×K)·B(K×N): B is the weight."""

    M: Dimension = Field(description="rows of A and C: tokens in flight, count")
    N: Dimension = Field(description="columns of B and C: output features, count")
    K: Dimension = Field(description="columns of A, rows of B: input features, count")


class AnalyzeRequest(ProductRequest):
    """One product in one pair of formats."""

    model_config = _with_examples(
        {**_SHAPE, "precision": "FP16"}, {**_SHAPE, "precision": "BF16", "weight_precision": "INT4"}
    )

    precision: FormatName = Field(default="FP16", description="format of both operands, or of the activation A alone")
    weight_precision: FormatName | None = Field(
        default=None, description="format of the weight B where it is another one"
    )
    cache: CacheName = Field(default="cold", description=CACHE_TEXT)


class RecommendRequest(ProductRequest):
    """Which format should this product use?"""

    model_config = _with_examples(_SHAPE, {"M": 2048, "N": 4096, "K": 4096, "phase": "prefill"})

    phase: PhaseName | None = Field(default=None, description="label; default: decode up to M = 16, prefill above")
    memory_limit_gb: float | None = Field(
        default=None, gt=0, le=1e9, description="what does not fit is excluded; decimal gigabytes (1e9 bytes)"
    )
    model_parameters: float | None = Field(
        default=None,
        gt=0,
        le=1e15,
        description="parameters of the whole model for the limit, count; without it the limit is on this product's operands",
    )
    formats: Annotated[list[FormatName], Field(min_length=1, max_length=24)] | None = Field(
        default=None, description="formats to weigh in place of the usual ones"
    )
    max_loss_pct: float | None = Field(
        default=None,
        ge=0,
        lt=1e6,
        description="most that the choice may lose, percent, measured or published; default: 3",
    )


class TilingRequest(ProductRequest):
    """Which tile does this product get?"""

    model_config = _with_examples({"M": 512, "N": 7168, "K": 4096, "precision": "BF16"})

    precision: FormatName = Field(default="BF16", description="format of both operands, or of the activation A alone")
    weight_precision: FormatName | None = Field(
        default=None, description="format of the weight B where it is another one"
    )
    cache: CacheName = Field(default="cold", description=CACHE_TEXT)


@router.post("/api/analyze", responses=answered(ProductPrediction), summary="Predict one product")
async def analyze(request: Request, body: AnalyzeRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Ideal time of C(M×N) = A(M×K)·B(K×N), what bounds it, and the expected time with its interval."""
    chip, pair = find_chip(asked_chip(request, hardware_key)), pair_of(body)
    with naming("precision"):
        return json_response(answer_bytes(predict_product(chip, _shape(body), pair, cache=body.cache)))


@router.post("/api/recommend", responses=answered(Recommendation), summary="Rank the number formats for one product")
async def recommend(request: Request, body: RecommendRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Every format predicted and ranked by expected time where the chip has one, else by the ideal; with reasons."""
    chip = asked_chip(request, hardware_key)
    names = None
    if body.formats is not None:
        with naming("formats"):
            names = tuple(get_format(name).key for name in body.formats)
    # A default list can only fail by what the chip lacks.
    with naming("formats") if names is not None else naming("hardware_key", "query"):
        limits = body.memory_limit_gb, body.model_parameters
        answer = recommendation(chip, _shape(body), body.phase, *limits, names, body.max_loss_pct)
        return json_response(answer_bytes(answer))


@router.post("/api/tiling", responses=answered(TilingAnswer), summary="Explain the tile of one product")
async def tiling(request: Request, body: TilingRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Tile, blocks, waves, tail, occupancy and its limiter, L2 hits, and where the expected time goes."""
    chip, pair = find_chip(asked_chip(request, hardware_key)), pair_of(body)
    with naming("hardware_key", "query"):
        return json_response(answer_bytes(product_tiling(chip, _shape(body), pair, cache=body.cache)))


def _shape(body: ProductRequest) -> Shape:
    return body.M, body.N, body.K


def pair_of(body: AnalyzeRequest | TilingRequest) -> Pair:
    """Return weight and activation format of a request."""
    with naming("precision"):
        activation = get_format(body.precision)
    with naming("weight_precision"):
        return activation if body.weight_precision is None else get_format(body.weight_precision), activation


@lru_cache(KEPT_ANSWERS)
def recommendation(
    chip_key: str,
    shape: Shape,
    phase: str | None,
    limit_gb: float | None,
    parameters: float | None,
    formats: tuple[str, ...] | None,
    max_loss_pct: float | None = None,
) -> Recommendation:
    """Return the ranked formats of a product. Raises as `recommend_quantization`."""
    chip = find_chip(chip_key)
    ranking = recommend_quantization(
        chip,
        *shape,
        phase,
        limit_gb,
        model_parameters=parameters,
        formats=formats,
        times=expected_times(chip),
        max_loss_pct=max_loss_pct,
    )
    return shape_advice(ranking, asked_chip_words(chip))
