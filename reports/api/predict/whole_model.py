"""POST /api/models/{key}/predict, /recommend and /batches: one pass of a whole model, which formats for it, and how
many at once; `router` is what the app includes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from reports.api.answer_models import answer_bytes, json_response
from reports.api.base_models import Dimension, FormatName, PhaseName, RequestBody
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip, find_chip, find_model
from reports.api.http.openapi import answered
from reports.api.http.problem import naming
from reports.api.http.service import computed
from reports.present.answers.batches import BatchAnswer, batch_answer
from reports.present.answers.models import ModelRecommendation, model_advice
from reports.present.predicted.words import Asked, asked_chip_words
from roofline_model.chips.hardware import Device
from roofline_model.kernels.attention_kernels import find_attention_kernel
from roofline_model.models.format_plan import AS_PUBLISHED
from roofline_model.models.llm import predict_model
from roofline_model.models.model_shapes import DEFAULT_CONTEXT
from roofline_model.predictions.batches import BatchCurves, batch_curves, with_limits
from roofline_model.predictions.model import PassPrediction, pass_prediction
from roofline_model.recommend.model import ModelRanking, recommend_model

router = APIRouter(tags=["catalogs"])

KEPT_MODEL_ANSWERS = 512
KEPT_CURVES = 64

ModelKey = Annotated[
    str, Path(min_length=1, max_length=100, description="name of a shipped model", examples=["llama-3.1-8b"])
]
_PLAN_NAME = Annotated[str, Field(strict=True, min_length=1, max_length=121)]


class ModelPredictRequest(RequestBody):
    """One pass of a whole model."""

    model_config = ConfigDict(
        **RequestBody.model_config,
        json_schema_extra={"examples": [{"phase": "decode", "context_tokens": 4096, "formats": "INT4.BF16"}]},
    )

    phase: PhaseName = Field(default="decode", description="decode: one new token per sequence; prefill: the prompt")
    batch_count: Dimension = Field(default=1, description="sequences, count")
    context_tokens: Dimension | None = Field(
        default=None, description="tokens per sequence; default 4096, or the model's longest"
    )
    formats: Annotated[str, Field(strict=True, min_length=1, max_length=81)] | None = Field(
        default=None,
        description="BF16, or weight.activation: INT4.BF16, of the layers' matrices; head, embedding and router keep 16 bit; default: as published",
    )
    kv_format: FormatName | None = Field(default=None, description="format of the KV cache; default: the activations'")
    attention_kernel: Annotated[str, Field(strict=True, min_length=1, max_length=40)] | None = Field(
        default=None,
        description="kernel whose attention time is expected: fa1, fa2, fa3, fa4, trtllm, cudnn, flashinfer; default: trtllm's",
    )


class ModelRecommendRequest(RequestBody):
    """Which formats should a model have for one kind of pass, within these limits?"""

    model_config = ConfigDict(
        **RequestBody.model_config,
        json_schema_extra={
            "examples": [
                {"phase": "decode", "context_tokens": 8192, "max_loss_pct": 2},
                {"phase": "prefill", "batch_count": 4, "memory_limit_gb": 24, "formats": ["FP8", "INT4.BF16"]},
            ]
        },
    )

    phase: PhaseName = Field(default="decode", description="decode: one new token per sequence; prefill: the prompt")
    batch_count: Dimension = Field(default=1, description="sequences in a pass, count")
    context_tokens: Dimension | None = Field(
        default=None, description="tokens a sequence has after the pass; default 4096, or the model's longest"
    )
    memory_limit_gb: float | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="weights, cache and activations have to fit; decimal gigabytes (1e9 bytes); default: the chip's memory",
    )
    memory_headroom_ratio: float = Field(default=0.0, ge=0, lt=1, description="share of that memory to keep free")
    max_latency_s: float | None = Field(default=None, gt=0, le=1e9, description="longest time of a pass, seconds")
    max_loss_pct: float | None = Field(
        default=None,
        ge=0,
        lt=1e6,
        description="most that quality may lose, percent, measured or published; default: 3",
    )
    formats: Annotated[tuple[_PLAN_NAME, ...], Field(min_length=1, max_length=24)] | None = Field(
        default=None,
        description="uniform plans to weigh in place of the usual ones: `INT4.BF16`, weight.activation.cache",
    )


class BatchRequest(RequestBody):
    """How many sequences at once, in which format, within these limits of time?"""

    model_config = ConfigDict(
        **RequestBody.model_config,
        json_schema_extra={"examples": [{"context_tokens": 4096, "max_token_s": 0.05, "max_first_token_s": 2}]},
    )

    context_tokens: Dimension | None = Field(
        default=None, description="tokens a sequence has, and a new prompt; default 4096, or the model's longest"
    )
    memory_limit_gb: float | None = Field(
        default=None, gt=0, le=1e9, description="decimal gigabytes (1e9 bytes); default: the chip's memory"
    )
    max_loss_pct: float | None = Field(
        default=None, ge=0, lt=1e6, description="most that quality may lose, percent, measured or published; default: 3"
    )
    max_token_s: float | None = Field(default=None, gt=0, le=1e9, description="longest time per token, seconds")
    max_first_token_s: float | None = Field(
        default=None, gt=0, le=1e9, description="longest time to the first token of a request that arrives, seconds"
    )


@router.post("/api/models/{key}/predict", responses=answered(PassPrediction), summary="Predict one pass of a model")
def model_predict(
    request: Request, key: ModelKey, body: ModelPredictRequest, hardware_key: HardwareKey = DEFAULT_CHIP
) -> Response:
    """Ideal and expected time of a decode step or a prefill, kernel by kernel, tokens/s, and whether it fits the
    memory.
    """
    model, chip = find_model(key).name, asked_chip(request, hardware_key)
    with naming("attention_kernel"):
        if body.attention_kernel is not None:
            find_attention_kernel(body.attention_kernel)
    with naming("formats"):
        return json_response(answer_bytes(pass_of(model, chip, body)))


@lru_cache(KEPT_MODEL_ANSWERS)
def pass_of(model: str, chip_key: str, body: ModelPredictRequest) -> PassPrediction:
    """Return the pass of a request, predicted. Raises as `predict_model`."""
    shape, chip = find_model(model), find_chip(chip_key)
    ideal = predict_model(
        chip,
        shape,
        body.phase,
        batch=body.batch_count,
        context=body.context_tokens or min(DEFAULT_CONTEXT, shape.max_context_size),
        formats=body.formats or AS_PUBLISHED,
        kv=body.kv_format,
        attention_kernel=body.attention_kernel,
    )
    return pass_prediction(ideal, chip)


@router.post(
    "/api/models/{key}/recommend",
    responses=answered(ModelRecommendation),
    summary="Rank the formats for a whole model",
)
async def recommend_for_model(
    request: Request, key: ModelKey, body: ModelRecommendRequest, hardware_key: HardwareKey = DEFAULT_CHIP
) -> Response:
    """Plans for weights, activations and cache within limits of memory, time and loss, by expected time where there is
    one.
    """
    find_model(key)  # the name stays as it was asked: another model may have the same shape
    chip = asked_chip(request, hardware_key)
    return json_response(answer_bytes(await computed(request, model_recommendation, key, chip, body)))


@lru_cache(KEPT_MODEL_ANSWERS)
def model_recommendation(model: str, chip_key: str, body: ModelRecommendRequest) -> ModelRecommendation:
    """Return the ranked plans of a model: what `roofline recommend --model --json` prints."""
    device, shape = find_chip(chip_key), find_model(model)

    def ranking_on(chip: Device) -> ModelRanking:
        return recommend_model(
            chip,
            shape,
            phase=body.phase,
            batch=body.batch_count,
            context=body.context_tokens,
            memory_limit_bytes=None if body.memory_limit_gb is None else body.memory_limit_gb * 1e9,
            memory_headroom_ratio=body.memory_headroom_ratio,
            max_latency_s=body.max_latency_s,
            max_loss_pct=body.max_loss_pct,
            formats=body.formats,
        )

    with naming("formats" if body.formats is not None else "context_tokens"):
        ranking = ranking_on(device)
    return model_advice(ranking, device, _asked(model, device, body), ranking_on)


def _typed(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


def _asked(model: str, chip: Device, body: ModelRecommendRequest) -> Asked:
    """Return the question as the command line takes it; the page sends defaults too, which nobody typed."""
    options = (
        ("phase", "--phase"),
        ("batch_count", "--batch"),
        ("context_tokens", "--context"),
        ("memory_limit_gb", "--memory-limit-gb"),
        ("memory_headroom_ratio", "--memory-headroom"),
        ("max_loss_pct", "--max-quality-loss"),
    )
    defaults = {name: field.default for name, field in ModelRecommendRequest.model_fields.items()}
    defaults["context_tokens"] = min(DEFAULT_CONTEXT, find_model(model).max_context_size)
    given = {
        name: getattr(body, name) for name in body.model_fields_set if getattr(body, name) not in (None, defaults[name])
    }
    pairs = [("--model", model), *asked_chip_words(chip)]
    pairs += [(option, _typed(given[name])) for name, option in options if name in given]
    pairs += [("--max-latency-ms", f"{given['max_latency_s'] * 1e3:g}")] if "max_latency_s" in given else []
    return [*pairs, *(("--formats", name) for name in given.get("formats", ()))]


@router.post(
    "/api/models/{key}/batches",
    responses=answered(BatchAnswer),
    summary="Weigh batch against latency",
)
async def batches_of_model(
    request: Request, key: ModelKey, body: BatchRequest, hardware_key: HardwareKey = DEFAULT_CHIP
) -> Response:
    """Time per token, time to the first token and tokens/s of every format and batch, and the best within the
    limits.
    """
    from reports.figures.batches import batch_colours, batch_figure
    from reports.figures.drawing.plotly_drawer import plotly_json

    model, chip = find_model(key).name, asked_chip(request, hardware_key)
    question = body.context_tokens, body.memory_limit_gb, body.max_loss_pct
    curves = await computed(request, curves_of_model, model, chip, *question)
    held = with_limits(curves, max_token_s=body.max_token_s, max_first_token_s=body.max_first_token_s)
    colours = {name: list(colour[:2]) for name, colour in batch_colours(held).items()}
    figure = {**plotly_json(batch_figure(held), with_texts=True), "colours": colours}
    return json_response(answer_bytes(batch_answer(held, figure)))


@lru_cache(KEPT_CURVES)
def curves_of_model(
    model: str, chip_key: str, context: int | None, limit_gb: float | None, max_loss_pct: float | None
) -> BatchCurves:
    """Return the curves of a request, whatever its limits of time."""
    device, shape = find_chip(chip_key), find_model(model)
    with naming("context_tokens"):
        return batch_curves(
            device,
            shape,
            context=context,
            memory_limit_bytes=None if limit_gb is None else limit_gb * 1e9,
            max_loss_pct=max_loss_pct,
        )
