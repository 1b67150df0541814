"""What a file may say of a run: numbers, texts and dates that no measurement has are refused in one line that names
their place, and nothing is imported.
"""

from __future__ import annotations

import contextlib
import copy
import json
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from results.exchange.exported.export import RUNS_FORMAT, ExportedRun, export_document
from results.exchange.exported.load import ImportReport, import_file
from results.operations.check import check_store
from results.records.records import HardwareProfile, Measurement, ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from results.store.store import ResultStore, open_store
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import StoreError


@pytest.fixture
def document(
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    profile: HardwareProfile,
    full_measurement: Measurement,
) -> dict[str, Any]:
    """An export with every part: its second record has all that a record may have, from a process of its own."""
    run = make_run(status="complete", finished_at="2026-03-01T11:00:00+00:00")
    worker = ProcessInfo(1, 4712, "box", "2026-03-01T10:00:00+00:00", "worker", "killed by SIGABRT")
    records = [make_record(run.run_id), make_record(run.run_id, measurement=full_measurement, process=worker)]
    canary = CanaryReading(0, 0, "2026-03-01T10:00:00+00:00", "gemv", 3e-5, 3.1e-5, False, 40.0, 2.4e9)
    floor = NoiseFloor(
        run.environment.class_hash, "case", "method", 0.03, 0.01, 12, "2026-03-01T10:00:00+00:00", (run.run_id,)
    )
    chip = replace(profile, profile=get_hardware("b10").to_dict())
    canaries = (canary, replace(canary, ordinal=1))
    exported = ExportedRun(run, (chip,), (), tuple(records), canaries=canaries, noise_floors=(floor,))
    return json.loads(json.dumps(export_document(exported)))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A database that every refused file leaves as it is."""
    with open_store(tmp_path_factory.mktemp("checks") / "there.db") as store:
        yield store


Bring = Callable[..., ImportReport]


@pytest.fixture
def bring(tmp_path: Path, empty_store: ResultStore) -> Bring:
    """Import a document into a database of this test's own."""

    def imported(document: Any, store: ResultStore = empty_store, encoding: str = "utf-8") -> ImportReport:
        path = tmp_path / "run.json"
        path.write_text(json.dumps(document), encoding=encoding)
        return import_file(store, path)

    return imported


Refuse = Callable[[Any, str], None]


@pytest.fixture
def refuse(bring: Bring, there: ResultStore) -> Refuse:
    def refused(document: Any, match: str) -> None:
        with pytest.raises(StoreError, match=match) as caught:
            bring(document, there)
        text = str(caught.value)
        assert "\n" not in text
        assert len(text) < 600
        assert there.runs() == []

    return refused


def test_what_is_refused_below_is_otherwise_fine(document: dict[str, Any], bring: Bring) -> None:
    assert bring(document).added == 2


R, M = "records/1", "records/1/measurement"
E, S, A = f"{M}/energy", f"{M}/state", f"{M}/attribution"
C, F, P = "canaries/1", "noise_floors/0", "processes/1"
FIRST, PREDICTED = "records/0/measurement", "records/1/predictions/0"
BIG = 10**400
LATER = "9999-12-31T23:59:59"
ABSENT = object()

