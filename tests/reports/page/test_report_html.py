"""The page: complete, exact, inert, self-contained."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reports.page.html import render_page, write_report
from reports.view.sample_series import MAX_SERIES
from reports.view.views import report_view
from results.cases.case_result import case_results
from results.records.records import EnvironmentInfo, ProcessInfo
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import code_text, finding, stored_form

VOID = {"meta", "br", "img", "input", "link", "hr", "wbr"}


class Page(HTMLParser):
    """Collects what a browser would see: elements, attributes, text, and whether tags balance."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.hidden = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text += data


def page_of(make, records, device=None, canaries=(), **run):
    text = render_page(report_view(make.run(**run), records, make.profiles(device or make.CPU), canaries=canaries))
    page = Page(text)
    assert page.open == []
    return text, page


@pytest.fixture(scope="module")
def cpu_page(make):
    """The page of the ordinary run on a CPU, for the tests that only look at it."""
    return page_of(make, make.cpu_records())


@pytest.fixture(scope="module")
def gpu_page(make):
    return page_of(make, make.gpu_records(), make.GPU)


@pytest.fixture(scope="module")
def mixed_page(make):
    return page_of(make, degenerate(make)["mixed"])


def degenerate(make):
    cpu = make.cpu_records()
    hollow = [replace(r, status="predicted", measurement=None) for r in cpu if r.status == "measured"]
    return {
        "full": cpu,
        "empty": [],
        "one": cpu[:1],
        "predictions": hollow,
        "no-predictions": [replace(r, predictions=()) for r in cpu],
        "failures": [
            replace(r, status="failed", reason="out of memory", measurement=None, predictions=()) for r in cpu[:3]
        ],
        "mixed": [*cpu, *make.gpu_records()],
        "rich": make.rich_records(),
        "processes": [replace(cpu[0], record_id=str(i), process=ProcessInfo(ordinal=i)) for i in range(3)],
    }


@pytest.mark.parametrize(
    "name", ["full", "empty", "one", "predictions", "no-predictions", "failures", "mixed", "processes", "rich"]
)
def test_every_kind_of_run_gives_a_page_with_every_case(make, name, request):
    records = degenerate(make)[name]
    drawn = {"full": "cpu_page", "mixed": "mixed_page"}.get(name)  # for other tests, too
    _, page = request.getfixturevalue(drawn) if drawn else page_of(make, records)
    for record in records:
        assert record.case.id in page.text
    assert "Answer" in page.text
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {attrs["href"][1:] for tag, attrs in page.tags if tag == "a"}
    assert targets <= set(ids)


def test_numbers_on_the_page_equal_the_records(make, cpu_page):
    records, (text, _) = make.cpu_records(), cpu_page
    for index, record in enumerate(records, start=1):
        row = re.search(rf'<tr id="case-{index}">(.*?)</tr>', text, re.DOTALL)[1]
        numbers = [float(value) for value in re.findall(r'data-value="([^"]+)"', row)]
        if record.status == "measured":
            assert record.measurement.median_s in numbers
            assert record.measurement.ci_half_width_ratio in numbers
            assert record.ideal.error_ratio in numbers
        if record.ideal is not None:
            assert record.ideal.time_s in numbers
        else:
            assert numbers == []


def test_nothing_is_loaded_and_nothing_runs(gpu_page):
    text, page = gpu_page
    assert "http" not in text.replace("http-equiv", "")
    assert not [
        tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "img", "object", "embed", "base", "form")
    ]
    for _, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on")]
        for name in ("src", "href", "xlink:href", "data", "action"):
            assert (attrs.get(name) or "#").startswith("#")
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
    assert "@import" not in text
    assert any("default-src 'none'" in (attrs.get("content") or "") for _, attrs in page.tags)


HOSTILE = "<script>alert(1)</script></style></title>\"' onload=x `<img src=http://evil/x.png>` {{ 7*7 }} $\\sqrt{"


