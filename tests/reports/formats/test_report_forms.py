"""A report as Markdown, as JSON and as a page for paper: complete, exact, inert."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reports.document.report import Report
from reports.document.report_blocks import report_blocks
from reports.document.report_json import SCHEMA_VERSION, report_json
from reports.page.html import print_page
from reports.present.blocks import Bullets, Column, Heading, table
from reports.present.cases import title_of
from reports.present.markdown import MOST_CHARACTERS, MOST_ROWS, escaped_sentence, markdown
from reports.view.views import report_view
from results.records.records import EnvironmentInfo
from roofline_model.core.units import column_times

HOSTILE = '<script>alert(1)</script> | [x](javascript:y) `code` **b** @all \u202e\x1b[31m "q" $x$ </title>\n# head'


def view_of(make, records, device=None, canaries=(), **run):
    return report_view(make.run(**run), records, make.profiles(device or make.CPU), canaries=canaries)


@pytest.fixture(scope="module")
def rich(make):
    return view_of(make, make.rich_records(), make.GPU, make.canaries(), hardware_key="h200-sxm")


def hostile_view(make):
    case = make.record((1, 64, 64), "BF16", "BF16", "k").case
    records = [
        replace(
            make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, number=1, flags=(HOSTILE,)),
            case=replace(case, kernel=HOSTILE, op=HOSTILE),
        ),
        replace(make.record((1, 64, 64), "FP16", "FP16", "k", number=2), status="failed", reason=HOSTILE),
        make.record((1, 64, 64), "FP32", "FP32", "k", 1e-3, number=3),
    ]
    facts = EnvironmentInfo({"gpu": HOSTILE, HOSTILE: {"deep": [HOSTILE]}}, {})
    return view_of(make, records, label=HOSTILE + "x" * 100_000, command=HOSTILE, git_branch=HOSTILE, environment=facts)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += "" if "style" in self.open else data


# Markdown ----------------------------------------------------------------------------------------------------


def test_markdown_has_the_verdict_first_then_cases_recommendation_and_environment(rich):
    text = markdown(report_blocks(Report(rich)))
    lines = text.splitlines()
    assert lines[0] == "# Roofline report: nightly"
    decode = rich.chips[0].answers[0]
    assert lines[6].startswith("**Decode: take ")
    assert f"take {decode.choice.label}," in lines[6]
    titles = [line for line in lines if line.startswith("## ")]
    expected = [
        "Answer",
        "How fast each format is, shape by shape",
        "How good the predictions were",
        "All cases",
        "The machine over the run",
        "Where it ran",
    ]
    assert titles == [f"## {title}" for title in expected]  # a section that is a figure only, or empty, has no title
    assert (
        "| gemm 2048x8192x8192 | FP8 (W8A8) | scaled_mm_row | 210.0 µs |   | ±2.0 % | – | cold | 138.9 µs | -33.9 % |"
        in text
    )
    assert "| gemm 2048x8192x8192 | BF16 | matmul | 405.9 µs | ! | ±6.3 % |" in text
    assert "<details><summary>" in text
    assert "⚠️ 1 worker process did not end by itself" in text


def test_every_row_of_a_markdown_table_has_the_cells_of_its_header(rich):
    blocks = re.findall(r"(?:^\|.*\n?)+", markdown(report_blocks(Report(rich))), re.MULTILINE)
    assert len(blocks) >= 8
    for block in blocks:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1, block


def test_every_case_of_the_view_is_in_the_markdown_with_its_own_numbers(rich):
    text = markdown(report_blocks(Report(rich)))
    times = column_times([case.measured_s for case in rich.cases])
    for case, shown in zip(rich.cases, times, strict=True):
        time = shown if case.measured_s is not None else case.status
        assert re.search(
            rf"\| {re.escape(title_of(case.case))} \| {re.escape(case.case.precision_label)} \|.*\| {re.escape(time)} \|",
            text,
        )


def test_hostile_names_are_text_in_markdown(make):
    text = markdown(report_blocks(Report(hostile_view(make))))
    assert not re.search(r"(?<!\\)<(?!details>|/details>|summary>|/summary>)", text)
    assert "](javascript" not in text.replace("\\](javascript", "")
    ours = re.sub(r"(?<!\\)`(?:roofline|pytest|-)[A-Za-z0-9 _.=/-]*`", "", text)
    assert not re.search(r"(?<!\\)`", ours)
    assert not set("\x1b\u202e\x00") & set(text)
    assert not any(line.startswith("# head") for line in text.splitlines())
    assert len(text) < 20_000


def test_a_long_report_fits_a_comment_and_says_what_it_left_out():
    columns = (Column("case", lambda row: row[0], is_head=True), Column("why", lambda row: row[1], "prose"))
    rows = [(f"case {i}", "x" * 190) for i in range(1000)]
    text = markdown([table(f"t{i}", columns, rows) for i in range(12)])
    assert len(text) <= MOST_CHARACTERS + 500
    assert f"… and {1000 - MOST_ROWS} more rows" in text
    assert "Left out, because a comment holds no more" in text


def test_headings_with_nothing_below_go_and_columns_without_content_too():
    assert markdown([Heading(2, "empty"), Heading(2, "full"), Bullets(("a",)), Heading(3, "end")]) == "## full\n\n- a\n"
    columns = [Column(name, lambda row, at=at: row[at]) for at, name in enumerate("abc")]
    made = table("", columns, [("x", "–", "1"), ("y", "", "2")])
    assert [column.header for column in made.columns] == ["a", "c"]
    assert [[cell.content for cell in row.cells] for row in made.rows] == [["x", "1"], ["y", "2"]]


@pytest.mark.parametrize(
    ("text", "shown"),
    [("scaled_mm_row", "scaled_mm_row"), ("_x_", r"\_x\_"), ("# no title", r"\# no title"), ("- no list", r"\- no list"),
     ("a|b", r"a\|b"), ("(x) +3 % !", "(x) +3 % !"), ("[x](y)", r"\[x\](y)"), ("", "")],
)  # fmt: skip
def test_escaping_leaves_readable_what_is_harmless(text, shown):
    assert escaped_sentence(text) == shown


# JSON --------------------------------------------------------------------------------------------------------


def test_json_numbers_equal_the_view(rich):
    data = json.loads(json.dumps(report_json(rich)))
    assert (data["schema"], data["schema_version"]) == ("roofline-report", SCHEMA_VERSION)
    assert data["verdict"]["headlines"] == list(rich.headlines)
    (chip,) = data["chips"]
    assert [case_json["measured_s"] for case_json in chip["cases"]] == [case.measured_s for case in rich.cases]
    assert [case_json["error_ideal_ratio"] for case_json in chip["cases"]] == [
        case.error_ideal_ratio for case in rich.cases
    ]
    assert [case["interval_total_half_width_ratio"] for case in chip["cases"]] == [
        case.total_ratio for case in rich.cases
    ]
    assert [[row["record_id"] for row in case["processes"]] for case in chip["cases"]] == [
        [record.record_id for record in case.records] for case in rich.cases
    ]
    assert chip["recommendations"][0]["ranked"][0]["record_ids"]
    first = chip["cases"][0]
    assert math.fsum(part["time_s"] for part in first["time_parts"]) == pytest.approx(first["measured_s"])
    roof = chip["roofline"]["roofs"][0]
    assert roof["critical_intensity_flop_per_byte"] == pytest.approx(
        roof["peak_flops_per_s"] / roof["bandwidth_bytes_per_s"]
    )
    assert len(chip["roofline"]["points"]) == len(rich.chips[0].roofline.points)


WITHOUT_UNIT = {"schema_version", "exit_code", "process", "rank", "max_error_ratio", "flops", "pct"}
NAMED = ("shape", "formats", "values")
"""Their keys are names: dimension letters, operands, a finding's values (docs/reference/findings.md)."""
UNITS = ("_s", "_bytes", "_per_s", "_per_byte", "_ratio", "_count", "_w", "_j", "_hz", "_pct", "_nats_per_token")


