"""Files written by version 1 load for ever, with every value as it was."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from results.export import export_run_json
from results.load import import_file, read_export
from results.schema import SCHEMA_VERSION
from results.store import ResultStore, open_store

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def written() -> ModuleType:
    """The values that were written, from the generator that is kept for this."""
    spec = importlib.util.spec_from_file_location("make_golden_v1", GOLDEN / "make_golden_v1.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(store: ResultStore, written: ModuleType) -> None:
    assert store.runs() == [written.RUN]
    assert store.records(written.RUN.run_id) == list(written.RECORDS)
    assert store.profile(written.PROFILE.profile_hash) == written.PROFILE


def test_the_exported_run_of_version_1_loads(store: ResultStore, written: ModuleType) -> None:
    report = import_file(store, GOLDEN / "run_v1.json")
    assert (report.added, report.duplicates) == (4, 0)
    check(store, written)


def test_the_database_of_version_1_opens_and_is_brought_up_to_date(tmp_path: Path, written: ModuleType) -> None:
    path = tmp_path / "store.sqlite"
    shutil.copy(GOLDEN / "store_v1.sqlite", path)
    with open_store(path) as store:
        assert store.schema_version() == SCHEMA_VERSION
        check(store, written)


def test_the_database_of_version_1_can_be_read_where_it_lies(written: ModuleType) -> None:
    if SCHEMA_VERSION != 1:
        pytest.skip("an older schema is upgraded before it is read")
    before = sorted(item.name for item in GOLDEN.iterdir())
    with open_store(GOLDEN / "store_v1.sqlite", read_only=True) as store:
        check(store, written)
    assert sorted(item.name for item in GOLDEN.iterdir()) == before


def test_both_golden_files_hold_the_same_run(written: ModuleType) -> None:
    exported = read_export(GOLDEN / "run_v1.json")
    assert (exported.run, exported.records, exported.profiles) == (written.RUN, written.RECORDS, (written.PROFILE,))


def test_todays_export_of_it_is_still_understood(tmp_path: Path, written: ModuleType) -> None:
    shutil.copy(GOLDEN / "store_v1.sqlite", tmp_path / "store.sqlite")
    with open_store(tmp_path / "store.sqlite") as store, open_store(tmp_path / "other.db") as other:
        (tmp_path / "run.json").write_text(json.dumps(export_run_json(store, written.RUN.run_id)), encoding="utf-8")
        import_file(other, tmp_path / "run.json")
        check(other, written)
