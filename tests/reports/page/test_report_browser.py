"""The page in a real browser: quiet, exact, usable by mouse and keyboard, light and dark, with a screen reader."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reports.page import page_data as page_data_module
from reports.page.page_data import case_row
from reports.present.cases import name_of
from reports.view.views import report_view
from results.exchange.exported.load import import_file
from results.records.records import EnvironmentInfo
from results.store.store import open_store
from roofline_cli.main import app
from roofline_model.core.finding import finding
from roofline_model.core.units import format_bandwidth, format_flops, format_percent, format_time

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / "vendor" / "axe-core" / "axe.min.js"
FORMATS = {
    "measured_s": format_time,
    "ideal_s": format_time,
    "achieved_bytes_per_s": format_bandwidth,
    "achieved_flops_per_s": format_flops,
    "error_ideal_ratio": lambda value: format_percent(value, signed=True),
    "roof_share_ratio": lambda value: format_percent(value, 0),
}


@pytest.fixture(scope="module")
def rich(make, open_page):
    """The page of a run that uses everything, at the width of a desk, for the tests that use it one after the other."""
    return open_page(make, make.rich_records(), make.GPU, canaries=make.canaries(), name="rich")


@pytest.fixture
def page(rich):
    """That page, as it was opened: nothing filtered, sorted, searched or selected."""
    page = rich.page
    yield page
    page.evaluate("""() => {
        document.querySelectorAll('.reset, .selected .close').forEach((one) => one.click());
        const search = document.querySelector('input[type=search]');
        search.value = ''; search.dispatchEvent(new Event('input'));
        const sorted = document.querySelector('th[aria-sort=ascending] button, th[aria-sort=descending] button');
        while (sorted && sorted.parentElement.getAttribute('aria-sort') !== 'none') sorted.click();
    }""")
    assert rich.faults == []


def numbers(page):
    return page.eval_on_selector_all(
        "table.cases tbody tr[data-number]", "rows => rows.map(row => Number(row.dataset.number))"
    )


def column(page, name):
    cells = page.eval_on_selector_all(
        f".live td[data-column={name}]", "cells => cells.map(one => one.dataset.value ?? null)"
    )
    return [None if cell is None else float(cell) for cell in cells]


def point_of(page, row):
    """The place of a case's measured mark on the screen."""
    place = page.evaluate(
        """([x, rate, unit]) => {
        const plot = document.querySelector('.figure.tall');
        plot.scrollIntoView({block: 'center'});
        const {xaxis, yaxis} = plot._fullLayout, box = plot.getBoundingClientRect();
        return [box.left + xaxis._offset + xaxis.l2p(Math.log10(x)), box.top + yaxis._offset + yaxis.l2p(Math.log10(rate / unit))];
    }""",
        [row["intensity_flop_per_byte"], row["achieved_flops_per_s"], 1e12],
    )
    return place


def test_it_opens_quietly_and_shows_what_is_live(rich, page):
    assert rich.faults == []
    assert page.locator(".live .figure.tall .main-svg").first.is_visible()
    assert not page.locator("section .still figure.plot").first.is_visible()
    assert page.locator("script").count() == 3
    policy = page.locator("meta[http-equiv]").get_attribute("content")
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")
    assert policy.count("'sha256-") == 2


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
@pytest.mark.parametrize("kind", ["measured", "predicted"])
def test_the_first_screen_has_the_answer_the_roofline_and_how_good_predictions_were(
    make, open_page, kind, width, height
):
    records = make.cpu_records()
    if kind == "predicted":
        records = [replace(record, status="predicted", measurement=None) for record in records if record.measurement]
    watched = open_page(make, records, make.CPU, name=f"first-{kind}-{width}", width=width)
    page = watched.page
    page.evaluate("document.querySelectorAll('.filters').forEach((one) => { one.open = false; })")
    page.wait_for_function("document.querySelector('.figure.tall .main-svg')")
    layout = page.evaluate("""() => {
        const place = (one) => { const box = one.getBoundingClientRect(); return [box.top, box.bottom]; };
        const tables = [...document.querySelectorAll('table.options')];
        const first = document.querySelector('section.verdict .part');
        return {
            tables: tables.map(place), figure: place(document.querySelector('.figure.tall')), checks: place(document.querySelector('.checks')),
            text: first.innerText, wide: tables.filter((one) => one.scrollWidth > one.closest('.scroll').clientWidth + 1).length,
            page: document.documentElement.scrollWidth,
        };
    }""")
    assert layout["tables"]
    assert all(bottom <= height for _, bottom in layout["tables"])
    assert layout["checks"][1] <= height
    assert layout["figure"][0] + 150 <= height
    assert not layout["wide"]
    assert layout["page"] == width
    assert not [record.case.id for record in records if record.case.id in layout["text"]]
    assert "Predictions" in layout["text"]
    assert "What got worse" in layout["text"]
    assert watched.faults == []


