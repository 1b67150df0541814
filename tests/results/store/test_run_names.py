"""Which run `latest`, a label or a few digits mean, and what is said when they mean none."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Connection

from results.records.records import FOREIGN_COMMAND, EnvironmentInfo, ProcessInfo, RunInfo
from results.store.run_names import LONGEST_LABEL, resolve
from results.store.store import ResultStore
from roofline_model.core.errors import RooflineError, StoreError, UnknownNameError


@pytest.fixture
def filled(store: ResultStore, make_run: Callable[..., RunInfo]) -> ResultStore:
    """Six runs, stored in another order than they began; the newest two are not complete."""
    for run_id, hour, status, label in (
        ("abcd2" + "0" * 27, 12, "complete", "nightly"),
        ("abcd1" + "0" * 27, 10, "complete", "nightly"),
        ("beef" + "1" * 28, 11, "complete", ""),
        ("dead" + "0" * 28, 9, "complete", "beef1"),
        ("cafe" + "0" * 28, 13, "interrupted", "broken"),
        ("f00d" + "0" * 28, 14, "running", ""),
    ):
        started = f"2026-03-01T{hour:02d}:00:00.000000+00:00"
        store.begin_run(make_run(run_id=run_id, started_at=started, status=status, label=label))
    return store


def test_runs_are_newest_first(filled: ResultStore) -> None:
    assert [run.run_id[:5] for run in filled.runs()] == ["f00d0", "cafe0", "abcd2", "beef1", "abcd1", "dead0"]
    assert [run.run_id[:5] for run in filled.runs(limit=2)] == ["f00d0", "cafe0"]


@pytest.mark.parametrize(
    ("name", "run_id"),
    [
        ("latest", "abcd2"),  # the newest two are interrupted and running
        ("latest~0", "abcd2"),
        ("latest~1", "beef1"),
        ("latest~3", "dead0"),
        (" latest ", "abcd2"),
        ("nightly", "abcd2"),  # the newest of that label
        ("broken", "cafe0"),  # a label may name a run that did not end
        ("f00d", "f00d0"),
        ("ABCD1", "abcd1"),
        ("abcd1" + "0" * 27, "abcd1"),
        ("beef11", "beef1"),
    ],
)
def test_names(filled: ResultStore, name: str, run_id: str) -> None:
    assert filled.resolve_run(name).run_id[:5] == run_id


def test_a_finished_run_becomes_latest(filled: ResultStore) -> None:
    filled.finish_run("f00d" + "0" * 28, status="complete", exit_code=0, finished_at="2026-03-01T15:00:00")
    assert filled.resolve_run("latest").run_id[:4] == "f00d"
    assert filled.resolve_run("latest~1").run_id[:4] == "abcd"


def test_an_ambiguous_prefix_lists_what_it_may_mean(filled: ResultStore) -> None:
    with pytest.raises(StoreError, match=r"abcd20000000 \(nightly\), abcd10000000 \(nightly\)"):
        filled.resolve_run("abcd")


def test_ids_that_share_many_digits_are_listed_long_enough_to_differ(
    store: ResultStore, make_run: Callable[..., RunInfo]
) -> None:
    for last in ("1a", "1b", "20"):
        store.begin_run(make_run(run_id="abcd" + "0" * 20 + last + "f" * 6))
    with pytest.raises(StoreError) as caught:
        store.resolve_run("abcd")
    shown = re.findall(r"abcd0+[0-9a-f]+", str(caught.value))
    assert sorted(shown) == ["abcd" + "0" * 20 + last for last in ("1a", "1b", "20")]
    assert store.resolve_run(shown[0]).run_id.startswith(shown[0])


@pytest.mark.parametrize("label", ["latest", "latest~1", "latest~0", " latest ", "latest~x"])
def test_a_label_cannot_mean_another_run(store: ResultStore, make_run: Callable[..., RunInfo], label: str) -> None:
    with pytest.raises(StoreError, match=f"'{label.strip()}' cannot label a run"):
        store.begin_run(make_run(label=label))
    assert store.runs() == []


@pytest.mark.parametrize("label", ["latest-nightly", "my latest", "Latest2", ""])
def test_a_label_that_only_looks_like_it(store: ResultStore, make_run: Callable[..., RunInfo], label: str) -> None:
    store.begin_run(make_run(label=label))
    assert store.runs()[0].label == label


@pytest.mark.parametrize(
    "name",
    [
        "nightl",
        "abc",
        "0123",
        "",
        "%",
        "_____",
        "latest~x",
        "latest~-1",
        "'; DROP TABLE run",
        "\x00",
        "\ud800",
        "x" * 9999,
    ],
)
def test_an_unknown_name_says_what_there_is(filled: ResultStore, name: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        filled.resolve_run(name)
    text = str(caught.value)
    assert "`roofline runs`" in text or "nightly" in text
    assert "4 or more digits" in text
    assert "\n" not in text
    assert len(text) < 600


def test_too_far_back(filled: ResultStore) -> None:
    with pytest.raises(StoreError, match=r"4.*latest~3"):
        filled.resolve_run("latest~4")


def on(
    store: ResultStore, make_run: Callable[..., RunInfo], name: str, hour: int, host: str, kind: str, **more: object
) -> None:
    """Store a complete run called `name` that ran on a host of some kind."""
    environment = EnvironmentInfo({"host": host, "kind": kind}, {"kind": kind})
    started = f"2026-03-01T{hour:02d}:00:00.000000+00:00"
    run = make_run(run_id=name * 8, started_at=started, status="complete", environment=environment, **more)
    store.begin_run(run)
    store.end_process(run.run_id, ProcessInfo(0, 1, host, started), "")


def names(store: ResultStore, host: str, count: int) -> list[str]:
    def ask(connection: Connection) -> list[str]:
        wanted = ["latest", *(f"latest~{back}" for back in range(1, count))]
        return [resolve(connection, run_name, "here", host).run_id[:4] for run_name in wanted]

    return store.query(ask)


@pytest.fixture
def fleet(store: ResultStore, make_run: Callable[..., RunInfo]) -> ResultStore:
    """Two machines, one of them in containers that have a host name each, and a newer import of llama-bench."""
    on(store, make_run, "a001", 1, "left", "big")
    on(store, make_run, "b001", 2, "4f0c", "small")
    on(store, make_run, "a002", 3, "left", "big with a new driver")
    on(store, make_run, "b002", 4, "9a1d", "small")
    on(store, make_run, "f001", 5, "left", "foreign", command=f"{FOREIGN_COMMAND}llama.json")
    return store


def test_latest_is_of_this_machine(fleet: ResultStore) -> None:
    assert names(fleet, "left", 2) == ["a002", "a001"]  # the newer run of another machine came with an import
    assert names(fleet, "9a1d", 2) == ["b002", "b001"]  # the container before had another name
    assert names(fleet, "4f0c", 1) == ["b001"]  # what is newer than it was measured elsewhere
    assert names(fleet, "", 1) == ["b002"]
    assert names(fleet, "report-server", 2) == [
        "b002",
        "b001",
    ]  # without runs of its own: the newest, and its machine's


def test_too_far_back_says_whose_runs_were_counted(fleet: ResultStore) -> None:
    with pytest.raises(StoreError, match=r"a002a002.*latest~1"):
        names(fleet, "left", 3)


def test_what_another_program_measured_is_latest_only_where_nothing_else_is(
    store: ResultStore, make_run: Callable[..., RunInfo]
) -> None:
    on(store, make_run, "f001", 5, "left", "foreign", command=f"{FOREIGN_COMMAND}a.json", label="a.json")
    on(store, make_run, "f002", 6, "left", "foreign", command=f"{FOREIGN_COMMAND}b.json")
    assert names(store, "left", 2) == ["f002", "f001"]
    on(store, make_run, "a001", 1, "right", "big", command="pytest bench_cases")
    assert names(store, "left", 1) == ["a001"]
    assert store.resolve_run("a.json").run_id[:4] == "f001"  # by label or id as ever


def test_this_machine_is_the_one_we_run_on(store: ResultStore, make_run: Callable[..., RunInfo]) -> None:
    on(store, make_run, "a001", 1, platform.node(), "big")
    on(store, make_run, "b001", 2, f"not {platform.node()}", "small")
    assert store.resolve_run("latest").run_id[:4] == "a001"


def test_no_runs_yet_names_the_command(store: ResultStore) -> None:
    for name in ("latest", "nightly", "abcd"):
        with pytest.raises(StoreError, match="no runs yet: `pytest bench_cases -k gemv`"):
            store.resolve_run(name)


def test_no_complete_run_yet(store: ResultStore, run: RunInfo) -> None:
    with pytest.raises(StoreError, match=run.run_id[:12]):
        store.resolve_run("latest")
    assert store.resolve_run(run.run_id[:8]) == run


def test_equal_start_times_have_a_stable_order(store: ResultStore, make_run: Callable[..., RunInfo]) -> None:
    runs = [make_run(status="complete") for _ in range(5)]
    for run in runs:
        store.begin_run(run)
    assert store.runs() == sorted(runs, key=lambda run: run.run_id, reverse=True)
    assert store.resolve_run("latest") == store.runs()[0]


def test_errors_are_ours(filled: ResultStore) -> None:
    assert issubclass(StoreError, RooflineError)
    assert filled.resolve_run("latest") == replace(filled.resolve_run("latest"))


def test_the_longest_label_fits_the_index_of_every_database(
    store: ResultStore, make_run: Callable[..., RunInfo]
) -> None:
    from plugin.run.options import MAX_LABEL_CHARS

    assert MAX_LABEL_CHARS == LONGEST_LABEL
    rare = "".join(chr(0x1F300 + 7 * i % 400) for i in range(LONGEST_LABEL))  # four bytes each, nothing to compress
    store.begin_run(make_run(label=rare))
    assert store.resolve_run(rare).label == rare
    for label, words in (
        (rare + "x", "201 characters long"),
        ("Baseline:3", "already means"),
        ("a,b", "holds a comma"),
    ):
        with pytest.raises(StoreError, match=words):
            store.begin_run(make_run(label=label))
    assert len(store.runs()) == 1


def test_a_label_that_begins_another_runs_id_names_neither(filled: ResultStore) -> None:
    with pytest.raises(StoreError, match=r"beef1.*dead0.*beef1"):
        filled.resolve_run("beef1")
