"""`compare_suites`: every verdict and every reason code, from records."""

from __future__ import annotations

import math
from dataclasses import replace

import diff_runs as runs
import numpy as np
import pytest
from diff_runs import changed, of, pair

from results.diff.rules import REASONS, DiffRules
from results.diff.significance.pair_tests import clock_reason
from results.diff.suites import SuiteSide, compare_suites
from results.records.records import Method
from results.records.state_records import MachineState
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import finding

RULES = DiffRules()


def compared(before, after, noise=None, rules=RULES, **more):
    diff = compare_suites(before, after, noise or {}, rules, **more)
    for case in diff.cases:
        assert case.reason in REASONS
    return diff


def without(side: SuiteSide, number: int) -> SuiteSide:
    return replace(side, records=tuple(record for record in side.records if record.case != runs.case(number)))


def test_slower_faster_and_same_with_effect_interval_and_size_of_what_could_be_seen():
    suite_diff = compared(*pair({3: math.log(1.1), 5: math.log(0.9)}))
    slow, fast = of(suite_diff, 3), of(suite_diff, 5)
    assert (slow.verdict, fast.verdict) == ("SLOWER", "FASTER")
    assert {case.verdict for case in suite_diff.cases if case not in (slow, fast)} == {"SAME"}
    assert slow.low_ratio < 0.1 < slow.high_ratio
    assert slow.change_ratio == pytest.approx(slow.after_s / slow.before_s - 1)
    # geometric means of six process medians each
    logs = [
        math.log(record.measurement.median_s)
        for record in pair({3: math.log(1.1)})[1].records
        if record.case == slow.case
    ]
    assert slow.after_s == pytest.approx(math.exp(sum(logs) / 6))
    assert slow.adjusted_p_value < 0.05 < of(suite_diff, 0).adjusted_p_value
    assert slow.p_value <= slow.adjusted_p_value
    # the floor is the standard deviation of the difference: 1 % · √(2/6), and 10 % more without data over several runs
    assert slow.floor_ratio == pytest.approx(0.01 * math.sqrt(2 / 6) * 1.1, rel=0.3)
    assert slow.min_effect_ratio == pytest.approx(math.expm1(2 * math.log1p(slow.floor_ratio)))
    assert slow.min_effect_ratio < slow.smallest_step_ratio < 0.06
    assert suite_diff.smallest_step_ratio <= suite_diff.largest_smallest_step_ratio


def test_two_equal_sides_change_their_words_when_they_change_places():
    before, after = pair({3: math.log(1.1), 5: math.log(0.9)})
    forth, back = compared(before, after), compared(after, before)
    words = {"SLOWER": "FASTER", "FASTER": "SLOWER"}
    for case in forth.cases:
        other = next(side for side in back.cases if side.case == case.case)
        assert other.verdict == words.get(case.verdict, case.verdict)
        assert math.log1p(other.change_ratio) == pytest.approx(-math.log1p(case.change_ratio))
        assert other.floor_ratio == pytest.approx(case.floor_ratio)


def test_samples_of_one_process_are_one_observation():
    # 10,000 samples inside each process with a tiny interval: one process a side still knows no noise.
    before, after = pair({0: 0.3}, processes=1)
    suite_diff = compared(before, after)
    assert {case.verdict for case in suite_diff.cases} == {"AMBIGUOUS"}
    assert of(suite_diff, 0).reason == "noise-unknown"
    assert of(suite_diff, 0).change_ratio is not None
    assert of(suite_diff, 0).low_ratio is None
    assert suite_diff.smallest_step_ratio is None


@pytest.mark.parametrize(("before", "after"), [(5, 1), (1, 19), (2, 2), (4, 2)])
def test_too_few_processes_are_never_called_whatever_they_show(before, after):
    rng = np.random.default_rng(3)
    side = runs.side(runs.noisy(rng, 12, before))
    logs = runs.noisy(rng, 12, after)
    logs[0] += math.log(1.4)
    case_diff = of(compared(side, runs.side(logs, run=runs.run_info("b"))), 0)
    assert (case_diff.verdict, case_diff.reason) == ("AMBIGUOUS", "few-processes")
    assert case_diff.smallest_step_ratio is None


