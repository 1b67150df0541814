"""Links between the theory pages, and from them: the file exists, and so does the heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("theory_*.md"))
README = DOCS.parent / "README.md"


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(path: Path) -> list[str]:
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        if "://" in target:
            continue
        file = path if not name else (path.parent / name).resolve()
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_the_links_of_a_theory_page_lead_somewhere(page: str) -> None:
    assert broken(DOCS / page) == []


def test_the_readme_leads_to_every_theory_page() -> None:
    text = README.read_text(encoding="utf-8")
    assert [page for page in PAGES if f"](docs/{page}" not in text] == []
    assert [target for target in broken(README) if "theory" in target] == []
