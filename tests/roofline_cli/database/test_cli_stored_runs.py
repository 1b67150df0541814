"""`roofline runs`: what each run holds at every width, a new label, and a deletion that never happens by accident."""

from __future__ import annotations

import json
import sqlite3

import pytest
from run_makers import flat_measurement
from typer.testing import CliRunner

from results import open_store
from results.operations.check import check_store
from results.records.records import EnvironmentInfo, PredictionRecord, ProcessInfo, Record, RunInfo
from roofline_cli.main import app
from roofline_model import gemm, predict

runner = CliRunner()
OLD, NEW = "01a0" + "ab" * 14, "02b0" + "cd" * 14


def record(run_id, number, weight, status, process=0):
    work = gemm(1, 4096, 4096, a="BF16", b=weight)
    measured = flat_measurement(2e-5, 1, std_s=None, stop_reason="budget")
    return Record(
        record_id=f"{run_id[:4]}{number:028x}",
        run_id=run_id,
        case=work.case("mine"),
        status=status,
        reason="" if status == "measured" else "no kernel",
        measurement=measured if status == "measured" else None,
        process=ProcessInfo(process),
        predictions=(PredictionRecord.from_prediction(predict(work, "b10"), "h", None),),
    )


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    with open_store(tmp_path / "r.db") as store:
        for run_id, day in ((OLD, 20), (NEW, 21)):
            store.begin_run(
                RunInfo(
                    run_id=run_id,
                    started_at=f"2026-11-{day}T09:00:00.000000+00:00",
                    label="nightly",
                    hardware_key="b10",
                    environment=EnvironmentInfo({"host": "lab"}, {"device": "B10"}),
                )
            )
            store.add_record(record(run_id, 1, "BF16", "measured"))
            store.add_record(record(run_id, 2, "BF16", "measured", process=1))
            store.add_record(record(run_id, 3, "INT4", "skipped"))
            store.add_record(record(run_id, 4, "INT8", "failed"))
            store.finish_run(run_id, status="complete", exit_code=0, finished_at="2026-11-22T09:00:09.000000+00:00")
    return str(tmp_path / "r.db")


def invoke(*arguments, exit_code=0):
    result = runner.invoke(app, ["runs", *arguments])
    assert result.exit_code == exit_code, result.output
    assert result.stderr.count("\n") <= 1
    return result.stdout + result.stderr


def left(database):
    return [run["run_id"] for run in json.loads(invoke("--json", "--db", database))["runs"]]


def test_a_run_says_what_it_holds_a_case_of_two_processes_once(database):
    holds = json.loads(invoke("--json", "--db", database))["runs"][0]["holds"]
    assert holds["cases_by_outcome"] == {"measured": 1, "failed": 1, "skipped": 1}
    assert holds["case_count"] == 3
    assert holds["operators"] == ["gemv"]
    assert sorted(holds["precisions"]) == ["BF16", "INT4 (W4A16)", "INT8 (W8A16)"]
    assert (holds["process_count"], holds["hardware"]) == (2, ["b10"])
    row = next(line for line in invoke("--db", database).splitlines() if line.startswith(NEW[:8]))
    assert "1 failed, 1 skipped" in row


@pytest.mark.parametrize(("width", "shown"), [(60, {"Run", "Cases", "Label"}), (200, {"Operators", "Formats", "Host"})])
def test_the_table_fits_and_keeps_what_tells_runs_apart(database, monkeypatch, width, shown):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = invoke("--db", database).splitlines()
    assert max(map(len, lines)) <= width
    assert shown <= set(lines[0].split())
    assert any(line.startswith("(left out") for line in lines) == (width == 60)


def test_a_label_is_changed_and_nothing_else(database):
    before = json.loads(invoke("--json", "--db", database))["runs"][1]
    assert "'nightly' is now 'the good one'" in invoke("relabel", OLD[:6], "the good one", "--db", database)
    after = json.loads(invoke("--json", "--db", database))["runs"][1]
    assert after == {**before, "label": "the good one"}
    assert "is now no label" in invoke("relabel", "the good one", "", "--db", database)


@pytest.mark.parametrize("label", ["latest", "baseline:3", "a,b", "x" * 201, "  ", "a\x1b[31m"])
def test_a_label_that_would_mean_other_runs_is_refused(database, label):
    invoke("relabel", OLD[:6], label, "--db", database, exit_code=2)
    assert [run["label"] for run in json.loads(invoke("--json", "--db", database))["runs"]] == ["nightly", "nightly"]


def test_without_yes_nothing_goes_and_the_way_to_keep_a_copy_is_said(database):
    result = invoke("delete", OLD[:6], "--db", database, exit_code=2)
    assert "nothing was deleted" in result
    assert f"roofline export {OLD[:12]}" in result
    assert left(database) == [NEW, OLD]


@pytest.mark.parametrize("name", ["latest", "latest~1", "nightly"])
def test_a_name_that_could_be_another_run_tomorrow_deletes_none(database, name):
    invoke("delete", name, "--yes", "--db", database, exit_code=2)
    assert left(database) == [NEW, OLD]


def test_a_deleted_run_is_gone_whole_and_the_other_is_untouched(database):
    other = json.loads(runner.invoke(app, ["export", NEW, "--db", database]).stdout)
    assert "4 records, 2 measured" in invoke("delete", OLD[:6], "--yes", "--db", database)
    assert left(database) == [NEW]
    with open_store(database, create=False, read_only=True) as store:
        assert check_store(store) == []
    with sqlite3.connect(database) as connection:
        counts = {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("record", "measurement", "prediction", "process")
        }
    assert counts == {"record": 4, "measurement": 2, "prediction": 4, "process": 2}
    after = json.loads(runner.invoke(app, ["export", NEW, "--db", database]).stdout)
    assert after == other


def test_an_exported_run_comes_back_whole_after_its_deletion(database, tmp_path):
    file = str(tmp_path / "run.json")
    assert runner.invoke(app, ["export", OLD, "-o", file, "--db", database]).exit_code == 0
    invoke("delete", OLD, "--yes", "--db", database)
    assert runner.invoke(app, ["import", file, "--db", database]).exit_code == 0
    assert left(database) == [NEW, OLD]


def test_a_run_that_may_be_measuring_is_deleted_only_when_that_is_said(database):
    with open_store(database) as store:
        store.begin_run(RunInfo(run_id="03" * 16, started_at="2026-11-22T09:00:00.000000+00:00"))
    assert "--unfinished" in invoke("delete", "0303", "--yes", "--db", database, exit_code=2)
    assert len(left(database)) == 3
    invoke("delete", "0303", "--yes", "--unfinished", "--db", database)
    assert left(database) == [NEW, OLD]


def test_options_before_the_verb_are_no_silent_other_database(database):
    result = invoke("--db", database, "delete", OLD, "--yes", exit_code=2)
    assert "options go behind the command" in result
    assert left(database) == [NEW, OLD]


def test_prune_with_nothing_to_drop_says_so(database):
    result = runner.invoke(app, ["prune", "--older-than", "2y", "--dry-run", "--db", database])
    assert result.exit_code == 0
    assert "nothing to drop: no run before " in result.stdout
    assert "0 B" not in result.stdout
