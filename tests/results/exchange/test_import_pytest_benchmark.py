"""pytest-benchmark's JSON: each benchmark a case of its own, with its samples where they were kept."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_start
from foreign_files import PYTEST_BENCHMARK

from results.exchange.exported.export import export_document
from results.exchange.exported.load import parse_export
from results.exchange.importing import import_any, read_any
from results.store.store import ResultStore
from roofline_model.core.errors import StoreError

Write = Callable[[str, Any], Path]


def test_samples_statistics_and_iterations_arrive(write: Write, empty_store: ResultStore) -> None:
    report = import_any(empty_store, write("b.json", PYTEST_BENCHMARK))
    assert (report.added, report.duplicates) == (2, 0)
    (run,) = empty_store.runs()
    assert run.git_commit == "c0ffee" + "0" * 34
    assert (run.git_branch, run.git_is_dirty) == ("main", True)
    assert run.started_at == "2026-03-01T10:00:00.123456+00:00"
    assert run.environment.facts["cpu"] == "A CPU"
    sort, copied = empty_store.records(run.run_id)
    assert (sort.case.op, sort.case.kernel) == ("pytest-benchmark", "tests/test_sort.py::test_sort[1000]")
    assert sort.measurement is not None
    assert copied.measurement is not None
    assert sort.measurement.samples_s == (1e-5, 3e-5, 2e-5)
    assert sort.measurement.calls_per_sample == 7
    assert (sort.measurement.median_s, sort.measurement.q1_s, sort.measurement.q3_s) == pytest.approx(
        (2e-5, 1.5e-5, 2.5e-5)
    )
    assert copied.measurement.samples_s == ()  # --benchmark-autosave keeps statistics only
    assert (copied.measurement.median_s, copied.measurement.sample_count) == (2e-4, 50)
    assert copied.measurement.std_s == 1e-4
    assert sort.method is not None
    assert (sort.method.timer, sort.method.settings) == ("imported:pytest-benchmark", {"timer": "perf_counter"})
    assert sort.process.host == "box"
    assert import_any(empty_store, write("again.json", PYTEST_BENCHMARK)).duplicates == 2


def test_what_was_imported_can_be_exported_and_imported_again(write: Write) -> None:
    (exported,) = read_any(write("b.json", PYTEST_BENCHMARK)).runs
    document = json.loads(json.dumps(export_document(exported)))
    assert parse_export(document).records == exported.records


def test_a_file_that_pytest_benchmark_really_wrote(tmp_path: Path) -> None:
    pytest.importorskip("pytest_benchmark")
    (tmp_path / "test_it.py").write_text("def test_sum(benchmark):\n    benchmark(sum, range(100))\n")
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:roofline_pytest",
        "test_it.py",
        "--benchmark-json=out.json",
        "--benchmark-max-time=0.02",
        "--benchmark-min-rounds=3",
        "--benchmark-disable-gc",
    ]
    done = warm_start.run("pytest", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    foreign = read_any(tmp_path / "out.json")
    (record,) = foreign.records
    stats = json.loads((tmp_path / "out.json").read_text())["benchmarks"][0]["stats"]
    assert record.measurement is not None
    assert record.measurement.samples_s == tuple(stats["data"])
    assert record.measurement.median_s == pytest.approx(stats["median"])
    assert record.measurement.std_s == pytest.approx(stats["stddev"], rel=1e-6)
    assert record.measurement.calls_per_sample == stats["iterations"]


def test_a_timer_of_nanoseconds_is_no_timer_of_seconds(write: Write, empty_store: ResultStore) -> None:
    in_ns = copy.deepcopy(PYTEST_BENCHMARK)
    for benchmark in in_ns["benchmarks"]:
        benchmark["options"]["timer"] = "time.perf_counter_ns"
        for name in ("min", "max", "mean", "stddev", "median", "q1", "q3", "total"):
            benchmark["stats"][name] *= 1e9
        if "data" in benchmark["stats"]:
            benchmark["stats"]["data"] = [value * 1e9 for value in benchmark["stats"]["data"]]
    foreign = read_any(write("ns.json", in_ns))
    in_s = read_any(write("s.json", PYTEST_BENCHMARK))
    assert in_s is not None
    for record_ns, record_s in zip(foreign.records, in_s.records, strict=True):
        assert record_ns.measurement is not None
        assert record_s.measurement is not None
        for name in ("median_s", "min_s", "max_s", "mean_s", "std_s", "q1_s", "q3_s"):
            assert getattr(record_ns.measurement, name) == pytest.approx(getattr(record_s.measurement, name), rel=1e-12)
        assert record_ns.measurement.samples_s == pytest.approx(record_s.measurement.samples_s, rel=1e-12)
    assert import_any(empty_store, write("ns.json", in_ns)).added == 2


def test_a_file_without_a_timer_counts_seconds(write: Write) -> None:
    old = copy.deepcopy(PYTEST_BENCHMARK)
    for benchmark in old["benchmarks"]:
        del benchmark["options"]
    foreign = read_any(write("old.json", old))
    assert foreign.records[1].measurement is not None
    assert foreign.records[1].measurement.median_s == 2e-4


@pytest.mark.parametrize("word", ["unversioned", "unknown"])
def test_outside_a_repository_there_is_no_commit(write: Write, word: str) -> None:
    outside = {**PYTEST_BENCHMARK, "commit_info": {"id": word, "dirty": False, "branch": "(unknown)"}}
    run = read_any(write("b.json", outside)).runs[0].run
    assert (run.git_commit, run.git_branch, run.git_is_dirty) == (None, None, None)


def broken(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    document = copy.deepcopy(PYTEST_BENCHMARK)
    change(document)
    return document


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            broken(lambda written: written["benchmarks"][0]["stats"]["data"].append(-1.0)),
            "benchmarks[0].stats.data[3] is -1 s",
        ),
        (
            broken(lambda written: written["benchmarks"][0]["stats"]["data"].append(0)),
            "benchmarks[0].stats.data[3] is 0 s, not a time above 0 s",
        ),
        (
            broken(lambda written: written["benchmarks"][0]["stats"]["data"].append("x")),
            "benchmarks[0].stats.data[3] is 'x'",
        ),
        (
            broken(lambda written: written["benchmarks"][1]["stats"].update(median=1e-9)),
            "benchmarks[1].stats: min, q1, median",
        ),
        (
            broken(lambda written: written["benchmarks"][1]["stats"].update(max=float("inf"))),
            "benchmarks[1].stats.max is inf",
        ),
        (broken(lambda written: written["benchmarks"][1].pop("stats")), "benchmarks[1].stats is missing or null"),
        (broken(lambda written: written["benchmarks"].append(7)), "benchmarks[2] is a number, not an object"),
        (
            broken(lambda written: written["benchmarks"][0].update(fullname=None, name=None)),
            "benchmarks[0].name is missing",
        ),
        (
            broken(lambda written: written["benchmarks"][0]["stats"].update(iterations=0)),
            "benchmarks[0].stats.iterations is 0",
        ),
        (
            broken(lambda written: written["benchmarks"][0]["stats"].update(rounds=10**11)),
            "benchmarks[0].stats.rounds is 100,000,000,000, but data holds 3 times",
        ),
        (
            broken(lambda written: written["benchmarks"][0]["stats"].update(mean=900.0)),
            "benchmarks[0].stats.mean is 900 s, not between",
        ),
        (
            broken(lambda written: written["benchmarks"][0]["stats"].update(stddev=1e300)),
            "benchmarks[0].stats.stddev is 1e+300 s, more",
        ),
        (
            broken(lambda written: written["benchmarks"][1]["stats"].update(mean=900.0)),
            "benchmarks[1].stats.mean is 900 s, not between",
        ),
        (
            broken(lambda written: written["benchmarks"][1]["stats"].update(stddev=1e300)),
            "benchmarks[1].stats.stddev is 1e+300 s, more",
        ),
        (
            broken(lambda written: written["benchmarks"][1]["options"].update(timer="ticks.counter")),
            "benchmarks[1].options.timer is 'ticks.counter', whose unit is unknown",
        ),
        (broken(lambda written: written.update(machine_info=[])), "machine_info is a list, not an object"),
        (broken(lambda written: written.update(datetime="soon")), "datetime is 'soon', not a date"),
        (broken(lambda written: written.update(benchmarks=[])), "benchmarks is empty"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_imported(
    write: Write, empty_store: ResultStore, document: Any, words: str
) -> None:
    with pytest.raises(StoreError) as caught:
        import_any(empty_store, write("b.json", document))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert empty_store.runs() == []
