"""`-o -` is stdout, and what a command says goes to stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from results import import_any, open_store
from roofline_cli.main import app
from roofline_cli.shared import stdout_file

FOLDERS = {"demo", "nightly", "pipeline", "pr"}
"""Commands whose -o names a folder."""

RUN = Path(__file__).parents[3] / "examples/runs/cpu-amd-epyc-2t/quick.json"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("stdout") / "r.db"
    with open_store(place) as store:
        import_any(store, RUN)
    return str(place)


def test_a_run_is_exported_to_stdout(database: str) -> None:
    done = CliRunner().invoke(app, ["export", "latest", "--db", database, "-o", "-"])
    assert done.exit_code == 0
    assert "schema_version" in json.loads(done.stdout)
    assert "written to stdout" in done.stderr


@pytest.mark.parametrize("form", ["html", "md", "json", "pdf-ready"])
def test_a_report_is_written_to_stdout(database: str, form: str) -> None:
    done = CliRunner().invoke(app, ["report", "--db", database, "--format", form, "-o", "-"])
    assert done.exit_code == 0, done.stderr
    assert done.stdout
    assert "roofline-" not in done.stderr
    if form == "json":
        json.loads(done.stdout)
    if form == "html":
        assert done.stdout.lstrip().lower().startswith("<!doctype html")


def test_a_plan_and_a_table_are_written_to_stdout() -> None:
    plan = CliRunner().invoke(app, ["recommend", "--model", "llama-3.1-8b", "--hw", "gb10", "-o", "-"])
    assert json.loads(plan.stdout)
    assert "FP8" in plan.stderr
    table = CliRunner().invoke(app, ["tiling", "-M", "64", "-N", "512", "-K", "512", "--hw", "gb10", "-o", "-"])
    assert table.stdout_bytes.startswith(b"\x89PNG")


def test_an_error_leaves_stdout_empty(database: str) -> None:
    done = CliRunner().invoke(app, ["export", "nobody", "--db", database, "-o", "-"])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "unknown run" in done.stderr


def test_a_card_is_written_to_stdout(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["report", "--db", database, "--card", "-"])
    assert done.exit_code == 0, done.stderr
    assert done.stdout_bytes.startswith(b"\x89PNG")
    assert (tmp_path / "report.html").exists()


def test_stdout_holds_one_file(database: str) -> None:
    done = CliRunner().invoke(app, ["report", "--db", database, "-o", "-", "--card", "-"])
    assert done.exit_code == 2
    assert done.stdout_bytes == b""


def leaves(command, path=()):
    """Return every command below this one, by its words."""
    if not hasattr(command, "commands"):
        return {" ".join(path): command}
    return {key: leaf for name, sub in command.commands.items() for key, leaf in leaves(sub, (*path, name)).items()}


def test_every_command_that_writes_a_file_knows_stdout() -> None:
    commands = leaves(typer.main.get_command(app))
    writing = {name for name, leaf in commands.items() if any("-o" in option.opts for option in leaf.params)}
    assert writing - FOLDERS == set(stdout_file._ENDINGS)
