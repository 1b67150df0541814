"""`roofline report --format md|json|pdf-ready` and `--figures`: where it goes, what is said, and how it looks in a
terminal.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trained_run import as_trained
from typer.testing import CliRunner

from reports.formats.figure_files import report_figures
from reports.present import screen
from reports.view.views import report_view
from results import open_store
from results.cases.run import stored_profiles
from results.exchange.exported.load import import_file
from roofline_cli.main import app
from roofline_cli.runs.report_view import show_report

runner = CliRunner()
RUNS = Path(__file__).parents[3] / "examples" / "runs" / "cpu-amd-epyc-2t"


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("forms")
    path = folder / "results.db"
    with open_store(path) as store:
        import_file(store, RUNS / "quick.json")
        import_file(store, as_trained(RUNS / "model_quant.json", folder))
    return str(path)


@pytest.fixture(autouse=True)
def piped(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("ROOFLINE_DB", raising=False)


def invoke(*arguments: str) -> str:
    result = runner.invoke(app, ["report", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def view_of(database: str, run: str):
    with open_store(database) as store:
        info = store.resolve_run(run)
        records = store.records(info.run_id, with_samples=False)
        return report_view(info, records, stored_profiles(store, records))


def test_markdown_goes_into_a_pipe_as_it_is(database, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")  # not asked: it is a file's content
    text = invoke("--run", "quick", "--format", "md", "--db", database)
    assert text.startswith("# Roofline report: quick\n")
    assert "| gemm 128x4096x4096 | FP32 | matmul |" in text
    assert max(map(len, text.splitlines())) > 100


def test_json_on_stdout_is_one_document_with_the_numbers_of_show(database):
    data = json.loads(invoke("--run", "quick", "--format", "json", "--db", database))
    shown = json.loads(runner.invoke(app, ["show", "quick", "--json", "--db", database]).stdout)
    (chip,) = data["chips"]
    keys = ("case_key", "measured_s", "ideal_s", "error_ideal_ratio", "interval_within_half_width_ratio")
    assert [[case[key] for key in keys] for case in chip["cases"]] == [
        [case[key] for key in keys] for case in shown["cases"]
    ]
    assert data["run"] == shown["run"]


@pytest.mark.parametrize(
    ("name", "start"), [("md", "# Roofline report: quick"), ("json", "{"), ("pdf-ready", "<!doctype html>")]
)
def test_every_form_can_be_a_file(database, tmp_path, monkeypatch, name, start):
    monkeypatch.setattr("reports.page.html.report_figures", lambda view: [])
    place = tmp_path / "report.out"
    data = json.loads(invoke("--run", "quick", "--format", name, "-o", str(place), "--json", "--db", database))
    assert data["path"] == str(place)
    assert data["format"] == name
    assert place.read_text(encoding="utf-8").startswith(start)
    assert [path.name for path in place.parent.iterdir()] == ["report.out"]


def test_figures_come_beside_any_form(database, tmp_path, monkeypatch):
    drawn = ("errors",)  # tests/reports draw them all
    some = [figure for figure in report_figures(view_of(database, "model_quant")) if figure.name in drawn]
    monkeypatch.setattr("reports.formats.figure_files.report_figures", lambda view: iter(some))
    folder, page = tmp_path / "new" / "figures", tmp_path / "r.md"
    result = invoke(
        "--run", "model_quant", "--format", "md", "-o", str(page), "--figures", str(folder), "--db", database
    )
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(f"{name}.{ending}" for name in drawn for ending in ("png", "svg"))
    assert all(path.stat().st_size > 1000 for path in folder.iterdir())
    assert f"figures: 1, each as PNG and SVG, in {folder}" in result


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "xml"], "--format must be html, md, json or pdf-ready, got 'xml'"),
        (["--format", "md", "--json"], "give the Markdown a file with -o"),
        (["--format", "md", "-o", "."], "is a folder"),
        (["--format", "json", "--figures", __file__], "is not a folder; name another one with --figures"),
        (["--format", "json", "--figures", f"{__file__}/x"], "--figures"),
    ],
)
def test_bad_input_exits_2_with_one_line(database, arguments, words):
    result = runner.invoke(app, ["report", *arguments, "--db", database])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_the_database_is_never_overwritten(database):
    before = Path(database).read_bytes()
    result = runner.invoke(app, ["report", "--format", "md", "-o", database, "--db", database])
    assert result.exit_code == 2
    assert "is the results database" in result.stderr
    assert Path(database).read_bytes() == before


def test_a_picture_to_share_lies_where_it_was_asked_for(database, tmp_path):
    card = tmp_path / "card.png"
    result = runner.invoke(
        app, ["report", "-o", str(tmp_path / "report.html"), "--card", str(card), "--db", database, "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["card_path"] == str(card)
    assert card.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["card.jpg", "card", "nowhere/card.png", "folder.png"])
def test_a_place_that_no_picture_can_go_to_is_one_line(database, tmp_path, name):
    (tmp_path / "folder.png").mkdir()
    page = tmp_path / "report.html"
    result = runner.invoke(app, ["report", "-o", str(page), "--card", str(tmp_path / name), "--db", database])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "--card" in result.stderr
    assert not page.exists()


@pytest.mark.parametrize(
    ("run", "columns"), [("quick", 60), ("quick", 100), ("model_quant", 60), ("model_quant", 80), ("model_quant", 200)]
)
def test_in_a_terminal_it_is_laid_out_for_its_width(database, monkeypatch, capsys, run, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    show_report(view_of(database, run))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    text = "\n".join(lines)
    assert lines[0] == f"ROOFLINE REPORT: {run.upper()}"
    assert "◆" in text  # the roofline is drawn
    assert "Where it ran" in lines
    assert "Samples" not in lines  # a section with nothing but a figure
    joined = " ".join(text.split())
    assert ("Decode: " if run == "quick" else "decode: ") in joined
    assert "Faster, riskier INT4 (W4A16)" in joined


def test_a_terminal_gets_colours_unless_it_declines(database, monkeypatch, capsys):
    view = view_of(database, "model_quant")
    monkeypatch.setattr(screen, "_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    show_report(view)
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    show_report(view)
    assert "\x1b" not in capsys.readouterr().out
