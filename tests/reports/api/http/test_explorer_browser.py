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
from explorer_page import FakeGpu, drawn, rows, served, text, watched

from roofline_model.core.units import format_time

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


def test_numbers_follow_the_keys_and_equal_the_api_to_the_digit(page, address):
    page.fill("#M", "")
    page.locator("#M").press_sequentially("512", delay=15)
    drawn(page)
    table_rows = rows(page)
    assert list(table_rows) == list(FORMATS)
    assert page.locator("input[name=operator]:checked").get_attribute("value") == "gemm"
    for name, formats in FORMATS.items():
        body = {"M": 512, "N": 4096, "K": 4096, "cache": "cold", **formats}
        answer = httpx.post(f"{address}/api/analyze?hardware_key=gb10", json=body).json()
        cells = table_rows[name]
        assert float(cells["Expected"][0]) == answer["expected"]["time_s"]
        assert cells["Expected"][1] == format_time(answer["expected"]["time_s"])
        assert float(cells["Ideal"][0]) == answer["time_s"]
        assert cells["Ideal"][1] == format_time(answer["time_s"])
        assert float(cells["vs FP16"][0]) == answer["expected_speedup_ratio"]
        assert float(cells["FLOP/byte"][0]) == answer["intensity_flop_per_byte"]
        assert float(cells["Ridge"][0]) == answer["critical_intensity_flop_per_byte"]
    best = httpx.post(f"{address}/api/recommend", json={"M": 512, "N": 4096, "K": 4096}).json()["candidates"][0]
    assert float(page.locator("#advice .ranking data").first.get_attribute("value")) == best["time_s"]
    assert page.locator("#detail .facts dt").all_text_contents()[:3] == ["Tile", "Blocks", "Waves"]
    assert "compute-bound" in page.text_content("#why").lower() or "memory-bound" in page.text_content("#why").lower()


def test_an_answer_that_was_overtaken_is_never_shown(page):
    held = []

    def hold(route):
        if '"M":77' in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/analyze*", hold)
    page.fill("#M", "77")
    page.wait_for_timeout(250)
    assert held, "the page did not ask for M = 77"
    page.fill("#M", "78")
    drawn(page)
    for route in held:
        with contextlib.suppress(sync_api.Error):  # the page has given the request up: just as well
            route.continue_()
    page.wait_for_timeout(100)
    page.unroute("**/api/analyze*")
    assert "78 ×" in page.text_content("#answer-title")


def test_words_that_were_taken_back_leave_the_measured_points_as_they_were(page):
    page.select_option("#hw", "h200-sxm")
    page.select_option("#run", RUN_ID)
    drawn(page)
    page.route("**/cases?*words=*", lambda route: None)  # never answered
    with page.expect_request("**/cases?*words=*"):
        page.fill("#words", "28672")
    page.fill("#words", "")
    drawn(page)
    page.unroute("**/cases?*words=*")
    assert "measured" in page.text_content("#plot-key")


def test_an_error_of_the_api_stands_beside_its_field_and_no_number_stays(page, address):
    page.fill("#N", "0")
    page.wait_for_selector("#N[aria-invalid=true]")
    message = httpx.post(f"{address}/api/analyze", json={"M": 1, "N": 0, "K": 4096}).json()["errors"][0]["message"]
    assert page.text_content("#error-N") == message
    assert page.text_content("#error-M") == ""
    assert "error-N" in page.get_attribute("#N", "aria-describedby")
    assert page.locator("#results #table data, #figures data, #advice data").count() == 0
    page.fill("#N", "4096")
    drawn(page)
    assert page.text_content("#error-N") == ""
    assert page.get_attribute("#N", "aria-invalid") is None
    assert len(rows(page)) == len(FORMATS)


def test_the_address_holds_every_input_and_back_and_forward_work(page):
    first = page.url
    page.select_option("#hw", "h100-sxm")
    page.check("input[value='MXFP4']")
    page.fill("#K", "8192")
    page.select_option("#cache", "warm")
    page.fill("#limit", "64")
    page.locator("#limit").blur()
    page.select_option("#compare-add", "l4")
    drawn(page)
    query = dict(httpx.URL(page.url).params)
    assert query["hw"] == "h100-sxm"
    assert query["K"] == "8192"
    assert query["cache"] == "warm"
    assert query["limit"] == "64"
    assert query["formats"].endswith("MXFP4")
    assert query["compare"].endswith(",l4")
    there, numbers = page.url, rows(page)
    page.evaluate("history.go(-6)")
    page.wait_for_url(first)
    drawn(page)
    assert page.url == first
    assert page.input_value("#hw") == "gb10"
    assert page.input_value("#K") == "4096"
    page.evaluate("history.go(6)")
    page.wait_for_url(there)
    drawn(page)
    assert page.url == there
    assert rows(page) == numbers
    assert page.input_value("#limit") == "64"
    assert page.is_checked("input[value='MXFP4']")


