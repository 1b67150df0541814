"""A store copied into another database: every value, every id, in both directions, again and again."""

from __future__ import annotations

import datetime
import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from results.operations import copy as store_copy
from results.operations.content import id_ranges
from results.operations.copy import TableCopy, copy_store
from results.operations.retention import prune
from results.records.records import ProcessInfo, Record, RunInfo
from results.store.store import open_store
from results.store.write import RECORD
from roofline_cli.main import app
from roofline_model.core.errors import StoreError

runner = CliRunner()


def silent(what: str, done: int, total: int) -> None:
    assert 0 <= done <= total, what


def copied(source: str | Path, target: str | Path) -> dict[str, TableCopy]:
    with open_store(source, read_only=True) as here, open_store(target) as there:
        tables = copy_store(here, there, silent)
    assert [table.name for table in tables if not table.is_equal] == []
    return {table.name: table for table in tables}


@pytest.fixture
def source(database_of_every_part: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]) -> Path:
    """A run of every part, and behind it one in progress with what is hard to carry."""
    run = make_run(label="it's \x00 \x1b[2J <b>")
    with open_store(database_of_every_part) as store:
        store.begin_run(run)
        for number in range(5):
            extra = {"nan": math.nan, "inf": -math.inf, "text": "\ud800", "order": {"z": 1, "a": 2}}
            store.add_record(make_record(run.run_id, process=ProcessInfo(number % 2), extra=extra))
    return database_of_every_part


