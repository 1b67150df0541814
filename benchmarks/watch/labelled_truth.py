"""Diffs and histories against labelled truth: false alarms of simulated nights, and how often an injected slow-down is
found, by ours and by others' rules on the same series.

`python -m benchmarks.watch.labelled_page` writes docs/theory/labelled_truth.md from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.timing.rows import Figure
from benchmarks.watch.labelled_nights import BUSY, QUIET, Floats, Machine, Nights, machine_nights, pool, sides_of
from benchmarks.watch.rivals import ASV_FACTOR, DETECTORS, gate_fails
from results.diff.baseline import ROLLING_COUNT
from results.diff.case_diff import SuiteDiff
from results.diff.gate import EXIT_REGRESSION, GateResult, gate, parse_fail_on
from results.diff.rolling import settled
from results.diff.rules import DiffRules
from results.diff.significance.judgement import judge
from results.diff.significance.t_test import Evidence, Samples, evidence, pooled_spread, rank_p_value
from results.diff.suites import SuiteSide, compare_suites
from results.history.change_points import find_steps

CASES, PROCESSES, NIGHTS = 100, 3, 60
FIRST_NIGHT = 10
"""Histories are watched from here on, the first gate is after `ROLLING_COUNT` nights."""
STEP_NIGHT = 40
STEPS, SHARES = (0.03, 0.05, 0.10), (0.01, 0.03, 0.10)
FOUND_WITHIN = 5
"""Nights in which a history has to raise an injected step."""
NOISES = (0.003, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.03, 0.05)
"""Standard deviations between processes of the power table."""
MOST_GATES = 1 / 20
"""False alarms a night."""
OURS = ("ours, slower", "ours, slower:5%")
GATES = (*OURS, "pytest-benchmark, median:5%", "asv continuous, factor 1.1")
LEVELS = ("ours, history", *DETECTORS)


@dataclass(slots=True)
class Alarms:
    """False alarms over unchanged nights: how many nights failed, by contestant."""

    machine: str
    night_count: int = 0
    nights: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GATES, 0))
    history_count: int = 0
    """Series that the detectors watched …"""
    histories: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LEVELS, 0))
    """… and steps that they raised."""
    ambiguous_ratio: float = 0.0
    """Of the unchanged cases, in `roofline diff` against the rolling baseline."""


@dataclass(frozen=True, slots=True)
class Detection:
    """Shares of the injected cases: found on the night of the step by gates, within five nights by histories."""

    machine: str
    step: float
    share: float
    rates: dict[str, float]
    ambiguous_ratio: float
    """Of the injected cases, called AMBIGUOUS that night by ours."""
    same_ratio: float


@dataclass(frozen=True, slots=True)
class Power:
    """Three processes a side, nothing stored, one case in a hundred slower: what is called, by noise and true step."""

    noise: float
    half_width_ratio: float
    """Median 95 % half width of a change."""
    step: float
    """0: the unchanged cases."""
    slower: float
    ambiguous: float
    same: float


def false_alarms(machine: Machine, series_count: int, *, cases: int = CASES, nights: int = NIGHTS) -> Alarms:
    """Return the false alarms of unchanged nights, a new machine every series."""
    alarms, ambiguous, judged = Alarms(machine.name), 0, 0
    for seed in range(series_count):
        history = machine_nights(np.random.default_rng([20261126, seed]), machine, nights, cases, PROCESSES)
        sides = sides_of(history, range(nights))
        for run_index in range(ROLLING_COUNT, nights):
            alarms.night_count += 1
            diff = judged_night(sides, run_index)
            for name in OURS:
                alarms.nights[name] += is_red(diff, name)
            ambiguous, judged = ambiguous + len(diff.of("AMBIGUOUS")), judged + len(diff.cases)
            for name in GATES[2:]:
                alarms.nights[name] += bool(rival_gate(name, history, run_index).any())
        alarms.history_count += cases
        for name in LEVELS:
            alarms.histories[name] += sum(len(raised(name, values)) for values in case_values(history))
    alarms.ambiguous_ratio = ambiguous / max(judged, 1)
    return alarms


def detection(machine: Machine, step: float, share: float, rounds: int, *, cases: int = CASES) -> Detection:
    """Return how often a lasting step of a share of the cases is found."""
    hits = dict.fromkeys((*OURS, *GATES[2:], *LEVELS), 0.0)
    ambiguous = same = 0.0
    count = max(1, round(share * cases))
    for seed in range(rounds):
        rng = np.random.default_rng([20261127, seed, round(1e4 * step), round(1e4 * share)])
        history = machine_nights(rng, machine, STEP_NIGHT + FOUND_WITHIN, cases, PROCESSES)
        slow = rng.choice(cases, count, replace=False)
        history = history.with_step(STEP_NIGHT, slow, step)
        sides = sides_of(history, range(STEP_NIGHT - ROLLING_COUNT, STEP_NIGHT + 1))
        diff = judged_night(sides, ROLLING_COUNT)
        called = {case.case.shape[2][1] - 64: case.verdict for case in diff.cases}
        for name in OURS:
            failing = {failure.case.case.shape[2][1] - 64 for failure in gate_of(diff, name).failures}
            hits[name] += len(failing.intersection(slow))
        ambiguous += sum(called[case] == "AMBIGUOUS" for case in slow)
        same += sum(called[case] == "SAME" for case in slow)
        for name in GATES[2:]:
            hits[name] += float(rival_gate(name, history, STEP_NIGHT)[slow].sum())
        values = case_values(history)
        for name in LEVELS:
            hits[name] += sum(
                any(
                    run_index >= STEP_NIGHT and abs(start - STEP_NIGHT) <= 2
                    for run_index, start in raised(name, values[case])
                )
                for case in slow
            )
    total = rounds * count
    rates = {name: value / total for name, value in hits.items()}
    return Detection(machine.name, step, share, rates, ambiguous / total, same / total)


def power_of(noise: float, step: float, rounds: int, *, cases: int = CASES) -> Power:
    """Return the verdicts of three processes a side under normal noise; `step` 0: of unchanged cases."""
    rng = np.random.default_rng([20261128, round(1e6 * noise), round(1e4 * step)])
    counts: dict[str, int] = {"SLOWER": 0, "FASTER": 0, "AMBIGUOUS": 0, "SAME": 0}
    widths = []
    watched = slice(0, 1) if step else slice(0, cases)
    for _ in range(rounds):
        before, after = (noise * rng.standard_normal((cases, PROCESSES)) for _ in range(2))
        after[0] += np.log1p(step)
        tests, called = verdicts(before, after)
        widths.append(float(np.median(tests.high_log - tests.change_log)))
        for verdict in called[watched]:
            counts[verdict] += 1
    total = sum(counts.values())
    shares = {verdict: count / total for verdict, count in counts.items()}
    return Power(noise, float(np.median(widths)), step, shares["SLOWER"], shares["AMBIGUOUS"], shares["SAME"])


def verdicts(before: Floats, after: Floats) -> tuple[Evidence, list[str]]:
    """Return the tests and verdicts of `results.diff` with nothing stored; logarithms of process medians, (cases,
    processes).
    """
    rules = DiffRules()
    counts = [np.full(len(before), float(side.shape[1])) for side in (before, after)]
    squares = sum(((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in (before, after))
    samples = Samples(after.mean(axis=1) - before.mean(axis=1), counts[0], counts[1], np.asarray(squares))
    judged = evidence(
        samples,
        pooled_spread(samples, spans_runs=False),
        min_effect_ratio=rules.min_effect_ratio,
        false_discovery_ratio=rules.false_discovery_ratio,
    )
    called = judge(
        judged,
        false_discovery_ratio=rules.false_discovery_ratio,
        limit_ratio=rules.limit_ratio,
        ranks=lambda i, is_slower: (
            rank_p_value(before[i], after[i]) if is_slower else rank_p_value(after[i], before[i])
        ),
    )
    return judged, [verdict for verdict, _ in called]


def upper_bound(events: int, rounds: int) -> float:
    """Return the upper 95 % bound of a mean count per round: exact for Poisson counts."""
    from scipy.stats import chi2

    return float(chi2.ppf(0.95, 2 * (events + 1))) / 2 / rounds


def judged_night(sides: Sequence[SuiteSide], run_index: int) -> SuiteDiff:
    """Return the diff of a night against the rolling baseline before it."""
    after = sides[run_index]
    before = settled(pool(list(sides[run_index - ROLLING_COUNT : run_index])), after, {}, DiffRules())
    return compare_suites(before, after, {}, DiffRules())


def gate_of(diff: SuiteDiff, contestant: str) -> GateResult:
    """Return one of our gates; a size fails the same cases whether the diff was asked for it or not."""
    return gate(diff, parse_fail_on([contestant.partition(", ")[2]]))


def is_red(diff: SuiteDiff, contestant: str) -> bool:
    """Return whether one of our gates fails."""
    return gate_of(diff, contestant).exit_code == EXIT_REGRESSION


def rival_gate(name: str, history: Nights, run_index: int) -> np.ndarray:
    """Return which cases a rival fails against the night before.

    asv also asks the Mann–Whitney test of the pooled samples for p < 0.002; with hundreds of samples a side a step of
    10 % always passes it, so that only its factor is left.
    """
    if name.startswith("pytest-benchmark"):
        return gate_fails(history.logs[run_index - 1, :, 0], history.logs[run_index, :, 0])
    return gate_fails(*np.median(history.logs[run_index - 1 : run_index + 1], axis=2), ASV_FACTOR)


def case_values(history: Nights) -> Floats:
    """Return the value of every case and night, (cases, nights): the mean over the processes without a flag."""
    weights = np.where(history.is_flagged, 1e-9, 1.0)
    values: Floats = np.average(history.logs, axis=2, weights=weights).T
    return values


def raised(name: str, values: Floats) -> list[tuple[int, int]]:
    """Return (night of the alarm, first night of the level) of the slow-downs that a history raises."""
    if name != LEVELS[0]:
        return DETECTORS[name](values, FIRST_NIGHT)
    steps = find_steps(values.tolist(), least=np.log1p(0.01))
    return [
        (step.found_index, step.start_index)
        for step in steps
        if values[step.start_index : step.found_index + 1].mean() > values[: step.start_index].mean()
    ]


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    """Simulate with few rounds; the page has the full tables."""
    series, rounds, power_rounds = (1, 1, 20) if quick else (4, 5, 300)
    nights, cases = (12, 30) if quick else (NIGHTS, CASES)
    figures = []
    for machine in (QUIET, BUSY):
        alarms = false_alarms(machine, series, cases=cases, nights=nights)
        figures.append(
            Figure(
                f"nights with a false alarm, {machine.name} machine",
                alarms.nights[OURS[0]] / alarms.night_count,
                alarms.night_count,
                "share",
                None,
                MOST_GATES,
                GATES[2],
                alarms.nights[GATES[2]] / alarms.night_count,
                f"upper 95 % bound {upper_bound(alarms.nights[OURS[0]], alarms.night_count):.3f}; with a size of 5 %: "
                f"{alarms.nights[OURS[1]]}",
            )
        )
        detected = detection(machine, 0.05, 0.03, rounds, cases=cases)
        aim = 0.95 if machine is QUIET else None
        figures.append(
            Figure(
                f"+5 % of 3 % of the cases found the same night, {machine.name} machine",
                detected.rates[OURS[0]],
                rounds,
                "share",
                aim,
                None,
                GATES[2],
                detected.rates[GATES[2]],
                f"same: {detected.same_ratio:.1%}, ambiguous: {detected.ambiguous_ratio:.1%}",
            )
        )
    unchanged = power_of(0.0125, 0.0, power_rounds)
    figures.append(
        Figure(
            f"unchanged cases that are ambiguous at ±{unchanged.half_width_ratio:.1%}",
            unchanged.ambiguous,
            power_rounds,
            "share",
            None,
            0.2,
        )
    )
    return figures
