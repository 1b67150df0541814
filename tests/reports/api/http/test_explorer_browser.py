"""The explorer page in a real browser against a real server: what it shows, what it says, and what it never does."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from explorer_page import FakeGpu, drawn, rows, section, served, text, watched

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'roofline-bench[api]'")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: install it to drive the page"),
]

AXE = Path(__file__).parents[3] / "vendor" / "axe-core" / "axe.min.js"
RUN_ID = "e7" * 16
LABEL = "<img src=x onerror=alert(1)></select><script>alert(2)</script> ‮\"'&amp; <b>bold</b>"
FORMATS = {"FP16": {"precision": "FP16"}, "FP8_E4M3": {"precision": "FP8_E4M3"}, "INT8.INT8": {"precision": "INT8"},
           "NVFP4": {"precision": "NVFP4"}, "INT4.FP16": {"precision": "FP16", "weight_precision": "INT4"}}  # fmt: skip


@pytest.fixture(scope="module")
def address(make, tmp_path_factory) -> Iterator[str]:
    """A server with a GPU and a database: one run of an H200 whose label and kernel are hostile."""
    from reports.api.http.app import create_app
    from results.store.store import open_store

    path = tmp_path_factory.mktemp("explorer") / "results.db"
    records = [replace(record, run_id=RUN_ID) for record in make.gpu_records()]
    strange = make.record((4, 4096, 4096), "BF16", "BF16", LABEL, 4e-5, device=make.GPU, number=900, run_id=RUN_ID)
    run = make.run(run_id=RUN_ID, label=LABEL, hardware_key="h200-sxm")
    with open_store(path) as store:
        store.add_run(run, make.profiles(make.GPU).values(), [*records, strange])
    with served(create_app(path, telemetry=FakeGpu())) as base_url:
        yield base_url


@pytest.fixture(scope="module")
def browser():
    """One for this file only: while playwright is up, no other test of this thread could start an event loop."""
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def opened(browser, address):
    """One page for all tests, and what it did; loading plotly takes a second."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light", reduced_motion="reduce")
    page.set_default_timeout(10_000)
    seen = watched(page)
    page.goto(address)
    drawn(page)
    yield page, seen, page.url
    page.close()


@pytest.fixture
def page(opened, address):
    """The page as its first visitor sees it; a browser error fails the test that caused it."""
    page, seen, first = opened
    page.set_viewport_size({"width": 1280, "height": 900})
    if httpx.URL(page.url).params != httpx.URL(first).params:
        page.evaluate(
            "(address) => { history.pushState(null, '', address); dispatchEvent(new PopStateEvent('popstate')); }",
            first,
        )
        drawn(page)
    yield page
    # The browser itself notes every answer that is an error; those that a test asks for are no fault of the page.
    errors = [error for error in seen.errors if "status of 422" not in error]
    seen.errors.clear()
    assert errors == []
    assert [url for url in seen.addresses if not url.startswith(f"{address}/")] == []


def ranked(page) -> list[float]:
    """Return the expected times of the full ranking, in its order."""
    rows = section(page, "ranking").locator("tbody tr").all()
    cells = [row.locator("td[data-head=Expected]") for row in rows if row.locator("td, th").first.text_content() != "–"]
    return [float(cell.get_attribute("data-value")) for cell in cells]


def test_numbers_follow_the_keys_and_equal_the_api_to_the_digit(page, address):
    page.fill("[name=M]", "")
    page.locator("[name=M]").press_sequentially("512", delay=15)
    drawn(page)
    table_rows = rows(page)
    assert list(table_rows) == list(FORMATS)
    for name, formats in FORMATS.items():
        body = {"M": 512, "N": 4096, "K": 4096, "cache": "cold", **formats}
        answer = httpx.post(f"{address}/api/analyze?hardware_key=gb10", json=body).json()
        cells = table_rows[name]
        assert float(cells["Expected"][0]) == answer["expected"]["time_s"]
        assert float(cells["Ideal"][0]) == answer["time_s"]
        assert float(cells["vs FP16"][0]) == answer["expected_speedup_ratio"]
        assert float(cells["FLOP/byte"][0]) == answer["intensity_flop_per_byte"]
        assert float(cells["Ridge"][0]) == answer["critical_intensity_flop_per_byte"]
    best = httpx.post(f"{address}/api/recommend", json={"M": 512, "N": 4096, "K": 4096}).json()["candidates"][0]
    assert ranked(page)[0] == best["time_s"]
    assert section(page, "time").locator(".facts dt").all_text_contents()[:3] == ["tile", "blocks", "waves"]
    assert re.search("(compute|memory)-bound", section(page, "prediction").text_content())


