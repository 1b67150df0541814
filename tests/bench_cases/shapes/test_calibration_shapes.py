"""What `roofline calibrate` times: every kernel of the CPU, at sizes that no benchmark has."""

from __future__ import annotations

from bench_cases.selection import selected_cases
from bench_cases.shapes.attention import attention_shapes
from bench_cases.shapes.operators import operator_shapes
from bench_cases.shapes.products import resolve_shapes
from roofline_model.chips.curve import TimedCall, kernel_curves, work_size

SETS = ("quick", "standard", "full")


def calibration_cases():
    return selected_cases("calibration", "cpu", None, "cold", ("eager",))


def test_no_benchmark_has_a_calibration_size():
    ours, theirs = resolve_shapes("calibration"), {shape.size for name in SETS for shape in resolve_shapes(name)}
    assert not {shape.size[1:] for shape in ours} & {size[1:] for size in theirs}  # not even the same weight
    attention = {shape.size for name in SETS for shape in attention_shapes(name)}
    assert not {shape.size for shape in attention_shapes("calibration")} & attention
    rows = {(shape.op, shape.sizes) for name in SETS for shape in operator_shapes(name)}
    assert not {(shape.op, shape.sizes) for shape in operator_shapes("calibration")} & rows


def test_every_quick_case_of_the_cpu_has_a_curve_of_its_own_kernel():
    curves = kernel_curves(TimedCall(spec.work, spec.kernel.name, 1e-3) for spec in calibration_cases())
    curve_of_kernel = {(curve.family, curve.kernel, curve.formats): curve for curve in curves}
    for spec in selected_cases("quick", "cpu", None, "cold", ("eager",)):
        size = work_size(spec.work)
        curve = curve_of_kernel[size.family, spec.kernel.name, size.formats]
        assert curve.fits(size), spec.case
        assert curve.point_count > 1, spec.case
