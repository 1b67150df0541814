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
"""
OPTIONS = ("--hw", "b10", "--roofline-timer", "simulated:true_s=1e-5", "--roofline-db", "r.db")
OPTIONS += ("--roofline-timeout", "1500", "-p", "no:cacheprovider")  # of a test that measures hundreds


@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.full)], ids=["each", "thousands"])
def test_no_right_kernel_fails(pytester, pytestconfig, count):
    kernels = sum(len(operators_of(kind)) for kind in TYPES) * count
    assert len({name for kind in TYPES for name in operators_of(kind)}) >= 27
    fakes = str(pytestconfig.rootpath / "tests" / "fakes")
    pytester.makepyfile(test_kernels=SUITE.format(fakes=fakes, count=count))
    pytester.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=len(TYPES))
    with open_store(pytester.path / "r.db", read_only=True) as store:
        records = store.records(store.runs()[0].run_id)
    assert [record.status for record in records] == ["measured"] * kernels
    assert all(record.measurement.max_error <= record.measurement.tolerance for record in records)
