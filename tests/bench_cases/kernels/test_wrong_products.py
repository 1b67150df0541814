"""Products computed wrongly on purpose, in every format: each is caught. Right ones on random operands: none is.

A wrong kernel is written on the codes and scales that a kernel holds, so that formats whose kernels need a GPU are here
too.
"""

from __future__ import annotations

import dataclasses

import pytest
from counts import FULL

torch = pytest.importorskip("torch")

from bench_cases.kernels.inputs import structured_operands, uniform  # noqa: E402
from bench_cases.kernels.products.catalog import KERNELS  # noqa: E402
from bench_cases.kernels.products.prepare import load_implementation, product_reference  # noqa: E402
from bench_cases.kernels.reference import rounding_of  # noqa: E402
from bench_cases.shapes.products import Shape  # noqa: E402

M, N, K = 8, 144, 384
OUTPUT = {"FP32": torch.float32, "BF16": torch.bfloat16, "FP16": torch.float16}


@pytest.fixture(autouse=True)
def packing_without_a_gpu(monkeypatch):
    """Only CUDA packs tinygemm's weights; the codes and scales it packs are the same."""
    monkeypatch.setattr(torch, "_convert_weight_to_int4pack", lambda codes, tiles: codes)


def rounded(kernel, values):
    """Return a result in the kernel's format; integer kernels keep all digits."""
    return values.double() if is_exact(kernel) else values.to(OUTPUT[kernel.output])


def is_exact(kernel):
    return kernel.activation == kernel.weight == "INT8"


def matrices(kernel, a, w):
    """Return the operands as the kernel multiplies them, float64."""
    every = slice(None)
    weight = w.rows64(every)
    return a.rows64(every), weight.to(torch.bfloat16).double() if kernel.decoded else weight


def product(kernel, a, w):
    left, right = matrices(kernel, a, w)
    return rounded(kernel, left @ right.T if is_exact(kernel) else left.float() @ right.float().T)


def on_output(change):
    return lambda kernel, a, w: rounded(kernel, change(product(kernel, a, w).double()))


def on_matrices(change):
    return lambda kernel, a, w: rounded(kernel, torch.matmul(*change(*matrices(kernel, a, w))))


def on_weight(change):
    """Change the weight as it is held; None: the format has nothing to change there."""

    def wrong(kernel, a, w):
        changed = change(w)
        return None if changed is None else product(kernel, a, changed)

    return wrong


def element(output):
    output[3, 77] += 3.0
    return output


def zeroed(*index):
    def change(output):
        output[index] = 0
        return output

    return change


def stale_tile(output):
    output[:, 16:32] = output[:, :16]
    return output


def nan(output):
    output[-1, -1] = float("nan")
    return output


def running_sum(dtype):
    def wrong(kernel, a, w):
        left, right = (matrix.float() for matrix in matrices(kernel, a, w))
        total = torch.zeros(len(left), len(right), dtype=dtype)
        for k in range(left.shape[1]):
            total = (total.float() + left[:, k : k + 1] * right[:, k]).to(dtype)
        return rounded(kernel, total.double())

    return wrong


def first_twice(left, right):
    left, right = left.clone(), right.clone()
    left[:, 1], right[:, 1] = left[:, 0], right[:, 0]
    return left, right.T


def neighbours_swapped(left, right):
    return left, right.unflatten(1, (-1, 2)).flip(2).flatten(1).T


def block_elems(w):
    return w.codes.shape[1] // w.scales.shape[1]


def with_scales(change):
    return lambda w: None if w.scales is None else dataclasses.replace(w, scales=change(w.scales.float()))


def neighbour_block(w):
    if w.scales is None or w.scales.shape[1] == 1:
        return None
    return dataclasses.replace(w, scales=w.scales.float().roll(1, dims=1))


def neighbour_row(w):
    """One scale for the tensor has no neighbour."""
    if w.scales is None or bool((w.scales.float() == w.scales.float()[0]).all()):
        return None
    return dataclasses.replace(w, scales=w.scales.float().roll(1, dims=0))


def last_scale_lost(w):
    if w.scales is None:
        return None
    scales = w.scales.float().clone()
    scales[-1, -1] = 0
    return dataclasses.replace(w, scales=scales)


def tensor_scale_lost(w):
    return None if w.tensor_scale == 1 else dataclasses.replace(w, tensor_scale=1.0)


def zero_point_off_by_one(w):
    return dataclasses.replace(w, code_zero=w.code_zero + 1) if is_integer(w) else None


def is_integer(w):
    return w.table is None and not w.codes.dtype.is_floating_point


def offsets_lost(w):
    return None if w.offsets is None else dataclasses.replace(w, offsets=None)


def offsets_of_the_neighbour(w):
    return None if w.offsets is None else dataclasses.replace(w, offsets=w.offsets.roll(1, dims=0))


def next_code(w):
    """Every element read as the next one of the format's table."""
    if w.table is None:
        return None
    return dataclasses.replace(w, codes=(w.codes.int() + 1).remainder(len(w.table)).to(torch.uint8))


