"""What a file may say of the machine: numbers that no sensor gives are refused in one line, and nothing is imported."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from results.exchange.exported.export import export_documents
from results.exchange.exported.load import import_file
from results.operations.check import check_store
from results.records.records import Measurement, ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import StoreError


@pytest.fixture
def document(
    make_run: Callable[..., RunInfo], make_record: Callable[..., Record], full_measurement: Measurement
) -> dict[str, Any]:
    run = make_run(status="complete")
    worker = ProcessInfo(1, 4712, "box", "2026-03-01T10:00:00+00:00", "worker", "killed by SIGABRT")
    records = [make_record(run.run_id), make_record(run.run_id, measurement=full_measurement, process=worker)]
    canary = CanaryReading(0, 0, "2026-03-01T10:00:00+00:00", "gemv", 3e-5, 3.1e-5, False, 40.0, 2.4e9)
    floor = NoiseFloor(
        run.environment.class_hash, "case", "method", 0.03, 0.01, 12, "2026-03-01T10:00:00+00:00", (run.run_id,)
    )
    exported = export_documents(run, [], records, canaries=[canary, replace(canary, ordinal=1)], noise_floors=[floor])
    return json.loads(json.dumps(exported))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with open_store(tmp_path_factory.mktemp("checks") / "there.db") as store:
        yield store


def test_what_is_refused_below_is_otherwise_fine(there: ResultStore, tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with open_store(tmp_path / "fine.db") as store:
        assert import_file(store, path).added == 2


M = "records/1/measurement"
E, S, A = f"{M}/energy", f"{M}/state", f"{M}/attribution"
C, F, P = "canaries/1", "noise_floors/0", "processes/1"
BIG = 10**400

WRONG: list[tuple[str, Any, str]] = [
    ("records/1/extra", {"issue_s": BIG}, r"extra.issue_s is a whole number of 401 digits"),
    (
        "records/1/extra",
        {"memory": {"held_bytes": [1, -BIG]}},
        r"extra.memory.held_bytes is a whole number of 40. digits",
    ),
    (f"{M}/clocks_hz", [2.4e9, 2.4e9], r"clocks_hz holds 2 clocks, but samples_s 3 samples"),
    (f"{M}/clocks_hz", [2.4e9] * 4, "clocks_hz holds 4 clocks"),
    (f"{M}/clocks_hz", [2.4e9, "NaN", 2.4e9], r"clocks_hz\[1\] is nan"),
    (f"{M}/clocks_hz", [2.4e9, 0.0, 2.4e9], r"clocks_hz\[1\] is 0,"),
    (f"{M}/clocks_hz", [2.4e9, 2.4e9, "Infinity"], r"clocks_hz\[2\] is inf"),
    (f"{M}/clocks_hz", [2.4e9, None, 2.4e9], r"clocks_hz\[1\] is missing or null"),
    (f"{M}/clocks_hz", "2.4e9", "clocks_hz is text, not a list"),
    (f"{M}/effective_sample_count", "NaN", "effective_sample_count is nan"),
    (f"{M}/effective_sample_count", -0.5, "effective_sample_count is -0.5"),
    (f"{M}/outlier_count", 4, "outlier_count is 4, not between 0 and sample_count 3"),
    (f"{M}/outlier_count", -1, "outlier_count is -1"),
    (f"{M}/outlier_count", 1.5, "outlier_count is a number, not a whole number"),
    (f"{E}/energy_j", "NaN", r"records\[1\]\.measurement\.energy\.energy_j is nan"),
    (f"{E}/energy_j", -1e-3, "energy_j is -0.001"),
    (f"{E}/power_w", "Infinity", "power_w is inf"),
    (f"{E}/std_j", -1.0, "std_j is -1"),
    (f"{E}/net_energy_j", "-Infinity", "net_energy_j is -inf"),
    (f"{E}/cross_check_j", "NaN", "cross_check_j is nan"),
    (f"{E}/window_s", 0, "window_s is 0"),
    (f"{E}/sensor_period_s", -0.1, "sensor_period_s is -0.1"),
    (f"{E}/window_count", 0, "window_count is 0"),
    (f"{E}/call_count", -BIG, "call_count is -1000"),
    (f"{E}/call_count", BIG, r"energy\.call_count is 1000.*"),
    (f"{E}/call_count", 2**63, r"records\[1\]\.measurement\.energy\.call_count is 9223372036854775808"),
    (f"{S}/retry_count", 2**63, r"state\.retry_count is 9223372036854775808, not a whole number"),
    (f"{P}/pid", 2**70, r"processes\[1\]\.pid is 1180591620717411303424"),
    (f"{C}/kernel", "k" * 201, r"canaries\[1\]\.kernel is of length 201"),
    (f"{F}/case_key", "k" * 201, r"noise_floors\[0\]\.case_key is of length 201"),
    (f"{E}/source", "", "source is ''"),
    (f"{E}/scope", "x" * 1001, "scope is of length 1,001"),
    (f"{E}/surprise", 1, "energy has an unknown field 'surprise'"),
    (f"{S}/throttled_s", {"sw-power-cap": -1e-9}, r"state\.throttled_s\.sw-power-cap is -1e-09"),
    (f"{S}/throttled_s", {"sw-power-cap": {"$float": "NaN"}}, r"throttled_s\.sw-power-cap is nan"),
    (f"{S}/throttled_s", {"sw-power-cap": "long"}, r"throttled_s\.sw-power-cap is text, not a number"),
    (f"{S}/throttled_s", {"sw-power-cap": {"a": [1]}}, r"throttled_s\.sw-power-cap is an object, not a number"),
    (f"{S}/throttled_s", {"": 1.0}, "a key of .*throttled_s is ''"),
    (f"{S}/throttled_s", {"x" * 100_000: 1.0}, "a key of .*throttled_s is of length 100,000"),
    (f"{S}/throttled_s", {str(n): 0.0 for n in range(101)}, "throttled_s is of length 101"),
    (f"{S}/throttled_s", [["a", 1.0]], "throttled_s is a list, not an object"),
    (f"{S}/rated_clock_hz", 0.0, "rated_clock_hz is 0,"),
    (f"{S}/retry_count", -1, "retry_count is -1"),
    (f"{S}/others_ratio", -0.1, "others_ratio is -0.1"),
    (f"{S}/stolen_ratio", "NaN", "stolen_ratio is nan"),
    (f"{S}/device_process_count", -2, "device_process_count is -2"),
    (f"{S}/cpu_clock_hz", -3e9, "cpu_clock_hz is -3e"),
    (f"{A}/source", "", "attribution.source is ''"),
    (f"{A}/kernel_count", -1.0, "kernel_count is -1"),
    (f"{A}/busy_s", "NaN", "busy_s is nan"),
    (f"{A}/busy_s", 1.0, "busy_s is 1, above latency_s 4.4e-05"),
    (f"{A}/kernel_names", ["k"] * 100_001, "kernel_names is of length 100,001"),
    (f"{A}/kernel_names", ["k", "x" * 100_001], r"kernel_names\[1\] is of length 100,001"),
    (f"{A}/kernel_names", "gemv", "kernel_names is text, not a list"),
    (f"{P}/role", "", r"processes\[1\]\.role is ''"),
    (f"{P}/ordinal", -1, r"processes\[1\]\.ordinal is -1"),
    (f"{P}/end_reason", "x" * 10_001, r"processes\[1\]\.end_reason is of length 10,001"),
    ("records/1/process/role", "x" * 1001, r"records\[1\]\.process\.role is of length 1,001"),
    (f"{C}/ordinal", -1, r"canaries\[1\]\.ordinal is -1"),
    (f"{C}/process_ordinal", -1, r"canaries\[1\]\.process_ordinal is -1"),
    (f"{C}/created_at", "noon", r"canaries\[1\]\.created_at is 'noon', not a date"),
    (f"{C}/kernel", "", r"canaries\[1\]\.kernel is ''"),
    (f"{C}/time_s", 0.0, r"canaries\[1\]\.time_s is 0"),
    (f"{C}/time_s", "NaN", "time_s is nan"),
    (f"{C}/reference_s", -1.0, "reference_s is -1"),
    (f"{C}/power_w", "Infinity", "power_w is inf"),
    (f"{C}/sm_clock_hz", 0, "sm_clock_hz is 0"),
    (f"{C}/is_slow", 1, "is_slow is a number, not true or false"),
    (f"{F}/class_hash", "another", r"noise_floors\[0\]\.class_hash is not that of the run's environment"),
    (f"{F}/case_key", "", r"noise_floors\[0\]\.case_key is ''"),
    (f"{F}/method_hash", "", r"noise_floors\[0\]\.method_hash is ''"),
    (f"{F}/between_sd_ratio", "NaN", "between_sd_ratio is nan"),
    (f"{F}/within_sd_ratio", -0.1, "within_sd_ratio is -0.1"),
    (f"{F}/process_count", 1, "process_count is 1"),
    (f"{F}/created_at", "", "created_at is ''"),
    (f"{F}/run_ids", [""], r"run_ids\[0\] is ''"),
    ("canaries", {}, "canaries is missing or not a list"),
    ("noise_floors", None, "noise_floors is missing or not a list"),
    ("processes", None, "processes is missing or not a list"),
]


def put(document: Any, place: str, value: Any) -> None:
    *steps, last = place.split("/")
    for step in steps:
        document = document[int(step) if isinstance(document, list) else step]
    document[int(last) if isinstance(document, list) else last] = value


@pytest.mark.parametrize(
    ("place", "value", "match"), WRONG, ids=[f"{wrong[0]}-{number}" for number, wrong in enumerate(WRONG)]
)
def test_what_no_machine_says(
    there: ResultStore, tmp_path: Path, document: dict[str, Any], place: str, value: Any, match: str
) -> None:
    put(document, place, value)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(StoreError, match=match) as caught:
        import_file(there, path)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < len(str(path)) + 400
    assert there.runs() == []


FREE = ("facts", "class_facts", "settings", "extra", "profile")
"""Objects of free facts: their texts are what a machine or a user said, and are escaped where they are shown."""
JUNK = {
    "screen control": "a\x1b[2Jb",
    "no character": "x\x00y",
    "turned around": "\u202ecod.exe",
    "several lines": "a\nb\x85c",
    "endless": "y" * 200_000,
}


def leaves(value: Any, kinds: tuple[type, ...], place: str = "") -> list[str]:
    """Places of the values of some types in the parts of a run, those among free facts left out."""
    if isinstance(value, dict):
        parts = [(name, item) for name, item in value.items() if name not in FREE]
    elif isinstance(value, list):
        parts = [(str(number), item) for number, item in enumerate(value)]
    else:
        return [place] if isinstance(value, kinds) and not isinstance(value, bool) else []
    return [leaf for name, item in parts for leaf in leaves(item, kinds, f"{place}/{name}" if place else name)]


@pytest.mark.parametrize("junk", JUNK)
def test_no_text_field_takes_junk(there: ResultStore, tmp_path: Path, document: dict[str, Any], junk: str) -> None:
    places = leaves(document, (str,))
    assert len(places) > 60
    taken = []
    for place in places:
        changed = json.loads(json.dumps(document))
        put(changed, place, JUNK[junk])
        path = tmp_path / "run.json"
        path.write_text(json.dumps(changed), encoding="utf-8")
        with contextlib.suppress(StoreError):
            import_file(there, path)
            taken.append(place)
    # A command may be quoted over several lines, but takes no other control character.
    assert taken == []
    assert there.runs() == []


def test_no_number_field_takes_what_no_machine_says(
    there: ResultStore, tmp_path: Path, document: dict[str, Any]
) -> None:
    places = [place for place in leaves(document, (int, float)) if place != "schema_version"]
    places += ["records/1/extra/issue_s", "records/1/extra/held_bytes", "records/1/method/settings/min_sample_s"]
    places += [f"{A}/busy_s", f"{A}/latency_s", "run/environment/facts/clock_hz"]
    assert len(places) > 80
    taken = []
    for place in places:
        changed = json.loads(json.dumps(document))
        put(changed, place, 1e300)
        path = tmp_path / "run.json"
        path.write_text(json.dumps(changed), encoding="utf-8")
        with contextlib.suppress(StoreError):
            import_file(there, path)
            taken.append(place)
    assert taken == []
    assert there.runs() == []


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("run", "label", "a\x1b[2Jb"),
        ("record", "test_id", "a\nb"),
        ("noise_floor", "method_hash", "a\tb"),
        ("canary", "kernel", "\u202ex"),
        ("prediction", "bound", "x" * 500),
    ],
)
def test_a_check_of_the_database_asks_what_an_import_asks(
    tmp_path: Path, document: dict[str, Any], table: str, column: str, value: str
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with open_store(tmp_path / "r.db") as store:
        import_file(store, path)
        assert [problem for problem in check_store(store) if problem.kind == "value"] == []
    with closing(sqlite3.connect(tmp_path / "r.db")) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    with open_store(tmp_path / "r.db") as store:
        (problem,) = [problem for problem in check_store(store) if problem.kind == "value"]
    assert column in problem.what


def test_a_field_that_may_be_missing_takes_its_default(tmp_path: Path, document: dict[str, Any]) -> None:
    for record in document["records"]:
        del record["process"]["role"], record["process"]["end_reason"]
        for name in ("clocks_hz", "effective_sample_count", "outlier_count", "energy", "state", "attribution"):
            del record["measurement"][name]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with open_store(tmp_path / "r.db") as store:
        assert import_file(store, path).added == 2
        measurement = store.records(document["run"]["run_id"])[1].measurement
        assert measurement is not None
        assert (measurement.clocks_hz, measurement.energy, measurement.state) == ((), None, None)


def test_a_pruned_measurement_keeps_neither_samples_nor_clocks(tmp_path: Path, document: dict[str, Any]) -> None:
    document["records"][1]["measurement"].update(samples_s=[], clocks_hz=[])
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with open_store(tmp_path / "r.db") as store:
        assert import_file(store, path).added == 2


def test_a_finding_holds_finite_numbers(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """One that does not could be imported, and never exported again."""
    text = (pytestconfig.rootpath / "examples/runs/h200-sxm/model_quant.json").read_text(encoding="utf-8")
    assert '"launch_count": 341' in text or '"launch_count":341' in text
    path = tmp_path / "run.json"
    path.write_text(
        text.replace('"launch_count": 341', '"launch_count": NaN').replace('"launch_count":341', '"launch_count":NaN'),
        encoding="utf-8",
    )
    with open_store(tmp_path / "r.db") as store, pytest.raises(StoreError, match="launch_count is NaN"):
        import_file(store, path)
