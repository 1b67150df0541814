"""What the README prints is true: its Python runs, its paths exist, its old names are importable."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import warm_start

from plugin.terminal.summary import summary_lines
from results.exchange.exported.load import read_export

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_python_of_the_model_runs_as_printed(capsys):
    (block,) = [block for block in blocks("python") if "create_custom_asic(" in block]
    expression, _, promised = next(line for line in block.splitlines() if "predicted_time_us" in line).partition("#")
    scope: dict[str, object] = {}
    exec(block, scope)
    assert eval(expression, scope) == pytest.approx(float(promised), abs=0.05)
    assert capsys.readouterr().out.strip() == "INT8 (PTQ) 2.0x speedup"


def test_old_imports_have_the_new_home():
    for names in re.findall(r"`from roofline_model import ([\w, ]+)`", README):
        module = __import__("roofline_model", fromlist=names.split(", "))
        for name in names.split(", "):
            assert getattr(module, name) is not None


def test_linked_files_exist():
    targets = {target for target in re.findall(r"\]\(([^)#]+)", README) if "://" not in target}
    assert {"docs/reference/measuring.md", "roofline_model/core/cost.py"} <= targets
    assert [target for target in sorted(targets) if not (ROOT / target).exists()] == []


def test_samples_are_filled_in():
    samples = re.findall(r"<!-- sample: (\w+) -->\n```text\n(.*?)```", README, re.DOTALL)
    assert {name for name, _ in samples} == {"gemv", "compare", "model"}
    for name, text in samples:
        assert len(text.splitlines()) >= 5, name


def test_the_sample_of_a_measured_shape_is_what_the_shipped_run_prints():
    sample = re.search(r"<!-- sample: gemv -->\n```text\n(.*?)```", README, re.DOTALL)[1]
    run = read_export(ROOT / "examples/runs/cpu-amd-epyc-2t/calibrated.json")
    assert sample in "".join(f"{line.text}\n" for line in summary_lines(run.records, width=100))


def test_the_sample_of_a_whole_model_is_what_the_command_prints():
    sample = re.search(r"<!-- sample: model -->\n```text\n(.*?)```", README, re.DOTALL)[1]
    command = re.search(r"\$ (roofline predict model .*)", README)[1]
    done = warm_start.run("roofline_cli", *command.split()[1:], cwd=ROOT, env={**os.environ, "COLUMNS": "100"})
    assert [line.rstrip() for line in done.stdout.splitlines()] == sample.splitlines()