def half_a_scale(w):
    """The scale taken for the one of the next smaller power of two, in one block."""
    if w.scales is None:
        return None
    scales = w.scales.float().clone()
    scales[N // 2, 0] /= 2
    return dataclasses.replace(w, scales=scales)


WRONG = {
    "rows off by one": on_output(lambda c: c.roll(1, dims=0)),
    "columns off by one": on_output(lambda c: c.roll(1, dims=1)),
    "dropped tail of columns": on_output(zeroed(slice(None), slice(-16, None))),
    "last column lost": on_output(zeroed(slice(None), -1)),
    "last row lost": on_output(zeroed(-1)),
    "one element off by 3": on_output(element),
    "one element lost": on_output(zeroed(2, 100)),
    "scale off by 1 %": on_output(lambda c: c * 1.01),
    "transposed": on_output(lambda c: c.T.reshape(c.shape)),
    "tile of the neighbour": on_output(stale_tile),
    "NaN": on_output(nan),
    "clipped": on_output(lambda c: c.clamp(-c.std(), c.std())),
    "negative results lost": on_output(torch.relu),
    "result in FP8": on_output(lambda c: (c / c.abs().max()).to(torch.float8_e4m3fn).double() * c.abs().max()),
    "a constant added": on_output(lambda c: c + c.std() / 8),
    "last k lost": on_matrices(lambda a, w: (a[:, :-1], w[:, :-1].T)),
    "last block of k lost": on_matrices(lambda a, w: (a[:, :-16], w[:, :-16].T)),
    "first k twice": on_matrices(first_twice),
    "k off by one": on_matrices(lambda a, w: (a, w.roll(1, dims=1).T)),
    "neighbours swapped": on_matrices(neighbours_swapped),
    "signs of the weight lost": on_matrices(lambda a, w: (a, w.abs().T)),
    "sum in FP16": running_sum(torch.float16),
    "sum in BF16": running_sum(torch.bfloat16),
    "scale missing": on_weight(with_scales(torch.ones_like)),
    "scale of the neighbour block": on_weight(neighbour_block),
    "scale of the neighbour row": on_weight(neighbour_row),
    "scale of the last block lost": on_weight(last_scale_lost),
    "scale of one block half": on_weight(half_a_scale),
    "scale of the tensor lost": on_weight(tensor_scale_lost),
    "zero point off by one": on_weight(zero_point_off_by_one),
    "zero points lost": on_weight(offsets_lost),
    "zero point of the neighbour": on_weight(offsets_of_the_neighbour),
    "next code of the table": on_weight(next_code),
}


def by_format():
    """One kernel of each pair of formats and device: the arithmetic that a tolerance is worked out from."""
    return list({(k.device, k.weight, k.activation, bool(k.decoded), rounding_of(k)): k for k in KERNELS}.values())


def checked_on(kernel):
    """Yield operands and reference of what a kernel is checked on: random operands, and those with a structure."""
    build = load_implementation(kernel)
    random = build(kernel, uniform("a", M, K, "cpu"), uniform("w", N, K, "cpu"))
    yield random, product_reference(kernel, random)
    for _, activation, weight in structured_operands(M, kernel.output):
        built = build(kernel, activation, weight)
        yield built, product_reference(kernel, built, is_random=False)


def verdicts(kernel, checks, compute):
    """Return whether each output is right; None where there is nothing to make wrong."""
    verdict = []
    for built, reference in checks:
        output = compute(kernel, built.activation, built.weight)
        if output is None:
            return None
        verdict.append(reference.deviation(output).is_right)
    return verdict


@pytest.mark.parametrize("kernel", by_format(), ids=lambda kernel: kernel.key)
def test_every_wrong_kernel_is_caught_in_every_format(kernel):
    checks = list(checked_on(kernel))
    assert all(verdicts(kernel, checks, product))  # the same arithmetic without a fault
    tried = {name: right for name, wrong in WRONG.items() if (right := verdicts(kernel, checks, wrong)) is not None}
    assert len(tried) >= 20
    assert [name for name, right in tried.items() if all(right)] == []


def random_operands(seed):
    """Return operands of one of four distributions: uniform, normal, with outliers, and with rows of every
    magnitude.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = (1, 3, 8, 24)[seed % 4]
    a, w = torch.randn(rows, 256, generator=generator), torch.randn(48, 256, generator=generator)
    kind = seed // 4 % 4
    if kind == 0:
        a, w = (torch.rand(matrix.shape, generator=generator) * 2 - 1 for matrix in (a, w))
    elif kind == 2:
        a[:, seed % 256] *= 30
        w[seed % 48] *= 8
    elif kind == 3:
        a *= torch.exp2(torch.randint(-6, 3, (rows, 1), generator=generator).float())
        w *= torch.exp2(torch.randint(-6, 3, (48, 1), generator=generator).float())
    return a, w


def is_run_here(kernel):
    return kernel.name not in ("scaled_mm_block", "tinygemm")


RANDOM_INPUTS = 1000 if FULL else 20


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.key)
def test_no_right_kernel_fails_on_random_operands(kernel):
    """The kernel itself where a CPU can run it, else its arithmetic on the operands it would get."""
    build, failed = load_implementation(kernel), []
    for seed in range(RANDOM_INPUTS):
        a, w = random_operands(seed)
        if kernel.name == "int_mm" and kernel.device == "cuda" and len(a) < 17:
            a = a.repeat(24, 1)[:24]
        if kernel.reason_against(kernel.work(Shape(len(a), 48, 256, "")).case(kernel.name)) is not None:
            continue
        built = build(kernel, a, w)
        with built.settings():
            output = built.fn(*built.args) if is_run_here(kernel) else product(kernel, built.activation, built.weight)
        deviation = product_reference(kernel, built).deviation(output)
        if not deviation.is_right:
            failed.append((seed, deviation))
    assert failed == []
