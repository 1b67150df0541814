"""`roofline db check` and `db stats`: what they find, and that they change nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from results.operations.check import check_store
from results.operations.stats import stats_of
from results.records.records import Record, RunInfo
from results.store.connection import make_engine
from results.store.store import open_store
from results.store.target import parse_target
from roofline_cli.main import app
from roofline_model.core.errors import StoreError

runner = CliRunner()


@pytest.fixture
def path(database_of_every_part: Path) -> Path:
    return database_of_every_part


@pytest.fixture
def filled(target: str | Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]) -> str | Path:
    with open_store(target) as store:
        for _ in range(2):
            run = make_run()
            store.begin_run(run)
            for _ in range(3):
                store.add_record(make_record(run.run_id))
    return target


def change(target: str | Path, *statements: str) -> None:
    engine = make_engine(parse_target(target), foreign_keys=False)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


def problems(target: str | Path) -> list[tuple[str, str]]:
    with open_store(target, read_only=True) as store:
        return [(problem.kind, problem.where) for problem in check_store(store)]


def test_a_whole_database_has_no_problem(filled: str | Path) -> None:
    assert problems(filled) == []


def test_a_database_is_whole_but_for_statistics_written_by_hand(path: Path) -> None:
    before = path.read_bytes()
    assert {kind for kind, _ in problems(path)} == {"statistic"}
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "kind", "what"),
    [
        (
            "UPDATE measurement SET median_s = median_s * 1.01, q3_s = q3_s * 1.01",
            "statistic",
            "median_s 4.444e-05 ≠ 4.4e-05",
        ),
        ("UPDATE measurement SET mean_s = mean_s * 1.0000001", "statistic", "mean_s"),
        ("UPDATE measurement SET std_s = std_s / 2", "statistic", "std_s 5e-07 ≠ 1e-06"),
        ("UPDATE \"case\" SET case_key = '0000000000000000'", "key", "case_key is 0000000000000000"),
        ("UPDATE record SET history_key = '0000000000000000'", "key", "history_key"),
    ],
)
def test_what_was_worked_out_is_worked_out_again(filled: str | Path, statement: str, kind: str, what: str) -> None:
    change(filled, statement)
    with open_store(filled, read_only=True) as store:
        wrong = check_store(store)
        assert any(problem.kind == kind and what in problem.what for problem in wrong), wrong
        assert check_store(store, with_values=False) == []


def test_any_changed_byte_of_the_samples_is_found(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    path, run = tmp_path / "r.db", make_run()
    with open_store(path) as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id))
    with closing(sqlite3.connect(path)) as raw:
        (samples,) = raw.execute("SELECT samples FROM measurement").fetchone()
    for at in range(len(samples)):
        if at % 8 < 3:  # the lowest bytes of a number: less than additions round to
            continue
        changed = bytearray(samples)
        changed[at] ^= 0x80
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("UPDATE measurement SET samples = ?", (bytes(changed),))
            raw.commit()
        assert problems(path), at


def test_a_missing_index_and_a_value_nobody_stored(filled: str | Path) -> None:
    change(
        filled,
        "DROP INDEX ix_record_run_id_id",
        "UPDATE measurement SET sample_count = 7 WHERE record_pk = (SELECT min(record_pk) FROM measurement)",
    )
    (index, value) = problems(filled)
    assert index == ("index", "record")
    assert value[0] == "value"
    with open_store(filled, read_only=True) as store:
        (stated,) = [problem for problem in check_store(store) if problem.kind == "value"]
        assert "sample_count is 7, but samples_s holds 3" in stated.what
        assert len(check_store(store, with_values=False)) == 1


def test_rows_without_their_parent(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DELETE FROM process")
        raw.commit()
    messages = problems(path)
    assert ("reference", "record") in messages


def test_postgres_rows_without_their_parent_and_invalid_indexes(
    postgres_server: Callable[..., str], make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    url = postgres_server(with_tables=True)
    run = make_run()
    with open_store(url) as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id))
    change(url, "SET session_replication_role = replica", "DELETE FROM method")  # a broken restore
    change(url, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_record_run_id_id'::regclass")
    assert {("reference", "record"), ("index", "")} <= set(problems(url))


def test_a_page_that_was_overwritten_is_found(path: Path) -> None:
    data = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path.as_uri() + "?immutable=1", uri=True)) as raw:
        root = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'ix_record_run_id_id'").fetchone()[0]
        size = raw.execute("PRAGMA page_size").fetchone()[0]
    data[(root - 1) * size : root * size] = b"\x5a" * size
    path.write_bytes(data)
    done = runner.invoke(app, ["db", "check", "--db", str(path), "--json"])
    assert done.exit_code in (1, 2)
    if done.exit_code == 1:
        assert {problem["kind"] for problem in json.loads(done.stdout)["problems"]} >= {"storage"}
    else:
        assert "is damaged" in done.stderr


def test_stats_count_rows_and_bytes(filled: str | Path) -> None:
    with open_store(filled, read_only=True) as store:
        stats = stats_of(store)
    rows = {table.name: table.row_count for table in stats.tables}
    assert (rows["run"], rows["record"], rows["measurement"], rows["telemetry"]) == (2, 6, 6, 12)
    assert (rows["case"], rows["method"], rows["energy"]) == (1, 1, 0)
    assert stats.sample_bytes == 6 * 3 * 8
    assert stats.run_counts == {"running": 2}
    assert stats.size_bytes > 50_000
    assert stats.first_started_at == stats.last_started_at == "2026-03-01T10:00:00.000000+00:00"


def test_the_commands(path: Path, tmp_path: Path) -> None:
    done = runner.invoke(app, ["db", "check", "--quick", "--db", str(path)])
    assert done.exit_code == 0, done.output
    assert "whole; looked at pages, references and indexes" in " ".join(done.stdout.split())
    assert (
        json.loads(runner.invoke(app, ["db", "check", "--quick", "--db", str(path), "--json"]).stdout)["problems"] == []
    )
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DROP INDEX ix_run_started_at")
    done = runner.invoke(app, ["db", "check", "--db", str(path)])
    assert done.exit_code == 1
    assert "index: run: index ix_run_started_at is missing" in done.stdout
    shown = runner.invoke(app, ["db", "stats", "--db", str(path)])
    assert shown.exit_code == 0
    assert "Runs: 1 complete" in shown.stdout
    stats = json.loads(runner.invoke(app, ["db", "stats", "--db", str(path), "--json"]).stdout)
    assert stats["schema"] == 1
    assert {"name": "run", "row_count": 1, "size_bytes": None} in stats["tables"]
    assert runner.invoke(app, ["db", "stats", "--db", str(tmp_path / "absent.db")]).exit_code == 2


def test_a_reader_of_postgres_cannot_write(postgres_server: Callable[..., str]) -> None:
    url = postgres_server(with_tables=True)
    with open_store(url, read_only=True) as store:
        assert (
            store.query(lambda connection: connection.execute(sa.text("SHOW transaction_read_only")).scalar()) == "on"
        )
        with pytest.raises(StoreError, match="read-only"):
            store.query(lambda connection: connection.execute(sa.text("DELETE FROM run")))
        assert store.runs() == []
