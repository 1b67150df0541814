"""POST /api/models/{key}/recommend: which formats for a whole model; `router` is what the app includes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_json

from reports.api.catalog.catalog_endpoints import ModelKey
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip, find_chip, find_model
from reports.api.catalog.this_machine import own_chip
from reports.api.http.problem import naming
from reports.api.http.service import Service
from reports.api.http.strict_route import StrictRoute
from reports.api.predict.model_advice_models import ModelRecommendation, ModelRecommendRequest
from reports.api.predict.model_prediction import default_context
from roofline_model.chips.hardware import Device
from roofline_model.models.llm import predict_model

router = APIRouter(tags=["catalogs"], route_class=StrictRoute)

_OF_SEARCHES = ("searches", "front")
"""Parts of the document that only losses of the model's layers fill, which no request carries."""


@router.post(
    "/api/models/{key}/recommend", response_model=ModelRecommendation, summary="Rank the formats for a whole model"
)
async def recommend_for_model(
    request: Request, key: ModelKey, body: ModelRecommendRequest, hardware_key: HardwareKey = DEFAULT_CHIP
) -> Response:
    """Plans for weights, activations and cache within limits of memory, time and loss, by expected time where there is one."""
    model, chip = find_model(key).name, asked_chip(request, hardware_key)
    service: Service = request.app.state.service
    question = ("model", model, chip, body.model_dump_json())
    found = service.recommendations.get(question)
    if found is None:  # a tenth of a second: not in the event loop
        found = await service.workers.run(model_recommendation_text, model, own_chip(chip) or chip, body)
        service.recommendations.put(question, found)
    return Response(found, media_type="application/json")


def model_recommendation_text(model: str, chip: str | Device, body: ModelRecommendRequest) -> str:
    """Return the `ModelRecommendation` as JSON: what `roofline recommend --model --json` prints, without the search per layer.

    The plan to take is predicted once more, kernel by kernel: no request to predict could name a mixed one.
    """
    from reports.formats.answer_json import answer_json
    from reports.formats.model_advice_json import model_recommendation_json
    from roofline_model.predictions.model import pass_prediction
    from roofline_model.recommend.model import recommend_model

    device, shape = chip if isinstance(chip, Device) else find_chip(chip), find_model(model)
    with naming("formats" if body.formats is not None else "context_tokens"):
        ranking = recommend_model(
            device,
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
    answer = {
        name: value for name, value in model_recommendation_json(ranking, device).items() if name not in _OF_SEARCHES
    }
    answer["prediction"] = None
    if ranking.choice is not None:
        step = predict_model(
            device,
            shape,
            body.phase,
            batch=body.batch_count,
            context=body.context_tokens or default_context(shape),
            formats=ranking.choice.plan,
            memory_headroom_ratio=body.memory_headroom_ratio,
        )
        answer["prediction"] = answer_json(pass_prediction(step, device))
    return to_json(answer, inf_nan_mode="null").decode()