def test_attention_and_models_are_answered_too(page, address):
    page.check("input[name=operator][value=attention]", force=True)
    drawn(page)
    body = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128, "causal": False, "precision": "FP8_E4M3"}
    answer = httpx.post(f"{address}/api/attention", json=body).json()
    assert float(rows(page)["FP8_E4M3"]["Expected"][0]) == answer["expected"]["time_s"]
    page.fill("#Hkv", "5")
    page.wait_for_selector("#Hkv[aria-invalid=true]")
    assert "Hkv=5" in page.text_content("#error-Hkv")
    page.check("input[name=operator][value=model]", force=True)
    drawn(page)
    path = f"{address}/api/models/{page.input_value('#model')}/predict"
    body = {"phase": "decode", "batch_count": 1, "context_tokens": 4096, "formats": "FP8_E4M3"}
    answer = httpx.post(path, json=body).json()
    cells = rows(page)["FP8_E4M3"]
    assert float(cells["Expected"][0]) == answer["expected"]["time_s"]
    assert float(cells["Tokens/s"][0]) == answer["expected_tokens_per_s"]
    assert float(cells["Memory"][0]) == answer["memory"]["total_bytes"]


def test_advice_is_the_apis_for_caches_and_models_too(page, address):
    page.check("input[name=operator][value=attention]", force=True)
    drawn(page)
    body = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128}
    answer = httpx.post(f"{address}/api/attention/recommend", json=body).json()
    assert text(page, "#take") == answer["short_answer"]["sentence"]
    assert float(page.locator("#advice .ranking data").first.get_attribute("value")) == answer["best"]["time_s"]
    page.check("input[name=operator][value=model]", force=True)
    page.fill("#loss", "100")
    drawn(page)
    path = f"{address}/api/models/{page.input_value('#model')}/recommend"
    answer = httpx.post(
        path, json={"batch_count": 1, "context_tokens": 4096, "phase": "decode", "max_loss_pct": 100}
    ).json()
    assert text(page, "#take") == answer["short_answer"]["sentence"]
    shown = [float(datum.get_attribute("value")) for datum in page.locator("#advice .ranking data").all()]
    assert shown == [candidate["time_s"] for candidate in answer["candidates"]]
    page.fill("#loss", "-3")
    page.wait_for_selector("#loss[aria-invalid=true]")
    assert page.text_content("#error-loss") != ""
    assert page.locator("#advice data").count() == 0


def test_a_format_without_a_kernel_is_marked_and_never_the_fastest(page, address):
    page.fill("#M", "2048")
    page.check("input[value='MXFP4']")
    drawn(page)
    row = page.locator("#table tr[data-format='MXFP4']")
    times = {name: float(cells["Expected"][0]) for name, cells in rows(page).items()}
    assert min(times, key=times.get) == "MXFP4"
    assert row.locator(".gap").text_content() == "no kernel"
    assert row.locator(".best").count() == 0
    assert page.locator("#table .best").count() == 1
    assert page.locator("#options tr.chosen").get_attribute("data-option") != "MXFP4"
    page.check("input[name=focus][value=MXFP4]")
    drawn(page)
    assert "No kernel known on gb10" in page.text_content("#remarks")


def test_the_stored_runs_have_their_say_with_their_evidence(page, address):
    page.select_option("#hw", "h200-sxm")
    drawn(page)
    stored_rankings = httpx.get(f"{address}/api/recommendations?hardware_key=h200-sxm&M=1&N=4096&K=4096").json()[
        "rankings"
    ][0]
    shown = page.locator("#stored .ranking data")
    assert float(shown.first.get_attribute("value")) == stored_rankings["rows"][0]["time_s"]
    link = page.locator("#stored a").first.get_attribute("href")
    assert f"/{link}" == stored_rankings["rows"][0]["evidence"][-1]["case_url"]
    page.select_option("#hw", "gb10")  # nothing is stored of it
    drawn(page)
    assert page.text_content("#stored") == ""


def test_chips_stand_side_by_side_with_the_numbers_of_the_api(page, address):
    cards = page.locator(".chip-card")
    assert [card.get_attribute("data-chip") for card in cards.all()] == ["gb10", "h200-sxm", "b200"]
    body = {"M": 1, "N": 4096, "K": 4096, "precision": "FP16"}
    answer = httpx.post(f"{address}/api/analyze?hardware_key=b200", json=body).json()
    assert float(cards.nth(2).locator("tr data").first.get_attribute("value")) == answer["expected"]["time_s"]
    page.get_by_role("button", name="Remove NVIDIA H200 SXM 141 GB").click()
    drawn(page)
    assert [card.get_attribute("data-chip") for card in cards.all()] == ["gb10", "b200"]


