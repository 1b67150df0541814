"""Chips, formats and models of the catalogs: read once, the same for ever.

They are answered in the event loop: a thread would take longer than the answer. The list of the chips alone has one, as
it waits while the server looks for its own chip.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from reports.api.answer_models import answer_bytes, json_response
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, asked_chip, find_chip
from reports.api.http.openapi import answered
from roofline_model.predictions import catalog
from roofline_model.predictions.catalog import (
    FormatList,
    HardwareDetail,
    HardwareList,
    HardwareSummary,
    ModelList,
)

router = APIRouter(tags=["catalogs"])

Key = Annotated[str, Path(min_length=1, max_length=100, description="key or alias", examples=["gb10"])]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedHardware(HardwareList):
    """Every chip of the catalog, by key, and the server's own."""

    default_key: str
    """Chip used where a request names none."""
    this_machine: HardwareSummary | None
    """The chip of the server itself, which hardware_key=auto means; null with a reason."""
    this_machine_reason: str | None
    """Why it is not known; null where it is."""


@router.get("/api/hardware", responses=answered(ServedHardware), summary="List the chips")
def hardware(request: Request) -> Response:
    """Every chip of the catalog, and the server's own, with its bandwidth, memory and dense native rates."""
    machine = request.app.state.service.this_machine
    return json_response(_hardware_list(machine.known_handle(), machine.why_not))


@router.get("/api/hardware/{key}", responses=answered(HardwareDetail), summary="Show a chip")
async def hardware_detail(request: Request, key: Key) -> Response:
    """Every number of a chip with its status and source, and how each format is computed."""
    return json_response(_hardware_detail(asked_chip(request, key, "key", "path")))


@router.get("/api/formats", responses=answered(FormatList), summary="List the number formats")
async def formats() -> Response:
    """Bits, bytes, scales and blocks of every format of the catalog."""
    return json_response(answer_bytes(catalog.format_list()))


@router.get("/api/models", responses=answered(ModelList), summary="List the language models")
async def models() -> Response:
    """The shipped models with their sizes."""
    return json_response(_model_list())


@lru_cache(16)
def _hardware_list(own_chip_key: str, why_not: str) -> bytes:
    here = catalog.hardware_summary(find_chip(own_chip_key)) if own_chip_key else None
    chips = catalog.hardware_list().hardware
    return answer_bytes(
        ServedHardware(default_key=DEFAULT_CHIP, this_machine=here, this_machine_reason=why_not or None, hardware=chips)
    )


@lru_cache(64)
def _hardware_detail(key: str) -> bytes:
    return answer_bytes(catalog.hardware_detail(find_chip(key)))


@lru_cache(1)
def _model_list() -> bytes:
    return answer_bytes(catalog.model_list())
