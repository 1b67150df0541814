"""Workers inside an ordinary pytest: passes in fresh processes, and every option of pytest as without workers."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest

from results import open_store

SUITE = """
    import multiprocessing
    import os
    import warnings
    import pytest
    from roofline_model import OpCost

    def measure(roofline, name):
        return roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name=name)

    def test_ordinary():
        assert multiprocessing.parent_process() is None

    @pytest.mark.parametrize("name", ["a", "b"])
    def test_case(roofline, name):
        print("measured in", os.getpid())
        assert measure(roofline, name).median_s > 0

    def test_skipped(roofline):
        pytest.skip("not today")

    @pytest.mark.xfail(reason="known", strict=True)
    def test_expected(roofline):
        measure(roofline, "x")
        assert False

    def test_warns(roofline, record_property):
        record_property("tile", 128)
        warnings.warn("careful")
        measure(roofline, "warns")

    def test_fails(roofline):
        measure(roofline, "fails")
        assert 1 == 2
"""
COMMON = ("--hw", "b10", "--roofline-no-canary", "--roofline-db", "r.db", "-p", "no:hypothesispytest")
REAL = (*COMMON, "--roofline-force-measure", "--roofline-max-seconds", "0.02")
SIMULATED = (*COMMON, "--roofline-timer", "simulated")


def stored(pytester):
    with open_store(pytester.path / "r.db", read_only=True) as store:
        run = store.runs()[0]
        return run, store.records(run.run_id)


def by_kernel(records):
    return {record.case.kernel: record for record in records}


@pytest.fixture
def suite(pytester, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # these tests may run under -n themselves
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    pytester.makepyfile(test_kernels=SUITE)
    return pytester


def test_pytest_shows_and_writes_what_it_would_without_workers(suite):
    result = suite.runpytest_subprocess(
        *REAL,
        "-rs",
        "--junitxml",
        "j.xml",
        "--benchmark-json",
        "b.json",
        "--roofline-json",
        "run.json",
        "--durations",
        "2",
    )
    result.assert_outcomes(passed=4, failed=1, skipped=1, xfailed=1)  # a busy machine adds a warning of its own
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*assert 1 == 2*", "*UserWarning: careful", "SKIPPED [[]1[]] test_kernels.py:*: not today"], consecutive=False
    )
    run, records = stored(suite)
    assert (run.status, run.exit_code) == ("complete", 1)
    assert {name: record.status for name, record in by_kernel(records).items()} == dict.fromkeys(
        ["a", "b", "x", "warns", "fails"], "measured"
    )
    assert {(record.process.role, record.process.ordinal) for record in records} == {("worker", 1)}
    assert by_kernel(records)["fails"].extra["test_failure"].startswith("AssertionError")
    cases = {case.get("name"): case for case in ElementTree.parse(suite.path / "j.xml").iter("testcase")}
    assert len(cases) == 7
    assert cases["test_warns"].find("properties/property").attrib == {"name": "tile", "value": "128"}
    rows = json.loads((suite.path / "b.json").read_text())["benchmarks"]
    assert {row["fullname"]: len(row["stats"]["data"]) for row in rows} == {
        record.test_id: record.measurement.sample_count
        for record in records
        if record.case.kernel in ("a", "b", "warns")  # those that passed
    }
    assert {row["name"]: row["params"] for row in rows}["test_case[a]"] == {"name": "a"}
    assert len(json.loads((suite.path / "run.json").read_text())["records"]) == 5


def test_each_case_gets_its_own_worker_when_asked(suite):
    suite.runpytest_subprocess(*REAL, "--roofline-isolate", "case", "-k", "case or ordinary").assert_outcomes(passed=3)
    assert {record.process.ordinal for record in stored(suite)[1]} == {1, 2}


def test_isolate_none_measures_here(suite):
    suite.runpytest_subprocess(*REAL, "--roofline-isolate", "none", "-k", "case").assert_outcomes(passed=2)
    assert {record.process.role for record in stored(suite)[1]} == {"main"}


def test_first_failure_stops_and_leaves_the_run_partial(suite):
    result = suite.runpytest_subprocess(*SIMULATED, "--roofline-processes", "1", "-x", "-k", "fails or case")
    assert result.ret == 1
    assert stored(suite)[0].status == "interrupted"
    again = suite.runpytest_subprocess(*SIMULATED, "--roofline-processes", "1", "--lf")
    again.assert_outcomes(failed=1)
    assert [record.case.kernel for record in stored(suite)[1]] == ["fails"]


def test_processes_measure_every_case_in_fresh_ones(suite):
    result = suite.runpytest_subprocess(*SIMULATED, "--roofline-processes", "3", "-k", "case or ordinary", "-v")
    result.assert_outcomes(passed=7)
    order = [line.split("::")[1].split(" ")[0] for line in result.stdout.lines if " PASSED" in line]
    assert order == [
        "test_ordinary",
        "test_case[a]",
        "test_case[b]",
        "test_case[b-p2]",
        "test_case[a-p2]",
        "test_case[a-p3]",
        "test_case[b-p3]",
    ]
    run, records = stored(suite)
    assert run.status == "complete"
    measured = [(record.case.kernel, record.process.ordinal, record.test_id.partition("::")[2]) for record in records]
    assert measured == [
        ("a", 1, "test_case[a]"),
        ("b", 1, "test_case[b]"),
        ("b", 2, "test_case[b]"),
        ("a", 2, "test_case[a]"),
        ("a", 3, "test_case[a]"),
        ("b", 3, "test_case[b]"),
    ]
    assert len({record.process.pid for record in records}) == 3
    assert len({record.case.case_key for record in records}) == 2
    result.stdout.fnmatch_lines(["roofline: every case is measured in 3 fresh processes, one after the other"])


FLAKY = """
    import os
    import pytest
    from roofline_model import OpCost

    @pytest.mark.parametrize("name", ["a", "b", "c"])
    def test_case(roofline, name):
        roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name=name)
        assert not (name == "b" and os.path.exists("fails"))

    def test_other(roofline):
        roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name="other")
