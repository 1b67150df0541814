"""How `make test` runs the tests: in several processes, which no test may notice; and one that hangs is named."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "test_a": "def test_short():\n    pass\n",
    "test_b": """
import os
import subprocess
import time

def test_inner_runs_are_nobodys_workers():
    assert not [name for name in os.environ if name.startswith("PYTEST_XDIST_")]
    assert "-n" not in os.environ["PYTEST_ADDOPTS"].split()

def test_hangs():
    time.sleep(60)
""",
}


def test_tests_under_xdist(pytester, monkeypatch):
    """With the options of the Makefile, but one process, so that the order can be seen, and that one asked for by the
    user.
    """
    (options,) = re.findall(
        r"^PYTEST_TESTS := \$\(PY\) -m pytest -n 3 (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(**FILES)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-n 1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "fakes"))  # what the conftest imports
    result = pytester.runpytest_subprocess(*options.split(), "--timeout", "2", "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*Failed: Timeout*", "FAILED test_b.py::test_hangs - Failed: Timeout*"])
    finished = re.findall(r"(?:PASSED|FAILED).* (test_\w)\.py::", result.stdout.str().partition("= FAILURES =")[0])
    assert finished == ["test_b", "test_b", "test_a"]  # the file that starts processes first
