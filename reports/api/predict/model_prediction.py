"""One pass of a model as the API tells it: of the formats that a request names, or of a plan that was recommended."""

from __future__ import annotations

from functools import lru_cache

from reports.api.answer_models import answer_bytes
from reports.api.catalog.catalog_models import ModelPredictRequest
from reports.api.catalog.chip_lookup import find_chip, find_model
from roofline_model.models.format_plan import AS_PUBLISHED, plan_from_text, wide_head_exceptions
from roofline_model.models.llm import predict_model
from roofline_model.models.model_shapes import DEFAULT_CONTEXT, ModelShape
from roofline_model.predictions.model import pass_prediction

KEPT_MODEL_ANSWERS = 512


@lru_cache(KEPT_MODEL_ANSWERS)
def prediction_json(model: str, chip_key: str, body: ModelPredictRequest) -> bytes:
    """Return the `PassPrediction` of a request as JSON. Raises as `predict_model`."""
    shape, chip = find_model(model), find_chip(chip_key)
    plan = plan_from_text(body.formats or AS_PUBLISHED, shape, kv=body.kv_format)
    exceptions = wide_head_exceptions(plan, shape) if body.wide_head and body.formats else ()
    ideal = predict_model(
        chip,
        shape,
        body.phase,
        batch=body.batch_count,
        context=body.context_tokens or default_context(shape),
        formats=body.formats or AS_PUBLISHED,
        kv=body.kv_format,
        exceptions=exceptions,
        attention_kernel=body.attention_kernel,
    )
    return answer_bytes(pass_prediction(ideal, chip))


def default_context(shape: ModelShape) -> int:
    """Return the tokens of a sequence where a request names none."""
    return min(DEFAULT_CONTEXT, shape.max_context_size)
