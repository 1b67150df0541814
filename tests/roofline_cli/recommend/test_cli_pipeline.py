"""`roofline pipeline`: what it prints, its exit codes, its progress; the steps behind it are tested with the
pipeline.
"""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from pipeline_runs import FakeMeasure, cpu_chip

from bench_cases.pipeline import run as steps
from bench_cases.pipeline.progress import PipelineEvent, StepClock
from roofline_cli.main import app
from roofline_cli.recommend.pipeline_progress import step_line

runner = CliRunner()
MODEL = "seeded-llama-1m"


def fake(patch: pytest.MonkeyPatch, speedups: dict[str, float]) -> None:
    """Replace pytest and the chip: the clock will show these speed-ups."""
    patch.setattr("bench_cases.pipeline.load.host_time", lambda *given: None)
    seams = steps.PipelineSeams(FakeMeasure(speedups), lambda hw, case: cpu_chip())
    patch.setattr(steps, "PipelineSeams", lambda: seams)


def run(folder, *options: str):
    common = ("--model", MODEL, "-o", str(folder), "--formats", "INT4,INT8", "--db", str(folder.parent / "none.db"))
    return runner.invoke(app, ["pipeline", *common, *options])


@pytest.fixture
def measured(monkeypatch):
    return lambda speedups: fake(monkeypatch, speedups)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A pipeline with a winner, its folder, and what was printed on 120 columns."""
    folder = tmp_path_factory.mktemp("cli") / "out"
    with pytest.MonkeyPatch.context() as patch:
        fake(patch, {"INT4": 2.0, "INT8": 0.7})
        patch.setenv("COLUMNS", "120")
        return folder, run(folder)


def test_a_winner_is_told_with_its_prediction_loss_and_place(finished):
    folder, result = finished
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == "SEEDED-LLAMA-1M ON TEST-CPU"
    assert any(line.startswith("INT4 ") and "2.00× [" in line and line.endswith("recommended") for line in lines)
    assert any(line.startswith("INT8 ") and line.endswith("slower") for line in lines)
    text = " ".join(result.stdout.split())
    assert "Take INT4 (W4A16): measured 2.00×" in text
    assert "the clock says 2.00×" in text
    assert "1,016 tokens of a text" in text
    assert "no HTML report: " in text  # the fake stored no run
    assert str(folder / "report.md") in text
    assert "[4/4] " in result.stderr
    assert "[3/4] measuring INT" in result.stderr
    assert "left)" in result.stderr


@pytest.mark.parametrize("columns", ["80", "120"])
def test_no_line_is_wider_than_the_screen(finished, monkeypatch, columns):
    folder, _ = finished
    monkeypatch.setenv("COLUMNS", columns)
    result = run(folder)
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines() if str(folder) not in line]
    assert max(map(len, lines)) <= int(columns)


def test_nothing_helps_is_an_answer_and_a_budget_that_nothing_keeps_is_exit_code_1(measured, tmp_path):
    measured({"INT4": 0.8, "INT8": 0.7})
    result = run(tmp_path / "a")
    assert result.exit_code == 0
    assert "Nothing helps: keep BF16; nearest is INT4 (W4A16), measured 0.80×" in result.stdout
    assert not (tmp_path / "a" / "model").exists()
    none = run(tmp_path / "b", "--max-latency-ms", "5")
    assert none.exit_code == 1
    assert "Nothing keeps the limits; nearest: " in none.stdout
    assert "more than the limit of 5 ms" in none.stdout


def test_json_is_the_report_and_nothing_else_on_stdout(finished):
    folder, _ = finished
    result = run(folder, "--json")
    document = json.loads(result.stdout)
    stored = json.loads((folder / "report.json").read_text())
    assert {name: document[name] for name in stored} == stored
    assert document["recommendation"] == "INT4"
    assert document["folder"] == str(folder)
    assert result.stderr.count("(from an earlier run)") == 5


def test_errors_are_one_line(measured, tmp_path):
    measured({})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    for folder, options, message in (
        (tmp_path / "other", (), "it is not a pipeline's folder"),
        (tmp_path / "new", ("--text", "/no/such"), "is not a file"),
        (tmp_path / "new", ("--method", "GPTQ"), "unknown method"),
        (tmp_path / "new", ("--context", "100000"), "512"),
    ):
        result = run(folder, *options)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        last = result.stderr.splitlines()[-1]
        assert last.startswith("error: ")
        assert message in last
        assert "Traceback" not in result.stderr


def test_a_busy_machine_ends_it_before_anything_is_loaded(measured, tmp_path, others_use):
    measured({"INT4": 2.0})
    others_use(0.7)
    result = run(tmp_path / "out")
    assert (result.exit_code, result.stderr.count("\n"), (tmp_path / "out").exists()) == (5, 1, False)


def test_what_one_process_cannot_find_is_said_before_it_measures(measured, finished, tmp_path):
    measured({"INT4": 2.0, "INT8": 0.7})
    alone, three = run(tmp_path / "one", "--processes", "1").stderr, finished[1].stderr
    assert [("no candidate can be found faster" in text.partition("[1/4]")[0]) for text in (alone, three)] == [
        True,
        False,
    ]


def test_progress_is_a_line_per_event_with_the_time_left():
    events: list[PipelineEvent] = []
    now = [0.0]
    clock = StepClock(events.append, lambda: now[0])
    clock.plan(["load", "measure", "measure", "save"], {"measure": 60.0, "save": 10.0})
    clock.begin("loading")
    now[0] += 5
    clock.end("7 B parameters")
    clock.begin("measuring\x1b[2J INT4")
    now[0] += 300
    assert clock.end("done") == 300
    clock.reuse("INT8", 200.0)
    lines = [step_line(event) for event in events]
    assert lines[0] == "[1/4] loading …"  # nothing to go by yet
    assert lines[1] == "[1/4] 7 B parameters"
    assert lines[2] == "[3/4] measuring?[2J INT4 (1 of 2) … (about 2 min left)"
    assert events[3].remaining_s == 310  # the next candidate as the last one, then saving
    assert lines[4] == "[3/4] INT8 (2 of 2) (from an earlier run)"
    assert events[4].remaining_s == 10