def test_hostile_text_is_text_everywhere(make, rich, mixed_page):
    case = make.record((1, 64, 64), "BF16", "BF16", "k").case
    records = [
        replace(
            make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, number=1, flags=(HOSTILE,)),
            case=replace(case, kernel=HOSTILE, op=HOSTILE),
        ),
        replace(make.record((1, 64, 64), "FP16", "FP16", "k", number=2), status="failed", reason=HOSTILE),
        replace(make.record((1, 64, 64), "FP32", "FP32", "k", 1e-3, number=3), record_id='"><script>'),
    ]
    records[2] = replace(
        records[2],
        predictions=(
            replace(
                records[2].ideal,
                findings=(finding("host-time", source=HOSTILE),),
                memory_level=HOSTILE,
                hardware_key=HOSTILE,
            ),
        ),
    )
    facts = EnvironmentInfo({"gpu": HOSTILE, HOSTILE: {"deep": [HOSTILE]}}, {})
    text, page = page_of(
        make,
        records,
        label=HOSTILE,
        command=HOSTILE,
        git_branch=HOSTILE,
        hardware_key=HOSTILE,
        environment=facts,
        run_id=HOSTILE,
    )
    clean, reference = mixed_page
    pairs = {(tag, name) for parsed_page in (reference, rich[1]) for tag, attrs in parsed_page.tags for name in attrs}
    assert {(tag, name) for tag, attrs in page.tags for name in attrs} <= pairs
    assert "<script" not in text
    assert "<img" not in text
    assert "<script>alert(1)</script>" in page.text  # as text, whole
    assert "49" not in re.findall(r"{{ (7\*7|49) }}", page.text)
    assert text.count("</style>") - text.count("<style") == clean.count("</style>") - clean.count("<style")


def test_a_label_of_100_kilobytes_stays_small(make):
    text, page = page_of(make, make.cpu_records()[:1], label="x" * 100_000 + "\x00\u202e")
    assert len(text) < 60_000
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "Roofline report" in page.text


def test_light_dark_phone_and_print_are_provided_for(cpu_page):
    text, page = cpu_page
    assert "@media screen and (prefers-color-scheme:dark)" in text
    assert "@media print" in text
    assert any(attrs.get("name") == "viewport" for _, attrs in page.tags)
    # Every table and the plot scroll inside their own container, which the keyboard can reach.
    tables = sum(tag in ("table", "figure") for tag, _ in page.tags)
    assert sum(attrs.get("class") == "scroll" and attrs.get("tabindex") == "0" for _, attrs in page.tags) == tables
    assert re.search(r"(?:fill|stroke):var\(--plot-bf16\)", text)
    assert "--plot-bf16:#" in text


def test_the_plot_has_words_for_those_who_do_not_see_it(cpu_page):
    _, page = cpu_page
    (label,) = [attrs["aria-label"] for tag, attrs in page.tags if tag == "figure"]
    assert "27 cases, 27 of them measured" in label
    assert "Fastest: INT8 (W8A16) · int8pack" in label


@pytest.fixture(scope="module")
def rich(make):
    """The page of a run that uses everything: drawn once, it takes a second."""
    facts = EnvironmentInfo({"warnings": [stored_form(finding("contended", others_ratio=0.3))]}, {})
    return page_of(make, make.rich_records(), make.GPU, canaries=make.canaries(), environment=facts)


def row_of(text, case_id):
    """The cells of a case's row in the table of all cases, as text."""
    match = re.search(
        rf'<tr id="case-\d+"><th scope="row"><code>{re.escape(case_id)}</code></th>(.*?)</tr>', text, re.DOTALL
    )[1]
    return [
        re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", cell)).strip()
        for cell in re.findall(r"<td.*?</td>", match, re.DOTALL)
    ]


