"""Files the commands write and read: a database is never overwritten, a failed write is one line, a pipe is refused at
once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_makers import flat_measurement
from typer.testing import CliRunner

from results import open_store
from results.exchange.files import MAX_JSON_BYTES
from results.records.records import PredictionRecord, Record, RunInfo
from roofline_cli.main import app
from roofline_model.chips.hardware import get_hardware
from roofline_model.ideal.roofline import predict
from roofline_model.operators.product import gemm

runner = CliRunner()
ROOT = Path(__file__).parents[3]
RUN_ID = "0190" + "cd" * 14


def record(number: int, cache: str) -> Record:
    work, chip = gemm(1, 4096, 4096, a="FP16"), get_hardware("b10")
    time_s = 40e-6
    measurement = flat_measurement(time_s, half_width=0.0)
    return Record(
        record_id=f"{number:032x}",
        run_id=RUN_ID,
        case=work.case("a_kernel_of_a_long_name", cache=cache),
        status="measured",
        measurement=measurement,
        predictions=(PredictionRecord.from_prediction(predict(work, chip), chip.content_hash, time_s),),
    )


@pytest.fixture
def database(tmp_path, monkeypatch):
    """A database with one run of two cache states, in the working folder."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "g.db"
    with open_store(path) as store:
        store.begin_run(RunInfo(run_id=RUN_ID, started_at="2026-11-21T09:00:00.000000+00:00", hardware_key="b10"))
        for number, cache in enumerate(("cold", "warm")):
            store.add_record(record(number, cache))
        store.finish_run(RUN_ID, status="complete", exit_code=0, finished_at="2026-11-21T09:00:09.000000+00:00")
    return path


def refused(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("command", [["export", "latest"], ["report"]])
@pytest.mark.parametrize(
    "output", ["g.db", "./g.db", "link.db", "g.db-wal", "g.db-shm", "other.sqlite", "other.sqlite-wal"]
)
def test_a_database_is_never_overwritten(database, command, output):
    Path("link.db").symlink_to("g.db")
    Path("other.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    before = database.read_bytes()
    existed = Path(output).exists()
    assert "it is not overwritten" in refused(*command, "--db", "g.db", "-o", output)
    assert database.read_bytes() == before
    assert Path("other.sqlite").read_bytes().startswith(b"SQLite format 3\0")
    assert Path(output).exists() == existed


def test_plots_do_not_overwrite_a_database_either(database):
    database.rename("page-roofline.png")
    before = Path("page-roofline.png").read_bytes()
    assert "it is not overwritten" in refused("report", "--db", "page-roofline.png", "-o", "page.html")
    assert Path("page-roofline.png").read_bytes() == before
    assert not Path("page.html").exists()


def test_figures_overwrite_neither_a_database_nor_the_report(database, monkeypatch):
    monkeypatch.setattr("reports.formats.figure_files.write_figures", _one_figure)
    Path("figures").mkdir()
    Path("figures/roofline.png").symlink_to("../g.db")
    before = database.read_bytes()
    report = ("report", "--db", "g.db", "--format", "md", "--figures", "figures", "-o")
    assert "it is not overwritten; name another" in refused(*report, "x.md")
    assert database.read_bytes() == before
    Path("figures/roofline.png").unlink()
    assert "is the report itself (-o)" in refused(*report, "figures/roofline.png")
    assert Path("figures/roofline.png").read_text().startswith("# Roofline report")
    assert not list(Path("figures").glob(".roofline-*"))


def _one_figure(view, folder):
    (folder / "roofline.png").write_bytes(b"a picture")
    return [folder / "roofline.png"]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev")
def test_nothing_is_said_into_the_printed_document_and_of_any_other_place_it_is(database):
    for command in (["export", "latest", "--format", "json"], ["report", "--format", "json"]):
        printed, elsewhere = (
            runner.invoke(app, [*command, "--db", "g.db", "-o", place]) for place in ("/dev/stdout", "/dev/zero")
        )
        assert (printed.exit_code, printed.stdout) == (0, "")  # the document went to the real standard output
        assert elsewhere.exit_code == 0
        assert "/dev/zero" in elsewhere.stdout


@pytest.mark.parametrize("command", [["export", "latest"], ["report"]])
def test_a_name_that_is_too_long_is_one_line(database, command):
    message = refused(*command, "-o", "n" * 300 + ".html", "--db", "g.db")
    assert "File name too long" in message
    assert len(message) < 300
    # The page's name is possible here, the longer one of its plot is not.
    if command == ["report"]:
        assert "File name too long" in refused("report", "-o", "n" * 245 + ".html", "--db", "g.db")
    assert [path.name for path in Path().iterdir() if path.name.startswith((".roofline", "n"))] == []


def test_an_output_replaces_a_file_whole_and_keeps_its_permissions(database):
    target = Path("run.json")
    target.write_text("old")
    target.chmod(0o640)
    Path("link.json").symlink_to(target)
    assert runner.invoke(app, ["export", "latest", "--db", "g.db", "-o", "link.json"]).exit_code == 0
    assert target.read_text().startswith("{")
    assert target.stat().st_mode & 0o777 == 0o640
    assert Path("link.json").is_symlink()
    assert not list(Path().glob(".roofline-*"))


def test_a_failed_write_leaves_the_old_file(database, monkeypatch):
    Path("run.json").write_text("old")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert "run.json cannot be written: No space left on device" in refused(
        "export", "latest", "--db", "g.db", "-o", "run.json"
    )
    assert Path("run.json").read_text() == "old"
    assert not list(Path().glob(".roofline-*"))


def test_a_device_is_written_to_directly_but_gets_no_plots(database):
    assert runner.invoke(app, ["export", "latest", "--db", "g.db", "-o", "/dev/null"]).exit_code == 0
    assert "not a regular file" in refused("report", "--db", "g.db", "-o", "/dev/null")
    # A link to a file of the shell's: there is no place for plots beside it.
    assert "not a regular file" in refused("report", "--db", "g.db", "-o", "/dev/stdout")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["hardware", "list"], ["--help"], ["formats", "--json"]])
