"""The figures of errors, of where the time went and of the run over time, in a real browser."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import replace
from pathlib import Path

import pytest

from reports.figures.drawing.palette import ACCENT, SURFACE
from reports.page.html import render_page
from reports.view.views import report_view
from results.exchange.exported.load import read_exports
from results.records.records import TelemetrySample
from roofline_model.core.units import format_percent, format_time

pytestmark = pytest.mark.browser


def with_terms(record):
    """The record with an expected time in parts, as the expected model stores it."""
    if record.ideal is None or record.measurement is None:
        return record
    dram_s, tensor_s = record.ideal.memory_time_s * 1.12, record.ideal.compute_time_s * 1.18
    time_s = (max(dram_s, tensor_s) + 2.2e-6) * 1.06
    made = replace(
        record.ideal,
        kind="expected",
        time_s=time_s,
        low_s=0.9 * time_s,
        high_s=1.2 * time_s,
        provenance="fitted",
        terms_s={"dram": dram_s, "tensor": tensor_s, "launch": 2.2e-6},
        error_ratio=time_s / record.measurement.median_s - 1,
    )
    return replace(record, predictions=(record.ideal, made))


def with_readings(record, number):
    noise = random.Random(number)
    readings = tuple(
        TelemetrySample(time_s=0.05 * n, power_w=400 + noise.gauss(0, 9), sm_clock_hz=1.9e9) for n in range(1, 30)
    )
    return record if record.measurement is None else replace(record, telemetry=readings)


@pytest.fixture(scope="module")
def timeline_page(make, open_page):
    """The page of a run with expected times, telemetry, energy, a held down clock and canaries."""
    records = [with_readings(with_terms(record), number) for number, record in enumerate(make.rich_records())]
    return open_page(make, records, make.GPU, canaries=make.canaries(), name="told")


@pytest.fixture
def page(timeline_page):
    yield timeline_page.page
    timeline_page.page.evaluate("document.querySelectorAll('.reset, .selected .close').forEach((one) => one.click())")
    assert timeline_page.faults == []


def rgb(colour):
    """A colour as the browser writes it: #fffffe → rgb(255, 255, 254)."""
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


def figure(page, kind):
    page.locator(f"[data-live={kind}]").scroll_into_view_if_needed()
    page.wait_for_selector(f"[data-live={kind}] .main-svg", state="attached")
    return f"document.querySelector('[data-live={kind}] .figure')"


def chosen(page, label):
    return page.locator(f"label.choice:has(span:text-is('{label}')) select")


def test_every_figure_is_drawn_without_anybody_scrolling(page):
    for kind in ("errors", "gaps", "samples", "timeline"):
        page.wait_for_selector(f"[data-live={kind}] .main-svg", state="attached")


def test_each_case_has_a_dot_for_the_ideal_and_one_for_the_expected_time(page):
    plot = figure(page, "errors")
    count = (
        f"['ideal', 'expected'].map(name => {plot}.data.filter(one => one.name === name).reduce((sum, one) => sum + "
        "one.customdata.length, 0))"
    )
    dots = page.evaluate(count)
    cases = page.locator(".live table.cases tbody tr td[data-column=error_expected_ratio][data-value]").count()
    assert dots == [cases, cases]
    page.locator(".pill[data-value='INT4 (W4A16)']").click()
    fewer = page.evaluate(count)
    assert 0 < fewer[0] < cases


def test_bars_add_up_to_the_measured_times_and_follow_sort_and_filter(page):
    plot = figure(page, "gaps")
    sums = (
        f"{plot}.data.filter(one => one.type === 'bar').reduce((all, one) => one.x.map((x, at) => x + (all[at] || 0)), "
        "[])"
    )
    shares = page.evaluate(sums)
    assert len(shares) == 13
    assert shares == pytest.approx([100.0] * 13, rel=1e-3)  # percent
    chosen(page, "Scale").select_option("time")
    chosen(page, "Sort by").select_option("3")
    times = page.evaluate(sums)
    stored = page.eval_on_selector_all(
        ".live td[data-column=measured_s][data-value]", "cells => cells.map(one => Number(one.dataset.value))"
    )
    assert times == pytest.approx([seconds * 1e3 for seconds in stored], rel=1e-3)  # ms: the longest is 1.7
    chosen(page, "One bar per").select_option("1")
    assert len(page.evaluate(sums)) == 13  # no two cases share operator, regime and format
    assert sum(page.evaluate(sums)) == pytest.approx(sum(stored) * 1e3, rel=1e-3)
    page.locator(".pill[data-value='INT8 (W8A8)']").click()
    assert len(page.evaluate(sums)) == 1
    for label, value in (("Scale", "share"), ("Sort by", "0"), ("One bar per", "0")):
        chosen(page, label).select_option(value)