"""


@pytest.mark.parametrize("choice", ["--lf", *(pytest.param(name, marks=pytest.mark.full) for name in ("--sw", "--ff"))])
def test_what_failed_last_is_measured_again_in_all_its_passes(pytester, choice):
    pytester.makepyfile(test_flaky=FLAKY)
    options = (*SIMULATED, "--roofline-processes", "2")
    (pytester.path / "fails").touch()
    stops = choice == "--sw"
    pytester.runpytest_subprocess(*options, *([choice] if stops else []))
    (pytester.path / "fails").unlink()
    result = pytester.runpytest_subprocess(*options, choice)
    counts = {"--lf": {"b": 2}, "--sw": {"b": 2, "c": 2, "other": 2}, "--ff": {"a": 2, "b": 2, "c": 2, "other": 2}}
    result.assert_outcomes(passed=sum(counts[choice].values()), deselected=stops + 0)
    records = stored(pytester)[1]
    assert Counter(record.case.kernel for record in records) == counts[choice]
    assert records[0].case.kernel == "b"
    cache = pytester.path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    assert not cache.exists() or json.loads(cache.read_text()) == {}


def test_a_pass_that_fails_alone_is_found_again(pytester):
    pytester.makepyfile(
        test_flaky=FLAKY.replace('os.path.exists("fails")', "os.path.exists('twice') or os.mkdir('twice')")
    )
    first = pytester.runpytest_subprocess(*SIMULATED, "--roofline-processes", "2", "-k", "b or other")
    first.assert_outcomes(passed=3, failed=1, deselected=2)
    cache = pytester.path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    assert json.loads(cache.read_text()) == {"test_flaky.py::test_case[b]": True}


def test_passes_are_listed_by_collection_and_not_added_where_nothing_is_measured(suite):
    listed = suite.runpytest_subprocess(
        *SIMULATED, "--roofline-processes", "2", "--collect-only", "-q", "-k", "ordinary or skipped"
    )
    assert [line for line in listed.stdout.lines if "::" in line] == [
        "test_kernels.py::test_ordinary",
        "test_kernels.py::test_skipped",
        "test_kernels.py::test_skipped[p2]",
    ]
    predicted = suite.runpytest_subprocess(
        "--hw", "h200", "--roofline-db", "r.db", "--roofline-processes", "2", "-k", "case"
    )
    predicted.assert_outcomes(skipped=2)
    assert [record.status for record in stored(suite)[1]] == ["predicted", "predicted"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--roofline-isolate", "none"), "ERROR: --roofline-processes measures in worker processes*"),
        (("--pdb",), "ERROR: --roofline-processes measures in worker processes, which --pdb rules out"),
        (("-n", "2"), "ERROR: --roofline-processes measures in fresh processes of one pytest*leave out -n"),
    ],
)
def test_processes_and_what_rules_them_out(suite, options, message):
    result = suite.runpytest_subprocess(*SIMULATED, "--roofline-processes", "2", *options)
    assert result.ret == 2
    result.stderr.fnmatch_lines([message])
    assert not (suite.path / "r.db").exists()


def test_fixtures_of_both_processes_end(pytester):
    pytester.makeconftest(
        """
        import pytest

        where = ["main"]

        def pytest_sessionstart(session):
            if session.config.pluginmanager.hasplugin("roofline_bench_worker"):
                where[0] = "worker"

        def note(text):
            with open("log.txt", "a") as log:
                log.write(f"{where[0]} {text}\\n")

        @pytest.fixture(scope="module")
        def shared():
            note("shared begins")
            yield
            note("shared ends")

        @pytest.fixture(scope="session")
        def whole():
            note("whole begins")
            yield
            note("whole ends")
            raise RuntimeError("cannot end")
        """
    )
    case = """
        from roofline_model import OpCost

        def test_here(shared, whole):
            pass

        def test_there(roofline, shared, whole):
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name="{name}")
        """
    pytester.makepyfile(test_one=case.format(name="one"), test_two=case.format(name="two"))
    result = pytester.runpytest_subprocess(*SIMULATED, "--roofline-isolate", "case")
    # The last test ends the session's fixture of pytest's own process, each worker ends its own.
    result.assert_outcomes(passed=4, errors=3)
    worker = ["worker whole begins", "worker shared begins", "worker shared ends", "worker whole ends"]
    main = ["main whole begins", "main shared begins", *worker, "main shared ends"]
    assert (pytester.path / "log.txt").read_text().splitlines() == [
        *main,
        "main shared begins",
        *worker,
        "main shared ends",
        "main whole ends",
    ]


def test_output_of_a_case_passes_through_where_nothing_is_captured(suite):
    result = suite.runpytest_subprocess(*SIMULATED, "--roofline-processes", "1", "-k", "case", "-s")
    result.assert_outcomes(passed=2)
    assert len(re.findall(r"measured in \d+", result.stdout.str())) == 2


def test_a_breakpoint_in_a_worker_says_what_to_add(pytester):
    pytester.makepyfile("def test_stop(roofline):\n    breakpoint()\n")
    result = pytester.runpytest_subprocess(*SIMULATED, "--roofline-isolate", "case")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*add --roofline-isolate none*"])


def test_a_test_that_stops_the_session_stops_it(pytester):
    pytester.makepyfile(
        """
        import pytest
        from roofline_model import OpCost

        def test_leaves(roofline):
            roofline.measure(lambda: None, work=OpCost(read_bytes=1e6), name="last")
            pytest.exit("enough", returncode=7)

        def test_never(roofline):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*SIMULATED, "--roofline-isolate", "case")
    assert result.ret == 7
    result.stdout.fnmatch_lines(["*Exit: enough*"])


