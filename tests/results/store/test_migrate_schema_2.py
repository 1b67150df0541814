"""From schema 1 to 2: a real database of version 1, on SQLite and on PostgreSQL, loses nothing and works like a new
one.
"""

from __future__ import annotations

import importlib.util
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import sqlalchemy as sa

from results.records.records import Measurement, ProcessInfo, Record
from results.records.state_records import CanaryReading
from results.store.connection import make_engine
from results.store.migrate import read_version, upgrade
from results.store.store import open_store
from results.store.target import parse_target
from roofline_model.core.errors import StoreError

GOLDEN = Path(__file__).parents[2] / "golden"

OLD_TABLES = (
    "environment",
    "hardware_profile",
    "run",
    "process",
    "case",
    "method",
    "record",
    "measurement",
    "prediction",
    "telemetry",
)
NEW_TABLES = ("energy", "machine_state", "attribution", "canary", "noise_floor")
WITH_IDS = ("environment", "process", "case", "method", "record")


@pytest.fixture(scope="module")
def written() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_golden_v1", GOLDEN / "make_golden_v1.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def version_1(target: str | Path) -> str | Path:
    """The golden database of version 1 at the target; into PostgreSQL it is copied row by row."""
    if isinstance(target, Path):
        shutil.copy(GOLDEN / "store_v1.sqlite", target)
        return target
    upgrade(parse_target(target), target_version=1)
    source, sink = make_engine(parse_target(GOLDEN / "store_v1.sqlite"), mode="ro"), make_engine(parse_target(target))
    old = sa.MetaData()
    with source.connect() as reading, sink.begin() as writing:
        old.reflect(reading)
        for name in OLD_TABLES:
            rows = [dict(row) for row in reading.execute(sa.select(old.tables[name])).mappings()]
            writing.execute(old.tables[name].insert(), rows)
        for name in WITH_IDS:
            advance = f"SELECT setval(pg_get_serial_sequence('\"{name}\"', 'id'), (SELECT max(id) FROM \"{name}\"))"
            writing.execute(sa.text(advance))
    source.dispose()
    sink.dispose()
    return target


def counts(target: str | Path, names: tuple[str, ...]) -> dict[str, int]:
    engine = make_engine(parse_target(target))
    with engine.connect() as connection:
        row_counts = {
            name: int(connection.execute(sa.select(sa.func.count()).select_from(sa.table(name))).scalar_one())
            for name in names
        }
    engine.dispose()
    return row_counts


def test_every_row_and_value_is_kept_and_what_is_new_is_empty(version_1: str | Path, written: ModuleType) -> None:
    before = counts(version_1, OLD_TABLES)
    assert before["measurement"] == 1
    assert before["record"] == 4
    with open_store(version_1) as store:
        assert store.schema_version() == 2
        assert store.records(written.RUN.run_id) == list(written.RECORDS)
        assert store.runs() == [written.RUN]
        measurement = store.records(written.RUN.run_id)[0].measurement
        assert measurement is not None
        assert (measurement.clocks_hz, measurement.effective_sample_count, measurement.outlier_count) == (
            (),
            None,
            None,
        )
        assert (measurement.energy, measurement.state, measurement.attribution) == (None, None, None)
        assert [(process.role, process.end_reason) for process in store.processes(written.RUN.run_id)] == [("main", "")]
        assert store.canaries(written.RUN.run_id) == []
        assert store.noise_floors(written.RUN.environment.class_hash) == {}
    assert counts(version_1, OLD_TABLES) == before
    assert set(counts(version_1, NEW_TABLES).values()) == {0}


def test_an_upgraded_database_works_like_a_new_one(
    version_1: str | Path, written: ModuleType, make_record: Callable[..., Record], full_measurement: Measurement
) -> None:
    run = written.RUN
    reading = CanaryReading(0, 0, "2026-03-01T10:00:00.000000+00:00", "gemv", 1e-5, None, False)
    with open_store(version_1) as store:
        new = make_record(run.run_id, measurement=full_measurement, process=written.PROCESS)
        store.add_record(new)
        # A process of version 1 is recognised by its hash: no second row.
        assert store.processes(run.run_id) == [written.PROCESS]
        assert store.records(run.run_id) == [*written.RECORDS, new]
        store.end_process(run.run_id, written.PROCESS, "device lost")
        assert store.processes(run.run_id) == [replace(written.PROCESS, end_reason="device lost")]
        assert store.flag_records(["1" * 32], "quarantined") == 1
        store.add_canary(run.run_id, reading)
        assert store.canary_times(run.environment.class_hash, "gemv") == [1e-5]


