"""`roofline recommend --hw A,B,C`: the choice on each chip is that of the chip alone, the fastest first."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app
from roofline_model.recommend.model import recommend_model

runner = CliRunner()
MODEL = ("--model", "llama-3.1-70b")
SHAPE = ("-M", "1", "-N", "4096", "-K", "4096")


def run(*arguments: str, columns: int = 80):
    return runner.invoke(app, ["recommend", *arguments], env={"COLUMNS": str(columns)})


def test_chips_stand_in_the_order_of_their_times_and_those_without_a_choice_last() -> None:
    result = run(*MODEL, "--hw", "orin,gb10,h100")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    header = next(index for index, line in enumerate(lines) if line.startswith("Chip"))
    assert [line.split()[0] for line in lines[header + 2 : header + 5]] == ["h100-sxm", "gb10", "orin-agx-64gb"]
    ratio = (
        recommend_model("gb10", MODEL[1]).choice.estimate.time_s
        / recommend_model("h100", MODEL[1]).choice.estimate.time_s
    )
    assert lines[0].startswith("h100-sxm is fastest: FP8 (W8A8), expected ")
    assert f"{ratio:.1f}× as fast as gb10." in " ".join(lines[:2])
    assert len(lines) <= 12


@pytest.mark.parametrize("question", [MODEL, SHAPE])
def test_json_holds_the_answer_of_each_chip_alone(question: tuple[str, ...]) -> None:
    document = json.loads(run(*question, "--hw", "gb10,h100", "--json").stdout)
    alone = [json.loads(run(*question, "--hw", chip, "--json").stdout) for chip in ("gb10", "h100")]
    assert document["answers"] == [
        {key: value for key, value in each.items() if key != "schema_version"} for each in alone
    ]
    assert document["schema_version"] == alone[0]["schema_version"]


def test_an_ideal_time_is_not_called_faster_than_an_expected_one() -> None:
    text = run(*SHAPE, "--hw", "b10,gb10").stdout
    assert " is fastest" not in text
    assert "(ideal)" in text


def test_nothing_on_any_chip_ends_with_1() -> None:
    result = run(*MODEL, "--hw", "rtx4090,l4")
    assert result.exit_code == 1
    assert result.stdout.startswith("Nothing keeps the limits")


@pytest.mark.parametrize(
    ("chips", "words"), [("gb10,,h100", "empty entry"), (",".join(["gb10"] * 13), "at most 12"), ("gb10,h10", "h100")]
)
def test_bad_lists_are_one_line_and_exit_code_2(chips: str, words: str) -> None:
    result = run(*MODEL, "--hw", chips)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_a_plan_is_written_for_one_chip(tmp_path) -> None:
    result = run(*MODEL, "--hw", "gb10,h100", "-o", str(tmp_path / "plan.json"))
    assert result.exit_code == 2
    assert not (tmp_path / "plan.json").exists()
