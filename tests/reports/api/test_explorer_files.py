"""The explorer's files without a browser: texts are never parsed, every import exists."""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from importlib import resources

import pytest

from reports.api.http.explorer_files import FOLDERS
from reports.figures.drawing.palette import PAGE_COLOURS, all_colours, theme_css

FOLDER = resources.files("reports").joinpath("explorer")
SHARED = "../figures/figure.js"
MODULES = [*sorted(entry.name for entry in FOLDER.iterdir() if entry.name.endswith(".js")), SHARED]


def text_of(name: str) -> str:
    place = resources.files("reports").joinpath("figures/static/figure.js") if name == SHARED else FOLDER.joinpath(name)
    return place.read_text(encoding="utf-8")


def place_of(path: str):
    """Return the file of a path of the page."""
    return resources.files("reports").joinpath(path.replace("figures/", "figures/static/"))


def resolved(module: str, importer: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), module))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_parses_no_text_as_markup_or_code_and_imports_what_exists(name):
    text = text_of(name)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    imported = {resolved(module, name) for module in re.findall(r'from "([^"]+)"', text)}
    assert imported <= set(MODULES)
    for names, module in re.findall(r'import \{([^}]+)\} from "([^"]+)"', text):
        exporting = text_of(resolved(module, name))
        for export in filter(None, map(str.strip, names.split(","))):
            assert re.search(rf"export (async )?(const|function|class) {export}\b", exporting), export
    assert text.count("\n") < 400


def test_the_page_loads_its_own_files_only():
    addresses = []

    class Links(HTMLParser):
        def handle_starttag(self, tag, attrs):
            addresses.extend(value for key, value in attrs if key in ("src", "href") and value and value[0] != "#")
            assert not [key for key, _ in attrs if key.startswith("on") or key == "style"]

    Links().feed(text_of("index.html"))
    assert [path for path in addresses if not place_of(path).is_file()] == ["api/openapi.json"]
    preloaded = {path.removeprefix("explorer/") for path in addresses if path.endswith(".js")}
    assert preloaded == {name for name in MODULES if name != SHARED} | {"figures/figure.js"}
    assert "default-src 'self'" in text_of("index.html")


@pytest.mark.parametrize("name", ["explorer/explorer.css", "page/templates/report.css", "page/templates/advice.css"])
def test_style_sheets_of_page_and_explorer_take_their_colours_from_one_palette(name):
    text = resources.files("reports").joinpath(name).read_text(encoding="utf-8")
    on_screen = text.partition("@media print {\n  :root")[0]
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?=[^{}]*[;}])", on_screen)
    variables = {colour.variable for colour in (*PAGE_COLOURS, *all_colours())}
    assert set(re.findall(r"var\((--[\w-]+)\)", text)) <= variables


def test_the_explorer_gets_the_colours_of_the_report_in_front_of_its_style_sheet(api_client):
    assert api_client.get("/explorer/explorer.css").text.startswith(theme_css(PAGE_COLOURS))


def test_the_page_and_its_files_come_with_their_types_and_are_not_sent_again(api_client):
    assert api_client.get("/").text == text_of("index.html")
    names = [
        (path, entry.name)
        for path, folder in FOLDERS.items()
        for entry in resources.files("reports").joinpath(folder).iterdir()
    ]
    assert ("explorer", "main.js") in names
    types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
    for folder, name in names:
        if (kind := types.get(f".{name.rpartition('.')[2]}")) is not None:
            response = api_client.get(f"/{folder}/{name}")
            assert response.headers["content-type"].partition(";")[0] == kind
            assert response.headers["content-security-policy"].startswith("default-src 'self'")
            assert response.headers["cache-control"] == "no-cache"
    tag = api_client.get("/explorer/main.js").headers["etag"]
    assert api_client.get("/explorer/main.js", headers={"If-None-Match": tag}).status_code == 304
