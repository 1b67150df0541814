"""Right kernels of many contracts: what is done to find wrong ones neither fails them nor puts their times in doubt."""

from __future__ import annotations

from results import open_store

SUITE = """
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
x = torch.randn(64, 96)
w = torch.randn(48, 96)
square = torch.randn(40, 40)
definite = square @ square.T + 40 * torch.eye(40)
table = torch.randn(500, 32)
rows = torch.randint(0, 500, (64,))
buffer = torch.empty(64, 48)
noise = torch.Generator().manual_seed(1)
state = {"at": 0}
a = np.random.default_rng(0).standard_normal((64, 64))


def into(x, out):
    out.copy_(x * 2)
    return out


def counting(x):
    state["at"] += 1
    return x + state["at"]


def reset():
    state["at"] = 0


def reused(x, w):
    return torch.mm(x, w.T, out=buffer)


CASES = {
    "linear": (F.linear, (x, w), lambda x, w: x.double() @ w.double().T),
    "linear_fixed": (F.linear, (x, w), x.double() @ w.double().T),
    "transposed": (torch.mm, (x, w.T), lambda x, w: x.double() @ w.double()),
    "int8": (torch._int_mm, ((x * 30).to(torch.int8), (w.T.contiguous() * 30).to(torch.int8)),
             lambda x, w: x.double() @ w.double()),
    "half": (torch.mm, (x.half(), w.T.half()), lambda x, w: x.double() @ w.double()),
    "bfloat16": (torch.mm, (x.bfloat16(), w.T.bfloat16()), lambda x, w: x.double() @ w.double()),
    "float8": (lambda x, w: x.float() @ w.float().T, (x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)),
               lambda x, w: x.double() @ w.double().T),
    "softmax": (lambda x: x.softmax(-1), (x,), lambda x: x.double().softmax(-1)),
    "rms_norm": (lambda x, g: F.rms_norm(x, (96,), g), (x, w[0]), lambda x, g: F.rms_norm(x.double(), (96,), g.double())),
    "layer_norm": (lambda x: F.layer_norm(x, (96,)), (x,), lambda x: F.layer_norm(x.double(), (96,))),
    "argmax": (lambda x: x.argmax(-1), (x,), lambda x: x.argmax(-1)),
    "topk": (lambda x: tuple(x.topk(5)), (x,), lambda x: tuple(x.topk(5))),
    "sort": (lambda x: x.sort(-1).values, (x,), lambda x: x.sort(-1).values),
    "sign": (torch.sign, (x,), torch.sign),
    "exp": (torch.exp, (x,), lambda x: x.double().exp()),
    "log": (lambda x: (x.abs() + 1).log(), (x,), lambda x: (x.double().abs() + 1).log()),
    "acosh": (torch.acosh, (x.abs() + 1.1,), lambda x: x.double().acosh()),
    "cholesky": (torch.linalg.cholesky, (definite,), lambda d: torch.linalg.cholesky(d.double())),
    "solve": (torch.linalg.solve, (definite, x[:40]), lambda d, x: torch.linalg.solve(d.double(), x.double())),
    "attention": (F.scaled_dot_product_attention, (torch.randn(1, 2, 16, 32),) * 3,
                  lambda q, k, v: F.scaled_dot_product_attention(q.double(), k.double(), v.double())),
    "embedding": (F.embedding, (rows, table), lambda rows, table: table.double()[rows]),
    "embedding_fixed": (F.embedding, (rows, table), table.double()[rows]),
    "gather": (lambda t, r: t.index_select(0, r), (table, rows), lambda t, r: t.double()[r]),
    "complex": (lambda x, w: (torch.complex(x, x) @ torch.complex(w, w).T).abs(), (x, w),
                lambda x, w: (torch.complex(x, x).cdouble() @ torch.complex(w, w).cdouble().T).abs()),
    "item": (lambda x: float(x.abs().sum()), (x,), lambda x: float(x.double().abs().sum())),
    "mean_fixed": (lambda x: x.abs().mean(), (x.bfloat16(),), x.bfloat16().double().abs().mean()),
    "logsumexp_fixed": (lambda x: x.logsumexp(0), (x.bfloat16().view(-1),), x.bfloat16().double().view(-1).logsumexp(0)),
    "structure": (lambda x: {"a": x * 2, "b": [x + 1, x.sum(0)]}, (x,),
                  lambda x: {"a": x.double() * 2, "b": [x.double() + 1, x.double().sum(0)]}),
    "view": (lambda x: x.T, (x,), lambda x: x.T),
    "itself": (lambda x: x, (x,), lambda x: x),
    "zeros": (torch.zeros_like, (x + 1,), lambda x: x * 0 + 0),
    "out": (reused, (x, w), lambda x, w: x.double() @ w.double().T),
    "out_argument": (into, (x, torch.empty_like(x)), lambda x, out: x.double() * 2),
    "numpy": (np.matmul, (a, a.copy()), lambda a, b: a @ b),
    "numpy_read_only": (lambda a: a.sum(0), (np.broadcast_to(a[0], (64, 64)),), lambda a: a.sum(0)),
    "numpy_int": (lambda a, b: a @ b, ((a * 9).astype(np.int32),) * 2, lambda a, b: a @ b),
    "plain_list": (lambda values: sum(values), ([1.5, 2.5] * 20,), lambda values: 80.0),
    "no_argument": (lambda: x @ w.T, (), x.double() @ w.double().T),
    "inference": (lambda p: p * 2, (torch.nn.Parameter(x.clone()),), lambda p: p.detach().double() * 2),
}


@pytest.mark.parametrize("is_rotated", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_right(roofline, name, is_rotated):
    kernel, args, reference = CASES[name]
    if is_rotated and not args:
        pytest.skip("nothing to rotate")
    if is_rotated and name in ("numpy_read_only", "plain_list"):
        pytest.skip("no memory of its own")

    def copy(value):
        is_parameter = isinstance(value, torch.nn.Parameter)
        return torch.nn.Parameter(value.detach().clone()) if is_parameter else (
            value.clone() if isinstance(value, torch.Tensor) else value.copy())

    before = [value.copy() if isinstance(value, np.ndarray | list) else value.clone() for value in args]
    given = {"make_args": lambda i: tuple(map(copy, args))} if is_rotated else {"args": args}
    roofline.measure(kernel, **given, reference=reference, name=f"{name}-{is_rotated}")
    if name != "out_argument":
        assert all(bool(np.all(np.asarray(b.tolist() if hasattr(b, "tolist") else b)
                               == np.asarray(v.tolist() if hasattr(v, "tolist") else v)))
                   for b, v in zip(before, args, strict=True)), "an argument is not as it was"


def test_random(roofline):
    roofline.measure(lambda: torch.randn(1000, generator=noise), check=lambda out: abs(float(out.std()) - 1) / 50)


def test_set_up(roofline):
    roofline.measure(counting, args=(x,), reference=lambda x: x.double() + 1, setup=reset)


def test_in_place(roofline):
    roofline.measure(
        lambda h, b: h.add_(b), make_args=lambda i: (x.clone(), x.clone() * 1e-3), mutates=(0,),
        reference=lambda h, b: h.double() + b.double(),
    )


def test_sets_of_other_data(roofline):
    roofline.measure(
        F.linear, make_args=lambda i: (torch.randn(64, 96), torch.randn(48, 96)),
        reference=lambda x, w: x.double() @ w.double().T,
    )


def test_compared(roofline):
    roofline.compare({"mm": lambda x, w: x @ w.T, "linear": F.linear}, args=(x, w),
                     reference=lambda x, w: x.double() @ w.double().T)


@torch.inference_mode()
def test_in_inference_mode(roofline):
    roofline.measure(F.linear, args=(x.clone(), w.clone()), reference=lambda x, w: x.double() @ w.double().T)
"""
CONFTEST = """
import plugin.run.instruments

plugin.run.instruments.Instruments.cache_bytes = lambda self: 256 * 1024.0  # few sets are then cold
"""
OURS = {"above-roof", "clocks-disagree", "lazy-result", "operand-unread", "sets-unchecked"}
"""Doubts that a busy machine does not raise."""


def test_right_kernels_are_stored_without_a_doubt_and_their_arguments_are_as_they_were(pytester):
    pytester.makepyfile(conftest=CONFTEST, test_kernels=SUITE)
    result = pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "--roofline-db", "r.db", "--hw", "b10", "--roofline-force-measure",
        "--roofline-device", "cpu", "--roofline-isolate", "none", "--roofline-max-seconds", "0.01",
        "--roofline-no-canary", "--benchmark-disable", "--tb", "short",
    )  # fmt: skip
    assert result.parseoutcomes().get("failed", 0) == 0
    with open_store(pytester.path / "r.db", read_only=True) as store:
        records = store.records(store.runs()[0].run_id)
    doubted = {
        record.test_id.rpartition("::")[2]: OURS.intersection(record.measurement.flags)
        for record in records
        if record.measurement is not None and OURS.intersection(record.measurement.flags)
    }
    assert doubted == {}
    assert sum(record.status == "measured" for record in records) >= 78
