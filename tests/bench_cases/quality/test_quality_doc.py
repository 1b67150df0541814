"""docs/theory/quality.md speaks of what there is, and the package loads nothing before it is asked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import bench_cases.quality as quality

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "theory" / "quality.md").read_text(encoding="utf-8")
ELSEWHERE = {"load_model", "apply_quantization", "make_kv_cache", "print"}
TEXTS = {"tiny_text", "synthetic_windows"}
"""What is measured on where no text is given: the page names the source instead."""


def test_every_function_is_documented_and_no_other():
    named = set(re.findall(r"\b([a-z_]+)\(", TEXT)) | set(re.findall(r"`([a-z_]+)`", TEXT))
    functions = {name for name in quality.__all__ if name.islower()}
    assert functions - TEXTS <= named
    assert set(re.findall(r"\b([a-z_]+)\(", TEXT)) <= functions | ELSEWHERE


def test_no_public_name_is_that_of_a_module():
    """Importing the module would put it in the name's place."""
    modules = {path.stem for path in (ROOT / "bench_cases" / "quality").rglob("*.py")}
    assert not modules & set(quality.__all__)


def test_importing_the_package_loads_no_torch():
    code = "import sys, bench_cases.quality; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
