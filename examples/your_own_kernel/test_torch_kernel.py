"""Measure kernels of your own with the `roofline` fixture: torch operators stand in for them here.

Copy what you need: nothing in this file imports roofline-bench but the description of the work.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from roofline_model import OpCost, Operator, batched_gemm, gemm, grouped_gemm

BF16_BYTES = 2


def random_bf16(*shape: int, device: str, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator(device="cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(torch.bfloat16).to(device)


# 1. One kernel, cold and warm --------------------------------------------------------------------------------


def test_linear_cold(roofline):
    """`make_args(i)` returns operand set i: equal data in distinct memory.

    The sets are rotated past the cache: cold.
    """
    x, weight = (
        random_bf16(1, 4096, device=roofline.torch_device),
        random_bf16(4096, 4096, device=roofline.torch_device),
    )
    result = roofline.measure(
        F.linear,
        make_args=lambda i: (x.clone(), weight.clone()),
        work=gemm(1, 4096, 4096, a="BF16"),
        reference=lambda x, w: x.double() @ w.double().T,
        tolerance=1e-2,
        name="linear",
    )
    good = result.expected or result.prediction  # nothing is expected on a CPU before `roofline calibrate`
    assert result.doubts or not good or result.median_s < 3 * good.time_s


def test_linear_warm(roofline):
    """`args` is one set, used again and again: it may stay in cache, and the case is called warm."""
    x, weight = (
        random_bf16(1, 1024, device=roofline.torch_device),
        random_bf16(1024, 1024, device=roofline.torch_device),
    )
    roofline.measure(
        F.linear,
        args=(x, weight),
        work=gemm(1, 1024, 1024, a="BF16"),
        reference=lambda x, w: x.double() @ w.double().T,
        name="linear",
    )


# 2. Mine against torch's, on work that is no matrix product ----------------------------------------------------


def rms_norm_work(rows: int, hidden: int) -> Operator:
    """Return the work of y = x / rms(x) · g: what an ideal kernel must move and compute.

    Counts: x and g read once, y written once; per element one square, one add, two products, in FP32.
    An `Operator` names the case (op, sizes, formats); a plain `OpCost` as `work` would do for the prediction.
    """
    cost = OpCost(
        flops={"FP32": 4 * rows * hidden},
        read_bytes={"x": rows * hidden * BF16_BYTES, "g": hidden * BF16_BYTES},
        write_bytes={"y": rows * hidden * BF16_BYTES},
    )
    return Operator("rms_norm", (("rows", rows), ("hidden", hidden)), (("x", "BF16"),), cost)


def my_rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """The kernel that somebody would like to be faster than torch's."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (wide * scale).to(x.dtype) * gain


def torch_rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), gain, eps=1e-6)


def rms_norm_reference(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain.double()


@pytest.mark.parametrize("rows", [1, 512])
def test_rms_norm_against_torch(roofline, rows):
    """`compare` takes one sample of each in turn, so that a machine that drifts is fair to both."""
    hidden = 4096
    x = random_bf16(rows, hidden, device=roofline.torch_device)
    gain = random_bf16(hidden, device=roofline.torch_device, seed=1)
    comparison = roofline.compare(
        {"mine": my_rms_norm, "torch": torch_rms_norm},
        args=(x, gain),
        work=rms_norm_work(rows, hidden),
        reference=rms_norm_reference,
        tolerance=1e-2,
    )
    assert set(comparison) == {"mine", "torch"}


# 3. Batched and grouped products ------------------------------------------------------------------------------


def test_batched_product(roofline):
    """Several products of one shape, each with its own weights."""
    batch, m, n, k = 8, 16, 512, 512
    a = random_bf16(batch, m, k, device=roofline.torch_device)
    b = random_bf16(batch, k, n, device=roofline.torch_device, seed=1)
    roofline.measure(
        torch.bmm,
        make_args=lambda i: (a.clone(), b.clone()),
        work=batched_gemm(batch, m, n, k, a="BF16"),
        reference=lambda a, b: a.double() @ b.double(),
        name="bmm",
    )


def grouped_product(tokens: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
    """Each expert multiplies the tokens it was given, one after another."""
    return [x @ w for x, w in zip(tokens, weights, strict=True)]


def test_grouped_product_of_experts(roofline):
    """Products of different sizes in one call, as a mixture of experts has them; one expert got no token."""
    n, k, tokens_per_expert = 1024, 512, (5, 0, 23, 100)
    tokens = [random_bf16(m, k, device=roofline.torch_device, seed=m) for m in tokens_per_expert]
    weights = [random_bf16(k, n, device=roofline.torch_device, seed=i) for i in range(len(tokens_per_expert))]
    roofline.measure(
        grouped_product,
        make_args=lambda i: ([x.clone() for x in tokens], [w.clone() for w in weights]),
        work=grouped_gemm([(m, n, k) for m in tokens_per_expert], a="BF16"),
        reference=lambda xs, ws: [x.double() @ w.double() for x, w in zip(xs, ws, strict=True)],
        name="one_by_one",
    )


# 4. A kernel that writes to its arguments ---------------------------------------------------------------------


def add_residual(hidden: torch.Tensor, branch: torch.Tensor) -> torch.Tensor:
    return hidden.add_(branch)


def test_residual_in_place(roofline):
    """`mutates=(0,)`: argument 0 is overwritten, so it is put back before and after each check of the result."""
    count = 4096 * 512
    hidden, branch = (random_bf16(count, device=roofline.torch_device, seed=seed) for seed in (0, 1))
    branch *= 1e-3  # repeated thousands of times between two checks: the sums must stay finite
    roofline.measure(
        add_residual,
        make_args=lambda i: (hidden.clone(), branch.clone()),
        work=OpCost(
            flops={"BF16": count},
            read_bytes={"hidden": count * BF16_BYTES, "branch": count * BF16_BYTES},
            write_bytes={"hidden": count * BF16_BYTES},
        ),
        reference=lambda hidden, branch: hidden.double() + branch.double(),
        mutates=(0,),
        name="residual_in_place",
    )
