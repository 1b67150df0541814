from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from bench_cases.kernels.guards import MachineFacts  # noqa: E402
from bench_cases.quantization.dynamic import product as dynamic_product  # noqa: E402
from bench_cases.quantization.dynamic.operand import (  # noqa: E402
    DYNAMIC_FORMATS,
    WIDE_DTYPES,
    Operand,
    check_format,
    formats_of,
    quantize_operand,
    quantize_rows,
)
from bench_cases.quantization.dynamic.product import multiply, native_kernel  # noqa: E402
from roofline_model.core.errors import RooflineError, UnsupportedError  # noqa: E402
from roofline_model.core.finding import finding  # noqa: E402

NARROW = [key for key in DYNAMIC_FORMATS if key not in WIDE_DTYPES]


def matrix(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def operand(key: str, rows: int, columns: int, seed: int = 0) -> Operand:
    return quantize_rows(matrix(rows, columns, seed), key)


# Signal to quantisation noise of Gaussian data in dB, by format: a bit is about 6 dB, a narrow row maximum costs some.
LEAST_SQNR_DB = {
    "INT8": 36, "FP8_E4M3": 29, "FP8_E5M2": 23, "MXFP8_E4M3": 29, "MXFP6_E2M3": 28, "MXFP6_E3M2": 23, "NVFP4": 18, "MXFP4": 16,
    "NF4": 18, "INT4": 13, "INT2": 0.5,
}  # fmt: skip


@pytest.mark.parametrize("key", NARROW)
def test_every_format_keeps_the_signal_its_bits_allow(key: str) -> None:
    values = matrix(32, 256)
    decoded = quantize_rows(values, key).decoded()
    noise = (decoded - values).square().mean()
    assert 10 * torch.log10(values.square().mean() / noise) > LEAST_SQNR_DB[key]


@pytest.mark.parametrize("key", NARROW)
def test_quantising_what_is_exact_already_changes_nothing(key: str) -> None:
    once = quantize_rows(matrix(16, 128), key).decoded()
    again = quantize_rows(once, key).decoded()
    assert torch.allclose(again, once, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("key", NARROW)
def test_values_beyond_the_threshold_are_clipped_to_it(key: str) -> None:
    values = matrix(8, 64)
    decoded = quantize_operand(values, key, torch.full((8, 1), 0.5)).decoded()
    # NF4's and NVFP4's block scales are rounded (FP16, E4M3); MX scales are powers of two and E2M1 may round 5 up to 6.
    assert float(decoded.abs().max()) <= 0.5 * (1.2 if key in ("NVFP4", "MXFP4", "MXFP6_E3M2") else 1.07)
    assert torch.equal(decoded.sign() * (decoded != 0), values.sign() * (decoded != 0))


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e30])
@pytest.mark.parametrize("key", NARROW)
def test_tiny_and_huge_values_never_become_nan(key: str, scale: float) -> None:
    values = matrix(4, 64) * scale
    values[1] = 0
    if key == "NF4" and scale > 1:
        with pytest.raises(RooflineError, match=r"NF4.*FP16.*65504"):
            quantize_rows(values, key)
        return
    decoded = quantize_rows(values, key).decoded()
    assert torch.isfinite(decoded).all()
    assert not decoded[1].any()


def test_integer_products_run_on_the_integer_kernel_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    kernel = torch._int_mm
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: calls.append(a.dtype) or kernel(a, b))
    for weight, activation in (("INT8", "INT8"), ("INT4", "INT8"), ("INT4", "INT4"), ("INT2", "INT8")):
        a, w = operand(activation, 5, 96), operand(weight, 48, 96, seed=1)
        product = multiply(a, w)
        assert product.path == "int_mm"
        exact = (a.codes.long() @ w.codes.long().t()).float() * (a.scale * w.scale.t())
        assert torch.equal(product.value, exact)
    assert calls == [torch.int8] * 4


