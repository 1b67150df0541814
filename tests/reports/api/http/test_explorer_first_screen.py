"""The explorer's first screen: the answer of the command line to the digit, without scrolling, on a desktop and on a
phone.
"""

from __future__ import annotations

import json
import shutil

import httpx
import pytest
from explorer_page import drawn, served, text, watched
from typer.testing import CliRunner

from reports.figures.drawing.palette import format_colours

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'roofline-bench[api]'")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: install it to drive the page"),
]

QUESTIONS = {
    "": "-M 1 -N 4096 -K 4096 --hw gb10",
    "hw=h100-sxm&M=64": "-M 64 -N 4096 -K 4096 --hw h100-sxm",
    "hw=mi300x&M=8&N=28672": "-M 8 -N 28672 -K 4096 --hw mi300x",
    "M=2048&loss=12": "-M 2048 -N 4096 -K 4096 --hw gb10 --max-quality-loss 12",
    "limit=0.001": "-M 1 -N 4096 -K 4096 --hw gb10 --memory-limit-gb 0.001",
    "op=model": "--model llama-3.1-8b --hw gb10",
    "op=model&model=llama-3.1-70b&hw=h100-sxm&batch=8": "--model llama-3.1-70b --hw h100-sxm --batch 8",
    "op=model&model=gpt-oss-20b&phase=prefill": "--model gpt-oss-20b --hw gb10 --phase prefill",
    "op=model&model=llama-3.1-70b&hw=l4": "--model llama-3.1-70b --hw l4",
    "op=model&hw=mi300x": "--model llama-3.1-8b --hw mi300x",
}
"""What the page's address asks → the same question to `roofline recommend`."""
SLOWER = {
    "hw=mi300x&M=8&N=28672",
    "limit=0.001",
    "op=model&model=llama-3.1-70b&hw=h100-sxm&batch=8",
    "op=model&hw=mi300x",
}
"""Asked with the full counts only."""
SCREENS = {"desktop": (1280, 800), "phone": (390, 844)}


@pytest.fixture(scope="module")
def address():
    from reports.api.http.app import create_app

    with served(create_app()) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    """One for this file only: while playwright is up, no other test of this thread could start an event loop."""
    with sync_api.sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield program
        program.close()


@pytest.fixture
def page(browser):
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.set_default_timeout(20_000)
    yield tab
    tab.close()


def command(arguments: str, *, width: int = 200) -> str:
    """Return what `roofline recommend` prints; it exits 1 where nothing keeps the limits."""
    from roofline_cli.main import app

    outcome = CliRunner().invoke(app, ["recommend", *arguments.split()], env={"COLUMNS": str(width), "NO_COLOR": "1"})
    assert outcome.exit_code in (0, 1), outcome.output
    return outcome.output


def shown_rows(page) -> list[list[str]]:
    return [
        [cell.text_content().replace("\u00a0", " ") for cell in row.locator("td, th").all()]
        for row in page.locator(".short tbody tr").all()
    ]


@pytest.mark.parametrize(
    "query", [pytest.param(query, marks=[pytest.mark.full] if query in SLOWER else []) for query in QUESTIONS]
)
def test_the_page_says_what_the_command_line_says_to_the_digit(page, address, query):
    page.goto(f"{address}/?{query}&compare=")
    drawn(page)
    answer = json.loads(command(f"{QUESTIONS[query]} --json"))["short_answer"]
    assert text(page, ".headline") == answer["sentence"]
    assert shown_rows(page) == [[row["role"], *row["cells"]] for row in answer["rows"]]
    printed = " ".join(command(QUESTIONS[query]).split())
    assert answer["sentence"].rstrip(".").lower() in printed.lower()
    for row in shown_rows(page):
        assert " ".join(" ".join(row).split()) in printed
    if answer["next_command"]:
        assert f"{answer['next_command']} {answer['next_effect']}".strip() in text(page, ".next")


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("query", ["", "op=model", "op=attention"])
def test_the_answer_is_on_the_first_screen_before_the_form(page, address, screen, query):
    width, height = SCREENS[screen]
    page.set_viewport_size({"width": width, "height": height})
    seen = watched(page)
    page.goto(f"{address}/?{query}")
    drawn(page)
    for part in (".headline", ".short", ".next"):
        if part == ".next" and query == "op=attention":
            continue  # no command measures the formats of a cache alone
        bottom = page.evaluate(f"document.querySelector('{part}').getBoundingClientRect().bottom")
        assert bottom <= height, part
    assert shown_rows(page)[0][0] == "take"
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("#inputs").is_visible() == (screen == "desktop")
    assert seen.errors == []


def test_a_wrong_input_opens_the_form_on_a_phone(page, address):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{address}/?N=0")
    page.wait_for_selector("[name=N][aria-invalid=true]")
    assert page.locator("[name=N]").is_visible()


def test_colours_of_formats_are_those_of_the_report(page, address):
    page.goto(f"{address}/?compare=&formats=BF16,FP8_E4M3,NVFP4,INT4.BF16,INT8.BF16")
    drawn(page)
    painted = page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('[data-section=formats] .swatch')].map((mark) => [mark.dataset.format, "
        "mark.style.backgroundColor]))"
    )
    assert {"INT4 (W4A16)", "INT8 (W8A16)"} <= painted.keys()
    for name, colour in format_colours(painted).items():
        red, green, blue = (int(colour.light[at : at + 2], 16) for at in (1, 3, 5))
        assert painted[name] == f"rgb({red}, {green}, {blue})", name


def test_sliders_hold_the_curves_against_limits_that_the_server_answers(page, address):
    page.goto(f"{address}/?op=model&compare=")
    drawn(page)
    url = f"{address}/api/models/llama-3.1-8b/batches?hardware_key=gb10"
    free = httpx.post(url, json={"context_tokens": 4096}).json()
    assert text(page, "[data-section=batches] .reading") == free["sentence"]
    steps = [step["value_s"] for step in free["token_steps"]]
    page.locator("[data-limit=token]").fill(str(steps.index(0.05)))
    drawn(page)
    assert httpx.URL(page.url).params["token"] == "0.05"
    limited = httpx.post(url, json={"context_tokens": 4096, "max_token_s": 0.05}).json()
    assert text(page, "[data-section=batches] .reading") == limited["sentence"]
    chosen = limited["curves"]["choice"]
    assert page.locator("[data-section=batches] tr.chosen th").text_content() == chosen["name"]
    assert page.locator("[data-section=batches] tr.chosen td").first.text_content() == str(
        chosen["point"]["batch_count"]
    )
    page.check("input[name=op][value=attention]", force=True)
    drawn(page)
    assert not page.locator("#batches-title").is_visible()
