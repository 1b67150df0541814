"""What every prediction of the API says: ideal time, expected time, and what both were made from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reports.api.predict.base_models import RATE_TEXT, Answer, ExpectedTime, FindingBody


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


class PredictedKernel(Predicted):
    """One kernel on one chip: its ideal roofline with every part, and the expected time beside it."""

    bound: Literal["memory", "compute"] = Field(description="which of bytes and FLOPs takes the longer time")
    hardware_name: str = Field(description="name of the chip")
    is_placeholder: bool = Field(description="the chip's numbers are invented, for examples only")
    op: str = Field(description="gemv (a product with M up to 16), gemm or attention")
    activation_format: str = Field(description="format key of the activation: A of a product, Q of attention")
    output_format: str = Field(description="format key of the output: C of a product, O of attention")
    memory_time_s: float = Field(description="bytes over bandwidth, seconds")
    compute_time_s: float = Field(description="FLOPs over dense peak, seconds")
    read_bytes: float = Field(description="every input read once, bytes, scales included")
    write_bytes: float = Field(description="the output written once, bytes")
    intensity_flop_per_byte: float = Field(description="arithmetic intensity, FLOP per byte")
    critical_intensity_flop_per_byte: float = Field(description="ridge point: peak over bandwidth, FLOP per byte")
    rate_flops_per_s: float = Field(description="flops over time_s, FLOP per second")
    bandwidth_bytes_per_s: float = Field(description="of the memory level used, bytes per second")
    peak_flops_per_s: float = Field(description=RATE_TEXT)
    memory_level: str = Field(description="level whose bandwidth was used: DRAM, or a cache")
    path: str = Field(description="native, emulated, or dequantize (widened to 16 bit first)")
    compute_format: str = Field(description="format whose unit does the arithmetic")
    baseline_format: str | None = Field(
        description="16-bit format that the speed-ups refer to; null where the chip has none"
    )
    speedup_ratio: float | None = Field(description="ideal time of the baseline over time_s")
    expected: ExpectedTime | None = Field(
        description="what a good kernel takes; null with a reason where no model is known"
    )
    expected_speedup_ratio: float | None = Field(description="expected time of the baseline over expected.time_s")
    model_version: str = Field(description="version of the ideal model")
