"""The twelve questions of Get started: each is answered within twelve lines of one command at 80 columns."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from results import open_store
from results.exchange.exported.load import import_file
from roofline_cli.main import app
from roofline_model.core.units import in_prefix

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "examples" / "runs"
LINE_COUNT = 12
QUESTIONS = {
    "Which format should my model take on GB10?": "recommend --model llama-3.1-8b --hw gb10",
    "Does a 70B model fit?": "predict model --model llama-3.1-70b --hw gb10 --formats BF16,FP8,INT4.BF16",
    "How fast is my attention at 32k tokens?": "predict attention --heads 32 --kv-heads 8 --head-dim 128 --kv-len 32768 --hw gb10",
    "Is my kernel slow?": "predict gemm -M 512 -N 7168 -K 4096 --hw h100 --formats BF16 --measured-us 60",
    "What do I gain from a faster chip?": "recommend --model llama-3.1-8b --hw gb10,h100,rtx-5090",
    "How do I measure my machine?": "doctor",
    "Which format do my measurements say to take?": "recommend --stored",
    "How good were the predictions?": "show calibrated",
    "What got worse last night?": "diff monday tuesday",
    "How do I gate a pull request?": "diff monday tuesday --fail-on slower:5%",
    "How do I apply a quantisation?": "recommend --model seeded-llama-156m --hw h100",
    "How do I share the result?": "report --run tuesday -o report.html",
}
"""Question of docs/index.md → the command whose first lines answer it."""
CODES = {"What got worse last night?": 1, "How do I gate a pull request?": 1}
"""Exit codes of the answers that are a verdict."""


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("questions") / "examples.db")
    with open_store(path) as store:
        for name in ("calibrated", "model_quant", "quick"):
            import_file(store, RUNS / "cpu-amd-epyc-2t" / f"{name}.json")
        for name in ("monday", "tuesday"):
            import_file(store, RUNS / "simulated-nights" / f"{name}.json")
    return path


@pytest.fixture
def ask(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Run a command at 80 columns on the example runs, in an empty folder."""
    monkeypatch.setenv("ROOFLINE_DB", database)
    monkeypatch.chdir(tmp_path)

    def run(command: str):
        return CliRunner().invoke(app, shlex.split(command), env={"COLUMNS": "80"})

    return run


def first_lines(done) -> list[str]:
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    return lines[:LINE_COUNT]


def document(ask, question: str):
    return json.loads(ask(f"{QUESTIONS[question]} --json").stdout)