@pytest.fixture(scope="module")
def stored_page(pytestconfig, tmp_path_factory) -> str:
    """The report of a GPU's run, beside which the database holds others: sentences, long shapes, published losses."""
    folder = tmp_path_factory.mktemp("all-runs")
    with open_store(folder / "results.db") as store:
        for name in ("quick", "modes", "aa1"):
            import_file(store, pytestconfig.rootpath / "examples" / "runs" / "h200-sxm" / f"{name}.json")
    place = folder / "report.html"
    arguments = ["report", "--db", str(folder / "results.db"), "--run", "quick", "-o", str(place)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    return place.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_answers_of_all_runs_are_read_without_scrolling_sideways(make, open_page, stored_page, width):
    watched = open_page(make, [], make.GPU, html=stored_page, name=f"stored-{width}", width=width)
    table = watched.page.locator("table.answers")
    table.scroll_into_view_if_needed()
    layout = table.evaluate("""(table) => {
        const box = table.closest('.scroll').getBoundingClientRect();
        const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
        const at = (name) => heads.indexOf(name);
        return [...table.tBodies[0].rows].map((row) => {
            const line = parseFloat(getComputedStyle(row.cells[1]).lineHeight);
            return {
                taken: row.cells[at('Take')].textContent, lines: row.cells[at('Take')].clientHeight / line,
                shown: ['Take', 'Time', 'Loss', 'Confidence'].filter((name) => {
                    const place = row.cells[at(name)].getBoundingClientRect();
                    return place.width > 0 && place.left >= box.left - 1 && place.right <= box.right + 1;
                }),
                told: getComputedStyle(row.cells[at('Confidence')], '::before').content,
            };
        });
    }""")
    answered = [row for row in layout if "is fastest" not in row["taken"]]
    assert len(layout) > len(answered) > 20
    assert all(row["shown"] == ["Take", "Time", "Loss", "Confidence"] for row in answered)
    assert all(row["lines"] < 5.5 for row in layout)
    is_stacked = width < 640
    assert all(("Confidence" in row["told"]) is is_stacked for row in answered)  # its head is out of sight there
    alone = watched.page.locator("table.answers tr", has_text="gemm 512x4096x4096, cold, graph").locator("td")
    assert "nothing to choose yet" in alone.first.inner_text()
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.faults == []


def test_numbers_in_the_table_equal_the_records(make, page):
    view = report_view(make.run(), make.rich_records(), make.profiles(make.GPU))
    for name, text in FORMATS.items():
        stored = [getattr(case, name) for case in view.cases]
        shown_rows = page.eval_on_selector_all(
            f".live td[data-column={name}]", "cells => cells.map(one => [one.dataset.value ?? null, one.textContent])"
        )
        values = [None if value is None else float(value) for value, _ in shown_rows]
        assert values == ([value for value in stored if value is not None] if name == "measured_s" else stored)
        assert [shown for _, shown in shown_rows] == [text(value) for value in values]


def test_pointing_at_a_mark_shows_its_numbers(make, page):
    record = next(candidate for candidate in make.rich_records() if candidate.case.kernel == "int_mm_padded")
    rate = record.ideal.flops / record.measurement.median_s
    spot = point_of(
        page, {"intensity_flop_per_byte": record.ideal.intensity_flop_per_byte, "achieved_flops_per_s": rate}
    )
    page.mouse.move(spot[0] + 40, spot[1] + 90)
    page.mouse.move(*spot, steps=4)
    page.wait_for_selector(
        ".tip:not([hidden])", state="attached"
    )  # not a function: the page's policy forbids to evaluate one
    text = page.locator(".tip").inner_text()
    assert "INT8 (W8A8) · int_mm_padded" in text
    assert format_time(record.measurement.median_s) in text
    assert format_flops(rate) in text
    assert format_percent(record.ideal.error_ratio, signed=True) in text
    page.mouse.click(*spot)
    assert "int_mm_padded" in page.locator(".selected.is-open").inner_text()
    page.mouse.move(5, 5)
    page.wait_for_selector(".tip[hidden]", state="attached")


def test_filters_hold_for_table_and_plot_and_are_undone(make, page):
    every = numbers(page)
    pill = page.locator(".pill[data-value='INT4 (W4A16)']")
    pill.click()
    assert pill.get_attribute("aria-pressed") == "true"
    shown = numbers(page)
    assert 0 < len(shown) < len(every)
    assert page.locator(".shown").inner_text() == f"{len(shown)} of {len(every)} cases"
    drawn = (
        "document.querySelector('.figure.tall').data.filter(one => one.name.startsWith('measured ')).reduce((sum, one) "
        "=> sum + one.customdata.length, 0)"
    )
    assert page.evaluate(drawn) == len(shown)
    page.locator(".pill[data-value=graph], .pill[data-value='cold, graph']").first.click()
    assert len(numbers(page)) == 1
    page.get_by_role("button", name="Show all").click()
    assert numbers(page) == every
    assert not page.get_by_role("button", name="Show all").is_visible()


def test_sorting_by_keyboard_goes_up_down_and_back(page):
    every = numbers(page)
    head = page.locator("th:has(button.sort:text-is('Ideal'))")
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    up = column(page, "ideal_s")
    up_numbers = [value for value in up if value is not None]
    assert up_numbers == sorted(up_numbers)
    assert up[len(up_numbers) :] == [None] * (len(up) - len(up_numbers))
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    down = [value for value in column(page, "ideal_s") if value is not None]
    assert down == sorted(up_numbers, reverse=True)
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "none"
    assert numbers(page) == every


def test_search_finds_words_of_a_case_in_any_order(page):
    page.get_by_role("searchbox").fill("TINYGEMM graph")
    (number,) = numbers(page)
    assert "tinygemm" in page.locator(f"#row-{number}").inner_text()
    page.get_by_role("searchbox").fill("no such case")
    assert numbers(page) == []
    assert "0 of" in page.locator(".live .tools [role=status]").inner_text()


def test_the_theme_changes_page_and_plot(page):
    before = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, document.querySelector('.figure.tall').layout.font.color]"
    )
    page.get_by_role("radio", name="Dark").check(force=True)
    dark = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, document.querySelector('.figure.tall').layout.font.color]"
    )
    assert dark[0] == "rgb(14, 18, 22)"
    assert all(left != other for left, other in zip(before, dark, strict=True))
    page.get_by_role("radio", name="Auto").check(force=True)
    assert (
        page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, "
            "document.querySelector('.figure.tall').layout.font.color]"
        )
        == before
    )