@pytest.mark.parametrize(("before", "after"), [(3, 3), (2, 5), (15, 3)])
def test_three_against_three_are_enough(before, after):
    rng = np.random.default_rng(3)
    logs = runs.noisy(rng, 12, after)
    logs[0] += math.log(1.4)
    assert (
        of(compared(runs.side(runs.noisy(rng, 12, before)), runs.side(logs, run=runs.run_info("b"))), 0).verdict
        == "SLOWER"
    )


def test_heavy_tails_of_single_processes_are_no_regressions():
    # Student-t(3) noise, five processes against one, nothing changed: 41 % of such suites had a SLOWER without the rule
    # above.
    rng = np.random.default_rng(5)
    for _ in range(10):
        sides = [runs.side(0.01 * rng.standard_t(3, (120, count)), label=str(count)) for count in (5, 1)]
        assert not compared(*sides).of("SLOWER", "FASTER")


def test_one_wild_process_does_not_hide_what_all_others_say():
    rng = np.random.default_rng(6)
    before, after = runs.noisy(rng, 12, 8), runs.noisy(rng, 12, 8)
    before[0, 3] += math.log(5)
    after[0] += math.log(1.2)
    case_diff = of(compared(runs.side(before), runs.side(after, run=runs.run_info("b"))), 0)
    assert case_diff.verdict == "SLOWER"
    assert case_diff.change_ratio == pytest.approx(0.2, abs=0.03)
    assert case_diff.set_aside == (
        finding("processes-set-aside", "before", kind="apart", apart_count=1, process_count=8),
    )


def test_two_states_are_never_cut_down_to_one():
    logs = runs.noisy(np.random.default_rng(6), 12, 8)
    logs[0, :2] += math.log(3)  # two of eight: a state of the case, not an accident
    case_diff = of(compared(runs.side(logs), runs.side(logs, run=runs.run_info("b"))), 0)
    assert case_diff.before_process_count == 8
    assert case_diff.set_aside == ()


def test_a_stored_floor_lets_one_process_a_side_be_judged():
    suite_diff = compared(*pair({0: math.log(1.3)}, processes=1), noise=runs.floors(np.full(12, 0.01)))
    assert of(suite_diff, 0).verdict == "SLOWER"
    assert of(suite_diff, 1).verdict == "SAME"
    assert of(suite_diff, 1).floor_ratio == pytest.approx(0.01 * math.sqrt(2), rel=0.05)  # several runs: nothing on top


def test_a_floor_is_raised_to_todays_noise_and_never_lowered():
    before, after = pair({}, sd=0.04, cases=40)
    raised = compared(before, after, noise=runs.floors(np.full(40, 0.01)))
    plain = compared(before, after)
    assert of(raised, 0).floor_ratio > 0.8 * of(plain, 0).floor_ratio
    before, after = pair({}, sd=0.001, cases=40)
    suite_diff = compared(before, after, noise=runs.floors(np.full(40, 0.01)))
    assert of(suite_diff, 0).floor_ratio > 0.6 * 0.01 * math.sqrt(2 / 6)


def test_a_small_certain_change_is_below_the_minimum_and_says_so():
    before, after = pair({2: 0.006}, sd=0.0005)
    case_diff = of(compared(before, after), 2)
    assert (case_diff.verdict, case_diff.reason) == ("SAME", "below-minimum")
    assert case_diff.min_effect_ratio == pytest.approx(0.01)
    assert of(compared(before, after, rules=DiffRules(min_effect_ratio=0.004)), 2).verdict == "SLOWER"


