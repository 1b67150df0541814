"""Requests and answers about fused attention: its prediction, and the formats of its cache ranked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from reports.api.predict.analysis_models import Excluded
from reports.api.predict.base_models import Answer, Dimension, FindingBody, FormatName, Request

_DECODE: dict[str, Any] = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128}


class AttentionShape(Request):
    """softmax(Q·Kᵀ)·V of Q (B, Hq, Sq, D) with K and V (B, Hkv, Skv, D), as one kernel."""

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


class AttentionRequest(AttentionShape):
    """Fused attention in one pair of formats."""

    model_config = ConfigDict(
        **Request.model_config,
        json_schema_extra={
            "examples": [
                {**_DECODE, "precision": "FP16"},
                {**_DECODE, "Sq": 4096, "causal": True, "precision": "BF16", "kv_precision": "FP8_E4M3"},
            ]
        },
    )

    precision: FormatName = Field(default="FP16", description="format of query and cache, or of the query alone")
    kv_precision: FormatName | None = Field(default=None, description="format of K and V where it is another one")
    kernel: Annotated[str, Field(strict=True, min_length=1, max_length=40)] | None = Field(
        default=None,
        description="kernel whose time is expected: fa1, fa2, fa3, fa4, trtllm, cudnn, flashinfer; default: trtllm's, fitted",
    )


class AttentionRecommendRequest(AttentionShape):
    """Which format should the cache of this attention have?"""

    model_config = ConfigDict(
        **Request.model_config,
        json_schema_extra={"examples": [_DECODE, {**_DECODE, "precision": "BF16", "formats": ["FP8", "NVFP4"]}]},
    )

    precision: Literal["FP16", "BF16"] | None = Field(
        default=None,
        description="format of the query, and of the cache to compare with; default: the chip's baseline_format",
    )
    formats: Annotated[list[FormatName], Field(min_length=1, max_length=24)] | None = Field(
        default=None, description="formats of the cache to weigh in place of the usual ones"
    )


class CacheCandidate(Answer):
    """One format of the cache with its time, its bytes and its reason."""

    kv_format: str = Field(description="format key of K and V")
    path: str = Field(description="native, emulated or dequantize")
    time_s: float = Field(description="time it is ranked by, seconds")
    time_source: Literal["expected", "ideal"] = Field(description="kind of time_s")
    low_s: float | None = Field(description="lower end of the 80 % interval, seconds; null for an ideal time")
    high_s: float | None = Field(description="upper end of the 80 % interval, seconds; null for an ideal time")
    time_provenance: str | None = Field(description="of an expected time: fitted, transferred-sibling, …")
    ideal_s: float = Field(description="speed of light, seconds")
    speedup_ratio: float = Field(
        description="time with the 16-bit cache over this one, times of the same source; ideal against ideal where one has no expected time"
    )
    kv_bytes: float = Field(description="K and V of all sequences in this format, bytes, scales included")
    memory_saved_ratio: float = Field(description="share of the 16-bit cache that is saved")
    bound: str = Field(description="memory or compute, of the ideal time")
    quality: str = Field(description="what is known of the loss")
    reason: str = Field(description="why it stands where it stands")
    kernel_gap: FindingBody | None = Field(
        description="why no attention kernel is known to read it on this chip: it is ranked last; null where none is known to be missing"
    )


class AttentionRecommendation(Answer):
    """The formats of the cache, best first."""

    hardware: str = Field(description="key of the chip")
    phase: str = Field(description="decode (one new token) or prefill")
    B: int = Field(description="sequences, count")
    Hq: int = Field(description="query heads, count")
    Hkv: int = Field(description="key/value heads, count")
    Sq: int = Field(description="new tokens, count")
    Skv: int = Field(description="tokens in the cache, count")
    D: int = Field(description="elements of a head, count")
    causal: bool = Field(description="whether a query sees only the keys up to its own place")
    window: int | None = Field(description="keys a query sees, count; null: all")
    activation_format: str = Field(description="format key of the query")
    summary: str = Field(description="the decision in a sentence")
    ranked_by: Literal["expected", "ideal"] = Field(description="kind of time the ranking goes by")
    best: CacheCandidate = Field(description="the format to take")
    baseline: CacheCandidate = Field(description="the 16-bit cache that speed-ups are counted against")
    candidates: list[CacheCandidate] = Field(description="best first")
    excluded: list[Excluded] = Field(description="formats that are not ranked, with the reason")
    findings: list[FindingBody] = Field(description="what to know about it, may be empty")
