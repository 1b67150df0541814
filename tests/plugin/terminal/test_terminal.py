from __future__ import annotations

import dataclasses

import pytest
from run_makers import flat_measurement

from plugin.terminal.progress import Progress
from plugin.terminal.summary import count_line, flag_lines, summary_lines
from results.cases.case_result import case_results
from results.records.records import Method, PredictionRecord, ProcessInfo, Record
from results.records.state_records import CanaryReading, NoiseFloor
from results.statistics.replication import TotalInterval, width_text
from roofline_model import gemm, predict
from roofline_model.core.finding import code_text
from roofline_model.core.units import format_time


def measurement(median_s, half_width_s=0.0, **changes):
    ends = {"ci_low_s": median_s - half_width_s, "ci_high_s": median_s + half_width_s}
    return flat_measurement(median_s, 1, std_s=None, stop_reason="budget", **ends, **changes)


def record(a="BF16", b=None, kernel="matmul", median_s=None, status=None, reason="", shape=(1, 4096, 4096), **more):
    work = gemm(*shape, a=a, b=b)
    prediction = predict(work, "b10")
    measured = None if median_s is None else measurement(median_s, **more)
    return Record(
        record_id=f"{a}{b}{kernel}{shape}",
        run_id="r",
        case=work.case(kernel),
        status=status or ("measured" if measured else "predicted"),
        reason=reason,
        measurement=measured,
        predictions=(PredictionRecord.from_prediction(prediction, "h", median_s),),
    )


def text(lines):
    return "\n".join(line.text for line in lines)


def test_row_by_hand():
    # 1×4096×4096 BF16 on 1000 GB/s: 33.57 µs ideal, 33.57 MB; measured 67.14 µs → −50 %, 500 GB/s, half the roof
    (_, header, row, *_) = summary_lines([record(median_s=67.1416e-6, half_width_s=0.67e-6)], width=100)
    assert header.text.split() == ["Format", "Kernel", "Measured", "±", "Ideal", "Error", "Of", "roof", "Rate", "Bound"]
    assert row.text.split() == [
        "BF16",
        "matmul",
        "67.14",
        "µs",
        "±1.0",
        "%*",
        "33.57",
        "µs",
        "-50.0",
        "%",
        "50",
        "%",
        "500",
        "GB/s",
        "memory",
    ]
    assert row.colour == ""


def test_compute_bound_rows_show_their_rate():
    summary = text(summary_lines([record(shape=(2048, 4096, 4096), median_s=687.2e-6)]))
    assert "100 TFLOP/s" in summary
    assert "compute" in summary


def test_verdict_compares_prediction_with_measurement():
    records = [record(median_s=70e-6), record(a="BF16", b="INT8", kernel="int8pack", median_s=35e-6)]
    assert "→ take INT8 (W8A16) · int8pack: ideal 2.0× BF16, measured 2.0×" in text(summary_lines(records))


def test_colour_follows_the_share_of_the_roof():
    colours = {share: summary_lines([record(median_s=33.57e-6 / share)])[2].colour for share in (0.9, 0.5, 0.1)}
    assert colours == {0.9: "green", 0.5: "", 0.1: "red"}


def test_doubtful_rows_are_marked_and_explained():
    records = [record(median_s=70e-6, flags=("contended",)), record(a="FP16", median_s=70e-6)]
    rows = [line.text for line in summary_lines(records) if "matmul" in line.text and "→" not in line.text]
    assert [" ! " in row for row in rows] == [True, False]
    assert "! 1 of 2 cases in doubt: contended 1. contended: other processes" in text(flag_lines(records, width=200))


def test_a_case_above_a_ceiling_measured_here_asks_for_calibration():
    fast = record(median_s=20e-6)  # ideal 33.57 µs
    assert "above the roof" not in text(flag_lines([fast]))  # not our ceiling
    ideal = dataclasses.replace(fast.predictions[0], provenance="measured-here")
    measured_here = dataclasses.replace(fast, predictions=(ideal,))
    flag_text = text(flag_lines([measured_here], width=120)).replace("\n  ", " ")
    assert "above the roof: 1 case ran more than 5 % faster" in flag_text
    assert flag_text.endswith(f"({measured_here.case.id})")


