"""The explorer in a browser: seconds from opening it until the answer stands there, and until everything is drawn."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median

from benchmarks.surfaces.serving import server
from benchmarks.timing.rows import Figure, Row

AIM_S = 1.0
"""Until the answer stands there."""
QUESTIONS = {"product": "/", "model": "/?op=model"}
WARM_UP_S = 4.0
"""What the server imports and starts after it is ready."""
WATCH = """new MutationObserver(() => {
  const options = document.getElementById("options"), results = document.getElementById("results");
  if (options?.childElementCount) window.answeredMs ??= performance.now();
  if (results?.dataset.drawn && results.getAttribute("aria-busy") === "false") window.drawnMs ??= performance.now();
}).observe(document, { subtree: true, childList: true, attributes: true });"""


def measure(folder: Path, *, quick: bool) -> list[Row | Figure]:
    """Open each question several times, fresh each time; medians over rounds, empty without chromium and playwright."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return []
    if program is None:
        return []
    rounds = 3 if quick else 9
    rows: list[Row | Figure] = []
    with server(folder) as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        time.sleep(WARM_UP_S)
        for name, query in QUESTIONS.items():
            times_s = [_opened(browser, f"{url}{query}") for _ in range(rounds)]
            answered_s, drawn_s = (median(column) for column in zip(*times_s, strict=True))
            rows.append(Row(f"explorer, {name}: answer", answered_s, rounds, AIM_S))
            rows.append(Row(f"explorer, {name}: everything drawn", drawn_s, rounds))
        browser.close()
    return rows


def _opened(browser, url: str) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """Return the seconds until the answer and until everything of a fresh page."""
    tab = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    tab.add_init_script(WATCH)
    tab.goto(url)
    tab.wait_for_selector("#results[data-drawn][aria-busy=false]", state="attached")
    answered_ms, drawn_ms = tab.evaluate("[window.answeredMs, window.drawnMs ?? performance.now()]")
    tab.context.close()
    return answered_ms / 1e3, drawn_ms / 1e3
