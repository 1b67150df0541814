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
