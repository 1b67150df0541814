"""The explorer's files without a browser: texts are never parsed, every import exists."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib import resources

import pytest

FOLDER = resources.files("reports").joinpath("explorer")
SHARED = "../figures/figure.js"
MODULES = [*sorted(entry.name for entry in FOLDER.iterdir() if entry.name.endswith(".js")), SHARED]


def text_of(name: str) -> str:
    place = resources.files("reports").joinpath("figures/static/figure.js") if name == SHARED else FOLDER.joinpath(name)
    return place.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MODULES)
def test_a_module_parses_no_text_as_markup_or_code_and_imports_what_exists(name):
    text = text_of(name)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    imported = re.findall(r'from "(?:\./)?([^"]+)"', text)
    assert set(imported) <= set(MODULES)
    for names, module in re.findall(r'import \{([^}]+)\} from "(?:\./)?([^"]+)"', text):
        for one in names.split(","):
            assert re.search(rf"export (async )?(const|function|class) {one.strip()}\b", text_of(module)), one
    assert text.count("\n") < 400


def test_the_page_loads_its_own_files_only():
    found = []

    class Links(HTMLParser):
        def handle_starttag(self, tag, attrs):
            found.extend(value for key, value in attrs if key in ("src", "href") and value and value[0] != "#")
            assert not [key for key, _ in attrs if key.startswith("on") or key == "style"]

    Links().feed(text_of("index.html"))
    assert [one for one in found if not FOLDER.joinpath("..", one).is_file()] == ["api/openapi.json"]
    assert "default-src 'self'" in text_of("index.html")
