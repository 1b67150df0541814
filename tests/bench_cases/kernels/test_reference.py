from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from bench_cases.kernels import reference as reference_module  # noqa: E402
from bench_cases.kernels.products.catalog import KERNELS  # noqa: E402
from bench_cases.kernels.reference import (  # noqa: E402
    MAX_ROWS,
    HeldMatrix,
    ProductReference,
    rounding_of,
    sample_index,
)
from roofline_model.formats.rounding import Rounding  # noqa: E402


@pytest.mark.parametrize(("count", "most"), [(1, 5), (5, 5), (1000, 2), (4096, 977), (128256, 1000)])
def test_samples_are_spread_and_hold_both_ends(count, most):
    index = sample_index(count, most)
    assert index.tolist() == sorted(set(index.tolist()))
    assert index[0] == 0
    assert index[-1] == count - 1
    assert len(index) <= most
    gaps = index.diff()
    assert len(gaps) == 0 or int(gaps.max()) <= 2 * math.ceil(count / most)  # no stretch is left out


def test_small_products_are_compared_whole_by_hand():
    held = HeldMatrix(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    reference = ProductReference.of(held, HeldMatrix(torch.tensor([[5.0, 6.0]])), Rounding(result_ratio=2.0**-8))
    assert reference.expected.exact.tolist() == [[17.0], [39.0]]
    assert reference.deviation(torch.tensor([[17.0], [39.0]])).error == 0
    # Terms 3·5 and 4·6: an error of 1 beside √(15² + 24²), where 39·2⁻⁸ is allowed.
    wrong = reference.deviation(torch.tensor([[17.0], [40.0]]))
    assert wrong.error == pytest.approx(1 / math.hypot(15, 24))
    assert wrong.tolerance == pytest.approx(39 / 256 / math.hypot(15, 24))
    assert wrong.where == "element 1, 0"
    assert not wrong.is_right
    assert reference.deviation(torch.tensor([[17.0], [39.125]])).is_right


@pytest.mark.parametrize(
    "bad",
    [
        torch.zeros(2, 2),
        torch.zeros(2),
        torch.tensor([[math.nan], [1.0]]),
        torch.tensor([[1.0], [math.inf]]),
        None,
        [[17.0], [39.0]],
    ],
)
def test_wrong_shapes_and_numbers_that_are_none_give_nan(bad):
    reference = ProductReference.of(HeldMatrix(torch.ones(2, 2)), HeldMatrix(torch.ones(1, 2)), Rounding())
    deviation = reference.deviation(bad)
    assert math.isnan(deviation.error)
    assert not deviation.is_right


def test_a_zero_product_accepts_only_zero():
    reference = ProductReference.of(
        HeldMatrix(torch.zeros(2, 2)), HeldMatrix(torch.ones(1, 2)), Rounding(result_ratio=0.1)
    )
    assert reference.deviation(torch.zeros(2, 1)).is_right
    assert reference.deviation(torch.ones(2, 1)).share_ratio == math.inf


def test_big_products_are_sampled_within_the_budget(monkeypatch):
    monkeypatch.setattr(reference_module, "MAX_WEIGHTS", 1 << 20)
    M, N, K = 80, 2600, 2048
    generator = torch.Generator().manual_seed(0)
    a, w = torch.rand(M, K, generator=generator), torch.rand(N, K, generator=generator)
    reference = ProductReference.of(HeldMatrix(a), HeldMatrix(w), Rounding(2.0**-24, 2.0**-24))
    assert len(reference.rows) == MAX_ROWS
    assert len(reference.columns) * K <= 1 << 20
    output = a @ w.T
    assert reference.deviation(output).is_right
    for top in range(0, M, 16):
        for left in range(0, N, 860):
            wrong = output.clone()
            wrong[top : top + 16, left : left + 16] = 0
            assert not reference.deviation(wrong).is_right, (top, left)


@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, 3e-4), (torch.bfloat16, 0.6)])
def test_no_element_of_many_rows_can_be_wrong_unseen(dtype, least):
    """Every element is in a sum, also of the rows that are not looked at one by one: 3.0 beside terms of ±8 is far too
    much.
    """
    M, N, K = 70, 40, 256
    generator = torch.Generator().manual_seed(0)
    a, w = (torch.rand(rows, K, generator=generator).mul_(2).sub_(1).to(dtype) for rows in (M, N))
    unit = torch.finfo(dtype).eps / 2
    reference = ProductReference.of(HeldMatrix(a), HeldMatrix(w), Rounding(unit, 2.0**-24))
    output = (a.float() @ w.float().T).to(dtype)
    assert reference.deviation(output).is_right
    for row in range(M):
        for wrong_by in (3.0, -least * float(output.float().std())):
            wrong = output.clone()
            wrong[row, (7 * row) % N] += wrong_by
            assert not reference.deviation(wrong).is_right, (row, wrong_by)


def test_scales_offsets_tables_and_zero_points_by_hand():
    held = HeldMatrix(
        torch.tensor([[0, 1, 2, 3]], dtype=torch.uint8),
        scales=torch.tensor([[2.0, 10.0]]),
        offsets=torch.tensor([[0.5, -0.5]]),
        code_zero=1.0,
        tensor_scale=3.0,
    )
    # (code − 1) · scale · 3 + offset
    assert held.rows64(torch.tensor([0])).tolist() == [[-5.5, 0.5, 29.5, 59.5]]
    table = HeldMatrix(torch.tensor([[1, 0]], dtype=torch.uint8), table=torch.tensor([-7.0, 9.0], dtype=torch.float64))
    assert table.rows64(torch.tensor([0])).tolist() == [[9.0, -7.0]]


def test_tolerances_belong_to_the_format():
    law = {kernel.key: rounding_of(kernel) for kernel in KERNELS}
    assert law["cpu-INT8.INT8-int_mm"] == law["cuda-INT8.INT8-int_mm"] == Rounding()  # integers are exact
    assert law["cpu-FP32.FP32-matmul"] == law["cuda-FP32.FP32-matmul"] == Rounding(2.0**-24, 2.0**-24)
    assert law["cuda-TF32.TF32-matmul"].cut_ratio == 2.0**-9  # TF32 by mistake is not FP32
    assert law["cpu-FP16.FP16-matmul"].result_ratio == 2.0**-11
    assert law["cpu-INT4.BF16-int4pack"] == law["cpu-BF16.BF16-matmul"] == Rounding(2.0**-8, 2.0**-24)
    assert law["cuda-NF4.BF16-dequant_emulated"].operands_ratio == 2.0**-8  # decoded to BF16
    assert (
        law["cuda-MXFP4.BF16-dequant_emulated"].operands_ratio == 0
    )  # an element times a power of two is exact in BF16
    assert law["cuda-FP8_E4M3.FP8_E4M3-scaled_mm"].sums_ratio == 2.0**-13
