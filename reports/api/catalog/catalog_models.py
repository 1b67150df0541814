"""What the catalogs are asked with, and the answers of the sensors and the server itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from reports.api.predict.base_models import Answer, Dimension, FormatName, PhaseName, Request


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
