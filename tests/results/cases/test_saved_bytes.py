"""Saved weight memory: of the layout that the case's kernel reads, whatever else the case moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench_cases.kernels.products.catalog import KERNELS
from bench_cases.shapes.products import Shape
from results.cases.saved_bytes import weight_saved_ratio
from results.records.records import PredictionRecord
from roofline_model.chips.hardware import get_hardware
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.roofline import predict

SHAPE = (8, 512, 1024)
DEVICE = get_hardware("h100-sxm")


@pytest.mark.parametrize(
    "kernel", [kernel for kernel in KERNELS if kernel.device == "cuda"], ids=lambda candidate: candidate.key
)
def test_the_saving_is_that_of_the_weight_the_kernel_holds(make, kernel) -> None:
    work = kernel.work(Shape(*SHAPE, ""))
    prediction = PredictionRecord.from_prediction(predict(work, DEVICE), DEVICE.content_hash, None)
    record = replace(make.record(SHAPE, "BF16", "BF16", "x"), case=work.case(kernel.name), predictions=(prediction,))
    held_bits = kernel.weight_format.traffic_bytes_per_element * 8
    assert weight_saved_ratio(record, kernel.weight) == pytest.approx(1 - held_bits / 16, abs=1e-12)


def test_without_bytes_the_format_says_it_and_an_unknown_format_nothing(make) -> None:
    record = make.record(SHAPE, "INT4", "BF16", "x", device=None)
    assert weight_saved_ratio(record, "INT4") == 1 - get_format("INT4").traffic_bytes_per_element / 2
    assert weight_saved_ratio(None, "INT8") == 0.5
    assert weight_saved_ratio(None, "Q4_K_of_somebody") is None
    assert weight_saved_ratio(None, "") is None