def test_a_bar_of_a_group_is_as_long_as_its_cases_that_pass(make, open_page):
    bounds = {"memory": (64, 4096, 4096), "compute": (2048, 4096, 4096)}
    records = [
        make.record(shape, width, width, "matmul", time_s, device=make.GPU, number=number)
        for number, (shape, width, time_s) in enumerate(
            (shape, width, time_s) for shape in bounds.values() for width, time_s in (("BF16", 2e-3), ("FP16", 3e-3))
        )
    ]
    watched = open_page(make, records, make.GPU, name="groups")
    page = watched.page
    plot = figure(page, "gaps")
    chosen(page, "Scale").select_option("time")
    chosen(page, "One bar per").select_option("1")
    sums = (
        f"{plot}.data.filter(one => one.type === 'bar').reduce((all, one) => one.x.map((x, at) => x + (all[at] || 0)), "
        "[])"
    )
    ideal = f"{plot}.data.find(one => one.name === 'ideal roof').x.reduce((sum, x) => sum + x, 0)"
    assert sorted(page.evaluate(sums)) == pytest.approx([4.0, 6.0], rel=1e-3)  # ms
    whole = page.evaluate(ideal)
    parts = []
    for bound in bounds:
        pill = page.locator(f".pill[data-value='{bound}']")
        pill.click()
        assert sorted(page.evaluate(sums)) == pytest.approx([2.0, 3.0], rel=1e-3)
        parts.append(page.evaluate(ideal))
        pill.click()
    assert sum(parts) == pytest.approx(whole, rel=1e-3)
    assert watched.faults == []


def test_pointing_at_a_bar_tells_its_parts_and_pressing_it_leads_to_its_row(page):
    plot = figure(page, "gaps")
    chosen(page, "Sort by").select_option("3")
    page.evaluate(f"{plot}.scrollIntoView({{block: 'center'}})")
    x, y = page.evaluate(
        f"(() => {{ const {{xaxis, yaxis}} = {plot}._fullLayout, box = {plot}.getBoundingClientRect();"
        "return [box.left + xaxis._offset + xaxis.l2p(10), box.top + yaxis._offset + yaxis.l2p(0)]; })()"
    )
    page.mouse.move(x + 60, y + 60)
    page.mouse.move(x, y, steps=4)
    row = page.locator(".live table.cases tbody tr").first
    measured_s = float(row.locator("[data-column=measured_s]").get_attribute("data-value"))
    ideal_s = float(row.locator("[data-column=ideal_s]").get_attribute("data-value"))
    tip = page.locator(".tip:not([hidden])", has_text=format_time(measured_s))
    tip.wait_for()  # on its way the pointer may have met another bar
    text = tip.inner_text()
    assert f"{format_time(ideal_s, 3)}, {format_percent(ideal_s / measured_s, 0)}" in text
    assert "launch floor" in text
    page.mouse.click(x, y)
    assert page.evaluate("document.activeElement.closest('tr').id") == row.get_attribute("id")
    chosen(page, "Sort by").select_option("0")


def test_the_run_over_time_has_its_readings_its_steps_and_what_was_held_down(page):
    plot = figure(page, "timeline")
    titles = page.evaluate(
        f"Object.keys({plot}.layout).filter(one => one.startsWith('yaxis')).map(one => {plot}.layout[one].title.text)"
    )
    assert titles == ["Power (W)", "SM clock (GHz)", "Temp. (°C)", "Energy per call", ""]
    assert page.evaluate(f"{plot}.layout.shapes.length") == 1
    lane = page.evaluate(
        f"[...{plot}.querySelectorAll('.barlayer .point path')].map(one => getComputedStyle(one).fill)"
    )
    legend = page.locator("[data-live=timeline] .legend-line svg:not(:has(path)) rect[fill^='#']")
    inks = legend.evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
    assert {fill for fill in lane if not fill.startswith("url")} == set(inks)
    assert sum(fill.startswith("url") for fill in lane) == 1
    ground, stripes = page.evaluate(
        f"[...{plot}.querySelectorAll('.patterns pattern > *')].map(one => one.getAttribute('stroke') || "
        "one.getAttribute('fill'))"
    )
    assert (ground, stripes) == (rgb(ACCENT.light), rgb(SURFACE.light))
    canaries = f"{plot}.data.filter(one => /canary/.test(one.name)).reduce((sum, one) => sum + one.x.length, 0)"
    assert page.evaluate(canaries) == 9
    assert "clock held down" in page.locator("[data-live=timeline] .legend-line").inner_text()


