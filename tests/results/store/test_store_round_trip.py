"""What goes in comes out: every field of every record type, with values chosen to hurt."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from believable_records import (
    believable_canary,
    believable_floor,
    believable_record,
    believable_run,
    declared,
    named_run,
    own_process,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from results.exchange.exported.export import export_run_json
from results.exchange.exported.load import import_file
from results.records.plain_form import dumps, loads
from results.records.records import HardwareProfile, Measurement, ProcessInfo, Record, RunInfo
from results.records.state_records import CanaryReading, NoiseFloor
from results.store.schema import ESCAPED_TEXT, pack_samples, unpack_samples
from results.store.store import ResultStore, open_store
from roofline_model.core.errors import StoreError
from roofline_model.core.finding import Finding
from roofline_model.operators.case import Case

HOSTILE = [
    "",
    "\x00",
    "a\x00b",
    "\ud800",
    "'; DROP TABLE record; --",
    '"',
    "%s",
    "{}",
    ESCAPED_TEXT,
    "\u202e",
    "NaN",
    "$float",
    "😀\n\r\t",
]
TEXT = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=20))
NAME = TEXT.filter(bool)
FLOATS = st.one_of(
    st.floats(),
    st.sampled_from([5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, 0.1, 1e-5, 2.0**53 + 2]),
)
INTS = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FLOATS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)
CASES = st.builds(
    Case,
    op=NAME,
    shape=st.dictionaries(TEXT, INTS, max_size=4).map(lambda shape: tuple(shape.items())),
    formats=st.dictionaries(TEXT, TEXT, max_size=3).map(lambda formats: tuple(formats.items())),
    kernel=NAME,
    cache=st.sampled_from(["cold", "warm", "none"]),
    mode=NAME,
)


VALUES = TEXT | INTS | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.lists(TEXT).map(tuple)
FINDINGS = st.builds(
    Finding,
    code=NAME,
    subject=TEXT,
    values=st.dictionaries(TEXT, VALUES, max_size=3).map(lambda values: tuple(values.items())),
)


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field of a record type, from its annotation: a new field is tested without anyone thinking of it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if type(None) in arguments:
        return st.none() | strategy(next(argument for argument in arguments if argument is not type(None)))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(strategy(arguments[0]), max_size=3).map(tuple)
    if origin is not None and origin is not Union:
        return st.dictionaries(TEXT, JSON if arguments[1] is Any else strategy(arguments[1]), max_size=3)
    simple = {str: TEXT, int: INTS, float: FLOATS, bool: st.booleans(), Case: CASES, Finding: FINDINGS}
    return simple[hint] if hint in simple else fields_of(hint)


def fields_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: strategy(hints[field.name]) for field in fields(kind) if field.init})


def shown(value: object) -> str:
    """Compare by this: NaN equals itself, and -0.0 is 0.0 (SQLite keeps no sign of zero; they are equal anyway)."""
    return repr(value).replace("-0.0,", "0.0,").replace("-0.0)", "0.0)")


def the_measurement(record: Record) -> Measurement:
    assert record.measurement is not None
    return record.measurement


RUNS = fields_of(RunInfo)
CANARIES = fields_of(CanaryReading)
FLOORS = fields_of(NoiseFloor)
RECORDS = fields_of(Record)
PROFILES = fields_of(HardwareProfile)
# Not shrunk: whole runs shrink for minutes, and the first difference is plain to see.
MANY = settings(
    max_examples=settings.default.max_examples // 2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@MANY
@given(
    run=RUNS,
    records=st.lists(RECORDS, max_size=3),
    profile=PROFILES,
    canaries=st.lists(CANARIES, max_size=2),
    floor=FLOORS,
)
def test_every_field_comes_back(
    store: ResultStore,
    run: RunInfo,
    records: list[Record],
    profile: HardwareProfile,
    canaries: list[CanaryReading],
    floor: NoiseFloor,
) -> None:
    run = named_run(run)
    records = [
        replace(record, run_id=run.run_id, record_id=uuid.uuid4().hex, process=own_process(record))
        for record in records
    ]
    profile = replace(profile, profile_hash=uuid.uuid4().hex)
    store.begin_run(run)
    store.add_profile(profile)
    for record in records:
        store.add_record(record)
    canaries = [replace(reading, kernel=uuid.uuid4().hex) for reading in canaries]
    for reading in canaries:
        store.add_canary(run.run_id, reading)
    floor = replace(floor, class_hash=run.run_id)  # one of its own
    store.add_noise_floors([floor])
    assert shown(store.canaries(run.run_id)) == shown(canaries)
    assert shown(store.noise_floors(run.run_id)) == shown({(floor.case_key, floor.method_hash): floor})
    assert shown(store.resolve_run(run.run_id)) == shown(run)
    for stored, given_record in zip(store.records(run.run_id), records, strict=True):
        assert shown(stored) == shown(given_record)
    assert shown(store.profile(profile.profile_hash)) == shown(profile)


@pytest.fixture(scope="module")
def two_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ResultStore, ResultStore]]:
    folder = tmp_path_factory.mktemp("carry")
    with open_store(folder / "here.db") as here, open_store(folder / "there.db") as there:
        yield here, there


@MANY
@given(
    run=RUNS,
    records=st.lists(RECORDS, max_size=3),
    profile=PROFILES,
    canaries=st.lists(CANARIES, max_size=2),
    floors=st.lists(FLOORS, max_size=2),
)
def test_export_and_import_give_the_same_run(
    two_stores: tuple[ResultStore, ResultStore],
    tmp_path: Path,
    run: RunInfo,
    records: list[Record],
    profile: HardwareProfile,
    canaries: list[CanaryReading],
    floors: list[NoiseFloor],
) -> None:
    here, there = two_stores
    run = declared(believable_run(run))
    canaries = [
        replace(declared(believable_canary(reading)), ordinal=number) for number, reading in enumerate(canaries)
    ]
    run = replace(run, environment=replace(run.environment, class_facts={"of": run.run_id}))
    floors = [declared(believable_floor(floor, run.environment.class_hash)) for floor in floors]
    silent = ProcessInfo(2**40, None, "box", "2026-03-01T10:00:00.000000+00:00", "worker", "killed by SIGKILL")
    profile = replace(declared(profile), profile_hash=uuid.uuid4().hex)
    records = [declared(believable_record(record, run.run_id)) for record in records]
    used = [
        replace(prediction, profile_hash=profile.profile_hash)
        for record in records[:1]
        for prediction in record.predictions
    ]
    records[:1] = [replace(record, predictions=tuple(used)) for record in records[:1]]
    here.add_run(run, [profile], records, processes=[silent], canaries=canaries, noise_floors=floors)
    document = export_run_json(here, run.run_id)
    (tmp_path / "run.json").write_text(json.dumps(document, allow_nan=False), encoding="utf-8")
    report = import_file(there, tmp_path / "run.json")
    assert (report.run_ids, report.added, report.duplicates) == ((run.run_id,), len(records), 0)
    assert shown(there.resolve_run(run.run_id)) == shown(run)
    assert shown(there.records(run.run_id)) == shown(records)
    assert shown(there.profile(profile.profile_hash)) == shown(profile if used else None)
    assert shown(there.canaries(run.run_id)) == shown(canaries)
    assert shown(there.processes(run.run_id)[:1]) == shown([silent])
    of_case = {(floor.case_key, floor.method_hash): floor for floor in floors}
    assert there.noise_floors(run.environment.class_hash) == of_case
    assert json.dumps(export_run_json(there, run.run_id)) == json.dumps(document)


@given(samples=st.lists(st.floats()).map(tuple))
def test_samples_are_kept_bit_for_bit(samples: tuple[float, ...]) -> None:
    blob = pack_samples(samples)
    assert len(blob) == 8 * len(samples)
    assert np.frombuffer(blob, dtype="<f8").tobytes() == np.array(samples, dtype="<f8").tobytes()
    assert pack_samples(unpack_samples(blob)) == blob


@given(value=JSON)
def test_free_form_values_survive_strict_json(value: Any) -> None:
    text = dumps(value)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"bare {name} is not JSON"))
    assert text.isascii()
    assert repr(loads(text)) == repr(value)


@pytest.mark.parametrize("status", ["measured", "predicted", "skipped", "failed"])
def test_every_kind_of_record(
    store: ResultStore, run: RunInfo, make_record: Callable[..., Record], status: str
) -> None:
    full = make_record(run.run_id, status=status)
    bare = make_record(
        run.run_id, status=status, reason="no unit", method=None, measurement=None, predictions=(), telemetry=()
    )
    store.add_record(full)
    store.add_record(bare)
    assert store.records(run.run_id) == [full, bare]


def test_numpy_numbers_become_plain_ones(store: ResultStore, run: RunInfo, make_record: Callable[..., Record]) -> None:
    record = make_record(run.run_id)
    numbers: dict[str, Any] = {"median_s": np.float64(2.5), "mean_s": np.float32(0.5), "sample_count": np.int64(7)}
    measurement = replace(the_measurement(record), **numbers)
    store.add_record(replace(record, measurement=measurement))
    stored = store.records(run.run_id)[0].measurement
    assert stored is not None
    assert (stored.median_s, stored.mean_s, stored.sample_count) == (2.5, 0.5, 7)
    assert type(stored.sample_count) is int


def test_without_samples_only_the_samples_are_missing(
    store: ResultStore, run: RunInfo, make_record: Callable[..., Record]
) -> None:
    record = make_record(run.run_id)
    store.add_record(record)
    stored = store.records(run.run_id, with_samples=False)[0]
    assert stored == replace(record, measurement=replace(the_measurement(record), samples_s=()))


def test_cases_that_differ_in_the_order_of_dimensions_stay_apart(
    store: ResultStore, run: RunInfo, make_record: Callable[..., Record]
) -> None:
    cases = [Case("mine", shape, (), "k") for shape in ((("M", 1), ("N", 2)), (("N", 2), ("M", 1)))]
    assert cases[0].case_key == cases[1].case_key
    for case in cases:
        store.add_record(make_record(run.run_id, case=case))
    assert [record.case for record in store.records(run.run_id)] == cases


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"extra": {"tensor": object()}}, "not JSON serializable"),
        ({"process": None}, None),
        ({"reason": b"bytes"}, "text"),
    ],
)
def test_what_cannot_be_stored_is_one_clear_line_and_leaves_nothing(
    store: ResultStore,
    run: RunInfo,
    make_record: Callable[..., Record],
    changes: dict[str, Any],
    named: str | None,
) -> None:
    record = make_record(run.run_id, **changes)
    with pytest.raises((StoreError, AttributeError)) as caught:
        store.add_record(record)
    assert "\n" not in str(caught.value)
    assert named is None or named in str(caught.value)
    assert store.records(run.run_id) == []
    good = make_record(run.run_id)
    store.add_record(good)  # what was remembered of the failed transaction must not be used
    assert store.records(run.run_id) == [good]


def test_an_integer_beyond_64_bits_is_refused(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(run)
        record = make_record(run.run_id)
        with pytest.raises(StoreError, match="64-bit"):
            store.add_record(replace(record, measurement=replace(the_measurement(record), sample_count=2**63)))
