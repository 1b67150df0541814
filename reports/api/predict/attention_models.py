"""Requests about fused attention: its prediction, and the formats of its cache ranked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from reports.api.predict.base_models import Dimension, FormatName, Request

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
