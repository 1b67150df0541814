"""What the figures of time get: parts that add up to the measured time, and intervals with the readings a page has room
for.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reports.figures import timeline as timeline_module
from reports.figures.drawing.matplotlib_drawer import draw_rows
from reports.figures.drawing.palette import PART_COLOURS
from reports.figures.drawing.plotly_drawer import rows_json
from reports.figures.errors import MOST_ERROR_PCT, errors_figure
from reports.figures.gaps import gaps_figure, group_gaps_figure
from reports.page.page_data import page_data, script_json, timeline_data
from reports.view.views import report_view
from results.records.records import TelemetrySample
from roofline_model.core.units import format_time

TIMES = {"near": 1e-4, "far": 2e-4, "long": 4e-4}


def expected(record, ratio, **terms_s):
    time_s = record.ideal.time_s * ratio
    made = replace(
        record.ideal, kind="expected", time_s=time_s, low_s=0.9 * time_s, high_s=1.2 * time_s, terms_s=terms_s
    )
    return replace(record, predictions=(record.ideal, made))


def view_of(make, records, **run):
    return report_view(make.run(**run), records, make.profiles(make.GPU))


def measured(make, kernel, number, time_s=1e-4, **more):
    return make.record((1, 4096, 4096), "BF16", "BF16", kernel, time_s, device=make.GPU, number=number, **more)


def test_parts_of_every_bar_add_up_to_its_time(make):
    full = measured(make, "a", 1)
    full = expected(full, 1.5, dram=1.2 * full.ideal.time_s, launch=2e-6)
    plain = measured(make, "b", 2, 2e-4)
    figure = gaps_figure(view_of(make, [full, plain]).chips[0].cases, 7)
    assert [part.colour for part in figure.parts] == [
        PART_COLOURS[name] for name in ("ideal", "memory", "launch", "supply", "unexplained")
    ]
    assert [part.is_hatched for part in figure.parts] == [False] * 4 + [True]
    assert [row.keys for row in figure.rows] == [(7,), (8,)]
    assert figure.totals_s == (full.measurement.median_s, plain.measurement.median_s)
    for row, total_s in enumerate(figure.totals_s):
        assert math.fsum(part.times_s[row] or 0.0 for part in figure.parts) == pytest.approx(total_s)
    (fact,) = figure.facts
    assert fact.times_s == (full.expected.time_s, None)
    assert fact.high_s == (pytest.approx(1.2 * full.expected.time_s), None)
    assert [part.times_s[1] for part in figure.parts[1:4]] == [None, None, None]  # none is made up where none is known


def test_one_prediction_far_off_leaves_the_other_cases_room(make):
    good, absurd = measured(make, "a", 1), measured(make, "b", 2, 1e-7)
    for records, is_cut in (([good], False), ([good, absurd], True)):
        view = view_of(make, records)
        gaps, errors = gaps_figure(view.chips[0].cases), errors_figure(view.cases)
        assert max(value for strip in errors.strips for value in strip.values) <= MOST_ERROR_PCT
        assert any("1 error " in note for note in errors.notes) == is_cut
        assert any("1 bar " in note for note in gaps.notes) == is_cut
        low, high = draw_rows(gaps).axes[0].get_xlim()
        assert -120 < low <= 0
        assert 100 < high < 250
        assert rows_json(gaps)["layout"]["xaxis"]["range"] == [gaps.x.low_value, gaps.x.high_value]


def test_orders_of_the_bars_are_by_share_by_time_and_as_in_the_table(make):
    near, far, long = (measured(make, name, at, time_s) for at, (name, time_s) in enumerate(TIMES.items(), 1))
    orders = gaps_figure(view_of(make, [near, far, long]).chips[0].cases, 1).orders
    assert [order.rows for order in orders] == [(2, 1, 0), (2, 1, 0), (2, 1, 0), (0, 1, 2)]


def test_times_of_a_group_are_summed_and_keep_their_cases(make):
    cases = view_of(make, [measured(make, "a", 1), measured(make, "b", 2, 2e-4)]).chips[0].cases
    single, summed = gaps_figure(cases, 1), group_gaps_figure(cases, 1)
    assert [row.keys for row in summed.rows] == [(1, 2)]
    assert summed.totals_s == (pytest.approx(sum(single.totals_s)),)


def test_what_is_not_known_of_a_time_is_said(make):
    plain = measured(make, "a", 1)
    full = expected(measured(make, "b", 2), 1.5, dram=3e-6)
    assert len(gaps_figure(view_of(make, [plain]).chips[0].cases).notes) == 1
    both = gaps_figure(view_of(make, [plain, full]).chips[0].cases).notes
    assert len(both) == 2
    assert "Of 2 cases 1 " in both[0]
    assert "clock" in both[1]
    unjudged = replace(measured(make, "c", 3), predictions=())
    assert "1 measured case " in gaps_figure(view_of(make, [unjudged, plain]).chips[0].cases).notes[0]
    assert gaps_figure(view_of(make, [unjudged]).chips[0].cases) is None
    assert gaps_figure(view_of(make, [full], is_forced=True).chips[0].cases) is None


def test_stages_of_a_pass_are_told_beside_the_parts(make):
    terms = {f"part:stage{n}": n * 1e-6 for n in range(1, 12)} | {"kernel": 3e-6}
    figure = gaps_figure(view_of(make, [expected(measured(make, "a", 1), 1.5, **terms)]).chips[0].cases, 1)
    assert figure.cards["1"].facts == tuple((f"stage{n}", format_time(n * 1e-6, 3)) for n in range(11, 3, -1))
    assert not any("stage" in part.name for part in figure.parts)


def test_rows_as_json_name_every_text_once(make):
    cases = view_of(make, [measured(make, "a", 1), measured(make, "b", 2, 2e-4)]).chips[0].cases
    data = rows_json(gaps_figure(cases, 1))
    assert data["keys"] == [1, 2]
    assert len(data["names"]) == len(set(data["names"]))
    assert [[data["names"][at] for at in row][1] for row in data["rows"]] == ["BF16 · a", "BF16 · b"]


def timed(make, count):
    readings = tuple(
        TelemetrySample(time_s=0.01 * n, power_w=100.0 + (n % 7), sm_clock_hz=1.9e9) for n in range(1, count + 1)
    )
    case = measured(make, "a", 1, wall_s=1.0, power_w=104.0)
    return replace(case, telemetry=readings, created_at="2026-11-21T09:08:41.123456+00:00")


def test_readings_stand_where_they_were_taken(make):
    view = view_of(make, [timed(make, 100)], started_at="2026-11-21T09:08:11.123456+00:00")
    data = timeline_data(view, view.timeline)
    (span,) = (dict(zip(data["columns"], cells, strict=True)) for cells in data["spans"])
    assert (span["begin_s"], span["end_s"], span["power_w"], span["ordinal"]) == (29.0, 30.0, 104.0, 1)
    traces = {trace["name"]: trace for trace in data["figure"]["data"]}
    powers, clocks = traces["readings power_w"], traces["readings clock_hz"]
    assert powers["x"][:-1] == [round(29.0 + 0.01 * n, 4) for n in range(1, 101)]
    assert powers["y"][:-1] == [100.0 + (n % 7) for n in range(1, 101)]
    assert set(powers["customdata"][:-1]) == {0}
    assert set(clocks["y"][:-1]) == {1.9}  # GHz
    assert powers["yaxis"] != clocks["yaxis"]


def test_many_readings_keep_their_extremes_and_the_page_says_so(make, monkeypatch):
    monkeypatch.setattr(timeline_module, "MOST_READINGS", 40)
    view = view_of(make, [timed(make, 500)])
    data = timeline_data(view, view.timeline)
    (powers_w,) = (trace["y"][:-1] for trace in data["figure"]["data"] if trace["name"] == "readings power_w")
    assert len(powers_w) <= 40
    assert (min(powers_w), max(powers_w)) == (100.0, 106.0)
    assert any("Of 500 readings" in note for note in data["notes"])


def test_a_run_without_sensors_sends_one_sentence_and_no_rows(make):
    data = page_data(view_of(make, [measured(make, "a", 1)]))["timeline"]
    assert (data["spans"], data["figure"]) == ([], None)
    assert len(data["notes"]) == 1


def test_the_rich_run_is_json_with_every_span(make):
    view = view_of(make, make.rich_records())
    data = page_data(view)
    assert len(data["timeline"]["spans"]) == sum(len(case.timed) for case in view.cases)
    held = data["timeline"]["columns"].index("is_throttled")
    assert sum(span[held] for span in data["timeline"]["spans"]) == 1  # the one that is flagged capped
    assert "NaN" not in script_json(data)
