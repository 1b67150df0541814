"""What stands beside a time far from its ideal one is said once on the command line, and in its JSON."""

from __future__ import annotations

import json
import shlex

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

runner = CliRunner()
QUESTIONS = {
    "product": ("predict gemm -M 8 -N 56 -K 4096 --hw gb10 --formats BF16", "serial-loop"),
    "attention": ("predict attention --heads 8 --head-dim 128 --kv-len 256 --hw gb10 --formats BF16", "split"),
    "block": ("predict ffn --hidden 512 --ffn-dim 1024 --hw h100 --formats BF16", "launch"),
    "pass": ("predict model --model qwen2.5-0.5b --context 256 --hw b200", "launch"),
    "passes": ("predict model --model qwen2.5-0.5b --context 256 --hw b200 --formats BF16,FP8", "launch"),
    "faster than rated": (
        "predict gemm -M 8192 -N 8192 -K 8192 --hw rtx-5090 --formats BF16",
        "expected-below-ideal",
    ),
}


def shown(command: str) -> str:
    done = runner.invoke(app, shlex.split(command), env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_command_line_says_it_once(name: str) -> None:
    command, kind = QUESTIONS[name]
    remark = json.loads(shown(f"{command} --json"))["predictions"][0]["expected"]["beside_ideal"]
    assert remark["values"].get("kind", remark["code"]) == kind
    assert shown(command).count(remark["text"]) == 1


def test_a_time_near_its_ideal_says_nothing() -> None:
    command = "predict gemm -M 512 -N 7168 -K 4096 --hw h100 --formats BF16"
    assert json.loads(shown(f"{command} --json"))["predictions"][0]["expected"]["beside_ideal"] is None
    assert "Note:" not in shown(command)


def test_each_reason_is_said_once_for_all_formats_that_have_it() -> None:
    command = "predict gemm -M 8 -N 56 -K 4096 --hw gb10"
    remarks = [row["expected"]["beside_ideal"] for row in json.loads(shown(f"{command} --json"))["predictions"]]
    kinds = {remark["values"]["kind"] for remark in remarks if remark is not None}
    assert len(kinds) > 1
    assert shown(command).count("Note: ") == len(kinds)
