"""`roofline db check`: what it finds, and that it changes nothing."""

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


def test_a_value_that_cannot_be_read_and_a_number_that_no_machine_gives(filled: str | Path) -> None:
    change(filled, "UPDATE measurement SET median_s = 1e40 WHERE record_pk = (SELECT min(record_pk) FROM measurement)")
    ((kind, where),) = problems(filled)
    assert kind == "value"
    change(filled, "UPDATE measurement SET samples = samples || samples WHERE record_pk = 5")
    assert (kind, where) in problems(filled)


def test_rows_without_their_parent(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DELETE FROM process")
        raw.commit()
    messages = problems(path)
    assert ("reference", "record") in messages


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


def test_the_command(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    done = runner.invoke(app, ["db", "check", "--db", str(path)])
    assert done.exit_code == 0, done.output
    assert "whole; looked at pages, references and every value" in " ".join(done.stdout.split())
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE measurement SET samples = x'00'")
        raw.commit()
    done = runner.invoke(app, ["db", "check", "--db", str(path), "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["problems"][0]["kind"] == "value"
    assert runner.invoke(app, ["db", "check", "--db", str(tmp_path / "absent.db")]).exit_code == 2


def test_a_reader_of_postgres_cannot_write(postgres_server: Callable[..., str]) -> None:
    url = postgres_server(with_tables=True)
    with open_store(url, read_only=True) as store:
        assert (
            store.query(lambda connection: connection.execute(sa.text("SHOW transaction_read_only")).scalar()) == "on"
        )
        with pytest.raises(StoreError, match="read-only"):
            store.query(lambda connection: connection.execute(sa.text("DELETE FROM run")))
        assert store.runs() == []