def test_there_and_back_is_the_same(
    target: str | Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("results.operations.content.id_ranges.__defaults__", (2,))  # several portions
    first = copied(source, target)
    assert first["record"].added_count == first["record"].source.row_count > 5
    assert sum(table.added_count for table in copied(source, target).values()) == 0
    back = tmp_path / "back.db"
    copied(target, back)
    with open_store(source, read_only=True) as here, open_store(back, read_only=True) as there:
        assert there.runs() == here.runs()
        for run in here.runs():
            assert repr(there.records(run.run_id)) == repr(here.records(run.run_id))  # NaN is not itself
            assert there.canaries(run.run_id) == here.canaries(run.run_id)
            assert there.processes(run.run_id) == here.processes(run.run_id)
    with closing(sqlite3.connect(back)) as raw, closing(sqlite3.connect(source)) as golden:
        for table in ("run", "record", "measurement", "prediction", "telemetry", "energy", "canary", "noise_floor"):
            dumped = f'SELECT * FROM "{table}" ORDER BY 1, 2'
            assert raw.execute(dumped).fetchall() == golden.execute(dumped).fetchall(), table


def test_a_store_that_grew_is_brought_up_to_date(
    target: str | Path, source: Path, make_record: Callable[..., Record]
) -> None:
    first = copied(source, target)["run"]
    assert (first.added_count, first.updated_count) == (first.source.row_count, 0)
    with open_store(source) as store:
        run = next(run for run in store.runs() if run.status == "running")
        late = make_record(run.run_id)
        store.add_record(late)
        store.flag_records([store.records(run.run_id)[0].record_id], "quarantined")
        store.finish_run(run.run_id, status="complete", exit_code=0, finished_at="2026-03-01T11:00:00+00:00")
    again = copied(source, target)
    changed = {name: (table.added_count, table.updated_count) for name, table in again.items()}
    assert {name: counts for name, counts in changed.items() if counts != (0, 0)} == {
        "record": (1, 0),
        "measurement": (1, 1),
        "prediction": (1, 0),
        "telemetry": (2, 0),
        "process": (1, 0),
        "run": (0, 1),
    }
    with open_store(target) as store:
        assert store.resolve_run("latest").run_id == run.run_id
        assert store.records(run.run_id)[-1] == late
        new = make_record(run.run_id)
        store.add_record(new)  # its ids are behind the copied ones
        assert store.records(run.run_id)[-1] == new


def test_an_interrupted_copy_holds_whole_records_and_goes_on(
    target: str | Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("results.operations.content.id_ranges.__defaults__", (2,))

    def stop(what: str, done: int, total: int) -> None:
        if what == "copying records" and done >= 4:
            raise KeyboardInterrupt

    with open_store(source, read_only=True) as here, open_store(target) as there:
        with pytest.raises(KeyboardInterrupt):
            copy_store(here, there, stop)
        assert {run.status for run in there.runs()} == {"running"}  # none is taken for a finished one
        half = [record for run in there.runs() for record in there.records(run.run_id)]
        assert len(half) == 4
        whole = [record for run in here.runs() for record in here.records(run.run_id)]
        assert all(repr(record) in map(repr, whole) for record in half)
    tables = copied(source, target)
    assert tables["record"].added_count == len(whole) - 4


def test_another_store_is_refused_before_anything_is_written(
    target: str | Path,
    source: Path,
    tmp_path: Path,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
) -> None:
    run = make_run()
    with open_store(target) as store:
        store.begin_run(run)
        store.add_record(make_record(run.run_id))
    with open_store(source, read_only=True) as here, open_store(target) as there:
        with pytest.raises(StoreError, match=r"is not an earlier copy of .* is only there"):
            copy_store(here, there, silent)
        assert there.runs() == [run]
        assert len(there.records(run.run_id)) == 1
    with open_store(source, read_only=True) as here, pytest.raises(StoreError, match="same database"):
        copy_store(here, here, silent)


def test_samples_that_only_the_copy_still_has_are_never_dropped(
    target: str | Path, source: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    now = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    with open_store(source) as store:
        run, record = make_run(), make_record("")
        store.begin_run(run)
        store.add_record(replace(record, run_id=run.run_id))
    copied(source, target)
    with open_store(source) as store:
        report = prune(store, datetime.timedelta(days=1), now=now, named_reasons={}, kept_newest=0)
        assert report.sample_bytes == 3 * 8
    with (
        open_store(source, read_only=True) as here,
        open_store(target) as there,
        pytest.raises(StoreError, match=r"pruned in .*: copying would drop them"),
    ):
        copy_store(here, there, silent)


def test_a_copy_that_differs_says_so(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = store_copy._contents

    def meddled(here: object, there: object, progress: object) -> object:
        contents = real(here, there, progress)  # type: ignore[arg-type]
        counted, _ = contents["record"]
        return {**contents, "record": (counted, replace(counted, content_hash="0" * 64))}

    monkeypatch.setattr(store_copy, "_contents", meddled)
    done = runner.invoke(app, ["db", "copy", str(tmp_path / "there.db"), "--db", str(source)])
    assert done.exit_code == 1
    assert "DIFFERS" in done.stdout
    assert "copy again" in done.stdout


def test_the_command_copies_and_never_upgrades_what_it_copies_to(source: Path, tmp_path: Path) -> None:
    done = runner.invoke(app, ["db", "copy", str(tmp_path / "there.db"), "--db", str(source), "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["is_equal"] is True
    assert {table["table"]: table["added_count"] for table in document["tables"]}["run"] == 2
    with closing(sqlite3.connect(tmp_path / "there.db")) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '0999'")
        raw.commit()
    before = (tmp_path / "there.db").read_bytes()
    refused = runner.invoke(app, ["db", "copy", str(tmp_path / "there.db"), "--db", str(source)])
    assert refused.exit_code == 2
    assert "has another schema" in refused.stderr
    assert (tmp_path / "there.db").read_bytes() == before


def test_portions_cover_every_row_once(source: Path) -> None:
    with open_store(source, read_only=True) as store:
        ranges = store.query(lambda connection: list(id_ranges(connection, RECORD, 3)))
        ids = store.query(lambda connection: [row.id for row in connection.execute(RECORD.select())])
    assert [sum(low <= row_id <= high for low, high in ranges) for row_id in ids] == [1] * len(ids)
    assert max(sum(low <= row_id <= high for row_id in ids) for low, high in ranges) <= 3
