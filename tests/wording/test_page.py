"""The words of the report page, without its numbers' tables and its drawings; `make wording` rewrites them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from roofline_cli.main import app

SILENT = {"script", "style", "svg", "td", "pre", "title"}
"""Elements whose text is no wording of the page's own."""
VOID = {"meta", "link", "input", "br", "hr", "img", "col", "wbr"}


class Words(HTMLParser):
    """Collects the text outside silent elements, a line per element that holds some."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self._open.append(tag)
        for name, value in attrs:
            if name in ("aria-label", "placeholder", "title") and value and not SILENT.intersection(self._open):
                self.lines.append(f"[{name}] {value}")

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if data.strip() and not SILENT.intersection(self._open):
            self.lines.append(" ".join(data.split()))


@pytest.mark.parametrize("options", ["--run model_quant", "--run later --baseline calibrated"])
def test_page(options, in_folder, snapshot):
    result = CliRunner().invoke(app, ["report", *options.split(), "--db", "bench.sqlite", "-o", "page.html"])
    assert result.exit_code == 0, result.output
    words = Words()
    words.feed((in_folder / "page.html").read_text(encoding="utf-8"))
    text = "\n".join(dict.fromkeys(words.lines))
    assert re.sub(r"Written \S+ \S+", "Written TODAY", text) == snapshot