def test_a_case_far_above_its_roof_is_named_and_asks_for_no_calibration():
    fast = record(median_s=47e-9, flags=("above-roof",))
    ideal = dataclasses.replace(fast.predictions[0], provenance="measured-here")
    flag_text = text(flag_lines([dataclasses.replace(fast, predictions=(ideal,))], width=120)).replace("\n  ", " ")
    assert flag_text.startswith(f"above-roof (!): 1 case: {code_text('above-roof')}")
    assert flag_text.endswith(f"({fast.case.id})")
    assert "above the roof" not in flag_text
    assert count_line([fast]) == "1 measured (1 in doubt)"


def test_power_has_a_column_only_when_somebody_measured_it():
    assert "Power" not in summary_lines([record(median_s=70e-6)])[1].text
    lines = summary_lines([record(median_s=70e-6, power_w=123.4), record(a="FP16", median_s=70e-6)], width=120)
    assert lines[1].text.endswith("Power")
    assert [line.text.split()[-2:] for line in lines[2:4]] == [["123", "W"], ["memory", "–"]]


@pytest.mark.parametrize(
    ("width", "given"), [(40, 60), (60, 60), (70, 70), (80, 80), (100, 100), (140, 140), (200, 200), (500, 200)]
)
def test_every_line_fits_the_terminal_from_60_to_200_columns(width, given):
    long = "a_kernel_with_a_very_long_name_indeed_" * 3
    records = [
        record(
            median_s=70e-6, kernel=long, power_w=1.0, flags=("noisy", "drift", "contended", "quarantined", "capped")
        ),
        record(a="FP8_E4M3", median_s=412.7e-6, power_w=712.0, shape=(2048, 4096, 4096)),
        record(status="skipped", reason="because " * 40),
    ]
    ended = [ProcessInfo(3, end_reason="killed by SIGABRT " * 5)]
    lines = summary_lines(records, width=width) + flag_lines(records, [canary(1.3e-3)], ended, width=width)
    assert max(len(line.text) for line in lines) <= given
    assert max(len(line.text) for line in lines) > given - 20  # and uses the room


def test_a_long_verdict_is_folded_at_the_width():
    records = [
        record(kernel="mine_with_a_long_name", median_s=70e-6),
        record(a="FP16", kernel="another_long_name", median_s=70.1e-6),
        record(a="BF16", b="INT4", kernel="tinygemm", median_s=99e-6),
    ]
    lines = [line.text for line in summary_lines(records, width=80)]
    first = next(index for index, line in enumerate(lines) if line.startswith("  → "))
    assert all(len(line) <= 80 for line in lines)
    assert lines[first + 1].startswith("    ")
    assert lines[first + 2] == ""
    whole = " ".join(line.strip() for line in lines[first : first + 2])
    assert whole.endswith(": INT4 (W4A16) · tinygemm ideal 4.0× BF16, measured 0.71×")


def test_too_few_samples_for_an_interval_leave_it_out_and_are_no_doubt():
    single = record(median_s=1.5)
    few = dataclasses.replace(
        single,
        measurement=dataclasses.replace(single.measurement, ci_low_s=None, ci_high_s=None, flags=("few-samples",)),
    )
    lines = summary_lines([few, record(a="FP16", median_s=1.4)], width=100)
    assert [line.text.split()[4] for line in lines[2:4]] == ["–", "±0.0"]
    assert flag_lines([few], width=120) == []
    assert count_line([few]) == "1 measured"  # a wide interval is a doubt, an unknown one is not


@pytest.mark.parametrize(
    ("ratio", "shown"), [(0.0123, "1.2 %"), (0.994, "99.4 %"), (1.4, "140 %"), (9.99, "999 %"), (208.69, ">999 %")]
)
def test_an_interval_without_a_limit_is_not_printed_as_a_number(ratio, shown):
    assert width_text(ratio) == shown


def test_an_interval_without_a_limit_is_capped_in_the_table():
    records = [in_process(record(median_s=70e-6), ordinal, time_s) for ordinal, time_s in enumerate((7e-6, 7e-3))]
    (total,) = (case.total for case in case_results(records))
    assert isinstance(total, TotalInterval)
    assert total.half_width_ratio > 10
    assert ">999 %  " in text(summary_lines(records, width=120))


def test_what_80_columns_leave_out_is_implied_by_what_they_show():
    records = [
        record(median_s=70e-6, power_w=612.0),
        record(a="FP8_E4M3", kernel="dequantize_matmul", median_s=50e-6, power_w=612.0),
    ]
    wide, narrow = summary_lines(records, width=120), summary_lines(records, width=80)
    assert wide[1].text.split() == [
        "Format",
        "Kernel",
        "Measured",
        "±",
        "Ideal",
        "Error",
        "Of",
        "roof",
        "Rate",
        "Bound",
        "Power",
    ]
    assert narrow[1].text.split() == ["Format", "Kernel", "Measured", "±", "Ideal", "Error"]
    assert "FP8 (W8A8)" in text(wide)
    assert "FP8 (W8A8)" in text(narrow)


