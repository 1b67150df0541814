"""Answers about one product. Pure, so each is kept: the same question is answered from memory the second time."""

from __future__ import annotations

from functools import lru_cache

from reports.api.answer_models import answer_bytes
from reports.api.catalog.chip_lookup import find_chip
from reports.formats.shape_advice import shape_advice
from roofline_model.expected.predict import expected_times
from roofline_model.formats.catalog import get_format
from roofline_model.predictions.product import Shape, predict_product
from roofline_model.predictions.tiling import product_tiling
from roofline_model.recommend.shape import recommend_quantization

KEPT_ANSWERS = 4_096
"""Answers of each kind that are kept as text: a few kilobytes each."""


@lru_cache(KEPT_ANSWERS)
def analysis_json(chip_key: str, shape: Shape, activation: str, weight: str, cache: str) -> bytes:
    """Return the `ProductPrediction` as JSON. Raises `UnsupportedError` where the chip cannot compute in the formats."""
    pair = get_format(weight), get_format(activation)
    return answer_bytes(predict_product(find_chip(chip_key), shape, pair, cache=cache))


def recommendation_json(
    chip_key: str,
    shape: Shape,
    phase: str | None,
    limit_gb: float | None,
    parameters: float | None,
    formats: tuple[str, ...] | None,
) -> bytes:
    """Return the `Recommendation` for a product as JSON. Raises as `recommend_quantization`."""
    chip = find_chip(chip_key)
    ranking = recommend_quantization(
        chip, *shape, phase, limit_gb, model_parameters=parameters, formats=formats, times=expected_times(chip)
    )
    return answer_bytes(shape_advice(ranking))


@lru_cache(KEPT_ANSWERS)
def tiling_json(chip_key: str, shape: Shape, activation: str, weight: str, cache: str) -> bytes:
    """Return the `TilingAnswer` of a product as JSON. Raises `UnsupportedError` for a chip without the limits of an SM."""
    pair = get_format(weight), get_format(activation)
    return answer_bytes(product_tiling(find_chip(chip_key), shape, pair, cache=cache))