def test_what_int_mm_gets_wrong_is_emulated() -> None:
    """torch 2.13's _int_mm is wrong at K = 1 (bench_cases/kernels/products/catalog.py)."""
    a, w = operand("INT8", 3, 1), operand("INT8", 4, 1, seed=1)
    product = multiply(a, w)
    assert product.path == "emulated"
    assert product.reason == finding(
        "shape-not-taken", "int_mm", kind="below", dimension="K", least_count=2, size_count=1
    )
    assert torch.allclose(product.value, a.decoded() @ w.decoded().t())


@pytest.mark.parametrize("key", [key for key in NARROW if not key.startswith("INT")])
def test_emulation_is_the_product_of_the_decoded_numbers(key: str) -> None:
    a, w = operand(key, 6, 128), operand(key, 24, 128, seed=1)
    product = multiply(a, w)
    assert product.path == "emulated"
    assert product.reason == finding("product-decoded", kind="no-kernel", device="cpu", formats=key)
    exact = a.decoded().double() @ w.decoded().double().t()
    assert float((product.value - exact).norm() / exact.norm()) < 1e-6


def test_mixed_operands_are_decoded() -> None:
    a, w = quantize_operand(matrix(3, 64), "FP16", torch.ones(1, 1)), operand("NVFP4", 8, 64, seed=1)
    product = multiply(a, w)
    assert product.reason == finding("product-decoded", kind="no-kernel", device="cpu", formats="NVFP4.FP16")
    assert torch.allclose(product.value, matrix(3, 64).half().float() @ w.decoded().t(), rtol=1e-5, atol=1e-5)


def test_wide_operands_multiply_as_they_are_and_overflow_is_seen() -> None:
    a, w = (quantize_operand(matrix(3, 64, seed) * 200, "FP16", torch.ones(1, 1)) for seed in (0, 1))
    assert multiply(a, w).path == "emulated"  # 64 · 200² is beyond 65504
    assert multiply(a, w).reason == finding("product-decoded", kind="range", format="FP16")
    assert torch.isfinite(multiply(a, w).value).all()
    small = quantize_operand(matrix(3, 64), "FP16", torch.ones(1, 1))
    assert multiply(small, small).path == "matmul"


def facts(*capability: int) -> MachineFacts:
    return MachineFacts("cuda", "2.13.0", lambda name: True, capability, None)


@pytest.mark.parametrize(
    ("key", "rows", "capability", "kernel"),
    [
        ("INT8", 64, (8, 0), "int_mm"),
        ("INT8", 1, (8, 0), "int_mm_padded"),  # CUDA refuses M ≤ 16
        ("INT4", 64, (8, 0), "int_mm"),
        ("FP8_E4M3", 64, (8, 0), "capability"),
        ("FP8_E4M3", 1, (9, 0), "scaled_mm_rowwise"),
        ("FP8_E4M3", 1, (12, 1), "scaled_mm_rowwise"),
        ("FP8_E5M2", 1, (12, 1), "no-kernel"),
        ("NVFP4", 64, (9, 0), "capability"),
        ("NVFP4", 64, (12, 1), "scaled_mm_block"),
        ("MXFP8_E4M3", 64, (10, 0), "scaled_mm_block"),
        ("MXFP4", 64, (12, 1), "capabilities"),
        ("NF4", 64, (12, 1), "no-kernel"),
    ],
)
def test_the_kernel_of_each_cuda_chip(key: str, rows: int, capability: tuple[int, int], kernel: str) -> None:
    kernel_found, reason = native_kernel(operand(key, rows, 128), operand(key, 48, 128), facts(*capability))
    assert kernel == (reason.value("kind") if kernel_found is None else kernel_found.name)
    assert (kernel_found is None) == (reason is not None)


def test_odd_sizes_have_no_cuda_kernel() -> None:
    kernel, reason = native_kernel(operand("FP8_E4M3", 4, 100), operand("FP8_E4M3", 48, 100), facts(9, 0))
    assert kernel is None
    assert (reason.code, reason.value("size_count")) == ("shape-not-taken", 100)


