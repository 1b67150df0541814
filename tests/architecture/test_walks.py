"""The way from a question to its answer is short: `scripts/count_walks.py` counts the files that it passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_predicting_a_gemm_passes_few_files():
    # A process of its own: what another test has cached or imported would not be passed.
    command = [sys.executable, "scripts/count_walks.py", "--list", "predict-gemm"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
