"""The three traps of SQLite (each is first shown to be real), upgrades, and databases that are not ours."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import results
from results.records.records import Record, RunInfo
from results.store import migrate
from results.store.connection import WRITING, make_engine
from results.store.migrate import ADVISORY_LOCK_KEY, exclusive_lock, read_version, upgrade
from results.store.schema import SCHEMA_VERSION
from results.store.store import open_store
from results.store.target import StoreTarget, parse_target
from roofline_model.core.errors import OldSchemaError, StoreError

NEXT = SCHEMA_VERSION + 1
HEAD = f"""
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{NEXT:04d}", "{SCHEMA_VERSION:04d}"
branch_labels = depends_on = None
"""

REBUILD_RUN = """
def upgrade():
    with op.batch_alter_table("run") as batch:  # SQLite cannot do this in place: the table is rebuilt
        batch.alter_column("label", existing_type=sa.Text(), nullable=True)
        batch.add_column(sa.Column("note", sa.Text()))
"""

FAIL_HALFWAY = """
def upgrade():
    op.create_table("half_done", sa.Column("id", sa.Integer(), primary_key=True))
    op.execute("DELETE FROM measurement")
    op.drop_table("telemetry")
    raise RuntimeError("the disk caught fire")
"""

ORPHAN_ROWS = """
def upgrade():
    op.execute("DELETE FROM run")
