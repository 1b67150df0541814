"""What the figures of time get: parts that add up to the measured time, and intervals with the readings a page has room for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reports.figures import timeline as timeline_module
from reports.page.interactive.gap_data import gap_data
from reports.page.interactive.page_data import page_data, script_json
from reports.page.interactive.timeline_data import timeline_data
from reports.view.run_timeline import run_timeline
from reports.view.views import report_view
from results.records.records import TelemetrySample


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
    data = gap_data(view_of(make, [full, plain]).chips[0].cases, 7)
    assert [part["key"] for part in data["parts"]] == ["ideal", "memory", "launch", "supply", "unexplained"]
    assert [part["is_hatched"] for part in data["parts"]] == [False] * 4 + [True]
    for row, record in zip(data["rows"], (full, plain), strict=True):
        number, measured_s, expected_s, low_s, high_s, *parts = row
        assert measured_s == record.measurement.median_s
        assert math.fsum(part or 0.0 for part in parts) == pytest.approx(measured_s)
        assert (number, expected_s is None, low_s is None) == ((7, False, False) if record is full else (8, True, True))
        assert high_s == (None if record is plain else pytest.approx(1.2 * expected_s))
    assert data["rows"][1][6:9] == [None, None, None]  # no part is made up where none is known


def test_what_is_not_known_of_a_time_is_said(make):
    plain = measured(make, "a", 1)
    full = expected(measured(make, "b", 2), 1.5, dram=3e-6)
    said = " ".join(gap_data(view_of(make, [plain]).chips[0].cases, 1)["missing"])
    assert "No case of this run has parts of an expected time stored" in said
    said = " ".join(gap_data(view_of(make, [plain, full]).chips[0].cases, 1)["missing"])
    assert "Of 2 cases 1 has no parts of an expected time stored" in said
    assert "No part is told for the clock" in said
    unjudged = replace(measured(make, "c", 3), predictions=())
    data = gap_data(view_of(make, [unjudged]).chips[0].cases, 1)
    assert data["rows"] == []
    assert "1 measured case cannot be split" in data["missing"][0]
    forced = gap_data(view_of(make, [full], is_forced=True).chips[0].cases, 1)
    assert forced["rows"] == []


def test_stages_of_a_pass_are_told_beside_the_parts(make):
    terms = {f"part:stage{n}": n * 1e-6 for n in range(1, 12)} | {"kernel": 3e-6}
    data = gap_data(view_of(make, [expected(measured(make, "a", 1), 1.5, **terms)]).chips[0].cases, 1)
    assert data["stages"]["1"] == [[f"stage{n}", n * 1e-6] for n in range(11, 3, -1)]
    assert not any("stage" in part["key"] for part in data["parts"])


def timed(make, count):
    readings = tuple(
        TelemetrySample(time_s=0.01 * n, power_w=100.0 + (n % 7), sm_clock_hz=1.9e9) for n in range(1, count + 1)
    )
    one = measured(make, "a", 1, wall_s=1.0, power_w=104.0)
    return replace(one, telemetry=readings, created_at="2026-11-21T09:08:41.123456+00:00")


def test_readings_stand_where_they_were_taken(make):
    view = view_of(make, [timed(make, 100)], started_at="2026-11-21T09:08:11.123456+00:00")
    data = timeline_data(view, run_timeline(view))
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
    data = timeline_data(view, run_timeline(view))
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
    assert len(data["timeline"]["spans"]) == sum(len(case.measured_rows) for case in view.cases)
    held = data["timeline"]["columns"].index("is_throttled")
    assert sum(span[held] for span in data["timeline"]["spans"]) == 1  # the one that is flagged capped
    assert "NaN" not in script_json(data)
