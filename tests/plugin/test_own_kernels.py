"""What a kernel author's own suite relies on: declaring first, comparing, and running it for a chip that is
elsewhere.
"""

from __future__ import annotations

import pytest

from results import open_store

SUITE = """
    import numpy as np
    import pytest
    from roofline_model import NumberFormat, OpCost, gemm, register_format

    x = np.ones((4, 4), np.float32)
    work = gemm(4, 4, 4, a="FP32")

    def product(a, b):
        return a @ b

    def test_declared_then_measured(roofline):
        assert roofline.declare(work.case("mine"), work).time_s > 0
        roofline.measure(product, make_args=lambda i: (x.copy(), x.copy()), work=work, reference=x @ x, name="mine")

    def test_declared_then_compared(roofline):
        for name in ("mine", "other"):
            roofline.declare(work.case(name), work)
        roofline.compare({"mine": product, "other": np.dot}, make_args=lambda i: (x.copy(), x.copy()), work=work, reference=x @ x)

    def test_compared_without_a_rate(roofline):
        wide = gemm(4, 4, 4, a=register_format(NumberFormat("FP24", "float", 24)))
        roofline.compare({"mine": product, "other": np.dot}, args=(x, x), work=wide)

    def test_where_tensors_are_built(roofline):
        assert roofline.torch_device == "cpu"
        roofline.measure(product, args=(x, x), work=work, reference=x @ x)

    def test_work_of_a_wrong_kind(roofline):
        roofline.measure(product, args=(x, x), work=3)
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    # Whatever this machine has: it is a CPU as far as these tests go.
    pytester.makepyfile(
        conftest="""
        import dataclasses
        import plugin.pytest_glue.fixtures, plugin.machine.facts, plugin.run.target
        cpu = dataclasses.replace(plugin.machine.facts.find_machine(), kind="cpu", facts=None)
        for module in (plugin.pytest_glue.fixtures, plugin.run.target):
            module.find_machine = lambda: cpu
        """,
        test_kernels=SUITE,
    )
    return pytester


def run(suite, *arguments):
    result = suite.runpytest_inprocess("-p", "no:cacheprovider", "--roofline-db", "r.db", *arguments)
    with open_store(suite.path / "r.db", read_only=True) as store:
        records = store.records(store.runs()[0].run_id)
    return result, [(r.test_id.rpartition("::")[2], r.case.kernel, r.case.cache, r.status) for r in records], records


def test_a_declared_case_is_the_one_that_is_measured(suite):
    result, outcomes, _ = run(suite, "--hw", "b10", "--roofline-timer", "simulated", "-k", "declared")
    result.assert_outcomes(passed=2)
    assert outcomes == [
        ("test_declared_then_measured", "mine", "cold", "measured"),
        ("test_declared_then_compared", "mine", "cold", "measured"),
        ("test_declared_then_compared", "other", "cold", "measured"),
    ]


def test_a_suite_for_a_gpu_is_predicted_on_a_machine_without_one(suite):
    result, outcomes, records = run(suite, "--hw", "h100", "-k", "declared_then_measured or tensors")
    result.assert_outcomes(skipped=2)
    assert {status for *_, status in outcomes} == {"predicted"}
    assert {record.ideal.hardware_key for record in records} == {"h100-sxm"}


def test_compare_skips_what_the_chip_has_no_rate_for(suite):
    result, outcomes, records = run(suite, "--hw", "b10", "--roofline-timer", "simulated", "-k", "without_a_rate")
    result.assert_outcomes(skipped=1)
    assert outcomes == [("test_compared_without_a_rate", "mine", "warm", "skipped")]
    assert "no rate for FP24" in records[0].reason


def test_work_of_a_wrong_kind_is_named(suite):
    result, outcomes, records = run(suite, "--hw", "b10", "--roofline-timer", "simulated", "-k", "wrong_kind")
    result.assert_outcomes(failed=1)
    assert outcomes == [("test_work_of_a_wrong_kind", "test_work_of_a_wrong_kind", "warm", "failed")]
    assert records[0].reason.startswith(
        "InvalidValueError: work must be an operator of roofline_model or an OpCost, got int"
    )


def test_warm_is_warm_in_a_comparison_too(suite):
    result, _, records = run(
        suite,
        "--hw",
        "b10",
        "--roofline-force-measure",
        "--roofline-cache",
        "warm",
        "--roofline-max-seconds",
        "0.02",
        "-k",
        "declared_then_compared",
    )
    result.assert_outcomes(passed=1)
    measured = [record for record in records if record.status == "measured"]
    assert [(record.case.kernel, record.case.cache) for record in measured] == [("mine", "warm"), ("other", "warm")]
    assert [record.measurement.rotation_count for record in measured] == [1, 1]
