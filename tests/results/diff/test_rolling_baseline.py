"""`settled`: which nights of a rolling baseline are still the present level of a case."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace

import diff_runs as runs
import numpy as np
import pytest
from diff_runs import of

from results.diff.gate import gate, parse_fail_on
from results.diff.rolling import settled
from results.diff.rules import DiffRules
from results.diff.suites import SuiteSide, compare_suites
from results.records.records import Method
from results.watch.annotations import Annotation

RULES = DiffRules()
SLOW, FAST = math.log(1.10), math.log(0.90)
CASES = 12


def nights(*steps: float, case: int = 3, processes: int = 3, sd: float = 0.005) -> list[SuiteSide]:
    """One run a night, of which one case has taken the given steps (logarithms) by then."""
    rng = np.random.default_rng(7)
    sides = []
    for number, step in enumerate(steps):
        logs = runs.noisy(rng, CASES, processes, sd)
        logs[case] += step
        run = runs.run_info(f"night-{number + 1}", started_at=f"2026-03-{number + 1:02d}T01:00:00.000000+00:00")
        sides.append(runs.side(logs, run=run))
    return sides


def pool(sides: list[SuiteSide]) -> SuiteSide:
    """As the store gives it: newest run first."""
    newest = sides[::-1]
    return SuiteSide(
        tuple(run for side in newest for run in side.runs), tuple(record for side in newest for record in side.records)
    )


def judged(sides: list[SuiteSide], annotations=(), number: int = 3):
    """The last night against the pool of those before it."""
    before, after = pool(sides[:-1]), sides[-1]
    left = settled(before, after, {}, RULES, annotations)
    return of(compare_suites(left, after, {}, RULES, annotations=annotations), number)


def test_a_regression_stays_slower_until_it_is_mended():
    steps = [0.0, 0.0, 0.0, SLOW, SLOW, SLOW]
    for count in (4, 5, 6):
        case_diff = judged(nights(*steps[:count]))
        assert case_diff.verdict == "SLOWER", f"night {count}"
        assert case_diff.change_ratio == pytest.approx(0.10, abs=0.02)
        assert case_diff.before_process_count == 9  # the three fast nights
        assert len(case_diff.set_aside) == count - 4
    first = case_diff.set_aside[0]
    assert (first.code, first.subject) == ("night-not-used", "before")
    assert first.value("night").endswith(" night-4")
    assert first.value("change_ratio") > 0
    # Without it, the step that the pool has taken in hides the next one.
    sides = nights(*steps[:5])
    assert of(compare_suites(pool(sides[:-1]), sides[-1], {}, RULES), 3).verdict != "SLOWER"


def test_a_mended_kernel_is_the_same_as_before_and_seen_as_sharply():
    case_diff = judged(nights(0.0, 0.0, 0.0, SLOW, 0.0))
    assert case_diff.verdict == "SAME"
    assert case_diff.smallest_step_ratio < 0.03
    assert judged(nights(0.0, 0.0, 0.0, SLOW, 0.0, SLOW)).verdict == "SLOWER"


def test_when_all_nights_are_slow_that_is_the_level():
    sides = nights(SLOW, SLOW, SLOW, SLOW)
    assert judged(sides).verdict == "SAME"
    assert judged(sides).set_aside == ()


def test_a_speed_up_is_the_new_level_once_a_second_night_confirms_it():
    first = judged(nights(0.0, 0.0, 0.0, FAST))
    second = judged(nights(0.0, 0.0, 0.0, FAST, FAST))
    third = judged(nights(0.0, 0.0, 0.0, FAST, FAST, FAST))
    lost = judged(nights(0.0, 0.0, 0.0, FAST, FAST, 0.0))
    assert (first.verdict, second.verdict, third.verdict, lost.verdict) == ("FASTER", "FASTER", "SAME", "SLOWER")
    assert second.set_aside[0].value("kind") == "faster"
    assert second.set_aside[0].value("change_ratio") < 0
    assert [item.code for item in third.set_aside] == ["night-not-used"] * 3
    assert [item.value("night").split(" ")[1] for item in third.set_aside] == ["night-1", "night-2", "night-3"]
    assert third.before_process_count == 6


def test_a_speed_up_of_one_night_counts_as_noise_afterwards():
    case_diff = judged(nights(0.0, 0.0, FAST, 0.0, 0.0))
    assert case_diff.before_process_count == 12
    assert case_diff.set_aside == ()
    assert case_diff.verdict in ("SAME", "AMBIGUOUS")


def test_the_other_cases_keep_all_their_nights():
    case_diff = judged(nights(0.0, 0.0, 0.0, SLOW, SLOW), number=5)
    assert (case_diff.verdict, case_diff.before_process_count, case_diff.set_aside) == ("SAME", 12, ())


def test_order_of_runs_and_records_is_of_no_matter():
    sides = nights(0.0, 0.0, SLOW, SLOW, FAST)
    before = pool(sides[:-1])
    shuffled = SuiteSide(before.runs[::-1], before.records[::-1])
    in_order, reordered = (settled(side, sides[-1], {}, RULES) for side in (before, shuffled))
    assert {record.record_id for record in in_order.records} == {record.record_id for record in reordered.records}
    assert in_order.set_aside == reordered.set_aside


def test_nights_that_cannot_be_judged_are_left_out_and_told():
    sides = nights(0.0, 0.0, 0.0, 0.0, 0.0)
    sides[1], sides[2], sides[3] = (runs.changed(side, [3], flags=("contended",)) for side in sides[1:4])
    case_diff = judged(sides)
    assert (case_diff.verdict, case_diff.before_process_count) == ("SAME", 3)
    assert [(item.code, item.value("flag")) for item in case_diff.set_aside] == [("night-not-used", "contended")] * 3


def test_after_a_change_of_method_only_nights_of_the_new_one_are_used():
    sides = nights(0.0, 0.0, 0.2, 0.2)
    other = Method("monotonic", "2", {"target_ci_ratio": 0.02})
    for number in (2, 3):
        sides[number] = replace(
            sides[number], records=tuple(replace(record, method=other) for record in sides[number].records)
        )
    case_diff = judged(sides)
    assert (case_diff.verdict, case_diff.before_process_count) == ("SAME", 3)
    assert {item.code for item in case_diff.set_aside} == {"night-not-used"}
    # None of the new one yet: kept, so that the diff can say what differs.
    first = judged(sides[:3])
    assert (first.verdict, first.reason) == ("INVALID", "method-differs")


def test_a_case_that_is_not_judgeable_in_any_night_keeps_its_records():
    sides = [runs.changed(side, [3], flags=("contended",)) for side in nights(0.0, 0.0, 0.0)]
    case_diff = judged(sides)
    assert (case_diff.verdict, case_diff.reason) == ("INVALID", "contended")


def test_one_run_comes_back_as_it_is():
    before, after = nights(0.0, SLOW)
    assert settled(before, after, {}, RULES) is before


def expected(*, on: int, match: str = "gemv *") -> tuple[Annotation, ...]:
    return (Annotation(match, "expected: driver 590", datetime.date(2026, 3, on)),)


def test_an_annotated_slow_down_fails_nothing_and_becomes_the_level():
    steps = [0.0, 0.0, 0.0, SLOW, SLOW]
    for count in (4, 5):
        sides = nights(*steps[:count])
        notes = expected(on=4)
        diff = compare_suites(
            settled(pool(sides[:-1]), sides[-1], {}, RULES, notes), sides[-1], {}, RULES, annotations=notes
        )
        assert gate(diff, parse_fail_on(["slower"])).exit_code == 0
    assert of(diff, 3).verdict == "SAME"  # the second slow night, against the first
    assert of(diff, 3).before_process_count == 3
    first = judged(nights(*steps[:4]), expected(on=4))
    assert (first.verdict, first.expected_reason) == ("SLOWER", "expected: driver 590")
    # Of another day or another case it covers nothing.
    for notes in (expected(on=1), expected(on=4, match="gemm *")):
        assert judged(nights(*steps[:4]), notes).expected_reason == ""
        assert judged(nights(*steps), notes).verdict == "SLOWER"


def test_a_fast_night_before_an_annotated_slow_down_is_told_among_the_nights_before_it():
    case_diff = judged(nights(0.0, 0.0, FAST, SLOW, SLOW), expected(on=4))
    assert (case_diff.verdict, case_diff.before_process_count) == ("SAME", 3)
    assert [(item.value("kind"), item.value("night").split(" ")[1]) for item in case_diff.set_aside] == [
        ("before-expected", f"night-{number}") for number in (1, 2, 3)
    ]


def test_an_annotation_of_the_day_a_case_was_removed_excuses_its_loss():
    sides = nights(0.0, 0.0, 0.0, 0.0)
    sides[2:] = [
        replace(side, records=tuple(two for two in side.records if two.case != runs.case(3))) for side in sides[2:]
    ]
    for notes, code in (((), 1), (expected(on=3), 0), (expected(on=1), 1)):
        diff = compare_suites(
            settled(pool(sides[:-1]), sides[-1], {}, RULES, notes), sides[-1], {}, RULES, annotations=notes
        )
        assert of(diff, 3).verdict == "GONE"
        assert gate(diff, parse_fail_on(["gone"])).exit_code == code


def test_unchanged_nights_raise_no_more_false_alarms_than_the_diff_itself():
    # The share is measured by `python -m benchmarks diff_power`; here: forty pools of five nights, no alarm.
    rng = np.random.default_rng(11)
    alarms = 0
    for _ in range(40):
        sides = [
            runs.side(
                runs.noisy(rng, 20, 3),
                run=runs.run_info(f"n{number}", started_at=f"2026-03-{number + 1:02d}T01:00:00+00:00"),
            )
            for number in range(6)
        ]
        after = sides[-1]
        diff = compare_suites(settled(pool(sides[:-1]), after, {}, RULES), after, {}, RULES)
        alarms += len(diff.of("SLOWER"))
    assert alarms <= 8  # 40 suites: 0.1 each is 4; eight or fewer in 97.9 % of all seeds
