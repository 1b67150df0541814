"""What a question finds in many runs, written as JSON, CSV and Parquet; and as a data frame."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from results import load_frame
from results.exchange.exported.export import export_run_json, write_json, write_rows
from results.exchange.exported.flat import COLUMNS, flat_rows
from results.exchange.exported.load import import_file, parse_export, read_export, read_exports
from results.exchange.exported.parquet import column_kind, write_parquet
from results.records.records import HardwareProfile, Measurement, Record, RunInfo
from results.store.query import RecordQuery, find_records, read_lots
from results.store.store import ResultStore, open_store
from results.store.write import AT_ONCE
from roofline_model.core.errors import InvalidValueError, StoreError
from roofline_model.operators.case import Case

GEMM = Case("gemm", (("M", 64), ("N", 4096), ("K", 4096)), (("a", "BF16"), ("b", "INT4")), "tinygemm")


@pytest.fixture
def nights(
    empty_store: ResultStore,
    make_run: Callable[..., RunInfo],
    make_record: Callable[..., Record],
    profile: HardwareProfile,
) -> ResultStore:
    """Three nights with a GEMV and a GEMM each."""
    for day in (1, 2, 3):
        run = make_run(
            run_id=f"{day:032x}",
            started_at=f"2026-03-0{day}T10:00:00.000000+00:00",
            label=f"night {day}",
            status="complete",
        )
        records = [make_record(run.run_id), make_record(run.run_id, case=GEMM, reason=f"day {day}")]
        empty_store.add_run(run, [profile], records)
    return empty_store


def days(store: ResultStore, **words: object) -> list[tuple[int, int]]:
    """Return (day, records) of what is found."""
    return [(int(run.run.run_id, 16), len(run.record_pks)) for run in find_records(store, RecordQuery(**words))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, [(1, 2), (2, 2), (3, 2)]),
        ({"words": ("gemm",)}, [(1, 1), (2, 1), (3, 1)]),  # `tinygemm` is a kernel of the GEMM; the GEMV's is matmul
        ({"words": ("INT4", "64x4096")}, [(1, 1), (2, 1), (3, 1)]),
        ({"words": ("gemv", "int4")}, []),
        ({"since": "2026-03-02"}, [(2, 2), (3, 2)]),
        ({"until": "2026-03-02"}, [(1, 2), (2, 2)]),  # a day counts whole
        ({"until": "2026-03-02T10:00"}, [(1, 2)]),
        ({"since": "2026-03-02T12:00+02:00", "until": "2026-03-02T12:01+02:00"}, [(2, 2)]),
        ({"since": "2027-01-01"}, []),
        ({"run_id": f"{2:032x}"}, [(2, 2)]),
        ({"run_id": f"{2:032x}", "words": ("gemv",)}, [(2, 1)]),
    ],
)
def test_words_and_times_narrow(nights: ResultStore, words: dict[str, object], expected: list[tuple[int, int]]) -> None:
    assert days(nights, **words) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"since": "tomorrow"}, "--since is 'tomorrow', not a date such as"),
        ({"until": "2026-13-01"}, "--until is '2026-13-01'"),
        ({"until": "9999-12-31"}, "too far"),
        ({"since": "2026-03-02", "until": "2026-03-01"}, "nothing lies between"),
    ],
)
def test_what_is_no_date_is_refused(query: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        RecordQuery(**query)  # type: ignore[arg-type]


def test_one_run_is_the_same_document_however_it_is_written(nights: ResultStore) -> None:
    stream = io.StringIO()
    write_json(nights, find_records(nights, RecordQuery(run_id=f"{2:032x}")), stream, is_part=False)
    assert json.loads(stream.getvalue()) == json.loads(json.dumps(export_run_json(nights, f"{2:032x}")))


def test_several_runs_in_one_file_arrive_and_are_completed_later(nights: ResultStore, tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    with path.open("w", encoding="utf-8") as stream:
        write_json(nights, find_records(nights, RecordQuery(("gemm",), since="2026-03-02")), stream, is_part=True)
    with pytest.raises(StoreError, match="holds 2 runs"):
        read_export(path)
    assert [exported.run.status for exported in read_exports(path)] == [
        "running",
        "running",
    ]  # a part is never a baseline
    whole = tmp_path / "whole.json"
    with whole.open("w", encoding="utf-8") as stream:
        write_json(nights, find_records(nights, RecordQuery()), stream, is_part=False)
    with open_store(tmp_path / "there.db") as there:
        assert import_file(there, path).added == 2
        report = import_file(there, whole)
        assert (report.added, report.duplicates, len(report.run_ids)) == (4, 2, 3)
        assert [run.status for run in there.runs()] == ["complete"] * 3
        for run in nights.runs():
            assert sorted(there.records(run.run_id), key=lambda record: record.record_id) == sorted(
                nights.records(run.run_id), key=lambda record: record.record_id
            )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda export: export.update(runs={}), "runs is missing or not a list"),
        (lambda export: export.update(runs=[]), "runs is empty"),
        (lambda export: export["runs"][1]["records"][0].update(status="fine"), r"runs\[1\]: records\[0\].status"),
        (lambda export: export["runs"][1].update(schema_version=99), "another roofline-bench"),
    ],
)
def test_a_damaged_file_of_runs_changes_nothing(
    nights: ResultStore, tmp_path: Path, change: Callable[[dict[str, object]], None], words: str
) -> None:
    stream = io.StringIO()
    write_json(nights, find_records(nights, RecordQuery()), stream, is_part=False)
    document = json.loads(stream.getvalue())
    change(document)
    path = tmp_path / "runs.json"
    path.write_text(json.dumps(document))
    with open_store(tmp_path / "there.db") as there:
        with pytest.raises(StoreError, match=words):
            import_file(there, path)
        assert there.runs() == []


def test_lots_hold_every_record_once_and_in_order(
    empty_store: ResultStore, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run(status="complete")
    records = [make_record(run.run_id, telemetry=()) for _ in range(AT_ONCE + 3)]
    empty_store.add_run(run, [], records)
    (found_run,) = find_records(empty_store, RecordQuery())
    lots = list(read_lots(empty_store, found_run, with_samples=True))
    assert [len(lot) for lot in lots] == [AT_ONCE, 3]
    assert [record for lot in lots for record in lot] == records
    stream = io.StringIO()
    write_json(empty_store, [found_run], stream, is_part=False)
    assert parse_export(json.loads(stream.getvalue())).records == tuple(records)


def test_a_run_without_records_is_still_that_run(empty_store: ResultStore, make_run: Callable[..., RunInfo]) -> None:
    run = make_run()
    empty_store.begin_run(run)
    (found_run,) = find_records(empty_store, RecordQuery(run_id=run.run_id))
    stream = io.StringIO()
    write_json(empty_store, [found_run], stream, is_part=False)
    assert parse_export(json.loads(stream.getvalue())).run == run


def test_parquet_holds_what_the_csv_does(
    nights: ResultStore, make_record: Callable[..., Record], full_measurement: Measurement, tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    run_id = f"{3:032x}"
    extra = {"model": {"name": "m", "precision": "INT4", "phase": "decode", "method": ""}, "tokens_per_call": 1}
    nights.add_record(make_record(run_id, measurement=full_measurement, extra=extra, reason="half a \ud800 pair\n=1+1"))
    nights.add_record(make_record(run_id, measurement=None, method=None, predictions=(), status="skipped"))
    runs = find_records(nights, RecordQuery())
    assert write_parquet(nights, runs, tmp_path / "x.parquet") == 8
    rows = parquet.read_table(tmp_path / "x.parquet").to_pylist()
    stream = io.StringIO(newline="")
    write_rows(nights, runs, stream)
    written = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert len(rows) == len(written) == 8
    for row, cells in zip(rows, written, strict=True):
        assert tuple(row) == tuple(cells) == COLUMNS
        for name, value in row.items():
            assert (value is None) == (cells[name] == "") or value == "", name
            if isinstance(value, float):
                assert float(cells[name]) == value
    assert rows[-2]["reason"] == "half a ? pair\n=1+1"  # texts are not for a spreadsheet here


def test_every_column_has_the_kind_that_its_name_says(
    make_run: Callable[..., RunInfo], make_record: Callable[..., Record], full_measurement: Measurement
) -> None:
    kinds = {"text": str, "float": (float, int), "int": int, "bool": bool}
    run = make_run()
    numbers = dict.fromkeys(("time_s", "low_s", "high_s", "memory_time_s", "compute_time_s"), 2.0)
    record = make_record(
        run.run_id, measurement=replace(full_measurement, std_s=1e-6, wall_s=1.0, max_error=0.1, tolerance=0.2)
    )
    record = replace(
        record,
        predictions=(
            replace(record.predictions[0], **numbers),
            replace(record.predictions[0], kind="expected", **numbers),
        ),
    )
    interval = {"value": 0.5, "low": 0.25, "high": 0.75}
    extra = {
        "model": {"name": "m", "precision": "INT4", "phase": "decode", "method": "HQQ", "is_emulated": True},
        "tokens_per_call": 1,
        "memory": dict.fromkeys(
            ("original_bytes", "held_bytes", "stated_bytes", "cache_bytes", "peak_bytes", "process_bytes"), 5
        ),
        "quality": {
            "source": "measured",
            "reason": "r",
            "text": "t",
            "is_language": True,
            "tokens_count": 7,
            **dict.fromkeys(
                ("kl_nats_per_token", "top1_agreement_ratio", "perplexity_ratio", "reference_perplexity"), interval
            ),
        },
    }
    (row,) = flat_rows(run, [replace(record, extra=extra)])
    filled = {name: value for name, value in row.items() if value is not None}
    assert len(filled) > 0.75 * len(COLUMNS)
    for name, value in filled.items():
        assert isinstance(value, kinds[column_kind(name)]), (name, value)  # type: ignore[arg-type]
        assert not (isinstance(value, bool) and column_kind(name) != "bool"), name
        assert not isinstance(value, float) or math.isfinite(value)


def test_a_frame_of_a_question(nights: ResultStore, tmp_path: Path) -> None:
    place = tmp_path / "here.db"
    assert list(load_frame(place, columns="all")["run_label"]) == ["night 3"] * 2
    frame = load_frame(place, run=None, case="gemm int4", since="2026-03-02", columns="all")
    assert list(frame["reason"]) == ["day 2", "day 3"]
    assert tuple(frame.columns) == COLUMNS
    assert len(load_frame(place, run=None, case="nothing of this", columns="all")) == 0