WRONG: list[tuple[str, Any, str]] = [
    ("schema_version", None, "schema_version"),
    ("schema_version", "1", "schema_version"),
    ("schema_version", 99, "another roofline-bench .*schema_version 99.*make venv"),
    ("run", None, "run is missing"),
    ("records", {}, "records is missing or not a list"),
    (R, 7, r"records\[1\] is a number"),
    (f"{R}/record_id", ABSENT, r"records\[1\].record_id is missing"),
    (f"{R}/record_id", "", r"records\[1\].record_id is ''"),
    (f"{R}/run_id", "x", r"records\[1\].run_id"),
    (f"{R}/status", "fine", r"records\[1\].status is 'fine', not one of measured"),
    (f"{R}/status", ["x"], r"records\[1\].status"),
    (f"{R}/surprise", 1, "unknown field 'surprise'"),
    (f"{R}/case/cache", "tepid", "cache must be one of"),
    (f"{R}/case/op", ABSENT, r"records\[1\].case.op"),
    (f"{R}/case/shape", {"M": "1"}, "case.shape.M is text"),
    (f"{R}/case/shape", [1], "case.shape is a list"),
    (f"{R}/extra", [], "extra is a list"),
    (f"{R}/extra", {"$float": "NaN"}, "extra is a number"),
    (f"{M}/median_s", "fast", r"records\[1\].measurement.median_s is text, not a number"),
    (f"{M}/median_s", None, "median_s is missing or null"),
    (f"{M}/median_s", BIG, "too large"),
    (f"{M}/sample_count", True, "sample_count is true or false"),
    (f"{M}/samples_s/2", None, r"samples_s\[2\]"),
    (f"{M}/warmup_calls", 2**70, "warmup_calls is 1180591620717411303424, not a whole number"),
    ("profiles/0/profile_hash", ABSENT, r"profiles\[0\].profile_hash"),
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
    (f"{FIRST}/samples_s", [1e-05, "NaN", 1e-05], r"records\[0\]\.measurement\.samples_s\[1\] is nan"),
    (f"{FIRST}/samples_s", [1e-05, 1e-05, -1e-05], r"records\[0\]\.measurement\.samples_s\[2\] is -1e-05"),
    (f"{FIRST}/samples_s", ["Infinity", 1e-05, 1e-05], r"records\[0\]\.measurement\.samples_s\[0\] is inf"),
    (
        f"{FIRST}/samples_s",
        [4.4e-05, 4.4e-05, 1180591620717411303424],
        r"records\[0\]\.measurement\.samples_s\[2\] is 1\.18059e\+21",
    ),
    (f"{FIRST}/sample_count", 4, r"records\[0\]\.measurement\.sample_count is 4, but samples_s holds 3"),
    (FIRST, {"sample_count": -1, "samples_s": []}, r"records\[0\]\.measurement\.sample_count is -1"),
    (f"{FIRST}/calls_per_sample", -2, r"records\[0\]\.measurement\.calls_per_sample is -2"),
    (f"{FIRST}/warmup_calls", -1, r"records\[0\]\.measurement\.warmup_calls is -1"),
    (f"{FIRST}/rotation_count", -1, r"records\[0\]\.measurement\.rotation_count is -1"),
    (
        f"{FIRST}/median_s",
        1.0,
        r"records\[0\]\.measurement\.median_s is 1, not between min_s 4.3e-05 and max_s 4.5e-05",
    ),
    (f"{FIRST}/min_s", 4.45e-05, r"records\[0\]\.measurement\.median_s is 4.4e-05, not between"),
    (
        FIRST,
        {"ci_low_s": 0.0002, "ci_high_s": 1e-05},
        r"records\[0\]\.measurement\.ci_low_s is 0.0002, above ci_high_s 1e-05",
    ),
    (f"{FIRST}/ci_low_s", -1.0, r"records\[0\]\.measurement\.ci_low_s is -1"),
    (FIRST, {"q1_s": 4.5e-05, "q3_s": 1e-09}, r"records\[0\]\.measurement\.q1_s is 4.5e-05, above q3_s 1e-09"),
    (f"{FIRST}/q1_s", -5.0, r"records\[0\]\.measurement\.q1_s is -5"),
    (f"{FIRST}/q3_s", 5.0, r"records\[0\]\.measurement\.q3_s is 5, above max_s 4.5e-05"),
    (f"{FIRST}/std_s", -1.0, r"records\[0\]\.measurement\.std_s is -1"),
    (f"{FIRST}/std_s", "NaN", r"records\[0\]\.measurement\.std_s is nan"),
    (f"{FIRST}/std_s", 0.0001, r"records\[0\]\.measurement\.std_s is 0.0001, more than max_s − min_s"),
    (
        f"{FIRST}/mean_s",
        100000.0,
        r"records\[0\]\.measurement\.mean_s is 100000, not between min_s 4.3e-05 and max_s 4.5e-05",
    ),
    (f"{FIRST}/first_call_s", -3.0, r"records\[0\]\.measurement\.first_call_s is -3"),
    (f"{FIRST}/wall_s", "Infinity", r"records\[0\]\.measurement\.wall_s is inf"),
    (f"{FIRST}/sm_clock_hz", -1.0, r"records\[0\]\.measurement\.sm_clock_hz is -1"),
    (f"{FIRST}/sm_clock_hz", 0.0, r"records\[0\]\.measurement\.sm_clock_hz is 0"),
    (f"{FIRST}/max_error", "Infinity", r"records\[0\]\.measurement\.max_error is inf"),
    (f"{FIRST}/temperature_c", "NaN", r"records\[0\]\.measurement\.temperature_c is nan"),
    (
        f"{FIRST}/samples_s",
        [0.0005, 0.0005, 0.0005],
        r"records\[0\]\.measurement\.median_s is 4.4e-05, not between the samples 0.0005 and 0.0005",
    ),
    (FIRST, {"max_s": 1e200, "samples_s": []}, r"records\[0\]\.measurement\.max_s is 1e\+200"),
    (
        f"{FIRST}/calls_per_sample",
        9223372036854775808,
        r"records\[0\]\.measurement\.calls_per_sample is 9223372036854775808, not a whole number from 0 to",
    ),
    (
        f"{FIRST}/warmup_calls",
        1000000000000000000000000000000,
        r"records\[0\]\.measurement\.warmup_calls is 1000000000000000000000000000000, not",
    ),
    *(
        (f"{M}/{name}", value, rf"records\[1\]\.measurement\.{name} is ")
        for name in ("median_s", "min_s", "max_s", "mean_s")
        for value in ("NaN", "Infinity", "-Infinity", -1e-6, 0)
    ),
    *((f"{R}/case/shape/N", size, rf"case\.shape\.N is {size}, not a whole number from 1") for size in (0, -5)),
    *(
        (f"{PREDICTED}/{name}", value, rf"records\[1\]\.predictions\[0\]\.{name} is ")
        for name in ("time_s", "flops", "read_bytes", "write_bytes", "low_s", "memory_time_s")
        for value in (-1, "NaN", "Infinity")
    ),
    (PREDICTED, {"low_s": 2e-5, "high_s": 1e-5}, r"predictions\[0\]\.low_s is 2e-05, above high_s 1e-05"),
    *((f"{PREDICTED}/findings", findings, "findings is ") for findings in (3, [3], "text", None, ["a sentence"])),
    *(
        ("profiles/0/profile/bandwidth/value", value, r"profiles\[0\]\.profile\.bandwidth\.value is ")
        for value in ("x", -1, BIG, None, {"$float": "NaN"})
    ),
    *(("schema_version", version, "schema_version") for version in (BIG, -BIG, "x" * 500)),
    *((f"{R}/record_id", text, r"records\[1\].record_id is .*, not 32 digits") for text in ("x" * 3000, "A" * 32)),
    *((place, "abc", f"{place[:3]}.*id is .*") for place in ("run/run_id", f"{R}/run_id")),
    ("run/started_at", "yesterday", "run.started_at is 'yesterday', not a date"),
    ("run/started_at", "", "run.started_at is ''"),
    ("run/started_at", "0001-01-01T00:00:00+05:00", r"run\.started_at.*'0001-01-01T00:00:00\+05:00'"),
    ("run/started_at", LATER, "not a time that has come"),
    ("run/finished_at", "2026-13-01T00:00:00", "run.finished_at"),
    (f"{R}/created_at", "1/2/2026", r"records\[1\].created_at is '1/2/2026'"),
    (f"{R}/process/started_at", "x", r"records\[1\].process.started_at"),
    (f"{R}/process/started_at", LATER, "not a time that has come"),
    (f"{R}/process/ordinal", -1, r"records\[1\].process.ordinal is -1"),
    (f"{R}/case/cach", "warm", r"records\[1\].case has an unknown field 'cach'"),
    *(
        ("run/label", label, f"{label!r} cannot label a run, it already means")
        for label in ("latest~1", "BASELINE", "baseline:7", "branch:main")
    ),
    ("run/label", "a,b", "label .*holds a comma"),
    ("run/label", "x" * 201, "label .*201 characters long, not 200 or fewer"),
    ("run/label", " ", "label .*is blank"),
]