def test_measured_points_lie_on_the_plot_and_hostile_names_are_text(page, address):
    page.select_option("#hw", "h200-sxm")
    page.select_option("#run", RUN_ID)
    drawn(page)
    case = httpx.get(f"{address}/api/runs/{RUN_ID}/cases?status=measured").json()["cases"][0]
    cell = page.locator(f"#measured tr[data-case='{case['case_key']}'] data").first
    assert float(cell.get_attribute("value")) == case["measured_s"]
    assert "<script>alert(2)</script>" in page.text_content("#measured .run-line")
    assert page.get_attribute("#measured a", "href") == f"api/runs/{RUN_ID}/report"
    assert page.locator("#measured img, #measured script, #measured b:text-is('bold')").count() == 0
    traces = (
        "document.getElementById('plot').data.filter((one) => one.name.startsWith('measured')).map((one) => "
        "one.x.length)"
    )
    assert sum(page.evaluate(traces)) == 36  # seven formats of five shapes, and the strange one
    hover = page.evaluate("() => document.getElementById('plot').data.flatMap((one) => one.text ?? []).join()")
    assert "<img" not in hover
    assert "&lt;img" in hover
    # Hovered for real, plotly writes the kernel's name into the page.
    page.locator("#plot-note").scroll_into_view_if_needed()
    x, y = page.evaluate(
        """() => { const plot = document.getElementById('plot'), box = plot.getBoundingClientRect(), { xaxis, yaxis, _size } = plot._fullLayout;
        const trace = plot.data.find((one) => one.text?.some?.((text) => text.includes('&lt;img')));
        const index = trace.text.findIndex((text) => text.includes('&lt;img'));
        return [box.left + _size.l + xaxis.d2p(trace.x[index]), box.top + _size.t + yaxis.d2p(trace.y[index])]; }"""
    )
    page.mouse.move(x - 4, y)
    page.mouse.move(x, y)
    page.locator("#plot .hovertext").first.wait_for()
    assert "<img src=x onerror=alert(1)>" in page.text_content("#plot .hoverlayer")
    page.mouse.click(x, y)
    assert LABEL[:40] in page.text_content("#picked .case-card")
    assert page.locator("#plot img, #plot script, #picked img").count() == 0
    page.fill("#words", "28672")
    drawn(page)
    assert page.locator("#measured tr[data-case]").count() == 7
    page.select_option("#hw", "gb10")
    drawn(page)
    assert "not over those of gb10" in page.text_content("#measured")
    assert page.locator("#measured-plot .main-svg").count() > 0


def test_a_click_on_a_point_chooses_it(page):
    page.select_option("#hw", "h200-sxm")
    page.select_option("#run", RUN_ID)
    drawn(page)
    page.evaluate(
        """() => { const plot = document.getElementById('plot');
        const trace = plot.data.find((one) => one.name.startsWith('measured'));
        plot.emit('plotly_click', { points: [{ customdata: trace.customdata[0] }] }); }"""
    )
    assert "measured" in page.text_content("#picked dl").lower()
    page.evaluate("() => document.getElementById('plot').emit('plotly_click', { points: [{ customdata: 'NVFP4' }] })")
    drawn(page)
    assert page.is_checked("input[name=focus][value=NVFP4]")
    assert "focus=NVFP4" in page.url


def test_the_sensors_are_live(page):
    page.locator("#gpu dl").wait_for()
    text = page.text_content("#gpu")
    assert "612 W" in text
    assert "1.98 GHz" in text
    assert "50 %" in text
    assert "sw-power-cap" in text
    assert re.search(r"Memory clock\s*–", text)
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
    assert [name for name, _ in order] == [
        "copy",
        "theme",
        "hw",
        "operator",
        "Decode",
        "Batch 16",
        "Prefill 2k",
        "M",
        "N",
        "K",
        "cache",
        order[-1][0],
    ]
    assert all(is_visible for _, is_visible in order)
    page.focus("#M")
    page.keyboard.press("PageUp")
    drawn(page)
    assert page.input_value("#M") == "2"
    assert "2 ×" in page.text_content("#answer-title")
    page.focus("input[name=focus]:checked")
    above = page.locator("#table tr:has(+ tr.chosen)").get_attribute("data-format")
    page.keyboard.press("ArrowUp")
    drawn(page)
    assert page.evaluate("() => [document.activeElement.name, document.activeElement.value]") == ["focus", above]


def test_no_serious_fault_of_accessibility_in_light_and_dark(page):
    page.select_option("#run", RUN_ID)
    page.fill("#words", "28672")
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
    for operator in ("gemm", "attention", "model"):
        page.check(f"input[name=operator][value={operator}]", force=True)
        if operator == "gemm":
            page.select_option("#run", RUN_ID)
        drawn(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") == 390, operator
