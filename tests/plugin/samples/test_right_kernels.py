"""No right kernel fails: thousands of them through the fixture, in every data type and in more than 27 operators.

Each is checked against its reference as a function and as a fixed output, before and after its (simulated) timing.
"""

from __future__ import annotations

import pytest
from right_kernels import TYPES, operators_of

from results import open_store

SUITE = """
    import sys

    sys.path.insert(0, {fakes!r})
    import pytest
    import torch
    from right_kernels import TYPES, WIDE, operators_of
    from roofline_model import gemm

    FAILED = []

    @pytest.mark.parametrize("kind", TYPES)
    def test_right(roofline, kind):
        for position, (name, make) in enumerate(operators_of(kind).items()):
            for seed in range(position, position + {count}):  # numbers of five kinds
                kernel, reference, args = make(WIDE.get(kind, torch.int8), seed)
                given = reference if seed % 2 else reference(*args)
                try:
                    roofline.measure(kernel, args=args, reference=given, name=f"{{kind}}-{{name}}-{{seed}}")
                except AssertionError as error:
                    FAILED.append(f"{{kind}} {{name}} {{seed}}: {{error}}")
        assert not FAILED

    def test_type_of_the_work(roofline):
        x, w = torch.ones(8, 16), torch.ones(16, 4)
        work = gemm(8, 4, 16, a="FP32", c="BF16")
        facts = {{"args": (x, w), "reference": lambda x, w: x.double() @ w.double()}}
        narrow = lambda x, w: (x @ w).bfloat16()
        roofline.measure(narrow, work=work, name="said", **facts)
        roofline.declare(work.case("declared", cache="warm"), work)
        roofline.measure(narrow, **facts)
        roofline.compare({{"one": narrow, "other": torch.matmul}}, work=work, **facts)
        with pytest.raises(AssertionError, match="bfloat16, narrower than float32"):
            roofline.measure(narrow, name="unsaid", **facts)

    @pytest.mark.roofline(work=gemm(8, 4, 16, a="FP32", c="BF16"))
    def test_type_of_the_marker(roofline):
        x, w = torch.ones(8, 16), torch.ones(16, 4)
        roofline.measure(lambda x, w: (x @ w).bfloat16(), args=(x, w), reference=lambda x, w: x.double() @ w.double())
"""
OPTIONS = ("--hw", "b10", "--roofline-timer", "simulated:true_s=1e-5", "--roofline-db", "r.db")
OPTIONS += ("--roofline-timeout", "1500", "-p", "no:cacheprovider")  # of a test that measures hundreds


@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.full)], ids=["each", "thousands"])
def test_no_right_kernel_fails(pytester, pytestconfig, count):
    kernels = sum(len(operators_of(kind)) for kind in TYPES) * count
    assert len({name for kind in TYPES for name in operators_of(kind)}) >= 27
    fakes = str(pytestconfig.rootpath / "tests" / "fakes")
    pytester.makepyfile(test_kernels=SUITE.format(fakes=fakes, count=count))
    pytester.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=len(TYPES) + 2)
    with open_store(pytester.path / "r.db", read_only=True) as store:
        records = store.records(store.runs()[0].run_id)
    measured = [record.measurement for record in records if record.status == "measured"]
    assert len(measured) == kernels + 5
    assert all(measurement.max_error <= measurement.tolerance for measurement in measured)
