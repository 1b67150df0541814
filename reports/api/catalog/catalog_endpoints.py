"""Chips, formats and models of the catalogs: read once, the same for ever."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from reports.api.answer_models import answer_model
from reports.api.catalog.catalog_models import (
    CacheLevel,
    FormatBody,
    FormatList,
    HardwareDetail,
    HardwareList,
    HardwareSummary,
    ModelList,
    ModelPredictRequest,
    ModelSummary,
    PathBody,
    QuantityBody,
)
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip, find_chip, find_model
from reports.api.http.entity_tag import tagged
from reports.api.http.problem import naming
from reports.api.http.strict_route import StrictRoute
from reports.api.predict.model_prediction import prediction_json
from roofline_model.chips.hardware import Device, Quantity, list_hardware
from roofline_model.formats.catalog import FORMATS
from roofline_model.kernels.attention_kernels import find_attention_kernel
from roofline_model.models.hf.parameters import parameter_counts
from roofline_model.models.model_registry import list_models
from roofline_model.models.model_shapes import ModelShape
from roofline_model.predictions.model import PassPrediction
from roofline_model.recommend.options import baseline_format
from roofline_model.recommend.plans import wide_format

router = APIRouter(tags=["catalogs"], route_class=StrictRoute)

Key = Annotated[str, Path(min_length=1, max_length=100, description="key or alias", examples=["gb10"])]
ModelKey = Annotated[
    str, Path(min_length=1, max_length=100, description="name of a shipped model", examples=["llama-3.1-8b"])
]


@router.get("/api/hardware", response_model=HardwareList, summary="List the chips")
def hardware(request: Request) -> Response:
    """Every chip of the catalog, and the server's own, with its bandwidth, memory and dense native rates."""
    machine = request.app.state.service.this_machine
    return tagged(request, _hardware_list(machine.known_handle(), machine.why_not))


@router.get("/api/hardware/{key}", response_model=HardwareDetail, summary="Show a chip")
def hardware_detail(request: Request, key: Key) -> Response:
    """Every number of a chip with its status and source, and how each format is computed."""
    return tagged(request, _hardware_detail(asked_chip(request, key, "key", "path")))


@router.get("/api/formats", response_model=FormatList, summary="List the number formats")
def formats(request: Request) -> Response:
    """Bits, bytes, scales and blocks of every format of the catalog."""
    bodies = [
        FormatBody(
            aliases=list(one.aliases),
            **{name: getattr(one, name) for name in FormatBody.model_fields if name != "aliases"},
        )
        for one in FORMATS.values()
    ]
    return tagged(request, FormatList(formats=bodies).model_dump_json())


@router.get("/api/models", response_model=ModelList, summary="List the language models")
def models(request: Request) -> Response:
    """The shipped models with their sizes."""
    return tagged(request, _model_list())


@router.post(
    "/api/models/{key}/predict", response_model=answer_model(PassPrediction), summary="Predict one pass of a model"
)
def model_predict(
    request: Request, key: ModelKey, body: ModelPredictRequest, hardware_key: HardwareKey = DEFAULT_CHIP
) -> Response:
    """Ideal and expected time of a decode step or a prefill, kernel by kernel, tokens/s, and whether it fits the memory."""
    shape, chip = find_model(key), asked_chip(request, hardware_key)
    with naming("attention_kernel"):
        if body.attention_kernel is not None:
            find_attention_kernel(body.attention_kernel)
    with naming("formats"):
        return Response(prediction_json(shape.name, chip, body), media_type="application/json")


@lru_cache(16)
def _hardware_list(own: str, why_not: str) -> str:
    chips = [HardwareSummary(**_summary(chip)) for chip in list_hardware()]
    here = HardwareSummary(**_summary(find_chip(own))) if own else None
    return HardwareList(
        default_key=DEFAULT_CHIP, this_machine=here, this_machine_reason=why_not or None, hardware=chips
    ).model_dump_json()


@lru_cache(64)
def _hardware_detail(key: str) -> str:
    chip = find_chip(key)
    levels = [
        CacheLevel(
            name=level.name,
            capacity_bytes=level.capacity_bytes,
            bandwidth_bytes_per_s=None if level.bandwidth is None else level.bandwidth.value,
        )
        for level in chip.levels
    ]
    return HardwareDetail(
        **_summary(chip),
        bandwidth=_known(chip.bandwidth),
        bandwidth_achieved=_quantity(chip.bandwidth_achieved),
        capacity=_quantity(chip.capacity),
        levels=levels,
        paths={name: _path(chip, name) for name in sorted(chip.paths)},
        chip={name: _known(one) for name, one in sorted(chip.chip.items())},
        notes=list(chip.notes),
        content_hash=chip.content_hash,
    ).model_dump_json()


def _summary(chip: Device) -> dict[str, Any]:
    return {
        "key": chip.key,
        "name": chip.name,
        "kind": chip.kind,
        "vendor": chip.vendor,
        "architecture": chip.architecture,
        "aliases": list(chip.aliases),
        "is_placeholder": chip.is_placeholder,
        "bandwidth_bytes_per_s": chip.bandwidth.value,
        "capacity_bytes": None if chip.capacity is None else chip.capacity.value,
        "dense_flops_per_s": {
            name: one.dense.value for name, one in sorted(chip.paths.items()) if one.kind == "native"
        },
        "baseline_format": (baseline := baseline_format(chip)),
        "model_baseline_formats": {}
        if baseline is None
        else {shape.wide_format: wide_format(shape, chip) for shape in list_models()},
    }


def _known(one: Quantity) -> QuantityBody:
    return QuantityBody(
        value=one.value, unit=one.unit, status=one.status, source=one.source, clock_hz=one.clock_hz, note=one.note
    )


def _quantity(one: Quantity | None) -> QuantityBody | None:
    return None if one is None else _known(one)


def _path(chip: Device, name: str) -> PathBody:
    one = chip.paths[name]
    return PathBody(
        format=one.format,
        kind=one.kind,
        compute_format=one.compute_format,
        dense_flops_per_s=one.dense.value,
        sparse_flops_per_s=None if one.sparse is None else one.sparse.value,
        critical_intensity_flop_per_byte=chip.critical_intensity(name),
        status=one.dense.status,
        source=one.dense.source,
        reason=one.reason,
    )


@lru_cache(1)
def _model_list() -> str:
    return ModelList(models=[_model(shape) for shape in list_models()]).model_dump_json()


def _model(shape: ModelShape) -> ModelSummary:
    counts = parameter_counts(shape)
    return ModelSummary(
        key=shape.name,
        layer_count=shape.layer_count,
        hidden_size=shape.hidden_size,
        parameter_count=counts.total_count,
        active_parameter_count=counts.active_count,
        max_context_tokens=shape.max_context_size,
        published_format=shape.weight_format,
        wide_format=shape.wide_format,
        source=shape.source,
    )
