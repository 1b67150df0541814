"""Files that carry a run: the same run comes back, twice is once, and a bad file changes nothing."""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_makers import csv_rows
from sqlalchemy import Connection

from results import load_frame
from results.exchange.exported.export import EXPORT_VERSION, export_run_json
from results.exchange.exported.flat import COLUMNS
from results.exchange.exported.load import ImportReport, import_file
from results.records.records import HardwareProfile, Record, RunInfo
from results.store import write as writing
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import StoreError, UnknownNameError
from roofline_model.operators.case import Case


@pytest.fixture
def local_store(sqlite_with_tables: Path, tmp_path: Path) -> Iterator[ResultStore]:
    """What a file must look like does not depend on the database: one is enough for most of these tests."""
    with open_store(shutil.copy(sqlite_with_tables, tmp_path / "here.db")) as opened:
        yield opened


@pytest.fixture
def filled(
    local_store: ResultStore,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    profile: HardwareProfile,
) -> tuple[ResultStore, RunInfo]:
    run = make_run(label="nightly; really =1+1", status="complete")
    local_store.begin_run(run)
    local_store.add_profile(profile)
    local_store.add_record(make_record(run.run_id))
    local_store.add_record(make_record(run.run_id, status="skipped", reason='no "unit"', measurement=None, method=None))
    return local_store, run


@pytest.fixture
def document(filled: tuple[ResultStore, RunInfo]) -> dict[str, Any]:
    store, run = filled
    return json.loads(json.dumps(export_run_json(store, run.run_id)))  # type: ignore[no-any-return]


@pytest.fixture
def there(sqlite_with_tables: Path, tmp_path: Path) -> Iterator[ResultStore]:
    with open_store(shutil.copy(sqlite_with_tables, tmp_path / "there.db")) as opened:
        yield opened


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_run_arrives_whole_and_only_once(
    filled: tuple[ResultStore, RunInfo],
    document: dict[str, Any],
    there: ResultStore,
    tmp_path: Path,
    profile: HardwareProfile,
) -> None:
    store, run = filled
    path = write(tmp_path / "run.json", document)
    assert import_file(there, path) == ImportReport((run.run_id,), added=2, duplicates=0)
    assert import_file(there, path) == ImportReport((run.run_id,), added=0, duplicates=2)
    assert import_file(store, path) == ImportReport((run.run_id,), added=0, duplicates=2)
    assert there.runs() == [run]
    assert there.records(run.run_id) == store.records(run.run_id)
    assert there.profile(profile.profile_hash) == profile


def test_a_run_moves_between_databases(
    store: ResultStore, filled: tuple[ResultStore, RunInfo], document: dict[str, Any], tmp_path: Path
) -> None:
    here, run = filled
    assert import_file(store, write(tmp_path / "run.json", document)).added == 2
    assert export_run_json(store, run.run_id) == export_run_json(here, run.run_id)
    assert import_file(here, write(tmp_path / "back.json", export_run_json(store, run.run_id))).duplicates == 2


def test_the_rest_of_a_run_can_follow(document: dict[str, Any], there: ResultStore, tmp_path: Path) -> None:
    early = copy.deepcopy(document)
    early["run"].update(status="running", finished_at=None, exit_code=None)
    del early["records"][1]
    assert import_file(there, write(tmp_path / "early.json", early)).added == 1
    assert there.runs()[0].status == "running"
    assert import_file(there, write(tmp_path / "late.json", document)) == ImportReport(
        (document["run"]["run_id"],), added=1, duplicates=1
    )
    assert there.runs()[0].status == "complete"
    import_file(there, tmp_path / "early.json")
    assert there.runs()[0].status == "complete"  # an older export does not undo it


def test_an_export_says_what_it_is(document: dict[str, Any]) -> None:
    assert document["format"] == "roofline-bench run"
    assert document["schema_version"] == EXPORT_VERSION
    assert list(document) == [
        "format",
        "schema_version",
        "run",
        "profiles",
        "processes",
        "records",
        "canaries",
        "noise_floors",
    ]


def test_only_the_whole_id_is_exported(filled: tuple[ResultStore, RunInfo]) -> None:
    store, run = filled
    with pytest.raises(UnknownNameError):
        export_run_json(store, "0" * 32)
    with pytest.raises(StoreError, match="whole id"):
        export_run_json(store, run.run_id[:8])


@pytest.mark.parametrize(
    "content",
    [
        b"[{}]",
        b'{"format": "pytest-benchmark"}',
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": ' + b"1" * 5000 + b"}",
        b"null",
        b'"text"',
        b"a,b\n1,2\n",
    ],
)
def test_what_is_no_run_of_ours_is_refused(there: ResultStore, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=re.escape(str(path))):
        import_file(there, path)
    assert there.runs() == []


