"""The operator kernels, all of them on a CPU: right, caught when wrong, rotated, of the counted size."""

from __future__ import annotations

import itertools
import math

import pytest
from counts import sampled

torch = pytest.importorskip("torch")

from bench_cases.kernels.operators.catalog import OPERATOR_KERNELS, OPERATORS, operator_cases  # noqa: E402
from bench_cases.kernels.operators.plain import NORM_EPSILON  # noqa: E402
from bench_cases.kernels.operators.prepare import build_operator, operator_deviation  # noqa: E402
from bench_cases.kernels.products.prepare import prepare  # noqa: E402
from bench_cases.shapes.operators import OperatorShape  # noqa: E402


def shapes(rows, width, inner=96):
    row_shapes = [OperatorShape(op, (("rows", rows), ("width", width)), "test") for op in OPERATORS if op != "ffn"]
    return [*row_shapes, OperatorShape("ffn", (("rows", rows), ("hidden", width), ("intermediate", inner)), "test")]


def specs(*sizes):
    return [spec for size in sizes for spec in operator_cases("cpu", shapes(*size))]


def name(spec):
    return f"{spec.case.op}-{spec.case.id}"


@pytest.mark.parametrize("spec", specs((1, 128), (3, 256), (70, 512)), ids=name)
def test_every_cpu_kernel_is_right_and_every_rotation_set_gives_the_same(spec):
    kernel = prepare(spec, "cpu")
    with kernel.settings():
        errors = [kernel.check(kernel.fn(*kernel.make_args(index))) for index in range(3)]
    assert errors[0].is_right
    assert errors[1:] == errors[:1] * 2
    for a, b in zip(kernel.make_args(0), kernel.make_args(1), strict=True):
        assert a.data_ptr() != b.data_ptr()
        assert a.stride() == b.stride()
        assert a.dtype == b.dtype


@pytest.mark.parametrize("rows", [192, 768])
def test_equal_codes_of_a_row_round_alike(rows):
    shape = OperatorShape("dequantize", (("rows", rows), ("width", 3072)), "test")
    for spec in operator_cases("cpu", [shape]):
        kernel = prepare(spec, "cpu")
        right = kernel.fn(*kernel.make_args(0))
        assert kernel.check(right).is_right
        assert not kernel.check(right * 1.005).is_right


@pytest.mark.parametrize("kernel", [k for k in OPERATOR_KERNELS if k.device == "cuda"], ids=lambda kernel: kernel.key)
def test_the_eager_code_of_the_cuda_kernels_is_right(kernel):
    [shape] = [shape for shape in shapes(20, 256) if shape.op == kernel.op]
    built = build_operator(kernel, dict(shape.sizes), "cpu")
    assert operator_deviation(built, built.fn(*built.args)).is_right


def test_compiled_kernels_compile_the_eager_call(monkeypatch):
    seen = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: seen.append(options) or function)
    shape = OperatorShape("silu_mul", (("rows", 4), ("width", 64)), "test")
    [spec] = [s for s in operator_cases("cuda", [shape]) if s.kernel.is_compiled]
    kernel = prepare(spec, "cpu")
    assert seen == [{"dynamic": False, "fullgraph": True, "backend": "inductor"}]
    assert kernel.check(kernel.fn(*kernel.make_args(0))).is_right


@pytest.mark.parametrize("spec", specs((8, 256)), ids=name)
def test_the_operands_occupy_what_the_prediction_counts(spec):
    held = sum(tensor.nbytes for tensor in prepare(spec, "cpu").make_args(0))
    counted = spec.work.cost.total_read_bytes
    if spec.case.op == "ffn":
        assert held >= 3 * 256 * 96 * 2  # the hidden activation is written and read in between
        assert held <= counted
    elif spec.case.op == "rope":
        assert held - counted == 2 * 8 * 128 * (4 if spec.kernel.x == "FP32" else 2)  # the table that the model ignores
    else:
        assert counted <= held <= counted + 4 * 8  # a scale per row


FAULTS = ("one row", "scaled", "nan", "transposed", "nothing", "shifted", "no tensor")


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        pytest.param(spec, fault, id=f"{name(spec)}-{fault}")
        for spec, fault in sampled(itertools.product(specs((4, 256)), FAULTS), 40)
    ],
)
def test_a_wrong_kernel_is_caught(spec, fault):
    kernel = prepare(spec, "cpu")
    right = kernel.fn(*kernel.make_args(0))
    values = right[0].float() if isinstance(right, tuple) else right.double()
    if fault == "one row":
        values[-1] = 0
    elif fault == "scaled":
        values = values * 1.05
    elif fault == "nan":
        values[0, 0] = math.nan
    elif fault == "transposed":
        values = values.T.contiguous()
    elif fault == "nothing":
        values = torch.zeros_like(values)
    elif fault == "shifted":
        values = values.roll(1, dims=1)
    output = values
    if isinstance(right, tuple):
        clean = torch.nan_to_num(values) if spec.kernel.o == "INT8" else values
        output = (clean.to(right[0].dtype), right[1] * (1.05 if fault == "scaled" else 1))
        if fault == "nan" and spec.kernel.o == "INT8":
            output = (output[0], output[1].fill_(math.nan))
    error = kernel.check(None if fault == "no tensor" else output)
    assert not error.is_right
    assert kernel.check(kernel.fn(*kernel.make_args(1))).is_right