def test_an_answer_that_was_overtaken_is_never_shown(page):
    held = []

    def hold(route):
        if "M=77&" in route.request.url:
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/explorer/answer*", hold)
    page.fill("[name=M]", "77")
    page.wait_for_timeout(250)
    assert held, "the page did not ask for M = 77"
    page.fill("[name=M]", "78")
    drawn(page)
    for route in held:
        with contextlib.suppress(sync_api.Error):  # the page has given the request up: just as well
            route.continue_()
    page.wait_for_timeout(100)
    page.unroute("**/api/explorer/answer*")
    assert "78 ×" in page.text_content("#answer-title")


def test_words_that_were_taken_back_leave_the_measured_points_as_they_were(page):
    page.select_option("[name=hw]", "h200-sxm")
    page.select_option("[name=run]", RUN_ID)
    drawn(page)
    page.route("**/measured?*words=28672*", lambda route: None)  # never answered
    with page.expect_request("**/measured?*words=28672*"):
        page.fill("[name=words]", "28672")
    page.fill("[name=words]", "")
    drawn(page)
    page.unroute("**/measured?*words=28672*")
    assert "measured" in page.text_content("#legend-roofline")


def test_an_error_of_the_api_stands_beside_its_field_and_no_number_stays(page, address):
    page.fill("[name=N]", "0")
    page.wait_for_selector("[name=N][aria-invalid=true]")
    message = httpx.post(f"{address}/api/analyze", json={"M": 1, "N": 0, "K": 4096}).json()["errors"][0]["message"]
    assert page.text_content("#error-N") == message
    assert page.locator("#error-M").count() == 0
    assert "error-N" in page.get_attribute("[name=N]", "aria-describedby")
    assert page.locator("#results section:not([hidden]) [data-value]").count() == 0
    page.fill("[name=N]", "4096")
    drawn(page)
    assert page.locator("#error-N").count() == 0
    assert page.get_attribute("[name=N]", "aria-invalid") is None
    assert len(rows(page)) == len(FORMATS)


def test_the_address_holds_every_input_and_back_and_forward_work(page):
    first = page.url
    page.select_option("[name=hw]", "h100-sxm")
    page.check("input[value='MXFP4']")
    page.fill("[name=K]", "8192")
    page.select_option("[name=cache]", "warm")
    page.fill("[name=limit]", "64")
    page.locator("[name=limit]").blur()
    page.select_option("#compare-add", "l4")
    drawn(page)
    query = dict(httpx.URL(page.url).params)
    assert query["hw"] == "h100-sxm"
    assert query["K"] == "8192"
    assert query["cache"] == "warm"
    assert query["limit"] == "64"
    assert "MXFP4" in query["formats"].split(",")
    assert query["compare"].endswith(",l4")
    there, numbers = page.url, rows(page)
    page.evaluate("history.go(-6)")
    page.wait_for_url(first)
    drawn(page)
    assert page.url == first
    assert page.input_value("[name=hw]") == "gb10"
    assert page.input_value("[name=K]") == "4096"
    page.evaluate("history.go(6)")
    page.wait_for_url(there)
    drawn(page)
    assert page.url == there
    assert rows(page) == numbers
    assert page.input_value("[name=limit]") == "64"
    assert page.is_checked("input[value='MXFP4']")


def test_attention_and_models_are_answered_too(page, address):
    page.check("input[name=op][value=attention]", force=True)
    drawn(page)
    body = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128, "causal": False, "precision": "FP8_E4M3"}
    answer = httpx.post(f"{address}/api/attention", json=body).json()
    assert float(rows(page)["FP8_E4M3"]["Expected"][0]) == answer["expected"]["time_s"]
    page.fill("[name=Hkv]", "5")
    page.wait_for_selector("[name=Hkv][aria-invalid=true]")
    assert "Hkv=5" in page.text_content("#error-Hkv")
    page.check("input[name=op][value=model]", force=True)
    drawn(page)
    path = f"{address}/api/models/{page.input_value('[name=model]')}/predict"
    body = {"phase": "decode", "batch_count": 1, "context_tokens": 4096, "formats": "FP8_E4M3"}
    answer = httpx.post(path, json=body).json()
    cells = rows(page)["FP8_E4M3"]
    assert float(cells["Expected"][0]) == answer["expected"]["time_s"]
    assert float(cells["Tokens/s"][0]) == answer["expected_tokens_per_s"]
    assert float(cells["Memory"][0]) == answer["memory"]["total_bytes"]


