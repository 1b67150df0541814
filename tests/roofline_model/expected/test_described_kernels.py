"""A GPU kernel has the time of the constants that describe it, or none; a CPU's and a user's own are as before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline_model import create_custom_asic, get_hardware
from roofline_model.chips.curve import TimedCall, kernel_curves
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.kernels.attention_kernels import ATTENTION_KERNELS
from roofline_model.kernels.described_kernels import CEILINGS, GPU_KERNELS, PRODUCTS
from roofline_model.operators.attention import attention
from roofline_model.operators.elementwise import residual_add, softmax
from roofline_model.operators.product import gemm

CHIPS = ["h200", "gb10", "b200", "a100"]
BF16 = gemm(64, 4096, 4096, a="BF16")
INT4 = gemm(64, 4096, 4096, a="BF16", b="INT4")
DECODE = attention(1, 32, 8, 1, 8192, 128, q="BF16")
PREFILL = attention(1, 32, 8, 2048, 2048, 128, q="BF16", causal=True)


def calibration(kind):
    """Ceilings of a machine, without a timed kernel."""

    def constant(value, unit):
        return Constant(unit, value, value, value, 0.0, 5)

    rates = {name: constant(4e12, "B/s") for name in ("read", "copy", "triad", "write")}
    peaks = {key: constant(6e14, "FLOP/s") for key in ("FP32", "BF16")}
    return Calibration(
        "2026-11-26T17:00:00+00:00", "Test", kind, rates, peaks=peaks, floors={"launch": constant(2e-6, "s")}
    )


GPU = replace(get_hardware("h200"), calibration=calibration("cuda"))
CPU = replace(
    create_custom_asic("test cpu", 40, {"FP32": 0.1, "BF16": 0.4}), kind="cpu", calibration=calibration("cpu")
)


def test_the_constants_of_every_kernel_exist():
    named = {constants for kernels in GPU_KERNELS.values() for constants in kernels.values()}
    assert named == {PRODUCTS, CEILINGS, None, *(named & set(ATTENTION_KERNELS))}


@pytest.mark.parametrize("chip", CHIPS)
def test_a_kernel_without_constants_has_no_time_and_says_why(chip):
    for kernel, work in (("tinygemm", INT4), ("int8pack", INT4), ("flex", DECODE), ("sdpa_math", PREFILL)):
        assert predict_expected(work, chip) is not None
        assert predict_expected(work, chip, kernel=kernel) is None
        why_not = why_no_expected(work, chip, kernel=kernel)
        assert (why_not.code, why_not.subject) == ("no-expected-time", kernel)


@pytest.mark.parametrize("chip", CHIPS)
def test_products_of_the_library_and_of_a_user_have_the_librarys_time(chip):
    for work, kernel in ((BF16, "matmul"), (INT4, "my_own_kernel"), (DECODE, "my_own_kernel")):
        assert predict_expected(work, chip, kernel=kernel) == predict_expected(work, chip) is not None
        assert why_no_expected(work, chip, kernel=kernel) is None


@pytest.mark.parametrize("work", [DECODE, PREFILL], ids=["decode", "prefill"])
def test_attention_has_the_model_of_its_own_kernel(work):
    for kernel, key in (("sdpa_flash", "fa2"), ("sdpa_cudnn", "cudnn")):
        timed = predict_expected(work, "h200", kernel=kernel)
        assert timed == predict_expected(work, "h200", attention_kernel=key)
        assert timed.kernel.startswith(f"{key}/")
        assert timed.time_s != predict_expected(work, "h200").time_s
    # A kernel that is asked for by its key is not replaced by that of the case.
    asked = predict_expected(work, "h200", kernel="sdpa_flash", attention_kernel="fa3")
    assert asked == predict_expected(work, "h200", attention_kernel="fa3")


def test_what_the_model_of_a_kernel_refuses_has_no_other_time():
    # Values narrower than keys: FlashAttention's models have one head size, and ceilings are no kernel's time.
    narrow = attention(1, 128, 128, 512, 512, 192, q="BF16", causal=True, Dv=128)
    assert predict_expected(narrow, GPU).provenance == "measured-here"
    assert predict_expected(narrow, GPU, kernel="sdpa_flash") is None
    assert predict_expected(narrow, GPU, kernel="sdpa_flash_padded") is None


def test_ceilings_stand_for_operators_that_stream_alone():
    add, rows = residual_add(4096, 4096, a="BF16"), softmax(4096, 4096, a="BF16")
    assert predict_expected(add, GPU, kernel="fused").provenance == "measured-here"
    assert predict_expected(rows, GPU) is not None
    assert predict_expected(rows, GPU, kernel="fused") is None
    assert why_no_expected(rows, GPU, kernel="fused").code == "no-expected-time"


def test_a_cpu_asks_its_own_curves_and_not_the_table():
    calls = [TimedCall(gemm(1, N, 1024, a="BF16", b="INT8"), "int8pack", N * 1e-7) for N in (512, 2048)]
    timed = replace(CPU, calibration=replace(CPU.calibration, kernels=kernel_curves(calls)))
    prediction = predict_expected(gemm(1, 1024, 1024, a="BF16", b="INT8"), timed, kernel="int8pack")
    assert prediction.kernel == "int8pack"
    assert predict_expected(softmax(64, 64), timed, kernel="fused").provenance == "measured-here"
    assert why_no_expected(softmax(64, 64), CPU, kernel="fused").value("kind") == "no-kernel-timed"


@pytest.mark.parametrize("chip", ["mi300x", "b10"])
@pytest.mark.parametrize("kernel", ["sdpa_flash", "sdpa_cudnn"])
def test_kernels_of_cuda_have_no_time_on_a_chip_without_it(chip, kernel):
    assert predict_expected(DECODE, get_hardware(chip), kernel=kernel) is None
    assert why_no_expected(DECODE, get_hardware(chip), kernel=kernel).code == "no-expected-time"