@pytest.mark.parametrize("target", ["INT8", "FP8_E4M3"])
def test_quantising_with_other_scales_is_caught(target):
    """Codes and scales that fit each other, but not the row's maximum: a norm-wise look at the values alone would
    pass.
    """
    from bench_cases.kernels.operators.casts import _codes

    [spec] = [s for s in specs((4, 256)) if s.case.op == "quantize" and s.kernel.o == target]
    kernel = prepare(spec, "cpu")
    (x,) = kernel.make_args(0)
    whole = _codes(x, x.abs().amax().view(1, 1), target)  # one scale for the tensor where one per row is asked for
    assert not kernel.check(whole).is_right
    assert kernel.check((whole[0].float(), whole[1])) != kernel.check(whole)  # codes must be stored narrow
    assert math.isnan(kernel.check((whole[0].float(), whole[1])).error)


def test_quantised_values_by_hand():
    from bench_cases.kernels.operators.casts import _codes

    x = torch.tensor([[1.0, -0.5, 0.25], [2.0, 0.0, 0.5]])
    codes, scales = _codes(x, x.abs().amax(dim=1, keepdim=True), "INT8")
    assert codes.tolist() == [[127, -64, 32], [127, 0, 32]]  # 63.5 and 31.75 go to the even and to the nearest
    assert scales.flatten().tolist() == pytest.approx([1 / 127, 2 / 127])
    codes, scales = _codes(x, x.abs().amax().view(1, 1), "FP8_E4M3")
    torch.testing.assert_close(codes.float() * scales, x)
    assert scales.shape == (1, 1)


def expected(op, fmt="FP32", width=128):
    shape = OperatorShape(op, (("rows", 2), ("width", width)), "test")
    [kernel] = [k for k in OPERATOR_KERNELS if (k.device, k.op, k.x) == ("cpu", op, fmt)]
    return build_operator(kernel, dict(shape.sizes), "cpu")


def test_references_by_their_formulas():
    norm = expected("rmsnorm")
    x, gain = (tensor.double() for tensor in norm.args)
    by_hand = x / (x.pow(2).mean(1, keepdim=True) + NORM_EPSILON).sqrt() * gain
    torch.testing.assert_close(norm.expected.exact, by_hand)
    gated = expected("silu_mul")
    gate, up = (tensor.double() for tensor in gated.args)
    torch.testing.assert_close(gated.expected.exact, gate * torch.sigmoid(gate) * up)
    assert torch.allclose(expected("softmax").expected.exact.sum(1), torch.ones(2, dtype=torch.float64))


def test_rope_turns_each_pair_by_its_angle_and_keeps_its_length():
    built = expected("rope", width=256)
    x, y = built.args[0].double().view(2, 2, 2, 64), built.expected.exact.view(2, 2, 2, 64)
    assert torch.allclose(y[0], x[0])  # position 0 is not turned
    torch.testing.assert_close(y.pow(2).sum(2), x.pow(2).sum(2), rtol=1e-6, atol=0)
    angle = torch.atan2(y[1, :, 1], y[1, :, 0]) - torch.atan2(x[1, :, 1], x[1, :, 0])
    assert torch.allclose(angle[:, 0].remainder(2 * math.pi), torch.ones(2, dtype=torch.float64), atol=1e-6)


def test_the_feed_forward_reference_in_chunks_is_the_whole_formula(monkeypatch):
    from bench_cases.kernels.operators import plain as operators

    monkeypatch.setattr(operators, "CHUNK", 64 * 7)
    shape = OperatorShape("ffn", (("rows", 6), ("hidden", 64), ("intermediate", 96)), "test")
    [kernel] = [k for k in OPERATOR_KERNELS if (k.device, k.op, k.x) == ("cpu", "ffn", "FP32")]
    built = build_operator(kernel, dict(shape.sizes), "cpu")
    x, gate, up, down = (tensor.double() for tensor in built.args)
    whole = (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
    torch.testing.assert_close(built.expected.exact, whole[built.rows])