def test_advice_is_the_apis_for_caches_and_models_too(page, address):
    page.check("input[name=op][value=attention]", force=True)
    drawn(page)
    body = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128}
    answer = httpx.post(f"{address}/api/attention/recommend", json=body).json()
    assert text(page, ".headline") == answer["short_answer"]["sentence"]
    assert ranked(page)[0] == answer["best"]["time_s"]
    page.check("input[name=op][value=model]", force=True)
    page.fill("[name=loss]", "100")
    drawn(page)
    path = f"{address}/api/models/{page.input_value('[name=model]')}/recommend"
    answer = httpx.post(
        path, json={"batch_count": 1, "context_tokens": 4096, "phase": "decode", "max_loss_pct": 100}
    ).json()
    assert text(page, ".headline") == answer["short_answer"]["sentence"]
    assert ranked(page) == [candidate["time_s"] for candidate in answer["candidates"]]
    page.fill("[name=loss]", "-3")
    page.wait_for_selector("[name=loss][aria-invalid=true]")
    assert page.text_content("#error-loss") != ""
    assert ranked(page) == []


def test_a_format_without_a_kernel_is_marked_and_never_the_one_to_take(page, address):
    page.fill("[name=M]", "2048")
    page.check("input[value='MXFP4']")
    drawn(page)
    row = page.locator("#format-MXFP4")
    times = {name: float(cells["Expected"][0]) for name, cells in rows(page).items()}
    assert min(times, key=times.get) == "MXFP4"
    assert "no kernel" in row.text_content()
    assert row.locator(".role").count() == 0
    assert section(page, "formats").locator(".role").all_text_contents() == ["take"]
    assert "best" not in section(page, "formats").text_content()
    row.locator("a").click()
    drawn(page)
    assert "No kernel known on gb10" in section(page, "prediction").text_content()


def test_the_stored_runs_have_their_say_with_their_evidence(page, address):
    page.select_option("[name=hw]", "h200-sxm")
    drawn(page)
    stored = httpx.get(f"{address}/api/recommendations?hardware_key=h200-sxm&M=1&N=4096&K=4096").json()["rankings"][0]
    shown = section(page, "stored")
    assert stored["rows"][0]["label"] in shown.text_content()
    assert shown.locator("a").first.get_attribute("href") == f"api/runs/{RUN_ID}/report"
    page.select_option("[name=hw]", "gb10")  # nothing is stored of it
    drawn(page)
    assert shown.text_content() == ""


def test_chips_stand_side_by_side_with_the_numbers_of_the_api(page, address):
    cards = page.locator(".card")
    assert cards.count() == 3
    body = {"M": 1, "N": 4096, "K": 4096, "precision": "FP16"}
    answer = httpx.post(f"{address}/api/analyze?hardware_key=b200", json=body).json()
    assert (
        float(cards.nth(2).locator("td[data-value]").first.get_attribute("data-value")) == answer["expected"]["time_s"]
    )
    page.get_by_role("link", name="Remove NVIDIA H200 SXM 141 GB").click()
    drawn(page)
    assert cards.count() == 2
    assert dict(httpx.URL(page.url).params)["compare"] == "b200"


def test_measured_points_lie_on_the_plot_and_hostile_names_are_text(page, address):
    page.select_option("[name=hw]", "h200-sxm")
    page.select_option("[name=run]", RUN_ID)
    drawn(page)
    case = httpx.get(f"{address}/api/runs/{RUN_ID}/cases?status=measured").json()["cases"][0]
    cell = page.locator(f"#case-{case['case_key']} td[data-head=Measured]")
    assert float(cell.get_attribute("data-value")) == case["measured_s"]
    measured = section(page, "measured")
    assert "<script>alert(2)</script>" in measured.locator("p").first.text_content()
    assert measured.locator("a").get_attribute("href") == f"api/runs/{RUN_ID}/report"
    assert measured.locator("img, script, b:text-is('bold')").count() == 0
    traces = (
        "document.getElementById('figure-roofline').data.filter((one) => one.name.startsWith('measured')).map((one) => "
        "one.x.length)"
    )
    assert sum(page.evaluate(traces)) == 36  # seven formats of five shapes, and the strange one
    hover = page.evaluate(
        "() => document.getElementById('figure-roofline').data.flatMap((one) => one.text ?? []).join()"
    )
    assert "<img" not in hover
    assert "&lt;img" in hover
    # Hovered for real, plotly writes the kernel's name into the page.
    page.locator("#legend-roofline").scroll_into_view_if_needed()
    x, y = page.evaluate(
        """() => { const plot = document.getElementById('figure-roofline'), box = plot.getBoundingClientRect(), { xaxis, yaxis, _size } = plot._fullLayout;
        const trace = plot.data.find((one) => one.text?.some?.((text) => text.includes('&lt;img')));
        const index = trace.text.findIndex((text) => text.includes('&lt;img'));
        return [box.left + _size.l + xaxis.d2p(trace.x[index]), box.top + _size.t + yaxis.d2p(trace.y[index])]; }"""
    )
    page.mouse.move(x - 4, y)
    page.mouse.move(x, y)
    page.locator("#figure-roofline .hovertext").first.wait_for()
    assert "<img src=x onerror=alert(1)>" in page.text_content("#figure-roofline .hoverlayer")
    page.mouse.click(x, y)
    assert LABEL[:40] in page.locator("tr.picked").text_content()
    assert page.locator("#figure-roofline img, #figure-roofline script").count() == 0
    page.fill("[name=words]", "28672")
    drawn(page)
    assert measured.locator("tbody tr").count() == 7
    page.select_option("[name=hw]", "gb10")
    drawn(page)
    assert "not over those of gb10" in measured.text_content()
    assert page.locator("#figure-measured .main-svg").count() > 0


