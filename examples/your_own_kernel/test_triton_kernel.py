"""A Triton kernel beside torch's own: RMSNorm, one program per row.

Needs Triton and a GPU. Without a GPU, `TRITON_INTERPRET=1 pytest` runs the kernel in Triton's interpreter: its result
is checked, its time means nothing, and it is stored under another kernel name for that reason.
"""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F

from roofline_model import OpCost, Operator

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

if triton is not None:

    @triton.jit
    def rms_norm_kernel(x_ptr, gain_ptr, y_ptr, hidden, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        columns = tl.arange(0, BLOCK)
        inside = columns < hidden
        x = tl.load(x_ptr + row * hidden + columns, mask=inside, other=0.0).to(tl.float32)
        gain = tl.load(gain_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / hidden + eps)
        tl.store(y_ptr + row * hidden + columns, (x * scale * gain).to(y_ptr.dtype.element_ty), mask=inside)


def triton_rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    rows, hidden = x.shape
    y = torch.empty_like(x)
    rms_norm_kernel[(rows,)](x, gain, y, hidden, 1e-6, BLOCK=triton.next_power_of_2(hidden))
    return y


def torch_rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), gain, eps=1e-6)


def reference(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain.double()


def rms_norm_work(rows: int, hidden: int) -> Operator:
    """Return the work of RMSNorm in BF16: x and gain read once, y written once, 4 FLOPs per element in FP32."""
    cost = OpCost(
        flops={"FP32": 4 * rows * hidden},
        read_bytes={"x": 2 * rows * hidden, "gain": 2 * hidden},
        write_bytes={"y": 2 * rows * hidden},
    )
    return Operator("rms_norm", (("rows", rows), ("hidden", hidden)), (("x", "BF16"),), cost)


def make_operands(rows: int, hidden: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, hidden, generator=generator).to(device, torch.bfloat16)
    return x, torch.linspace(0.5, 1.5, hidden, dtype=torch.bfloat16, device=device)


@pytest.mark.skipif(IS_INTERPRETED, reason="TRITON_INTERPRET=1: only the result is checked, nothing is compared")
@pytest.mark.parametrize(("rows", "hidden"), [(8, 4096), (4096, 4096)])
def test_triton_against_torch(roofline, rows, hidden):
    """The skip comes after `declare`, so that the case is stored with its prediction and the reason."""
    work = rms_norm_work(rows, hidden)
    for name in ("triton", "torch"):
        roofline.declare(work.case(name), work)
    if triton is None:
        pytest.skip("triton is not installed here: pip install triton")
    if roofline.torch_device != "cuda":
        pytest.skip("a Triton kernel needs a GPU; TRITON_INTERPRET=1 checks its result on a CPU")
    x, gain = make_operands(rows, hidden, roofline.torch_device)
    roofline.compare(
        {"triton": triton_rms_norm, "torch": torch_rms_norm},
        make_args=lambda i: (x.clone(), gain.clone()),
        work=work,
        reference=reference,
    )


@pytest.mark.skipif(not IS_INTERPRETED, reason="runs with TRITON_INTERPRET=1 only")
def test_result_in_the_interpreter(roofline):
    """A small odd shape, where a wrong mask would show."""
    if triton is None:
        pytest.skip("triton is not installed here: pip install triton")
    result = roofline.measure(
        triton_rms_norm,
        args=make_operands(3, 100, roofline.torch_device),
        work=rms_norm_work(3, 100),
        reference=reference,
        name="triton_interpreted",
    )
    assert result.measurement.max_error < 1e-2
