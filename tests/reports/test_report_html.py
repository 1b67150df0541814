"""The page: complete, exact, inert, self-contained."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reports.html import render_page, write_report
from reports.views import report_view
from results.records import EnvironmentInfo, ProcessInfo
from roofline_model.errors import RooflineError

VOID = {"meta", "br", "img", "input", "link", "hr"}


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
        if "style" not in self.open:
            self.text += data


def page_of(make, records, device=None, **run):
    text = render_page(report_view(make.run(**run), records, make.profiles(device or make.CPU)))
    page = Page(text)
    assert page.open == []
    return text, page


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
        "processes": [replace(cpu[0], record_id=str(i), process=ProcessInfo(ordinal=i)) for i in range(3)],
    }


@pytest.mark.parametrize(
    "name", ["full", "empty", "one", "predictions", "no-predictions", "failures", "mixed", "processes"]
)
def test_every_kind_of_run_gives_a_page_with_every_case(make, name):
    records = degenerate(make)[name]
    _, page = page_of(make, records)
    for record in records:
        assert record.case.id in page.text
    assert "Verdict" in page.text
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {attrs["href"][1:] for tag, attrs in page.tags if tag == "a"}
    assert targets <= set(ids)


def test_numbers_on_the_page_equal_the_records(make):
    records = make.cpu_records()
    text, _ = page_of(make, records)
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


def test_nothing_is_loaded_and_nothing_runs(make):
    text, page = page_of(make, make.gpu_records(), make.GPU)
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


HOSTILE = "<script>alert(1)</script></style></title>\"' onload=x <img src=http://evil/x.png> {{ 7*7 }} $\\sqrt{"


def test_hostile_text_is_text_everywhere(make):
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
        predictions=(replace(records[2].ideal, notes=(HOSTILE,), memory_level=HOSTILE, hardware_key=HOSTILE),),
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
    clean, reference = page_of(make, degenerate(make)["mixed"])
    known = {(tag, name) for tag, attrs in reference.tags for name in attrs}
    assert {(tag, name) for tag, attrs in page.tags for name in attrs} <= known
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


def test_light_dark_phone_and_print_are_provided_for(make):
    text, page = page_of(make, make.cpu_records())
    assert "@media (prefers-color-scheme: dark)" in text
    assert "@media print" in text
    assert any(attrs.get("name") == "viewport" for _, attrs in page.tags)
    # Every table and the plot scroll inside their own container, which the keyboard can reach.
    tables = sum(tag in ("table", "figure") for tag, _ in page.tags)
    assert sum(attrs.get("class") == "scroll" and attrs.get("tabindex") == "0" for _, attrs in page.tags) == tables
    assert re.search(r"(?:fill|stroke): var\(--plot-bf16\)", text)
    assert "--plot-bf16: #" in text


def test_the_plot_has_words_for_those_who_do_not_see_it(make):
    _, page = page_of(make, make.cpu_records())
    (label,) = [attrs["aria-label"] for tag, attrs in page.tags if tag == "figure"]
    assert "27 cases, 27 of them measured" in label
    assert "Best: INT8 W8A16 (int8pack)" in label


def test_power_column_only_where_power_was_stored(make):
    assert "Power" not in page_of(make, make.cpu_records())[1].text
    assert "612 W" in page_of(make, make.gpu_records(), make.GPU)[1].text


def test_write_report_puts_plot_beside_page_and_is_deterministic(make, tmp_path):
    store = make.store(make.cpu_records(), make.CPU)
    files = write_report(store, make.run(), tmp_path / "deep" / "report.html")
    assert (files.html.name, files.png.name, files.svg.name) == ("report.html", "roofline.png", "roofline.svg")
    assert files.png.read_bytes().startswith(b"\x89PNG")
    assert files.svg.read_text(encoding="utf-8").startswith("<?xml")
    first = [one.read_bytes() for one in (files.html, files.png, files.svg)]
    again = write_report(store, make.run(), tmp_path / "deep" / "report.html")
    assert [one.read_bytes() for one in (again.html, again.png, again.svg)] == first


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