"""

COUNTED = ("run", "process", "environment", "case", "method", "record", "measurement", "prediction", "telemetry")


@pytest.fixture
def scripts(tmp_path: Path) -> Callable[[str], list[Path]]:
    """Write one more migration; the value is what `upgrade` takes as folders. A blank in the name is on purpose."""

    def write(body: str) -> list[Path]:
        folder = tmp_path / "more versions"
        folder.mkdir(exist_ok=True)
        (folder / "next_schema.py").write_text(HEAD + body)
        return [folder]

    return write


@pytest.fixture
def filled(
    target: str | Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> tuple[StoreTarget, list[Record]]:
    """A database with two runs and three records."""
    records = []
    with open_store(target) as store:
        for count in (1, 2):
            run = make_run()
            store.begin_run(run)
            for _ in range(count):
                records.append(make_record(run.run_id))
                store.add_record(records[-1])
    return parse_target(target), records


def contents(target: StoreTarget) -> tuple[int | None, dict[str, int], set[str]]:
    """Schema version, rows per table and names of all tables."""
    engine = make_engine(target)
    with engine.connect() as connection:
        tables = set(sa.inspect(connection).get_table_names())
        counts = {
            name: connection.execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one()
            for name in COUNTED
            if name in tables
        }
        state = read_version(connection, target), counts, tables
    engine.dispose()
    return state


FULL = {"run": 2, "process": 2, "environment": 1, "case": 1, "method": 1, "record": 3, "measurement": 3, "prediction": 3, "telemetry": 6}  # fmt: skip


def test_rebuilding_a_parent_table_keeps_every_child_row(
    filled: tuple[StoreTarget, list[Record]], scripts: Callable[[str], list[Path]]
) -> None:
    target, _ = filled
    assert contents(target)[:2] == (SCHEMA_VERSION, FULL)
    upgrade(target, target_version=NEXT, folders=scripts(REBUILD_RUN))
    assert contents(target)[:2] == (NEXT, FULL)


def test_the_trap_is_real_with_foreign_keys_on_the_same_script_empties_the_children(
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    scripts: Callable[[str], list[Path]],
) -> None:
    path = tmp_path / "results.db"
    run = make_run()
    with open_store(path) as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id))
    target = parse_target(path)
    engine = make_engine(target, foreign_keys=True)
    with engine.execution_options(**{WRITING: True}).begin() as connection:
        migrate._run_scripts(connection, SCHEMA_VERSION, NEXT, scripts(REBUILD_RUN), lambda *steps: None)
    engine.dispose()
    counts = contents(target)[1]
    assert (counts["run"], counts["record"], counts["measurement"], counts["prediction"]) == (1, 0, 0, 0)


def test_a_failed_migration_is_rolled_back_whole(
    filled: tuple[StoreTarget, list[Record]], scripts: Callable[[str], list[Path]]
) -> None:
    target, records = filled
    before = contents(target)
    with pytest.raises(
        StoreError, match=rf"schema {SCHEMA_VERSION} to {NEXT} failed \(the disk caught fire\); nothing was changed"
    ):
        upgrade(target, target_version=NEXT, folders=scripts(FAIL_HALFWAY))
    assert contents(target) == before
    with open_store(target.path or target.url) as store:
        stored = [record for run in store.runs() for record in store.records(run.run_id)]
    assert sorted(map(repr, stored)) == sorted(map(repr, records))


def test_a_migration_that_would_orphan_rows_is_rolled_back(
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    scripts: Callable[[str], list[Path]],
) -> None:
    run = make_run()
    with open_store(tmp_path / "results.db") as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id))
    target = parse_target(tmp_path / "results.db")
    before = contents(target)
    with pytest.raises(StoreError, match="process, record"):
        upgrade(target, target_version=NEXT, folders=scripts(ORPHAN_ROWS))
    assert contents(target) == before


def test_an_upgrade_keeps_a_complete_backup_and_never_overwrites_one(
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    scripts: Callable[[str], list[Path]],
) -> None:
    path = tmp_path / "results.db"
    run = make_run()
    with open_store(path) as writer:  # still open during the upgrade: its rows are only in the write-ahead log
        writer.begin_run(run)
        record = make_record(run.run_id)
        writer.add_record(record)
        with pytest.raises(StoreError, match="backup is at"):
            upgrade(parse_target(path), target_version=NEXT, folders=scripts(FAIL_HALFWAY))
        upgrade(parse_target(path), target_version=NEXT, folders=scripts(REBUILD_RUN))
    backups = sorted(item for item in tmp_path.iterdir() if "backup" in item.name)
    assert [item.name for item in backups] == [
        f"results.db.schema-{SCHEMA_VERSION}.backup",
        f"results.db.schema-{SCHEMA_VERSION}.backup-2",
    ]
    for backup in backups:
        with open_store(backup, read_only=True) as store:
            assert store.records(run.run_id) == [record]


def test_a_failed_creation_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no tables today")

    monkeypatch.setattr(migrate, "_create", fail)
    with pytest.raises(StoreError, match="no tables today"):
        open_store(tmp_path / "results.db")
    assert list(tmp_path.iterdir()) == []


def test_a_newer_schema_is_refused_and_left_alone(
    filled: tuple[StoreTarget, list[Record]], scripts: Callable[[str], list[Path]]
) -> None:
    target, _ = filled
    upgrade(target, target_version=NEXT, folders=scripts(REBUILD_RUN))
    for options in ({}, {"read_only": True}):
        with pytest.raises(
            StoreError,
            match=rf"schema {NEXT}, this one knows {SCHEMA_VERSION}\): update this project .* if that one is newer",
        ):
            open_store(target.path or target.url, **options)
    with pytest.raises(StoreError, match="another roofline-bench"):
        upgrade(target)
    assert contents(target)[:2] == (NEXT, FULL)


def test_an_older_schema_that_may_only_be_read_says_how_to_upgrade_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.db"
    open_store(path).close()
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", NEXT)
    with pytest.raises(OldSchemaError, match=f"has schema {SCHEMA_VERSION}, older than {NEXT}"):
        open_store(path, read_only=True)


@pytest.mark.parametrize("version", ["0001", "0002"])
def test_a_database_from_before_the_first_release_says_what_to_do(tmp_path: Path, version: str) -> None:
    path = tmp_path / "results.db"
    open_store(path).close()
    with closing(sqlite3.connect(path)) as raw:
        if version == "0001":
            for table in ("energy", "machine_state", "attribution", "canary", "noise_floor"):
                raw.execute(f"DROP TABLE {table}")
        raw.execute("UPDATE alembic_version SET version_num = ?", (version,))
        raw.commit()
    before = path.read_bytes()
    for options in ({}, {"read_only": True}):
        with pytest.raises(StoreError, match="move it away") as refused:
            open_store(path, **options)
        assert "\n" not in str(refused.value)
    assert path.read_bytes() == before


def test_neither_a_new_nor_an_up_to_date_database_imports_alembic(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    code = (
        f"import sys; from results import open_store; [open_store({str(path)!r}).close() for _ in '12']; print('alembic' in "
        "sys.modules)"
    )
    root = Path(results.__file__).parents[1]
    process = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert process.stdout == "False\n"


def test_a_database_that_lost_its_journal_mode_gets_it_back(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    open_store(path).close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA journal_mode = DELETE")
    open_store(path, read_only=True).close()
    assert journal_mode(path) == "delete"
    open_store(path).close()
    assert journal_mode(path) == "wal"


def journal_mode(path: Path) -> str:
    with closing(sqlite3.connect(path)) as raw:
        return str(raw.execute("PRAGMA journal_mode").fetchone()[0])


def test_only_the_first_of_many_creates_the_tables(target: str | Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    really_create = migrate._create

    def slowly(*arguments: Any) -> None:
        runs.append(1)
        time.sleep(0.1)  # long enough for the others to have looked at an empty database
        really_create(*arguments)

    monkeypatch.setattr(migrate, "_create", slowly)
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(lambda _: open_store(target), range(4)))
    assert [store.schema_version() for store in stores] == [SCHEMA_VERSION] * 4
    for store in stores:
        store.close()
    assert len(runs) == 1


def test_the_lock_keeps_others_out_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with (
        exclusive_lock(path),
        pytest.raises(StoreError, match="another process"),
        exclusive_lock(path, wait_s=0.05),
    ):
        pytest.fail("two holders at once")
    with exclusive_lock(path, wait_s=0.05):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    code = f"""
import os, signal
from pathlib import Path
from results.store.migrate import exclusive_lock
with exclusive_lock(Path({str(path)!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], cwd=Path(results.__file__).parents[1], check=False)
    assert path.with_name("results.db.lock").exists()
    open_store(path).close()


def test_the_advisory_lock_is_a_64_bit_number() -> None:
    assert ADVISORY_LOCK_KEY.to_bytes(8, "big") == b"Roofline"


def test_a_copied_database_opens_like_the_original(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    with open_store(tmp_path / "results.db") as store:
        store.begin_run(run)
        record = make_record(run.run_id)
        store.add_record(record)
    shutil.copy(tmp_path / "results.db", tmp_path / "100% copy #1?.db")  # every sign a URI would trip over
    with open_store(tmp_path / "100% copy #1?.db") as store:
        assert store.records(run.run_id) == [record]
