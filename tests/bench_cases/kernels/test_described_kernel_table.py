"""The table of GPU kernels in roofline_model and the catalogs of what is measured have the same kernels."""

from __future__ import annotations

from bench_cases.kernels.attention.catalog import ATTENTION_KERNELS, attention_cases
from bench_cases.kernels.operators.catalog import OPERATOR_KERNELS, operator_cases
from bench_cases.kernels.products.catalog import KERNELS, cases_for
from bench_cases.shapes.attention import attention_shapes
from bench_cases.shapes.operators import operator_shapes
from bench_cases.shapes.products import resolve_shapes
from roofline_model.kernels.described_kernels import GPU_KERNELS


def test_every_case_of_a_gpu_names_a_kernel_of_the_table():
    specs = [
        *cases_for("cuda", resolve_shapes("quick", "cuda")),
        *attention_cases("cuda", attention_shapes("quick", "cuda")),
        *operator_cases("cuda", operator_shapes("quick", "cuda")),
    ]
    assert {
        (spec.case.op, spec.case.kernel) for spec in specs if spec.case.kernel not in GPU_KERNELS[spec.case.op]
    } == set()


def test_the_table_has_no_kernel_that_nobody_measures():
    measured = {kernel.name for kernel in (*KERNELS, *ATTENTION_KERNELS, *OPERATOR_KERNELS) if kernel.device == "cuda"}
    assert {name for kernels in GPU_KERNELS.values() for name in kernels} == measured
