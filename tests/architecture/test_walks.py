"""The way from a question to its answer is short: `scripts/checks/count_walks.py` counts the files that it passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def walked(walk: str) -> subprocess.CompletedProcess[str]:
    # A process of its own: what another test has cached or imported would not be passed.
    command = [sys.executable, "scripts/checks/count_walks.py", "--list", walk]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_predicting_a_gemm_passes_few_files():
    done = walked("predict-gemm")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full
def test_a_case_passes_few_files_to_its_report():
    pytest.importorskip("torch")
    done = walked("case-to-report")
    assert done.returncode == 0, done.stdout + done.stderr
