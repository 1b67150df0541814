"""The expected time in the terminal's table: beside the ideal one, first to leave a narrow screen, judged in one
line.
"""

from __future__ import annotations

from dataclasses import replace

from run_makers import flat_measurement

from plugin.run.pending import expected_record
from plugin.terminal.summary import summary_lines
from results.records.records import PredictionRecord, Record
from roofline_model import gemm, get_hardware, predict
from roofline_model.expected.predict import predict_expected

CHIP = get_hardware("gb10")


def record(median_s=None, flags=(), kernel="matmul", b="BF16"):
    work = gemm(8, 4096, 4096, a="BF16", b=b)
    ideal, expected = predict(work, CHIP), predict_expected(work, CHIP)
    measured = None
    if median_s is not None:
        measured = flat_measurement(median_s, 1, half_width=0.0, std_s=None, stop_reason="budget", flags=flags)
    return Record(
        record_id=kernel,
        run_id="r",
        case=work.case(kernel),
        status="measured" if measured else "predicted",
        measurement=measured,
        predictions=(
            PredictionRecord.from_prediction(ideal, "h", median_s),
            expected_record(expected, ideal, "h", median_s),
        ),
    )


def lines(records, width=120):
    return [line.text for line in summary_lines(records, width=width)]


def test_expected_and_its_error_stand_behind_the_ideal_ones():
    slow = record()
    expected_s = slow.expected.time_s
    shown = lines([record(median_s=1.25 * expected_s)])
    columns = "Format Kernel Measured ± Ideal Error Expected Exp. error Of roof Rate Bound"
    assert shown[1].split() == columns.split()
    assert "-20.0 %" in shown[2]


def test_a_case_that_was_not_measured_shows_both_predictions_and_no_empty_columns():
    shown = lines([record()], width=80)
    assert shown[1].split() == ["Format", "Kernel", "Ideal", "Expected", "Bound"]


def test_at_80_columns_the_time_leaves_before_its_error():
    shown = lines([record(median_s=200e-6)], width=70)
    assert "Expected" not in shown[1].split()
    assert "Exp. error" in shown[1]


def test_one_line_says_how_far_the_predictions_were_off():
    slow = record()
    ideal_s, expected_s = slow.ideal.time_s, slow.expected.time_s
    shown = lines([record(median_s=2 * expected_s), record(median_s=2 * expected_s, kernel="other")])
    wanted = (
        f"median |error| of the ideal {(1 - ideal_s / (2 * expected_s)) * 100:.1f} %, of the expected time 50.0 % (2 "
        "cases)"
    )
    assert any(wanted in line for line in shown)


def test_times_that_are_not_this_chips_own_are_not_judged():
    for flag in ("forced", "simulated"):
        assert not any("median |error|" in line for line in lines([record(median_s=200e-6, flags=(flag,))]))


def test_without_an_expected_time_nothing_is_said_about_it():
    bare = record(median_s=200e-6)
    bare = replace(bare, predictions=bare.predictions[:1])
    assert not any("expected" in line for line in lines([bare]))
