"""The site is built from docs/ without a warning, holds every command, and loads nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import warm_start

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = warm_start.run("mkdocs", "build", "--site-dir", str(folder), cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages <= built
    assert {Path("reference/command_line.html"), Path("development/contributing.html")} <= built


def test_the_command_line_is_that_of_the_code(site: Path) -> None:
    text = (site / "reference" / "command_line.html").read_text(encoding="utf-8")
    assert {"roofline predict gemv", "roofline doctor", "roofline db check"} <= set(
        re.findall(r"roofline [a-z ]+", text)
    )
    options = (site / "reference" / "pytest_options.html").read_text(encoding="utf-8")
    assert "--roofline-require-measured" in options


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]* src=\"([^\"]+)|<link[^>]* href=\"([^\"]+)", text)
        assert [target for pair in loaded for target in pair if "//" in target] == [], path
