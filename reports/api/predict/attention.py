"""POST /api/attention and /api/attention/recommend: fused attention on a chip; `router` is what the app includes."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip, find_chip
from reports.api.http.fast_path import FastPathRoute
from reports.api.http.problem import naming
from reports.api.predict.analysis import KEPT_ANSWERS
from reports.api.predict.attention_models import (
    AttentionAnalysis,
    AttentionRecommendation,
    AttentionRecommendRequest,
    AttentionRequest,
    AttentionShape,
)
from reports.api.predict.base_models import finding_bodies, finding_body
from reports.api.predict.cache_ranking import rank_caches
from reports.api.predict.prediction_fields import kernel_fields
from roofline_model.expected.predict import predict_expected
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.operator_sequence import predict_operator, predict_sequence
from roofline_model.kernels.attention_kernels import find_attention_kernel
from roofline_model.kernels.known_kernels import cache_gap
from roofline_model.operators.attention import attention, unfused_attention_parts
from roofline_model.operators.attention_shape import check_attention_shape
from roofline_model.operators.product import Operator
from roofline_model.recommend.options import baseline_format

router = APIRouter(tags=["one product"], route_class=FastPathRoute)


class _Question(NamedTuple):
    """One shape of attention; letters as everywhere."""

    B: int
    Hq: int
    Hkv: int
    Sq: int
    Skv: int
    D: int
    causal: bool
    window: int | None

    def work(self, query: str, cache: str) -> Operator:
        """Return the fused kernel in these formats."""
        return attention(*self[:6], q=query, kv=cache, causal=self.causal, window=self.window)


@router.post("/api/attention", response_model=AttentionAnalysis, summary="Predict fused attention")
async def analyze_attention(
    request: Request, body: AttentionRequest, hardware_key: HardwareKey = DEFAULT_CHIP
) -> Response:
    """Ideal time of softmax(Q·Kᵀ)·V as one kernel, what bounds it, and the expected time with its interval."""
    chip = asked_chip(request, hardware_key)
    asked = _question(body)
    with naming("precision"):
        query = get_format(body.precision).key
    with naming("kv_precision"):
        cache = query if body.kv_precision is None else get_format(body.kv_precision).key
    with naming("kernel"):
        kernel = None if body.kernel is None else find_attention_kernel(body.kernel).key
    with naming("precision" if body.kv_precision is None else "kv_precision"):
        return Response(attention_json(chip, asked, query, cache, kernel), media_type="application/json")


@lru_cache(KEPT_ANSWERS)
def attention_json(chip_key: str, asked: _Question, query: str, cache: str, kernel: str | None = None) -> str:
    """Return the `AttentionAnalysis` as JSON. Raises `UnsupportedError` where the chip cannot compute in the formats."""
    chip, work = find_chip(chip_key), asked.work(query, cache)
    found, expected = predict_operator(work, chip), predict_expected(work, chip, attention_kernel=kernel)
    parts = unfused_attention_parts(*asked[:6], q=query, kv=cache, causal=asked.causal, window=asked.window)
    baseline = baseline_format(chip)
    wide = None if baseline is None else asked.work(baseline, baseline)
    wide_expected = None if wide is None or expected is None else predict_expected(wide, chip, attention_kernel=kernel)
    reads = dict(work.cost.read_bytes)
    fields = kernel_fields(
        chip,
        work,
        found,
        expected,
        attention_kernel=kernel,
        baseline=baseline,
        wide_s=None if wide is None else predict_operator(wide, chip).time_s,
        wide_expected_s=None if wide_expected is None else wide_expected.time_s,
    )
    return AttentionAnalysis(
        **fields,
        **asked._asdict(),
        kv_format=dict(work.formats)["kv"],
        kernel_gap=finding_body(cache_gap(chip, dict(work.formats)["kv"])),
        kernel=kernel,
        expected_covered_ops=None if expected is None else list(expected.covered_ops),
        kv_read_bytes=reads["K"] + reads.get("V", 0.0),
        unfused_time_s=predict_sequence(parts, chip).time_s,
    ).model_dump_json()


@router.post(
    "/api/attention/recommend",
    response_model=AttentionRecommendation,
    summary="Rank the formats of an attention's cache",
)
async def recommend_cache(
    request: Request, body: AttentionRecommendRequest, hardware_key: HardwareKey = DEFAULT_CHIP
) -> Response:
    """Every format of K and V predicted and ranked by expected time where the chip has one, else by the ideal; with reasons."""
    chip, asked = asked_chip(request, hardware_key), _question(body)
    names = None
    if body.formats is not None:
        with naming("formats"):
            names = tuple(dict.fromkeys(get_format(name).key for name in body.formats))
    with naming("precision"):
        query = body.precision or baseline_format(find_chip(chip)) or "FP16"
        return Response(cache_recommendation_json(chip, asked, query, names), media_type="application/json")


@lru_cache(KEPT_ANSWERS)
def cache_recommendation_json(chip_key: str, asked: _Question, query: str, names: tuple[str, ...] | None) -> str:
    """Return the `AttentionRecommendation` as JSON. Raises `UnsupportedError` where the chip cannot compute in 16 bit."""
    chip = find_chip(chip_key)
    found = rank_caches(chip, lambda cache: asked.work(query, cache), query, names)
    return AttentionRecommendation(
        hardware=chip.key,
        phase="decode" if asked.Sq == 1 else "prefill",
        **asked._asdict(),
        activation_format=query,
        summary=found.summary,
        ranked_by=found.candidates[0].time_source,
        best=found.candidates[0],
        baseline=found.baseline,
        candidates=found.candidates,
        excluded=found.excluded,
        findings=finding_bodies(found.findings),
    ).model_dump_json()


def _question(body: AttentionShape) -> _Question:
    """Return the shape with its defaults; ends the request with a problem where it contradicts itself."""
    asked = _Question(
        body.B,
        body.Hq,
        body.Hq if body.Hkv is None else body.Hkv,
        body.Sq,
        body.Sq if body.Skv is None else body.Skv,
        body.D,
        body.causal,
        body.window,
    )
    with naming(_field_at_fault(asked)):
        check_attention_shape(*asked[:6], causal=asked.causal, window=asked.window)
    return asked


def _field_at_fault(asked: _Question) -> str:
    """Return the field to blame when the shape contradicts itself."""
    if asked.Hq % asked.Hkv:
        return "Hkv"
    return "Skv" if asked.Sq > asked.Skv else "window"
