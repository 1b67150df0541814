"""Requests and answers about one product: analyze, recommend, tiling, sweep."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from reports.api.predict.base_models import (
    CACHE_TEXT,
    RATE_TEXT,
    Answer,
    CacheName,
    Dimension,
    FormatName,
    PhaseName,
    Request,
)

_SHAPE = {"M": 1, "N": 4096, "K": 4096}


def _with_examples(*bodies: dict[str, Any]) -> ConfigDict:
    return ConfigDict(**Request.model_config, json_schema_extra={"examples": list(bodies)})


class ProductRequest(Request):
    """C(M×N) = A(M×K)·B(K×N): B is the weight."""

    M: Dimension = Field(description="rows of A and C: tokens in flight, count")
    N: Dimension = Field(description="columns of B and C: output features, count")
    K: Dimension = Field(description="columns of A, rows of B: input features, count")


class AnalyzeRequest(ProductRequest):
    """One product in one pair of formats."""

    model_config = _with_examples(
        {**_SHAPE, "precision": "FP16"}, {**_SHAPE, "precision": "BF16", "weight_precision": "INT4"}
    )

    precision: FormatName = Field(default="FP16", description="format of both operands, or of the activation A alone")
    weight_precision: FormatName | None = Field(
        default=None, description="format of the weight B where it is another one"
    )
    cache: CacheName = Field(default="cold", description=CACHE_TEXT)


class RecommendRequest(ProductRequest):
    """Which format should this product use?"""

    model_config = _with_examples(_SHAPE, {"M": 2048, "N": 4096, "K": 4096, "phase": "prefill"})

    phase: PhaseName | None = Field(default=None, description="label; default: decode up to M = 16, prefill above")
    memory_limit_gb: float | None = Field(
        default=None, gt=0, le=1e9, description="what does not fit is excluded; decimal gigabytes (1e9 bytes)"
    )
    model_parameters: float | None = Field(
        default=None,
        gt=0,
        le=1e15,
        description="parameters of the whole model for the limit, count; without it the limit is on this product's operands",
    )
    formats: Annotated[list[FormatName], Field(min_length=1, max_length=24)] | None = Field(
        default=None, description="formats to weigh in place of the usual ones"
    )


class TilingRequest(ProductRequest):
    """Which tile does this product get?"""

    model_config = _with_examples({"M": 512, "N": 7168, "K": 4096, "precision": "BF16"})

    precision: FormatName = Field(default="BF16", description="format of both operands, or of the activation A alone")
    weight_precision: FormatName | None = Field(
        default=None, description="format of the weight B where it is another one"
    )
    cache: CacheName = Field(default="cold", description=CACHE_TEXT)


Axis = Annotated[
    Dimension
    | Annotated[list[Dimension], Field(min_length=1, max_length=100_000)]
    | Annotated[str, Field(strict=True, min_length=1, max_length=200)],
    Field(description="one size, a list of sizes, or text: `1,16,64`, `128:1024:128` or `1:4096:*2` (stop included)"),
]


class SweepRequest(Request):
    """Every combination of sizes, chips and formats; at most `max_sweep_points` of them."""

    model_config = _with_examples({"M": "1:4096:*2", "N": 4096, "K": 4096, "formats": ["FP16", "FP8", "INT4.BF16"]})

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
