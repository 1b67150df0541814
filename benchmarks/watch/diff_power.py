"""Can a diff be trusted? False alarms over pairs of unchanged simulated suites, and how often one slow case in 300 is
found.

The verdicts are those of `results.diff`; beside them, on the same data, pytest-benchmark's
`--benchmark-compare-fail=median:5%` (one process a side) and a plain Mann–Whitney test at 5 % on the samples of all
processes pooled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.timing.rows import Figure
from benchmarks.watch.diff_suites import (
    CASE_COUNT,
    STEADY,
    TWO_STATES,
    Floats,
    median_logs,
    sample_logs,
    stored_logs,
    true_logs,
)
from results.diff.rules import DiffRules
from results.diff.significance.judgement import judge
from results.diff.significance.t_test import Evidence, Samples, evidence, pooled_spread, rank_p_value

PAIR_COUNT, QUICK_PAIR_COUNT = 200, 4
POOLED_PAIR_COUNT = 50
"""Pairs of which the samples are drawn too, for the test that pools them: it is wrong by so much that fifty tell."""
POWER_ROUNDS, QUICK_POWER_ROUNDS = 1000, 8
STEP_ROUNDS = 200
"""Of every step tried, and of cases of two states."""
MOST_FALSE = 0.1
"""False SLOWER per comparison of two suites."""
NIGHTLY, STANDARD, LARGE = 3, 8, 12
"""Processes a side."""
STEPS = tuple(0.02 + 0.005 * number for number in range(13))
"""Tried for the smallest step that is found with 80 %."""
POWER = 0.8
RIVAL_THRESHOLD = 1.05
RIVAL_LEVEL = 0.05
CONFIDENCE = 0.95
RULES = DiffRules()
SENSITIVE = DiffRules(false_discovery_ratio=0.05)
"""`--fdr 0.05`, for suites of many processes: small steps are found, and more alarms are false."""


def measure(folder: Path, *, quick: bool) -> list[Figure]:
    """Simulate; nothing is timed, and what other processes do does not matter."""
    pairs = QUICK_PAIR_COUNT if quick else PAIR_COUNT
    rounds, step_rounds = (QUICK_POWER_ROUNDS, QUICK_POWER_ROUNDS) if quick else (POWER_ROUNDS, STEP_ROUNDS)
    figures = []
    for count in (NIGHTLY, STANDARD, LARGE):
        figures += alarm_figures(unchanged(count, pairs, seed=count), count)
    figures += power_figures(STANDARD, 0.03, 0.95, rounds)
    figures += power_figures(LARGE, 0.02, 0.80, rounds)
    figures += [
        step_figure("3 processes a side, 20 stored", NIGHTLY, NIGHTLY, step_rounds, is_stored=True),
        step_figure("3 processes a side, none stored", NIGHTLY, NIGHTLY, step_rounds, is_stored=False),
        step_figure("3 against a baseline of 15, none stored", 5 * NIGHTLY, NIGHTLY, step_rounds, is_stored=False),
        step_figure("8 processes a side, none stored", STANDARD, STANDARD, step_rounds, is_stored=False),
    ]
    return figures


def slower(
    before: Floats, after: Floats, stored: Floats | None, *, spans_runs: bool = True, rules: DiffRules = RULES
) -> np.ndarray:
    """Return which cases `results.diff` calls SLOWER; arguments as of `verdicts`."""
    called = verdicts(before, after, stored, spans_runs=spans_runs, rules=rules)[1]
    return np.array([verdict == "SLOWER" for verdict in called])


def verdicts(
    before: Floats, after: Floats, stored: Floats | None, *, spans_runs: bool = True, rules: DiffRules = RULES
) -> tuple[Evidence, list[str]]:
    """Return the tests and verdicts of `results.diff`.

    Logarithms of process medians, (cases, processes); `stored`: A/A.
    """
    counts = [np.full(len(before), float(side.shape[1])) for side in (before, after)]
    squares = sum(((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in (before, after))
    samples = Samples(after.mean(axis=1) - before.mean(axis=1), counts[0], counts[1], np.asarray(squares))
    if stored is None:
        spread = pooled_spread(samples, spans_runs=spans_runs)
    else:
        spread = pooled_spread(samples, stored.var(axis=1, ddof=1), stored.shape[1] - 1.0, spans_runs=True)
    judged = evidence(
        samples, spread, min_effect_ratio=rules.min_effect_ratio, false_discovery_ratio=rules.false_discovery_ratio
    )
    called = judge(
        judged,
        false_discovery_ratio=rules.false_discovery_ratio,
        limit_ratio=RULES.limit_ratio,
        ranks=lambda i, is_slower: (
            rank_p_value(before[i], after[i]) if is_slower else rank_p_value(after[i], before[i])
        ),
    )
    return judged, [verdict for verdict, _ in called]


# False alarms --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alarms:
    """False SLOWER of every pair of unchanged suites, by contestant."""

    stored: list[int]
    """With 20 stored A/A processes."""
    alone: list[int]
    """From the two sides only."""
    gate: list[int]
    pooled: list[int]


def unchanged(process_count: int, pair_count: int, seed: int) -> Alarms:
    """Return the false alarms over pairs of identical suites, all contestants on the same samples."""
    rng = np.random.default_rng([20261121, seed])
    alarms = Alarms([], [], [], [])
    for number in range(pair_count):
        stored, truth = stored_logs(rng), [true_logs(rng, process_count) for _ in range(2)]
        if number < POOLED_PAIR_COUNT:
            samples = [sample_logs(rng, side) for side in truth]
            alarms.pooled.append(int(pooled_slower(*samples).sum()))
            before, after = (np.median(side, axis=2) for side in samples)
        else:
            before, after = (median_logs(rng, side) for side in truth)
        alarms.stored.append(int(slower(before, after, stored).sum()))
        alarms.alone.append(int(slower(before, after, None, spans_runs=False).sum()))
        alarms.gate.append(int(gate_fails(before, after).sum()))
    return alarms


def alarm_figures(alarms: Alarms, process_count: int) -> list[Figure]:
    """Return the lines of one number of processes."""
    where, pairs = f"{process_count} processes a side", len(alarms.stored)
    rivals = "pytest-benchmark median:5%"
    suites = np.mean(np.array(alarms.gate) > 0)
    return [
        Figure(
            f"false SLOWER per suite, {where}, 20 stored",
            _mean(alarms.stored),
            pairs,
            "count",
            None,
            MOST_FALSE,
            rivals,
            _mean(alarms.gate),
            f"{sum(alarms.stored)} in {pairs} pairs of {CASE_COUNT} unchanged cases, upper 95 % bound "
            f"{upper_bound(sum(alarms.stored), pairs):.3f}; the rival compares one process a side and fails "
            f"{suites:.0%} of the suites",
        ),
        Figure(
            f"… {where}, none stored",
            _mean(alarms.alone),
            pairs,
            "count",
            rival="Mann–Whitney, samples pooled",
            rival_value=_mean(alarms.pooled),
            note=(
                f"upper 95 % bound {upper_bound(sum(alarms.alone), pairs):.3f}; the rival flags "
                f"{_mean(alarms.pooled) / CASE_COUNT:.0%} of the unchanged cases as slower"
            ),
        ),
    ]


def gate_fails(before: Floats, after: Floats) -> np.ndarray:
    """Return which cases pytest-benchmark's median:5% fails: the first process of each side."""
    return np.exp(after[..., 0] - before[..., 0]) > RIVAL_THRESHOLD


