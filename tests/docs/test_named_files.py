"""Every Python file that a docstring or a page of the documentation names in backticks is in the repository."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("roofline_model", "bench_cases", "plugin", "results", "reports", "roofline_cli")
SOURCES = (*PACKAGES, "benchmarks", "examples", "scripts", "tests")
FILE_NAME = re.compile(r"`((?:\.\./)*[\w/-]+\.py)`")
FOREIGN = {
    "monitor/power.py",  # zeus
    "flash_attn/cute/interface.py",  # flash-attention
    "flash_attn/cute/flash_fwd_sm100.py",
    "interface.py",
}
"""Files of other projects that are named as sources."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield (where, text) of every docstring of the packages and of every page; decisions name files as they were."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Expr)
                    and isinstance(node.value, ast.Constant)
                    and type(node.value.value) is str
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value.value
    for path in (ROOT / "docs").rglob("*.md"):
        if "decisions" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_every_named_file_exists():
    files = [f"/{path.relative_to(ROOT).as_posix()}" for folder in SOURCES for path in (ROOT / folder).rglob("*.py")]
    files += [f"/{path.name}" for path in ROOT.glob("*.py")]
    named = [(where, match.removeprefix("../")) for where, text in texts() for match in FILE_NAME.findall(text)]
    assert len(named) > 20
    missing = [(where, name) for where, name in named if name not in FOREIGN and not _is_one(name, files)]
    assert not missing


def _is_one(name: str, files: list[str]) -> bool:
    return any(path.endswith(f"/{name}") for path in files)
