"""Who wins a shape, against what, and the sentence that says so."""

from __future__ import annotations

import pytest

from plugin.terminal.summary import summary_lines
from reports.present.shapes import shape_sentence, shape_title
from reports.present.words.verdict_text import verdict_text
from results.cases.best_shapes import best_overall
from results.cases.case_result import case_results
from results.cases.shape_verdict import shape_verdicts

DECODE = (1, 4096, 4096)


def judged(*records):
    return shape_verdicts(case_results(records))


def test_verdict_line_of_the_issue(make):
    (result,) = judged(
        make.record(DECODE, "BF16", "BF16", "matmul", 2.3e-3, device=make.GPU),
        make.record(DECODE, "INT4", "BF16", "tinygemm", 1.0e-3, device=make.GPU),
    )
    assert shape_sentence(result) == f"1x4096x4096: {verdict_text(result)}"
    assert result.measured_speedup == pytest.approx(2.3)
    # (4096² · 2 + 2 · 2 · 4096) / (4096² / 2 + 2 · 2 · 4096) bytes
    assert result.predicted_speedup == pytest.approx(33_570_816 / 8_404_992)


def test_the_fastest_sixteen_bit_kernel_is_the_baseline(make):
    (result,) = judged(
        make.record(DECODE, "BF16", "BF16", "matmul", 4e-3),
        make.record(DECODE, "FP16", "FP16", "matmul", 3e-3),
        make.record(DECODE, "FP32", "FP32", "matmul", 2e-3),
        make.record(DECODE, "INT8", "INT8", "int_mm", 1.5e-3),
    )
    assert result.baseline.label == "FP16 · matmul"
    assert result.best.label == "INT8 (W8A8) · int_mm"
    assert result.measured_speedup == pytest.approx(2.0)
    assert [option.precision for option in result.options] == ["INT8 (W8A8)", "FP32", "FP16", "BF16"]


def test_a_narrow_format_that_loses_is_said_to_lose(make):
    (result,) = judged(
        make.record((512, 4096, 4096), "BF16", "BF16", "matmul", 10e-3, device=make.GPU),
        make.record((512, 4096, 4096), "INT4", "BF16", "tinygemm", 100e-3, device=make.GPU),
    )
    assert (result.choice, result.riskier) == (result.baseline, None)
    assert result.measured_speedup == 1.0


def test_predictions_only(make):
    (result,) = judged(make.record(DECODE, "BF16", "BF16", "matmul"), make.record(DECODE, "INT8", "INT8", "int_mm"))
    assert result.predicted_speedup == pytest.approx(2.0, rel=1e-3)
    assert result.measured_speedup is None


def test_measured_evidence_outranks_a_faster_prediction(make):
    (result,) = judged(
        make.record(DECODE, "BF16", "BF16", "matmul", 2e-3),
        make.record(DECODE, "INT4", "BF16", "tinygemm"),
    )
    assert result.best.label == "BF16 · matmul"
    assert result.best.is_measured


def test_fp32_is_the_baseline_only_where_no_sixteen_bit_kernel_ran(make):
    fp32 = make.record(DECODE, "FP32", "FP32", "matmul", 2e-3)
    (result,) = judged(fp32, make.record(DECODE, "INT8", "INT8", "int_mm", 1e-3))
    assert (result.baseline.precision, result.measured_speedup) == ("FP32", pytest.approx(2.0))
    # A predicted 16-bit case does not displace a measured FP32 one: measured is compared with measured.
    (result,) = judged(
        fp32,
        make.record(DECODE, "INT8", "INT8", "int_mm", 1e-3),
        make.record(DECODE, "BF16", "BF16", "matmul"),
    )
    assert result.baseline.label == "FP32 · matmul"


def test_without_any_baseline_no_speedup_is_invented(make):
    (result,) = judged(
        make.record(DECODE, "INT4", "BF16", "tinygemm", 2e-3), make.record(DECODE, "INT8", "INT8", "int_mm", 1e-3)
    )
    assert result.measured_speedup is None
    assert result.predicted_speedup is None


def test_report_and_terminal_print_the_same_sentence(make):
    doubtful = [
        make.record(DECODE, "BF16", "BF16", "matmul", 2e-3, flags=("drift",)),
        make.record(DECODE, "INT8", "INT8", "int_mm", 1e-3, flags=("noisy", "unchecked")),
    ]
    for records in (make.cpu_records(), make.gpu_records(), doubtful):
        folded = "\n".join(line.text for line in summary_lines(records, width=120)).replace("\n    ", " ")
        printed = [line.strip() for line in folded.split("\n") if line.startswith("  → ")]
        ours = [
            shape_sentence(ranking).removeprefix(f"{shape_title(ranking)}: ")
            for ranking in judged(*records)
            if ranking.is_contest
        ]
        assert printed == [f"→ {sentence}" for sentence in ours]
    assert len(printed) == 1


def test_a_lone_configuration_wins_nothing(make):
    (result,) = judged(make.record(DECODE, "INT8", "INT8", "int_mm", 1e-3))
    assert not result.is_contest
    assert shape_sentence(result) == "1x4096x4096: INT8 (W8A8) · int_mm measured 1 ms; nothing else ran on this shape"


def test_failed_and_skipped_cases_never_compete(make):
    (result,) = judged(
        make.record(DECODE, "BF16", "BF16", "matmul", 1e-9, status="failed", reason="out of memory"),
        make.record(DECODE, "INT8", "INT8", "int_mm", status="skipped", reason="no unit"),
    )
    assert result.best is None
    assert shape_sentence(result) == "1x4096x4096: nothing measured or predicted (2 cases: out of memory; no unit)"


def test_cold_and_warm_are_apart_and_warm_is_named(make):
    cold, warm = judged(
        make.record(DECODE, "BF16", "BF16", "matmul", 2e-3),
        make.record(DECODE, "BF16", "BF16", "matmul", 1e-3, cache="warm"),
    )
    assert (shape_title(cold), shape_title(warm)) == ("1x4096x4096", "1x4096x4096 warm")


def test_processes_are_pooled_by_the_geometric_mean_of_their_medians(make):
    from dataclasses import replace

    from results.records.records import ProcessInfo

    records = [
        replace(make.record(DECODE, "BF16", "BF16", "matmul", time_s, number=i), process=ProcessInfo(ordinal=i))
        for i, time_s in enumerate((1e-3, 4e-3, 2e-3))
    ]
    (result,) = judged(*records)
    assert result.best.estimate.time_s == pytest.approx(2e-3, rel=1e-12)
    assert len(result.best.record_ids) == 3


def test_best_overall_prefers_the_largest_measured_gain(make):
    results = judged(
        make.record((1, 64, 64), "BF16", "BF16", "matmul", 2e-3),
        make.record((1, 64, 64), "INT8", "INT8", "int_mm", 1.9e-3),
        make.record((2, 64, 64), "BF16", "BF16", "matmul", 2e-3),
        make.record((2, 64, 64), "INT8", "INT8", "int_mm", 0.8e-3),
        make.record((4, 64, 64), "BF16", "BF16", "matmul"),
        make.record((4, 64, 64), "INT4", "BF16", "tinygemm"),
    )
    assert shape_title(best_overall(results)) == "2x64x64"
    assert best_overall([]) is None