def test_60_columns_keep_what_was_measured_and_fold_a_long_kernel_name():
    records = [
        record(median_s=70e-6, power_w=612.0, half_width_s=1e-6),
        record(a="BF16", b="INT4", kernel="dequantize_then_matmul_in_bf16", median_s=35e-6, flags=("contended",)),
    ]
    lines = [line.text for line in summary_lines(records, width=60)]
    assert lines[1].split() == ["Format", "Kernel", "Measured", "!", "Error"]
    row = next(index for index, line in enumerate(lines) if line.startswith("  INT4 (W4A16)"))
    assert lines[row].split()[2:] == ["dequantize_then_", "35.00", "µs", "!", "-76.0", "%"]
    assert lines[row + 1].strip() == "matmul_in_bf16"
    assert "…" not in "\n".join(lines)


def test_what_was_only_predicted_keeps_its_ideal_time_at_60_columns():
    records = [record(median_s=70e-6, kernel="a_kernel_with_a_long_name"), record(a="FP16", kernel="cutlass_w4a16")]
    header = summary_lines(records, width=60)[1].text.split()
    assert "Ideal" in header


def in_process(measured_record, ordinal, median_s=None):
    measured = measured_record.measurement if median_s is None else measurement(median_s, half_width_s=median_s / 100)
    return dataclasses.replace(
        measured_record,
        record_id=f"{measured_record.record_id}-{ordinal}",
        measurement=measured,
        process=ProcessInfo(ordinal),
    )


def test_several_processes_are_one_row_with_the_total_interval():
    base = record(median_s=70e-6)
    records = [in_process(base, ordinal, time_s) for ordinal, time_s in enumerate((66e-6, 70e-6, 71e-6))]
    lines = summary_lines(records, width=100)
    (row,) = [line.text for line in lines if "matmul" in line.text and "→" not in line.text]
    total = next(each.total for each in case_results(records) if each.case_key == base.case.case_key)
    assert "68.97 µs" in row  # the geometric mean of the medians
    assert f"{total.half_width_ratio * 100:.1f} %  " in row
    assert "%*" not in row
    assert "-51.3 %" in row  # 33.57 µs against 68.97 µs, not against one process
    assert "± is interval_total, from 3 processes" in text(lines)
    assert "interval_within" not in text(lines)
    assert count_line(records) == "1 measured (in 3 processes)"


def test_one_process_says_so_once_and_a_stored_floor_widens_it():
    single = dataclasses.replace(record(median_s=70e-6, half_width_s=0.7e-6), method=Method("monotonic", "1", {}))
    alone = summary_lines([single], width=100)
    assert "1.0 %*" in alone[2].text
    sentence = "* ± is of one process: another may differ by more; `roofline doctor --noise` says how much"
    assert text(alone).count(sentence) == 1
    key = single.case.case_key, single.method.method_hash
    floor = NoiseFloor("class", *key, between_sd_ratio=0.05, within_sd_ratio=0.01, process_count=12, created_at="")
    lines = summary_lines([single], floors={key: floor}, width=100)
    width = next(
        each.total for each in case_results([single], {key: floor}) if each.case_key == single.case.case_key
    ).half_width_ratio
    assert f"{width * 100:.1f} %  " in lines[2].text
    assert width > 0.05
    assert "from this machine's A/A floor" in text(lines)


def test_modes_and_cache_states_are_blocks_of_their_own_and_named():
    base = record(median_s=70e-6)
    records = [
        dataclasses.replace(base, case=dataclasses.replace(base.case, cache=cache, mode=mode))
        for cache, mode in (
            ("cold", "eager"),
            ("flushed", "eager"),
            ("warm", "eager"),
            ("cold", "graph"),
            ("cold", "sustained"),
        )
    ]
    titles = [line.text for line in summary_lines(records, width=120) if line.text.startswith("gemv 1x4096x4096")]
    assert titles == [
        "gemv 1x4096x4096 · cold  (operands from memory)",
        "gemv 1x4096x4096 · flushed  (caches flushed before each call)",
        "gemv 1x4096x4096 · warm  (hot: operands may stay in cache)",
        "gemv 1x4096x4096 · cold · graph  (operands from memory, replay of a CUDA graph)",
        "gemv 1x4096x4096 · cold · sustained  (operands from memory, power and clock flat)",
    ]
    assert "→" not in text(summary_lines(records))  # a case in graph mode is no rival of itself in eager mode