def test_a_full_stdout_is_one_line(arguments):
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "roofline_cli", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    why = "No space left on device; make room there, or send it elsewhere"
    assert result.stderr == f"error: the output cannot be written: {why}\n"
    assert result.returncode == 2


def test_only_regular_files_are_imported(database, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "rows.csv").write_text("run_id,kernel\n")
    for name, words in (
        ("pipe", "is not a regular file"),
        ("/dev/zero", "is not a regular file"),
        (".", "is a folder"),
        ("absent.json", "No such file"),
        ("rows.csv", "CSV cannot be imported"),
        ("n" * 300, "File name too long"),
    ):
        message = refused("import", name, "--db", "new.db")
        assert words in message
        assert "export" in message
        assert "--format json" in message
    assert not Path("new.db").exists()  # refused before a database is created


def test_a_file_too_large_for_memory_is_refused_unread(database, tmp_path):
    with open(tmp_path / "huge.json", "wb") as file:
        file.truncate(MAX_JSON_BYTES + 1)  # sparse: takes no space
    assert "more than an import reads (1 GB)" in refused("import", "huge.json", "--db", "g.db")


@pytest.mark.parametrize("width", ["60", "80"])
def test_two_cache_states_are_told_apart_on_a_narrow_screen(database, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    text = runner.invoke(app, ["show", "latest", "--all", "--db", "g.db"]).stdout
    lines = text.splitlines()
    rows = [line for line in lines if line.startswith(("gemv 1", "gemm 1", "FP16 "))]
    titles = [line.partition(", ")[2] for line in rows if not line.startswith("FP16 ")]
    assert titles == ["cold", "hot (warm)"]  # a table each: what is not compared does not stand side by side
    assert [line.startswith("FP16 ") for line in rows] == [False, True, False, True]
    assert "Status" in next(line for line in lines if line.startswith("(left out at this width"))