def test_a_session_of_version_1_that_is_still_open_can_go_on_storing(tmp_path: Path, written: ModuleType) -> None:
    """It names the columns it knows; the new ones have to fill themselves."""
    path = tmp_path / "results.db"
    shutil.copy(GOLDEN / "store_v1.sqlite", path)
    with closing(sqlite3.connect(path)) as old, open_store(path) as store:
        old.execute("PRAGMA foreign_keys = ON")
        run_id = written.RUN.run_id
        process = (run_id, "0" * 16, 1, 9, "box", "2026-03-01T10:00:00+00:00")
        names = "run_id, process_hash, ordinal, pid, host, started_at"
        old.execute(f"INSERT INTO process ({names}) VALUES (?, ?, ?, ?, ?, ?)", process)
        columns = [row[1] for row in old.execute("PRAGMA table_info(measurement)")][:27]
        assert (columns[0], columns[-1]) == ("record_pk", "flags")
        copied = ", ".join(columns[1:])
        old.execute(f"INSERT INTO measurement ({', '.join(columns)}) SELECT 4, {copied} FROM measurement")
        old.commit()
        assert store.processes(run_id)[1] == ProcessInfo(1, 9, "box", "2026-03-01T10:00:00+00:00", "main", "")
        assert store.records(run_id)[3].measurement == written.MEASUREMENT


def test_the_backup_is_the_database_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    shutil.copy(GOLDEN / "store_v1.sqlite", path)
    open_store(path).close()
    names = sorted(item.name for item in tmp_path.iterdir())
    assert names == ["results.db", "results.db.schema-1.backup"]
    with closing(sqlite3.connect(path)) as now, closing(sqlite3.connect(tmp_path / names[1])) as then:
        assert then.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
        for name in OLD_TABLES:
            columns = ", ".join(row[1] for row in then.execute(f'PRAGMA table_info("{name}")'))
            everything = f'SELECT {columns} FROM "{name}" ORDER BY 1, 2'
            assert now.execute(everything).fetchall() == then.execute(everything).fetchall(), name
        assert now.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert now.execute("PRAGMA foreign_key_check").fetchall() == []


def test_an_upgrade_that_fails_at_its_last_table_changes_nothing(version_1: str | Path) -> None:
    engine = make_engine(parse_target(version_1))
    with engine.begin() as connection:  # somebody's own table of the same name, beside ours
        connection.execute(sa.text("CREATE TABLE noise_floor (mine TEXT)"))
    before = counts(version_1, OLD_TABLES)
    with pytest.raises(StoreError, match=r"1 to 2.*noise_floor"):
        open_store(version_1)
    with engine.connect() as connection:
        assert read_version(connection, parse_target(version_1)) == 1
        inspector = sa.inspect(connection)
        assert {"energy", "canary"}.isdisjoint(inspector.get_table_names())
        assert "role" not in {column["name"] for column in inspector.get_columns("process")}
    assert counts(version_1, OLD_TABLES) == before
    engine.dispose()


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (
            (
                "SELECT time_s FROM canary WHERE class_hash = '' AND kernel = '' AND is_slow IS 0 ORDER BY created_at "
                "DESC, id DESC"
            ),
            "ix_canary_class_hash_kernel_is_slow_created_at",
        ),
        ("SELECT * FROM canary WHERE run_id = '' ORDER BY id", "canary_"),
        (
            "SELECT * FROM noise_floor WHERE class_hash = '' ORDER BY case_key, method_hash, created_at, id",
            "noise_floor_",
        ),
        ("SELECT * FROM energy JOIN record ON record.id = record_pk WHERE record.run_id = ''", "ix_record_run_id_id"),
    ],
)
def test_the_queries_find_their_rows_by_an_index(tmp_path: Path, query: str, index: str) -> None:
    open_store(tmp_path / "r.db").close()
    with closing(sqlite3.connect(tmp_path / "r.db")) as raw:
        plan = " ".join(str(row[3]) for row in raw.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert f"INDEX {index}" in plan or f"INDEX sqlite_autoindex_{index}" in plan
    assert "SCAN" not in plan
    assert index != "ix_canary_class_hash_kernel_is_slow_created_at" or "TEMP B-TREE" not in plan
