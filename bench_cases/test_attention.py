"""Attention in prefill and decode: fused kernels one by one, and the three kernels without fusion for contrast."""

from __future__ import annotations

from typing import Any

from bench_cases.kernels.measured_case import measure_case
from bench_cases.kernels.spec import CaseSpec


def test_attention(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)


def test_unfused_attention(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)
