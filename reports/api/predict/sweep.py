"""POST /api/sweep: vectorised predictions of a whole grid; `router` is what the app includes.

They are computed in a process or thread of its own, piece by piece, so that the server stays free between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field
from pydantic_core import to_json

from reports.api.base_models import CACHE_TEXT, RATE_TEXT, Answer, CacheName, Dimension, RequestBody
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip, find_chip
from reports.api.catalog.this_machine import own_chip
from reports.api.http.compute_limiter import check_is_wanted
from reports.api.http.problem import FieldProblem, ProblemError, naming
from reports.api.http.strict_route import StrictRoute
from reports.api.http.worker_pool import WorkerPool
from reports.text.display_text import counted
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import NumberFormat
from roofline_model.operators.product import compute_format

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

router = APIRouter(tags=["grids"], route_class=StrictRoute)

PIECE_BYTES = 131_072
"""What is sent at a time, about."""
PIECE_ROWS = 8_192
"""Rows of a piece: long enough for numpy, short enough to hold no lock for long and to arrive at once."""
MOST_GRIDS = 64
"""Small grids of several chips and formats that make up a piece: each takes milliseconds, however small."""

Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
Pair = tuple[NumberFormat, NumberFormat]
Chip = str | Device
"""A key of the catalog, or a chip that no worker knows by a name."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Some of the products of one series."""

    series_index: int
    chip: Chip
    pair: Pair
    sizes: Axes


@dataclass(frozen=True, slots=True)
class Columns:
    """What was predicted of a `Grid`."""

    series_index: int
    head: dict[str, Any]
    """The fields of `SweepSeries` that are no lists."""
    lists: dict[str, bytes]
    """Column → the inside of its JSON list."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep that was found possible."""

    axes: Axes
    point_count: int
    series_count: int
    pieces: tuple[tuple[Grid, ...], ...]
    """In the order of the series and of their products."""


Axis = Annotated[
    Dimension
    | Annotated[list[Dimension], Field(min_length=1, max_length=100_000)]
    | Annotated[str, Field(strict=True, min_length=1, max_length=200)],
    Field(description="one size, a list of sizes, or text: `1,16,64`, `128:1024:128` or `1:4096:*2` (stop included)"),
]


class SweepRequest(RequestBody):
    """Every combination of sizes, chips and formats; at most `max_sweep_points` of them."""

    model_config = ConfigDict(
        **RequestBody.model_config,
        json_schema_extra={
            "examples": [{"M": "1:4096:*2", "N": 4096, "K": 4096, "formats": ["FP16", "FP8", "INT4.BF16"]}]
        },
    )

    M: Axis
    N: Axis
    K: Axis
    formats: Annotated[
        list[Annotated[str, Field(strict=True, min_length=1, max_length=81)]], Field(min_length=1, max_length=64)
    ] = Field(
        default=["FP16", "FP8_E4M3", "NVFP4", "INT4.FP16"],
        description="`FP16` for both operands, or weight.activation: `INT4.BF16`",
    )
    hardware: (
        Annotated[
            list[Annotated[str, Field(strict=True, min_length=1, max_length=60)]], Field(min_length=1, max_length=24)
        ]
        | None
    ) = Field(default=None, description="keys of chips to compare; default: the chip of `hardware_key`")
    cache: CacheName = Field(default="cold", description=CACHE_TEXT)
    with_expected: bool = Field(default=True, strict=True, description="ideal times only where false: ten times faster")


class SweepShapes(Answer):
    """The products of every series, in one order: M slowest, K fastest."""

    M: list[int] = Field(description="rows, count")
    N: list[int] = Field(description="columns, count")
    K: list[int] = Field(description="inner size, count")


