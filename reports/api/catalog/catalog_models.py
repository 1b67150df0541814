"""The answers of the sensors and of the server itself."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from reports.api.base_models import Answer, Document


class NvmlReading(Answer):
    """What the GPU's sensors say now; what a chip refuses is null."""

    power_w: float | None = Field(description="watts")
    sm_clock_hz: float | None = Field(description="clock of the SMs, Hz")
    memory_clock_hz: float | None = Field(description="clock of the memory, Hz")
    temperature_c: float | None = Field(description="degrees Celsius")
    utilization_ratio: float | None = Field(description="share of the last sensor period with a kernel running")
    memory_used_bytes: float | None = Field(description="bytes")
    throttle_reasons: list[str] | None = Field(description="why the clock is below its maximum now")


class NvmlStatus(Document):
    """Whether there is a GPU to watch, and what it says."""

    available: bool = Field(description="whether there is a GPU that can be watched")
    reason: str | None = Field(description="why not; null where available")
    name: str | None = Field(description="product name")
    measured_at: str = Field(description="UTC, ISO 8601")
    reading: NvmlReading | None = Field(description="what its sensors say; null without a GPU")


class Health(Document):
    """Whether the server can answer."""

    status: Literal["ok"] = Field(description="ok: the server answers")
    version: str = Field(description="version of roofline-bench")
    uptime_s: float = Field(description="seconds since start")
    has_database: bool | None = Field(
        description=(
            "whether the results database can be read now; null in the server's first second, and where the database "
            "says nothing within a second"
        )
    )
    has_gpu: bool = Field(description="whether sensors of a GPU are watched")
    limits: dict[str, Any] = Field(description="limits of this server; the unit is in each name")
