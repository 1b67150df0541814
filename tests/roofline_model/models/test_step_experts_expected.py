"""The expected time of the experts' product: as smooth in the batch as the mean it stands for, and no faster than its
bytes.
"""

from __future__ import annotations

import pytest

from roofline_model import get_hardware
from roofline_model.chips.hardware import Device
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.models.llm import predict_model
from roofline_model.models.step_expected import expected_step
from roofline_model.operators.product import Operator

H100 = get_hardware("h100-sxm")
LAUNCH_S, RATE = 2e-6, 1e12


@pytest.mark.parametrize("chip", ["gb10", "h100-sxm", "b200", "l40s"])
def test_never_faster_than_a_large_gemv_reads(chip: str) -> None:
    from roofline_model import gemm
    from roofline_model.expected.predict import predict_expected

    large = gemm(1, 16384, 16384, a="BF16")
    product = predict_expected(large, chip)
    assert product is not None
    rate = large.cost.total_bytes / (product.time_s - dict(product.parts)["launch"])
    for batch in (1, 3, 4, 7):
        prediction = predict_model(chip, "mixtral-8x7b", batch=batch, context=512)
        whole = expected_step(prediction, chip)
        assert whole is not None
        for each in whole.kernels:
            if each.kernel.work.op == "grouped_gemm":
                assert each.time_s >= each.kernel.work.cost.total_bytes / rate * (1 - 1e-9)
                assert each.low_s < each.time_s < each.high_s


def test_a_fraction_of_an_expert_takes_its_share_of_the_bytes() -> None:
    def streaming(work: Operator, device: Device) -> ExpectedPrediction | None:
        if work.op not in ("gemv", "gemm", "attention"):
            return None
        moved_s = work.cost.total_bytes / RATE
        time_s = LAUNCH_S + moved_s
        parts = (("launch", LAUNCH_S), ("dram", moved_s))
        return ExpectedPrediction(device.key, time_s, 0.9 * time_s, 1.2 * time_s, parts, "dram", "gemv", "fitted")

    prediction = predict_model(H100, "mixtral-8x7b", batch=3, context=128)
    whole = expected_step(prediction, H100, estimate=streaming)
    assert whole is not None
    down = next(kernel for kernel in whole.kernels if kernel.kernel.name == "experts_down")
    visited = 8 * (1 - (6 / 8) ** 3)  # 4.625 experts for 6 tokens
    assert dict(down.kernel.work.shape)["groups"] == 5
    bytes_moved = visited * 4096 * 14336 * 2 + 6 * 4096 * 2 + 6 / visited * 14336 * 2
    assert down.time_s == pytest.approx(LAUNCH_S + bytes_moved / RATE, rel=1e-3)
    assert (down.low_s, down.high_s) == (pytest.approx(0.9 * down.time_s), pytest.approx(1.2 * down.time_s))


def test_the_ideal_is_a_bound_only_where_routing_cannot_differ() -> None:
    assert predict_model("gb10", "mixtral-8x7b").ideal_is_bound  # one token visits two experts, whatever it says
    assert not predict_model("gb10", "mixtral-8x7b", batch=2).ideal_is_bound
    assert not predict_model("gb10", "mixtral-8x7b", "prefill", context=64).ideal_is_bound
    assert predict_model("gb10", "llama-3-8b", batch=64).ideal_is_bound
