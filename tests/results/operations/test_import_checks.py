"""Numbers and dates that no measurement can have are refused, with their place, and nothing is imported."""

from __future__ import annotations

import copy
import csv
import io
import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from results.exchange.exported.export import RUNS_FORMAT, export_documents, write_csv
from results.exchange.exported.load import import_file, read_export
from results.operations.check import check_store
from results.records.records import HardwareProfile, Record, RunInfo
from results.store.store import open_store
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import StoreError
from roofline_model.operators.case import Case


@pytest.fixture
def document(
    make_run: Callable[..., RunInfo], make_record: Callable[..., Record], profile: HardwareProfile
) -> dict[str, Any]:
    run = make_run(status="complete", finished_at="2026-03-01T11:00:00+00:00")
    exported = export_documents(run, [profile], [make_record(run.run_id), make_record(run.run_id)])
    return json.loads(json.dumps(exported))  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def there(sqlite_with_tables: Path, tmp_path: Path) -> Path:
    """The database to import into, of today's schema and without a row."""
    return Path(shutil.copy(sqlite_with_tables, tmp_path / "there.db"))


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
    refuse(tmp_path, document, rf"records\[1\]\.measurement\.{field} is ")


@pytest.mark.parametrize("size", [0, -5])
def test_a_product_without_extent(tmp_path: Path, document: dict[str, Any], size: int) -> None:
    document["records"][1]["case"]["shape"]["N"] = size
    refuse(tmp_path, document, rf"records\[1\]\.case\.shape\.N is {size}, not a whole number from 1")


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
    refuse(tmp_path, wrong, "min_s is -1")
    nothing = dict.fromkeys(("median_s", "min_s", "max_s", "mean_s", "q1_s", "q3_s", "std_s"), 0.0)
    record["measurement"].update(nothing, samples_s=[0.0, 0.0, 0.0])
    assert imported(tmp_path, document) == 2


@pytest.mark.parametrize("value", [-1, "NaN", "Infinity"])
@pytest.mark.parametrize("field", ["time_s", "flops", "read_bytes", "write_bytes", "low_s", "memory_time_s"])
def test_a_prediction_that_no_model_makes(tmp_path: Path, document: dict[str, Any], field: str, value: object) -> None:
    document["records"][1]["predictions"][0][field] = value
    refuse(tmp_path, document, rf"records\[1\]\.predictions\[0\]\.{field} is ")


def test_an_interval_upside_down(tmp_path: Path, document: dict[str, Any]) -> None:
    document["records"][0]["predictions"][0].update(low_s=2e-5, high_s=1e-5)
    refuse(tmp_path, document, r"predictions\[0\]\.low_s is 2e-05, above high_s 1e-05")


@pytest.mark.parametrize("value", ["x", -1, 10**400, None, {"$float": "NaN"}])
def test_a_chip_that_nobody_built(tmp_path: Path, document: dict[str, Any], value: object) -> None:
    chip = get_hardware("b10").to_dict()
    document["profiles"][0]["profile"] = {**chip, "bandwidth": {**chip["bandwidth"], "value": value}}
    refuse(tmp_path, document, r"profiles\[0\]\.profile\.bandwidth\.value is ")


def test_a_chip_of_another_version_is_kept_as_it_is(tmp_path: Path, document: dict[str, Any]) -> None:
    document["profiles"][0]["profile"] = {**get_hardware("b10").to_dict(), "colour": "green"}
    assert imported(tmp_path, document) == 2
    with open_store(tmp_path / "there.db") as store:
        profile = store.profile(document["profiles"][0]["profile_hash"])
    assert profile is not None
    assert (profile.profile["colour"], profile.device) == ("green", None)


def test_statistics_of_other_samples_are_counted(tmp_path: Path, document: dict[str, Any]) -> None:
    document["records"][1]["measurement"]["samples_s"] = [4.3e-5, 4.4e-5, 9e-5]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    with open_store(tmp_path / "there.db") as store:
        assert import_file(store, path).inconsistent_count == 1