def pooled_slower(before: Floats, after: Floats) -> np.ndarray:
    """Return which cases the two-sided Mann–Whitney test at 5 % calls slower, samples of all processes as one heap.

    Normal form of the test; with 300 samples a side and more it is exact to the third digit. Samples have no ties.
    """
    from scipy.special import ndtri

    before_rows, after_rows = (side.reshape(len(side), -1) for side in (before, after))
    n, m = before_rows.shape[1], after_rows.shape[1]
    order = np.argsort(np.concatenate([before_rows, after_rows], axis=1), axis=1)
    ranks_of_after = np.where(order >= n, np.arange(1, n + m + 1), 0).sum(axis=1)
    u = ranks_of_after - m * (m + 1) / 2
    return (u - n * m / 2) / np.sqrt(n * m * (n + m + 1) / 12) > float(ndtri(1 - RIVAL_LEVEL / 2))


def upper_bound(events: int, rounds: int) -> float:
    """Return the upper 95 % bound of a mean count per round: exact for Poisson counts."""
    from scipy.stats import chi2

    return float(chi2.ppf(CONFIDENCE, 2 * (events + 1))) / 2 / rounds


# Power ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DetectionRates:
    """How often one slow case in the suite was found, as shares."""

    ours: float
    sensitive: float
    """Ours with the rules `SENSITIVE`."""
    gate: float
    pooled: float


