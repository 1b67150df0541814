"""Visits over a whole run: one record per test, completed later; nothing lost, nothing hidden."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from plugin.run.visits import VISITS
from results import open_store
from results.operations.check import check_store

COMMON = ("--hw", "b10", "--roofline-no-canary", "--roofline-db", "r.db", "-p", "no:cacheprovider")
REAL = (*COMMON, "--roofline-force-measure", "--roofline-max-seconds", "0.6")

SUITE = """
    from contextlib import nullcontext
    import pytest
    from roofline_model import OpCost

    def kernel():
        return sum(range(300))

    @pytest.mark.parametrize("name", ["a", "b", "c"])
    def test_case(roofline, name):
        roofline.measure(kernel, work=OpCost(read_bytes=1e6), reference=44850, name=name, again=nullcontext)

    def test_alone(roofline):
        roofline.measure(kernel, work=OpCost(read_bytes=1e6), name="alone", again=False)
"""


def stored(pytester):
    with open_store(pytester.path / "r.db", read_only=True) as store:
        run = store.runs()[0]
        return run, {record.case.kernel: record for record in store.records(run.run_id)}


def run_suite(pytester, isolate, *options):
    """A worker needs a pytest of its own: inside this process there is none."""
    run = pytester.runpytest_inprocess if isolate == "none" else pytester.runpytest_subprocess
    return run(*REAL, "--roofline-isolate", isolate, *options)


@pytest.mark.parametrize("isolate", ["none", "auto"])
def test_a_case_is_one_record_with_the_samples_of_all_visits_that_count(pytester, isolate):
    pytester.makepyfile(SUITE)
    assert run_suite(pytester, isolate).ret == 0
    run, records = stored(pytester)
    assert run.status == "complete"
    assert sorted(records) == ["a", "alone", "b", "c"]
    for name in "abc":
        record = records[name]
        visits = record.extra["visits"]
        assert visits["count"] == len(visits["medians_s"]) <= VISITS
        assert 1 <= visits["agreed"] <= visits["count"]
        assert record.measurement.sample_count == len(record.measurement.samples_s)
        assert record.measurement.stop_reason in ("agreed", "budget")
        assert record.method.settings["visits"] > 1
    assert max(records[name].extra["visits"]["count"] for name in "abc") > 1
    assert "visits" not in records["alone"].extra  # synchronous: all samples lie in the test
    assert "visits" not in records["alone"].method.settings
    with open_store(pytester.path / "r.db", read_only=True) as store:
        assert check_store(store) == []


@pytest.mark.parametrize("isolate", ["none", "auto"])
def test_pytest_benchmark_shows_and_writes_all_samples_that_count(pytester, isolate):
    pytester.makepyfile(SUITE)
    assert run_suite(pytester, isolate, "-k", "test_case", "--benchmark-json", "b.json").ret == 0
    _, records = stored(pytester)
    rows = json.loads((pytester.path / "b.json").read_text())["benchmarks"]
    assert {row["params"]["name"]: row["stats"]["data"] for row in rows} == {
        name: list(record.measurement.samples_s) for name, record in records.items()
    }
    assert max(record.extra["visits"]["count"] for record in records.values()) > 1


def test_each_of_several_processes_visits_its_own_cases(pytester):
    pytester.makepyfile(SUITE)
    assert run_suite(pytester, "auto", "--roofline-processes", "2", "-k", "test_case").ret == 0
    with open_store(pytester.path / "r.db", read_only=True) as store:
        [run] = store.runs()
        records = store.records(run.run_id)
        assert check_store(store) == []
    assert run.status == "complete"
    assert sorted((record.case.kernel, record.process.ordinal) for record in records) == [
        (name, ordinal) for name in "abc" for ordinal in (1, 2)
    ]
    for record in records:
        assert record.extra["visits"]["count"] == len(record.extra["visits"]["medians_s"])
        assert record.measurement.sample_count == len(record.measurement.samples_s)
    for ordinal in (1, 2):
        counts = [record.extra["visits"]["count"] for record in records if record.process.ordinal == ordinal]
        assert max(counts) > 1  # each process completes its records before it ends


def test_a_worker_for_each_case_has_nothing_to_visit_in_between(pytester):
    pytester.makepyfile(SUITE)
    assert run_suite(pytester, "case", "-k", "test_case").ret == 0
    _, records = stored(pytester)
    assert all("visits" not in record.extra for record in records.values())


def test_killed_while_cases_are_open_keeps_their_records(pytester):
    pytester.makepyfile(
        SUITE
        + """
    def test_hangs(roofline):
        import time
        from pathlib import Path
        Path("reached").write_text("")
        time.sleep(60)
    """
    )
    command = [sys.executable, "-m", "pytest", "-q", *REAL, "--roofline-max-seconds", "5", "--roofline-isolate", "none"]
    process = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (pytester.path / "reached").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, records = stored(pytester)
    assert sorted(records) == ["a", "alone", "b", "c"]
    assert all(record.measurement.sample_count >= 1 for record in records.values())


@pytest.mark.parametrize(("isolate", "options"), [("none", ()), ("auto", ()), ("auto", ("--roofline-processes", "2"))])
def test_a_kernel_that_fails_when_it_is_visited_again_fails_the_run_and_keeps_its_record(pytester, isolate, options):
    pytester.makepyfile(
        """
        from contextlib import nullcontext
        from roofline_model import OpCost

        over = []

        def test_breaks(roofline):
            def kernel():
                if over:
                    raise RuntimeError("the stream is closed")
                return sum(range(300))

            roofline.measure(kernel, work=OpCost(read_bytes=1e6), reference=44850, again=nullcontext)
            over.append(1)

        def test_next(roofline):
            roofline.measure(lambda: sum(range(300)), work=OpCost(read_bytes=1e6), again=nullcontext)
        """
    )
    result = run_suite(pytester, isolate, *options)
    assert result.ret == 1
    _, records = stored(pytester)
    assert "the stream is closed" in records["test_breaks"].extra["test_failure"]
    assert records["test_breaks"].status == "measured"
    assert "visits" in records["test_next"].extra


OWN = """
    import contextlib, os
    import numpy as np
    import pytest

    values = np.arange(1000.0)
    scale, calls = 1.0, []

    count = 0

    def kernel():
        global count
        count += 1
        return np.sqrt(values) * scale

    @contextlib.contextmanager
    def settings():
        yield

    @pytest.fixture
    def resource():
        yield

    @pytest.fixture(scope="session")
    def shared():
        yield
        calls.append("ended")

    @pytest.mark.parametrize("name", ["plain_a", "plain_b"])
    def test_plain(roofline, shared, name):
        def checked():
            global count
            count += 1  # what a kernel changes itself is no change
            assert not calls, "called after the fixtures of the session"
            return kernel()

        roofline.measure(checked, reference=kernel, name=name)

    def test_fixture(roofline, resource):
        roofline.measure(kernel, reference=kernel, name="fixture")

    def test_patched(roofline, monkeypatch):
        roofline.measure(kernel, reference=kernel, name="patched")

    def test_inside(roofline):
        with settings():
            roofline.measure(kernel, reference=kernel, name="inside")

    def test_undone(roofline):
        def helper():
            roofline.measure(kernel, reference=kernel, name="undone")

        try:
            helper()
        finally:
            pass

    def test_environment(roofline):
        os.environ["KERNEL_PATH"] = "fast"
        roofline.measure(kernel, reference=kernel, name="environment")
        del os.environ["KERNEL_PATH"]

    def test_asked_not_to(roofline):
        roofline.measure(kernel, reference=kernel, name="asked_not_to", again=False)
