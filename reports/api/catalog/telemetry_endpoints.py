"""GET /api/nvml/status and /api/nvml/stream: what the GPU's sensors say, once or live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from reports.api.catalog.catalog_models import NvmlStatus
from reports.api.http.problem import FieldProblem, ProblemError
from reports.api.http.service import Service
from reports.api.http.strict_route import StrictRoute

router = APIRouter(tags=["sensors"], route_class=StrictRoute)

MOST_INTERVAL_S = 60.0
MOST_READINGS = 86_400

Interval = Annotated[
    float,
    Query(
        gt=0,
        le=MOST_INTERVAL_S,
        allow_inf_nan=False,
        description="time between two readings, seconds; the server's least is in /api/health",
    ),
]
Count = Annotated[
    int | None, Query(ge=1, le=MOST_READINGS, description="end after so many readings, count; default: never")
]

_EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "one server-sent event",
    "properties": {
        "event": {"type": "string", "enum": ["reading", "unavailable"]},
        "data": {"type": "string", "description": "an NvmlStatus as JSON"},
    },
    "required": ["event", "data"],
}


@router.get("/api/nvml/status", response_model=NvmlStatus, summary="Read the GPU's sensors once")
def status(request: Request) -> NvmlStatus:
    """Power, clocks, temperature, load and memory now; without a GPU, why there is none."""
    return request.app.state.service.sensors.read()


@router.get(
    "/api/nvml/stream",
    summary="Watch the GPU's sensors",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": _EVENT_SCHEMA}}}},
)
async def stream(request: Request, interval_s: Interval = 1.0, count: Count = None) -> StreamingResponse:
    """Server-sent events: a `reading` each interval until the client goes; one `unavailable` where there is no GPU."""
    service: Service = request.app.state.service
    least_s = service.limits.min_stream_interval_s
    if interval_s < least_s:
        message = f"interval_s must be at least {least_s:g} seconds, got {interval_s:g}"
        raise ProblemError(
            422, "invalid-value", message, fields=(FieldProblem(field="interval_s", location="query", message=message),)
        )
    headers = {"Cache-Control": "no-store"}
    if not service.sensors.is_there:
        return StreamingResponse(_unavailable(service), media_type="text/event-stream", headers=headers)
    return _Stream(service, _events(service, interval_s, count), media_type="text/event-stream", headers=headers)


class _Stream(StreamingResponse):
    """A stream that has one of the server's places from before its first byte until it ends, however it ends."""

    def __init__(self, service: Service, events: AsyncIterator[bytes], **options: Any) -> None:
        super().__init__(events, **options)
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; ends the request with 503 where all places are taken."""
        service = self._service
        if service.stream_count >= service.limits.max_streams_count:
            raise ProblemError(
                503,
                "too-many-streams",
                f"{service.stream_count} streams are open, the most of this server; close one or ask /api/nvml/status",
                headers={"Retry-After": "10"},
            )
        service.stream_count += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            service.stream_count -= 1


async def _unavailable(service: Service) -> AsyncIterator[bytes]:
    yield _event("unavailable", service.sensors.read())


async def _events(service: Service, interval_s: float, count: int | None) -> AsyncIterator[bytes]:
    """Yield the events; the client's going, or the server's, ends this."""
    sent = 0
    while not service.closing.is_set:
        yield _event("reading", await anyio.to_thread.run_sync(service.sensors.read, limiter=service.watching))
        sent += 1
        if count is not None and sent >= count:
            return
        await service.closing.within(interval_s)


def _event(name: str, status: NvmlStatus) -> bytes:
    return f"event: {name}\ndata: {status.model_dump_json()}\n\n".encode()
