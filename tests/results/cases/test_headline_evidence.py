"""A headline rests on undisturbed, plausible times: what trips the gate, and that healthy runs do not."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from shape_records import record

from reports.present.words.verdict_text import verdict_text
from results.cases import shape_verdict
from results.cases.case_result import case_results
from results.cases.gain import (
    DISTURBING_FLAGS,
    PLAUSIBLE_GAIN_RATIO,
    SLOW_EXPECTED_RATIO,
    gap_of_all,
    headline_gap,
    largest_gain,
)
from results.cases.shape_verdict import groups
from results.exchange.exported.load import read_exports
from roofline_model.core.answer import NOT_STORED, Estimate, Evidence, Loss, Option, Times

_ROOT = Path(__file__).resolve().parents[3]
RUNS = [
    *sorted((_ROOT / "examples" / "runs").glob("*/*.json")),
    *sorted((_ROOT / "tests" / "golden").glob("run*_v*.json")),
]


def judge(records, **more):
    """Return the verdict over the cases of the records."""
    return shape_verdict.judge(case_results(records), **more)


def option(key: str, measured_s: float, ideal_s: float, expected_s: float | None = None, *flags: str) -> Option:
    expected = None if expected_s is None else Estimate(expected_s, 0.8 * expected_s, 1.25 * expected_s, "expected")
    return Option(
        key=key,
        formats=(("a", "BF16"), ("b", key)),
        method="",
        path="native",
        bound="memory",
        times=Times(
            Estimate(ideal_s, source="ideal"),
            expected,
            Estimate(measured_s, 0.98 * measured_s, 1.02 * measured_s, "measured"),
        ),
        memory=None,
        loss=Loss("unknown"),
        speedup_ratio=None,
        ideal_speedup_ratio=None,
        label=key,
        evidence=(Evidence("run", "", None, (key,), 1, flags),),
        trust=replace(NOT_STORED, doubts=flags),
    )


def gap_of(winner: Option, baseline: Option | None) -> tuple[str, object] | None:
    gap = headline_gap(winner, baseline)
    return None if gap is None else (gap.code, gap.value("kind"))


@pytest.mark.parametrize("flag", DISTURBING_FLAGS)
def test_a_disturbed_time_on_either_side_is_no_result(flag: str) -> None:
    quick, wide = option("INT4", 1.2e-4, 1e-4), option("BF16", 4.4e-4, 4e-4)
    assert gap_of(quick, wide) is None
    assert gap_of(option("INT4", 1.2e-4, 1e-4, None, flag), wide) == ("disturbed-result", "option")
    assert gap_of(quick, option("BF16", 4.4e-4, 4e-4, None, flag)) == ("disturbed-result", "option")
    assert gap_of(quick, option("BF16", 4.4e-4, 4e-4, None, "noisy")) is None


def test_one_quiet_run_of_several_is_evidence_enough() -> None:
    busy = option("INT4", 1.2e-4, 1e-4, None, "contended")
    both = replace(busy, evidence=(*busy.evidence, Evidence("quiet", "", None, ("x",), 1)))
    assert gap_of(both, option("BF16", 4.4e-4, 4e-4)) is None


def test_a_speed_up_above_what_predictions_allow_is_no_result() -> None:
    quick = option("INT4", 1.0e-4, 1e-4)
    bound_s = PLAUSIBLE_GAIN_RATIO * 4e-4
    assert gap_of(quick, option("BF16", 0.98 * bound_s, 4e-4)) is None
    assert gap_of(quick, option("BF16", 1.1 * bound_s, 4e-4)) == ("implausible-result", "gain")
    slow_kernel = option("BF16", 1.5e-3, 4e-4, 1.4e-3)  # expected to take more than three times its ideal time
    assert largest_gain(quick, slow_kernel) == pytest.approx(1.25 * 1.4e-3 / 1e-4)
    assert gap_of(quick, slow_kernel) is None
    assert gap_of(quick, option("BF16", 1.9e-3, 4e-4, 1.4e-3)) == ("implausible-result", "gain")
    assert largest_gain(quick, option("BF16", 6e-4, 4e-4, 5e-4)) == pytest.approx(bound_s / 1e-4)
    wide = option("FP32", 4e-4, 4e-4)  # moves twice the bytes and may still beat a slow kernel
    assert largest_gain(wide, option("BF16", 9e-4, 2e-4)) == PLAUSIBLE_GAIN_RATIO
    forced = option("INT4", 1e-4, 1e-4, None, "forced")
    assert gap_of(forced, option("BF16", 1.0, 4e-4, None, "forced")) is None


def test_ninety_times_as_fast_is_no_result_where_the_ideals_say_twenty() -> None:
    quick, disturbed = option("INT8", 0.9e-3, 0.55e-3), option("FP16", 81e-3, 11e-3)
    assert gap_of(quick, disturbed) == ("implausible-result", "gain")
    # An emulated winner is slower than its ideal time: the bound holds. An emulated baseline may take any time.
    assert gap_of(replace(quick, path="emulated"), disturbed) == ("implausible-result", "gain")
    assert gap_of(quick, replace(disturbed, path="emulated")) is None
    unpredicted = replace(disturbed, times=replace(disturbed.times, ideal=None))
    assert gap_of(quick, unpredicted) is None


def test_a_doubtful_baseline_far_above_its_expected_time_is_none() -> None:
    slow_s = SLOW_EXPECTED_RATIO * 1.25 * 5e-4
    slow = option("INT4", 1.5e-3, 1e-4)  # a gain of 2.2: plausible by itself
    assert gap_of(slow, option("BF16", 1.05 * slow_s, 4e-4, 5e-4, "noisy")) == ("implausible-result", "baseline")
    assert gap_of(slow, option("BF16", 0.95 * slow_s, 4e-4, 5e-4, "noisy")) is None
    assert gap_of(slow, option("BF16", 1.05 * slow_s, 4e-4, 5e-4)) is None


def test_several_results_share_one_gap_only_where_all_have_one() -> None:
    gap = headline_gap(option("INT4", 1.2e-4, 1e-4, None, "contended"), None)
    assert gap_of_all([gap, None]) is None
    assert gap_of_all([]) is None
    assert gap_of_all([gap]) is gap
    together = gap_of_all([gap, gap, gap])
    assert together is not None
    assert dict(together.values) == {"kind": "cases", "disturbed_count": 3, "case_count": 3}


def test_healthy_runs_trip_at_most_once_in_a_hundred() -> None:
    judged = tripped = 0
    for path in RUNS:
        for exported in read_exports(path):
            for members in groups(case_results(exported.records)).values():
                verdict = shape_verdict.judge(members)
                judged += verdict.best is not None and verdict.best.is_measured
                tripped += verdict.gap is not None
    assert judged >= 10
    assert tripped == 0
    random_numbers = random.Random(7)
    pairs = 2000
    for _ in range(pairs):  # kernels that reach 40 to 90 % of their roof, timed within 5 %
        quick_s, wide_s = random_numbers.uniform(1e-5, 1e-3), random_numbers.uniform(1e-5, 1e-3)
        noise = [random_numbers.gauss(1, 0.05) for _ in range(2)]
        quick = option("INT4", quick_s / random_numbers.uniform(0.4, 0.9) * noise[0], quick_s)
        wide = option("BF16", wide_s / random_numbers.uniform(0.4, 0.9) * noise[1], wide_s)
        tripped += headline_gap(quick, wide) is not None
    assert tripped <= 0.01 * pairs


def test_the_verdict_of_a_busy_machine_is_no_result() -> None:
    busy = [
        replace(each, measurement=replace(each.measurement, flags=("contended",)))
        for each in (record("BF16", median_s=46e-6), record("INT4", "BF16", "tinygemm", 5e-8))
    ]
    verdict = judge(busy)
    assert verdict.gap is not None
    assert verdict.gap.code == "disturbed-result"
    assert verdict_text(verdict).startswith("no result: ")
    assert "×" not in verdict_text(verdict)
    forced = judge(busy, is_gap_ignored=True)
    assert forced.gap is None
    assert forced.best == verdict.best
