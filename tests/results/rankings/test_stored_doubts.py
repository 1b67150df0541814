"""What weakens an answer of stored runs is said: a doubtful baseline, a calibration on a busy machine, a run left
out.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.advice.trade_offs import trade_groups
from reports.document.advice_blocks import stored_section
from reports.document.report import Report
from reports.present.answers.rankings import recommendations_json
from reports.present.markdown import markdown
from reports.present.words.evidence_text import note_texts
from reports.present.words.stored_text import confidence_words, summary_of
from results.cases.gain import doubts_to_mend
from results.records.records import Method
from roofline_model.chips.machine_constants import Calibration, Constant

BF16, INT8, INT4 = ("BF16", "BF16", "matmul"), ("INT8", "INT8", "int_mm"), ("INT4", "BF16", "tinygemm")
TIMES = {BF16: 22e-6, INT8: 14e-6, INT4: 9e-6}


def doubted(given, kernel, flag="noisy"):
    """The night with a flag on every time of one kernel."""
    run, records = given
    return run, [
        replace(record, measurement=replace(record.measurement, flags=(flag,)))
        if record.case.kernel == kernel
        else record
        for record in records
    ]


@pytest.mark.parametrize(
    ("kernel", "again", "why"),
    [
        ("matmul", "measure the baseline again", "stable; the baseline: doubtful (noisy)"),
        ("tinygemm", "measure it again", "doubtful (noisy)"),
        ("", "", "measured in 3 processes, stable"),
    ],
)
def test_a_gain_is_no_surer_than_the_worse_of_its_two_times(stored_run, recommend, kernel, again, why) -> None:
    advice = recommend([doubted(stored_run(1, TIMES), kernel)])
    [ranking] = advice.rankings
    best = ranking.first
    assert (best.label, best.trust.confidence) == ("INT4 (W4A16) · tinygemm", "medium" if kernel else "high")
    assert confidence_words(best.trust).endswith(why)
    assert (
        f"{'about ' if kernel else ''}2.4× BF16 · matmul" in summary_of(ranking),
        "about" in summary_of(ranking),
    ) == (
        True,
        bool(kernel),
    )
    assert summary_of(ranking).endswith(
        f"({'confidence ' + best.trust.confidence}: {confidence_words(best.trust)})" + (f"; {again}" if again else "")
    )
    # The baseline alone says nothing of itself.
    base = ranking.baseline
    assert (base.trust.baseline_reasons, base.trust.is_over_doubt) == ((), False)


def test_a_doubtful_baseline_is_marked_in_table_json_and_trade_off(stored_run, recommend) -> None:
    advice = recommend([doubted(stored_run(1, TIMES), "matmul")])
    assert "| 2.4× ! |" in markdown([stored_section(Report(None), advice)])
    [ranking] = recommendations_json(advice)["rankings"]
    row = ranking["rows"][0]
    assert (ranking["baseline_doubts"], row["doubts"]) == (["noisy"], [])
    assert row["speedup_low_ratio"] < row["speedup_ratio"] < row["speedup_high_ratio"]
    assert row["confidence_reason"].endswith("the baseline: doubtful (noisy)")
    (group,) = trade_groups(stored_run(1, TIMES)[0], (), (), (), advice, "h200-sxm")
    assert group.baseline_doubts == ("noisy",)
    # A limit that refuses the baseline does not hide its doubt.
    [limited_ranking] = recommend([doubted(stored_run(1, TIMES), "matmul")], memory_limit_bytes=20e6).rankings
    assert not any(map(limited_ranking.is_baseline, limited_ranking.options))
    assert (doubts_to_mend(limited_ranking.baseline), limited_ranking.first.trust.confidence) == (("noisy",), "medium")


def busy(chip, *flags):
    constant = Constant("B/s", 4.7e12, 4.6e12, 4.0e12, 0.01, 9)
    calibration = Calibration(
        "2026-11-01T00:00:00+00:00", chip.name, "cuda", {"read": constant}, kernels_disturbed_by=flags
    )
    return replace(chip, calibration=calibration)


def with_expected(given, chip):
    """The night with an expected time beside every ideal one."""
    run, records = given
    return run, [
        replace(
            record,
            predictions=(
                *record.predictions,
                replace(
                    record.ideal,
                    kind="expected",
                    time_s=record.ideal.time_s * 1.2,
                    low_s=record.ideal.time_s,
                    high_s=record.ideal.time_s * 1.5,
                    provenance="measured-here",
                ),
            ),
        )
        for record in records
    ]


def test_no_expected_time_of_a_busy_machine_is_ranked(make, stored_run, recommend) -> None:
    for chip, is_busy in ((busy(make.GPU, "contended"), True), (busy(make.GPU), False)):
        advice = recommend([with_expected(stored_run(1, {**TIMES, INT8: None}, device=chip), chip)], chips=(chip,))
        [ranking] = advice.rankings
        sources = {option.estimate.source for option in ranking.options}
        assert ("expected" in sources) is not is_busy
        assert any("`roofline calibrate` on a quiet machine" in note for note in note_texts(advice)) is is_busy
        assert (ranking.calibration_doubt is not None) is is_busy


def test_a_run_that_diff_would_not_compare_is_left_out_by_name_and_once(stored_run, recommend) -> None:
    def by(given, version):
        run, records = given
        method = Method("monotonic", version, {"min_samples": 12})
        return run, [replace(record, method=method) for record in records]

    nights = [
        by(stored_run(1, TIMES, label="first"), "1"),
        by(stored_run(2, TIMES, label="second"), "1"),
        by(stored_run(3, {BF16: 3e-4, INT8: 2e-4}, shape=(512, 4096, 4096), label="first shape"), "2"),
        by(stored_run(4, TIMES, driver="590.12", label="newest"), "2"),
    ]
    [note] = note_texts(recommend(nights))
    assert note == (
        "runs 00000002 second, 00000001 first are left out: not comparable with run 00000004 newest, measured by "
        "another method "
        "(version 1 → 2) and on another machine or with other software (driver 580.95 → 590.12); `roofline diff` lists "
        "all"
    )
    assert note_texts(recommend(nights[2:])) == ()
    # Used for one question, left out of another.
    both = (nights[0][0], [*nights[0][1], *by(stored_run(1, {BF16: 3e-4}, shape=(64, 64, 64)), "1")[1]])
    assert "run 00000001 first is left out for 3 cases: not comparable" in note_texts(recommend([both, nights[3]]))[0]


def test_a_run_in_doubt_is_left_out_for_its_doubt_and_both_reasons_are_told_where_both_hold(
    stored_run, recommend
) -> None:
    quiet = stored_run(2, TIMES, label="quiet")
    newer = stored_run(3, TIMES, driver="590.12", flags=("contended",), label="newer")
    older = stored_run(1, TIMES, driver="570.1", flags=("contended",), label="older")
    same = stored_run(4, TIMES, flags=("stolen",), label="same")
    assert note_texts(recommend([quiet, newer, older, same])) == (
        (
            "run 00000004 same is left out: the hypervisor gave more than 2 % of the CPUs to other machines: times are too "
            "long (stolen)"
        ),
        (
            "run 00000003 newer is left out: other processes or threads used more than 10 % of the CPUs: times are too long "
            "(contended)"
        ),
        (
            "run 00000001 older is left out: not comparable with run 00000002 quiet, on another machine or with other "
            "software (driver 570.1 → 580.95); `roofline diff` lists all; other processes or threads used more than 10 % of the CPUs: "
            "times are too long (contended)"
        ),
    )