def test_a_large_uncertain_change_is_ambiguous():
    rng = np.random.default_rng(1)
    logs = [runs.noisy(rng, 60, 6) for _ in range(2)]
    pattern = 0.01 * np.array([1, -1, 1, -1, 1, -1])
    logs[0][2], logs[1][2] = pattern, pattern + 0.016  # about 2.4 floors: p = 1 % alone, nothing among sixty
    case_diff = of(compared(runs.side(logs[0]), runs.side(logs[1])), 2)
    assert case_diff.p_value < 0.02
    assert case_diff.adjusted_p_value > 0.05
    assert (case_diff.verdict, case_diff.reason) == ("AMBIGUOUS", "not-significant")


def test_noise_that_can_hide_more_than_the_limit_is_ambiguous():
    before, after = pair({}, sd=0.1, cases=30)
    quiet = [
        case
        for case in compared(before, after).cases
        if abs(math.log1p(case.change_ratio)) < math.log1p(case.min_effect_ratio)
    ]
    assert quiet
    assert {(case_diff.verdict, case_diff.reason) for case_diff in quiet} == {("AMBIGUOUS", "too-noisy")}
    relaxed = compared(before, after, rules=DiffRules(limit_ratio=0.6))
    assert {of(relaxed, number).verdict for number in range(30)} <= {"SAME", "AMBIGUOUS"}
    assert any(case.verdict == "SAME" for case in relaxed.cases)


def test_one_wild_process_does_not_make_a_case_slower():
    before, after = pair({}, cases=30, processes=8, sd=0.002)
    wild = changed(
        after, [4], median_s=lambda record: record.measurement.median_s * (1.6 if record.process.ordinal == 0 else 1.0)
    )
    case_diff = of(compared(before, wild, noise=runs.floors(np.full(30, 0.002))), 4)
    assert case_diff.change_ratio > 0.05
    assert case_diff.verdict == "AMBIGUOUS"


def test_a_very_noisy_case_is_not_talked_down_by_a_quiet_suite():
    rng = np.random.default_rng(7)
    before, after = (runs.noisy(rng, 100, 8, 0.003) for _ in range(2))
    for side in (before, after):
        side[0] = 0.05 * rng.standard_normal(8)
    case_diff = of(compared(runs.side(before), runs.side(after)), 0)
    assert case_diff.floor_ratio > 0.5 * 0.05 * math.sqrt(2 / 8)


def test_cases_that_move_together_do_not_vouch_for_each_other():
    rng = np.random.default_rng(3)
    per_run, common = 0.002 * rng.standard_normal((2, 40, 4)), 0.02 * rng.standard_normal((2, 1, 4))
    together = compared(*(runs.side(side) for side in per_run + common))
    alone = compared(*(runs.side(0.02 * rng.standard_normal((40, 4))) for _ in range(2)))
    # half the interval over the floor is the t quantile: that of the 6 degrees of freedom of one case, or of very many
    assert quantile(of(together, 0)) == pytest.approx(2.45, abs=0.15)
    assert quantile(of(alone, 0)) == pytest.approx(1.98, abs=0.05)


def quantile(case_diff) -> float:
    return (math.log1p(case_diff.high_ratio) - math.log1p(case_diff.low_ratio)) / 2 / math.log1p(case_diff.floor_ratio)


def test_new_and_gone_say_why():
    before, after = pair({})
    lost = [
        runs.lost(after.runs[0], 0, "failed", "wrong result: error 0.3"),
        runs.lost(after.runs[0], 1, "skipped", "no such kernel"),
    ]
    after = replace(
        after, records=(*(record for record in after.records if record.case not in map(runs.case, (0, 1, 2))), *lost)
    )
    before = without(before, 3)
    suite_diff = compared(before, after)
    verdicts = {
        number: (of(suite_diff, number).verdict, of(suite_diff, number).reason, of(suite_diff, number).detail)
        for number in range(4)
    }
    assert verdicts == {
        0: ("GONE", "failed", "wrong result: error 0.3"),
        1: ("GONE", "skipped", "no such kernel"),
        2: ("GONE", "absent", ""),
        3: ("NEW", "absent", ""),
    }
    assert of(suite_diff, 0).before_s is not None
    assert of(suite_diff, 0).after_s is None
    assert suite_diff.cases[-1].case == runs.case(2)  # what the newer run does not have at all comes last


