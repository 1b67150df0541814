"""Whole models in the report: a section of their own, true roofs, no advice meant for products, names people read,
escaped.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from model_records import CHIP, model_profile, model_record, model_run, model_run_records

from reports.page.html import render_page
from reports.present.words.model_json import model_json, part_columns
from reports.view.views import report_view
from results.cases.case_result import case_results
from results.cases.errors import case_gap
from results.rankings.shape import recommend_from_run


@pytest.fixture(scope="module")
def view():
    return report_view(model_run(), model_run_records(), {CHIP.content_hash: model_profile()})


@pytest.fixture(scope="module")
def page(view):
    return render_page(view)


def section(page, name):
    return re.search(rf'<section aria-labelledby="{name}">.*?</section>', page, re.DOTALL)[0]


def test_the_section_shows_measured_expected_and_ideal_side_by_side(page):
    section_html = section(page, "models")
    row = next(
        table_row for table_row in re.findall(r"<tr.*?</tr>", section_html, re.DOTALL) if "INT4 (W4A16)" in table_row
    )
    assert 'class="best"' in row
    cells = [re.sub("<[^>]+>", "", cell) for cell in re.findall(r"<t[dh].*?</t[dh]>", row)]
    assert cells[:5] == ["INT4 (W4A16)", "5.20 ms", "2.5×", "192", "±1.0 %*"]
    assert len([cell for cell in cells if cell.endswith("×")]) == 3
    assert "213 J" in cells
    assert "nothing about language" in section_html
    assert "66.72 MB" in section_html


def test_numbers_can_be_sorted_by_their_values(page):
    section_html = section(page, "models")
    assert 'data-value="130885888"' in section_html
    assert 'data-value="0.035"' in section_html


def test_models_are_not_listed_among_shapes_nor_ranked_like_products(view, page, make):
    (chip,) = view.chips
    assert chip.recommendations == ()
    assert 'id="shapes"' not in page
    assert 'id="advice"' not in page
    mixed = [*model_run_records(), *make.cpu_records()]
    assert {recommendation.question.op for recommendation in recommend_from_run(case_results(mixed), None)} == {
        recommendation.question.op for recommendation in recommend_from_run(case_results(make.cpu_records()), None)
    }


def test_nobody_reads_raw_names(page):
    text = re.sub(r"<[^>]+>", " ", page)
    assert "decode:seeded" not in text
    assert "seeded-llama-156m, decode, batch 1, 128 tokens: INT4 (W4A16) · torchao" in text


def test_a_roof_is_the_chips_and_not_a_mean_of_the_formats_of_a_pass(view):
    roofs = view.chips[0].roofline.roofs
    assert {roof.precision for roof in roofs} == {"BF16", "INT8 (W8A16)", "INT4 (W4A16)"}
    assert {roof.peak_flops_per_s for roof in roofs} == {CHIP.peak_flops_per_s("BF16")}
    assert len(view.chips[0].roofline.points) == 7
    # A pass stays below the roof at its intensity.
    for point in view.chips[0].roofline.points:
        assert point.predicted_flops_per_s <= 1.001 * roofs[0].rate_flops_per_s(point.intensity_flop_per_byte)


def test_the_gap_of_a_pass_adds_up(view):
    for case in view.cases:
        gap = case_gap(case)
        assert sum(time_s for _, time_s in gap.parts) == pytest.approx(case.measured_s)
        parts = dict(gap.parts)
        beyond = {name for name in parts if name not in ("ideal", "unexplained")}
        assert beyond <= {"widening", "host", "kernel"}
        assert case.expected_s == pytest.approx(case.measured_s - parts.get("unexplained", 0.0))


def test_errors_are_counted_per_model_and_phase(view):
    assert {error.op for error in view.chips[0].errors} == {"seeded-llama-156m decode", "seeded-llama-156m prefill"}


def test_predictions_alone_have_a_section_with_expected_rates():
    records = [model_record(pair, phase) for pair in ("BF16", "INT4") for phase in ("decode", "prefill")]
    page = render_page(report_view(model_run(), records, {CHIP.content_hash: model_profile()}))
    models = section(page, "models")
    assert "Measured</th>" not in models
    assert "<caption>Memory" not in models


def test_hostile_names_are_escaped():
    evil = "<script>alert(1)</script>\u202e"
    records = [
        model_record("BF16", median_s=1e-2),
        model_record(
            "INT4",
            median_s=5e-3,
            quality={"text": evil, "is_language": True},
            model={"fallbacks": [evil], "layers": {evil: 1}},
        ),
    ]
    records = [replace(record, case=replace(record.case, op=f"decode:{evil}")) for record in records]
    page = render_page(report_view(model_run(), records, {}))
    assert "<script" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in section(page, "models")


def test_json_holds_the_figures_with_units(view):
    (model,) = view.chips[0].models
    document = model_json(model)
    int4 = document["phases"][0]["passes"][2]
    assert (document["model"], document["batch_count"], document["context_count"]) == ("seeded-llama-156m", 1, 128)
    assert int4["tokens_per_s"] == pytest.approx(1 / 5.2e-3)
    assert int4["kl_nats_per_token"]["value"] == 0.035
    assert document["phases"][0]["best"] == "INT4 (W4A16)"
    assert not document["phases"][1]["is_win"]
    assert set(int4["expected_parts_s"]) <= set(part_columns(model))


def test_a_baseline_whose_interval_is_wide_is_kept_and_a_loss_names_its_top1():
    records = [
        model_record("BF16", "prefill", median_s=93e-3, half_width_ratio=0.35),
        model_record("INT8", "prefill", median_s=98e-3),
        model_record("BF16", median_s=1e-2),
        model_record("INT4", median_s=5e-3),
    ]
    view = report_view(model_run(), records, {CHIP.content_hash: model_profile()})
    steps, prompts = view.chips[0].answers
    assert prompts.ranking.headline.value("kind") == steps.ranking.headline.value("kind") == "stay"
    assert [each.option.precision for each in prompts.ranking.alternatives] == []
    (riskier,) = steps.ranking.alternatives  # a loss over random tokens is none of quality: what was published decides
    assert (riskier.role, riskier.option.precision, riskier.option.loss.source) == (
        "riskier",
        "INT4 (W4A16)",
        "claimed",
    )
    assert "SM clock" not in render_page(view)