def test_every_number_in_the_json_has_its_unit_in_its_key(rich):
    document = report_json(rich)
    del document["environment"]  # facts as they were stored

    def keys(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, int | float) and not isinstance(item, bool):
                    yield key
                yield from keys(item) if key not in NAMED else ()
        elif isinstance(value, list | tuple):
            for item in value:
                yield from keys(item)

    counts = set(document.pop("counts"))
    assert counts == {"measured", "predicted", "skipped", "failed"}
    key_set = set(keys(document))
    assert len(key_set) > 25
    assert not [key for key in key_set - WITHOUT_UNIT if not key.endswith(UNITS)]


def test_every_key_is_documented(rich, pytestconfig):
    document = report_json(rich)
    del document["environment"]

    def keys(value):
        if isinstance(value, dict):
            yield from value
            for name, item in value.items():
                yield from keys(item) if name not in NAMED else ()
        elif isinstance(value, list | tuple):
            for item in value:
                yield from keys(item)

    text = (pytestconfig.rootpath / "docs" / "reference" / "report.md").read_text(encoding="utf-8")
    assert len(set(keys(document))) > 80
    assert not sorted(key for key in set(keys(document)) if f"`{key}`" not in text)


@pytest.mark.parametrize("records", ["none", "predicted"])
def test_poor_runs_have_every_form(make, monkeypatch, records):
    monkeypatch.setattr("reports.page.html.report_figures", lambda view: [])
    records_made = [] if records == "none" else [make.record((1, 64, 64), "BF16", "BF16", "k", number=1)]
    view = view_of(make, records_made)
    data = report_json(view)
    assert [case["status"] for case in data["chips"][0]["cases"]] == ["predicted"] * len(records_made)
    text = markdown(report_blocks(Report(view)))
    assert "## Where it ran" in text
    assert "NaN" not in text
    assert ("no cases" in text) == (not records_made)
    assert Page(print_page(view)).open == []


# Paper -------------------------------------------------------------------------------------------------------


def test_the_page_for_paper_is_whole_and_inert(rich):
    text = print_page(rich)
    page = Page(text)
    assert page.open == []
    names = [tag for tag, _ in page.tags]
    assert "script" not in names
    assert not [attrs for _, attrs in page.tags for name in attrs if name.startswith("on")]
    (policy,) = [attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs]
    assert policy.startswith("default-src 'none'")
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert len(images) >= 4  # roofline, errors, samples, canary
    assert all(image["alt"] and image["src"].startswith("data:image/svg+xml;base64,") for image in images)
    assert "@page" in text
    assert "table-header-group" in text  # a table's head is printed on every page
    for heading in ("Dual roofline", "All cases", "How fast each format is, shape by shape", "Where it ran"):
        assert heading in page.text
    for case in rich.cases:
        assert title_of(case.case) in page.text


def test_hostile_names_are_text_on_paper(make, monkeypatch):
    monkeypatch.setattr(
        "reports.page.html.figure_svg", lambda figure: "<svg/>"
    )  # test_figure_files draws hostile names
    text = print_page(hostile_view(make))
    page = Page(text)
    assert page.open == []
    assert not {"script", "b"} & {tag for tag, _ in page.tags}
    assert "<script>alert(1)</script>" in page.text
    assert not set("\x1b\u202e\x00") & set(text)
    assert len(page.text) < 20_000
