"""What a decoder layer runs between its products, its feed-forward block, and the casts of quantised activations."""

from __future__ import annotations

from typing import Any

from bench_cases.kernels.measured_case import measure_case
from bench_cases.kernels.spec import CaseSpec


def test_softmax(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)


def test_rmsnorm(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)


def test_residual_add(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)


def test_rope(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)


def test_silu_mul(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)


def test_ffn(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)


def test_quantize(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)


def test_dequantize(roofline: Any, spec: CaseSpec) -> None:
    measure_case(roofline, spec)
