from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")

from bench_cases.kernels.products import quantizers  # noqa: E402
from bench_cases.kernels.products.quantizers import (  # noqa: E402
    affine_groups,
    fp8_rows,
    fp8_tensor,
    int8_rows,
    mx_blocks,
    nf4_blocks,
    nvfp4_blocks,
    nvfp4_within,
    rounding,
    scaled_rows,
)
from roofline_model.core.errors import InvalidValueError  # noqa: E402
from roofline_model.formats.catalog import FORMATS  # noqa: E402
from roofline_model.formats.codecs import dequantize, quantize  # noqa: E402
from roofline_model.formats.codecs.elements.elements import NF4_VALUES  # noqa: E402

ELEMENTS = {
    "MXFP4": "float4_e2m1fn",
    "MXFP6_E3M2": "float6_e3m2fn",
    "MXFP6_E2M3": "float6_e2m3fn",
    "MXFP8_E4M3": "float8_e4m3fn",
    "MXFP8_E5M2": "float8_e5m2",
}
MX = [key for key in FORMATS if key.startswith("MX")]
ROW_FORMATS = ("INT8", "INT4", "INT2", "FP8_E4M3", "FP8_E5M2")


@pytest.fixture
def matrix():
    return torch.empty(24, 256).uniform_(-1, 1, generator=torch.Generator().manual_seed(3))


def relative_error(held, matrix) -> float:
    back = held.rows64(torch.arange(matrix.shape[0]))
    return float((back - matrix.double()).norm() / matrix.double().norm())


@pytest.fixture(scope="module")
def hard_blocks():
    """Blocks of 64 (rows of 256): noise of every size float32 has, zeros of both signs, huge, subnormal, ties,
    outliers.
    """
    rng = np.random.default_rng(40)
    x = rng.standard_normal((96, 256)).astype(np.float32)
    x *= (2.0 ** rng.integers(-60, 60, (96, 4)).repeat(64, axis=1)).astype(np.float32)
    x[0], x[1] = 0, -0.0
    x[2] = rng.uniform(-3.4e38, 3.4e38, 256)
    x[3] = rng.uniform(-1, 1, 256) * 2.0**-130
    x[4, :128], x[4, 128:] = 1e-45, -1e-45
    x[5] = 3.0 * 2.0 ** rng.integers(-4, 4, 256)
    x[6] = rng.integers(-24, 25, 256) / 4  # on the grid of E2M1 and in the middle between its numbers
    x[7], x[7, ::50] = x[7] * 2.0**-20, 3e4
    x[8] = 2.0 ** rng.integers(-149, 128, 256)
    return x


def same_as_codec(held, quantized) -> None:
    scales = quantized.scales.view(np.uint8)
    ours = held.scales.contiguous().view(torch.uint8).numpy()
    assert np.array_equal(ours.reshape(-1) if scales.size == ours.size else ours[0], scales.reshape(-1))
    codes = held.codes if held.codes.element_size() != 1 else held.codes.view(torch.uint8)
    assert np.array_equal(codes.numpy(), quantized.codes.view(np.uint8))
    assert np.array_equal(held.decoded().numpy(), dequantize(quantized))


@pytest.mark.parametrize("key", MX)
def test_mx_blocks_have_the_codecs_bits(key, hard_blocks):
    same_as_codec(mx_blocks(torch.from_numpy(hard_blocks), key), quantize(hard_blocks, key))


