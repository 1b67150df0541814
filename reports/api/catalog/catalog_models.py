"""Answers from the catalogs (chips, formats, models), the sensors and the server itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from reports.api.predict.base_models import RATE_TEXT, Answer, Dimension, FormatName, PhaseName, Request


class QuantityBody(Answer):
    """One number of a chip and where it comes from."""

    value: float = Field(description="in `unit`")
    unit: str = Field(description="SI: B/s, FLOP/s, B, Hz, W, or empty for a count")
    status: str = Field(
        description="datasheet, measured, derived, secondary, unconfirmed, placeholder, declared, measured-here"
    )
    source: str = Field(description="document or measurement")
    clock_hz: float | None = Field(description="clock that a rate belongs to, Hz")
    note: str = Field(description="remark, may be empty")


class PathBody(Answer):
    """How a chip computes with operands of one format."""

    format: str = Field(description="format key")
    kind: str = Field(description="native, emulated or dequantize")
    compute_format: str = Field(description="format whose unit does the arithmetic")
    dense_flops_per_s: float = Field(description=RATE_TEXT)
    sparse_flops_per_s: float | None = Field(description="2:4-sparse FLOP per second where published; never used")
    critical_intensity_flop_per_byte: float = Field(description="ridge point, FLOP per byte")
    status: str = Field(description="of the dense rate: datasheet, measured, …")
    source: str = Field(description="of the dense rate")
    reason: str = Field(description="why it is not native; empty where it is")


class CacheLevel(Answer):
    """A cache in front of DRAM."""

    name: str = Field(description="name of the level: L2, LLC, …")
    capacity_bytes: float = Field(description="bytes")
    bandwidth_bytes_per_s: float | None = Field(description="bytes per second; null where not known")


class HardwareSummary(Answer):
    """A chip in a line."""

    key: str = Field(description="name to ask with: hardware_key")
    name: str = Field(description="product name")
    kind: str = Field(description="gpu, cpu or custom")
    vendor: str = Field(description="who makes it; empty where not known")
    architecture: str = Field(
        description="generation of the chip, with its compute capability where it has one: Hopper sm_90; empty where not known"
    )
    aliases: list[str] = Field(description="other names that are understood")
    is_placeholder: bool = Field(description="its numbers are invented, for examples only")
    bandwidth_bytes_per_s: float = Field(description="DRAM bandwidth, bytes per second")
    capacity_bytes: float | None = Field(description="memory, bytes")
    dense_flops_per_s: dict[str, float] = Field(description=f"format → {RATE_TEXT}; native units only")
    baseline_format: str | None = Field(
        description="16-bit format of its faster unit, with which narrow formats are compared; null where it declares none"
    )
    model_baseline_formats: dict[str, str] = Field(
        description="wide_format of a model → 16-bit format that its speed-ups refer to on this chip; empty where it declares none"
    )


class HardwareList(Answer):
    """Every chip of the catalog, by key."""

    default_key: str = Field(description="chip used where a request names none")
    this_machine: HardwareSummary | None = Field(
        description="the chip of the server itself, which hardware_key=auto means; null with a reason"
    )
    this_machine_reason: str | None = Field(description="why it is not known; null where it is")
    hardware: list[HardwareSummary] = Field(description="every chip of the catalog")


class HardwareDetail(HardwareSummary):
    """A chip with every number and its source."""

    bandwidth: QuantityBody = Field(description="peak bandwidth of the memory, bytes per second")
    bandwidth_achieved: QuantityBody | None = Field(
        description="what of it a good kernel reaches, bytes per second; null where unknown"
    )
    capacity: QuantityBody | None = Field(description="size of the memory, bytes; null where unknown")
    levels: list[CacheLevel] = Field(description="caches, innermost first")
    paths: dict[str, PathBody] = Field(description="by format key")
    chip: dict[str, QuantityBody] = Field(description="everything else that is a number: sm_count, clocks, power, …")
    notes: list[str] = Field(description="remarks, may be empty")
    content_hash: str = Field(description="sixteen hex digits over every number")


class FormatBody(Answer):
    """How a number is stored."""

    key: str = Field(description="name to ask with")
    kind: str = Field(description="float, int or table")
    aliases: list[str] = Field(description="other names that are understood")
    element_bits: int = Field(description="significant bits of one element")
    container_bits: int | None = Field(description="bits an element occupies where that is more")
    nominal_bits: float = Field(description="bits per element, scales included")
    bytes_per_element: float = Field(description="nominal bytes per element")
    traffic_bytes_per_element: float = Field(description="bytes one element moves through memory")
    scale_overhead_ratio: float = Field(description="share of the nominal bits that are scales")
    block_elems: int | None = Field(description="elements of a block; null without block scales")
    max_value: float | None = Field(description="largest finite magnitude of an element, before scales")
    description: str = Field(description="what it is, in a sentence")


class FormatList(Answer):
    """The catalog of number formats."""

    formats: list[FormatBody] = Field(description="every format of the catalog")


class ModelSummary(Answer):
    """A language model of the catalog."""

    key: str = Field(description="name to ask with")
    layer_count: int = Field(description="layers, count")
    hidden_size: int = Field(description="width, elements")
    parameter_count: float = Field(description="parameters, count")
    active_parameter_count: float = Field(description="parameters that one token uses, count")
    max_context_tokens: int = Field(description="longest context, tokens")
    published_format: str | None = Field(description="format of the published weights")
    wide_format: str = Field(description="16-bit format in which the published model computes")
    source: str = Field(description="where the shape comes from")


class ModelList(Answer):
    """The models of the catalog, by key."""

    models: list[ModelSummary] = Field(description="every shipped model")


class ModelPredictRequest(Request):
    """One pass of a whole model."""

    model_config = ConfigDict(
        **Request.model_config,
        json_schema_extra={"examples": [{"phase": "decode", "context_tokens": 4096, "formats": "INT4.BF16"}]},
    )

    phase: PhaseName = Field(default="decode", description="decode: one new token per sequence; prefill: the prompt")
    batch_count: Dimension = Field(default=1, description="sequences, count")
    context_tokens: Dimension | None = Field(
        default=None, description="tokens per sequence; default 4096, or the model's longest"
    )
    formats: Annotated[str, Field(strict=True, min_length=1, max_length=81)] | None = Field(
        default=None, description="BF16, or weight.activation: INT4.BF16; default: as published"
    )
    kv_format: FormatName | None = Field(default=None, description="format of the KV cache; default: the activations'")
    attention_kernel: Annotated[str, Field(strict=True, min_length=1, max_length=40)] | None = Field(
        default=None,
        description="kernel whose attention time is expected: fa1, fa2, fa3, fa4, trtllm, cudnn, flashinfer; default: trtllm's",
    )
    wide_head: bool = Field(
        default=False,
        strict=True,
        description="keep head and embedding in 16 bit, as /recommend does; else `formats` holds for every matrix",
    )


class NvmlReading(Answer):
    """What the GPU's sensors say now; what a chip refuses is null."""

    power_w: float | None = Field(description="watts")
    sm_clock_hz: float | None = Field(description="clock of the SMs, Hz")
    memory_clock_hz: float | None = Field(description="clock of the memory, Hz")
    temperature_c: float | None = Field(description="degrees Celsius")
    utilization_ratio: float | None = Field(description="share of the last sensor period with a kernel running")
    memory_used_bytes: float | None = Field(description="bytes")
    throttle_reasons: list[str] | None = Field(description="why the clock is below its maximum now")


class NvmlStatus(Answer):
    """Whether there is a GPU to watch, and what it says."""

    available: bool = Field(description="whether there is a GPU that can be watched")
    reason: str | None = Field(description="why not; null where available")
    name: str | None = Field(description="product name")
    measured_at: str = Field(description="UTC, ISO 8601")
    reading: NvmlReading | None = Field(description="what its sensors say; null without a GPU")


class Health(Answer):
    """Whether the server can answer."""

    status: Literal["ok"] = Field(description="ok: the server answers")
    version: str = Field(description="version of roofline-bench")
    uptime_s: float = Field(description="seconds since start")
    has_database: bool | None = Field(
        description="whether the results database can be read now; null in the server's first second, and where the database says nothing within a second"
    )
    has_gpu: bool = Field(description="whether sensors of a GPU are watched")
    limits: dict[str, Any] = Field(description="limits of this server; the unit is in each name")
