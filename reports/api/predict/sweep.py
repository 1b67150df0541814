"""POST /api/sweep: vectorised predictions of a whole grid; `router` is what the app includes.

They are computed in a thread, column by column, so that the server answers others in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field
from pydantic_core import to_json

from reports.api.answer_models import json_response
from reports.api.base_models import CACHE_TEXT, RATE_TEXT, Answer, CacheName, Dimension, Document, RequestBody
from reports.api.catalog.chip_lookup import DEFAULT_CHIP, HardwareKey, asked_chip, find_chip
from reports.api.http.problem import ProblemError, naming, wrong_field
from reports.api.http.service import computed
from reports.present.display_text import counted
from reports.present.encoder import SCHEMA_VERSION
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import NumberFormat
from roofline_model.operators.product import compute_format

router = APIRouter(tags=["grids"])

Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
Pair = tuple[NumberFormat, NumberFormat]

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


class SweepAnswer(Document):
    """Times over a grid."""

    point_count: int = Field(description="predictions in all: shapes × series, count")
    cache: str = Field(description=CACHE_TEXT)
    shapes: SweepShapes = Field(description="sizes of the points, as columns")
    series: list[SweepSeries] = Field(description="times of each chip and pair of formats, as columns along shapes")


@router.post("/api/sweep", response_model=SweepAnswer, summary="Predict a whole grid")
async def sweep(request: Request, body: SweepRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> Response:
    """Ideal and expected times of every combination of sizes, chips and formats, as columns."""
    if body.hardware is None:
        keys = [asked_chip(request, hardware_key)]
    else:
        keys = [asked_chip(request, name, "hardware", "body") for name in body.hardware]
    most = request.app.state.service.limits.max_sweep_points_count
    return json_response(await computed(request, sweep_json, body, dict.fromkeys(keys), most))


def sweep_json(body: SweepRequest, chip_keys: Iterable[str], most: int) -> bytes:
    """Return the `SweepAnswer` as JSON; raises `ProblemError` that names the field of a wrong axis or format, or says
    it is too large.
    """
    from roofline_model.sweep import format_pairs

    chips = [find_chip(key) for key in chip_keys]
    with naming("formats"):
        pairs = tuple(dict.fromkeys(format_pairs(body.formats)))
    axes = (_axis("M", body.M, most), _axis("N", body.N, most), _axis("K", body.K, most))
    shape_count = prod(map(len, axes))
    point_count = shape_count * len(chips) * len(pairs)
    if point_count > most:
        what = (
            f"{point_count:,} predictions: {counted(shape_count, 'product')} × {counted(len(chips), 'chip')} × "
            f"{counted(len(pairs), 'format')}"
        )
        raise _too_many("M", what, most)
    columns = zip("MNK", zip(*product(*axes), strict=True), strict=True)
    series = [_series(chip, pair, axes, body) for chip in chips for pair in pairs]
    document = {
        "schema_version": SCHEMA_VERSION,
        "point_count": point_count,
        "cache": body.cache,
        "shapes": dict(columns),
        "series": series,
    }
    return to_json(document, inf_nan_mode="null")


def _series(chip: Device, pair: Pair, axes: Axes, body: SweepRequest) -> dict[str, Any]:
    """Return one `SweepSeries`."""
    from roofline_model.sweep import GemmGrid, sweep_gemm

    weight, activation = pair
    table = sweep_gemm(GemmGrid(*axes, (chip,), (pair,)), cache=body.cache, with_expected=body.with_expected)
    expected = {
        name: table[name].tolist() if body.with_expected else None
        for name in ("expected_s", "expected_low_s", "expected_high_s")
    }
    return {
        "hardware": chip.key,
        "weight_format": weight.key,
        "activation_format": activation.key,
        "reason": next(map(str, filter(None, table["reason"])), None),
        "provenance": next(map(str, filter(None, table["provenance"])), None) if body.with_expected else None,
        "peak_flops_per_s": _peak(chip, pair),
        "bandwidth_bytes_per_s": chip.bandwidth.value,
        "ideal_s": table["ideal_s"].tolist(),
        "is_memory_bound": [{"memory": True, "compute": False}.get(bound) for bound in table["bound"]],
        "intensity_flop_per_byte": (table["flops"] / table["bytes"]).tolist(),
        **expected,
    }


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
    return wrong_field(field, message, slug="sweep-too-large")


def _peak(chip: Device, pair: Pair) -> float | None:
    weight, activation = pair
    try:
        return chip.peak_flops_per_s(compute_format(activation, weight))
    except UnsupportedError:
        return None