def test_the_questions_are_those_of_the_page() -> None:
    titles = re.findall(r"^## (.*)$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    assert list(QUESTIONS) == [title for title in titles if title.endswith("?")]


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_and_what_to_type_next_stand_in_twelve_lines(question: str, ask) -> None:
    done = ask(QUESTIONS[question])
    assert done.exit_code == CODES.get(question, 0), done.output
    lines = first_lines(done)
    assert len(lines[0]) > 20
    if not question.startswith("How do I share"):
        assert any(line.startswith("Next: ") for line in lines), done.stdout


def test_the_format_of_a_model_is_the_choice_of_the_ranking(ask) -> None:
    question = "Which format should my model take on GB10?"
    assert document(ask, question)["chosen"] == "FP8_E4M3"
    assert first_lines(ask(QUESTIONS[question]))[0].startswith("Take FP8 (W8A8): ")


def test_what_fits_is_said_of_every_format(ask) -> None:
    question = "Does a 70B model fit?"
    fits = [row["memory"]["fits"] for row in document(ask, question)["predictions"]]
    lines = first_lines(ask(QUESTIONS[question]))
    assert fits == [line.split()[-1] == "yes" for line in lines if line.split()[-1] in ("yes", "no")]
    assert len(fits) == 3


def test_a_time_of_ones_own_is_judged_first(ask) -> None:
    question = "Is my kernel slow?"
    verdict = document(ask, question)["own_time"]
    assert verdict["code"] == "own-time-slower"
    assert f"{verdict['values']['speedup_ratio']:.1f}×" in first_lines(ask(QUESTIONS[question]))[0]


@pytest.mark.parametrize("question", ["How fast is my attention at 32k tokens?"])
def test_expected_and_ideal_times_of_a_kernel_stand_in_its_rows(question: str, ask) -> None:
    predictions = document(ask, question)["predictions"]
    text = "\n".join(first_lines(ask(QUESTIONS[question])))
    assert len(predictions) >= 2
    shown = [row for row in predictions if in_prefix(row["expected"]["time_s"], "µ") in text]
    assert len(shown) == min(len(predictions), 5)
    assert all(in_prefix(row["time_s"], "µ") in text for row in shown)


def test_what_is_missing_here_is_counted(ask) -> None:
    done = ask(QUESTIONS["How do I measure my machine?"])
    states = [line.split() for line in first_lines(done)]
    assert first_lines(done)[0].startswith("Nothing is broken")
    assert any("pytest bench_cases -k gemv" in " ".join(words) for words in states)


def test_the_gate_closes_with_its_exit_code(ask) -> None:
    question = "How do I gate a pull request?"
    done = ask(QUESTIONS[question])
    assert done.exit_code == 1
    slower = [case for case in document(ask, question)["cases"] if case["verdict"] == "SLOWER"]
    assert f"{slower[0]['change_ratio'] * 100:+.1f} %" in " ".join(first_lines(done))


def test_the_next_command_quantises_the_chosen_format(ask) -> None:
    question = "How do I apply a quantisation?"
    assert document(ask, question)["chosen"] == "FP8_E4M3"
    lines = first_lines(ask(QUESTIONS[question]))
    assert lines[0].startswith("Take FP8 (W8A8): ")
    assert any(line.startswith("Next: roofline pipeline ") for line in lines)


def test_the_fastest_chip_comes_first(ask) -> None:
    lines = first_lines(ask(QUESTIONS["What do I gain from a faster chip?"]))
    assert [line.split()[0] for line in lines[2:] if line.split()[0] in ("gb10", "h100-sxm", "rtx-5090")] == [
        "h100-sxm",
        "rtx-5090",
        "gb10",
    ]


def test_the_errors_of_a_run_are_medians_of_its_cases(ask) -> None:
    question = "How good were the predictions?"
    cases = document(ask, question)["cases"]
    errors = sorted(abs(case["error_expected_ratio"]) for case in cases if case["error_expected_ratio"] is not None)
    lines = first_lines(ask(QUESTIONS[question]))
    match = re.search(r"by (\d+) % \(median of (\d+) cases\)", " ".join(lines))
    assert match is not None
    assert int(match[2]) == len(errors)
    assert int(match[1]) == pytest.approx(errors[len(errors) // 2] * 100, abs=1)


def test_what_got_worse_is_named_with_its_change(ask) -> None:
    question = "What got worse last night?"
    slower = [case for case in document(ask, question)["cases"] if case["verdict"] == "SLOWER"]
    lines = first_lines(ask(QUESTIONS[question]))
    rows = [line for line in lines if line.startswith("SLOWER")]
    assert [f"{case['change_ratio'] * 100:+.1f} %" for case in slower] == [" ".join(row.split()[-2:]) for row in rows]


def test_the_measured_choices_are_those_of_the_rankings(ask) -> None:
    question = "Which format do my measurements say to take?"
    rankings = document(ask, question)["rankings"]
    text = " ".join(first_lines(ask(QUESTIONS[question])))
    narrower = [
        [row for row in ranking["rows"] if row["kernel"] is not None and row["loss"]["source"] != "reference"]
        for ranking in rankings
    ]
    paying_count = sum(row["role"] == "take" for rows in narrower for row in rows)
    compared_count = sum(map(bool, narrower))
    of_all = "" if compared_count == len(rankings) else " with one to compare"
    assert text.startswith(f"A narrower format pays in {paying_count} of {compared_count} stored cases{of_all},")


def test_the_report_is_written(ask, tmp_path: Path) -> None:
    done = ask(QUESTIONS["How do I share the result?"])
    assert (tmp_path / "report.html").stat().st_size > 1000
    assert "report.html" in "".join(first_lines(done))
