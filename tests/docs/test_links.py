"""Every link of README, CONTRIBUTING, CHANGELOG and every page of docs/ leads to a file that exists, and to a
heading.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(path: Path) -> list[str]:
    targets = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        if ":" in target:
            continue
        file = path if not name else (path.parent / name).resolve()
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            targets.append(target)
    return targets


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


MENTION = re.compile(r"(?<![\w./])docs/(?:how_to|reference|theory|development)/[\w/.-]+?\.md(?:#[\w-]+)?")


def test_pages_named_in_code_and_messages_exist() -> None:
    missing = []
    for folder in ("roofline_model", "bench_cases", "plugin", "results", "reports", "roofline_cli", "scripts"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in (".py", ".toml") or "vendor" in path.parts:
                continue
            for mention in MENTION.findall(path.read_text(encoding="utf-8")):
                name, _, anchor = mention.partition("#")
                page = ROOT / name
                if not page.is_file() or (anchor and anchor not in anchors(page)):
                    missing.append(f"{path.relative_to(ROOT)}: {mention}")
    assert missing == []
