"""What a test that did not succeed leaves in the database, and what a run that measured nothing is told."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from results import open_store

OPTIONS = ("--hw", "b10", "--roofline-timer", "simulated", "--roofline-db", "r.db", "-p", "no:cacheprovider")


def test_a_wrong_kernel_that_was_expected_is_stored_as_failed(pytester):
    pytester.makepyfile(
        """
        import pytest
        from roofline_model import OpCost

        WORK = OpCost(read_bytes=1e6)

        @pytest.mark.xfail(reason="known")
        def test_marked(roofline):
            roofline.measure(lambda: 1.0, work=WORK, reference=2.0, name="marked")

        def test_given_up(roofline):
            roofline.declare(WORK_CASE, WORK)
            pytest.xfail("not tried")

        @pytest.mark.xfail(reason="known")
        def test_mended(roofline):
            roofline.measure(lambda: 2.0, work=WORK, reference=2.0, name="mended")

        def test_not_today(roofline):
            roofline.declare(WORK_CASE, WORK)
            pytest.skip("not today")

        from roofline_model import gemm
        WORK_CASE = gemm(1, 8, 8).case("declared")
        """
    )
    result = pytester.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(xfailed=2, xpassed=1, skipped=1)
    with open_store(pytester.path / "r.db", read_only=True) as store:
        records = {stored.test_id.split("::")[1]: stored for stored in store.records(store.runs()[0].run_id)}
    assert {name: stored.status for name, stored in records.items()} == {
        "test_marked": "failed",
        "test_given_up": "skipped",
        "test_mended": "measured",
        "test_not_today": "skipped",
    }
    assert "relative error 0.5 exceeds the tolerance" in records["test_marked"].reason
    assert records["test_given_up"].reason == "not tried"


def test_the_summary_of_pytest_says_what_is_wrong_and_not_of_which_class_it_is(pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    pytester.makepyfile(
        test_own="""
        from roofline_model import OpCost

        def test_norm(roofline):
            roofline.measure(lambda: 1.0, work=OpCost(read_bytes=1e6), reference=2.0)
        """
    )
    result = pytester.runpytest_inprocess(*OPTIONS, "-rf")
    result.stdout.fnmatch_lines(["FAILED *::test_norm - before timing: relative error 0.5 exceeds*"])


def test_a_database_that_cannot_be_used_is_not_blamed_on_the_selection(pytester, monkeypatch):
    pytester.makepyfile(
        """
        import pytest
        from roofline_model import OpCost

        @pytest.mark.parametrize("i", [0, 1])
        def test_case(roofline, i):
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
        """
    )
    with closing(sqlite3.connect(pytester.path / "r.db")) as connection, connection:
        connection.execute("CREATE TABLE something_else (x)")
    result = pytester.runpytest_inprocess(*OPTIONS, "-k", "0")
    assert result.ret == 2
    assert "selects none" not in result.stdout.str()
    result.stderr.fnmatch_lines(["ERROR: *is a database of something else*"])
    result = pytester.runpytest_inprocess(*OPTIONS, "-k", "nothing")
    result.stdout.fnmatch_lines(["*-k 'nothing' selects none of 2 cases*"])


def test_a_test_can_assert_on_the_expected_time(pytester):
    pytester.makepyfile(
        """
        import pytest
        from roofline_model import OpCost, gemm, predict_expected

        def test_product(roofline):
            work = gemm(1, 4096, 4096, a="BF16")
            found = roofline.measure(lambda: None, work=work)
            assert found.expected == predict_expected(work, "gb10", cache="warm", kernel="test_product")
            ratio = (found.expected.time_s - found.median_s) / found.median_s
            assert found.expected_error_ratio == pytest.approx(ratio)
            assert found.error_ratio < found.expected_error_ratio

        def test_compared(roofline):
            work = gemm(1, 4096, 4096, a="BF16")
            found = roofline.compare({"mine": lambda: None, "other": lambda: None}, work=work)
            assert all(each.expected_error_ratio is not None for each in found.values())

        def test_cost_alone(roofline):
            found = roofline.measure(lambda: None, work=OpCost(read_bytes=1e6))
            assert (found.expected, found.expected_error_ratio) == (None, None)
        """
    )
    options = ("--roofline-force-measure", *("gb10" if option == "b10" else option for option in OPTIONS))
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=3)
