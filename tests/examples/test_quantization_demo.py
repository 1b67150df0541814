"""The demo prints every step with figures; the speed is faked here, everything else is real."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torchao")
pytest.importorskip("transformers")

from pipeline_runs import FakeMeasure, cpu_chip

from bench_cases.pipeline.run import PipelineSeams
from bench_cases.quality.texts.tiny_decoder import TrainingRun

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "quantization_demo.py"


def test_every_step_is_shown_with_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("bench_cases.pipeline.load.host_time", lambda *given: None)
    spec = importlib.util.spec_from_file_location("quantization_demo", DEMO)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    seams = PipelineSeams(FakeMeasure({"INT4": 2.0}), lambda hw, case: cpu_chip())
    training = TrainingRun(steps_count=2, window_elems=16, batch_count=2)
    demo.demo("seeded-llama-1m", tmp_path, training=training, seams=seams)
    said = capsys.readouterr().out
    for title in ("1. Quality, on trained weights", "2. Speed of seeded-llama-1m", "3. Verdict", "4. The saved model"):
        assert title in said
    figures = dict(re.findall(r"(INT\d\s+[-\w]+)\s+KL ([0-9.e-]+)", said))
    kl = {" ".join(name.split()): float(value) for name, value in figures.items()}
    assert set(kl) == {"INT8 round-to-nearest", "INT4 round-to-nearest", "INT4 HQQ"}
    assert 0 < kl["INT8 round-to-nearest"] < kl["INT4 round-to-nearest"]
    assert "[4/4]" in said
    assert "take INT4: measured 2.00×" in said
    assert re.search(r"eight tokens after eight: \[\d+(, \d+){7}\]", said)
    assert (tmp_path / "pipeline" / "report.md").is_file()


@pytest.mark.full
def test_the_demo_runs_as_a_program(tmp_path):
    done = subprocess.run(
        [sys.executable, str(DEMO), str(tmp_path), "--model", "seeded-llama-1m"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "3. Verdict" in done.stdout
