"""`--plot` of `show` and `predict`: fits every width, no escapes into pipes, ASCII where the encoding asks for it,
hostile names.
"""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reports.present import screen
from results import open_store
from results.exchange.exported.load import import_file
from results.records.records import Record, RunInfo
from roofline_cli.main import app
from roofline_model.operators.product import gemm

runner = CliRunner()
RUNS = Path(__file__).parents[3] / "examples" / "runs" / "cpu-amd-epyc-2t"
GEMV = ("predict", "gemv", "-N", "4096", "-K", "4096", "--hw", "gb10", "--plot")
HOSTILE = "\x1b[2J\u202egemm\x9b31m|[red]" + "x" * 100_000


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("plot") / "results.db"
    with open_store(path) as store:
        for name in ("quick.json", "model_quant.json"):
            import_file(store, RUNS / name)
    return str(path)


@pytest.fixture(scope="module")
def hostile(database, tmp_path_factory) -> str:
    """A run in which every name that a stranger may choose is hostile."""
    path = tmp_path_factory.mktemp("hostile") / "results.db"
    with open_store(database) as store:
        info = store.resolve_run("quick")
        lead = next(
            record
            for record in store.records(info.run_id)
            if record.ideal is not None and record.measurement is not None
        )
    with open_store(path) as store:
        run = RunInfo(
            run_id="ab" * 16,
            started_at="2026-11-21T09:00:00.000000+00:00",
            label=HOSTILE[:150],
            command=HOSTILE,
            hardware_key="b10",
        )
        store.begin_run(run)
        for number, kernel in enumerate(("good", HOSTILE)):
            case = replace(
                gemm(1, 64, 64, a="BF16", b="BF16").case("matmul"),
                kernel=kernel,
                op="gemv" if number else HOSTILE[:400],
            )
            store.add_record(
                Record(
                    record_id=f"{number:032x}",
                    run_id=run.run_id,
                    case=case,
                    status="measured",
                    reason=HOSTILE,
                    created_at=run.started_at,
                    method=lead.method,
                    measurement=replace(lead.measurement, flags=(HOSTILE[:200],)),
                    predictions=lead.predictions,
                )
            )
        store.finish_run(run.run_id, status="complete", exit_code=0, finished_at=run.started_at)
    return str(path)