def put(document: Any, place: str, value: Any) -> None:
    """Set a value of a document, or take it out; of a measurement or a prediction the fields that are given."""
    *steps, last = [int(step) if step.isdecimal() else step for step in place.split("/")]
    for step in steps:
        document = document[step]
    if value is ABSENT:
        del document[last]
    elif place in (FIRST, PREDICTED):
        document[last].update(value)
    else:
        document[last] = value


@pytest.mark.parametrize(
    ("place", "value", "match"), WRONG, ids=[f"{wrong[0]}-{number}" for number, wrong in enumerate(WRONG)]
)
def test_what_no_machine_says(document: dict[str, Any], refuse: Refuse, place: str, value: Any, match: str) -> None:
    put(document, place, value)
    refuse(document, match)


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


NUMBERS = [f"{A}/busy_s", f"{A}/latency_s", "run/environment/facts/clock_hz", f"{R}/method/settings/min_sample_s"]
NUMBERS += [f"{R}/extra/issue_s", f"{R}/extra/held_bytes"]


@pytest.mark.parametrize("junk", [*JUNK, "1e300"])
def test_no_field_takes_junk(document: dict[str, Any], bring: Bring, there: ResultStore, junk: str) -> None:
    places = leaves(document, (str,)) if junk in JUNK else [*leaves(document, (int, float)), *NUMBERS]
    assert len(places) > 60
    taken = []
    for place in places:
        changed = copy.deepcopy(document)
        put(changed, place, JUNK.get(junk, 1e300))
        with contextlib.suppress(StoreError):
            bring(changed, there)
            taken.append(place)
    # A command may be quoted over several lines, but takes no other control character.
    assert taken == []
    assert there.runs() == []