def test_the_scaled_and_padded_calls_give_the_product_of_the_decoded_numbers() -> None:
    """What CUDA would call, on torch's own CPU versions of the same functions; FP8's result is BF16."""
    for key, name, rows, tolerance in (("INT8", "int_mm_padded", 3, 1e-6), ("FP8_E4M3", "scaled_mm_rowwise", 3, 2**-8)):
        a, w = operand(key, rows, 64), operand(key, 32, 64, seed=1)
        value = dynamic_product._CALLS[name](a, w)
        exact = a.decoded() @ w.decoded().t()
        assert float((value - exact).norm() / exact.norm()) < tolerance


def test_a_kernel_that_refuses_is_replaced_by_emulation_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(a, b):
        raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED\nwhen calling cublasLtMatmul")

    monkeypatch.setattr(torch, "_int_mm", refuses)
    a, w = operand("INT8", 3, 64), operand("INT8", 8, 64, seed=1)
    product = multiply(a, w)
    assert product.path == "emulated"
    assert product.reason == finding("product-decoded", "int_mm", kind="refused", error="CUBLAS_STATUS_NOT_SUPPORTED")
    assert torch.allclose(product.value, a.decoded() @ w.decoded().t())


def test_no_memory_is_not_taken_for_a_missing_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(a, b):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch, "_int_mm", full)
    with pytest.raises(torch.OutOfMemoryError):
        multiply(operand("INT8", 3, 64), operand("INT8", 8, 64))


@pytest.mark.parametrize(
    ("key", "inner", "words"),
    [
        ("FP64", 64, "dynamic quantisation knows no FP64. Known: INT8"),
        ("NVFP4", 100, "NVFP4 has blocks of 16 elements, and K = 100 is not a multiple of 16"),
        ("MXFP4", 48, "blocks of 32 elements, and K = 48"),
        ("FP9", 64, "unknown format 'FP9'"),
    ],
)
def test_formats_that_cannot_be_are_refused(key: str, inner: int, words: str) -> None:
    with pytest.raises(RooflineError) as caught:
        check_format(key, inner)
    assert words in str(caught.value)


def test_a_precision_is_one_format_or_two() -> None:
    assert formats_of("int8").label == "INT8.INT8"
    assert formats_of("NVFP4.FP8").label == "NVFP4.FP8_E4M3"
    with pytest.raises(RooflineError, match="wider than activations"):
        formats_of("FP8.INT4")
    with pytest.raises(UnsupportedError):
        check_format("TF32", 64)


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("INT8", {"scale": "row"}), ("INT4", {"scale": "row", "scale_dtype": "float32"}), ("FP8_E4M3", {"scale": "row"}),
        ("FP8_E5M2", {"scale": "row"}), ("MXFP8_E4M3", {}), ("MXFP6_E3M2", {}), ("MXFP6_E2M3", {}), ("MXFP4", {}), ("NF4", {}),
        ("NVFP4", {}),
    ],
)  # fmt: skip
def test_the_exact_codecs_agree(key: str, options: dict) -> None:
    """roofline_model.formats.codecs, in numpy: the same numbers, but for a tie that FP32 division puts on the other
    side.
    """
    from roofline_model.formats.codecs.decode import round_trip

    values = matrix(32, 256, seed=5)
    limits = values.abs().amax(1, keepdim=True) if key != "NVFP4" else values.abs().max().view(1, 1)
    ours = quantize_operand(values, key, limits).decoded()
    theirs = torch.from_numpy(round_trip(values.numpy(), key, **options)).float()
    agree = torch.isclose(ours, theirs, rtol=1e-5, atol=1e-7)
    assert float(agree.double().mean()) > 0.998
    assert float((ours - theirs).norm() / values.norm()) < 0.01