def test_everything_can_be_reached_by_keyboard(page):
    page.evaluate("document.querySelector('h1').tabIndex = -1; document.querySelector('h1').focus()")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.filters > summary')"):
            page.keyboard.press("Enter")
        reached |= set(
            page.evaluate(
                "[document.activeElement.tagName, ...document.activeElement.classList, document.activeElement.type || "
                "'']"
            )
        )
    assert {"radio", "pill", "SUMMARY"} <= reached
    opener = page.locator(".open").first
    opener.focus()
    outline = opener.evaluate("one => getComputedStyle(one).outlineStyle")
    page.keyboard.press("Enter")
    assert outline != "none"
    assert opener.get_attribute("aria-pressed") == "true"
    assert page.locator(".selected.is-open").is_visible()
    page.get_by_role("button", name="Close").press("Enter")
    assert not page.locator(".selected.is-open").is_visible()


def test_evidence_leads_to_the_row_of_its_case(page):
    link = page.locator("a.evidence").first
    number = int(link.get_attribute("href").removeprefix("#case-"))
    link.click()
    assert page.evaluate("document.activeElement.closest('tr').id") == f"row-{number}"


def test_the_data_behind_a_figure_can_be_downloaded(make, page):
    with page.expect_download() as waiting:
        page.locator("[data-live=cases] button:text-is('Data (CSV)')").click()
    rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))
    view = report_view(make.run(), make.rich_records(), make.profiles(make.GPU))
    assert list(rows[0]) == list(case_row(view.cases[0], 1, None))
    assert [row["name"] for row in rows] == [name_of(case.case) for case in view.cases]
    for row, case in zip(rows, view.cases, strict=True):
        assert (float(row["measured_s"]) if row["measured_s"] else None) == case.measured_s