@pytest.mark.parametrize(
    ("table", "column", "value", "words"),
    [
        ("run", "label", "a\x1b[2Jb", ""),
        ("record", "test_id", "a\nb", ""),
        ("noise_floor", "method_hash", "a\tb", ""),
        ("canary", "kernel", "\u202ex", ""),
        ("prediction", "bound", "x" * 500, ""),
        ("measurement", "ci_low_s", 2e-4, "records[1].measurement.ci_low_s is 0.0002, above ci_high_s 4.5e-05"),
        ("run", "started_at", "9999-01-01T00:00:00.000000+00:00", "not a time that has come"),
    ],
)
def test_a_check_of_the_database_asks_what_an_import_asks(
    tmp_path: Path, document: dict[str, Any], bring: Bring, table: str, column: str, value: object, words: str
) -> None:
    path = tmp_path / "checked.db"
    with open_store(path) as store:
        bring(document, store)
        assert check_store(store) == []
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    with open_store(path) as store:
        (problem,) = check_store(store)
    assert (problem.kind, problem.where) == ("value", f"run {document['run']['run_id'][:8]}")
    assert column in problem.what
    assert words in problem.what


def test_a_field_that_may_be_missing_takes_its_default(
    document: dict[str, Any], bring: Bring, empty_store: ResultStore
) -> None:
    for record in document["records"]:
        del record["process"]["role"], record["process"]["end_reason"]
        for name in ("clocks_hz", "effective_sample_count", "outlier_count", "energy", "state", "attribution"):
            del record["measurement"][name]
    assert bring(document).added == 2
    measurement = empty_store.records(document["run"]["run_id"])[1].measurement
    assert measurement is not None
    assert (measurement.clocks_hz, measurement.energy, measurement.state) == ((), None, None)


def test_a_pruned_measurement_keeps_its_count_and_neither_samples_nor_clocks(
    document: dict[str, Any], bring: Bring
) -> None:
    document["records"][0]["measurement"].update(samples_s=[], sample_count=300)
    document["records"][1]["measurement"].update(samples_s=[], clocks_hz=[])
    assert bring(document).added == 2


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


@pytest.mark.parametrize("mark", [("method", "simulated"), ("method", "replay"), ("flags", ["simulated"])])
def test_a_simulated_device_may_take_no_time_but_no_negative_one(
    document: dict[str, Any], bring: Bring, refuse: Refuse, mark: tuple[str, Any]
) -> None:
    record = document["records"][0]
    put(record, {"method": "method/timer", "flags": "measurement/flags"}[mark[0]], mark[1])
    wrong = copy.deepcopy(document)
    wrong["records"][0]["measurement"]["min_s"] = -1.0
    refuse(wrong, "min_s is -1")
    nothing = dict.fromkeys(("median_s", "min_s", "max_s", "mean_s", "q1_s", "q3_s", "std_s"), 0.0)
    record["measurement"].update(nothing, samples_s=[0.0, 0.0, 0.0])
    assert bring(document).added == 2


def test_a_chip_of_another_version_is_kept_as_it_is(
    document: dict[str, Any], bring: Bring, empty_store: ResultStore
) -> None:
    document["profiles"][0]["profile"]["colour"] = "green"
    assert bring(document).added == 2
    profile = empty_store.profile(document["profiles"][0]["profile_hash"])
    assert profile is not None
    assert (profile.profile["colour"], profile.device) == ("green", None)


def test_statistics_of_other_samples_are_counted(document: dict[str, Any], bring: Bring) -> None:
    document["records"][1]["measurement"]["samples_s"] = [4.3e-5, 4.4e-5, 9e-5]
    assert bring(document).inconsistent_count == 1


def test_a_run_has_the_id_that_a_run_has(document: dict[str, Any], refuse: Refuse) -> None:
    for bad in ("latest", "A" * 32 + "'; drop", "a" * 200):
        for holder in (document["run"], *document["records"]):
            holder["run_id"] = bad
        refuse(document, "run.run_id is .*, not 32 digits of 0-9 and a-f")


