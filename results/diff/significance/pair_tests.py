"""The cases that both sides measured, tested together: they lend each other their spread and share the false alarms.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap

import numpy as np

from results.cases.case_result import CaseResult
from results.cases.pooling import WILD
from results.diff import side_facts
from results.diff.case_diff import CaseDiff
from results.diff.rules import DiffRules, Verdict
from results.diff.run_movement import change_variance, run_movement_variance
from results.diff.significance.energy_tests import energy_changes
from results.diff.significance.judgement import judge
from results.diff.significance.metrics import other_changes
from results.diff.significance.t_test import (
    Evidence,
    Floats,
    Samples,
    evidence,
    is_replicated,
    pooled_spread,
    rank_p_value,
    ratio_of,
)
from results.records.state_records import NoiseFloor
from results.statistics.replication import FloorKey
from results.statistics.shared_movement import deviations_of, effective_cases, shared_ratio
from roofline_model.core.finding import Finding, finding

SAME_CLOCK_RATIO = 0.005
"""Clocks nearer than this are one clock (the sensors' own steps are 15 MHz of some 2 GHz)."""

EVEN_LOAD_RATIO = 0.06
"""Shares of the CPUs that others used are one load when they are nearer than this: the counters' steps of 10 ms in
visits of 50 ms alone put 3 % into the mean over fifteen of them …
"""
LOAD_STEPS_S = 0.02
"""… or than two steps of the kernel's counters, over the time that was measured."""

SidePair = tuple[CaseResult, CaseResult]
"""(before, after)"""


def judge_times(
    pairs: Mapping[str, SidePair], noise: Mapping[FloorKey, NoiseFloor], rules: DiffRules
) -> tuple[Evidence, list[tuple[Verdict, str]]]:
    """Return the tests of the times of one or more pairs, with verdict and reason of each; clocks are ignored."""
    sides = list(pairs.values())
    thresholds = [_threshold_ratio(pair) for pair in sides]
    least = np.array([rules.min_effect_ratio if threshold is None else threshold for threshold in thresholds])
    limit = np.array([rules.limit_ratio if threshold is None else threshold for threshold in thresholds])
    time_tests = _evidence(pairs, noise, least, rules.false_discovery_ratio)
    replicated = np.array(
        [
            is_replicated(before.process_count, after.process_count) or _floor(noise, key, after) is not None
            for key, (before, after) in pairs.items()
        ]
    )
    verdicts = judge(
        time_tests,
        false_discovery_ratio=rules.false_discovery_ratio,
        limit_ratio=limit,
        ranks=partial(_rank_p_value, sides),
        is_replicated=replicated,
        asked_ratio=np.array([rules.asked_ratio if threshold is None else threshold for threshold in thresholds]),
    )
    # What can never be called is no step that this diff sees.
    return replace(time_tests, smallest_step_log=np.where(replicated, time_tests.smallest_step_log, np.nan)), verdicts


def judge_pairs(
    pairs: Mapping[str, SidePair], noise: Mapping[FloorKey, NoiseFloor], rules: DiffRules
) -> dict[str, CaseDiff]:
    """Return the verdict of every case by key; every side has processes that are used, of one method."""
    if not pairs:
        return {}
    time_tests, verdicts = judge_times(pairs, noise, rules)
    energies = energy_changes(pairs, rules)
    cases = {}
    for index, (key, (before, after)) in enumerate(pairs.items()):
        verdict, reason = verdicts[index]
        loads = side_facts.others_ratio(before), side_facts.others_ratio(after)
        walls_s = side_facts.wall_s(before), side_facts.wall_s(after)
        if verdict in ("SLOWER", "FASTER") and is_by_load(verdict, *loads, walls_s=walls_s):
            verdict, reason = "AMBIGUOUS", "load-differs"
        before_hz, after_hz, cycles_log = side_facts.clock_hz(before), side_facts.clock_hz(after), None
        if before_hz is not None and after_hz is not None:
            cycles_log = float(time_tests.change_log[index]) + math.log(after_hz / before_hz)
            if verdict in ("SLOWER", "FASTER"):
                reason = clock_reason(
                    float(time_tests.change_log[index]),
                    math.log(after_hz / before_hz),
                    half_log=float(time_tests.high_log[index] - time_tests.change_log[index]),
                    least_log=float(time_tests.min_effect_log[index]),
                    is_sampled=side_facts.has_sampled_clock(before) and side_facts.has_sampled_clock(after),
                )
        energy = (energies[key],) if key in energies else ()
        cases[key] = CaseDiff(
            after.case,
            key,
            verdict,
            reason,
            "",
            clock_before_hz=before_hz,
            clock_after_hz=after_hz,
            others_before_ratio=loads[0],
            others_after_ratio=loads[1],
            cycles_change_ratio=ratio_of(cycles_log),
            threshold_ratio=_threshold_ratio((before, after)),
            metrics=(*energy, *other_changes(before, after)),
            **_numbers(time_tests, index),  # type: ignore[arg-type]
            **sizes(before, after),  # type: ignore[arg-type]
        )
    return cases


def clock_reason(change_log: float, clock_log: float, *, half_log: float, least_log: float, is_sampled: bool) -> str:
    """Return what the clocks prove of a change of the time; `significant` where they prove nothing.

    The clock is the cause where it moved the right way, makes up at least half of the change, and leaves less than the
    minimum effect. It is not where the cycles alone changed beyond the interval (± `half_log`); that takes a clock read
    beside the samples (`is_sampled`): one reading after the case, nominal on a virtual machine, rules nothing out.
    """
    sign = 1.0 if change_log > 0 else -1.0
    cycles_log = sign * (change_log + clock_log)
    by_clock_log = -sign * clock_log
    if by_clock_log > SAME_CLOCK_RATIO and by_clock_log >= abs(change_log) / 2 and cycles_log < least_log:
        return "clock-lower" if sign > 0 else "clock-higher"
    if is_sampled and cycles_log > half_log:
        return "more-cycles" if sign > 0 else "fewer-cycles"
    return "significant"


def is_by_load(
    verdict: Verdict, before_ratio: float | None, after_ratio: float | None, *, walls_s: Sequence[float | None]
) -> bool:
    """Return whether other processes may have made the change: they used more of the CPUs on the slower side.

    Such a share of a tenth is below what sets a process aside, and slows some kernels all the same: while the load of a
    machine changed, 3 of 60 unchanged cases were called FASTER. `walls_s`: how long each side was measured.
    """
    if before_ratio is None or after_ratio is None:
        return False
    more_ratio = after_ratio - before_ratio if verdict == "SLOWER" else before_ratio - after_ratio
    steps = [LOAD_STEPS_S / wall_s for wall_s in walls_s if wall_s is not None]
    return more_ratio > max(EVEN_LOAD_RATIO, *steps)


def _threshold_ratio(pair: SidePair) -> float | None:
    """Return the case's own smallest change that counts: the newer side's."""
    return side_facts.threshold_ratio(pair[1]) or side_facts.threshold_ratio(pair[0])


def sizes(before: CaseResult | None, after: CaseResult | None) -> dict[str, object]:
    """Return the fields of a `CaseDiff` that need no test: estimates, processes used and set aside, flags."""
    return {
        "before_s": None if before is None else before.measured_s,
        "after_s": None if after is None else after.measured_s,
        "before_process_count": 0 if before is None else len(side_facts.judged_logs(before)),
        "after_process_count": 0 if after is None else len(side_facts.judged_logs(after)),
        "set_aside": tuple(set_aside_findings(before, after)),
        "flags": tuple(sorted({flag for side in (before, after) if side is not None for flag in side.flags})),
    }


def set_aside_findings(before: CaseResult | None, after: CaseResult | None) -> list[Finding]:
    """Return which processes are not used; the subject is the side, `before` or `after`."""
    return [
        finding(
            "processes-set-aside",
            word,
            kind="apart" if flag == WILD else "flagged",
            apart_count=count,
            process_count=side.pooled.process_count,
            flag=None if flag == WILD else flag,
        )
        for word, side in (("before", before), ("after", after))
        if side is not None and side.pooled is not None
        for flag, count in side.pooled.excluded
    ]


def _evidence(
    pairs: Mapping[str, SidePair], noise: Mapping[FloorKey, NoiseFloor], least: Floats, false_discovery_ratio: float
) -> Evidence:
    sides = [(side_facts.judged(before), side_facts.judged(after)) for before, after in pairs.values()]
    floors = [_floor(noise, key, after) for key, (_, after) in pairs.items()]
    samples = Samples.of([(list(before.logs.values()), list(after.logs.values())) for before, after in sides])
    spread = pooled_spread(
        samples,
        np.array([0.0 if floor is None else floor.between_sd_ratio**2 for floor in floors]),
        np.array([0.0 if floor is None else floor.process_count - 1.0 for floor in floors]),
        spans_runs=np.array(
            [
                before.run_count > 1 or after.run_count > 1 or (floor is not None and len(floor.run_ids) > 1)
                for (before, after), floor in zip(sides, floors, strict=True)
            ]
        ),
        sampling_variance=np.array(
            [(before.sampling_variance + after.sampling_variance) / 2 for before, after in sides]
        ),
        effective_count=effective_cases(len(sides), shared_ratio(starmap(deviations_of, sides))),
    )
    olds, news = [before for before, _ in sides], [after for _, after in sides]
    moved = max(run_movement_variance(olds), run_movement_variance(news))
    return evidence(
        samples,
        spread,
        min_effect_ratio=least,
        false_discovery_ratio=false_discovery_ratio,
        shared_variance=np.array(change_variance(moved, olds, news)),
    )


def _floor(noise: Mapping[FloorKey, NoiseFloor], key: str, side: CaseResult) -> NoiseFloor | None:
    method = next(iter(side.method_hashes), "")
    floor = noise.get((key, method))
    return floor if floor is not None and floor.process_count > 1 and math.isfinite(floor.between_sd_ratio) else None


def _rank_p_value(sides: Sequence[SidePair], index: int, is_slower: bool) -> float | None:
    before, after = (list(side_facts.judged(side).logs.values()) for side in sides[index])
    return rank_p_value(before, after) if is_slower else rank_p_value(after, before)


def _numbers(time_tests: Evidence, index: int) -> dict[str, float | None]:
    change = float(time_tests.change_log[index])
    p_values = (time_tests.slower_p, time_tests.slower_q) if change >= 0 else (time_tests.faster_p, time_tests.faster_q)
    return {
        "change_ratio": ratio_of(change),
        "low_ratio": ratio_of(float(time_tests.low_log[index])),
        "high_ratio": ratio_of(float(time_tests.high_log[index])),
        "p_value": _number_or_none(float(p_values[0][index])),
        "adjusted_p_value": _number_or_none(float(p_values[1][index])),
        "floor_ratio": ratio_of(float(time_tests.floor_log[index])),
        "min_effect_ratio": ratio_of(float(time_tests.min_effect_log[index])),
        "smallest_step_ratio": ratio_of(float(time_tests.smallest_step_log[index])),
    }


def _number_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