def test_figures_below_are_drawn_when_they_are_near(page):
    for kind in ("errors", "samples"):
        page.locator(f"[data-live={kind}]").scroll_into_view_if_needed()
        page.wait_for_selector(f"[data-live={kind}] .main-svg")
    select = page.locator("[data-live=samples] select")
    flagged = select.locator("option").all_inner_texts()
    assert any("bimodal" in title for title in flagged)
    select.select_option(index=len(flagged) - 1)
    assert page.locator("[data-live=samples] .main-svg").first.is_visible()


def test_a_checker_of_accessibility_finds_no_serious_fault(page):
    page.evaluate(AXE.read_text(encoding="utf-8"))
    faults = {}
    for theme, rules in (("Light", ""), ("Dark", ", runOnly: ['color-contrast']")):
        page.get_by_role("radio", name=theme).check(force=True)
        violations = page.evaluate(f"axe.run({{resultTypes: ['violations']{rules}}}).then(one => one.violations)")
        serious = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
        faults[theme] = [
            (violation["id"], [node["html"][:120] for node in violation["nodes"][:3]]) for violation in serious
        ]
    page.get_by_role("radio", name="Auto").check(force=True)
    assert faults == {"Light": [], "Dark": []}


def test_paper_gets_the_static_page(page):
    page.emulate_media(media="print")
    assert page.locator("section .still figure.plot").first.is_visible()
    assert page.locator("section .still table.cases").is_visible()
    assert not page.locator(".live").first.is_visible()
    page.emulate_media(media="screen")


HOSTILE = (
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=2></script>\"'&amp;\u202egnirts\u2028%{x} =1+1 "
    "$x$"
)


