"""The report of a run whose times are simulated."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from roofline_cli.main import app

RUN = Path(__file__).parents[3] / "examples" / "runs" / "simulated-nights" / "monday.json"


def test_no_option_of_a_simulated_run_is_called_measured(tmp_path):
    database, report = ["--db", str(tmp_path / "runs.db")], tmp_path / "report.md"
    runner = CliRunner()
    assert runner.invoke(app, ["import", str(RUN), *database]).exit_code == 0
    assert runner.invoke(app, ["report", "--format", "md", "-o", str(report), *database]).exit_code == 0
    rows = [line for line in report.read_text().splitlines() if line.startswith("|") and "µs" in line]
    assert any("simulated" in row for row in rows)
    assert not any("| measured |" in row or "measured 0" in row for row in rows)
