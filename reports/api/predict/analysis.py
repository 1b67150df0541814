"""Answers about one product. Pure, so each is kept: the same question is answered from memory the second time."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache

from pydantic_core import to_json

from reports.api.catalog.chip_lookup import find_chip
from reports.api.predict.analysis_models import (
    Analysis,
    OccupancyBody,
    TilingAnswer,
    TilingBody,
)
from reports.api.predict.base_models import finding_body
from reports.api.predict.prediction_fields import kernel_fields
from reports.formats.shape_advice_json import operands_label, shape_advice_json
from roofline_model.chips.hardware import Device
from roofline_model.expected.predict import expected_times, predict_expected
from roofline_model.ideal.roofline import predict, with_storage
from roofline_model.kernels.known_kernels import engine_gap, kernel_gap
from roofline_model.operators.product import gemm, product_of_pair
from roofline_model.recommend.options import product_baseline
from roofline_model.recommend.shape import recommend_quantization
from roofline_model.tiling.waves import gemm_tiling

KEPT_ANSWERS = 4_096
"""Answers of each kind that are kept as text: a few kilobytes each."""

GEMV_NOTE = "the library runs its GEMV kernel here, which has no tiles; it streams the weights once"

Shape = tuple[int, int, int]


@lru_cache(KEPT_ANSWERS)
def analysis_json(chip_key: str, shape: Shape, activation: str, weight: str, cache: str) -> str:
    """Return the `Analysis` of a product as JSON. Raises `UnsupportedError` where the chip cannot compute in the formats."""
    chip = find_chip(chip_key)
    work = product_of_pair(*shape, weight=weight, activation=activation)
    found = with_storage(predict(work, chip, cache=cache), weight, activation)
    expected = predict_expected(work, chip, cache=cache, ideal=found)
    baseline = product_baseline(chip, shape)
    is_wide = activation == weight == baseline
    wide_s = wide_expected_s = None
    if baseline is not None:
        wide_s = found.time_s if is_wide else predict(gemm(*shape, a=baseline), chip, cache=cache).time_s
    if baseline is not None and expected is not None:
        wide_expected_s = expected.time_s if is_wide else _expected_s(chip, shape, baseline, cache)
    weight_key = dict(work.formats)["b"]
    fields = kernel_fields(
        chip, work, found, expected, cache=cache, baseline=baseline, wide_s=wide_s, wide_expected_s=wide_expected_s
    )
    return Analysis(
        **fields,
        M=shape[0],
        N=shape[1],
        K=shape[2],
        weight_format=weight_key,
        operands=operands_label(weight_key, fields["activation_format"]),
        cache=cache,
        kernel_gap=finding_body(kernel_gap(chip, weight_key, fields["activation_format"])),
        engine_gap=finding_body(engine_gap(chip, weight_key, fields["activation_format"])),
    ).model_dump_json()


def recommendation_json(
    chip_key: str,
    shape: Shape,
    phase: str | None,
    limit_gb: float | None,
    parameters: float | None,
    formats: tuple[str, ...] | None,
) -> str:
    """Return the `Recommendation` for a product as JSON. Raises as `recommend_quantization`."""
    chip = find_chip(chip_key)
    ranking = recommend_quantization(
        chip, *shape, phase, limit_gb, model_parameters=parameters, formats=formats, times=expected_times(chip)
    )
    # Plain values in the order of `Recommendation` (tested): building its models would take as long as the ranking.
    return to_json(shape_advice_json(ranking), inf_nan_mode="null").decode()


@lru_cache(KEPT_ANSWERS)
def tiling_json(chip_key: str, shape: Shape, activation: str, weight: str, cache: str) -> str:
    """Return the `TilingAnswer` of a product as JSON. Raises `UnsupportedError` for a chip without the limits of an SM."""
    chip = find_chip(chip_key)
    work = product_of_pair(*shape, weight=weight, activation=activation)
    found = gemm_tiling(work, chip, cache=cache)
    body = None
    if found is not None:
        names = [name for name in TilingBody.model_fields if name not in ("occupancy", "parts_s", "terms_s")]
        body = TilingBody(
            occupancy=OccupancyBody(**asdict(found.occupancy)),
            parts_s=dict(found.parts_s),
            terms_s=dict(found.terms_s),
            **{name: getattr(found, name) for name in names},
        )
    formats = dict(work.formats)
    return TilingAnswer(
        hardware=chip.key,
        M=shape[0],
        N=shape[1],
        K=shape[2],
        weight_format=formats["b"],
        activation_format=formats["a"],
        cache=cache,
        tiling=body,
        note=GEMV_NOTE if body is None else None,
    ).model_dump_json()


def _expected_s(chip: Device, shape: Shape, precision: str, cache: str) -> float | None:
    """Return the expected time of a product in one format alone: without its parts it is sooner known."""
    work = gemm(*shape, a=precision)
    if cache == "cold" and chip.calibration is None:
        (estimate,) = expected_times(chip).many([work.case("*", cache=cache)])
        return None if estimate is None else estimate.time_s
    found = predict_expected(work, chip, cache=cache)
    return None if found is None else found.time_s