class SweepSeries(Answer):
    """One chip in one pair of formats; lists run along `shapes`."""

    hardware: str = Field(description="key of the chip")
    weight_format: str = Field(description="format key of B")
    activation_format: str = Field(description="format key of A")
    reason: str | None = Field(description="why times are missing; null where none is")
    provenance: str | None = Field(description="where the constants of the expected times come from")
    peak_flops_per_s: float | None = Field(description=RATE_TEXT)
    bandwidth_bytes_per_s: float = Field(description="DRAM bandwidth, bytes per second")
    ideal_s: list[float | None] = Field(description="seconds")
    is_memory_bound: list[bool | None] = Field(description="of the ideal time")
    intensity_flop_per_byte: list[float | None] = Field(description="FLOP per byte")
    expected_s: list[float | None] | None = Field(description="seconds; null without with_expected")
    expected_low_s: list[float | None] | None = Field(description="lower end of the 80 % interval, seconds")
    expected_high_s: list[float | None] | None = Field(description="upper end of the 80 % interval, seconds")


class SweepAnswer(Answer):
    """Times over a grid."""

    point_count: int = Field(description="predictions in all: shapes × series, count")
    cache: str = Field(description=CACHE_TEXT)
    shapes: SweepShapes = Field(description="sizes of the points, as columns")
    series: list[SweepSeries] = Field(description="times of each chip and pair of formats, as columns along shapes")


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
    request: Request, workers: WorkerPool, body: SweepRequest, chips: Sequence[Chip], most: int
) -> list[bytes]:
    """Return the `SweepAnswer` as parts of its JSON, each small enough to take in and hand on at once.

    Ends the request between two pieces where its client went.
    """
    plan = await workers.run(sweep_plan, body, chips, most)
    shapes = await workers.run(shapes_json, plan.axes)
    series: list[list[Columns]] = [[] for _ in range(plan.series_count)]
    for piece in plan.pieces:
        await check_is_wanted(request)
        for columns in await workers.run(predicted_columns, piece, body.cache, body.with_expected):
            series[columns.series_index].append(columns)
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


