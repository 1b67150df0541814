"""POST /api/attention and /api/attention/recommend: fused attention on a chip; `router` is what the app includes."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from reports.api.answer_models import answer_bytes, json_response
from reports.api.base_models import Dimension, FormatName, RequestBody
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip, find_chip
from reports.api.http.openapi import answered
from reports.api.http.problem import naming
from reports.api.predict.product import KEPT_ANSWERS
from reports.present.answers.caches import AttentionRecommendation, cache_advice
from roofline_model.formats.catalog import get_format
from roofline_model.kernels.attention_kernels import find_attention_kernel
from roofline_model.operators.attention_shape import check_attention_shape
from roofline_model.predictions.attention import AttentionPrediction, AttentionQuestion, predict_attention
from roofline_model.recommend.options import baseline_format

router = APIRouter(tags=["one product"])

_DECODE: dict[str, Any] = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128}


class AttentionShape(RequestBody):
    """softmax(Q·Kᵀ)·V of Q (B, Hq, Sq, D) with K and V (B, Hkv, Skv, D), as one kernel."""

    B: Dimension = Field(default=1, description="sequences, count")
    Hq: Dimension = Field(description="query heads, count")
    Hkv: Dimension | None = Field(default=None, description="key/value heads, count; default: Hq")
    Sq: Dimension = Field(default=1, description="new tokens of a sequence, count; 1: a decode step")
    Skv: Dimension | None = Field(
        default=None, description="tokens in the cache, new ones included, count; default: Sq"
    )
    D: Dimension = Field(description="elements of one head, count")
    causal: bool = Field(default=False, strict=True, description="whether a query sees no key behind its own")
    window: Dimension | None = Field(
        default=None, description="keys a query sees, itself among them, count; default: all"
    )


class AttentionRequest(AttentionShape):
    """Fused attention in one pair of formats."""

    model_config = ConfigDict(
        **RequestBody.model_config,
        json_schema_extra={
            "examples": [
                {**_DECODE, "precision": "FP16"},
                {**_DECODE, "Sq": 4096, "causal": True, "precision": "BF16", "kv_precision": "FP8_E4M3"},
            ]
        },
    )

    precision: FormatName = Field(default="FP16", description="format of query and cache, or of the query alone")
    kv_precision: FormatName | None = Field(default=None, description="format of K and V where it is another one")
    kernel: Annotated[str, Field(strict=True, min_length=1, max_length=40)] | None = Field(
        default=None,
        description="kernel whose time is expected: fa1, fa2, fa3, fa4, trtllm, cudnn, flashinfer; default: trtllm's, fitted",
    )


class AttentionRecommendRequest(AttentionShape):
    """Which format should the cache of this attention have?"""

    model_config = ConfigDict(
        **RequestBody.model_config,
        json_schema_extra={"examples": [_DECODE, {**_DECODE, "precision": "BF16", "formats": ["FP8", "NVFP4"]}]},
    )

    precision: Literal["FP16", "BF16"] | None = Field(
        default=None,
        description="format of the query, and of the cache to compare with; default: the chip's baseline_format",
    )
    formats: Annotated[list[FormatName], Field(min_length=1, max_length=24)] | None = Field(
        default=None, description="formats of the cache to weigh in place of the usual ones"
    )


@router.post("/api/attention", responses=answered(AttentionPrediction), summary="Predict fused attention")
async def analyze_attention(
    request: Request, body: AttentionRequest, hardware_key: HardwareKey = DEFAULT_CHIP
) -> Response:
    """Ideal time of softmax(Q·Kᵀ)·V as one kernel, what bounds it, and the expected time with its interval."""
    chip = find_chip(asked_chip(request, hardware_key))
    question = asked_attention(body)
    with naming("precision"):
        query = get_format(body.precision)
    with naming("kv_precision"):
        cache = query if body.kv_precision is None else get_format(body.kv_precision)
    with naming("kernel"):
        kernel = None if body.kernel is None else find_attention_kernel(body.kernel).key
    with naming("precision" if body.kv_precision is None else "kv_precision"):
        return json_response(answer_bytes(predict_attention(chip, question, (cache, query), kernel=kernel)))


@router.post(
    "/api/attention/recommend",
    responses=answered(AttentionRecommendation),
    summary="Rank the formats of an attention's cache",
)
async def recommend_cache(
    request: Request, body: AttentionRecommendRequest, hardware_key: HardwareKey = DEFAULT_CHIP
) -> Response:
    """Every format of K and V predicted and ranked by expected time where the chip has one, else by the ideal; with
    reasons.
    """
    chip, question = asked_chip(request, hardware_key), asked_attention(body)
    names = None
    if body.formats is not None:
        with naming("formats"):
            names = tuple(dict.fromkeys(get_format(name).key for name in body.formats))
    with naming("precision"):
        query = body.precision or baseline_format(find_chip(chip)) or "FP16"
        return json_response(answer_bytes(cache_recommendation(chip, question, query, names)))


@lru_cache(KEPT_ANSWERS)
def cache_recommendation(
    chip_key: str, question: AttentionQuestion, query: str, names: tuple[str, ...] | None
) -> AttentionRecommendation:
    """Return the ranked formats of an attention's cache.

    Raises `UnsupportedError` where the chip cannot compute in 16 bit.
    """
    return cache_advice(find_chip(chip_key), question, query, names)


def asked_attention(body: AttentionShape) -> AttentionQuestion:
    """Return the shape with its defaults; ends the request with a problem where it contradicts itself."""
    question = AttentionQuestion(
        body.B,
        body.Hq,
        body.Hq if body.Hkv is None else body.Hkv,
        body.Sq,
        body.Sq if body.Skv is None else body.Skv,
        body.D,
        body.causal,
        body.window,
    )
    with naming(_field_at_fault(question)):
        check_attention_shape(*question[:6], causal=question.causal, window=question.window)
    return question


def _field_at_fault(question: AttentionQuestion) -> str:
    """Return the field to blame when the shape contradicts itself."""
    if question.Hq % question.Hkv:
        return "Hkv"
    return "Skv" if question.Sq > question.Skv else "window"
