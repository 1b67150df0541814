"""The trade-offs: what nothing beats, what is known of each point, and the same numbers in page and document."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_records import CHIP, model_profile, model_run, model_run_records
from page_rows import unpacked

from reports.advice.trade_offs import on_front, trade_groups
from reports.document.report_json import report_json
from reports.page.page_data import page_data, script_json
from reports.view.views import report_view
from results.rankings import StoredQuestion, recommend_from_runs
from results.rankings.question import subject_of

numbers = st.integers(0, 6).map(float)


@given(st.lists(st.tuples(numbers, numbers, numbers), max_size=12))
def test_the_front_is_what_nothing_beats(values):
    flags = on_front(values)
    for value, is_front in zip(values, flags, strict=True):
        beaten = any(other != value and all(a <= b for a, b in zip(other, value, strict=True)) for other in values)
        assert is_front == (not beaten)


def groups_of(view):
    chip = view.chips[0]
    return trade_groups(view.run, chip.models, chip.recommendations, chip.cases)


@pytest.fixture(scope="module")
def model_view():
    return report_view(model_run(), model_run_records(), {CHIP.content_hash: model_profile()})


def test_a_models_measured_loss_is_percent_with_its_interval(model_view):
    decode = groups_of(model_view)[0]
    by_label = {point.label: point for point in decode.points}
    int4 = by_label["INT4 (W4A16)"]
    assert int4.option.loss.source == "measured"
    assert int4.loss_low_pct < int4.option.loss.pct < int4.loss_high_pct
    assert int4.option.loss.pct == pytest.approx(3.56, abs=0.01)  # 100·(e^0.035 − 1)
    assert by_label["BF16"].option.loss.source == "reference"
    assert by_label["BF16"].option.loss.pct == 0
    assert int4.is_best
    assert decode.per == "token"
    passes = {step.label: step for step in model_view.chips[0].models[0].phases[0].passes}
    figures = passes["INT4 (W4A16)"].figures
    assert int4.option.memory.total_bytes == figures.held_bytes + figures.cache_bytes
    assert int4.option.energy_j == passes["INT4 (W4A16)"].figures.energy_j_per_token


def test_fronts_are_of_one_kind_of_evidence(model_view, make):
    view = report_view(make.run(), make.cpu_records(), make.profiles(make.CPU))
    for group in (*groups_of(model_view), *groups_of(view)):
        has_measured = any(point.option.estimate.source == "measured" for point in group.points)
        for plotted in group.points:
            if plotted.fronts or plotted.is_on_front:
                assert not has_measured or plotted.option.estimate.source == "measured"
        for plotted, other in itertools.permutations([point for point in group.points if point.is_on_front], 2):
            mine, theirs = (
                (p.option.estimate.time_s, p.option.loss.pct, p.option.memory.total_bytes) for p in (plotted, other)
            )
            assert mine == theirs or not all(a <= b for a, b in zip(mine, theirs, strict=True))


def test_a_shapes_point_has_its_claim_its_weight_and_its_energy(make):
    view = report_view(make.run(), make.rich_records(), make.profiles(make.GPU))
    group = next(titled for titled in groups_of(view) if titled.title.startswith("gemv 1x28672x8192"))
    by_label = {point.label: point for point in group.points}
    fp8 = by_label["FP8 (W8A8) · scaled_mm_row"]
    assert fp8.option.loss.source == "claimed"
    assert 0 < fp8.option.loss.pct < 5
    row = next(
        recommendation for recommendation in view.chips[0].recommendations if recommendation.question.op == "gemv"
    ).options
    assert (
        fp8.option.memory.total_bytes
        == next(option.memory.total_bytes for option in row if option.label == fp8.label)
        > 28672 * 8192
    )
    assert fp8.option.energy_j == pytest.approx(612 * 71e-6, rel=0.02)
    assert by_label["BF16 · matmul"].option.speedup_ratio == 1.0


def test_unknown_stays_unknown(make):
    view = report_view(make.run(), make.cpu_records(), make.profiles(make.CPU))
    points = [point for group in groups_of(view) for point in group.points]
    assert {point.option.energy_j for point in points} == {None}
    for point in points:
        assert (point.option.loss.pct is None) == (point.option.loss.source == "unknown")


def with_stored(view, runs, records, profiles):
    """What the page offers where some runs are stored, by origin."""
    chip, stored = view.chips[0], recommend_from_runs(runs, records, profiles, StoredQuestion())
    groups = trade_groups(view.run, chip.models, chip.recommendations, chip.cases, stored, chip.hardware_key)
    return stored, [[group for group in groups if group.origin == origin] for origin in ("this run", "all stored runs")]


def test_what_stored_runs_say_is_no_question_of_its_own_where_this_run_is_all_they_rest_on(make):
    run, records, profiles = make.run(), make.gpu_records(), make.profiles(make.GPU)
    view = report_view(run, records, profiles)
    stored, (own_groups, repeated) = with_stored(view, [run], records, profiles)
    assert sum(len(ranking.options) > 1 for ranking in stored.rankings) == len(own_groups) > 1
    assert repeated == []
    # Another night measured one of the shapes: that answer is another one, the others still repeat.
    other = make.run(run_id="f" * 32, started_at="2026-11-01T00:00:00.000000+00:00")
    case = next(record.case for record in records if record.record_id in own_groups[0].points[0].option.record_ids)
    same = [record for record in records if subject_of(record.case) == subject_of(case)]
    before = [replace(record, run_id=other.run_id, record_id=f"{at:032x}") for at, record in enumerate(same, 1)]
    _, (own_groups, stored_groups) = with_stored(view, [other, run], [*before, *records], profiles)
    assert len(stored_groups) == 1
    assert own_groups[0].title.startswith(stored_groups[0].title)


def test_a_loss_that_another_run_measured_is_told(model_view):
    run, records, profiles = model_run(), model_run_records(), {CHIP.content_hash: model_profile()}
    stored, (own_groups, repeated) = with_stored(model_view, [run], records, profiles)
    assert len(stored.rankings) == len(own_groups) > 0
    assert repeated == []
    rows = [replace(row, loss=replace(row.loss, pct=9.0)) for row in stored.rankings[0].options]
    changed = replace(stored, rankings=(replace(stored.rankings[0], options=tuple(rows)), *stored.rankings[1:]))
    chip = model_view.chips[0]
    groups = trade_groups(model_view.run, chip.models, chip.recommendations, chip.cases, changed, chip.hardware_key)
    assert [group.title for group in groups if group.origin == "all stored runs"] == [stored.rankings[0].question.name]


def test_page_and_document_hold_the_same_points(model_view):
    data = json.loads(script_json(page_data(model_view)))
    page = data["chips"][0]["pareto"]
    document = json.loads(json.dumps(report_json(model_view)))["chips"][0]["trade_offs"]
    assert [group["title"] for group in page] == [group["title"] for group in document]
    for mine, theirs in zip(page, document, strict=True):
        for point, same in zip(unpacked(mine["points"], data["texts"]), theirs["points"], strict=True):
            expected = {
                name: value
                for name, value in same.items()
                if name != "record_ids" and value is not None and value is not False and value != []
            }
            assert {name: point[name] for name in expected} == expected
            assert set(point) - {"number", "texts", "is_over_doubt"} <= set(same)
            assert point["number"] is not None
