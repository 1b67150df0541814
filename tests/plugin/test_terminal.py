from __future__ import annotations

import dataclasses

import pytest

from plugin.progress import Progress
from plugin.terminal import count_line, flag_lines, summary_lines
from results.records import Measurement, PredictionRecord, Record
from roofline_model import gemm, predict
from roofline_model.units import format_time


def measurement(median_s, flags=(), power_w=None, half_width_s=0.0):
    return Measurement(
        samples_s=(median_s,), calls_per_sample=1, median_s=median_s, min_s=median_s, max_s=median_s, mean_s=median_s, std_s=None,
        q1_s=median_s, q3_s=median_s, sample_count=1, ci_low_s=median_s - half_width_s, ci_high_s=median_s + half_width_s,
        stop_reason="budget", flags=tuple(flags), power_w=power_w,
    )  # fmt: skip


def record(a="BF16", b=None, kernel="matmul", median_s=None, status=None, reason="", shape=(1, 4096, 4096), **more):
    work = gemm(*shape, a=a, b=b)
    prediction = predict(work, "b10")
    measured = None if median_s is None else measurement(median_s, **more)
    return Record(
        record_id=f"{a}{b}{kernel}{shape}", run_id="r", case=work.case(kernel), status=status or ("measured" if measured else "predicted"),
        reason=reason, measurement=measured, predictions=(PredictionRecord.from_prediction(prediction, "h", median_s),),
    )  # fmt: skip


def text(lines):
    return "\n".join(line.text for line in lines)


def test_row_by_hand():
    # 1×4096×4096 BF16 on 1000 GB/s: 33.57 µs ideal, 33.57 MB; measured 67.14 µs → −50 %, 500 GB/s, half the roof
    (_, header, row, *_) = summary_lines([record(median_s=67.1416e-6, half_width_s=0.67e-6)])
    assert header.text.split() == ["weight.act", "kernel", "median", "±", "ideal", "error", "rate", "roof", "bound"]
    assert row.text.split() == [
        "BF16.BF16",
        "matmul",
        "67.14",
        "µs",
        "1.0",
        "%",
        "33.57",
        "µs",
        "-50",
        "%",
        "500",
        "GB/s",
        "50",
        "%",
        "memory",
    ]
    assert row.colour == ""


def test_compute_bound_rows_show_their_rate():
    found = text(summary_lines([record(shape=(2048, 4096, 4096), median_s=687.2e-6)]))
    assert "100 TFLOP/s" in found
    assert "compute" in found


def test_verdict_compares_prediction_with_measurement():
    records = [record(median_s=70e-6), record(a="BF16", b="INT4", kernel="tinygemm", median_s=35e-6)]
    assert "→ INT4 W4A16 (tinygemm) predicted 4.0× BF16, measured 2.0×" in text(summary_lines(records))


def test_colour_follows_the_share_of_the_roof():
    colours = {share: summary_lines([record(median_s=33.57e-6 / share)])[2].colour for share in (0.9, 0.5, 0.1)}
    assert colours == {0.9: "green", 0.5: "", 0.1: "red"}


def test_doubtful_rows_are_marked_and_explained():
    records = [record(median_s=70e-6, flags=("contended",)), record(a="FP16", median_s=70e-6)]
    rows = [line.text for line in summary_lines(records) if "matmul" in line.text and "→" not in line.text]
    assert [row.endswith("!") for row in rows] == [True, False]
    assert "contended (!): 1 case: other processes" in text(flag_lines(records))


def test_a_case_above_a_ceiling_measured_here_asks_for_calibration():
    fast = record(median_s=20e-6)  # ideal 33.57 µs
    assert "above the roof" not in text(flag_lines([fast]))  # not our ceiling
    ideal = dataclasses.replace(fast.predictions[0], provenance="measured-here")
    assert "above the roof: 1 case ran" in text(flag_lines([dataclasses.replace(fast, predictions=(ideal,))]))


def test_power_has_a_column_only_when_somebody_measured_it():
    assert " W" not in summary_lines([record(median_s=70e-6)])[1].text
    lines = summary_lines([record(median_s=70e-6, power_w=123.4), record(a="FP16", median_s=70e-6)])
    assert lines[1].text.endswith("W")
    assert [line.text.split()[-1] for line in lines[2:4]] == ["123", "–"]


def test_every_line_fits_into_100_columns():
    long = "a_kernel_with_a_very_long_name_indeed_" * 3
    records = [
        record(median_s=70e-6, kernel=long, power_w=1.0, flags=("noisy", "drift", "contended")),
        record(status="skipped", reason="because " * 40),
    ]
    for line in [*summary_lines(records), *flag_lines(records)]:
        assert len(line.text) <= 100, line.text


def test_reasons_are_said_once_with_their_count():
    records = [record(kernel=f"k{i}", status="skipped", reason="needs compute capability ≥ 10.0") for i in range(3)]
    assert "skipped: 3 cases: needs compute capability ≥ 10.0" in text(summary_lines(records))
    assert count_line(records) == "3 skipped"
    assert count_line([]) == "nothing measured"
    assert count_line([record(median_s=1e-5, flags=("drift",)), record(median_s=1e-5)]) == "2 measured (1 in doubt)"


def test_progress_knows_the_time_left():
    progress = Progress(10, first_guess_s=2.0)
    assert progress.seconds_left() == pytest.approx(20.0)
    line = progress.line("case-with-a-long-name" * 5, 60)
    assert line.startswith("[1/10] case-with")
    assert line.endswith("about 20 s left")
    assert len(line) <= 60
    for _ in range(10):
        progress.finished_one()
    assert progress.seconds_left() == 0.0
    assert format_time(20.0, 2) in line
