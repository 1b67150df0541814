"""A database file that is taken away, emptied or replaced in mid-run, and what is left to rescue."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from results.exchange.exported.export import ExportedRun, export_document, export_run_json
from results.exchange.exported.load import import_file
from results.records.records import HardwareProfile, Record, RunInfo
from results.store import connection, migrate
from results.store.store import open_store
from roofline_model.core.errors import StoreError


def delete(path: Path) -> None:
    path.unlink()


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def empty(path: Path) -> None:
    os.truncate(path, 0)


def replace_with_another(path: Path) -> None:
    with open_store(path.with_name("other.db")):
        pass
    path.with_name("other.db").replace(path)


def replace_with_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


HARM = [delete, delete_folder, move, empty, replace_with_another, replace_with_a_copy]


@pytest.mark.parametrize("harm", HARM)
def test_the_next_record_and_the_end_of_the_run_say_it(
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    harm: Callable[[Path], None],
) -> None:
    path = tmp_path / "folder" / "r.db"
    run = make_run()
    with open_store(path) as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id))
        harm(path)
        for write in (
            lambda: store.add_record(make_record(run.run_id)),
            lambda: store.finish_run(run.run_id, status="complete", exit_code=0, finished_at=run.started_at),
        ):
            with pytest.raises(
                StoreError, match="database file was removed or replaced while the run was writing"
            ) as it:
                write()
            assert "\n" not in str(it.value)
            assert str(path) in str(it.value)


@pytest.mark.parametrize("harm", HARM)
def test_a_file_replaced_before_the_first_write(
    tmp_path: Path, make_run: Callable[..., RunInfo], harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "folder" / "r.db"
    with open_store(path) as store:
        harm(path)
        with pytest.raises(StoreError, match="removed or replaced"):
            store.begin_run(make_run())


def test_a_working_folder_that_changes_is_not_a_replaced_file(
    tmp_path: Path, make_run: Callable[..., RunInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    run = make_run()
    with open_store("r.db") as store:
        monkeypatch.chdir(tmp_path / "other")
        store.begin_run(run)
        assert store.runs() == [run]


def test_a_lost_run_is_rescued_from_memory(
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    profile: HardwareProfile,
) -> None:
    run = make_run(status="complete")
    records = [make_record(run.run_id), make_record(run.run_id, status="skipped", measurement=None, method=None)]
    with open_store(tmp_path / "whole.db") as whole:
        whole.begin_run(run)
        whole.add_profile(profile)
        for record in records:
            whole.add_record(record)
        rescue = ExportedRun(run, (profile,), (), tuple(records))
        assert export_document(rescue) == export_run_json(whole, run.run_id)
    rescued = tmp_path / "r.db.rescued.json"
    rescued.write_text(json.dumps(export_document(rescue), allow_nan=False), encoding="utf-8")
    with open_store(tmp_path / "new.db") as store:
        assert import_file(store, rescued).added == 2
        assert store.runs() == [run]
        assert store.records(run.run_id) == records
        assert store.profile(profile.profile_hash) == profile


def test_a_locked_database_is_named(
    tmp_path: Path, make_run: Callable[..., RunInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "r.db"
    with open_store(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="has been locked by another process for 30 s: end it"):
            store.begin_run(make_run())
        other.execute("ROLLBACK")
        store.begin_run(make_run())
        assert len(store.runs()) == 1


def test_a_full_disk_is_named(tmp_path: Path, make_run: Callable[..., RunInfo]) -> None:
    run = make_run()
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(run)
        with closing(store._engine.raw_connection()) as raw:  # SQLite answers a full disk and a full quota alike
            raw.cursor().execute("PRAGMA max_page_count = 1")
        with pytest.raises(StoreError, match="the disk is full: free some space") as caught:
            store.begin_run(make_run(command="x" * 1_000_000))
        assert "\n" not in str(caught.value)
        assert store.runs() == [run]  # what was committed is there


@pytest.mark.parametrize("reason", ["database or disk is full", "disk I/O error"])
def test_a_disk_that_fails_while_the_tables_are_made_is_no_bug_to_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError(reason)

    monkeypatch.setattr(migrate, "_create", fail)
    with pytest.raises(StoreError, match=rf"creating its tables failed \({reason}\).*Free some space") as caught:
        open_store(tmp_path / "r.db")
    assert "report" not in str(caught.value)
    assert not (tmp_path / "r.db").exists()


@pytest.mark.parametrize("table", ["record", "run", "telemetry", "case"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_missing_table_is_damage(tmp_path: Path, table: str, read_only: bool) -> None:
    path = tmp_path / "r.db"
    open_store(path).close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(f'DROP TABLE "{table}"')
        raw.commit()
    with pytest.raises(StoreError, match=f"is damaged.*roofline import.*not there: .*{table}") as caught:
        open_store(path, read_only=read_only)
    assert "no such table" not in str(caught.value)


def test_a_table_that_goes_missing_while_open_is_damage(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(run)
        with closing(sqlite3.connect(tmp_path / "r.db")) as raw:
            raw.execute("DROP TABLE prediction")
            raw.commit()
        for work in (lambda: store.records(run.run_id), lambda: store.add_record(make_record(run.run_id))):
            with pytest.raises(StoreError, match=r"is damaged.*restore a backup") as caught:
                work()
            assert "no such table" not in str(caught.value)
