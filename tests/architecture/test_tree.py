"""The tree reads like a table of contents: no drawer called `utils`, few files side by side, distinct test files."""

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
PACKAGES = FOLDERS[:6]
MOST_FILES = 16
"""Python files side by side in a folder, `__init__.py` apart."""


def test_no_folder_has_many_files_side_by_side():
    counts = {
        folder.relative_to(ROOT).as_posix(): len([path for path in folder.glob("*.py") if path.stem != "__init__"])
        for package in (*PACKAGES, "scripts")
        for folder in (ROOT / package, *(path for path in (ROOT / package).rglob("*") if path.is_dir()))
    }
    assert not {folder: count for folder, count in counts.items() if count > MOST_FILES}


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