def canary(time_s, is_slow=True):
    return CanaryReading(0, 0, "2026-11-21T09:00:00+00:00", "gemv-bf16-4096x4096", time_s, 410e-6, is_slow)


def test_quarantine_is_explained_once_with_what_to_do():
    records = [record(kernel=f"k{i}", median_s=70e-6, flags=("quarantined",) if i < 3 else ()) for i in range(42)]
    lines = flag_lines(records, [canary(410e-6, False), canary(1.312e-3)], width=120)
    assert lines[0].text.startswith(
        "3 of 42 cases are quarantined: the canary kernel (gemv-bf16-4096x4096) was slow in 1 of 2 readings, up to "
        "1.31 ms, 3.2×"
    )
    assert "then run them again" in text(lines)
    assert text(lines).count("quarantined") == 1
    assert "quarantined: the canary kernel beside it" in text(
        flag_lines(records)
    )  # readings of this run are not at hand
    assert "no case lay beside it" in text(flag_lines(records[3:], [canary(1.3e-3)]))
    assert flag_lines(records[3:], [canary(410e-6, False)]) == []


def test_capped_cases_and_replaced_workers_say_what_to_do():
    records = [record(median_s=70e-6, flags=("capped",)), in_process(record(a="FP16", median_s=70e-6), 1)]
    warnings = text(
        flag_lines(records, processes=[ProcessInfo(2, role="worker", end_reason="killed by SIGABRT")], width=120)
    )
    assert f"1 of 2 cases is capped: {code_text('capped')}" in warnings
    assert "1 of 1 case is capped:" in text(flag_lines(records[:1], width=120))
    assert "run it again" in warnings
    assert "1 worker was replaced by a fresh one (killed by SIGABRT)" in warnings
    ended = dataclasses.replace(records[1], process=ProcessInfo(1, end_reason="timeout after 60 s"))
    assert "(timeout after 60 s)" in text(flag_lines([ended], width=120))


def test_a_flag_in_two_processes_is_one_case():
    records = [in_process(record(median_s=70e-6, flags=("drift",)), ordinal) for ordinal in range(2)]
    assert "! 1 of 1 case in doubt: drift 1. drift: the times rose or fell" in text(flag_lines(records, width=200))


def test_reasons_are_said_once_with_their_count():
    records = [record(kernel=f"k{i}", status="skipped", reason="needs compute capability ≥ 10.0") for i in range(3)]
    assert "skipped: 3 cases: needs compute capability ≥ 10.0 (3)" in text(summary_lines(records))
    assert count_line(records) == "3 skipped"
    assert count_line([]) == "nothing measured"
    twice = [record(median_s=1e-5, flags=("drift",)), record(a="FP16", median_s=1e-5)]
    assert count_line(twice) == "2 measured (1 in doubt)"


def test_failed_cases_stand_in_a_line_with_their_reasons():
    records = [record(kernel=f"k{i}", status="failed", reason="relative error 2") for i in range(8)]
    lone = [record(kernel="mine", status="failed", reason="timeout")]
    others = [record(kernel=f"o{i}", status="failed", reason=f"reason {i}") for i in range(2)]
    lines = [line.text for line in summary_lines([*records, *lone, *others], width=200) if line.colour == "red"]
    assert lines[0].startswith("failed: 11 cases: relative error 2 (8); timeout (gemv 1x4096x4096-")
    assert "; and 2 more reasons" in "".join(lines)


def test_the_summary_ends_in_at_most_eight_lines():
    records = [record(median_s=70e-6, flags=("contended", "noisy", "bimodal")), record(a="FP16", median_s=70e-6)]
    records += [record(kernel=f"k{i}", status="failed", reason=f"reason {i}") for i in range(8)]
    records += [record(kernel=f"s{i}", status="skipped", reason=f"reason {i}") for i in range(8)]
    tables = summary_lines(records, width=200)
    ends = len(tables) - [line.text for line in tables][::-1].index("")
    assert len(tables[ends:]) + len(flag_lines(records, [canary(1.3e-3)], width=200)) <= 6  # and two for the run


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
