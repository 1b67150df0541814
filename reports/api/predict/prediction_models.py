"""What every prediction of the API says: ideal time, expected time, and what both were made from."""

from __future__ import annotations

from pydantic import Field

from reports.api.predict.base_models import Answer, FindingBody


class Predicted(Answer):
    """The ideal time and what bounds it, of a kernel or of a whole pass."""

    hardware: str = Field(description="key of the chip")
    time_s: float = Field(description="ideal time, the speed of light, seconds")
    bound: str = Field(description="memory or compute: which of bytes and FLOPs takes the longer time")
    flops: float = Field(description="work, FLOP")
    provenance: str = Field(
        description="status of the weakest number used: datasheet, measured, derived, …, placeholder"
    )
    expected_reason: str | None = Field(description="why no expected time is known; null where one is")
    kernel_gap: FindingBody | None = Field(
        description="why no kernel is known to run these formats on this chip, though its numbers allow them; null where none is known to be missing"
    )
    findings: list[FindingBody] = Field(description="what to know about it, may be empty")
