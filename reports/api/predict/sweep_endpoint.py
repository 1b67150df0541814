"""POST /api/sweep: vectorised predictions in a process or thread of its own, piece by piece, so that nothing else waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip
from reports.api.catalog.this_machine import own_chip
from reports.api.http.compute_limiter import check_is_wanted
from reports.api.http.strict_route import StrictRoute
from reports.api.http.worker_pool import WorkerPool
from reports.api.predict import sweep_pieces
from reports.api.predict.analysis_models import SweepAnswer, SweepRequest
from reports.api.predict.sweep_pieces import Columns

router = APIRouter(tags=["grids"], route_class=StrictRoute)

PIECE_BYTES = 131_072
"""What is sent at a time, about."""


@router.post("/api/sweep", response_model=SweepAnswer, summary="Predict a whole grid")
async def sweep(request: Request, body: SweepRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> StreamingResponse:
    """Ideal and expected times of every combination of sizes, chips and formats, as columns."""
    service = request.app.state.service
    if body.hardware is None:
        keys = [asked_chip(request, hardware_key)]
    else:
        keys = [asked_chip(request, name, "hardware", "body") for name in body.hardware]
    # A worker knows the catalog; what this machine measured about itself is sent along.
    chips = [own_chip(key) or key for key in dict.fromkeys(keys)]
    async with service.sweeping.taken(request):
        parts = await _answer(request, service.workers, body, chips, service.limits.max_sweep_points_count)
    length = sum(map(len, parts))
    return StreamingResponse(_slices(parts), media_type="application/json", headers={"Content-Length": str(length)})


async def _answer(
    request: Request, workers: WorkerPool, body: SweepRequest, chips: Sequence[sweep_pieces.Chip], most: int
) -> list[bytes]:
    """Return the `SweepAnswer` as parts of its JSON, each small enough to take in and hand on at once.

    Ends the request between two pieces where its client went.
    """
    plan = await workers.run(sweep_pieces.plan, body, chips, most)
    shapes = await workers.run(sweep_pieces.shapes, plan.axes)
    series: list[list[Columns]] = [[] for _ in range(plan.series_count)]
    for piece in plan.pieces:
        await check_is_wanted(request)
        for found in await workers.run(sweep_pieces.columns, piece, body.cache, body.with_expected):
            series[found.series_index].append(found)
    parts = [b'{"point_count":%d,"cache":"%s","shapes":' % (plan.point_count, body.cache.encode()), *shapes]
    for place, pieces in enumerate(series):
        parts += [b"," if place else b',"series":[', *_series(pieces)]
    return [*parts, b"]}"]


def _series(pieces: Sequence[Columns]) -> Iterable[bytes]:
    """Give one `SweepSeries` as parts of its JSON."""
    head = pieces[0].head
    for key in ("reason", "provenance"):
        head[key] = next((piece.head[key] for piece in pieces if piece.head[key]), None)
    yield to_json(head)[:-1]
    for name in pieces[0].lists:
        for place, piece in enumerate(pieces):
            yield b"," if place else b',"%s":[' % name.encode()
            yield piece.lists[name]
        yield b"]"
    yield b"}"


async def _slices(parts: Sequence[bytes]) -> AsyncIterator[bytes]:
    """Give the parts together where they are small; between two of them others are answered."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
            await asyncio.sleep(0)  # a socket that takes all at once would not let go of the loop by itself
    if waiting:
        yield b"".join(waiting)
