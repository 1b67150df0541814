"""pytest-timeout beside workers: no case pays for the start of its worker without being told."""

from __future__ import annotations

import pytest

from results import open_store

pytest.importorskip("pytest_timeout")

COMMON = (
    "--hw",
    "b10",
    "--roofline-no-canary",
    "--roofline-db",
    "r.db",
    "--roofline-force-measure",
    "--roofline-max-seconds",
    "0.02",
    "-p",
    "no:hypothesispytest",
    "-p",
    "no:cacheprovider",
)
SLOW_START = """
    import multiprocessing, time
    import pytest
    from roofline_model import OpCost

    if multiprocessing.parent_process() is not None:
        time.sleep({seconds})

    @pytest.mark.parametrize("i", range({count}))
    def test_case(roofline, i):
        roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name=f"k{{i}}")
        {then}
"""


def records_of(pytester):
    with open_store(pytester.path / "r.db", read_only=True) as store:
        run = store.runs()[0]
        return run, store.records(run.run_id), store.processes(run.run_id)


def suite(pytester, **parts):
    pytester.makepyfile(test_slow=SLOW_START.format(**{"then": "pass", **parts}))


def test_the_first_worker_starts_before_the_first_time_limit(pytester):
    suite(pytester, seconds=4, count=2)
    result = pytester.runpytest_subprocess(*COMMON, "--timeout", "3")
    result.assert_outcomes(passed=2)
    assert len(records_of(pytester)[1]) == 2


def test_a_time_limit_before_a_worker_is_ready_says_so_and_three_in_a_row_end_the_run(pytester):
    suite(pytester, seconds=4, count=9)
    result = pytester.runpytest_subprocess(*COMMON, "--timeout", "2", "--roofline-isolate", "case")
    assert result.ret == 2
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["the worker was stopped before ready: Timeout*"])
    result.stdout.fnmatch_lines(["*roofline: 3 workers in a row were never ready; *Timeout*raise a time limit*"])
    run, records, processes = records_of(pytester)
    assert run.status == "interrupted"
    assert [(record.case.kernel, record.status) for record in records] == [("k0", "measured")]
    assert [process.end_reason.split(":")[0] for process in processes][1:] == ["stopped before ready"] * 3
