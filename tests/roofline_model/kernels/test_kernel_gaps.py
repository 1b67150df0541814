"""No kernel known here: held to the table of the kernels that are measured, and what the ranking does with it."""

from __future__ import annotations

import pytest

from bench_cases.kernels.guards import chip_reason
from bench_cases.kernels.products.catalog import KERNELS
from roofline_model.chips.hardware import create_custom_asic, get_hardware, list_hardware
from roofline_model.core.finding import has_code
from roofline_model.expected.predict import expected_times
from roofline_model.formats.catalog import FORMATS
from roofline_model.kernels.known_kernels import CPU_PAIRS, TORCH_CAPABILITIES, kernel_gap
from roofline_model.recommend.shape import recommend_quantization

CHIPS = [device for device in list_hardware() if device.match.compute_capability]


BOTH_OPERANDS = sorted({"FP8_E4M3", "MXFP8_E4M3", "NVFP4", "MXFP4", "INT8"} & set(TORCH_CAPABILITIES))


@pytest.mark.parametrize("fmt", BOTH_OPERANDS)
def test_a_chip_has_a_gap_where_every_measured_kernel_refuses_it(fmt):
    kernels = [
        kernel for kernel in KERNELS if kernel.device == "cuda" and (kernel.weight, kernel.activation) == (fmt, fmt)
    ]
    assert kernels
    for chip in CHIPS:
        refused = [chip_reason(kernel, {"a": fmt, "b": fmt}, chip) is not None for kernel in kernels]
        assert bool(kernel_gap(chip, fmt, fmt)) == all(refused), chip.key


def test_every_block_scaled_or_fp8_product_that_is_measured_is_in_the_table():
    both = {kernel.weight for kernel in KERNELS if kernel.device == "cuda" and kernel.weight == kernel.activation}
    assert both - {"FP32", "TF32", "FP16", "BF16"} == set(BOTH_OPERANDS)


def test_pairs_of_a_cpu_are_those_that_are_measured():
    assert {(kernel.weight, kernel.activation) for kernel in KERNELS if kernel.device == "cpu"} == CPU_PAIRS


def test_a_cpu_runs_few_formats(make_cpu):
    missing = {key for key in FORMATS if FORMATS[key].nominal_bits < 16 and kernel_gap(make_cpu, key, "FP16")}
    assert {"MXFP4", "NVFP4", "MXFP8_E4M3", "FP8_E4M3"} <= missing
    assert missing.isdisjoint({"INT8", "INT4"})
    assert kernel_gap(make_cpu, "BF16", "BF16") is None


def test_no_library_multiplies_int4_by_int4():
    for chip in ("a100", "gb10", "mi300x"):
        assert dict(kernel_gap(get_hardware(chip), "INT4", "INT4").values).keys() == {"hardware"}
    assert kernel_gap(get_hardware("b10"), "INT4", "INT4") is kernel_gap(get_hardware("a100"), "INT4", "BF16") is None


def test_what_nobody_knows_is_no_gap():
    own_chip = create_custom_asic("own", 1e3, {"FP16": 100.0, "MXFP4": 400.0})
    for chip in (own_chip, get_hardware("b10"), get_hardware("mi300x")):
        assert kernel_gap(chip, "MXFP4", "MXFP4") is None
    assert kernel_gap(get_hardware("gb10"), "MINE", "MINE") is None
    assert kernel_gap(get_hardware("h100"), "MXFP4", "BF16") is None  # weight-only: any framework can decode first


@pytest.mark.parametrize("shape", [(1, 4096, 4096), (4096, 4096, 4096)])
def test_what_can_run_is_ranked_before_what_cannot(shape):
    chip = get_hardware("gb10")
    for times in (None, expected_times(chip)):
        ranking = recommend_quantization(chip, *shape, times=times)
        assert ranking.options[-1].key == "MXFP4"
        assert [has_code(option.findings, "kernel-gap") for option in ranking.options] == [False] * 6 + [True]
        assert all(item.subject != "MXFP4" for item in ranking.choice.findings)


def test_a_chip_with_only_unrunnable_rivals_keeps_sixteen_bit():
    ranking = recommend_quantization("gb10", 1, 4096, 4096, formats=["MXFP4"])
    assert ranking.precision == "FP16"
    assert has_code(ranking.choice.findings, "no-other")


@pytest.fixture(scope="module")
def make_cpu():
    from roofline_model.chips.hardware import Device, Quantity

    return Device("a-cpu", "a CPU", "cpu", Quantity(1e11, "B/s", "declared", "the user"), {})
