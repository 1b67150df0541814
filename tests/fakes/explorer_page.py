"""The explorer for tests: a server on a free port, a GPU that is none, and what a browser's page shows and does
wrong.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace


class FakeGpu:
    """Sensors of a GPU that refuses one of them."""

    def name(self):
        return "Test GPU"

    def power_w(self):
        return 612.0

    def sm_clock_hz(self):
        return 1.98e9

    def memory_clock_hz(self):
        return None

    def temperature_c(self):
        return 61.0

    def utilization_ratio(self):
        return 0.5

    def memory_used_bytes(self):
        return 2e9

    def throttle_reasons(self):
        return ("sw-power-cap",)


@contextlib.contextmanager
def served(app) -> Iterator[str]:
    """Serve an app on a free port of this machine and give its address."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    server.config.timeout_graceful_shutdown = 1
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server ended before it began"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def watched(page) -> SimpleNamespace:
    """Collect everything a page must never do."""
    seen = SimpleNamespace(errors=[], addresses=set())
    page.on("console", lambda message: seen.errors.append(message.text))  # a page has nothing to say there, of any kind
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("dialog", lambda dialog: (seen.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: seen.addresses.add(request.url))
    return seen


def drawn(page) -> None:
    """Wait until the page has drawn what its address asks for."""
    page.wait_for_timeout(30)
    page.wait_for_selector("#results[data-drawn]", state="attached")
    for _ in range(400):
        search, is_busy, about = page.evaluate(
            "() => { const r = document.getElementById('results'); return [location.search, "
            "r.getAttribute('aria-busy'), r.dataset.drawn]; }"
        )
        if search == about and is_busy == "false":
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"the page still shows {about!r}, its address is {search!r}")


def text(page, selector: str) -> str:
    """Return a text of the page with plain blanks."""
    return page.text_content(selector).replace("\u00a0", " ")


def section(page, name: str):
    """Return the place of a section of the page."""
    return page.locator(f"[data-section={name}]")


def rows(page) -> dict[str, dict[str, tuple[str, str]]]:
    """Return format → column → (whole value, text) of the table of formats."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll('[data-section=formats] tr[id]')].map((row) => [row.id.slice(7),
        Object.fromEntries([...row.querySelectorAll('td[data-value]')].map((cell) => [cell.dataset.head, [cell.dataset.value,
        cell.textContent]]))]))"""
    )
