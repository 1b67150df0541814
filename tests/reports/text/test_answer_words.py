"""What the explorer says of its answers: what binds a time, which chip is the fastest, shares and ratios in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.text.answer_words import (
    AnswerFacts,
    ChipFacts,
    ChipTime,
    ChosenFormat,
    ExpectedFacts,
    MemoryFacts,
    as_fast,
    interval_text,
    part_shares,
    reading,
    rough_share,
    verdicts,
)

ANSWER = AnswerFacts(
    operator="product",
    label="INT8",
    weight="INT8",
    activation="INT8",
    is_baseline=False,
    baseline="FP16",
    time_s=61.5e-6,
    bound="memory",
    intensity_flop_per_byte=2.0,
    ridge_flop_per_byte=870.5,
    flops=33_554_432.0,
    moved_bytes=16_789_504.0,
    path="native",
    compute_format="INT8",
    is_placeholder=False,
    speedup_ratio=2.0,
    expected_speedup_ratio=1.96,
    expected=ExpectedFacts(76.1e-6, 62.1e-6, 90.8e-6, "fitted", {"launch": 2.2e-6, "dram": 73.5e-6}),
    memory=None,
    gap="",
    gap_text="",
    codes=(),
    notes=("constants of rtx-pro-6000",),
)


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
    expected = ExpectedFacts(10.0, 8.0, 12.0, parts_s=parts_s)
    assert work in reading(replace(ANSWER, expected=expected)).why


def test_a_format_that_lacks_a_kernel_would_take_its_time():
    assert reading(ANSWER).headline.startswith("INT8 should take 76.1 µs (62.1–90.8 µs ")
    for missing in (
        {"gap": "kernel", "gap_text": "no kernel known"},
        {"gap": "engine", "gap_text": "no engine known"},
        {"memory": MemoryFacts(2e9, 1e9, False)},
    ):
        assert "INT8 would take 76.1 µs" in reading(replace(ANSWER, **missing)).headline


def test_a_reading_without_an_expected_time_rests_on_the_ideal():
    text = reading(replace(ANSWER, expected=None))
    assert "61.5 µs" in text.headline
    assert text.largest_part == ""


def test_chips_are_compared_by_times_of_one_kind():
    fast, slow, ideal = (
        ChipTime("NVFP4", 1e-6, True, "", None),
        ChipTime("FP16", 2e-6, True, "", None),
        ChipTime("FP16", 1e-9, False, "", None),
    )
    chips = [ChipFacts("A", slow, slow, ""), ChipFacts("B", fast, slow, ""), ChipFacts("C", ideal, ideal, "")]
    first, second = verdicts(chips, ChosenFormat("FP16", False))
    assert first.startswith("Each as recommended: B with NVFP4 (1 µs) is 2.0× as fast as A with FP16")
    assert "C" not in first + second
    assert len(verdicts([replace(chip, chosen=chip.recommended) for chip in chips], ChosenFormat("FP16", False))) == 1
    assert len(verdicts(chips, None)) == 1


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


@pytest.mark.parametrize("wrong", [{"time_s": 0.0}, {"expected": (0.0, 1.0, 1.0)}])
def test_times_are_above_zero(wrong):
    with pytest.raises(ValueError):
        replace(ANSWER, **({"expected": ExpectedFacts(*wrong["expected"])} if "expected" in wrong else wrong))