def test_a_test_missing_in_the_worker_fails_with_the_reason(pytester):
    pytester.makepyfile(
        test_odd="""
        import multiprocessing

        if multiprocessing.parent_process() is not None:
            raise ImportError("no library here")

        def test_odd(roofline):
            pass
        """,
    )
    result = pytester.runpytest_subprocess(*SIMULATED, "--roofline-isolate", "case")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the worker did not collect this test, though pytest did: *no library here*"])


def test_on_a_cpu_xdist_predicts_and_says_to_leave_out_n(suite):
    suite.makeconftest(
        """
        import dataclasses
        import plugin.pytest_glue.fixtures, plugin.machine.facts, plugin.run.target
        cpu = dataclasses.replace(plugin.machine.facts.find_machine(), kind="cpu", facts=None)
        for module in (plugin.pytest_glue.fixtures, plugin.run.target):
            module.find_machine = lambda: cpu
        """
    )
    result = suite.runpytest_subprocess(
        "--hw", "b10", "--roofline-force-measure", "--roofline-db", "r.db", "-n", "2", "-k", "case or ordinary"
    )
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(["roofline: nothing was measured: *leave out -n"])
    with open_store(suite.path / "r.db", read_only=True) as store:
        records = [record for run in store.runs() for record in store.records(run.run_id)]
    assert {(record.case.kernel, record.status) for record in records} == {("a", "predicted"), ("b", "predicted")}
    assert all(record.ideal.time_s > 0 for record in records)


def test_more_xdist_workers_than_gpus_is_one_line(suite):
    suite.makeconftest(
        """
        import plugin.isolation.device_share, plugin.run.target
        from plugin.run.target import Target
        plugin.isolation.device_share.installed_devices = lambda: 2
        import plugin.run.session
        plugin.run.session.resolve_target = lambda *a, **k: Target("cuda", lambda: None)
        plugin.run.instruments = None
        """
    )
    result = suite.runpytest_subprocess("--hw", "b10", "-n", "3")
    assert result.ret == 2
    result.stderr.fnmatch_lines(["ERROR: -n 3: 3 xdist workers would share 2 visible GPUs*use -n 2, or leave out -n"])