def sweep_plan(body: SweepRequest, chips: Sequence[Chip], most: int) -> Plan:
    """Check a sweep and cut it; raises `ProblemError` that names the field of a wrong axis or format, or says it is too
    large.
    """
    from roofline_model.sweep import format_pairs

    with naming("formats"):
        pairs = tuple(dict.fromkeys(format_pairs(body.formats)))
    axes = (_axis("M", body.M, most), _axis("N", body.N, most), _axis("K", body.K, most))
    shape_count = len(axes[0]) * len(axes[1]) * len(axes[2])
    series = [(chip, pair) for chip in chips for pair in pairs]
    point_count = shape_count * len(series)
    if point_count > most:
        raise _too_many(
            "M",
            f"{point_count:,} predictions: {counted(shape_count, 'product')} × {counted(len(chips), 'chip')} × "
            f"{counted(len(pairs), 'format')}",
            most,
        )
    cut = tuple(_pieces(axes))
    together = min(MOST_GRIDS, max(1, PIECE_ROWS // shape_count))
    grids = [Grid(place, chip, pair, sizes) for place, (chip, pair) in enumerate(series) for sizes in cut]
    pieces = tuple(tuple(grids[at : at + together]) for at in range(0, len(grids), together))
    return Plan(axes, point_count, len(series), pieces)


def predicted_columns(grids: Sequence[Grid], cache: str, with_expected: bool) -> list[Columns]:
    """Predict the grids of a piece."""
    return [_columns(grid, cache, with_expected) for grid in grids]


def _columns(grid: Grid, cache: str, with_expected: bool) -> Columns:
    from roofline_model.sweep import GemmGrid, sweep_gemm

    chip = grid.chip if isinstance(grid.chip, Device) else find_chip(grid.chip)
    weight, activation = grid.pair
    table = sweep_gemm(GemmGrid(*grid.sizes, (chip,), (grid.pair,)), cache=cache, with_expected=with_expected)
    provenance = str(table["provenance"].iat[0]) if with_expected else ""
    head = {
        "hardware": chip.key,
        "weight_format": weight.key,
        "activation_format": activation.key,
        "reason": str(table["reason"].iat[0]) or None,
        "provenance": provenance or None,
        "peak_flops_per_s": _peak(chip, grid.pair),
        "bandwidth_bytes_per_s": chip.bandwidth.value,
    }
    if not with_expected:
        head |= dict.fromkeys(("expected_s", "expected_low_s", "expected_high_s"))
    lists = {name: _list_items(values) for name, values in _values(table, with_expected).items()}
    return Columns(grid.series_index, head, lists)


def _axis(name: str, given: int | list[int] | str, most: int) -> tuple[int, ...]:
    """Return the sizes of one axis, sorted, each once."""
    from roofline_model.sweep import parse_axis

    if isinstance(given, int):
        return (given,)
    if isinstance(given, list):
        return tuple(sorted(set(given)))
    for part in given.split(","):
        bounds = [piece.strip() for piece in part.split(":")]
        # A range is counted before it is made: it may name a million sizes in a few characters.
        if len(bounds) == 3 and all(bound.isdecimal() and bound.isascii() and len(bound) < 12 for bound in bounds):
            start, stop, step = map(int, bounds)
            if step and (stop - start) // step >= most:
                raise _too_many(name, f"{(stop - start) // step + 1:,} sizes in {part.strip()[:40]!r}", most)
    with naming(name):
        return parse_axis(name, given)


def _too_many(field: str, what: str, most: int) -> ProblemError:
    message = f"the sweep has {what}, more than {most:,}: use coarser steps, fewer formats or fewer chips"
    return ProblemError(
        422, "sweep-too-large", message, fields=(FieldProblem(field=field, location="body", message=message),)
    )


def _values(table: pd.DataFrame, with_expected: bool) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    ideal_s = table["ideal_s"].to_numpy()
    bound = table["bound"].to_numpy(dtype=object)
    is_memory = np.full(len(bound), None, dtype=object)
    is_memory[bound == "memory"], is_memory[bound == "compute"] = True, False
    values = {
        "ideal_s": ideal_s,
        "is_memory_bound": is_memory,
        "intensity_flop_per_byte": table["flops"].to_numpy() / table["bytes"].to_numpy(),
    }
    if with_expected:
        values |= {name: table[name].to_numpy() for name in ("expected_s", "expected_low_s", "expected_high_s")}
    return values


def _peak(chip: Device, pair: Pair) -> float | None:
    weight, activation = pair
    try:
        return chip.peak_flops_per_s(compute_format(activation, weight))
    except UnsupportedError:
        return None


def shapes_json(axes: Axes) -> list[bytes]:
    """Return `SweepShapes` as parts of its JSON: M slowest, K fastest."""
    m, n, k = axes
    inner = len(n) * len(k)
    listed = {
        "M": [size for size in m for _ in range(inner)],
        "N": [size for size in n for _ in k] * len(m),
        "K": list(k) * (len(m) * len(n)),
    }
    parts: list[bytes] = []
    for name, values in listed.items():
        parts += [b'%s"%s":[' % (b"," if parts else b"{", name.encode()), _list_items(values), b"]"]
    return [*parts, b"}"]


def _list_items(values: Any) -> bytes:
    """Return numbers as the inside of a JSON list; NaN and infinity become null."""
    return to_json(values if isinstance(values, list) else values.tolist(), inf_nan_mode="null")[1:-1]


def _pieces(axes: Axes) -> Iterator[Axes]:
    """Cut a grid into grids of at most `PIECE_ROWS` products that follow each other in its own order."""
    m, n, k = axes
    if len(m) * len(n) * len(k) <= PIECE_ROWS:
        yield axes
        return
    # The slowest axis that has more than one size is halved, so that the order stays.
    at = next(index for index, axis in enumerate(axes) if len(axis) > 1)
    middle = len(axes[at]) // 2
    for half in (axes[at][:middle], axes[at][middle:]):
        cut = [*axes]
        cut[at] = half
        yield from _pieces((cut[0], cut[1], cut[2]))
