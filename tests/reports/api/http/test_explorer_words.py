"""What the explorer says in words: what binds a time, which chip is fastest, whom a wrong name may mean, one line for
one roof, one theme.
"""

from __future__ import annotations

import shutil
from dataclasses import replace

import httpx
import pytest
from explorer_page import drawn, section, served, text

from reports.api.explorer.address import typed
from roofline_model.core.units import format_time

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'roofline-bench[api]'")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: install it to drive the page"),
]

WAITING = ("launch", "latency", "serial", "waves", "split", "append")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A server without a database, on a machine that no catalog has."""
    from reports.api.http.app import create_app
    from roofline_model.chips.hardware import get_hardware

    like = get_hardware("l4")
    paths = {
        name: path for name, path in like.paths.items() if name != "FP16"
    }  # as a CPU with instructions for BF16 alone
    own_chip = replace(like, key="own-machine", name="A machine of one's own", aliases=(), paths=paths)
    with served(create_app(tmp_path_factory.mktemp("words") / "none.db", this_chip=lambda: own_chip)) as base_url:
        yield base_url


@pytest.fixture(scope="module")
def page(address):
    """One page; playwright is closed with this file, as no other test of the thread could start an event loop."""
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
        opened.set_default_timeout(20_000)
        yield opened
        browser.close()


def headline(page) -> str:
    """Return the first sentence about the format that is looked at."""
    return text(page, "[data-section=prediction] .reading")


def taken(page) -> str:
    """Return the formats of the row that is marked as the one to take."""
    return page.locator("[data-section=formats] tr:has(.role)").get_attribute("id").removeprefix("format-")


def at(page, address, query):
    page.goto(f"{address}/?{query}")
    drawn(page)
    return page


def test_the_reason_follows_what_binds_the_expected_time(page, address):
    body = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "D": 128, "precision": "FP16"}
    seen = set()
    for cached in (4096, 128):
        expected = httpx.post(f"{address}/api/attention", json={**body, "Skv": cached}).json()["expected"]
        at(page, address, f"op=attention&compare=&focus=FP16&Skv={cached}")
        shown = text(page, "[data-section=prediction]")
        waiting = sum(expected["parts_s"].get(name, 0.0) for name in WAITING) / expected["time_s"]
        seen.add(expected["binding"])
        if expected["binding"] in WAITING:
            assert f"But {waiting * 100:.0f} % of the expected time is launch, waiting and bookkeeping" in shown
            assert "moves fewer" not in shown
        else:
            assert "Moving bytes takes" in shown
            assert "moves fewer; more arithmetic would not help" in shown
    assert seen == {"dram", "latency"}  # both sentences were looked at


def test_the_best_format_is_that_of_the_ranking(page, address):
    at(page, address, "compare=")
    advice = httpx.post(f"{address}/api/recommend", json={"M": 1, "N": 4096, "K": 4096}).json()
    best = advice["best"]
    assert taken(page) == best["format"]
    assert headline(page).startswith(f"{best['name']} should take {format_time(best['time_s'])} (")
    assert text(page, ".headline") == advice["short_answer"]["sentence"]
    at(page, address, "op=attention&Skv=128&compare=")
    body = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 128, "D": 128}
    advice = httpx.post(f"{address}/api/attention/recommend", json=body).json()
    assert text(page, ".headline") == advice["short_answer"]["sentence"]


def test_a_machine_without_a_catalog_entry_is_known_by_its_key_too(page, address):
    at(page, address, "hw=own-machine&compare=")
    assert page.input_value("[name=hw]") == "auto"
    assert page.text_content("#answer-title").endswith("on A machine of one's own")
    assert "hw=own-machine" in page.url


def test_sizes_are_read_as_people_write_them(page, address):
    at(page, address, "N=4,096&K=4 096&compare=")
    assert page.text_content("#answer-title").startswith("GEMV 1 × 4,096 × 4,096")
    texts = ["1e9", "4096", "7", "4,09", "1,2,3", "4.5", "-5", "", "abc", "1e999"]
    assert list(map(typed, texts)) == [1e9, 4096, 7, "4,09", "1,2,3", 4.5, "-5", "", "abc", "1e999"]


def test_a_format_without_an_expected_time_says_why_and_offers_the_pair_that_has_one(page, address):
    at(page, address, "op=attention&compare=&formats=FP16,INT8.INT8")
    body = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 1, "Skv": 4096, "D": 128, "precision": "INT8"}
    reason = httpx.post(f"{address}/api/attention", json=body).json()["expected_reason"]["text"]
    assert reason in section(page, "formats").text_content()
    page.get_by_role("link", name="Add INT8 KV").click()
    drawn(page)
    assert httpx.URL(page.url).params["formats"] == "FP16,INT8.INT8,INT8.FP16"
    assert page.locator("[id='format-INT8.FP16'] td[data-head=Expected]").get_attribute("data-value") != ""
    assert section(page, "formats").locator("a.button").count() == 0


def test_chips_are_compared_by_the_recommendation_of_each_first(page, address):
    at(page, address, "compare=b200&formats=FP16,INT4.FP16&focus=INT4.FP16")
    best = {}
    for chip in ("gb10", "b200"):
        answer = httpx.post(f"{address}/api/recommend?hardware_key={chip}", json={"M": 1, "N": 4096, "K": 4096}).json()
        best[chip] = answer["best"]["name"], answer["best"]["time_s"]
    assert best["gb10"][0] == "FP8 (W8A8)"  # none of the chosen formats: a row of its own
    assert taken(page) == "FP8_E4M3"
    first, second = section(page, "chips").locator("> p").all_text_contents()[:2]
    ratio = best["gb10"][1] / best["b200"][1]
    assert first.startswith("Each as recommended: NVIDIA B200")
    assert f"with {best['b200'][0]} " in first
    assert f"is {ratio:.1f}× as fast as NVIDIA GB10" in first
    assert "with FP8 (W8A8) " in first
    assert second.startswith("All in INT4 (W4A16): ")
    widths = page.evaluate("() => [...document.querySelectorAll('.card .fill')].map((bar) => bar.offsetWidth)")
    assert len(widths) == 6
    assert min(widths) > 10


def test_a_plan_that_is_no_format_of_the_page_is_the_one_answer(page, address):
    at(page, address, "hw=rtx4090&op=model&batch=32&compare=h100-sxm")
    path, body = f"{address}/api/models/llama-3.1-8b/recommend", {"batch_count": 32, "context_tokens": 4096}
    answers = {chip: httpx.post(f"{path}?hardware_key={chip}", json=body).json() for chip in ("rtx4090", "h100-sxm")}
    plan, other = (answer["candidates"][0] for answer in answers.values())
    assert (plan["formats"], plan["name"]) == ("FP8_E4M3; cache FP8_E4M3", "FP8 (W8A8) + FP8 KV")
    assert headline(page).startswith(f"{plan['name']} should take {format_time(plan['time_s'])} (")
    assert headline(page).endswith(", 1.9× as fast as BF16.")
    assert page.locator(".short tr.chosen th").text_content() == plan["name"]
    assert taken(page) == plan["formats"]
    assert section(page, "time").locator(".parts tbody tr").count() > 3
    assert other["name"] == plan["name"]
    assert (
        section(page, "chips")
        .locator("> p")
        .first.text_content()
        .startswith(f"Recommended on each is {plan['name']}: ")
    )
    at(page, address, "hw=l4&op=model&batch=64&context=16384&compare=h100-sxm")
    first = text(page, "[data-section=chips] > p >> nth=0")
    assert first.startswith("Nothing is recommended on NVIDIA L4 24 GB: nothing meets the limits")
    assert "It does not fit" in headline(page)
    assert page.locator("[data-section=formats] .role").count() == 0


def test_the_formats_at_first_are_those_of_the_chips_own_16_bit(page, address):
    for query, base in (("hw=auto", "BF16"), ("hw=gb10", "FP16"), ("hw=gb10&op=model", "BF16")):
        at(page, address, f"{query}&compare=")
        formats = [row.get_attribute("id").removeprefix("format-") for row in page.locator("tr[id^=format-]").all()]
        assert formats[:5] == [base, "FP8_E4M3", "INT8.INT8", "NVFP4", f"INT4.{base}"], query
        assert section(page, "formats").locator("thead").text_content().count(f"vs {base}") == 1


def test_a_format_without_a_kernel_would_take_its_time(page, address):
    at(page, address, "hw=h100-sxm&compare=&focus=NVFP4")
    shown = headline(page)
    assert shown.startswith("NVFP4 (W4A4) would take ")
    assert shown.endswith("No kernel that could run it on this chip is known.")
    at(page, address, "hw=gb10&op=model&compare=&focus=INT8.INT8")
    shown = headline(page)
    assert shown.startswith("INT8 (W8A8) would take ")
    path = f"{address}/api/models/llama-3.1-8b/predict?hardware_key=gb10"
    gap = httpx.post(path, json={"formats": "INT8.INT8"}).json()["kernel_gap"]
    assert gap["values"]["library"] == "torch"
    assert gap["values"]["hardware"] == "gb10"
    assert gap["text"][1:] in shown  # as the finding words it, begun as a sentence
    assert "no engine" in page.text_content("[id='format-INT8.INT8']")


def test_a_chip_nobody_knows_is_one_sentence_with_the_names_that_come_near(page, address):
    at(page, address, "hw=h100x&compare=h20")
    assert "Known:" not in page.text_content("body")
    assert page.text_content("#error-hw") == "No chip here is called “h100x”."
    assert page.get_attribute("[name=hw]", "aria-invalid") == "true"
    section(page, "answer").get_by_role("link", name="H100 SXM").click()
    drawn(page)
    assert page.input_value("[name=hw]") == "h100-sxm"
    assert page.text_content("#error-hw") == ""
    page.locator(".card:has-text('“h20”')").get_by_role("link", name="H200").click()
    drawn(page)
    assert httpx.URL(page.url).params["compare"] == "h200-sxm"
    problem = httpx.post(f"{address}/api/analyze?hardware_key=h100x", json={"M": 1, "N": 1, "K": 1}).json()
    assert "h100-sxm" in problem["errors"][0]["nearest"]


@pytest.mark.parametrize("chip", ["mi300x", "b10"])
def test_a_chip_without_expected_times_is_asked_nothing_that_it_cannot_answer(page, address, chip):
    messages = []
    page.on("console", lambda message: messages.append(message.text))
    at(page, address, f"hw={chip}")
    assert "no expected time is known" in headline(page)
    assert messages == []


def test_a_name_written_as_the_api_takes_it_is_the_one_chosen(page, address):
    at(page, address, "op=model&hw=RTX4090&model=Llama-3.1_8B&compare=rtx_4090,L4")
    assert (page.input_value("[name=hw]"), page.input_value("[name=model]")) == ("rtx-4090", "llama-3.1-8b")
    assert page.locator(".card h3").all_text_contents()[1].startswith("NVIDIA L4")
    assert page.locator(".card").count() == 2
    assert page.locator("#format-chips input:checked").first.get_attribute("value") == "BF16"


def test_a_wrong_size_is_not_called_a_chip_that_cannot_compute(page, address):
    at(page, address, "N=0&compare=b200")
    assert "cannot compute" not in page.text_content("#results").lower()
    assert text(page, ".headline") == "No prediction until the marked input is mended."
    at(page, address, "op=model&batch=x&compare=")
    error = page.text_content("#error-batch")
    assert error.startswith("Batch should be ")
    assert error.endswith("got 'x'")


def test_the_theme_is_kept_and_the_plot_follows(page, address):
    at(page, address, "compare=")
    light = page.evaluate(
        "() => [getComputedStyle(document.body).backgroundColor, document.getElementById('figure-roofline').layout.font.color]"
    )
    page.select_option("#theme", "dark")
    page.wait_for_timeout(150)
    dark = page.evaluate(
        "() => [getComputedStyle(document.body).backgroundColor, document.getElementById('figure-roofline').layout.font.color]"
    )
    assert light[0] == "rgb(246, 247, 249)"
    assert dark[0] == "rgb(14, 18, 22)"
    assert light[1] != dark[1]
    assert page.evaluate("() => localStorage.getItem('roofline-theme')") == "dark"
    page.select_option("#theme", "system")
    assert page.evaluate("() => localStorage.getItem('roofline-theme')") is None
