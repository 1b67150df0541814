"""Which kernel family a pair of formats runs on, and its bytes per element."""

from __future__ import annotations

import pytest

from roofline_model import UnknownNameError, get_format
from roofline_model.expected.products.parameters import gemm_formats, kernel_bytes_per_element


@pytest.mark.parametrize(
    ("weight", "activation", "family", "compute", "is_measured"),
    [
        ("BF16", "BF16", "BF16", "BF16", True),
        ("FP16", "FP16", "BF16", "FP16", True),
        ("FP8", "FP8", "FP8", "FP8_E4M3", True),
        ("NVFP4", "NVFP4", "NVFP4", "NVFP4", True),
        ("INT8", "BF16", "INT8", "BF16", True),
        ("INT4", "FP16", "INT4", "FP16", True),
        ("TF32", "TF32", "BF16", "TF32", False),
        ("INT8", "INT8", "FP8", "INT8", False),
        ("MXFP8", "MXFP8", "FP8", "MXFP8_E4M3", False),
        ("MXFP4", "MXFP4", "NVFP4", "MXFP4", False),
        ("MXFP4", "BF16", "INT4", "BF16", False),
        ("NF4", "BF16", "INT4", "BF16", False),
        ("FP8", "BF16", "INT8", "BF16", False),
        ("INT4", "FP8", "FP8", "FP8_E4M3", False),
        ("BF16", "FP8", "BF16", "BF16", False),
    ],
)
def test_pairs_run_on_the_nearest_measured_kernels(weight, activation, family, compute, is_measured):
    formats = gemm_formats(weight, activation)
    assert (formats.family, formats.compute_format, formats.is_measured_pair) == (family, compute, is_measured)
    assert bool(formats.findings) is not is_measured


def test_a_chip_without_the_unit_widens_both():
    formats = gemm_formats("NVFP4", "NVFP4", computes_wide=True)
    assert (formats.family, formats.compute_format) == ("INT4", "BF16")
    assert formats.activation_bytes_per_element == 0.5625


@pytest.mark.parametrize(
    ("key", "size_bytes"),
    [
        ("BF16", 2), ("TF32", 4), ("FP8_E4M3", 1), ("INT8", 1),
        ("NVFP4", 0.5625),  # 4 bit + an 8-bit scale per 16; the one scale of the tensor is nothing
        ("INT4", 0.515625),  # 4 bit + a 16-bit scale per 128
        ("MXFP4", 0.53125), ("MXFP6_E3M2", 0.78125), ("NF4", 0.53125),
    ],
)  # fmt: skip
def test_bytes_that_a_kernel_moves(key, size_bytes):
    assert kernel_bytes_per_element(get_format(key)) == size_bytes


def test_a_format_may_be_given_itself_with_scales_of_its_own():
    grouped = get_format("INT4").grouped(64, scale_bits=16, zero_bits=16)
    assert gemm_formats(grouped, "BF16").weight_bytes_per_element == (4 + 32 / 64) / 8
    assert gemm_formats("INT4", "BF16").weight_bytes_per_element == 0.515625


def test_an_unknown_format_is_refused():
    with pytest.raises(UnknownNameError, match="BF17"):
        gemm_formats("BF17", "BF16")