@pytest.mark.parametrize("scale_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("key", ROW_FORMATS)
def test_scaled_rows_have_the_codecs_bits(key, scale_dtype, hard_blocks):
    held = scaled_rows(torch.from_numpy(hard_blocks), key, scale_dtype)
    same_as_codec(held, quantize(hard_blocks, key, scale="row", scale_dtype=scale_dtype))


def test_scales_of_several_rows_and_of_the_whole_matrix_have_the_codecs_bits(hard_blocks):
    matrix = torch.from_numpy(hard_blocks)
    same_as_codec(fp8_tensor(matrix), quantize(hard_blocks, "FP8", scale="tensor"))
    groups = scaled_rows(matrix, "FP8_E4M3", scale_count=12)
    by_codec = quantize(hard_blocks.reshape(12, -1), "FP8")
    assert np.array_equal(groups.decoded().numpy(), dequantize(by_codec).reshape(96, 256))
    assert groups.scales[::8].tolist() == by_codec.scales.tolist()


def test_two_levels_and_code_tables_have_the_codecs_bits(hard_blocks):
    for x in (hard_blocks, hard_blocks[9:] * np.float32(2.0**-40), np.zeros((2, 64), np.float32)):
        by_codec = quantize(x, "NVFP4")
        held = nvfp4_blocks(torch.from_numpy(x))
        assert held.tensor_scale == by_codec.tensor_scale
        same_as_codec(held, by_codec)
    x = hard_blocks.clip(-6e4, 6e4)
    same_as_codec(nf4_blocks(torch.from_numpy(x)), quantize(x, "NF4"))
    with pytest.raises(InvalidValueError, match=r"more than float16 holds"):
        nf4_blocks(torch.from_numpy(hard_blocks))


def test_the_size_of_the_pieces_changes_nothing(hard_blocks, monkeypatch):
    matrix = torch.from_numpy(hard_blocks)
    whole = [nvfp4_blocks(matrix), affine_groups(matrix[9:], 4, 64, centred=True), fp8_tensor(matrix)]
    monkeypatch.setitem(quantizers.PIECE_ELEMS, "cpu", 1000)  # three rows, and one left over at the end
    pieces = [nvfp4_blocks(matrix), affine_groups(matrix[9:], 4, 64, centred=True), fp8_tensor(matrix)]
    for expected, pieced in zip(whole, pieces, strict=True):
        assert torch.equal(expected.codes.view(torch.uint8), pieced.codes.view(torch.uint8))


def test_operands_are_quantised_where_they_are():
    """On a device whose tensors have no numbers: nothing may be read back, and every part stays there."""
    matrix = torch.empty(64, 256, device="meta")
    held = [mx_blocks(matrix, "MXFP4"), mx_blocks(matrix, "MXFP8"), int8_rows(matrix), fp8_tensor(matrix)]
    held.append(affine_groups(matrix, 4, 64, centred=True))
    codes, scales = nvfp4_within(matrix, torch.empty(64, 16, device="meta"), torch.empty((), device="meta"))
    parts = [codes, scales, *(part for quantized in held for part in (quantized.codes, quantized.scales))]
    assert {part.device.type for part in parts} == {"meta"}
    assert codes.shape == (64, 256)


@pytest.mark.parametrize(("key", "name"), ELEMENTS.items())
def test_rounding_equals_ml_dtypes_bit_for_bit(key, name):
    dtype = getattr(ml_dtypes, name)
    table = np.arange(2 ** FORMATS[key].element_bits, dtype=np.uint8).view(dtype).astype(np.float32)
    numbers = np.unique(table[np.isfinite(table)])
    ties = (numbers[1:] + numbers[:-1]) / 2
    random = np.random.default_rng(1).uniform(numbers[0], numbers[-1], 20000)
    values = np.concatenate([numbers, ties, random]).astype(np.float32)
    codes = rounding(FORMATS[key])(torch.from_numpy(values)).view(torch.uint8)
    assert codes.tolist() == values.astype(dtype).view(np.uint8).tolist()
    beyond = rounding(FORMATS[key])(torch.tensor([1e9, -1e9])).view(torch.uint8).numpy().view(dtype)
    assert beyond.astype(float).tolist() == [numbers[-1], numbers[0]]


def test_int8_rows_uses_the_whole_range_of_each_row(matrix):
    held = int8_rows(matrix * torch.logspace(-3, 3, 24).unsqueeze(1), "float32")
    assert held.codes.abs().amax(dim=1).tolist() == [127] * 24
    assert relative_error(held, matrix * torch.logspace(-3, 3, 24).unsqueeze(1)) < 0.5 / 127


@pytest.mark.parametrize(("bits", "centred"), [(4, True), (4, False), (2, False)])
def test_affine_groups_stay_within_half_a_step(matrix, bits, centred):
    held = affine_groups(matrix, bits, 64, centred=centred)
    assert int(held.codes.max()) == 2**bits - 1
    assert int(held.codes.min()) == 0
    step = held.scales.double().repeat_interleave(64, dim=1)
    error = (held.rows64(torch.arange(24)) - matrix.double()).abs()
    assert torch.allclose(held.decoded().double(), held.rows64(torch.arange(24)), rtol=1e-6, atol=1e-6)
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
    ("key", "largest", "limit"),
    [
        ("MXFP8_E4M3", 448, 0.06),
        ("MXFP6_E3M2", 28, 0.08),
        ("MXFP6_E2M3", 7.5, 0.06),
        ("MXFP4", 6, 0.2),
    ],
)
def test_mx_shared_exponent_follows_the_standard(matrix, key, largest, limit):
    held = mx_blocks(matrix, key)
    assert held.scales.dtype == torch.float8_e8m0fnu
    # OCP MX v1.0 §6.3: 2^(floor(log2(max)) − largest exponent of the element type)
    top = matrix.view(24, 8, 32).abs().amax(dim=2).double().numpy()
    expected = 2.0 ** (np.floor(np.log2(top)) - np.floor(np.log2(largest)))
    stored = held.scales.view(torch.uint8).numpy().view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert np.array_equal(stored, expected)
    assert relative_error(held, matrix) < limit


def test_mx_of_exact_powers_and_of_zero_is_exact():
    matrix = torch.tensor([[0.0] * 32 + [2.0**-20, -(2.0**-21)] * 16])
    assert mx_blocks(matrix, "MXFP4").rows64(torch.tensor([0])).tolist() == matrix.double().tolist()


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