@pytest.mark.parametrize("findings", [3, [3], "text", None, ["a sentence"]])
def test_findings_are_objects(tmp_path: Path, document: dict[str, Any], findings: object) -> None:
    document["records"][1]["predictions"][0]["findings"] = findings
    refuse(tmp_path, document, r"records\[1\]\.predictions\[0\]\.findings is ")


@pytest.mark.parametrize("version", [10**400, -(10**400), "x" * 500])
def test_a_version_of_four_hundred_digits_is_cut(tmp_path: Path, document: dict[str, Any], version: object) -> None:
    document["schema_version"] = version
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    with pytest.raises(StoreError, match="schema_version") as caught:
        read_export(path)
    assert len(str(caught.value)) < 300 + len(str(path))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"samples_s": [1e-5, "NaN", 1e-5]}, r"samples_s\[1\] is nan"),
    ({"samples_s": [1e-5, 1e-5, -1e-5]}, r"samples_s\[2\] is -1e-05"),
    ({"samples_s": ["Infinity", 1e-5, 1e-5]}, r"samples_s\[0\] is inf"),
    ({"samples_s": [4.4e-5, 4.4e-5, 2**70]}, r"samples_s\[2\] is 1\.18059e\+21"),
    ({"sample_count": 4}, r"sample_count is 4, but samples_s holds 3"),
    ({"sample_count": -1, "samples_s": []}, "sample_count is -1"),
    ({"calls_per_sample": -2}, "calls_per_sample is -2"),
    ({"warmup_calls": -1}, "warmup_calls is -1"),
    ({"rotation_count": -1}, "rotation_count is -1"),
    ({"median_s": 1.0}, "median_s is 1, not between min_s 4.3e-05 and max_s 4.5e-05"),
    ({"min_s": 4.45e-5}, "median_s is 4.4e-05, not between"),
    ({"ci_low_s": 2e-4, "ci_high_s": 1e-5}, "ci_low_s is 0.0002, above ci_high_s 1e-05"),
    ({"ci_low_s": -1.0}, "ci_low_s is -1"),
    ({"q1_s": 4.5e-5, "q3_s": 1e-9}, "q1_s is 4.5e-05, above q3_s 1e-09"),
    ({"q1_s": -5.0}, "q1_s is -5"),
    ({"q3_s": 5.0}, "q3_s is 5, above max_s 4.5e-05"),
    ({"std_s": -1.0}, "std_s is -1"),
    ({"std_s": "NaN"}, "std_s is nan"),
    ({"std_s": 1e-4}, "std_s is 0.0001, more than max_s − min_s"),
    ({"mean_s": 1e5}, "mean_s is 100000, not between min_s 4.3e-05 and max_s 4.5e-05"),
    ({"first_call_s": -3.0}, "first_call_s is -3"),
    ({"wall_s": "Infinity"}, "wall_s is inf"),
    ({"sm_clock_hz": -1.0}, "sm_clock_hz is -1"),
    ({"sm_clock_hz": 0.0}, "sm_clock_hz is 0"),
    ({"max_error": "Infinity"}, "max_error is inf"),
    ({"temperature_c": "NaN"}, "temperature_c is nan"),
    ({"samples_s": [5e-4] * 3}, "median_s is 4.4e-05, not between the samples 0.0005 and 0.0005"),
    ({"max_s": 1e200, "samples_s": []}, r"max_s is 1e\+200"),
    ({"calls_per_sample": 2**63}, "calls_per_sample is 9223372036854775808, not a whole number from 0 to"),
    ({"warmup_calls": 10**30}, "warmup_calls is 1000000000000000000000000000000, not"),
]