def test_a_click_on_a_point_chooses_it(page):
    page.select_option("[name=hw]", "h200-sxm")
    page.select_option("[name=run]", RUN_ID)
    drawn(page)
    page.evaluate(
        """() => { const plot = document.getElementById('figure-roofline');
        const trace = plot.data.find((one) => one.name.startsWith('measured'));
        plot.emit('plotly_click', { points: [{ customdata: trace.customdata[0] }] }); }"""
    )
    assert page.locator("tr.picked").count() == 1
    page.evaluate(
        "() => document.getElementById('figure-roofline').emit('plotly_click', { points: [{ customdata: 'NVFP4' }] })"
    )
    drawn(page)
    assert page.locator("#format-NVFP4.chosen").count() == 1
    assert "focus=NVFP4" in page.url


def test_the_sensors_are_live(page):
    section(page, "gpu").locator("dl").wait_for()
    shown = text(page, "[data-section=gpu]")
    assert "612 W" in shown
    assert "1.98 GHz" in shown
    assert "50 %" in shown
    assert "sw-power-cap" in shown
    assert re.search(r"Memory clock\s*–", shown)
    assert page.text_content("#gpu-state") == "Test GPU · live"


def test_the_keyboard_reaches_everything_in_reading_order(page):
    page.evaluate("() => document.activeElement.blur()")
    page.locator("h1").click()
    order = []
    for _ in range(12):
        page.keyboard.press("Tab")
        order.append(
            page.evaluate(
                """() => { const e = document.activeElement;
            const mark = e.type === 'radio' && e.name === 'operator' ? e.nextElementSibling : e;
            return [e.id || e.name || e.textContent, getComputedStyle(mark).outlineStyle !== 'none']; }"""
            )
        )
    names = ["copy", "theme", "hw", "op", "Decode", "Batch 16", "Prefill 2k", "M", "N", "K", "cache"]
    assert [name for name, _ in order][:-1] == names
    assert all(is_visible for _, is_visible in order)
    page.focus("[name=M]")
    page.keyboard.press("PageUp")
    drawn(page)
    assert page.input_value("[name=M]") == "2"
    assert "2 ×" in page.text_content("#answer-title")
    page.locator("#format-NVFP4 a").focus()
    page.keyboard.press("Enter")
    drawn(page)
    assert page.locator("#format-NVFP4.chosen").count() == 1
    assert page.evaluate("() => document.activeElement.textContent") == "NVFP4 (W4A4)"


def test_no_serious_fault_of_accessibility_in_light_and_dark(page):
    page.select_option("[name=run]", RUN_ID)
    page.fill("[name=words]", "28672")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    drawn(page)
    faults = []
    for theme, rules in (("light", None), ("dark", ["color-contrast"])):
        page.select_option("#theme", theme)
        page.wait_for_timeout(50)
        violations = page.evaluate(
            "(rules) => axe.run(document, { resultTypes: ['violations'], ...(rules ? { runOnly: rules } : {}) })", rules
        )["violations"]
        faults += [
            (theme, violation["id"], [node["html"][:160] for node in violation["nodes"]][:4])
            for violation in violations
            if violation["impact"] in ("serious", "critical")
        ]
    page.select_option("#theme", "system")
    assert faults == []


def test_a_phone_needs_no_sideways_scrolling(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.click("#asked")
    for operator in ("product", "attention", "model"):
        page.check(f"input[name=op][value={operator}]", force=True)
        if operator == "product":
            page.select_option("[name=run]", RUN_ID)
        drawn(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") == 390, operator
