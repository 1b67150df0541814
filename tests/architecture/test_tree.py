"""The tree reads like a table of contents: no drawer called `utils`, test files with names of their own."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "roofline_model",
    "bench_cases",
    "plugin",
    "results",
    "reports",
    "roofline_cli",
    "scripts",
    "tests",
    "benchmarks",
    "examples",
)


def test_no_file_is_called_utils():
    names = [
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.stem in ("utils", "util", "helpers", "misc", "common")
    ]
    assert not names


def test_test_files_have_distinct_names():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    assert not list((ROOT / "tests").rglob("__init__.py")), "a package under tests/ would shadow the one it tests"