def test_a_replicated_case_is_one_row_with_both_intervals_and_every_process_below(make, rich):
    records, (text, page) = make.rich_records(), rich
    case = records[0].case
    cells = row_of(text, case.id)
    total = next(each.total for each in case_results(records) if each.case_key == case.case_key)
    assert cells[0] == "122.0 µs"  # the median of 120.8, 122 and 123.2 µs
    assert cells[1] == "±1.0 %"
    assert cells[2] == f"±{total.half_width_ratio * 100:.1f} % 3 processes"
    assert len(re.findall(rf'<tr id="case-\d+"><th scope="row"><code>{re.escape(case.id)}</code>', text)) == 1
    processes = re.search(r'<table class="processes">.*?</table>', text, re.DOTALL)[0]
    for record in records[:3]:
        assert f'data-value="{record.measurement.median_s}"' in processes
    assert "Each process of 5 cases" in page.text


def test_one_process_is_said_where_the_second_interval_is_not_known(make):
    (record,) = make.cpu_records()[:1]
    text, page = page_of(make, [record])
    assert row_of(text, record.case.id)[2] == "one process"
    assert "roofline doctor --noise" in page.text


def test_flags_have_their_meaning_as_tooltip_and_in_a_legend(make, rich):
    _, page = rich
    tips = {attrs["title"] for tag, attrs in page.tags if tag == "abbr" and "flag" in attrs["class"]}
    used = {flag for record in make.rich_records() if record.measurement for flag in record.measurement.flags}
    assert used == {"bimodal", "drift", "outliers", "capped", "quarantined", "noisy"}
    assert tips == {code_text(key) for key in used}
    for key in used:
        assert code_text(key) in page.text.replace("\u00a0", " ")
    doubtful = {attrs["title"] for tag, attrs in page.tags if tag == "abbr" and "doubt" in attrs["class"]}
    assert doubtful == {code_text(key) for key in used - {"outliers"}}


def test_rows_of_the_ranking_with_a_doubtful_time_are_marked_with_their_reasons(make):
    records = [
        make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 2e-3),
        make.record((1, 4096, 4096), "INT8", "INT8", "int_mm", 1e-3, flags=("drift", "outliers", "capped")),
    ]
    text, page = page_of(make, records)
    marks = [attrs["title"] for tag, attrs in page.tags if tag == "abbr" and attrs["class"] == "mark"]
    assert marks == [f"drift: {code_text('drift')}; capped: {code_text('capped')}"]
    (row,) = re.findall(r"<tr[^>]*><td class=\"n\">1</td>.*?</tr>", text, re.DOTALL)
    assert "INT8 (W8A8)</span> · int_mm" in row
    assert ">!</abbr>" in row


def test_every_cache_state_and_mode_is_named_and_explained(make, rich):
    text, page = rich
    words = {row_of(text, record.case.id)[4] for record in make.rich_records()}
    assert words == {"cold", "cold, graph", "flushed", "hot (warm)", "cold, sustained", "cold, burst"}
    assert "replay of a captured CUDA graph" in page.text
    assert "never compared with each other" in page.text
    assert "replay of a captured" not in page_of(make, make.cpu_records()[:3])[1].text


def test_energy_is_shown_with_its_spread_source_and_dispute(make, rich, cpu_page):
    records, text = make.rich_records(), rich[0]
    section = text[text.index('<h2 id="energy">') : text.index('<h2 id="attribution">')]
    capped = next(record for record in records if record.case.mode == "sustained")
    row = next(part for part in section.split("<tr>") if capped.case.id in part)
    assert f'data-value="{capped.measurement.energy.energy_j}"' in row
    assert "690 W" in row
    assert "74 W" in row
    assert "-18.0 % apart" in row
    assert "nvml-energy-counter" in row
    assert "pJ/FLOP" in row
    assert 'class="n bad"' in row
    without = next(record for record in records if record.status == "measured" and record.measurement.energy is None)
    assert without.case.id not in section
    assert "Energy and power" not in cpu_page[1].text


