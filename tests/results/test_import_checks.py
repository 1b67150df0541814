"""Numbers and dates that no measurement can have are refused, with their place, and nothing is imported."""

from __future__ import annotations

import copy
import csv
import io
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.export import export_documents, write_csv
from results.load import import_file
from results.records import HardwareProfile, Record, RunInfo
from results.store import open_store
from roofline_model.case import Case
from roofline_model.errors import StoreError


@pytest.fixture
def document(
    make_run: Callable[..., RunInfo], make_record: Callable[..., Record], profile: HardwareProfile
) -> dict[str, Any]:
    run = make_run(status="complete", finished_at="2026-03-01T11:00:00+00:00")
    exported = export_documents(run, [profile], [make_record(run.run_id), make_record(run.run_id)])
    return json.loads(json.dumps(exported))  # type: ignore[no-any-return]


def imported(tmp_path: Path, document: dict[str, Any], encoding: str = "utf-8") -> int:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document), encoding=encoding)
    with open_store(tmp_path / "there.db") as store:
        return import_file(store, path).added


def refuse(tmp_path: Path, document: dict[str, Any], match: str) -> None:
    with pytest.raises(StoreError, match=match) as caught:
        imported(tmp_path, document)
    assert "\n" not in str(caught.value)
    with open_store(tmp_path / "there.db") as store:
        assert store.runs() == []


@pytest.mark.parametrize("field", ["median_s", "min_s", "max_s", "mean_s"])
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", -1e-6, 0])
def test_a_time_no_clock_gives(tmp_path: Path, document: dict[str, Any], field: str, value: object) -> None:
    document["records"][1]["measurement"][field] = value
    refuse(tmp_path, document, rf"records\[1\]\.measurement\.{field} is .*, not a finite time above 0")


@pytest.mark.parametrize("mark", [{"method": "simulated"}, {"method": "replay"}, {"flags": ["simulated"]}])
def test_a_simulated_device_may_take_no_time_but_no_negative_one(
    tmp_path: Path, document: dict[str, Any], mark: dict[str, Any]
) -> None:
    record = document["records"][0]
    if "method" in mark:
        record["method"]["timer"] = mark["method"]
    else:
        record["measurement"]["flags"] = mark["flags"]
    wrong = copy.deepcopy(document)
    wrong["records"][0]["measurement"]["min_s"] = -1.0
    refuse(tmp_path, wrong, r"min_s is -1, not a finite time 0 or more")
    record["measurement"].update(median_s=0.0, min_s=0.0, max_s=0.0, mean_s=0.0, samples_s=[0.0, 0.0, 0.0])
    assert imported(tmp_path, document) == 2


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"samples_s": [1e-5, "NaN", 1e-5]}, r"samples_s\[1\] is nan"),
    ({"samples_s": [1e-5, 1e-5, -1e-5]}, r"samples_s\[2\] is -1e-05"),
    ({"samples_s": ["Infinity", 1e-5, 1e-5]}, r"samples_s\[0\] is inf"),
    ({"sample_count": 4}, r"sample_count is 4, but samples_s holds 3"),
    ({"sample_count": -1, "samples_s": []}, "sample_count is -1, below 0"),
    ({"calls_per_sample": -2}, "calls_per_sample is -2, below 0"),
    ({"warmup_calls": -1}, "warmup_calls is -1"),
    ({"rotation_count": -1}, "rotation_count is -1"),
    ({"median_s": 1.0}, "median_s is 1, not between min_s 4.3e-05 and max_s 4.5e-05"),
    ({"min_s": 4.45e-5}, "median_s is 4.4e-05, not between"),
]


@pytest.mark.parametrize(("changes", "match"), WRONG)
def test_numbers_that_do_not_fit_together(
    tmp_path: Path, document: dict[str, Any], changes: dict[str, Any], match: str
) -> None:
    document["records"][0]["measurement"].update(changes)
    refuse(tmp_path, document, rf"records\[0\]\.measurement\.{match}")


def test_a_pruned_record_keeps_its_count(tmp_path: Path, document: dict[str, Any]) -> None:
    document["records"][0]["measurement"].update(samples_s=[], sample_count=300)
    assert imported(tmp_path, document) == 2


