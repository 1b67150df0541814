"""The matrix of speed-ups, the lines of what to do, and how the page shows them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reports.advice.shape_matrix import MOST_COLUMNS, MatrixCell, entries_and_matrices, reason_spans
from reports.document.advice_blocks import matrix_blocks
from reports.document.answer_blocks import answer_section
from reports.document.report import Report
from reports.page.html import render_page
from reports.present.blocks import TableBlock, plain_text, text_blocks
from reports.present.words.ranking_text import kernel_gap_text, shape_reason, shape_summary
from reports.present.words.verdict_text import actions
from reports.view.views import report_view
from results.cases.case_result import case_results
from results.rankings.shape import recommend_from_run
from roofline_model.chips.hardware import get_hardware

DECODE, PREFILL = (1, 4096, 4096), (512, 4096, 4096)


@pytest.fixture(scope="module")
def view(make):
    return report_view(make.run(), make.cpu_records(), make.profiles(make.CPU))


@pytest.fixture(scope="module")
def page(view):
    return render_page(view)


def cells_of(view, title):
    _, (matrix,) = entries_and_matrices(view.chips[0].shapes, view.chips[0].recommendations)
    (cells,) = [cells for entry, cells in matrix.rows if entry.title == title]
    return {(column.precision, column.kernel): cell for column, cell in zip(matrix.columns, cells, strict=True)}


def test_a_cell_holds_the_speedup_of_the_ranking_and_its_evidence(view):
    cells = cells_of(view, "1x4096x4096")
    (ranking,) = [
        recommendation
        for recommendation in view.chips[0].recommendations
        if recommendation.question.shape_label == "1x4096x4096"
    ]
    for row in ranking.options:
        if row.kernel is not None:
            cell = cells[row.label.removesuffix(f" · {row.kernel}"), row.kernel]
            assert (cell.speedup, cell.time_s) == (row.speedup_ratio, row.estimate.time_s)
            assert cell.state == "measured"
    assert cells["BF16", "matmul"].is_baseline != cells["FP16", "matmul"].is_baseline
    best = [key for key, cell in cells.items() if cell.is_best]
    assert best == [("INT8 (W8A16)", "int8pack")]
    assert cells["NF4 (W4A16)", "bnb"].text == "skipped"
    assert "bitsandbytes is not installed" in cells["NF4 (W4A16)", "bnb"].title


def test_other_cache_states_have_rows_of_their_own_without_a_ranking(view):
    entries, (matrix,) = entries_and_matrices(view.chips[0].shapes, view.chips[0].recommendations)
    assert [entry.anchor for entry in entries] == [str(at) for at in range(1, len(entries) + 1)]
    assert len(matrix.rows) == len(entries)
    assert {entry.result.question.cache for entry in entries} == {"cold", "warm"}


def blocks_of(view, matrix):
    (part,) = Report(view).chip_parts()
    return list(matrix_blocks(part, matrix, is_only=True))


def test_measured_columns_come_first_and_what_cannot_run_has_none(make):
    chip = get_hardware("gb10")
    records = [
        make.record(DECODE, b, a, k, t, device=chip, number=at)
        for at, (b, a, k, t) in enumerate((("BF16", "BF16", "matmul", 2e-4), ("INT4", "BF16", "tinygemm", 6e-5)))
    ]
    view = report_view(make.run(hardware_key="gb10"), records, make.profiles(chip))
    _, (matrix,) = entries_and_matrices(view.chips[0].shapes, view.chips[0].recommendations)
    assert [column.kernel for column in matrix.columns][:2] == ["tinygemm", "matmul"]
    assert "" not in [column.kernel for column in matrix.columns][:2]
    assert [name for name, _ in matrix.barred] == ["MXFP4 (W4A4)"]
    assert "MXFP4 (W4A4)" not in {column.precision for column in matrix.columns}
    (ranking,) = view.chips[0].recommendations
    assert "10.x" in kernel_gap_text(ranking.options[-1])
    assert "MXFP4" not in shape_summary(ranking)
    assert kernel_gap_text(ranking.options[-1]) in render_page(view)
    (text,) = [block.text for block in blocks_of(view, matrix) if not isinstance(block, TableBlock)]
    assert "MXFP4" in plain_text(text)


def test_nothing_that_cannot_run_is_worth_trying_on_a_cpu(make):
    (ranking,) = recommend_from_run(case_results([make.record(DECODE, "BF16", "BF16", "matmul", 2e-3)]), make.CPU)
    barred = ranking.barred
    assert (
        [ranking.rank_of(row) for row in ranking.options][-len(barred) :] == [ranking.rank_of(row) for row in barred]
        if barred
        else True
    )
    assert "worth trying: INT8 (W8A8)" in shape_summary(ranking)


@pytest.mark.parametrize(
    ("speedup", "tone", "text"), [(2.5, "up-3", "2.5×"), (1.2, "up-1", "1.2×"), (1.02, "even", "1.0×"), (0.5, "down-2", "0.5×"), (None, "", "1 ms")]
)  # fmt: skip
def test_a_cell_says_and_colours_its_speedup(speedup, tone, text):
    cell = MatrixCell("measured", 1e-3, speedup)
    assert (cell.tone, cell.text) == (tone, text)


def test_a_reason_said_of_neighbours_is_said_once(make):
    (ranking,) = recommend_from_run(case_results([make.record(PREFILL, "BF16", "BF16", "matmul", 2e-2)]), make.CPU)
    reasons = [shape_reason(option, ranking) for option in ranking.options]
    spans = reason_spans(reasons)
    assert sum(spans) == len(ranking.options)
    assert all((span == 0) == (at > 0 and reasons[at - 1] == reasons[at]) for at, span in enumerate(spans))


def test_many_configurations_are_left_to_the_rankings(make):
    records = [
        make.record(DECODE, "BF16", "BF16", f"kernel_{at}", 1e-3 + at * 1e-5, number=at)
        for at in range(MOST_COLUMNS + 3)
    ]
    view = report_view(make.run(), records, {})
    _, (matrix,) = entries_and_matrices(view.chips[0].shapes, view.chips[0].recommendations)
    assert (len(matrix.columns), matrix.left_count) == (MOST_COLUMNS, 3)


def test_every_ranked_shape_of_the_matrix_leads_to_its_ranking(page):
    links = re.findall(r'<a href="#(ranking-\d+)">', page)
    assert links
    assert len(links) == len(set(links))
    assert all(page.count(f'id="{link}"') == 1 for link in links)
    assert page.count('<details class="ranking" open>') == 1


def lines_of(view):
    return actions(view.chips[0].answers)


def test_the_answer_is_the_beginning_of_the_page_and_names_options_by_role(view, page):
    answer = re.search(r'<section aria-labelledby="verdict".*?</section>', page, re.DOTALL)[0]
    assert answer.index("Decode: ") < answer.index("Prefill: ") < answer.index("Predictions") < answer.index("<details")
    decode, prefill = lines_of(view)
    assert (decode.phase, prefill.phase) == ("Decode", "Prefill")
    assert decode.take == "take INT8 (W8A8) · int_mm"
    assert "measured" in decode.evidence
    assert set(decode.record_ids) <= {record.record_id for case in view.cases for record in case.records}
    tables = [block for block in text_blocks([answer_section(Report(view), ())]) if isinstance(block, TableBlock)]
    for phase, options in zip(view.chips[0].answers, tables, strict=True):
        named = [phase.choice, *(each.option for each in phase.ranking.alternatives)]
        assert len(options.rows) == len(named) <= 3
        for option, row in zip(named, options.rows, strict=True):
            label, time, gain, memory, loss = row.cells
            assert option.precision in plain_text(label.content)
            assert (time.value, gain.value) == (option.estimate.time_s, option.speedup_ratio)
            assert memory.value == option.memory.weight_bytes
            assert loss.value == option.loss.pct / 100


def test_what_is_taken_loses_at_most_the_limit_and_what_loses_more_is_riskier(make):
    records = [
        make.record((1, 4096, k), b, a, "k", t, number=at)
        for at, (k, b, a, t) in enumerate(
            (k, *kind)
            for k in (2048, 4096)
            for kind in (("BF16", "BF16", 4e-4), ("INT4", "BF16", 1e-4), ("INT8", "INT8", 2e-4))
        )
    ]
    (phase,) = report_view(make.run(), records).chips[0].answers
    assert phase.choice.precision == "INT8 (W8A8)"
    assert phase.choice.estimate.time_s == pytest.approx(4e-4)  # of both shapes
    assert phase.choice.speedup_ratio == pytest.approx(2)
    roles = {each.role: each.option.precision for each in phase.ranking.alternatives}
    assert roles == {"riskier": "INT4 (W4A16)", "safest": "BF16"}
    assert phase.choice.memory.weight_bytes == pytest.approx(4096 * (2048 + 4096))


def test_a_format_that_ran_at_some_shapes_only_is_compared_at_these(make):
    records = [
        make.record((1, 4096, k), b, a, "k", t, number=at)
        for at, (k, b, a, t) in enumerate(
            (
                (2048, "BF16", "BF16", 4e-4),
                (2048, "INT8", "INT8", 2e-4),
                (4096, "BF16", "BF16", 4e-4),
                (8192, "BF16", "BF16", 8e-4),
                (8192, "INT8", "INT8", 4e-4),
                (4096, "FP32", "FP32", 9e-4),
            )
        )
    ]
    (phase,) = report_view(make.run(), records).chips[0].answers
    assert phase.places == ("1x4096x2048", "1x4096x8192")
    assert phase.shape_count == 3
    assert phase.choice.speedup_ratio == pytest.approx(2)
    assert actions([phase])[0].evidence.endswith("2 of 3 shapes")


def test_predictions_alone_are_to_be_tried_and_a_single_kernel_is_no_choice(make):
    tried = [
        make.record(DECODE, b, a, "k", number=at) for at, (b, a) in enumerate((("BF16", "BF16"), ("INT8", "INT8")))
    ]
    (action,) = lines_of(report_view(make.run(), tried, make.profiles(make.CPU)))
    assert action.take == "try INT8 (W8A8) · k"
    assert "not measured here" in action.caveat
    alone = lines_of(report_view(make.run(), [make.record(DECODE, "BF16", "BF16", "k", 1e-3)], {}))
    assert alone[0].take.startswith("nothing to choose yet")
    assert report_view(make.run(), [], {}).chips[0].answers == ()


def test_slower_formats_keep_the_baseline(make):
    records = [
        make.record(DECODE, "BF16", "BF16", "matmul", 1e-3),
        make.record(DECODE, "INT8", "INT8", "int_mm", 3e-3, number=1),
    ]
    view = report_view(make.run(), records, make.profiles(make.CPU))
    (action,) = lines_of(view)
    assert action.take == "stay with BF16"
    assert view.chips[0].answers[0].ranking.headline.value("kind") == "stay"
    # Of one format it is the kernel that stays.
    kernels = [
        make.record(DECODE, "BF16", "BF16", name, t, number=at)
        for at, (name, t) in enumerate((("a", 1e-3), ("b", 2e-3)))
    ]
    (action,) = lines_of(report_view(make.run(), kernels, {}))
    assert action.take == "stay with BF16 · a"


@pytest.mark.parametrize(
    ("int8_s", "ring", "level"), [(1.9e-4, ["INT4 (W4A16)"], []), (1.01e-4, [], ["INT4 (W4A16)", "INT8 (W8A8)"])]
)
def test_only_what_nothing_is_level_with_has_the_ring(make, int8_s, ring, level):
    kernels = (("BF16", "BF16", 4e-4), ("INT4", "BF16", 1e-4), ("INT8", "INT8", int8_s))
    view = report_view(
        make.run(), [make.record(DECODE, b, a, "k", t, number=at) for at, (b, a, t) in enumerate(kernels)]
    )
    cells = cells_of(view, "1x4096x4096")
    assert [name for (name, _), cell in cells.items() if cell.is_best] == ring
    assert sorted(name for (name, _), cell in cells.items() if cell.is_level) == level
    _, (matrix,) = entries_and_matrices(view.chips[0].shapes, view.chips[0].recommendations)
    (note,) = [block.text_note for block in blocks_of(view, matrix) if isinstance(block, TableBlock)]
    assert ("by more than the intervals" in note, "≈" in note) == (bool(ring), bool(level))


def test_predictions_whose_intervals_overlap_have_no_ring(make):
    def hollow(b, a, expected_s, half_width_ratio):
        record = make.record(DECODE, b, a, "k", device=make.GPU)
        low_s, high_s = expected_s * (1 - half_width_ratio), expected_s * (1 + half_width_ratio)
        expected = replace(record.ideal, kind="expected", time_s=expected_s, low_s=low_s, high_s=high_s)
        return replace(record, predictions=(*record.predictions, expected))

    def marks(second_s, half_width_ratio):
        records = [
            hollow("BF16", "BF16", 150e-6, 0.1),
            hollow("INT4", "BF16", 43e-6, half_width_ratio),
            hollow("INT8", "INT8", second_s, 0.1),
        ]
        cells = cells_of(report_view(make.run(), records), "1x4096x4096")
        return {
            name: (cell.is_best, cell.is_level) for (name, _), cell in cells.items() if cell.is_best or cell.is_level
        }

    both, alone = (False, True), (True, False)
    assert marks(45e-6, 0.1) == {"INT4 (W4A16)": both, "INT8 (W8A8)": both}
    assert marks(45e-6, 0.3) == {
        "INT8 (W8A8)": both
    }  # INT4 is faster and less sure: it stands behind, as in every ranking
    assert marks(60e-6, 0.3) == {"INT4 (W4A16)": both}  # 60 % more: not level, but the intervals do not tell them apart
    assert marks(60e-6, 0.1) == {"INT4 (W4A16)": alone}


def test_a_shape_where_two_are_level_counts_for_both(make):
    wide = {"ci_low_s": 0.9e-4, "ci_high_s": 1.2e-4}
    records = [
        make.record((1, 4096, k), b, a, "k", t, number=at, **more)
        for at, (k, b, a, t, more) in enumerate(
            (
                (2048, "BF16", "BF16", 4e-4, {}),
                (2048, "INT4", "BF16", 1.0e-4, {}),
                (2048, "INT8", "INT8", 2.0e-4, {}),
                (4096, "BF16", "BF16", 4e-4, {}),
                (4096, "INT4", "BF16", 1.1e-4, wide),
                (4096, "INT8", "INT8", 1.0e-4, {}),
            )
        )
    ]
    view = report_view(make.run(), records)
    best = [[each.label for each in result.leaders] for result in view.chips[0].shapes]
    assert best == [["INT4 (W4A16) · k"], ["INT8 (W8A8) · k", "INT4 (W4A16) · k"]]
    assert [result.choice.precision for result in view.chips[0].shapes] == ["INT8 (W8A8)", "INT8 (W8A8)"]


def test_the_plus_minus_of_a_ranking_is_that_over_processes_where_it_is_known(make):
    records = [
        make.in_process(make.record((1, 4096, 4096), b, a, "k", t * slow, number=10 * at + number), number)
        for at, (b, a, t) in enumerate((("BF16", "BF16", 4e-4), ("INT8", "INT8", 2e-4)))
        for number, slow in enumerate((0.9, 1.0, 1.1))
    ]
    view = report_view(make.run(), records)
    total = {case.case_key: case.total_ratio for case in view.cases}
    rows = view.chips[0].recommendations[0].options
    assert {row.estimate.half_width_ratio for row in rows if row.kernel} == set(total.values())
    assert all(ratio > 0.05 for ratio in total.values())


@pytest.mark.parametrize(("flag", "take"), [("noisy", "take INT8 (W8A8) · k"), ("quarantined", "no result")])
def test_nobody_is_told_to_take_what_a_disturbed_machine_measured(make, flag, take):
    records = [
        make.record((1, 2048, 4096), b, b, "k", t, number=at, flags=(flag,))
        for at, (b, t) in enumerate((("BF16", 4e-4), ("INT8", 1e-4)))
    ]
    (action,) = lines_of(report_view(make.run(), records))
    assert action.take == take
