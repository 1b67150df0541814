"""Kernels that are wrong in ways which a norm over float64 does not show, through the fixture: none is a time.

Each class in every data type that has it, against its reference as a function and as a fixed output.
"""

from __future__ import annotations

from results import open_store

SUITE = """
    import numpy as np
    import pytest
    import torch
    import torch.nn.functional as F
    from roofline_model import gemm, residual_add

    TYPES = {"FP64": torch.float64, "FP32": torch.float32, "FP16": torch.float16, "BF16": torch.bfloat16}
    COMPLEX = {"FP64": torch.complex128, "FP32": torch.complex64}

    def numbers(*shape, seed=0):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def off_by_one(indices, width):
        changed = indices.clone()
        changed[7] = (changed[7] + 1) % width
        return changed

    def without_small(values):
        return torch.where(values.abs() < 1, torch.zeros_like(values), values)

    def neighbours(values):
        return torch.where(torch.arange(values.numel()).view(values.shape) % 17 == 0, values - 1, values)

    def quantised(x):
        return (x.double() / x.double().abs().amax() * 127).round()

    X, W = numbers(64, 96), numbers(96, 48, seed=1)
    UNEVEN = torch.tensor([1e4, 1e-4]).double().repeat(64)
    LARGE = torch.tensor([2**53, 2**60])
    BYTES = torch.arange(-128, 128, dtype=torch.int8).view(16, 16)
    # name: (wrong, reference, arguments of FP64, facts)
    OF_REALS = {
        "argmax": (lambda x: off_by_one(x.argmax(-1), 96), lambda x: x.argmax(-1), (X,), {}),
        "indices of topk": (lambda x: (lambda t: (t[0], (t[1] + 50) % 96))(x.topk(5)), lambda x: x.topk(5), (X,), {}),
        "one index of topk": (lambda x: (lambda t: (t[0], t[1][:, :1].expand(-1, 5)))(x.topk(5)), lambda x: x.topk(5), (X,), {}),
        "another key": (lambda x: {"y": x, "z": x}, lambda x: {"y": x, "w": x}, (X,), {}),
        "None elsewhere": (lambda x: (None, x), lambda x: (x, None), (X,), {}),
        "a part too few": (lambda x: (x,), lambda x: (x, x), (X,), {}),
        "a mapping": (lambda x: {0: x, 1: x}, lambda x: (x, x), (X,), {}),
        "text": (lambda x: "right", lambda x: x, (X,), {}),
        "small ones zeroed": (lambda x: without_small(2 * x), lambda x: 2 * x, (UNEVEN,), {}),
        "small ones zeroed by relu": (lambda x: without_small(F.relu(x)), F.relu, (UNEVEN,), {}),
        "small sums zeroed": (lambda x, y: without_small(x + y), lambda x, y: x + y, (UNEVEN, UNEVEN), {"work": residual_add(1, 128, a="FP32")}),
        "one small one zeroed": (lambda x: (2 * x).index_fill(0, torch.tensor([9]), 0), lambda x: 2 * x, (UNEVEN,), {}),
        "E5M2": (lambda x, w: (x @ w).to(torch.float8_e5m2), lambda x, w: x @ w, (X, W), {}),
        "rounded to E5M2": (lambda x, w: (x @ w).to(torch.float8_e5m2).to(x.dtype), lambda x, w: x @ w, (X, W), {}),
        "narrower than the work": (lambda x, w: (x @ w).half(), lambda x, w: x @ w, (X, W), {"work": gemm(64, 48, 96, a="FP32")}),
        "a scale of 1.5 %": (lambda x, w: (1.015 * (x.double() @ w.double())).to(x.dtype), lambda x, w: x @ w, (X, W), {}),
        "a term too few": (lambda x, w: x[:, 1:] @ w[1:], lambda x, w: x @ w, (X, W), {}),
        "no -inf": (lambda x: x.tril(), lambda x: x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(1), -torch.inf), (X,), {}),
        "the lowest for -inf": (
            lambda x: x.masked_fill(x < 0, torch.finfo(x.dtype).min), lambda x: x.masked_fill(x < 0, -torch.inf), (X,), {}
        ),
        "inf for -inf": (lambda x: x.masked_fill(x < 0, torch.inf), lambda x: x.masked_fill(x < 0, -torch.inf), (X,), {}),
        "-inf elsewhere": (lambda x: x.masked_fill(x > 2, -torch.inf), lambda x: x, (X,), {}),
        "NaN elsewhere": (lambda x: x.masked_fill(x > 2, torch.nan), lambda x: x, (X,), {}),
        "a mean 10 % off": (lambda x: x.abs().mean() * 1.1, lambda x: x.abs().mean(), (X,), {}),
        "a norm of 0": (lambda x: x.norm() * 0, lambda x: x.norm(), (X,), {}),
        "another sum": (lambda x: x.mean().item(), lambda x: x.sum(), (X,), {}),
        "sparse and shifted": (lambda x: x.float().roll(1).to_sparse(), lambda x: x, (X,), {}),
        "floor for round": (lambda x: (x.double() / x.double().abs().amax() * 127).floor().to(torch.int8), quantised, (X,), {}),
        "an integer two off": (lambda x: (quantised(x) + 2 * (x > 2)).to(torch.int8), quantised, (X,), {}),
        "a truth value": (lambda x: (x > 0).index_fill(0, torch.tensor([5]), True), lambda x: x > 0, (X,), {}),
    }
    OF_COMPLEX = {
        "no imaginary parts": (lambda z: (z @ z.T).real, lambda z: z @ z.T),
        "imaginary parts 0": (lambda z: torch.complex((z @ z.T).real, 0 * z.real @ z.T.real), lambda z: z @ z.T),
        "conjugated": (lambda z: (z @ z.T).conj(), lambda z: z @ z.T),
    }
    OF_INTEGERS = {
        "int64 beyond float64": (lambda x: x + 1, lambda x: x + 2, (LARGE,)),
        "INT8 off by one": (lambda x: neighbours(x.short()), lambda x: x.long(), (BYTES,)),
        "INT8 product off by one": (lambda x: neighbours(x.int() @ x.int()), lambda x: x.double() @ x.double(), (BYTES,)),
        "INT8 as E5M2": (lambda x: (x.float() @ x.float()).to(torch.float8_e5m2), lambda x: x.double() @ x.double(), (BYTES,)),
        "INT8 wrapped": (lambda x: x + x, lambda x: x.long() + x.long(), (BYTES,)),
        "INT8 argmax": (lambda x: off_by_one(x.argmax(-1), 16), lambda x: x.long().argmax(-1), (BYTES,)),
    }
    CASES = [
        (f"{kind} {name}", wrong, in_double, tuple(x.to(dtype) for x in args), facts)
        for name, (wrong, reference, args, facts) in OF_REALS.items()
        for kind, dtype in TYPES.items()
        for in_double in [lambda *args, reference=reference: reference(*(x.double() for x in args))]
        if "work" not in facts or kind == "FP32"
    ]
    CASES += [
        (f"{kind} {name}", wrong, lambda z, reference=reference: reference(z.cdouble()), (torch.complex(X, X + 1).to(dtype),), {})
        for name, (wrong, reference) in OF_COMPLEX.items() for kind, dtype in COMPLEX.items()
    ]
    CASES += [(name, wrong, reference, args, {}) for name, (wrong, reference, args) in OF_INTEGERS.items()]

    @pytest.mark.parametrize("is_fixed", [False, True])
    def test_wrong(roofline, is_fixed):
        passed = []
        for name, kernel, reference, args, facts in CASES:
            given = reference(*args) if is_fixed else reference
            try:
                roofline.measure(kernel, args=args, reference=given, name=name, **facts)
            except AssertionError:
                continue
            passed.append(name)
        assert not passed
        assert len(CASES) > 100
"""
OPTIONS = (
    "--hw",
    "b10",
    "--roofline-timer",
    "simulated:true_s=1e-5",
    "--roofline-db",
    "r.db",
    "-p",
    "no:cacheprovider",
)


def test_no_wrong_kernel_is_stored_as_a_time(pytester):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_inprocess(*OPTIONS)
    with open_store(pytester.path / "r.db", read_only=True) as store:
        records = store.records(store.runs()[0].run_id)
    assert [record.case.kernel for record in records if record.status == "measured"] == []
    result.assert_outcomes(passed=2)
