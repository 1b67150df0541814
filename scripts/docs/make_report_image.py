"""Draw docs/images/report.png: the top of the report page of a run under examples/, as a browser shows it.

    python scripts/docs/make_report_image.py

Needs the extra `dev` (playwright) and a chromium (`CHROMIUM=/path/to/chromium`; else the one on the path). No network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "examples" / "runs" / "h200-sxm" / "quick.json"
IMAGE = ROOT / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1280, 1320
COLOURS = 256
"""A palette makes the file half as large; with fewer, formats begin to share colours."""


def main() -> int:
    """Import the run into a database of its own, write its report, and keep a picture of its top."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("error: no chromium found; name one: CHROMIUM=/path/to/chromium", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        database, page = Path(folder) / "runs.db", Path(folder) / "report.html"
        for command in (["import", str(RUN)], ["report", "-o", str(page)]):
            subprocess.run(
                [sys.executable, "-m", "roofline_cli", *command, "--db", str(database)], cwd=ROOT, check=True
            )
        draw(page, browser)
    print(f"{IMAGE.relative_to(ROOT)}: {IMAGE.stat().st_size / 1e3:.0f} kB")
    return 0


def draw(page: Path, browser: str) -> None:
    """Save the top of a page, light, in few colours."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.wait_for_selector(".plotly-host svg, .js-plotly-plot svg", state="attached")
        tab.wait_for_timeout(1000)  # fonts and figures settle
        tab.screenshot(path=str(IMAGE))
        chromium.close()
    with Image.open(IMAGE) as image:
        reduced = image.convert("RGB").quantize(COLOURS)
    reduced.save(IMAGE, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
