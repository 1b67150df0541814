"""What the page's scripts get: the records' own numbers, and JSON that stays JSON inside a page."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_rows import packed_numbers, unpacked

from reports.page.page_data import (
    FACETS,
    MAX_SAMPLES_COUNT,
    TABLE_COLUMNS,
    Texts,
    packed,
    packed_floats,
    page_data,
    sample_data,
    script_json,
)
from reports.view.views import report_view


def data_of(make, records, device=None, **run):
    return page_data(report_view(make.run(**run), records, make.profiles(device or make.CPU)))


def rows_of(data, chip=0):
    """The rows as the page unpacks them."""
    return unpacked(data["chips"][chip]["cases"], data["texts"])


def test_rows_hold_the_records_numbers_to_the_digit(make):
    records = make.cpu_records()
    rows = rows_of(json.loads(script_json(data_of(make, records))))
    assert [row["number"] for row in rows] == list(range(1, len(records) + 1))
    for record, row in zip(records, rows, strict=True):
        assert {key for key, *_ in (*TABLE_COLUMNS, *FACETS)} <= set(row)
        assert (row["name"], row["status"]) == (record.case.id, record.status)
        measured = record.status == "measured"
        assert row["measured_s"] == (record.measurement.median_s if measured else None)
        assert row["within_ratio"] == (record.measurement.ci_half_width_ratio if measured else None)
        assert row["ideal_s"] == (record.ideal.time_s if record.ideal else None)
        assert row["error_ideal_ratio"] == (record.ideal.error_ratio if measured else None)
        if measured:
            assert row["achieved_flops_per_s"] == record.ideal.flops / record.measurement.median_s
            assert row["intensity_flop_per_byte"] == record.ideal.flops / record.ideal.total_bytes


def test_only_plotted_rows_have_what_a_point_needs(make):
    rows = rows_of(data_of(make, make.cpu_records()))
    assert {row["status"] for row in rows if row["is_plotted"]} == {"measured"}
    for row in rows:
        if row["is_plotted"]:
            assert row["intensity_flop_per_byte"] > 0
            assert row["ideal_flops_per_s"] or row["achieved_flops_per_s"]


def test_a_forced_run_has_no_errors_because_the_prediction_is_of_another_chip(make):
    rows = rows_of(data_of(make, make.cpu_records()[:3], is_forced=True))
    assert [row["error_ideal_ratio"] for row in rows] == [None] * 3
    assert all(row["measured_s"] for row in rows)


def test_every_format_has_a_colour_and_every_operator_a_shape(make):
    view = report_view(make.run(), make.gpu_records(), make.profiles(make.GPU))
    data = page_data(view)
    assert {row["format"] for row in rows_of(data)} <= set(data["chips"][0]["colours"])
    assert {row["op"] for row in rows_of(data)} == set(data["chips"][0]["shapes"])


def expected_record(make, shape, ratio):
    record = make.record(shape, "BF16", "BF16", "matmul", 1e-3, device=make.GPU)
    time_s = record.ideal.time_s * ratio
    expected = replace(record.ideal, kind="expected", time_s=time_s, low_s=time_s * 0.9, high_s=time_s * 1.1)
    return replace(record, predictions=(record.ideal, expected), record_id=str(shape))


def test_the_expected_roof_is_the_best_that_expected_times_reach(make):
    records = [
        expected_record(make, shape, ratio)
        for shape, ratio in (((1, 4096, 4096), 1.25), ((1, 8192, 8192), 1.5), ((4096, 4096, 4096), 1.6))
    ]
    view = report_view(make.run(), records, make.profiles(make.GPU))
    (roof,) = view.chips[0].roofline.expected_roofs
    assert roof.precision == "BF16"
    assert roof.bandwidth_bytes_per_s == pytest.approx(4800e9 / 1.25)
    assert roof.peak_flops_per_s == pytest.approx(989.4e12 / 1.6)
    memory_only = report_view(make.run(), records[:2], make.profiles(make.GPU))
    (roof,) = memory_only.chips[0].roofline.expected_roofs
    assert roof.peak_flops_per_s is None
    assert roof.last_flop_per_byte == max(record.ideal.intensity_flop_per_byte for record in records[:2])
    assert report_view(make.run(), make.gpu_records(), {}).chips[0].roofline.expected_roofs == ()


def test_samples_are_whole_and_the_flagged_come_first(make):
    view = report_view(make.run(), make.rich_records(), make.profiles(make.GPU))
    series_list = sample_data(view.chips[0].cases, 1)["series"]
    by_number = dict(enumerate(view.chips[0].cases, 1))
    for series in series_list:
        case = by_number[series["number"]]
        (record,) = [record for record in case.timed if record.process.ordinal == series["process"]]
        assert tuple(packed_numbers(series["samples_s"])) == record.measurement.samples_s
    assert sum(len(packed_numbers(series["samples_s"])) for series in series_list) <= MAX_SAMPLES_COUNT
    flagged = {number for number, case in by_number.items() if {"bimodal", "drift", "outliers"} & set(case.flags)}
    assert flagged <= {series["number"] for series in series_list}


@given(st.lists(st.floats(allow_nan=False), max_size=9))
def test_packed_numbers_keep_every_bit(values):
    assert [number.hex() for number in packed_numbers(packed_floats(values))] == [
        float(value).hex() for value in values
    ]


def test_samples_beyond_the_room_are_left_out_whole(make):
    long = make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, samples_s=(1e-3,) * (MAX_SAMPLES_COUNT + 1))
    short = make.record((1, 64, 64), "FP16", "FP16", "k", 1e-3, number=1)
    view = report_view(make.run(), [long, short], make.profiles(make.CPU))
    assert [len(packed_numbers(series["samples_s"])) for series in sample_data(view.chips[0].cases, 1)["series"]] == [3]


def test_several_chips_are_numbered_through(make):
    data = data_of(make, [*make.cpu_records(), *make.gpu_records()])
    numbers = [row["number"] for chip in range(len(data["chips"])) for row in rows_of(data, chip)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(data["chips"]) == 2


@pytest.mark.parametrize("kind", ["empty", "predicted", "failed", "no-predictions"])
def test_poor_runs_give_data_too(make, kind):
    records = {
        "empty": [],
        "predicted": [replace(record, status="predicted", measurement=None) for record in make.cpu_records()[:3]],
        "failed": [
            replace(record, status="failed", measurement=None, predictions=()) for record in make.cpu_records()[:2]
        ],
        "no-predictions": [replace(record, predictions=()) for record in make.cpu_records()[:2]],
    }[kind]
    data = json.loads(script_json(data_of(make, records)))
    assert len(rows_of(data)) == len(records)


texts = st.text(st.characters(codec="utf-8"), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
)


@given(values)
def test_script_json_is_the_same_json_and_cannot_leave_its_element(value):
    text = script_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_script_json_refuses_what_json_lacks(number):
    with pytest.raises(ValueError, match="JSON compliant"):
        script_json([number])


def test_texts_are_kept_once_and_floats_to_the_bit():
    text_table, rows = Texts(), [{"a": "x", "b": 0.1, "c": ("x", "y")}, {"a": "x", "b": None, "c": ()}]
    table = packed(rows, text_table, ("a", "b", "c"))
    assert table | {"floats": {}} == {
        "columns": ["a", "b", "c"],
        "texts": ["a", "c"],
        "floats": {},
        "rows": [[0, [0, 1]], [0, []]],
    }
    assert unpacked(table, text_table.all()) == [row | {"c": list(row["c"])} for row in rows]
    assert text_table.all() == ["x", "y"]
