"""The explorer page of a server that has nothing: no database, no GPU, a token, and a link to what it does not know."""

from __future__ import annotations

import shutil

import pytest
from explorer_page import rows, served, watched

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'roofline-bench[api]'")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: install it to drive the page"),
]

TOKEN = "a token for this test alone"


@pytest.fixture(scope="module")
def browser():
    """One for this file only: while playwright is up, no other test of this thread could start an event loop."""
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def test_a_link_opens_on_a_bare_server_that_says_what_is_missing(browser, tmp_path):
    from reports.api.http.app import create_app

    link = "/?hw=l4&op=attention&Skv=8192&causal=yes&formats=FP16,FP8_E4M3.BF16&compare=nothing,h100-sxm#token="
    with served(create_app(tmp_path / "none.db", token=TOKEN)) as address:
        page = browser.new_page()
        seen = watched(page)
        page.route("**/vendor/*", lambda route: route.abort())
        page.goto(address + link + TOKEN.replace(" ", "%20"), wait_until="commit")
        page.locator("#legend-roofline:has-text('cannot be drawn')").wait_for()
        assert "token" not in page.url
        assert "Skv=8192" in page.url
        assert page.input_value("[name=hw]") == "l4"
        assert page.input_value("[name=Skv]") == "8192"
        assert page.is_checked("[name=causal]")
        assert list(rows(page)) == ["FP16", "FP8_E4M3.BF16"]
        page.locator(".card:has-text('No chip here is called “nothing”.')").wait_for()
        page.locator("[data-section=measured]:has-text('There is no results database here yet')").wait_for()
        page.locator("[data-section=gpu]:has-text('No GPU here')").wait_for()
        # The bundle that was kept from it, and the chip that nobody knows.
        assert len([error for error in seen.errors if "404" not in error and "ERR_FAILED" not in error]) == 0
        # A link with another token, or with one that no header can carry, signs nobody out.
        for wrong in ("wrong-token-of-a-link", "", "%E2%98%83"):
            page.goto("about:blank")
            page.goto(f"{address}/?hw=l4#token={wrong}", wait_until="commit")
            page.locator("#legend-roofline:has-text('cannot be drawn')").wait_for()
            assert "token" not in page.url
        assert page.evaluate("() => Object.values(sessionStorage)") == [TOKEN]
        page.close()