def test_what_neither_side_measured_is_counted():
    before, after = pair({})
    both = [
        replace(side, records=(*side.records, runs.lost(side.runs[0], 90, "skipped", "no"))) for side in (before, after)
    ]
    suite_diff = compared(*both)
    assert suite_diff.unmeasured_count == 1
    assert len(suite_diff.cases) == 12


@pytest.mark.parametrize("flag", ["contended", "stolen", "shared-device", "capped", "quarantined", "above-roof"])
def test_a_flag_of_the_machine_makes_a_case_invalid(flag):
    before, after = pair({0: 0.3})
    case_diff = of(compared(before, changed(after, [0], flags=(flag,))), 0)
    assert (case_diff.verdict, case_diff.reason) == ("INVALID", flag)
    assert case_diff.set_aside == (
        finding("processes-set-aside", "after", kind="flagged", apart_count=6, process_count=6, flag=flag),
    )
    assert case_diff.after_s is not None
    assert case_diff.change_ratio is None


def test_a_minority_of_flagged_processes_is_set_aside_and_told():
    before, after = pair({0: math.log(1.1)})
    flagged = changed(
        after,
        [0, 1],
        flags=lambda record: ("contended", "quarantined") if record.process.ordinal < 2 else (),
        median_s=lambda record: record.measurement.median_s * (3 if record.process.ordinal < 2 else 1),
    )
    suite_diff = compared(before, flagged)
    assert of(suite_diff, 0).verdict == "SLOWER"
    assert of(suite_diff, 1).verdict == "SAME"
    assert of(suite_diff, 1).after_process_count == 4
    assert of(suite_diff, 1).set_aside == (
        finding("processes-set-aside", "after", kind="flagged", apart_count=2, process_count=6, flag="quarantined"),
    )  # the graver of the two


def test_flags_of_the_samples_do_not_invalidate():
    before, after = pair({})
    case_diff = of(compared(before, changed(after, [0], flags=("noisy", "bimodal", "drift"))), 0)
    assert case_diff.verdict == "SAME"
    assert case_diff.flags == ("bimodal", "drift", "noisy")


def test_methods_that_differ_are_never_compared():
    before, after = pair({})
    other = Method("cuda-event", "2", {"target_ci_ratio": 0.02})
    mixed = replace(
        after,
        records=tuple(
            replace(record, method=other) if record.case == runs.case(0) else record for record in after.records
        ),
    )
    suite_diff = compared(before, mixed)
    assert (of(suite_diff, 0).verdict, of(suite_diff, 0).reason) == ("INVALID", "method-differs")
    assert of(suite_diff, 0).detail == "timer monotonic → cuda-event; target_ci_ratio 0.01 → 0.02"
    assert suite_diff.is_comparable
    wholly = replace(after, records=tuple(replace(record, method=other) for record in after.records))
    assert not compared(before, wholly).is_comparable


