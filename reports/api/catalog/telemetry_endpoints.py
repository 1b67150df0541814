"""GET /api/nvml/status: what the GPU's sensors say."""

from __future__ import annotations

from fastapi import APIRouter, Request

from reports.api.catalog.catalog_models import NvmlStatus

router = APIRouter(tags=["sensors"])


@router.get("/api/nvml/status", summary="Read the GPU's sensors")
def status(request: Request) -> NvmlStatus:
    """Power, clocks, temperature, load and memory now; without a GPU, why there is none."""
    status: NvmlStatus = request.app.state.service.sensors.read()
    return status
