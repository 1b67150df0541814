"""Files written by every version load for ever, with every value as it was."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from results.exchange.exported.export import EXPORT_VERSION, export_run_json
from results.exchange.exported.load import import_file, read_export
from results.records.records import RunInfo
from results.store.schema import SCHEMA_VERSION
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import StoreError
from roofline_model.core.finding import finding

GOLDEN = Path(__file__).parents[2] / "golden"


def generator(version: int) -> ModuleType:
    """The values that a version wrote, from the generator that is kept for this."""
    path = GOLDEN / f"make_golden_v{version}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=range(1, SCHEMA_VERSION + 1))
def written(request: pytest.FixtureRequest) -> ModuleType:
    """What each version wrote: one without a golden pair fails here."""
    return generator(request.param)


def golden(written: ModuleType, name: str) -> Path:
    """The file of that name and version."""
    version = written.__name__.rpartition("_")[2]
    return next(GOLDEN.glob(f"{name}_{version}.*"))


def check(store: ResultStore, written: ModuleType) -> None:
    """Every value is as it was written; what a version did not know is empty."""
    run: RunInfo = written.RUN
    assert store.runs() == [run]
    assert store.records(run.run_id) == list(written.RECORDS)
    assert store.profile(written.PROFILE.profile_hash) == written.PROFILE
    assert store.canaries(run.run_id) == list(getattr(written, "CANARIES", ()))
    floor = getattr(written, "FLOOR", None)
    floors = {} if floor is None else {(floor.case_key, floor.method_hash): floor}
    assert store.noise_floors(run.environment.class_hash) == floors
    of_records = {record.process for record in written.RECORDS}
    silent = [written.SILENT] if hasattr(written, "SILENT") else []
    assert sorted(store.processes(run.run_id), key=lambda process: process.ordinal) == [
        *sorted(of_records, key=lambda process: process.ordinal),
        *silent,
    ]


def test_an_exported_run_loads(store: ResultStore, written: ModuleType) -> None:
    report = import_file(store, golden(written, "run"))
    assert (report.added, report.duplicates) == (len(written.RECORDS), 0)
    check(store, written)


def test_a_database_opens_and_is_brought_up_to_date(tmp_path: Path, written: ModuleType) -> None:
    path = tmp_path / "store.sqlite"
    shutil.copy(golden(written, "store"), path)
    with open_store(path) as store:
        assert store.schema_version() == SCHEMA_VERSION
        check(store, written)


def test_todays_database_can_be_read_where_it_lies() -> None:
    written = generator(SCHEMA_VERSION)
    before = sorted(item.name for item in GOLDEN.iterdir())
    with open_store(golden(written, "store"), read_only=True) as store:
        check(store, written)
    assert sorted(item.name for item in GOLDEN.iterdir()) == before


def test_an_older_database_that_may_only_be_read_says_how_to_upgrade_it() -> None:
    before = sorted(item.name for item in GOLDEN.iterdir())
    with pytest.raises(StoreError, match=f"has schema 1, older than {SCHEMA_VERSION}: the next stored run upgrades it"):
        open_store(golden(generator(1), "store"), read_only=True)
    assert sorted(item.name for item in GOLDEN.iterdir()) == before


def test_both_golden_files_hold_the_same_run(written: ModuleType) -> None:
    exported = read_export(golden(written, "run"))
    assert (exported.run, exported.records, exported.profiles) == (written.RUN, written.RECORDS, (written.PROFILE,))
    assert exported.canaries == getattr(written, "CANARIES", ())
    assert exported.noise_floors == ((written.FLOOR,) if hasattr(written, "FLOOR") else ())


def test_todays_export_of_it_is_still_understood(tmp_path: Path, written: ModuleType) -> None:
    shutil.copy(golden(written, "store"), tmp_path / "store.sqlite")
    with open_store(tmp_path / "store.sqlite") as store, open_store(tmp_path / "other.db") as other:
        (tmp_path / "run.json").write_text(json.dumps(export_run_json(store, written.RUN.run_id)), encoding="utf-8")
        import_file(other, tmp_path / "run.json")
        check(other, written)


def test_findings_of_a_prediction_are_exported_as_codes() -> None:
    exported, written = read_export(GOLDEN / f"run_v{EXPORT_VERSION}.json"), generator(SCHEMA_VERSION)
    assert exported.records == written.RECORDS
    notes = json.loads((GOLDEN / "run_v2.json").read_text(encoding="utf-8"))["records"][0]["predictions"][0]["notes"]
    assert exported.records[0].predictions[0].findings == (finding("legacy-note", text=notes[0]),)


def test_todays_generator_still_writes_todays_document(tmp_path: Path) -> None:
    generator(SCHEMA_VERSION).main(tmp_path)
    name = f"run_v{EXPORT_VERSION}.json"
    assert (tmp_path / name).read_text(encoding="utf-8") == (GOLDEN / name).read_text(encoding="utf-8")
