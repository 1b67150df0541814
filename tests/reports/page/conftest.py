"""A real browser for the pages, one for the tests of a file, and a note of all that a page did wrong.

While playwright is up, no other test of its thread could start an event loop: hence not one for the session.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reports.page.html import render_page
from reports.view.views import report_view

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    """Chromium, headless; the test is skipped where the machine has none."""
    if CHROMIUM is None:
        pytest.skip("no chromium here: install it to drive the page")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("no chromium here can be driven: playwright is not installed")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Watched:
    """A page that is open, with what it must not do: a word on the console, errors, dialogs, requests to anywhere
    else.
    """

    def __init__(
        self, browser, path: Path, *, width: int = 1280, wait: bool = True, init: str = "", **context: object
    ) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, **context)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.faults.append("a dialog"), dialog.dismiss()))
        own_schemes = (path.as_uri(), "data:", "blob:")
        self.page.on(
            "request",
            lambda request: (
                None if request.url.split("#")[0].startswith(own_schemes) else self.faults.append(request.url)
            ),
        )
        if init:
            self.page.add_init_script(init)
        self.page.goto(path.as_uri())
        if wait:
            self.page.wait_for_selector("html[data-ready]", state="attached")
            self.page.evaluate("document.querySelectorAll('.filters').forEach((one) => { one.open = true; })")

    def _note(self, message) -> None:
        # Of any kind: plotly's warnings are traces. How fast a driver of the machine is, is no fault of the page.
        if "GL Driver Message" not in message.text:
            self.faults.append(message.text)


@pytest.fixture(scope="module")
def open_page(browser, tmp_path_factory) -> Iterator:
    """Return a function that renders records as an interactive page and opens it; what is left open is closed."""
    folder, opened = tmp_path_factory.mktemp("pages"), []

    def opener(make, records, device, *, run=None, name="page", html=None, **options):
        path = folder / f"{name}.html"
        if html is None:
            view = report_view(
                make.run(**(run or {})), records, make.profiles(device), canaries=options.pop("canaries", ())
            )
            html = render_page(view, is_interactive=True)
        path.write_text(html, encoding="utf-8")
        opened.append(Watched(browser, path, **options))
        return opened[-1]

    yield opener
    for opened_page in opened:
        opened_page.context.close()