def test_the_machine_over_the_run_shows_canaries_quarantine_restarts_and_warnings(make, rich):
    text, page = rich
    section = text[text.index('<h2 id="state">') :]
    assert "9 canary readings, 2 slow: up to 3.2× the usual time." in section
    assert "09:15:30 UTC, process 0: gemv-bf16-4096x4096 took 1.31\u00a0ms, 3.2× its usual 410\u00a0µs" in section
    held = [
        record.case.id
        for record in make.rich_records()
        if record.measurement and "quarantined" in record.measurement.flags
    ]
    assert len(held) == 2
    assert all(text in section for text in held)
    assert "process 3 (pid 4003): killed by SIGABRT; a fresh one took over" in section
    assert "30.0 %" in section.replace("\u00a0", " ")
    assert "sw-power-cap 1.3 s, hw-thermal 80\u00a0ms" in section
    assert sum(attrs.get("class") == "plot canary" for _, attrs in page.tags) == 1


def test_an_old_run_has_no_section_about_what_it_does_not_know(cpu_page):
    _, page = cpu_page
    for heading in ("The machine over the run", "Energy and power", "What ran on the device", "Samples that a median"):
        assert heading not in page.text
    assert "no canary reading is stored" in page.text


def test_samples_are_drawn_for_cases_flagged_for_their_shape_and_no_others(make, rich):
    _, page = rich
    drawn = [attrs["aria-label"] for tag, attrs in page.tags if attrs.get("class") == "plot small"]
    assert len(drawn) == 5  # bimodal in three processes, drift, outliers
    assert [label.rpartition("flagged ")[2] for label in drawn] == ["bimodal"] * 3 + ["drift", "outliers"]
    flagged = make.rich_records()[6]
    many = [replace(flagged, record_id=f"x{i}", case=replace(flagged.case, kernel=f"k{i}")) for i in range(20)]
    text, page = page_of(make, many, make.GPU)
    assert sum(attrs.get("class") == "plot small" for _, attrs in page.tags) == MAX_SERIES
    assert f"{20 - MAX_SERIES} more flagged series are not drawn" in page.text
    assert len(text) < 700_000


def test_kernels_per_call_are_shown_where_they_were_traced(rich):
    text, _ = rich
    section = text[text.index('<h2 id="attribution">') : text.index('<h2 id="state">')]
    assert "tinygemm_m16n8k16" in section
    assert 'data-value="2.0">2</td>' in section
    assert section.count("<tr>") == 3  # the header and two traced cases


def test_power_column_only_where_power_was_stored(cpu_page, gpu_page):
    assert "Power" not in cpu_page[1].text
    assert "612 W" in gpu_page[1].text


def test_write_report_puts_plot_beside_page_and_is_deterministic(make, tmp_path):
    store = make.store(make.cpu_records(), make.CPU)
    files = write_report(store, make.run(), tmp_path / "deep" / "report.html")
    assert (files.html.name, files.png.name, files.svg.name) == ("report.html", "roofline.png", "roofline.svg")
    assert files.png.read_bytes().startswith(b"\x89PNG")
    assert files.svg.read_text(encoding="utf-8").startswith("<?xml")
    first = [path.read_bytes() for path in (files.html, files.png, files.svg)]
    again = write_report(store, make.run(), tmp_path / "deep" / "report.html")
    assert [path.read_bytes() for path in (again.html, again.png, again.svg)] == first


def test_a_folder_gets_report_html_and_other_names_bring_their_own_plot(make, tmp_path):
    store = make.store(make.cpu_records()[:1], make.CPU)
    assert write_report(store, make.run(), tmp_path).html == tmp_path / "report.html"
    files = write_report(store, make.run(), tmp_path / "night.html")
    assert (files.png.name, files.svg.name) == ("night-roofline.png", "night-roofline.svg")


def test_a_place_that_cannot_be_written_is_one_line(make, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("x")
    with pytest.raises(RooflineError, match=r"^the report cannot be written to .*choose another place with -o$"):
        write_report(make.store([], make.CPU), make.run(), blocker / "report.html")