"""


def test_own_kernels_are_visited_where_nothing_that_they_need_ends_with_their_test(pytester):
    pytester.makepyfile(OWN)
    assert run_suite(pytester, "auto").ret == 0
    _, records = stored(pytester)
    visited = {name for name, record in records.items() if "visits" in record.extra}
    assert visited == {"plain_a", "plain_b"}
    for name in visited:
        assert records[name].extra["visits"]["count"] >= 2
        assert "ended_by" not in records[name].extra["visits"]
        assert records[name].method.settings["visits"] == VISITS
    for name in records.keys() - visited:
        assert "visits" not in records[name].method.settings


def test_an_own_kernel_that_finds_something_else_later_keeps_what_its_test_found(pytester):
    pytester.makepyfile(
        """
        import os, time
        from pathlib import Path
        import torch
        scale = 1e-4

        def scaled():
            time.sleep(scale)

        def test_scale(roofline):
            roofline.measure(scaled, name="scale")

        def test_changes(roofline):
            global scale
            scale = 1e-5
            roofline.measure(scaled, name="changed", again=False)

        def test_in_a_loop(roofline):
            for pause in (3e-4, 2e-4, 1e-4):
                roofline.measure(lambda: time.sleep(pause), name=f"loop_{pause}")

        class Paused:
            pause = 2e-4

            def run(self):
                time.sleep(self.pause)

        layer, paused = torch.nn.Linear(64, 64), Paused()

        def test_methods(roofline):
            roofline.measure(paused.run, name="method")
            roofline.measure(layer, args=(torch.ones(1, 64),), name="module")

        def test_moves_them(roofline):
            paused.pause = 1e-5
            layer.to(torch.float64)
            roofline.measure(paused.run, name="moved", again=False)

        def test_breaks(roofline):
            def kernel():
                if os.path.exists("broken"):
                    raise RuntimeError("the file is closed")
                return sum(range(300))

            roofline.measure(kernel, reference=44850, name="breaks")
            Path("broken").touch()

        @torch.no_grad()
        def test_without_gradients(roofline):
            weights = torch.ones(64, 64, requires_grad=True)
            roofline.measure(lambda: weights @ weights, name="without_gradients")

        def test_becomes_wrong(roofline):
            def kernel():
                return sum(range(300)) + os.path.exists("wrong")

            roofline.measure(kernel, reference=44850, name="wrong")
            Path("wrong").touch()
        """
    )
    assert pytester.runpytest_inprocess(*REAL, "--roofline-isolate", "none").ret == 0  # the suite is not ours to fail
    _, records = stored(pytester)
    assert records["scale"].extra["visits"]["count"] == 1
    assert records["scale"].measurement.median_s > 9e-5  # no sample of the faster kernel is among its own
    assert "the file is closed" in records["breaks"].extra["visits"]["ended_by"]
    assert records["wrong"].extra["visits"]["ended_by"]
    flagged = {name for name, record in records.items() if "wrong-later" in record.measurement.flags}
    assert flagged == {"wrong"}  # a doubt: it is not always right, or its test was not all that it needs
    for name, least_s in (("loop_0.0003", 3e-4), ("loop_0.0002", 2e-4), ("method", 2e-4), ("module", 0.0)):
        assert records[name].extra["visits"]["count"] == 1, name
        assert records[name].measurement.median_s > least_s, name
    assert "visits" not in records["without_gradients"].extra
    assert all("test_failure" not in record.extra for record in records.values())


def test_a_test_that_fails_after_measuring_is_not_visited_again(pytester):
    pytester.makepyfile(
        """
        from contextlib import nullcontext
        from roofline_model import OpCost

        def test_fails(roofline):
            roofline.measure(lambda: sum(range(300)), work=OpCost(read_bytes=1e6), again=nullcontext)
            assert False
        """
    )
    assert pytester.runpytest_inprocess(*REAL, "--roofline-isolate", "none").ret == 1
    _, records = stored(pytester)
    assert records["test_fails"].extra["visits"]["count"] == 1