def test_a_missing_file_and_a_folder(there: ResultStore, tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(StoreError, match="cannot be read"):
            import_file(there, path)


def test_an_import_that_fails_in_the_middle_leaves_nothing(
    document: dict[str, Any], there: ResultStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_records = writing.insert_records

    def insert_half(connection: Connection, known_ids: writing.KnownIds, records: Sequence[Record]) -> None:
        insert_records(connection, known_ids, records[:1])
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(writing, "insert_records", insert_half)
        with pytest.raises(StoreError, match="the disk is full"):
            import_file(there, write(tmp_path / "run.json", document))
    assert there.runs() == []
    assert import_file(there, write(tmp_path / "run.json", document)).added == 2


def test_csv_has_one_row_per_record_and_empty_cells_for_what_is_unknown(filled: tuple[ResultStore, RunInfo]) -> None:
    store, run = filled
    rows = csv_rows(store, run.run_id)
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 2
    measured, skipped = rows
    record = store.records(run.run_id)[0]
    assert record.measurement is not None
    assert record.ideal is not None
    assert float(measured["measured_s"]) == record.measurement.median_s
    assert float(measured["ideal_s"]) == record.ideal.time_s
    assert float(measured["error_ideal_ratio"]) == record.ideal.error_ratio
    assert measured["run_label"] == "nightly; really =1+1"
    assert measured["case_id"] == "1x4096x4096-w16a16-BF16.BF16-matmul-cold"
    assert measured["dimensions"] == "M=1,N=4096,K=4096"
    assert measured["ci_low_s"] == measured["expected_s"] == measured["power_w"] == ""
    assert skipped["measured_s"] == skipped["timer"] == skipped["flags"] == ""
    assert (skipped["status"], skipped["reason"]) == ("skipped", 'no "unit"')
    assert measured["history_key"] == record.history_key(run.environment.class_hash)


UNITS = (
    "_s",
    "_bytes",
    "_w",
    "_j",
    "_hz",
    "_c",
    "_ratio",
    "_count",
    "_per_s",
    "_per_byte",
    "flops",
    "_ordinal",
    "_pid",
)


def test_every_column_of_numbers_names_its_unit(filled: tuple[ResultStore, RunInfo]) -> None:
    store, run = filled
    row = csv_rows(store, run.run_id)[0]
    numeric = [name for name, cell in row.items() if re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", cell)]
    assert "measured_s" in numeric
    sizes = {"M", "N", "K"}  # of a case, in elements
    hashes_and_versions = {name for name in numeric if name.endswith(("_hash", "_key", "_version", "_class", "_id"))}
    assert [name for name in numeric if not name.endswith(UNITS) and name not in hashes_and_versions | sizes] == []


def test_csv_takes_any_record(store: ResultStore, run: RunInfo, make_record: Callable[..., Record]) -> None:
    unknown_format = Case("mine", (("M", 1),), (("a", "Q4_K"), ("b", "Q4_K")), "k")
    store.add_record(make_record(run.run_id, case=unknown_format, reason="file \udcff\nsecond line", predictions=()))
    (row,) = csv_rows(store, run.run_id)
    assert row["case_id"] == "1-Q4_K.Q4_K-k-cold"
    assert row["reason"] == "file \\udcff\\nsecond line"


def test_a_frame_has_the_same_columns(
    tmp_path: Path, filled: tuple[ResultStore, RunInfo], document: dict[str, Any], there: ResultStore
) -> None:
    import_file(there, write(tmp_path / "run.json", document))
    there.close()
    frame = load_frame(tmp_path / "there.db", columns="all")
    assert tuple(frame.columns) == COLUMNS
    assert list(frame["status"]) == ["measured", "skipped"]
    assert frame["measured_s"].iloc[0] == 4.4e-5
    assert frame["measured_s"].isna().tolist() == [False, True]
    assert tuple(load_frame(tmp_path / "there.db", run=filled[1].run_id[:6], columns="all").columns) == COLUMNS


def test_a_frame_of_nothing(tmp_path: Path, make_run: Callable[..., RunInfo]) -> None:
    with pytest.raises(StoreError, match="there is no results database"):
        load_frame(tmp_path / "none.db", columns="all")
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(replace(make_run(), status="complete"))
    frame = load_frame(tmp_path / "r.db", columns="all")
    assert (len(frame), tuple(frame.columns)) == (0, COLUMNS)
