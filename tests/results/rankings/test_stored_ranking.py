"""Ranking from stored runs: evidence first, level times decided by loss and memory, limits, confidence, evidence
links.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.present.words.evidence_text import note_texts
from reports.present.words.ranking_text import excluded_texts
from reports.present.words.stored_text import summary_of
from results.rankings.trust import measured_confidence, predicted_confidence
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.answer import Estimate, Loss, Memory, Option, Question, Ranking, Times
from roofline_model.core.finding import finding, has_code
from roofline_model.expected.predict import predict_expected
from roofline_model.operators.product import gemm
from roofline_model.recommend.ranking import NO_LIMITS, POLICIES, Limits, maybe_faster, rank_stored, tier_of

BF16, INT8, INT4 = ("BF16", "BF16", "matmul"), ("INT8", "INT8", "int_mm"), ("INT4", "BF16", "tinygemm")
TIMES = {BF16: 22e-6, INT8: 14e-6, INT4: 9e-6}


def row(
    number: int,
    time_s: float = 1e-3,
    source: str = "measured",
    width: float = 0.01,
    loss: float | None = 1.0,
    memory: float | None = 1e6,
    path: str = "native",
) -> Option:
    """One row; the interval is ± `width` of its time."""
    ends = (time_s * (1 - width), time_s * (1 + width)) if source == "measured" else (None, None)
    key = f"{number:04d}"
    return Option(
        key=key,
        formats=(("a", "BF16"), ("b", "INT4")),
        method="",
        path=path,
        bound="",
        times=Times(**{source: Estimate(time_s, *ends, source)}),
        memory=None if memory is None else Memory(memory),
        loss=Loss("unknown" if loss is None else "claimed", loss),
        speedup_ratio=None,
        ideal_speedup_ratio=None,
        findings=(finding("emulated", key),) if path == "emulated" and source != "measured" else (),
    )


def ranked(rows, limits: Limits = NO_LIMITS) -> Ranking:
    return rank_stored(Question("model", "gb10", "a model", policy="stored"), rows, None, limits)


def within(option: Option, low_s: float | None, high_s: float | None) -> Option:
    """The same, measured with another interval."""
    return replace(option, times=Times(measured=replace(option.estimate, low_s=low_s, high_s=high_s)))


def ordered(rows) -> list[str]:
    return [option.key for option in ranked(rows).options]


ROWS = st.lists(
    st.tuples(
        st.floats(1e-6, 1e-3),
        st.sampled_from(["measured", "expected", "ideal"]),
        st.floats(0, 0.5),
        st.none() | st.just(0.0) | st.floats(0, 20),
        st.none() | st.floats(1e3, 1e9),
        st.sampled_from(["native", "emulated"]),
    ),
    max_size=12,
)


def losses(option: Option) -> tuple[float, float]:
    loss, memory = option.loss.pct, option.memory and option.memory.total_bytes
    return (float("inf") if loss is None else loss), (float("inf") if memory is None else memory)


@given(ROWS, st.randoms(use_true_random=False))
def test_who_is_faster_surer_smaller_and_no_worse_is_never_below_and_the_order_of_rows_is_nothing(
    drawn, shuffler: random.Random
) -> None:
    rows = [
        row(at, time_s, source, width, loss, memory, path)
        for at, (time_s, source, width, loss, memory, path) in enumerate(drawn)
    ]
    options = ranked(rows).options
    assert {option.key for option in options} == {row.key for row in rows}
    assert [tier_of(option, None, "", POLICIES["stored"]) for option in options] == sorted(
        tier_of(row, None, "", POLICIES["stored"]) for row in rows
    )
    for at, below in enumerate(options):
        for above in options[:at]:
            if tier_of(above, None, "", POLICIES["stored"]) != tier_of(below, None, "", POLICIES["stored"]):
                continue
            dominated = (
                below.estimate.time_s < above.estimate.time_s
                and (below.estimate.high_s or below.estimate.time_s) <= (above.estimate.high_s or above.estimate.time_s)
                and losses(below)[0] <= losses(above)[0]
                and losses(below)[1] < losses(above)[1]
            )
            assert not dominated, (above, below)
    measured = [option for option in options if option.is_measured]
    gentle = min(
        (option for option in measured if option.loss.pct == 0), key=lambda option: option.estimate.time_s, default=None
    )
    for above in measured[: measured.index(gentle)] if gentle else ():
        assert above.loss.pct == 0 or above.estimate.high_s < gentle.estimate.low_s, (above, gentle)
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    assert ranked(shuffled).options == options


def test_of_times_that_cannot_be_told_apart_the_smaller_loss_comes_first_then_the_smaller_memory() -> None:
    fast, gentle, small = (
        row(1, 1e-3, loss=5.0),
        row(2, 1.01e-3, loss=0.0, memory=9e6),
        row(3, 1.005e-3, loss=0.0, memory=2e6),
    )
    slow = row(4, 2e-3, loss=0.0, memory=1.0)
    assert ordered([fast, gentle, small, slow]) == ["0003", "0002", "0001", "0004"]


def test_a_loss_waits_for_what_loses_nothing_unless_the_intervals_are_apart() -> None:
    wide = row(1, 2.0e-3, width=0.07, loss=0.0)
    noisy, sure = row(2, 1.76e-3, width=0.1, loss=6.5), row(3, 1.8e-3, width=0.01, loss=6.5)
    other = row(4, 6.0e-3, width=0.9, loss=0.0)  # no reason to wait: the fastest that loses nothing has its place
    assert ordered([other, noisy, wide]) == ["0001", "0002", "0004"]
    assert maybe_faster(ranked([other, noisy, wide]).options).key == "0002"
    assert ordered([noisy, sure, wide]) == ["0003", "0001", "0002"]
    assert maybe_faster(ranked([sure, wide]).options) is None
    few = [within(option, None, None) for option in (row(1, 1.04e-3, loss=0.0), row(2, 1e-3), row(3, 0.98e-3))]
    assert ordered(few) == ["0003", "0001", "0002"]


def test_limits_keep_what_is_known_to_meet_them_and_say_what_is_missed() -> None:
    rows = [row(1, memory=1e9, loss=0.5), row(2, memory=3e9, loss=5.0), row(3, memory=None, loss=None)]
    ranking = ranked(rows, Limits(2e9, 2e9, loss_pct=1.0))
    assert [option.key for option in ranking.options] == ["0001"]
    codes = {exclusion.key: {item.code for item in exclusion.findings} for exclusion in ranking.excluded}
    assert codes == {
        "0002": {"misses-memory-limit", "misses-loss-limit"},
        "0003": {"memory-unknown", "loss-unknown"},
    }
    assert len(ordered(rows)) == 3, "without a limit nothing is refused"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((3, 0.01, (), False), ("high", ["measured"])),
        ((1, None, (), False), ("medium", ["one-process"])),
        ((9, 0.08, (), False), ("medium", ["interval-wide"])),
        ((9, None, (), False), ("medium", ["interval-unknown"])),
        ((2, 7.57, (), False), ("low", ["few-processes", "interval-wide"])),
        ((9, 0.01, (), True), ("medium", ["stale"])),
        ((2, 0.01, ("noisy",), False), ("low", ["few-processes", "doubtful"])),
        ((5, 0.01, ("simulated",), False), ("low", ["simulated"])),
    ],
)
def test_confidence_in_a_measurement_loses_a_step_for_each_weakness(arguments, expected) -> None:
    *facts, is_stale = arguments
    confidence, reasons = measured_confidence(*facts, is_stale=is_stale)
    assert (confidence, [item.value("kind") or item.code for item in reasons]) == expected


def test_confidence_in_a_prediction_is_medium_at_most() -> None:
    assert predicted_confidence(Estimate(1.5, 1.0, 2.0, "expected", "fitted"))[0] == "medium"
    assert predicted_confidence(Estimate(1.5, 1.0, 2.0, "expected", "transferred-sibling"))[0] == "low"
    assert predicted_confidence(Estimate(1.5, provenance="fitted"))[0] == "low"
    assert predicted_confidence(Estimate(1.5, source="ideal"))[0] == "low"


def test_measured_rows_lead_predictions_follow_and_each_names_its_runs(stored_run, recommend) -> None:
    advice = recommend([stored_run(1, TIMES), stored_run(2, TIMES)], with_chip=True)
    [ranking] = advice.rankings
    assert [(option.label, option.estimate.source) for option in ranking.options[:3]] == [
        ("INT4 (W4A16) · tinygemm", "measured"),
        ("INT8 (W8A8) · int_mm", "measured"),
        ("BF16 · matmul", "measured"),
    ]
    later = ranking.options[3:]
    assert later
    assert all(not option.is_measured and not option.evidence and option.trust.confidence != "high" for option in later)
    best = ranking.first
    assert best.estimate.time_s == pytest.approx(9e-6, rel=1e-5)
    assert best.speedup_ratio == pytest.approx(22 / 9)
    assert best.trust.confidence == "high"
    assert [run.process_count for run in best.evidence] == [3, 3]
    assert len(best.record_ids) == len(set(best.record_ids)) == 6
    assert summary_of(ranking).startswith("take INT4 (W4A16) · tinygemm: measured 9 µs, 2.4× BF16 · matmul")
    assert advice.run_count == 2


def test_what_was_not_measured_has_the_chips_expected_time_with_its_interval(stored_run, recommend) -> None:
    chip = get_hardware("h200")
    advice = recommend([stored_run(1, TIMES, device=chip)], chips=(chip,))
    expected = [option for option in advice.rankings[0].options if option.estimate.source == "expected"]
    assert {option.weight_format for option in expected} >= {"FP8_E4M3", "NVFP4"}
    assert all(option.estimate.low_s < option.estimate.time_s < option.estimate.high_s for option in expected)
    fp8 = next(option for option in expected if option.weight_format == "FP8_E4M3")
    # Expected over expected: never a prediction over the measured baseline.
    wide = predict_expected(gemm(1, 4096, 4096, a="BF16"), chip)
    assert fp8.speedup_ratio == pytest.approx(wide.time_s / fp8.estimate.time_s)


def test_the_order_of_runs_and_records_makes_no_difference(make, stored_run, recommend) -> None:
    from results.rankings import recommend_from_runs

    nights = [stored_run(day, {BF16: 22e-6, INT8: 14e-6 * (1 + 0.01 * (day % 3)), INT4: 9e-6}) for day in range(8)]
    runs, records = [run for run, _ in nights], [record for _, records in nights for record in records]
    first = recommend_from_runs(runs, records)
    first_notes = note_texts(first)
    for seed in range(3):
        shuffled = random.Random(seed).sample(records, len(records))
        again = recommend_from_runs(runs[::-1], shuffled)
        assert (again.rankings, note_texts(again)) == (first.rankings, first_notes)


def test_limits_and_filters_narrow_the_answer(stored_run, recommend) -> None:
    nights = [stored_run(1, TIMES), stored_run(2, {BF16: 3e-4, INT8: 2e-4}, shape=(512, 4096, 4096))]
    assert [ranking.question.phase for ranking in recommend(nights).rankings] == ["prefill", "decode"]
    assert [ranking.question.shape_label for ranking in recommend(nights, phase="decode").rankings] == ["1x4096x4096"]
    assert [ranking.question.op for ranking in recommend(nights, op="GEMM").rankings] == ["gemm"]
    assert [ranking.question.op for ranking in recommend(nights, shape=(512, 4096, 4096)).rankings] == ["gemm"]
    assert recommend(nights, model="llama").rankings == ()
    [small] = recommend(nights, phase="decode", memory_limit_bytes=20e6, max_loss_pct=3).rankings
    assert [option.label for option in small.options] == ["INT8 (W8A8) · int_mm"]
    assert {label: reason.partition(",")[0] for label, reason in excluded_texts(small)} == {
        "INT4 (W4A16) · tinygemm": "loses 6.5 %",
        "BF16 · matmul": "needs 33.57 MB",
    }
    assert not has_code(small.missing, "evidence-missing"), "what a limit refused was measured"


def test_wide_intervals_do_not_put_a_much_slower_time_first_for_its_loss() -> None:
    fast = within(row(1, 59e-6, loss=5.0), 59e-6 / 8, 59e-6 * 8)
    slow = within(row(2, 103e-6, loss=1.0), 103e-6 / 8, 103e-6 * 8)
    near = within(row(3, 64e-6, loss=1.0), 64e-6 / 8, 64e-6 * 8)
    assert ordered([slow, fast]) == ["0001", "0002"]
    assert ordered([slow, fast, near]) == ["0003", "0001", "0002"]
