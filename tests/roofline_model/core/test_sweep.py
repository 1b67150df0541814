"""Grids of predictions: the same numbers as one at a time, axes as they are written, limits before memory runs out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_model import create_custom_asic, gemm, get_hardware, predict
from roofline_model.chips.curve import TimedCall, kernel_curves
from roofline_model.chips.machine_constants import Calibration, Constant
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.expected.predict import predict_expected
from roofline_model.operators.product import product_of_pair
from roofline_model.sweep import MAX_ROWS, GemmGrid, format_pairs, parse_axis, sweep_gemm


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1", (1,)),
        ("64,1, 16", (1, 16, 64)),
        ("128:640:256", (128, 384, 640)),
        ("1:100:*3", (1, 3, 9, 27, 81)),
        ("1:4:*2,4:6:1", (1, 2, 4, 5, 6)),
        ("5:5:1", (5,)),
    ],
)
def test_axes_are_read_as_written(text, sizes):
    assert parse_axis("M", text) == sizes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "1:2",
        "1:2:0",
        "8:4:1",
        "1:8:*1",
        "a",
        "1,,2",
        "1:1e3:2",
        "1:2:3:4",
        "9" * 30,
        "٣",
        "1:1000000000:1",
    ],
)
def test_what_is_no_axis_is_refused_with_the_form(text):
    with pytest.raises(InvalidValueError, match="N: ") as caught:
        parse_axis("N", text)
    assert "\n" not in str(caught.value)


def one_row(chip, shape, label, cache="cold"):
    grid = GemmGrid(*((size,) for size in shape), (get_hardware(chip),), format_pairs([label]))
    (row,) = sweep_gemm(grid, cache=cache).to_dict("records")
    return row


@given(
    st.sampled_from(["gb10", "h100", "b200", "a100"]),
    st.tuples(*[st.integers(1, 30000)] * 3),
    st.sampled_from(["BF16", "INT4.BF16", "FP8", "NVFP4", "INT8.FP16"]),
    st.sampled_from(["cold", "warm"]),
)
def test_a_sweep_is_many_single_predictions(chip, shape, label, cache):
    ((weight, activation),) = format_pairs([label])
    work = product_of_pair(*shape, weight=weight, activation=activation)
    row = one_row(chip, shape, label, cache)
    ideal = predict(work, chip, cache=cache)
    assert row["ideal_s"] == pytest.approx(ideal.time_s, rel=1e-12)
    assert (row["bound"], row["flops"]) == (ideal.bound, work.cost.total_flops)
    assert row["bytes"] == pytest.approx(work.cost.total_bytes)
    expected = predict_expected(work, chip, cache=cache)
    assert row["expected_s"] == pytest.approx(expected.time_s, rel=1e-9)
    assert (row["binding"], row["provenance"]) == (expected.binding, expected.provenance)


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize("shape", [(1, 64, 64), (512, 4096, 4096)])
def test_a_calibrated_cpu_answers_a_sweep_as_it_answers_one_call(cache, shape):
    calibration = Calibration(
        "2026-11-21T12:00:00+00:00",
        "Test CPU",
        "cpu",
        {"read": Constant("B/s", 5e10, 4e10, 2e10, 0.1, 20)},
        peaks={"BF16": Constant("FLOP/s", 4e11, 3.2e11, 2e11, 0.1, 20)},
        kernels=kernel_curves(
            [TimedCall(gemm(*shape, a="BF16"), "matmul", 1e-3) for shape in ((1, 128, 128), (256, 512, 512))]
        ),
    )
    chip = replace(create_custom_asic("test cpu", 50, {"FP32": 0.2, "BF16": 0.4}), calibration=calibration, kind="cpu")
    row = one_row(chip, shape, "BF16", cache)
    expected = predict_expected(gemm(*shape, a="BF16"), chip, cache=cache)
    assert (row["expected_s"], row["expected_low_s"], row["expected_high_s"]) == (
        expected.time_s,
        expected.low_s,
        expected.high_s,
    )
    assert (row["binding"], row["provenance"], row["reason"]) == (expected.binding, "measured-here", "")


def test_a_warm_product_whose_cache_has_no_known_bandwidth_says_so():
    assert get_hardware("gb10").last_level_cache.bandwidth is None
    findings = predict(gemm(1, 1024, 1024, a="FP8"), "gb10", cache="warm").findings
    code = one_row("gb10", (1, 1024, 1024), "FP8", "warm")["finding"]
    assert code in {item.code for item in findings}
    partly = one_row("gb10", (1, 4096, 5500), "FP8", "warm")["finding"]
    assert partly not in ("", code)
    assert one_row("gb10", (1, 30000, 30000), "FP8", "warm")["finding"] == ""
    assert one_row("gb10", (1, 1024, 1024), "FP8", "cold")["finding"] == ""


def test_rows_come_in_order_and_across_chunks_none_is_lost(monkeypatch):
    monkeypatch.setattr("roofline_model.sweep.CHUNK_ROWS", 7)
    grid = GemmGrid(
        (1, 2, 3), (10, 20), (5, 6, 7), (get_hardware("gb10"), get_hardware("h100")), format_pairs(["BF16", "FP8"])
    )
    seen = []
    table = sweep_gemm(grid, with_expected=False, progress=lambda *step: seen.append(step))
    assert len(table) == grid.row_count == 3 * 2 * 3 * 2 * 2
    first = table[(table.hardware == "gb10") & (table.weight_format == "BF16")]
    assert list(zip(first.M, first.N, first.K, strict=True)) == [
        (m, n, k) for m in (1, 2, 3) for n in (10, 20) for k in (5, 6, 7)
    ]
    assert seen[-1][1:] == (72, 72)
    assert "expected_s" not in table


def test_what_a_chip_cannot_do_is_empty_with_the_reason():
    row = one_row("b10", (8, 4096, 4096), "BF16")
    assert math.isnan(row["expected_s"])
    assert row["ideal_s"] > 0
    assert "no expected-time constants" in row["reason"]


def test_grids_that_are_too_large_empty_or_of_unknown_formats_are_refused():
    chip, pair = (get_hardware("gb10"),), format_pairs(["BF16"])
    with pytest.raises(InvalidValueError, match=f"more than {MAX_ROWS:,}"):
        GemmGrid(tuple(range(1, 1001)), tuple(range(1, 1001)), tuple(range(1, 12)), chip, pair)
    with pytest.raises(InvalidValueError, match="no pairs"):
        GemmGrid((1,), (1,), (1,), chip, ())
    with pytest.raises(UnknownNameError):
        format_pairs(["FP99"])