def test_a_record_and_a_run_stand_in_a_file_once(document: dict[str, Any], refuse: Refuse) -> None:
    refuse({"format": RUNS_FORMAT, "runs": [document, document]}, r"runs\[1\]: run [0-9a-f]{12} .* twice")
    document["records"][1]["record_id"] = document["records"][0]["record_id"]
    refuse(document, r"records\[1\].record_id is that of records\[0\]")


def test_a_changed_copy_is_no_duplicate_without_a_word(
    document: dict[str, Any], bring: Bring, empty_store: ResultStore
) -> None:
    first, again = bring(document), bring(document)
    assert (first.differing_count, again.duplicates, again.differing_count, again.differing_runs) == (0, 2, 0, ())
    before = empty_store.records(document["run"]["run_id"])
    for record in document["records"]:
        for name in ("median_s", "min_s", "max_s", "mean_s", "q1_s", "q3_s", "std_s", "ci_low_s", "ci_high_s"):
            record["measurement"][name] = record["measurement"][name] and 2 * record["measurement"][name]
        record["measurement"]["samples_s"] = [2 * sample_s for sample_s in record["measurement"]["samples_s"]]
    document["run"]["label"] = "another"
    changed = bring(document)
    assert (changed.added, changed.duplicates, changed.differing_count) == (0, 2, 2)
    assert changed.differing_runs == (document["run"]["run_id"],)
    assert empty_store.records(document["run"]["run_id"]) == before
    assert empty_store.runs()[0].label == ""


def test_what_changes_in_later_is_no_difference(document: dict[str, Any], bring: Bring) -> None:
    bring(document)
    document["records"][0]["measurement"].update(samples_s=[], flags=["noisy", "slow-canary"])  # pruned, doubted there
    document["records"][1]["telemetry"] = []
    document["run"].update(status="running", finished_at=None)  # a part of it
    again = bring(document)
    assert (again.duplicates, again.differing_count, again.differing_runs) == (2, 0, ())


def test_times_of_every_offset_sort_like_times(
    document: dict[str, Any], bring: Bring, empty_store: ResultStore
) -> None:
    started = {
        "2026-11-02T03:00:00+05:00": "2026-11-01T22:00:00.000000+00:00",
        "20261030T000000Z": "2026-10-30T00:00:00.000000+00:00",
        "2026-W45-1": "2026-11-02T00:00:00.000000+00:00",
        "2026-11-01T23:00:00": "2026-11-01T23:00:00.000000+00:00",
    }
    for text, in_utc in started.items():
        export = copy.deepcopy(document)
        run_id = uuid.uuid4().hex
        export["run"].update(run_id=run_id, started_at=text, finished_at="2026-11-03T01:00:00+01:00")
        export["records"] = [
            {**export["records"][0], "run_id": run_id, "record_id": uuid.uuid4().hex, "created_at": text}
        ]
        export["records"][0]["process"]["started_at"] = text
        bring(export)
        (record,) = empty_store.records(run_id)
        assert (record.created_at, record.process.started_at) == (in_utc, in_utc)
        assert bring(export).differing_count == 0
    runs = empty_store.runs()
    assert [run.started_at for run in runs] == sorted(started.values(), reverse=True)
    assert {run.finished_at for run in runs} == {"2026-11-03T00:00:00.000000+00:00"}


def test_dates_that_are_near_or_not_said_are_taken(document: dict[str, Any], bring: Bring) -> None:
    document["run"]["started_at"] = (
        datetime.now(UTC) + timedelta(hours=20)
    ).isoformat()  # a clock may be wrong by that
    document["records"][0].update(created_at="")
    document["records"][1].update(created_at="2026-03-01T10:00:01Z")
    assert bring(document, encoding="utf-8-sig").added == 2  # a byte order mark is no damage either


def test_a_copy_under_another_run_id_is_refused(
    document: dict[str, Any], bring: Bring, empty_store: ResultStore
) -> None:
    bring(document)
    original, other = document["run"]["run_id"], uuid.uuid4().hex
    for holder in (document["run"], *document["records"]):
        holder["run_id"] = other
    with pytest.raises(
        StoreError, match=f"already in .* as one of run {original[:12]}.*Nothing was imported"
    ) as caught:
        bring(document)
    assert "\n" not in str(caught.value)
    assert [run.run_id for run in empty_store.runs()] == [original]