def test_dates_and_the_fields_of_a_case(tmp_path: Path, document: dict[str, Any]) -> None:
    for change, match in (
        (lambda it: it["run"].update(started_at="yesterday"), "run.started_at is 'yesterday', not a date"),
        (lambda it: it["run"].update(started_at=""), "run.started_at is ''"),
        (lambda it: it["run"].update(finished_at="2026-13-01T00:00:00"), "run.finished_at"),
        (lambda it: it["records"][1].update(created_at="1/2/2026"), r"records\[1\].created_at is '1/2/2026'"),
        (lambda it: it["records"][1]["process"].update(started_at="x"), r"records\[1\].process.started_at"),
        (lambda it: it["records"][1]["process"].update(ordinal=-1), r"records\[1\].process.ordinal is -1"),
        (lambda it: it["records"][0]["case"].update(cach="warm"), r"records\[0\].case has an unknown field 'cach'"),
    ):
        changed = copy.deepcopy(document)
        change(changed)
        refuse(tmp_path, changed, match)
    document["records"][0].update(created_at="")  # not said
    document["records"][1].update(created_at="2026-03-01T10:00:01Z")
    assert imported(tmp_path, document) == 2


def test_a_copy_under_another_run_id_is_refused(tmp_path: Path, document: dict[str, Any]) -> None:
    assert imported(tmp_path, document) == 2
    original = document["run"]["run_id"]
    for holder in (document["run"], *document["records"]):
        holder["run_id"] = uuid.uuid4().hex if holder is document["run"] else document["run"]["run_id"]
    with pytest.raises(
        StoreError, match=f"already in .* as one of run {original[:12]}.*Nothing was imported"
    ) as caught:
        imported(tmp_path, document)
    assert "\n" not in str(caught.value)
    with open_store(tmp_path / "there.db") as store:
        assert [run.run_id for run in store.runs()] == [original]


def test_an_imported_label_cannot_mean_another_run(tmp_path: Path, document: dict[str, Any]) -> None:
    document["run"]["label"] = "latest~1"
    refuse(tmp_path, document, "'latest~1' cannot label a run")


def test_a_byte_order_mark_is_no_damage(tmp_path: Path, document: dict[str, Any]) -> None:
    assert imported(tmp_path, document, encoding="utf-8-sig") == 2
    assert (tmp_path / "run.json").read_bytes().startswith(b"\xef\xbb\xbf")


# What a CSV file shows ---------------------------------------------------------------------------------------


def cells(tmp_path: Path, run: RunInfo, record: Record) -> dict[str, str]:
    stream = io.StringIO(newline="")
    with open_store(tmp_path / "csv.db") as store:
        store.begin_run(run)
        store.add_record(record)
        write_csv(store, run.run_id, stream)
    (row,) = csv.DictReader(io.StringIO(stream.getvalue(), newline=""))
    return row


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("a=1", "a=1"),
        ("\t=1", "\\t=1"),
        ("one\r\ntwo", "one\\r\\ntwo"),
        ("\x1b[2J", "\\x1b[2J"),
        ("pay \u202egnp.exe", "pay \\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("größer, “so”", "größer, “so”"),
    ],
)
def test_a_cell_cannot_act_on_its_reader(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record], text: str, shown: str
) -> None:
    run = make_run(label=text)
    assert cells(tmp_path, run, make_record(run.run_id))["run_label"] == shown


def test_what_a_reader_would_compute(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    formats = (("a", "BF16"), ("b", "INT4"), ("c", "FP32"))
    case = Case("gemv", (("M", 1), ("N", 4096), ("K", 2048)), formats, "matmul")
    row = cells(tmp_path, run, make_record(run.run_id, case=case))
    assert (row["M"], row["N"], row["K"]) == ("1", "4096", "2048")
    assert (row["weight_format"], row["activation_format"], row["output_format"]) == ("INT4", "BF16", "FP32")
    assert float(row["achieved_bytes_per_s"]) == pytest.approx((33562624 + 8192) / 4.4e-5)
    assert float(row["achieved_flops_per_s"]) == pytest.approx(33554432 / 4.4e-5)
    assert float(row["roof_ratio"]) == pytest.approx(0.75)
    assert (row["read_bytes"], row["write_bytes"]) == ("33562624", "8192")
    assert row["ideal_error_ratio"] == "-0.25"  # a number, not a formula


def test_what_cannot_be_computed_is_empty(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    case = Case("attention", (("B", 1), ("S", 128)), (("q", "BF16"),), "sdpa")
    row = cells(tmp_path, run, make_record(run.run_id, case=case, measurement=None, status="predicted"))
    empty = ("M", "N", "K", "weight_format", "activation_format", "output_format", "achieved_bytes_per_s")
    assert {row[name] for name in (*empty, "achieved_flops_per_s", "roof_ratio")} == {""}