@pytest.fixture(autouse=True)
def piped(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("ROOFLINE_DB", raising=False)


def invoke(*arguments: str, columns: int | None = None) -> str:
    result = runner.invoke(app, list(arguments), env={"COLUMNS": str(columns) if columns else ""})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
def test_predictions_and_their_plot_fit_every_width(columns):
    lines = invoke(*GEMV, columns=columns).splitlines()
    assert max(map(len, lines)) <= columns
    text = " ".join(" ".join(lines).split())
    for part in (
        "FLOP/s",
        "FLOP/byte",
        "A FP16, B FP8 (W8A8), C INT8 (W8A8), D NVFP4 (W4A4), E INT4 (W4A16) (C under B",
        "small letter: ideal, on its roof; capital: expected",
        "dotted: the expected roof of INT4 (W4A16) at this N and K, M from 1 to 16,384",
        "◆ ridge of NVFP4: 475 TFLOP/s from 1,741 FLOP/byte",
    ):
        assert part in text, part
    drawn = "".join(line for line in lines if "┤" in line or "│" in line)
    assert set("ADE◆") <= set(drawn)


@pytest.mark.parametrize(
    ("arguments", "letters"),
    [
        ("gemm -M 512 -N 4096 -K 4096", "A FP16"),
        ("attention --heads 32 --kv-heads 8 --head-dim 128 --kv-len 4096", "A FP16, B FP8 Q+KV"),
        ("ffn --hidden 4096 --ffn-dim 14336 --tokens 64", "A FP16"),
        ("model --model llama-3.1-8b", "A input_norm, B qkv_proj, C rope, D attention"),
    ],
)
def test_every_prediction_can_be_drawn(arguments, letters):
    text = invoke("predict", *arguments.split(), "--hw", "h100", "--plot", columns=80)
    assert letters in " ".join(text.split())
    assert "◆ ridge of" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_model_is_drawn_for_one_pass_only():
    result = runner.invoke(
        app, ["predict", "model", "--model", "llama-3.1-8b", "--batch", "1,8", "--hw", "h100", "--plot"]
    )
    assert result.exit_code == 2
    assert "--plot draws one pass" in result.stderr


def test_a_chip_without_expected_times_says_so():
    assert "no expected time is known" in " ".join(
        invoke("predict", "gemv", "-N", "64", "-K", "64", "--hw", "b10", "--plot").split()
    )


@pytest.mark.parametrize(("run", "columns"), [("quick", 60), ("quick", 120), ("model_quant", 60), ("model_quant", 200)])
def test_a_run_and_its_plot_fit_every_width(database, run, columns):
    lines = invoke("show", run, "--plot", "--db", database, columns=columns).splitlines()
    assert max(map(len, lines)) <= columns
    start = lines.index("Dual roofline of AMD EPYC, 2 threads")
    drawn = "".join(line for line in lines[start:] if "┤" in line or "│" in line)
    assert {"A", "C", "◆"} <= set(drawn)
    assert ("╌" in drawn) == (run == "model_quant")  # the other run has no expected times


def test_the_legend_says_what_a_letter_holds(database):
    lines = invoke("show", "quick", "--plot", "--db", database, columns=120).splitlines()
    row = next(line for line in lines if line.startswith("M  gemv"))
    assert row.split()[:6] == ["M", "gemv", "INT4", "(W4A16)", "cold", "4"]
    assert row.split()[-2:] == ["34", "%"]
    assert next(line for line in lines if line.startswith("G  gemm")).split()[5] == "1/2"  # one of two was measured


def test_some_cases_are_drawn_alone(database):
    text = invoke("show", "quick", "1x1024x1024-w4a16", "--plot", "--db", database, columns=80)
    assert text.count("Dual roofline of") == 1
    drawing = text[text.index("Dual roofline of") :]
    assert "A  gemv      INT4 (W4A16)" in drawing
    assert "B  " not in drawing


@pytest.mark.parametrize("command", [("show", "latest", "--plot", "--json"), (*GEMV, "--json")])
def test_a_plot_is_no_json(database, command):
    more = ("--db", database) if command[0] == "show" else ()
    result = runner.invoke(app, [*command, *more])
    assert result.exit_code == 2
    assert "--plot draws text and --json prints one JSON document" in result.stderr


def test_hostile_names_neither_move_the_cursor_nor_widen_the_plot(hostile):
    for columns in (None, 60):
        text = invoke("show", "latest", "--plot", "--db", hostile, columns=columns)
        assert not {"\x1b", "\x9b", "\u202e", "\x00"} & set(text)
        assert text.replace("\n", "").isprintable()
        drawing = text[text.index("Dual roofline of") :]
        assert len(drawing) < 20_000


def test_a_pipe_in_ascii_gets_an_ascii_plot(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    monkeypatch.setattr(sys, "stdout", stream)
    assert not screen.has_unicode()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert screen.has_unicode()
    for terminal, wanted in (("xterm", True), ("dumb", False), ("linux", False)):
        monkeypatch.setattr(screen, "_is_terminal", lambda: True)
        monkeypatch.setenv("TERM", terminal)
        assert screen.has_unicode() == wanted


def test_colour_is_only_for_terminals_that_want_it(monkeypatch, capsys):
    monkeypatch.setattr(screen, "_is_terminal", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    pieces = [("  ", ""), ("A\x1b", "bold green"), ("  ", "")]
    screen.show_pieces(pieces)
    out = capsys.readouterr().out
    assert "\x1b[1;32mA?" in out
    assert out.endswith("\n")
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            screen.show_pieces(pieces)
        assert capsys.readouterr().out == "  A?\n"


def test_the_sample_in_the_docs_is_what_the_command_draws(pytestconfig):
    text = (pytestconfig.rootpath / "docs" / "reference" / "report.md").read_text(encoding="utf-8")
    sample = text[text.index("$ roofline predict gemv -N 4096 -K 4096 --hw gb10 --plot\n") :]
    sample = sample[sample.index("\n") + 1 : sample.index("\n```")]
    drawn = invoke(*GEMV, columns=80)
    assert sample.splitlines() == drawn[drawn.index("FLOP/s\n") :].rstrip().splitlines()