def power(
    before_count: int, after_count: int, step: float, rounds: int, *, is_stored: bool, where: slice
) -> DetectionRates:
    """Return how often a step of one case of a kind is found; another case of that kind every round."""
    rng = np.random.default_rng([20261121, before_count, after_count, round(step * 1e6), is_stored, where.start])
    index = np.arange(CASE_COUNT)[where]
    hits = np.zeros(4)
    for number in range(rounds):
        slow = index[number % len(index)]
        stored = stored_logs(rng) if is_stored else None
        truth = [true_logs(rng, count) for count in (before_count, after_count)]
        truth[1][slow] += np.log1p(step)
        before, after = (median_logs(rng, side) for side in truth)
        spans_runs = is_stored or before_count > after_count  # a baseline of several runs
        samples = [sample_logs(rng, side[slow : slow + 1]) for side in truth]
        hits += [
            *(slower(before, after, stored, spans_runs=spans_runs, rules=rules)[slow] for rules in (RULES, SENSITIVE)),
            gate_fails(before[slow], after[slow]),
            pooled_slower(samples[0], samples[1])[0],
        ]
    return DetectionRates(*(float(rate) for rate in hits / rounds))


def power_figures(count: int, step: float, aim: float, rounds: int) -> list[Figure]:
    """Return how often one steady case that got slower by `step` is found, with the rivals; and one of two states."""
    steady = power(count, count, step, rounds, is_stored=True, where=STEADY)
    few = min(rounds, STEP_ROUNDS)
    two_states = power(count, count, step, few, is_stored=True, where=TWO_STATES)
    where = f"{count} processes a side"
    return [
        Figure(
            f"+{step:.0%} of one case found, {where}, 20 stored",
            steady.ours,
            rounds,
            "share",
            None,
            None,
            "pytest-benchmark median:5%",
            steady.gate,
            f"one steady case in {CASE_COUNT}, q = {RULES.false_discovery_ratio:g}; lower 95 % bound "
            f"{lower_bound(steady.ours, rounds):.1%}; Mann–Whitney on pooled samples calls it slower in "
            f"{steady.pooled:.0%}, and the unchanged ones as above",
        ),
        Figure(
            f"… with --fdr {SENSITIVE.false_discovery_ratio:g}",
            steady.sensitive,
            rounds,
            "share",
            aim,
            note=f"lower 95 % bound {lower_bound(steady.sensitive, rounds):.1%}",
        ),
        Figure(
            f"… a case of two states, {where}",
            two_states.ours,
            few,
            "share",
            rival="pytest-benchmark median:5%",
            rival_value=two_states.gate,
        ),
    ]


def step_figure(name: str, before_count: int, after_count: int, rounds: int, *, is_stored: bool) -> Figure:
    """Return the smallest step of one steady case that is found with 80 %, between two steps tried."""

    def ours(step: float) -> float:
        return power(before_count, after_count, step, rounds, is_stored=is_stored, where=STEADY).ours

    smallest, shares = smallest_step(ours)
    tried = ", ".join(f"+{step:.1%}: {share:.0%}" for step, share in shares)
    return Figure(f"smallest step found at 80 %, {name}", smallest, rounds, "share", note=f"found at {tried}")


def smallest_step(share_of: Callable[[float], float]) -> tuple[float, list[tuple[float, float]]]:
    """Return the step found with 80 %, interpolated, and the shares tried; infinite where the largest step is not
    enough.
    """
    shares: list[tuple[float, float]] = []
    for step in STEPS:
        shares.append((step, share_of(step)))
        if shares[-1][1] >= POWER:
            break
    else:
        return float("inf"), shares
    if len(shares) == 1:
        return STEPS[0], shares
    (low, low_share), (high, high_share) = shares[-2:]
    return low + (high - low) * (POWER - low_share) / (high_share - low_share), shares


def lower_bound(share: float, rounds: int) -> float:
    """Return the lower 95 % bound of a share (Clopper–Pearson)."""
    from scipy.stats import beta

    hits = round(share * rounds)
    return float(beta.ppf(1 - CONFIDENCE, hits, rounds - hits + 1)) if hits else 0.0


def _mean(counts: Sequence[int]) -> float:
    return float(np.mean(counts))
