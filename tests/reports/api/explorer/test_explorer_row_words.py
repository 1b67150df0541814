"""What the explorer says of its answers: what binds a time, which chip is the fastest, shares and ratios in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install 'roofline-bench[api]'")

from reports.api.explorer.questions import ChipAnswer
from reports.api.explorer.words import (
    as_fast,
    headline,
    interval_text,
    largest_part,
    part_shares,
    rough_share,
    verdicts,
    why,
)
from reports.present.predicted.row import Row
from roofline_model import get_hardware
from roofline_model.core.finding import finding
from roofline_model.formats.catalog import format_pair
from roofline_model.models.llm import predict_model
from roofline_model.predictions.model import pass_prediction
from roofline_model.predictions.product import predict_product


def row_of(formats, chip="gb10", **changed):
    device, pair = get_hardware(chip), format_pair(formats)
    return Row.of(replace(predict_product(device, (1, 4096, 4096), pair), **changed), device, pair)


ROW = row_of("INT8.INT8")


def test_shares_of_a_time_never_come_to_more_than_all():
    shares = part_shares({"tensor": 90, "launch": 60, "kernel": -50})
    assert shares["arithmetic"] == pytest.approx(0.6)
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("parts_s", "work"),
    [
        ({"dram": 9.0, "launch": 1.0}, "Moving bytes takes 90 %"),
        ({"tensor": 9.0, "launch": 1.0}, "Arithmetic takes 90 %"),
        ({"dequantize": 9.0, "launch": 1.0}, "Converting between formats takes 90 %"),
        ({"dram": 1.0, "launch": 9.0}, "But 90 % of the expected time is launch"),
    ],
)
def test_the_largest_kind_of_work_binds_a_time(parts_s, work):
    expected = replace(ROW.expected, parts=tuple(parts_s.items()))
    assert work in why(row_of("INT8.INT8", expected=expected))


def test_a_format_that_lacks_a_kernel_would_take_its_time():
    assert headline(ROW).startswith("INT8 (W8A8) should take 76.15 µs (80 %: 62.1–90.8 µs)")
    gap = finding("kernel-gap", "INT8", hardware="gb10")
    assert "INT8 (W8A8) would take 76.15 µs" in headline(row_of("INT8.INT8", kernel_gap=gap))
    chip = get_hardware("gb10")
    step = pass_prediction(predict_model(chip, "llama-3.1-70b", formats="BF16"), chip)
    assert step.ideal.memory.fits is False
    assert " would take " in headline(Row(step, chip, "BF16", "BF16"))


def test_a_reading_without_an_expected_time_rests_on_the_ideal():
    ideal = row_of("INT8.INT8", expected=None)
    assert "61.49 µs" in headline(ideal)
    assert largest_part(ideal) == ""


def test_chips_are_compared_by_times_of_one_kind():
    def chip(name, best, chosen):
        return ChipAnswer(None, name, (best, chosen), best=best)

    narrow, wide = row_of("FP8_E4M3"), row_of("FP16")
    fast = row_of("FP8_E4M3", "h200-sxm")
    ideal = row_of("FP16", expected=None, time_s=1e-9)
    chips = [chip("A", wide, wide), chip("B", fast, wide), chip("C", ideal, ideal)]
    first, second = verdicts(chips, wide)
    assert first.startswith("Each as recommended: B with FP8 (W8A8) (7.46 µs) is 20.0× as fast as A with FP16")
    assert "C" not in first + second
    same = [replace(chip, rows=(chip.best,)) for chip in (chips[0], ChipAnswer(None, "D", (), best=wide))]
    assert len(list(verdicts(same, wide))) == 1
    assert len(list(verdicts([ChipAnswer(None, "A")], None))) == 1
    assert narrow.is_possible


def test_ratios_shares_and_intervals_are_printed_as_people_read_them():
    assert [as_fast(ratio, "X") for ratio in (1.004, 1.02, 3.04, 0.5)] == [
        "as fast as X",
        "1.02× as fast as X",
        "3.0× as fast as X",
        "0.5× as fast as X",
    ]
    assert [rough_share(ratio) for ratio in (0.004, 0.5, 0.997, 1.0)] == [
        "less than 1 %",
        "50 %",
        "nearly all",
        "100 %",
    ]
    assert interval_text(999.8e-6, 1.0004e-3) == "1–1 ms"
    assert interval_text(37.44e-6, 49.21e-6) == "37.4–49.2 µs"
