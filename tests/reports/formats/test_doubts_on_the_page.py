"""A baseline in doubt and a calibration on a busy machine, wherever a report shows what rests on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.advice.shape_matrix import entries_and_matrices
from reports.document.report import Report
from reports.document.report_blocks import report_blocks
from reports.document.report_json import report_json
from reports.page.html import render_page
from reports.present.cases import profile_doubts
from reports.present.markdown import markdown
from reports.present.words.verdict_text import actions
from reports.view.views import report_view
from results.cases.gain import gain_over_baseline
from roofline_model.chips.machine_constants import Calibration, Constant

DECODE = (1, 4096, 4096)


def busy_chip(make):
    constant = Constant("B/s", 76e9, 70e9, 60e9, 0.01, 9)
    calibration = Calibration(
        "2026-11-01T00:00:00+00:00",
        "AMD EPYC",
        "cpu",
        {"read": constant},
        kernels_disturbed_by=("contended",),
        disturbed_by=("stolen",),
    )
    return replace(make.CPU, calibration=calibration)


@pytest.fixture(scope="module")
def doubtful(make):
    """A report whose baseline is noisy."""
    chip = make.CPU
    records = [
        make.record(DECODE, "BF16", "BF16", "matmul", 2e-3, device=chip, flags=("noisy",), number=1),
        make.record(DECODE, "INT4", "BF16", "tinygemm", 1e-3, device=chip, number=2),
        make.record(DECODE, "INT8", "INT8", "int_mm", 1.5e-3, device=chip, number=3),
    ]
    expected = [replace(record.ideal, kind="expected", time_s=1e-3, error_ratio=0.1) for record in records]
    records = [
        replace(record, predictions=(*record.predictions, more)) for record, more in zip(records, expected, strict=True)
    ]
    return report_view(make.run(), records, make.profiles(chip))


def test_a_doubtful_baseline_is_marked_at_every_speed_up_over_it(doubtful):
    (chip,) = doubtful.chips
    (ranking,) = chip.recommendations
    gain = gain_over_baseline(ranking.choice, ranking)
    assert (ranking.choice.weight_format, gain.baseline_doubts, gain.is_doubtful) == ("INT8", ("noisy",), True)
    (matrix,) = entries_and_matrices(chip.shapes, chip.recommendations)[1]
    marks = {
        column.precision: (cell.is_doubtful, cell.is_over_doubt)
        for column, cell in zip(matrix.columns, matrix.rows[0][1], strict=True)
    }
    assert {name: marks[name] for name in ("INT4 (W4A16)", "INT8 (W8A8)", "BF16")} == {
        "INT4 (W4A16)": (False, True),
        "INT8 (W8A8)": (False, True),
        "BF16": (True, False),
    }
    (phase,) = chip.answers
    (action,) = actions(chip.answers)
    assert phase.ranking.baseline.trust.doubts == ("noisy",)
    assert phase.doubts == ("noisy",)
    assert "noisy" in action.caveat
    assert "about" in action.evidence
    text = markdown(report_blocks(Report(doubtful)))
    assert "| 1 | INT4 (W4A16) · tinygemm | 1.00 ms | 2.0× ! | measured | ±1.0 % |" in text
    document = report_json(doubtful)["chips"][0]
    assert document["recommendations"][0]["baseline_doubts"] == ["noisy"]
    assert document["shapes"][0]["baseline"]["doubts"] == ["noisy"]
    assert document["trade_offs"][0]["baseline_doubts"] == ["noisy"]
    page = render_page(doubtful)
    assert '<caption>Against BF16 · matmul <abbr class="mark" title="its time is in doubt: ' in page
    assert "the baseline&#39;s time is doubtful: measure again" in page


def test_nothing_is_told_from_a_calibration_on_a_busy_machine(make):
    """The stored run is of an earlier version, which predicted all the same."""
    records, busy = make.cpu_records(), busy_chip(make)
    old = [
        replace(record, predictions=tuple(replace(each, profile_hash=busy.content_hash) for each in record.predictions))
        for record in records
    ]
    quiet, doubtful = (
        report_view(make.run(), records, make.profiles(make.CPU)),
        report_view(make.run(), old, make.profiles(busy)),
    )
    assert quiet.chips[0].overall is not None
    assert quiet.chips[0].calibration_doubts == ()
    [chip] = doubtful.chips
    assert [(row.ideal_s, row.expected_s, row.roof_share_ratio) for row in chip.cases] == [(None, None, None)] * len(
        old
    )
    assert {row.measured_s for row in chip.cases} == {row.measured_s for row in quiet.chips[0].cases}
    assert (chip.errors, chip.overall, chip.roofline.memory_bandwidth_bytes_per_s) == ((), None, None)
    assert report_json(doubtful)["chips"][0]["calibration_doubts"] == list(chip.calibration_doubts)
    assert len(chip.calibration_doubts) == 2
    assert all("`roofline calibrate` on a quiet machine" in text for text in chip.calibration_doubts)
    assert sum("`roofline calibrate` on a quiet machine" in warning for warning in doubtful.warnings) == 2
    assert profile_doubts(make.profiles(busy).values()) == list(chip.calibration_doubts)
