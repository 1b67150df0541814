"""Matrix products of prefill: many tokens against a weight matrix."""

from __future__ import annotations

from typing import Any

from bench_cases.kernels.measured_case import measure_case
from bench_cases.kernels.spec import CaseSpec


def test_gemm(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)