def test_the_samples_behind_the_figure_equal_the_records_to_the_digit(make, page):
    figure(page, "samples")
    with page.expect_download() as waiting:
        page.locator("[data-live=samples] button:text-is('Data (CSV)')").click()
    rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))
    stored = [record.measurement.samples_s for record in make.rich_records() if record.measurement is not None]
    assert len(rows) > 2
    assert tuple(float(row["time_s"]) for row in rows) in stored


def test_the_worst_case_of_a_group_leads_to_its_row(page):
    link = page.locator("section:has(> #errors) td a").first
    number = int(link.get_attribute("href").removeprefix("#case-"))
    link.click()
    assert page.evaluate("document.activeElement.closest('tr').id") == f"row-{number}"


def test_a_table_that_goes_on_fades_at_its_edge_until_its_end(page):
    box = page.locator(".scroll:has(table.cases):visible").first
    assert "has-more" in box.get_attribute("class")
    box.evaluate("one => { one.scrollLeft = one.scrollWidth; }")
    page.wait_for_selector(".scroll.has-before:not(.has-more):has(table.cases)")
    box.evaluate("one => { one.scrollLeft = 0; }")


def test_the_name_of_the_fastest_covers_no_mark_and_far_from_its_own_a_line_leads_there(page):
    values = page.evaluate("""() => {
        const plot = document.querySelector('.figure.tall'), {xaxis, yaxis} = plot._fullLayout;
        const note = plot.layout.annotations.find((one) => /^Fastest/.test(one.text));
        const drawn = [...plot.querySelectorAll('.annotation')].find((one) => /Fastest/.test(one.textContent)).querySelector('rect').getBoundingClientRect();
        const frame = plot.getBoundingClientRect();
        const box = [drawn.left, drawn.top, drawn.right, drawn.bottom].map((one, at) => one - (at % 2 ? frame.top + yaxis._offset : frame.left + xaxis._offset));
        const marks = plot.data.filter((one) => /^(measured|predicted|expected) /.test(one.name) && one.mode === 'markers')
            .flatMap((one) => one.x.map((x, at) => [xaxis.l2p(Math.log10(x)), yaxis.l2p(Math.log10(one.y[at]))]));
        const covered = marks.filter(([x, y]) => x > box[0] && x < box[2] && y > box[1] && y < box[3]);
        const own = [xaxis.l2p(note.x), yaxis.l2p(note.y)];
        const beyond = [0, 1].map((axis) => Math.max(box[axis] - own[axis], own[axis] - box[axis + 2], 0));
        return [note.showarrow, marks.length, covered.length, Math.hypot(...beyond)];
    }""")
    assert values[0] is (values[3] > 36)
    assert values[1] > 20
    assert values[2] == 0


def test_on_a_phone_no_line_is_read_through_the_name_of_the_fastest(make, open_page, pytestconfig):
    """Of the demo run every place beside the mark crosses a line: the name then stands on the ground of the page."""
    (demo,) = read_exports(pytestconfig.rootpath / "examples" / "runs" / "cpu-amd-epyc-2t" / "demo.json")
    profiles = {profile.profile_hash: profile for profile in demo.profiles}
    html = render_page(report_view(demo.run, demo.records, profiles), is_interactive=True)
    phone = open_page(make, [], make.CPU, html=html, name="demo", width=390)
    note = phone.page.evaluate("""() => {
        const plot = document.querySelector('.figure.tall');
        const drawn = [...plot.querySelectorAll('.annotation')].find((one) => /Fastest/.test(one.textContent));
        return getComputedStyle(drawn.querySelector('rect.bg')).fillOpacity;
    }""")
    assert float(note) == 1
    assert phone.faults == []


def test_a_run_without_anything_over_time_says_so_and_samples_that_are_gone_are_said_to_be(make, open_page):
    records = make.cpu_records()[:4]
    bare = [replace(record, measurement=replace(record.measurement, samples_s=())) for record in records]
    watched = open_page(make, bare, make.CPU, name="bare", width=390)
    page = watched.page
    page.wait_for_selector("[data-live=timeline] p")
    assert "--roofline-power" in page.locator("[data-live=timeline]").inner_text()
    assert page.locator("[data-live=timeline] .figure").count() == 0
    assert "No samples are in this page" in page.locator("section:has(> #samples)").inner_text()
    page.wait_for_selector("[data-live=gaps] .main-svg", state="attached")
    assert "No case of this run has parts of an expected time stored" in page.locator("[data-live=gaps]").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert watched.faults == []