def test_hostile_names_are_text_on_a_phone(make, open_page):
    records = [
        replace(
            make.record(
                (1, 64, 64),
                "BF16",
                "BF16",
                HOSTILE,
                1e-3,
                number=1,
                flags=("bimodal", HOSTILE),
                samples_s=make.series("bimodal", 1e-3),
            ),
            reason=HOSTILE,
        ),
        make.record((1, 64, 64), "FP16", "FP16", "y" * 100_000, 2e-3, number=2),
        make.record((1, 64, 64), "INT8", "INT8", "</script><b>bold</b>", 3e-3, number=3),
    ]
    case = replace(records[0].case, op=HOSTILE)
    ideal = replace(
        records[0].ideal,
        findings=(finding("host-time", source=HOSTILE), finding("host-time", source="`run <b>it</b>`")),
        memory_level=HOSTILE,
        provenance=HOSTILE,
        bound=HOSTILE,
    )
    records[0] = replace(records[0], case=case, predictions=(ideal,))
    facts = EnvironmentInfo({"gpu": HOSTILE, HOSTILE: [HOSTILE]}, {})
    run = {"label": HOSTILE, "command": HOSTILE, "run_id": HOSTILE, "environment": facts}
    watched = open_page(make, records, make.CPU, run=run, name="hostile", width=390)
    page = watched.page
    page.locator("[data-live=samples]").scroll_into_view_if_needed()
    page.wait_for_selector("[data-live=samples] .main-svg")
    page.locator(".live .open").first.click()
    assert watched.faults == []
    assert page.evaluate(
        "[window.hacked ?? null, document.images.length, document.querySelectorAll('script').length, "
        "document.querySelectorAll('.live b').length]"
    ) == [None, 0, 3, 0]
    text = page.locator(".live table.cases").inner_text()
    assert "<script>" in text
    page.locator(".live .open").nth(2).click()
    assert "</script><b>bold</b>" in page.locator(".selected").inner_text()
    assert "run <b>it</b>" in page.locator(".live .remark code").all_inner_texts()
    page.locator(".live .open").nth(1).click()
    assert re.search(r"Of its shape\s+fastest\b", page.locator(".selected").inner_text())
    assert "\u202e" not in page.content()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_many_points_are_drawn_by_webgl_and_without_it_as_shapes(make, open_page, monkeypatch):
    monkeypatch.setattr(page_data_module, "SVG_LIMIT_COUNT", 10)
    kinds = (
        "[...new Set(document.querySelector('.figure.tall').data.filter(one => /^(measured|predicted) "
        "/.test(one.name)).map(one => one.type))].sort()"
    )
    none = (
        "const get = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext = function(kind, "
        "...rest) { return /webgl/.test(kind) ? null : get.call(this, kind, ...rest); };"
    )
    for init, kind in (("", "scattergl"), (none, "scatter")):
        watched = open_page(make, make.gpu_records()[:14], make.GPU, name=f"many-{kind}", init=init)
        assert watched.page.evaluate(kinds) == [kind] or (
            not init and not watched.page.evaluate("Boolean(document.createElement('canvas').getContext('webgl'))")
        )
        assert watched.faults == []


def test_without_scripts_the_static_page_is_there(make, open_page):
    watched = open_page(make, make.cpu_records()[:4], make.CPU, name="plain", wait=False, java_script_enabled=False)
    page = watched.page
    assert page.locator("section figure.plot").first.is_visible()
    assert page.locator("table.cases tbody tr").count() == 4
    assert page.locator(".live:visible").count() == 0
    assert watched.faults == []


# --- advice, trade-offs, all stored runs


def test_a_shape_of_the_matrix_opens_its_ranking_by_keyboard(page):
    link = page.locator(".matrix a[href^='#ranking']").last
    body = page.locator(link.get_attribute("href"))
    assert not body.is_visible()
    link.focus()
    page.keyboard.press("Enter")
    body.wait_for(state="visible")
    assert body.locator("table tbody tr").count() > 1


def test_the_trade_offs_change_with_axes_and_question(page):
    section = page.locator("section[aria-labelledby=pareto]")
    section.scroll_into_view_if_needed()
    section.locator(".figure .main-svg").first.wait_for()
    assert section.get_by_role("button", name="Loss of quality").get_attribute("aria-pressed") == "true"
    section.get_by_role("button", name="Energy").click()
    assert section.get_by_role("button", name="Energy").get_attribute("aria-pressed") == "true"
    assert "Energy per call" in section.locator(".ytitle").first.text_content()
    section.get_by_role("button", name="Time").focus()
    page.keyboard.press("Enter")
    assert "Time per call" in section.locator(".xtitle").first.text_content()
    section.locator("summary").click()
    before = section.locator("caption").inner_text()
    section.locator("select").select_option(index=1)
    assert section.locator("caption").inner_text() != before
    assert section.locator("tbody tr").count() > 1