@pytest.mark.parametrize(
    ("step", "clocks_hz", "verdict", "reason", "cycles"),
    [
        (math.log(1.1), (2.0e9, 2.0e9 / 1.1), "SLOWER", "clock-lower", 0.0),
        (math.log(1.1), (2.0e9, 2.0e9), "SLOWER", "more-cycles", 0.1),
        (math.log(1.2), (2.0e9, 1.9e9), "SLOWER", "more-cycles", 0.14),
        (math.log(1.1), (2.0e9, 2.1e9), "SLOWER", "more-cycles", 0.155),
        (math.log(0.9), (2.0e9, 2.0e9 / 0.9), "FASTER", "clock-higher", 0.0),
        (math.log(0.9), (2.0e9, 2.0e9), "FASTER", "fewer-cycles", -0.1),
        # the clock explains a third of it, and what is left is below the smallest change that is called
        (math.log(1.015), (2.0e9, 2.0e9 / 1.006), "SLOWER", "more-cycles", 0.009),
    ],
)
def test_slower_at_equal_cycles_is_told_from_a_lower_clock(step, clocks_hz, verdict, reason, cycles):
    before, after = pair({0: step}, sd=0.001)
    before, after = (changed(side, [0], sm_clock_hz=hz) for side, hz in zip((before, after), clocks_hz, strict=True))
    case_diff = of(compared(before, after), 0)
    assert (case_diff.verdict, case_diff.reason) == (verdict, reason)
    assert case_diff.cycles_change_ratio == pytest.approx(cycles, abs=0.005)


def test_without_a_clock_no_cause_is_claimed_and_the_cpus_clock_serves_on_a_cpu():
    before, after = pair({0: math.log(1.1)}, sd=0.001)
    assert of(compared(before, after), 0).reason == "significant"
    before, after = (
        changed(side, [0], state=MachineState(cpu_clock_hz=hz)) for side, hz in ((before, 3.3e9), (after, 3.0e9))
    )
    assert of(compared(before, after), 0).reason == "clock-lower"
    # read once after the case, and the nominal one on a virtual machine: a CPU's clock that stands still clears nobody
    before, after = pair({0: math.log(1.1)}, sd=0.001)
    before, after = (changed(side, [0], state=MachineState(cpu_clock_hz=2.5e9)) for side in (before, after))
    assert of(compared(before, after), 0).reason == "significant"


def test_the_clock_is_the_cause_only_where_it_explains_the_change():
    noisy = {"half_log": 0.02, "least_log": 0.015, "is_sampled": True}
    assert clock_reason(0.030, -0.030, **noisy) == "clock-lower"
    assert clock_reason(0.030, -0.008, **noisy) == "more-cycles"
    assert clock_reason(0.025, -0.008, **noisy) == "significant"  # some clock, some noise: nobody is singled out
    assert clock_reason(-0.030, 0.028, **noisy) == "clock-higher"
    assert clock_reason(-0.030, 0.0, **noisy) == "fewer-cycles"
    assert clock_reason(-0.030, 0.0, **(noisy | {"is_sampled": False})) == "significant"


@pytest.mark.parametrize(
    ("loads", "wall_s", "verdicts"),
    [
        ((0.01, 0.01), 1.0, ("SLOWER", "FASTER")),
        ((0.01, 0.03), 1.0, ("SLOWER", "FASTER")),  # one load
        ((0.01, 0.07), 1.0, ("AMBIGUOUS", "FASTER")),  # the load explains a slow-down, never a gain
        ((0.07, 0.01), 1.0, ("SLOWER", "AMBIGUOUS")),
        ((0.07, 0.01), 0.04, ("SLOWER", "FASTER")),  # so short that the counters tell no difference
        ((None, 0.07), 1.0, ("SLOWER", "FASTER")),
    ],
)
def test_a_change_that_the_load_of_the_machine_explains_is_not_called(loads, wall_s, verdicts):
    sides = [
        changed(side, range(12), state=None if load is None else MachineState(others_ratio=load), wall_s=wall_s)
        for side, load in zip(pair({3: math.log(1.1), 5: math.log(0.9)}), loads, strict=True)
    ]
    suite_diff = compared(*sides)
    cases = of(suite_diff, 3), of(suite_diff, 5)
    assert tuple(case.verdict for case in cases) == verdicts
    assert all((case.reason == "load-differs") is (case.verdict == "AMBIGUOUS") for case in cases)
    assert (cases[0].others_before_ratio, cases[0].others_after_ratio) == pytest.approx(loads)


