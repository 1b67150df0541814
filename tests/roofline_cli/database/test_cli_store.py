"""`roofline runs | show | export | import | report` on a database with one measured run."""

from __future__ import annotations

import csv
import io
import json

import pytest
from run_makers import flat_measurement
from typer.testing import CliRunner

from results import open_store
from results.records.records import (
    EnvironmentInfo,
    HardwareProfile,
    PredictionRecord,
    Record,
    RunInfo,
)
from roofline_cli.main import app
from roofline_model.chips.hardware import get_hardware
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import gemm

runner = CliRunner()
RUN_ID = "0190" + "ab" * 14
NASTY = "tuesday [red] <b>"


def record(
    number: int, weight: str, activation: str, kernel: str, median_s: float | None, status: str, reason: str = ""
) -> Record:
    work, chip = gemm(1, 4096, 4096, a=activation, b=weight), get_hardware("b10")
    stored = PredictionRecord.from_prediction(predict(work, chip), chip.content_hash, median_s)
    return Record(
        record_id=f"{number:032x}",
        run_id=RUN_ID,
        case=work.case(kernel),
        status=status,
        reason=reason,
        created_at="2026-11-21T09:00:01.000000+00:00",
        measurement=None if median_s is None else flat_measurement(median_s, half_width=0.01),
        predictions=(stored,),
    )


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    monkeypatch.chdir(tmp_path)
    chip = get_hardware("b10")
    facts = {"host": "lab", "device": "B10", "cpu": "CPU", "torch": "2.13.0"}
    with open_store(tmp_path / "r.db") as store:
        store.begin_run(
            RunInfo(
                run_id=RUN_ID,
                started_at="2026-11-21T09:00:00.000000+00:00",
                label=NASTY,
                hardware_key="b10",
                git_commit="c0ffee" + "0" * 34,
                git_is_dirty=True,
                environment=EnvironmentInfo(facts, {"device": "B10"}),
            )
        )
        store.add_profile(HardwareProfile(chip.key, chip.name, chip.content_hash, chip.to_dict()))
        store.add_record(record(1, "FP16", "FP16", "matmul", 40e-6, "measured"))
        store.add_record(record(2, "INT4", "BF16", "tinygemm", 16e-6, "measured"))
        store.add_record(record(3, "INT8", "INT8", "int_mm", None, "skipped", "M must exceed 16\x1b[2J"))
        store.finish_run(RUN_ID, status="complete", exit_code=0, finished_at="2026-11-21T09:00:09.000000+00:00")
    return str(tmp_path / "r.db")


def invoke(*arguments: str):
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_runs_lists_what_is_there_without_obeying_labels(database):
    text = invoke("runs", "--db", database)
    assert RUN_ID[:8] in text
    assert "2026-11-21 09:00" in text
    assert "c0ffee000+" in text  # short commit, + for a working tree with changes
    assert "[red]" in text
    assert "\x1b" not in text
    data = json.loads(invoke("runs", "--db", database, "--json"))
    assert data["runs"][0]["run_id"] == RUN_ID
    assert data["runs"][0]["label"] == NASTY
    assert data["runs"][0]["exit_code"] == 0


@pytest.mark.parametrize("name", ["latest", RUN_ID[:6], RUN_ID])
def test_show_prints_measured_beside_predicted(database, name):
    lines = invoke("show", name, "--all", "--db", database).splitlines()
    fp16 = next(line for line in lines if line.startswith("FP16 ")).split()
    # predicted 33.57 µs, measured 40 µs: (33.57 − 40) / 40 = −16.1 %; 33.57 MB in 40 µs = 839 GB/s
    assert fp16 == [
        "FP16",
        "matmul",
        "40.00",
        "µs",
        "±1.0",
        "%*",
        "33.57",
        "µs",
        "-16.1",
        "%",
        "84",
        "%",
        "839.3",
        "GB/s",
        "memory",
        "measured",
    ]
    skipped = next(line for line in lines if line.startswith("  skipped: INT8"))
    assert skipped.endswith("· int_mm: M must exceed 16�[2J")


