"""Databases that hold what nobody stored: every one is refused in one line that says so, and stays as it is."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from counts import sampled

from results.records.records import HardwareProfile, Measurement, Record, RunInfo
from results.records.state_records import CanaryReading
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import RooflineError, StoreError


@pytest.fixture(scope="module")
def undamaged(
    tmp_path_factory: pytest.TempPathFactory,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    profile: HardwareProfile,
    full_measurement: Measurement,
) -> Path:
    """A database with one run that has a row in nearly every table."""
    file = tmp_path_factory.mktemp("undamaged") / "r.db"
    run = make_run(run_id="a" * 32, status="complete")
    with open_store(file) as store:
        store.begin_run(run)
        store.add_profile(profile)
        store.add_record(make_record(run.run_id))
        store.add_record(make_record(run.run_id, measurement=full_measurement))
        store.add_canary(run.run_id, CanaryReading(0, 1, run.started_at, "gemv", 6e-3, None, False))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file


@pytest.fixture
def path(undamaged: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copy(undamaged, tmp_path / "r.db"))


def read_all(store: ResultStore) -> None:
    for run in store.runs():
        store.records(run.run_id)
        store.processes(run.run_id)
        store.canaries(run.run_id)
        store.noise_floors(run.environment.class_hash)
    store.profile("0123456789abcdef")
    store.resolve_run("latest")


def set_value(path: Path, table: str, column: str, value: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f'UPDATE "{table}" SET "{column}" = ?', (value,))


DAMAGE = [
    ("method", "settings", "0", "settings is the int 0"),
    ("method", "settings", "{", "Expecting"),
    ("method", "timer", b"\xff", ""),
    ("environment", "class_facts", '"a"', "class_facts is text"),
    ("environment", "facts", "[null]", "facts is a list"),
    ("hardware_profile", "profile", "[]", "profile is a list"),
    ("case", "shape", '"x"', "the shape of a case is not an object"),
    ("case", "formats", "null", ""),
    ("record", "process_id", 999, "a row that others name is missing: 999"),
    ("record", "method_id", 999, "a row that others name is missing: 999"),
    ("record", "case_id", 999, "a row that others name is missing: 999"),
    ("record", "status", "x", "status is 'x', not one of measured"),
    ("record", "extra", "3", "extra is the int 3"),
    ("measurement", "median_s", "fast", "could not convert"),
    ("measurement", "sample_count", "many", "sample_count is text"),
    ("measurement", "sample_count", 1e308, "sample_count is the float 1e"),
    ("measurement", "samples", b"\x00\x01\x02", "unpack requires"),
    ("measurement", "flags", '"noisy"', "flags is text, not a list of texts"),
    ("measurement", "flags", "[1]", "flags is a list, not a list of texts"),
    ("prediction", "findings", "{}", "findings is not a list of findings"),
    ("run", "exit_code", "x", "exit_code is text"),
    ("run", "environment_id", 999, "a row that others name is missing: 999"),
    ("run", "status", "measured", "status is 'measured', not one of running, complete"),
    ("canary", "time_s", "x", "could not convert"),
]


@pytest.mark.parametrize(
    ("table", "column", "value", "message"), DAMAGE, ids=[f"{t}.{c}={v!r:.20}" for t, c, v, _ in DAMAGE]
)
def test_a_value_that_nobody_stored_means_a_damaged_database(
    path: Path, table: str, column: str, value: object, message: str
) -> None:
    set_value(path, table, column, value)
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught, open_store(path, read_only=True) as store:
        read_all(store)
    text = str(caught.value)
    assert text.startswith(f"{path} is damaged (")
    assert message in text
    assert text.endswith("): move it away and `roofline import` an exported run, or restore a backup")
    assert len(text.splitlines()) == 1
    assert path.read_bytes() == before


def test_a_damaged_run_is_told_from_values_that_cannot_be_stored(
    path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    with open_store(path) as store:
        run = make_run()
        store.begin_run(run)
        record = make_record(run.run_id)
        with pytest.raises(StoreError, match=r"64-bit.*JSON"):
            store.add_record(replace(record, extra={"x": object()}))
        set_value(path, "environment", "facts", "{")
        with pytest.raises(StoreError, match="is damaged"):
            store.begin_run(make_run(run_id="a" * 32))


@pytest.mark.parametrize("version", ["0", "", "abc", "-1", "9" * 40, "1.5"])
def test_a_version_that_is_none_is_refused_before_anything_is_copied(path: Path, version: str) -> None:
    set_value(path, "alembic_version", "version_num", version)
    before = path.read_bytes()
    for options in ({"read_only": True}, {}):
        with pytest.raises(StoreError, match=r"is damaged, .* is not a schema version: nothing was changed"):
            open_store(path, **options)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir() if "backup" in file.name] == []


def test_used_up_row_ids_are_not_a_full_disk(
    path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE sqlite_sequence SET seq = 1e308 WHERE name = 'record'")
    run = make_run()
    with open_store(path) as store:
        store.begin_run(run)
        with pytest.raises(StoreError, match="table record"):
            store.add_record(make_record(run.run_id))


@pytest.mark.parametrize("seed", sampled(range(60), 20))
def test_flipped_bytes_never_end_in_a_traceback(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 5, 50])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)
    text = ""
    try:
        with open_store(path, read_only=True) as store:
            read_all(store)
    except RooflineError as error:
        text = str(error)
    assert len(text.splitlines()) <= 1