@pytest.mark.parametrize(("changes", "match"), WRONG)
def test_numbers_that_do_not_fit_together(
    tmp_path: Path, document: dict[str, Any], changes: dict[str, Any], match: str
) -> None:
    document["records"][0]["measurement"].update(changes)
    refuse(tmp_path, document, rf"records\[0\]\.measurement\.{match}")


def test_the_check_of_a_database_knows_the_same_rules(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    good = make_record(run.run_id)
    assert good.measurement is not None
    with open_store(tmp_path / "there.db") as store:
        store.begin_run(run)
        store.add_record(replace(good, measurement=replace(good.measurement, ci_low_s=2e-4, ci_high_s=1e-5)))
        (problem,) = check_store(store)
    assert (problem.kind, problem.where) == ("value", f"run {run.run_id[:8]}")
    assert "records[0].measurement.ci_low_s is 0.0002, above ci_high_s 1e-05" in problem.what


def test_a_run_has_the_id_that_a_run_has(tmp_path: Path, document: dict[str, Any]) -> None:
    for bad in ("latest", "A" * 32 + "'; drop", "a" * 200, "abc"):
        changed = copy.deepcopy(document)
        for holder in (changed["run"], *changed["records"]):
            holder["run_id"] = bad
        refuse(tmp_path, changed, "run.run_id is .*, not 32 digits of 0-9 and a-f")
    document["records"][1]["record_id"] = "x" * 3000
    refuse(tmp_path, document, r"records\[1\].record_id is 'xxx.*', not 32 digits")


def test_two_records_of_one_id_are_no_duplicates(tmp_path: Path, document: dict[str, Any]) -> None:
    document["records"][1]["record_id"] = document["records"][0]["record_id"]
    refuse(tmp_path, document, r"records\[1\].record_id is that of records\[0\]")


def test_a_run_stands_in_a_file_once(tmp_path: Path, document: dict[str, Any]) -> None:
    refuse(tmp_path, {"format": RUNS_FORMAT, "runs": [document, document]}, r"runs\[1\]: run [0-9a-f]{12} .* twice")


def test_a_changed_copy_is_no_duplicate_without_a_word(tmp_path: Path, document: dict[str, Any]) -> None:
    path, target = tmp_path / "run.json", tmp_path / "there.db"
    path.write_text(json.dumps(document))
    with open_store(target) as store:
        first = import_file(store, path)
        again = import_file(store, path)
        assert (first.differing_count, again.duplicates, again.differing_count, again.differing_runs) == (0, 2, 0, ())
        before = store.records(document["run"]["run_id"])
        for record in document["records"]:
            for name in ("median_s", "min_s", "max_s", "mean_s", "q1_s", "q3_s", "std_s"):
                record["measurement"][name] *= 2
            record["measurement"]["samples_s"] = [2 * sample_s for sample_s in record["measurement"]["samples_s"]]
        document["run"]["label"] = "another"
        path.write_text(json.dumps(document))
        changed = import_file(store, path)
        assert (changed.added, changed.duplicates, changed.differing_count) == (0, 2, 2)
        assert changed.differing_runs == (document["run"]["run_id"],)
        assert store.records(document["run"]["run_id"]) == before
        assert store.runs()[0].label == ""


def test_what_changes_in_later_is_no_difference(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    with open_store(tmp_path / "there.db") as store:
        import_file(store, path)
        measured = document["records"][0]["measurement"]
        measured.update(samples_s=[], flags=["noisy", "slow-canary"])  # pruned there, doubted there
        document["records"][1]["telemetry"] = []
        document["run"].update(status="running", finished_at=None)  # a part of it
        path.write_text(json.dumps(document))
        again = import_file(store, path)
    assert (again.duplicates, again.differing_count, again.differing_runs) == (2, 0, ())


def test_times_of_every_offset_sort_like_times(tmp_path: Path, document: dict[str, Any]) -> None:
    started = {
        "2026-11-02T03:00:00+05:00": "2026-11-01T22:00:00.000000+00:00",
        "20261030T000000Z": "2026-10-30T00:00:00.000000+00:00",
        "2026-W45-1": "2026-11-02T00:00:00.000000+00:00",
        "2026-11-01T23:00:00": "2026-11-01T23:00:00.000000+00:00",
    }
    with open_store(tmp_path / "there.db") as store:
        for text in started:
            export = copy.deepcopy(document)
            run_id = uuid.uuid4().hex
            export["run"].update(run_id=run_id, started_at=text, finished_at="2026-11-03T01:00:00+01:00")
            export["records"] = [
                {**export["records"][0], "run_id": run_id, "record_id": uuid.uuid4().hex, "created_at": text}
            ]
            export["records"][0]["process"] = {**export["records"][0]["process"], "started_at": text}
            export["processes"] = [export["records"][0]["process"]]
            path = tmp_path / "run.json"
            path.write_text(json.dumps(export))
            import_file(store, path)
            (record,) = store.records(run_id)
            assert (record.created_at, record.process.started_at) == (started[text], started[text])
            assert import_file(store, path).differing_count == 0
        runs = store.runs()
    assert [run.started_at for run in runs] == sorted(started.values(), reverse=True)
    assert {run.finished_at for run in runs} == {"2026-11-03T00:00:00.000000+00:00"}
    document["run"]["started_at"] = "0001-01-01T00:00:00+05:00"
    with pytest.raises(StoreError, match=r"run\.started_at.*'0001-01-01T00:00:00\+05:00'"):
        imported(tmp_path, document)


def test_a_pruned_record_keeps_its_count(tmp_path: Path, document: dict[str, Any]) -> None:
    document["records"][0]["measurement"].update(samples_s=[], sample_count=300)
    assert imported(tmp_path, document) == 2


def test_a_run_that_has_not_begun_yet_is_refused_and_named_by_the_check(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    soon, later = ((datetime.now(UTC) + timedelta(hours=hours)).isoformat() for hours in (20, 30))
    for when in (later, "9999-01-01T00:00:00+00:00", "9999-12-31T23:59:59"):
        for change in (
            lambda it, when=when: it["run"].update(started_at=when),
            lambda it, when=when: it["records"][0]["process"].update(started_at=when),
        ):
            changed = copy.deepcopy(document)
            change(changed)
            with pytest.raises(StoreError, match="not a time that has come"):
                imported(tmp_path, changed)
    document["run"]["started_at"] = soon
    assert imported(tmp_path, document) == 2
    with open_store(tmp_path / "there.db") as store:
        (run,) = store.runs()
        store.begin_run(replace(run, run_id="f" * 32, started_at="9999-01-01T00:00:00.000000+00:00"))
        assert [problem.where for problem in check_store(store)] == ["run ffffffff"]


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
    for label in ("latest~1", "BASELINE", "baseline:7", "branch:main"):
        document["run"]["label"] = label
        refuse(tmp_path, document, f"{label!r} cannot label a run, it already means")
    for label, words in (
        ("a,b", "holds a comma"),
        ("x" * 201, "201 characters long, not 200 or fewer"),
        (" ", "is blank"),
    ):
        document["run"]["label"] = label
        refuse(tmp_path, document, f"label .*{words}")


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
        ("größer; “so”", "größer; “so”"),
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
    assert row["error_ideal_ratio"] == "-0.25"  # a number, not a formula


def test_what_cannot_be_computed_is_empty(
    tmp_path: Path, make_run: Callable[..., RunInfo], make_record: Callable[..., Record]
) -> None:
    run = make_run()
    case = Case("attention", (("B", 1), ("S", 128)), (("q", "BF16"),), "sdpa")
    row = cells(tmp_path, run, make_record(run.run_id, case=case, measurement=None, status="predicted"))
    empty = ("M", "N", "K", "weight_format", "activation_format", "output_format", "achieved_bytes_per_s")
    assert {row[name] for name in (*empty, "achieved_flops_per_s", "roof_ratio")} == {""}