def test_the_load_of_the_cpus_says_nothing_about_a_gpu():
    sides = [
        replace(side, records=tuple(replace(record, method=Method("cuda-event", "2", {})) for record in side.records))
        for side in pair({3: math.log(1.1)})
    ]
    sides = [
        changed(side, range(12), state=MachineState(others_ratio=load))
        for side, load in zip(sides, (0, 0.09), strict=True)
    ]
    assert of(compared(*sides), 3).verdict == "SLOWER"


def test_a_cases_own_threshold_takes_the_place_of_the_minimum_effect():
    before, after = pair({0: math.log(1.1), 1: math.log(1.1)}, sd=0.002)
    changed = replace(
        after,
        records=tuple(
            replace(record, extra={"threshold_ratio": 0.2}) if record.case == runs.case(0) else record
            for record in after.records
        ),
    )
    suite_diff = compared(before, changed)
    assert (of(suite_diff, 0).verdict, of(suite_diff, 0).reason) == ("SAME", "below-minimum")
    assert of(suite_diff, 0).threshold_ratio == pytest.approx(0.2)
    assert of(suite_diff, 1).verdict == "SLOWER"


@pytest.mark.parametrize("junk", ["5%", -0.1, True, math.inf, 3, None, [0.1]])
def test_a_threshold_that_is_none_is_not_used(junk):
    before, after = pair({})
    odd = replace(after, records=tuple(replace(record, extra={"threshold_ratio": junk}) for record in after.records))
    assert of(compared(before, odd), 0).threshold_ratio is None


def test_several_runs_a_side_are_pooled_by_process():
    rng = np.random.default_rng(5)
    nights = [runs.side(runs.noisy(rng, 12, 3), f"n{number}") for number in range(5)]
    logs = runs.noisy(rng, 12, 3)
    logs[2] += math.log(1.06)
    rolling = SuiteSide(
        tuple(side.runs[0] for side in nights), tuple(record for side in nights for record in side.records)
    )
    after = runs.side(logs)
    pooled, alone = compared(rolling, after), compared(nights[-1], after)
    assert of(pooled, 2).before_process_count == 15
    assert of(pooled, 2).verdict == "SLOWER"
    assert of(pooled, 2).smallest_step_ratio < 0.8 * of(alone, 2).smallest_step_ratio


def test_an_empty_side_and_a_run_on_both_sides_are_refused():
    before, after = pair({})
    with pytest.raises(InvalidValueError, match="measured nothing"):
        compared(replace(before, records=(runs.lost(before.runs[0], 0, "skipped", "no"),)), after)
    with pytest.raises(InvalidValueError, match="on both sides"):
        compared(before, before)


def test_different_suites_are_not_comparable():
    before, after = runs.side(np.zeros((2, 3))), runs.side(np.zeros((4, 3)))
    after = replace(
        after, records=tuple(record for record in after.records if record.case not in map(runs.case, (0, 1)))
    )
    suite_diff = compared(before, after)
    assert {case.verdict for case in suite_diff.cases} == {"NEW", "GONE"}
    assert not suite_diff.is_comparable


def test_exact_times_of_a_simulated_device_are_certain():
    before, after = runs.side(np.zeros((4, 3))), runs.side(np.array([[0.0] * 3, [0.0] * 3, [0.1] * 3, [0.002] * 3]))
    exact = [changed(side, range(4), ci_low_s=None, ci_high_s=None) for side in (before, after)]
    suite_diff = compared(*exact)
    assert [of(suite_diff, number).verdict for number in range(4)] == ["SAME", "SAME", "SLOWER", "SAME"]


@pytest.mark.parametrize(
    ("field", "end"), [("min_effect_ratio", 1.0), ("false_discovery_ratio", 1.0), ("limit_ratio", 10.0)]
)
def test_rules_out_of_range_are_refused(field, end):
    for value in (0.0, end, -0.1, math.nan):
        with pytest.raises(InvalidValueError, match=f"above 0 and below {end:g} "):
            DiffRules(**{field: value})
    assert getattr(DiffRules(**{field: end - 0.01}), field) == end - 0.01
