"""One idea per file: none grows past 400 lines."""

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
MAX_LINES = 400
EXCEPTIONS: dict[str, str] = {}
"""Path → why this one may be longer."""


def test_files_stay_readable():
    long = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            count = len(path.read_text(encoding="utf-8").splitlines())
            if count >= MAX_LINES:
                long[path.relative_to(ROOT).as_posix()] = count
    assert not {name: count for name, count in long.items() if name not in EXCEPTIONS}, (
        "split by idea, never into `utils`"
    )
    assert not set(EXCEPTIONS) - set(long), "an exception that is no longer needed"


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
