"""`create_app`: the whole API and the explorer page as one ASGI app. Read-only; nothing heavy happens before it is
asked for.

Runs under any ASGI server: `roofline serve`, or `uvicorn --factory reports.api.http.app:create_app`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib import metadata
from pathlib import Path

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError, MissingDependencyError, RooflineError

try:
    import anyio
    from fastapi import APIRouter, Depends, FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
except ModuleNotFoundError as error:
    raise MissingDependencyError(error.name or "fastapi", "api", "the HTTP API") from None

from reports.api.catalog import catalog_endpoints, telemetry_endpoints
from reports.api.catalog.catalog_models import Health
from reports.api.catalog.sensors import GpuSensors, SharedSensors
from reports.api.catalog.this_machine import ThisMachine
from reports.api.explorer import endpoint as explorer
from reports.api.http.explorer_files import serve_files
from reports.api.http.guard import Guard
from reports.api.http.openapi import describe
from reports.api.http.problem import ProblemError, check_query, on_error
from reports.api.http.service import Limits, Service
from reports.api.predict import attention, product, sweep, whole_model
from reports.api.stored import comparison_endpoints, run_endpoints, stored_advice
from reports.api.stored.store_access import StoreAccess

SWITCH_INTERVAL_S = 5e-4
"""How long one thread may keep the interpreter from another: with Python's own 5 ms every answer given beside a sweep
would wait that long, several times.
"""
WARM_UP_AFTER_S = 0.2
"""The server first says that it is ready."""
HEALTH_WAIT_S = 1.0
"""A database that answers later is not said to be readable."""
LEAST_TOKEN_CHARACTERS = 16

router = APIRouter(tags=["server"])


def create_app(
    store_target: str | Path | None = None,
    *,
    telemetry: GpuSensors | None = None,
    telemetry_reason: str = "",
    token: str | None = None,
    limits: Limits | None = None,
    allowed_hosts: Sequence[str] | None = None,
    this_chip: Callable[[], Device] | None = None,
) -> FastAPI:
    """Return the app.

    `store_target`: as of `results.open_store`, read-only; it need not exist. `telemetry`: sensors of this machine's
    GPU, `telemetry_reason` says why there are none. `token`: asked of every request under /api/ but health.
    `allowed_hosts`: names the server answers to (None: any). `this_chip`: returns the chip of this machine, which
    `hardware_key=auto` means, or raises a `RooflineError`. Raises `InvalidValueError` for a token that is too
    short to be one.
    """
    if token is not None and (len(token) < LEAST_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable()):
        raise InvalidValueError(
            f"the token must be at least {LEAST_TOKEN_CHARACTERS} printable ASCII characters, e.g. of `openssl rand "
            "-hex 24`"
        )
    limits, version = limits or Limits(), _version()
    app = FastAPI(
        title="roofline-bench",
        version=version,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # `describe` serves it
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.state.service = Service(
        store=StoreAccess(store_target),
        sensors=SharedSensors(telemetry, telemetry_reason, limits.min_reading_interval_s),
        limits=limits,
        version=version,
        this_machine=ThisMachine(this_chip),
    )
    predicted = (product, attention, whole_model, sweep, explorer)
    stored = (run_endpoints, stored_advice, comparison_endpoints)
    routers = [router, *(module.router for module in (*predicted, catalog_endpoints, *stored, telemetry_endpoints))]
    for each in routers:
        app.include_router(each, dependencies=[] if each is explorer.router else [Depends(check_query)])
    serve_files(app)
    for refused in (HTTPException, RequestValidationError, RooflineError):
        app.add_exception_handler(refused, on_error)
    app.add_middleware(Guard, token=token, max_body_bytes=limits.max_body_bytes, allowed_hosts=allowed_hosts)
    describe(app)
    return app


@router.get("/api/health", summary="Is the server well?")
async def health(request: Request) -> Health:
    """Version, uptime, limits, and whether the database can be read; never asks for the token."""
    service: Service = request.app.state.service
    limits = service.limits
    return Health(
        status="ok",
        version=service.version,
        uptime_s=time.monotonic() - service.started_s,
        has_database=await _has_database(service),
        has_gpu=service.sensors.is_there,
        limits={name: getattr(limits, name) for name in limits.__dataclass_fields__},
    )


async def _has_database(service: Service) -> bool | None:
    """Return whether the database can be read; None where that is not known soon.

    One thread asks, of no other's pool.
    """
    look = service.look
    if look is None or look.done():
        look = asyncio.ensure_future(anyio.to_thread.run_sync(service.store.is_readable, limiter=service.looking))
        service.look = look  # who asks after this one's end replaces it while others still wait for it
    await asyncio.wait({look}, timeout=HEALTH_WAIT_S)
    return look.result() if look.done() else None


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(min(before_s, SWITCH_INTERVAL_S))
    has_ended = threading.Event()
    warm_up = partial(_warm_up, service, has_ended)
    threading.Thread(target=warm_up, name="roofline-warm-up", daemon=True).start()
    try:
        yield
    finally:
        has_ended.set()
        gc.unfreeze()
        service.store.close()
        sys.setswitchinterval(before_s)


def _warm_up(service: Service, has_ended: threading.Event) -> None:
    """Import and read what the first requests need, beside the server that answers already."""
    if has_ended.wait(WARM_UP_AFTER_S):
        return
    with contextlib.suppress(ProblemError):  # there is none; who asks for it is told
        service.this_machine.handle()
    _warm_model()
    for name in (
        "reports.api.stored.pages",
        "reports.present.answers.diff",
        "reports.present.answers.history",
        "results.diff.suites",
        "results.history.case_history",
        "results.store.store",
    ):
        importlib.import_module(name)
    if not has_ended.is_set():
        gc.freeze()  # what was imported stays: looking through it again and again would hold all answers up for 70 ms


def _warm_model() -> None:
    """Read a chip, its constants and numpy: what every recommendation and sweep needs."""
    from reports.api.catalog.chip_lookup import DEFAULT_CHIP, find_chip
    from reports.api.predict.product import recommendation
    from roofline_model.sweep import GemmGrid, format_pairs, sweep_gemm

    chip = find_chip(DEFAULT_CHIP)
    recommendation(chip.key, (1, 4096, 4096), None, None, None, None)
    sweep_gemm(GemmGrid((1,), (4096,), (4096,), (chip,), format_pairs(["FP16"])))


def _version() -> str:
    try:
        return metadata.version("roofline-bench")
    except metadata.PackageNotFoundError:
        return "checkout"
