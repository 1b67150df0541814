"""Request and answer about fused attention."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from reports.api.base_models import RATE_TEXT, Answer, Dimension, ExpectedTime, FormatName, Request

_DECODE = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128}


class AttentionRequest(Request):
    """softmax(Q·Kᵀ)·V of Q (B, Hq, Sq, D) with K and V (B, Hkv, Skv, D), as one kernel."""

    model_config = ConfigDict(
        **Request.model_config,
        json_schema_extra={
            "examples": [
                {**_DECODE, "precision": "FP16"},
                {**_DECODE, "Sq": 4096, "causal": True, "precision": "BF16", "kv_precision": "FP8_E4M3"},
            ]
        },
    )

    B: Dimension = Field(default=1, description="sequences, count")
    Hq: Dimension = Field(description="query heads, count")
    Hkv: Dimension | None = Field(default=None, description="key/value heads, count; default: Hq")
    Sq: Dimension = Field(default=1, description="new tokens of a sequence, count; 1: a decode step")
    Skv: Dimension | None = Field(
        default=None, description="tokens in the cache, new ones included, count; default: Sq"
    )
    D: Dimension = Field(description="elements of one head, count")
    causal: bool = Field(default=False, strict=True, description="whether a query sees no key behind its own")
    window: Dimension | None = Field(
        default=None, description="keys a query sees, itself among them, count; default: all"
    )
    precision: FormatName = Field(default="FP16", description="format of query and cache, or of the query alone")
    kv_precision: FormatName | None = Field(default=None, description="format of K and V where it is another one")


class AttentionAnalysis(Answer):
    """The ideal roofline of fused attention, the expected time, and the three kernels it replaces."""

    hardware: str = Field(description="key of the chip")
    hardware_name: str = Field(description="name of the chip")
    is_placeholder: bool = Field(description="the chip's numbers are invented, for examples only")
    op: str = Field(description="attention")
    B: int = Field(description="sequences, count")
    Hq: int = Field(description="query heads, count")
    Hkv: int = Field(description="key/value heads, count")
    Sq: int = Field(description="new tokens, count")
    Skv: int = Field(description="tokens in the cache, count")
    D: int = Field(description="elements of a head, count")
    causal: bool
    window: int | None = Field(description="keys a query sees, count; null: all")
    kv_format: str = Field(description="format key of K and V")
    activation_format: str = Field(description="format key of Q")
    output_format: str = Field(description="format key of O")
    kv_read_bytes: float = Field(description="bytes of K and V that the kernel reads")
    time_s: float = Field(description="ideal time of the fused kernel, seconds")
    unfused_time_s: float = Field(description="ideal time of the three kernels without fusion, seconds")
    memory_time_s: float = Field(description="bytes over bandwidth, seconds")
    compute_time_s: float = Field(description="FLOPs over dense peak, seconds")
    bound: Literal["memory", "compute"] = Field(description="which of the two is the longer one")
    flops: float = Field(description="work of the two products over the pairs that the mask leaves, FLOP")
    read_bytes: float = Field(description="Q, K and V read once, bytes, scales included")
    write_bytes: float = Field(description="O written once, bytes")
    intensity_flop_per_byte: float = Field(description="arithmetic intensity, FLOP per byte")
    critical_intensity_flop_per_byte: float = Field(description="ridge point: peak over bandwidth, FLOP per byte")
    rate_flops_per_s: float = Field(description="flops over time_s, FLOP per second")
    bandwidth_bytes_per_s: float = Field(description="of the memory level used, bytes per second")
    peak_flops_per_s: float = Field(description=RATE_TEXT)
    memory_level: str = Field(description="level whose bandwidth was used")
    path: str = Field(description="native, emulated, or dequantize (widened to 16 bit first)")
    compute_format: str = Field(description="format whose unit does the arithmetic")
    baseline_format: str | None = Field(description="16-bit format that the speed-ups refer to; null where the chip has none")  # fmt: skip
    speedup_ratio: float | None = Field(description="ideal time of the baseline over time_s")
    expected: ExpectedTime | None = Field(description="what a good kernel takes; null with a reason where no model is known")  # fmt: skip
    expected_reason: str | None = Field(description="why expected is null; null where it is not")
    expected_speedup_ratio: float | None = Field(description="expected time of the baseline over expected.time_s")
    provenance: str = Field(description="status of the weakest number used")
    notes: list[str] = Field(description="remarks, may be empty")
    model_version: str = Field(description="version of the ideal model")
