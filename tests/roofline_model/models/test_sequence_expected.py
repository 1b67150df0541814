"""The expected time of kernels in sequence: a sum of what is known of each, or nothing at all."""

from __future__ import annotations

import pytest

from roofline_model import gemm, get_hardware
from roofline_model.core.finding import finding
from roofline_model.expected.predict import predict_expected
from roofline_model.expected.prediction import EXPECTED_VERSION, ExpectedPrediction
from roofline_model.models.decoder_step import StepKernel
from roofline_model.models.step_expected import expected_kernels, expected_sequence, why_no_kernels
from roofline_model.operators.layers import ffn_parts

H100 = get_hardware("h100")


def steps(**options):
    parts = ffn_parts(64, 1024, 4096, a="BF16", **options)
    return [StepKernel(name, work, 1) for name, work in parts.items()]


def estimate(work, device):
    """Return 10 µs for any product: 8 to 13, bound by the DRAM; nothing for other operators."""
    if work.op not in ("gemm", "gemv"):
        return None
    provenance = "fitted" if work.op == "gemm" else "transferred-family"
    return ExpectedPrediction(
        device.key, 10e-6, 8e-6, 13e-6, (("launch", 2e-6), ("dram", 8e-6)), "dram", "", provenance
    )


def test_the_parts_add_up_to_the_whole():
    sequence = expected_sequence(expected_kernels(steps(), H100, estimate=estimate))
    by_name = dict(sequence.parts)
    assert list(by_name) == ["gate_proj", "up_proj", "silu_mul", "down_proj"]
    assert sequence.time_s == pytest.approx(sum(by_name.values()))
    assert by_name["gate_proj"] == by_name["down_proj"] == 10e-6
    # The reference GEMV moves 16384² and twice 16384 elements of 2 bytes in 8 µs; silu_mul three times 64 x 4096, and
    # launches.
    moved_s = 3 * 64 * 4096 / (16384**2 + 2 * 16384) * 8e-6
    assert by_name["silu_mul"] == pytest.approx(2e-6 + moved_s)
    assert sequence.low_s == pytest.approx(3 * 8e-6 + 0.8 * by_name["silu_mul"])
    assert sequence.high_s == pytest.approx(3 * 13e-6 + 1.3 * by_name["silu_mul"])
    assert (sequence.binding, sequence.provenance, sequence.model_version) == ("dram", "fitted", EXPECTED_VERSION)
    assert sequence.findings == (finding("stand-in-kernel", kind="elementwise"),)


def test_nothing_is_said_of_the_whole_where_one_kernel_is_unknown():
    def no_down(work, device):
        return None if dict(work.shape).get("K") == 4096 else estimate(work, device)

    expectations = expected_kernels(steps(), H100, estimate=no_down)
    assert [expectation is None for expectation in expectations] == [False, False, False, True]
    assert expected_sequence(expectations) is None
    assert expected_sequence(()) is None


def test_the_reason_names_the_first_product_without_a_model():
    # Its reason says more than that of an elementwise kernel, which is built from a product's constants.
    assert [kernel.name for kernel in steps()[2:]] == ["silu_mul", "down_proj"]
    assert why_no_kernels(steps()[2:], "mi300x").subject == "down_proj"
    assert why_no_kernels(steps()[2:3], "mi300x").subject == "silu_mul"
    assert why_no_kernels(steps(), H100) is None
    assert why_no_kernels(steps(), "b10").subject == "gate_proj"


@pytest.mark.parametrize("gated", [True, False])
def test_a_fused_up_projection_takes_its_products_time(gated):
    [up, _] = steps(fused=True, gated=gated)
    [kernel_row] = expected_kernels([up], H100)
    product = predict_expected(gemm(64, 4096 * (2 if gated else 1), 1024, a="BF16"), H100)
    assert kernel_row.time_s == product.time_s
    assert kernel_row.finding == finding("stand-in-kernel", kind="fused-activation")
    assert kernel_row.binding == product.binding
    # It is a product: without a model for products there is none for it either.
    assert expected_kernels([up], H100, estimate=lambda work, device: None) == (None,)
