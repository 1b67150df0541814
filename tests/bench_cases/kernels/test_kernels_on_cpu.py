from __future__ import annotations

import dataclasses
import itertools

import pytest
from counts import sampled

torch = pytest.importorskip("torch")

from bench_cases.kernels.guards import read_machine_facts, skip_reason  # noqa: E402
from bench_cases.kernels.products.catalog import cases_for  # noqa: E402
from bench_cases.kernels.products.prepare import prepare  # noqa: E402
from bench_cases.shapes.products import Shape  # noqa: E402
from roofline_model.core.finding import finding  # noqa: E402

SHAPES = [(1, 64, 128), (3, 48, 256), (8, 128, 384), (64, 80, 256)]
ODD_SHAPES = [(1, 7, 13), (3, 33, 72), (17, 100, 129), (2, 1, 1)]


def specs(sizes):
    return [spec for M, N, K in sizes for spec in cases_for("cpu", [Shape(M, N, K, "test")])]


@pytest.mark.parametrize("spec", specs(SHAPES), ids=lambda spec: spec.case.id)
def test_every_cpu_kernel_is_right_and_every_rotation_set_gives_the_same(spec):
    assert skip_reason(spec, read_machine_facts("cpu")) is None
    kernel = prepare(spec, "cpu")
    with kernel.settings():
        outputs = [kernel.fn(*kernel.make_args(index)) for index in range(3)]
    errors = [kernel.check(output) for output in outputs]
    assert errors[0].is_right
    assert errors[1:] == errors[:1] * 2


@pytest.mark.parametrize("spec", specs(ODD_SHAPES), ids=lambda spec: spec.case.id)
def test_odd_sizes_are_skipped_with_a_reason_or_run_correctly(spec):
    reason = skip_reason(spec, read_machine_facts("cpu"))
    if reason is not None:
        assert (reason.subject, reason.code) == (spec.kernel.name, "shape-not-taken")
        return
    kernel = prepare(spec, "cpu")
    assert kernel.check(kernel.fn(*kernel.make_args(0))).is_right


def test_the_unchecked_kernels_are_never_given_the_sizes_that_crash_them():
    reasons = {spec.kernel.name: skip_reason(spec, read_machine_facts("cpu")) for spec in specs([(3, 33, 72)])}
    assert reasons["int8pack"] == finding(
        "shape-not-taken", "int8pack", kind="multiple", dimension="K", multiple_count=16, size_count=72
    )
    assert reasons["int4pack"] is not None
    assert reasons["int_mm"] is None


@pytest.mark.parametrize("spec", specs([(8, 64, 256)]), ids=lambda spec: spec.case.id)
def test_rotation_sets_are_equal_data_in_distinct_memory_and_layout(spec):
    kernel = prepare(spec, "cpu")
    first, second, third = (kernel.make_args(index) for index in (0, 1, 2))
    for a, b, c in zip(first, second, third, strict=True):
        assert len({a.data_ptr(), b.data_ptr(), c.data_ptr()}) == 3
        assert a.stride() == b.stride() == c.stride()
        assert a.dtype == b.dtype
        assert torch.equal(
            a.view(torch.uint8) if a.element_size() == 1 else a, b.view(torch.uint8) if b.element_size() == 1 else b
        )


@pytest.mark.parametrize("spec", specs([(8, 256, 512)]), ids=lambda spec: spec.case.id)
def test_the_operands_occupy_what_the_prediction_counts(spec):
    """Bytes of a rotation set against the counted reads; only unscaled per-row or per-tensor scales may be missing."""
    kernel = prepare(spec, "cpu")
    held = sum(tensor.nbytes for tensor in kernel.make_args(0))
    counted = spec.work.cost.total_read_bytes
    assert counted <= held <= counted + 4 * (256 + 8)


FAULTS = ("one column", "one row", "scaled", "nan", "inf", "transposed", "nothing", "swapped operand")


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        pytest.param(spec, fault, id=f"{spec.case.id}-{fault}")
        for spec, fault in sampled(itertools.product(specs([(3, 64, 256), (64, 64, 256)]), FAULTS), 40)
    ],
)
def test_a_wrong_kernel_is_caught(spec, fault):
    kernel = prepare(spec, "cpu")
    output = kernel.fn(*kernel.make_args(0)).clone()
    right = output.clone()
    if fault == "one column":
        output[:, 17] = 0
    elif fault == "one row":
        output[-1] = 0
    elif fault == "scaled":
        output = (output.double() * 1.02).to(torch.float64)
    elif fault in ("nan", "inf"):
        output = output.double()
        output[0, 0] = float(fault)
    elif fault == "transposed":
        output = output.T.contiguous() if output.shape[0] != output.shape[1] else output.T.flip(0)
    elif fault == "nothing":
        output = torch.zeros_like(output)
    else:
        output = output.roll(1, dims=1)
    error = kernel.check(output)
    assert not error.is_right
    assert kernel.check(right).is_right


def test_a_packing_fault_is_caught():
    """Codes reach the kernel packed and the reference unpacked, so swapped nibbles cannot agree with it."""
    [spec] = [s for s in specs([(8, 64, 256)]) if s.kernel.name == "int4pack"]
    kernel = prepare(spec, "cpu")
    a, packed, scales = kernel.make_args(0)
    swapped = (packed << 4) | (packed >> 4)
    assert not kernel.check(kernel.fn(a, swapped, scales)).is_right
    assert not kernel.check(kernel.fn(a, packed, scales.roll(1, dims=0))).is_right


def test_a_kernel_that_overwrites_its_operands_cannot_change_the_reference():
    [spec] = [s for s in specs([(8, 64, 256)]) if s.kernel.name == "int_mm"]
    kernel = prepare(spec, "cpu")
    args = kernel.make_args(0)
    args[0].zero_()
    assert kernel.check(kernel.fn(*args)).error > 0.1


def test_data_is_seeded_and_independent_of_what_ran_before():
    [first] = [s for s in specs([(8, 64, 256)]) if s.kernel.weight == "FP32"]
    before = [tensor.clone() for tensor in prepare(first, "cpu").make_args(0)]
    torch.manual_seed(99)
    prepare(dataclasses.replace(first, work=first.work), "cpu")
    for spec in specs([(8, 80, 128)]):
        prepare(spec, "cpu")
    again = prepare(first, "cpu").make_args(0)
    assert all(torch.equal(a, b) for a, b in zip(before, again, strict=True))
    assert -1 <= float(before[1].min()) < -0.99
    assert 0.99 < float(before[1].max()) < 1


def test_precision_switches_are_restored():
    [spec] = cases_for("cuda", [Shape(64, 64, 64, "")], ["TF32"])
    kernel = prepare(spec, "cpu")
    before = torch.get_float32_matmul_precision()
    with kernel.settings():
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before == "highest"
