from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from bench_cases.kernels.products.catalog import KERNELS  # noqa: E402
from bench_cases.kernels.reference import (  # noqa: E402
    MAX_OPERAND_ELEMENTS,
    MAX_ROWS,
    HeldMatrix,
    ProductReference,
    sample_index,
    tolerance_for,
)


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
    reference = ProductReference.of(held, HeldMatrix(torch.tensor([[5.0, 6.0]])))
    assert reference.expected.tolist() == [[17.0], [39.0]]
    assert reference.error(torch.tensor([[17.0], [39.0]])) == 0
    assert reference.error(torch.tensor([[17.0], [40.0]])) == pytest.approx(1 / math.hypot(17, 39))


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
    reference = ProductReference.of(HeldMatrix(torch.ones(2, 2)), HeldMatrix(torch.ones(1, 2)))
    assert math.isnan(reference.error(bad))


def test_a_zero_product_accepts_only_zero():
    reference = ProductReference.of(HeldMatrix(torch.zeros(2, 2)), HeldMatrix(torch.ones(1, 2)))
    assert reference.error(torch.zeros(2, 1)) == 0
    assert reference.error(torch.ones(2, 1)) == math.inf


def test_big_products_are_sampled_within_the_budget_and_every_tile_is_met():
    M, N, K = 80, 2600, 2048
    generator = torch.Generator().manual_seed(0)
    a, w = torch.rand(M, K, generator=generator), torch.rand(N, K, generator=generator)
    reference = ProductReference.of(HeldMatrix(a), HeldMatrix(w))
    assert len(reference.rows) <= MAX_ROWS
    assert len(reference.columns) * K <= MAX_OPERAND_ELEMENTS
    output = a @ w.T
    assert reference.error(output) < 1e-5
    for top in range(0, M, 16):
        for left in range(0, N, 860):
            wrong = output.clone()
            wrong[top : top + 16, left : left + 16] = 0
            assert reference.error(wrong) > 2.0**-7, (top, left)


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
    by_key = {kernel.key: tolerance_for(kernel, 4096) for kernel in KERNELS}
    assert by_key["cpu-INT8.INT8-int_mm"] < 1e-9  # integers are exact
    assert by_key["cpu-FP32.FP32-matmul"] < 1e-4 < by_key["cuda-TF32.TF32-matmul"]  # TF32 by mistake is not FP32
    assert by_key["cuda-TF32.TF32-matmul"] < by_key["cpu-BF16.BF16-matmul"]
    assert all(0 < tolerance < 0.01 for tolerance in by_key.values())
    assert tolerance_for(KERNELS[0], 40_000) > tolerance_for(KERNELS[0], 4_000)
