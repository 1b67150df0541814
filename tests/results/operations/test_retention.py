"""What `roofline prune` drops, exactly, and what it never touches."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from results.exchange.exported.export import export_run_json
from results.exchange.exported.load import import_file
from results.operations import retention
from results.operations.retention import PruneReport, named_runs, parse_age
from results.records.records import Measurement, Record, RunInfo
from results.store.store import ResultStore, open_store
from roofline_cli.main import app
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import finding

runner = CliRunner()
NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
SAMPLE_BYTES = 3 * 8
"""Three samples of 64 bits."""


def prune(store: ResultStore, **options: object) -> PruneReport:
    given = {"now": NOW, "named_reasons": {}, "kept_newest": 0, **options}
    return retention.prune(store, datetime.timedelta(days=90), **given)  # type: ignore[arg-type]


def add(store: ResultStore, run: RunInfo, *records: Record) -> RunInfo:
    store.begin_run(run)
    for record in records:
        store.add_record(replace(record, run_id=run.run_id))
    store.finish_run(run.run_id, status="complete", exit_code=0, finished_at=run.started_at)
    return run


@pytest.fixture
def filled(
    store: ResultStore,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    full_measurement: Measurement,
) -> tuple[ResultStore, RunInfo, RunInfo]:
    """An old run with two measurements (one with clocks) and a prediction only, and a young one."""
    old, young = make_run(started_at="2026-03-01T10:00:00+00:00"), make_run(started_at="2026-05-30T10:00:00+00:00")
    predicted = make_record("", status="predicted", measurement=None, method=None, telemetry=())
    add(store, old, make_record(""), make_record("", measurement=full_measurement, telemetry=()), predicted)
    add(store, young, make_record(""))
    return store, old, young


def without_samples(records: list[Record]) -> list[Record]:
    return [
        replace(
            record,
            telemetry=(),
            measurement=record.measurement and replace(record.measurement, samples_s=(), clocks_hz=()),
        )
        for record in records
    ]


def test_samples_go_and_every_statistic_stays(filled: tuple[ResultStore, RunInfo, RunInfo], tmp_path: Path) -> None:
    store, old, young = filled
    before, untouched = store.records(old.run_id), store.records(young.run_id)
    (drop,) = prune(store).drops
    assert (drop.run.run_id, drop.measurement_count, drop.sample_bytes, drop.reading_count) == (
        old.run_id,
        2,
        3 * SAMPLE_BYTES,
        2,
    )
    assert store.records(old.run_id) == without_samples(before)
    assert store.records(young.run_id) == untouched
    again = prune(store)
    assert (again.drops, again.sample_bytes) == ((), 0)
    # What is left can be carried to another machine.
    (tmp_path / "run.json").write_text(json.dumps(export_run_json(store, old.run_id)))
    with open_store(tmp_path / "other.db") as other:
        assert import_file(other, tmp_path / "run.json").added == 3


def test_a_dry_run_says_the_same_and_changes_nothing(filled: tuple[ResultStore, RunInfo, RunInfo]) -> None:
    store, old, _ = filled
    before = store.records(old.run_id)
    report = prune(store, is_dry=True)
    assert store.records(old.run_id) == before
    assert prune(store) == report


def test_what_is_protected_keeps_everything(
    store: ResultStore, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    def run(day: int, label: str = "", started_at: str = "", **changes: object) -> RunInfo:
        started_at = started_at or f"2026-01-{day:02}T10:00:00+00:00"
        return add(store, make_run(started_at=started_at, label=label, **changes), make_record(""))

    older, other = run(1, "release 1"), run(1, git_branch="stable")
    tagged, quarantined, plain = run(2, "release 1"), run(3), run(4)
    newest = [run(5), run(6)]
    undated = run(7, started_at="last tuesday")
    report = prune(
        store,
        named_reasons={quarantined.run_id: finding("run-protected", kind="named", place="quarantine.toml")},
        kept_newest=2,
    )
    assert {drop.run.run_id for drop in report.drops} == {older.run_id, plain.run_id}
    reasons = {protection.run.run_id: protection.reason.value("kind") for protection in report.protected}
    assert reasons == {
        tagged.run_id: "label",
        quarantined.run_id: "named",
        newest[1].run_id: "newest",
        other.run_id: "newest",
        undated.run_id: "undated",
        newest[0].run_id: "newest",
    }


def test_a_dated_label_is_no_wish_to_keep_a_night(
    store: ResultStore, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    def run(day: int, label: str) -> RunInfo:
        return add(store, make_run(started_at=f"2026-01-{day:02}T10:00:00+00:00", label=label), make_record(""))

    nights = [run(1, "nightly-2026-01-01-011700"), run(2, "night 20260102"), run(3, "try 7"), run(4, "try 8")]
    labelled = [run(5, "release-1.4"), run(6, "nightly-2026-13-41"), run(7, "build 120260101")]
    newest = run(8, "nightly-2026-01-08-011700")
    report = prune(store, named_reasons={}, kept_newest=1, ignored_labels=["try *"])
    assert {drop.run.run_id for drop in report.drops} == {side.run_id for side in nights}
    assert {protection.run.run_id for protection in report.protected} == {
        protection.run_id for protection in (*labelled, newest)
    }


@pytest.mark.parametrize(("text", "days"), [("90d", 90), ("12w", 84), (" 6M ", 180), ("2y", 730), ("1d", 1)])
def test_ages(text: str, days: int) -> None:
    assert parse_age(text) == datetime.timedelta(days=days)


@pytest.mark.parametrize("text", ["", "90", "0d", "-1d", "1.5d", "d", "999999d", "9 d", "٣d", "1h"])
def test_what_is_no_age(text: str) -> None:
    with pytest.raises(InvalidValueError, match="an age is a whole number"):
        parse_age(text)


def test_runs_that_a_file_names(make_run: Callable[..., RunInfo]) -> None:
    runs = [
        make_run(run_id=digit * 32, label=label)
        for digit, label in zip("abcd", ("", "v1", "v2 final", ""), strict=True)
    ]
    a, b, c, d = runs
    assert named_runs("[[quarantine]]\nrun = 'aaaaaaaa'\n", runs) == [a]
    assert named_runs('{"baseline": "v2 final"}', runs) == [c]
    assert named_runs(f"v1\n{d.run_id.upper()}\n", runs) == [b, d]
    assert named_runs("aaaaaaa bbbb v2", runs) == []  # too few digits, and words inside a line


def test_the_command(tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]) -> None:
    path = tmp_path / "r.db"
    with open_store(path) as store:
        big = make_record("")
        big = replace(big, measurement=replace(big.measurement, samples_s=(1e-5,) * 50_000, sample_count=50_000))  # type: ignore[type-var]
        runs = [
            add(store, make_run(started_at="2020-01-01T00:00:00+00:00"), replace(big, record_id=str(number)))
            for number in range(3)
        ]
    (tmp_path / "baselines.toml").write_text(f'baseline = "{runs[0].run_id[:12]}"\n')
    common = [
        "prune",
        "--older-than",
        "90d",
        "--keep-latest",
        "0",
        "--keep",
        runs[1].run_id,
        "--protect",
        str(tmp_path / "baselines.toml"),
        "--db",
        str(path),
    ]
    dry = json.loads(runner.invoke(app, [*common, "--dry-run", "--json"]).stdout)
    assert dry["sample_bytes"] == 400_000
    assert [entry["run_id"] for entry in dry["runs"]] == [runs[2].run_id]
    assert {entry["run_id"]: entry["reason"] for entry in dry["kept"]} == {
        runs[0].run_id: f"named in {tmp_path / 'baselines.toml'}",
        runs[1].run_id: "named in --keep",
    }
    done = runner.invoke(app, common)
    assert done.exit_code == 0, done.output
    lines = " ".join(done.stdout.split())
    assert "dropped 400 kB of samples of 1 measurement and 2 sensor readings of 1 run before" in lines
    assert "kept whole: 2 runs" in lines
    assert f"kept whole, named in --keep: {runs[1].run_id[:8]} of 2020-01-01" in lines
    assert lines.index("dropped 400 kB") < lines.index("kept whole, named in")
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    refused = runner.invoke(app, ["prune", "--older-than", "soon", "--db", str(path)])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    refused = runner.invoke(app, [*common, "--protect", str(tmp_path / "absent.toml")])
    assert refused.exit_code == 2
    assert "nothing was pruned" in refused.stderr


def test_kept_runs_are_told_by_their_reason(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    path = tmp_path / "r.db"
    with open_store(path) as store:
        for day in range(1, 31):
            store.begin_run(make_run(started_at=f"2020-01-{day:02}T00:00:00+00:00", label=f"night {day}"))
    done = runner.invoke(app, ["prune", "--older-than", "90d", "--db", str(path)], env={"COLUMNS": "200"})
    lines = [line for line in done.stdout.splitlines() if line.startswith("kept whole")]
    assert len(lines) == 1
    assert "kept whole, the newest run of its label:" in lines[0]
    assert "(night 30)" in lines[0]
    assert "and 27 more (--json lists all)" in lines[0]
