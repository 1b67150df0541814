from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")

from bench_cases.quantizers import (  # noqa: E402
    SMALL_FLOATS,
    affine_groups,
    encode_small_float,
    fp8_rows,
    fp8_tensor,
    int8_rows,
    mx_blocks,
    nf4_blocks,
    nvfp4_blocks,
    small_float_values,
)
from roofline_model.codecs.elements import NF4_VALUES  # noqa: E402


@pytest.fixture
def matrix():
    return torch.empty(24, 256).uniform_(-1, 1, generator=torch.Generator().manual_seed(3))


def relative_error(held, matrix) -> float:
    back = held.rows64(torch.arange(matrix.shape[0]))
    return float((back - matrix.double()).norm() / matrix.double().norm())


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_small_float_tables_equal_ml_dtypes(name):
    values = small_float_values(name)
    codes = np.arange(len(values), dtype=np.uint8)
    assert values.tolist() == codes.view(getattr(ml_dtypes, name)).astype(np.float64).tolist()


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_small_float_encoding_equals_ml_dtypes_bit_for_bit(name):
    table = small_float_values(name)
    positive = table[: len(table) // 2]
    ties = (positive[1:] + positive[:-1]) / 2
    largest = float(positive[-1])
    random = torch.empty(20000, dtype=torch.float64).uniform_(
        -largest, largest, generator=torch.Generator().manual_seed(1)
    )
    values = torch.cat([table, ties, -ties, random]).float()
    expected = values.numpy().astype(getattr(ml_dtypes, name)).view(np.uint8)
    assert encode_small_float(values, name).tolist() == expected.tolist()


def test_small_float_encoding_saturates():
    codes = encode_small_float(torch.tensor([1e9, -1e9, 6.1]), "float4_e2m1fn")
    assert small_float_values("float4_e2m1fn")[codes.long()].tolist() == [6, -6, 6]


def test_int8_rows_uses_the_whole_range_of_each_row(matrix):
    held = int8_rows(matrix * torch.logspace(-3, 3, 24).unsqueeze(1), torch.float32)
    assert held.codes.abs().amax(dim=1).tolist() == [127] * 24
    assert relative_error(held, matrix * torch.logspace(-3, 3, 24).unsqueeze(1)) < 0.5 / 127


@pytest.mark.parametrize(("bits", "centred"), [(4, True), (4, False), (2, False)])
def test_affine_groups_stay_within_half_a_step(matrix, bits, centred):
    held = affine_groups(matrix, bits, 64, centred=centred)
    assert int(held.codes.max()) == 2**bits - 1
    assert int(held.codes.min()) == 0
    step = held.scales.double().repeat_interleave(64, dim=1)
    error = (held.rows64(torch.arange(24)) - matrix.double()).abs()
    # Half a step, and what rounding scale and offset to BF16 costs at the ends (2^-9 of offset and of the range).
    assert bool((error <= step * 0.5 + 2.0**-9 + step * (2**bits - 1) * 2.0**-8).all())


def test_fp8_scales_bring_the_largest_value_to_448(matrix):
    assert fp8_tensor(matrix).codes.float().abs().max() == 448
    assert fp8_rows(matrix).codes.float().abs().amax(dim=1).tolist() == [448] * 24
    assert relative_error(fp8_tensor(matrix), matrix) < 2.0**-4
    spread = matrix * torch.logspace(-6, 0, 24).unsqueeze(1)
    first = torch.tensor([0])
    # One scale per tensor leaves the smallest row in the subnormals; one per row does not.
    row_error = (fp8_rows(spread).rows64(first) - spread[:1].double()).norm()
    tensor_error = (fp8_tensor(spread).rows64(first) - spread[:1].double()).norm()
    assert row_error < tensor_error / 2


@pytest.mark.parametrize(
    ("element", "largest", "limit"),
    [
        ("float8_e4m3fn", 448, 0.06),
        ("float6_e3m2fn", 28, 0.08),
        ("float6_e2m3fn", 7.5, 0.06),
        ("float4_e2m1fn", 6, 0.2),
    ],
)
def test_mx_shared_exponent_follows_the_standard(matrix, element, largest, limit):
    held = mx_blocks(matrix, element)
    assert held.scales.dtype == torch.float8_e8m0fnu
    # OCP MX v1.0 §6.3: 2^(floor(log2(max)) − largest exponent of the element type)
    top = matrix.view(24, 8, 32).abs().amax(dim=2).double().numpy()
    expected = 2.0 ** (np.floor(np.log2(top)) - np.floor(np.log2(largest)))
    stored = held.scales.view(torch.uint8).numpy().view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert np.array_equal(stored, expected)
    assert relative_error(held, matrix) < limit


def test_mx_of_exact_powers_and_of_zero_is_exact():
    matrix = torch.tensor([[0.0] * 32 + [2.0**-20, -(2.0**-21)] * 16])
    assert mx_blocks(matrix, "float4_e2m1fn").rows64(torch.tensor([0])).tolist() == matrix.double().tolist()


def test_nvfp4_has_two_levels_of_scales(matrix):
    held = nvfp4_blocks(matrix)
    assert held.scales.shape == (24, 16)
    assert held.scales.dtype == torch.float8_e4m3fn
    assert held.tensor_scale == pytest.approx(float(matrix.abs().max()) / (448 * 6), rel=1e-6)
    assert float(held.scales.float().max()) == 448  # the largest block uses the top of E4M3
    assert relative_error(held, matrix) < 0.12


def test_nf4_picks_the_nearest_value_of_the_table(matrix):
    held = nf4_blocks(matrix)
    scaled = (matrix.view(24, 4, 64) / held.scales.float().unsqueeze(2)).view(24, 256)
    nearest = (scaled.unsqueeze(2) - torch.tensor(NF4_VALUES)).abs().argmin(dim=2)
    assert torch.equal(held.codes.long(), nearest)
    assert relative_error(held, matrix) < 0.11


@pytest.mark.parametrize("quantize", [int8_rows, fp8_tensor, fp8_rows, nvfp4_blocks, nf4_blocks])
def test_all_zero_input_gives_zero_and_not_nan(quantize):
    held = quantize(torch.zeros(2, 64))
    assert held.rows64(torch.tensor([0, 1])).abs().max() == 0