def test_show_json_has_missing_values_as_null(database):
    cases = json.loads(invoke("show", "latest", "--db", database, "--json"))["cases"]
    by_kernel = {case["kernel"]: case for case in cases}
    assert by_kernel["tinygemm"]["measured_s"] == 16e-6
    assert by_kernel["tinygemm"]["error_ideal_ratio"] == pytest.approx((8.4048e-6 - 16e-6) / 16e-6, rel=1e-4)
    assert by_kernel["int_mm"]["measured_s"] is None
    assert by_kernel["int_mm"]["status"] == "skipped"
    assert by_kernel["int_mm"]["power_w"] is None


def test_a_table_fits_80_columns(database, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in (["runs"], ["show", "latest"]):
        assert max(map(len, invoke(*command, "--db", database).splitlines())) <= 80


def test_export_and_import_carry_a_run_exactly(database, tmp_path):
    exported = tmp_path / "run.json"
    assert "run 0190abab written to" in invoke("export", "latest", "--db", database, "-o", str(exported))
    assert json.loads(invoke("export", "latest", "--db", database)) == json.loads(exported.read_text())
    junk = runner.invoke(app, ["import", str(exported), "--db", str(tmp_path / "none.db")])
    assert "records[2].reason" in junk.stderr
    exported.write_text(exported.read_text().replace("\\u001b", "?"))
    other = str(tmp_path / "other.db")
    data = json.loads(invoke("import", str(exported), "--db", other, "--json"))
    counts = {"added_count": 3, "duplicate_count": 0, "differing_count": 0, "differing_run_ids": []}
    counts["inconsistent_count"] = 0
    assert data == {"imported": [{"file": str(exported), "run_ids": [RUN_ID], **counts}]}
    assert "0 records added, 3 already there" in invoke("import", str(exported), "--db", other)
    shown = [invoke("show", "latest", "--db", place, "--json") for place in (other, database)]
    assert shown[0] == shown[1].replace("\\ufffd", "?")


def test_export_csv_has_a_row_per_case(database):
    rows = list(csv.DictReader(io.StringIO(invoke("export", "latest", "--format", "csv", "--db", database))))
    assert len(rows) == 3
    assert {row["kernel"] for row in rows} == {"matmul", "tinygemm", "int_mm"}


def test_report_writes_page_and_plots(database, tmp_path):
    page = tmp_path / "out.html"
    data = json.loads(invoke("report", "--db", database, "-o", str(page), "--json"))
    assert data["run_id"] == RUN_ID
    assert data["html_path"] == str(page)
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    assert all((tmp_path / data[name]).stat().st_size > 1000 for name in ("png_path", "svg_path"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "nothing"], "unknown run 'nothing'"),
        (["export", "nothing"], "unknown run 'nothing'"),
        (["export", "latest", "-o", "absent/run.json"], "cannot be written"),
        (["report", "--run", "nothing"], "unknown run 'nothing'"),
        (["report", "-o", "."], "is a folder"),
        (["report", "-o", "r.db/x/report.html"], "cannot be written"),
        (["import", "absent.json"], "absent.json"),
        (["import", "r.db"], "r.db"),
        (["runs", "--limit", "0"], "--limit"),
    ],
)
def test_bad_input_exits_2_with_one_line(database, arguments, words):
    result = runner.invoke(app, [*arguments, "--db", database])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


@pytest.mark.parametrize("command", [["runs"], ["show", "latest"], ["export", "latest"], ["report"]])
def test_reading_creates_no_database(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    result = runner.invoke(app, command)
    assert result.exit_code == 2
    assert "there is no results database at .roofline/results.db" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_or_a_text_file_is_no_database(tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, long enough to be looked at as one" * 20)
    for target, words in ((tmp_path, "is a folder"), (tmp_path / "notes.txt", "not a SQLite database")):
        result = runner.invoke(app, ["runs", "--db", str(target)])
        assert result.exit_code == 2
        assert words in result.stderr
        assert "--roofline-db" not in result.stderr  # that is pytest's name of the option
