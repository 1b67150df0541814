"""Nights against a rolling baseline: false alarms, and for how long a step stays red; with and without
`results.diff.rolling.settled`.

The suites are those of `diff_power`, three processes a night, five nights in the pool; besides, every night moves all
cases of its run together by a little, as machines do.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.timing.rows import Figure, Row
from benchmarks.watch.diff_power import upper_bound
from benchmarks.watch.diff_suites import BETWEEN_SD, STEADY, Floats, median_logs, true_logs
from results.diff.baseline import ROLLING_COUNT
from results.diff.rolling import settled
from results.diff.rules import DiffRules
from results.diff.suites import SuiteSide, compare_suites
from results.records.records import EnvironmentInfo, Measurement, Method, ProcessInfo, Record, RunInfo
from roofline_model.operators.case import Case

NIGHT_COUNT, QUICK_NIGHT_COUNT = 105, 7
"""Flat nights in a row; each from the sixth on is compared with the five before it."""
STEP_ROUNDS, QUICK_STEP_ROUNDS = 20, 1
STEP = 0.10
"""Of one steady case, from the sixth night on: two and a half times what three processes a night see."""
PROCESSES = 3
RUN_SD = BETWEEN_SD / 4
MOST_FALSE = 0.1
METHOD = Method("monotonic", "2", {})
ENVIRONMENT = EnvironmentInfo({}, {})
RULES = DiffRules()


def measure(folder: Path, *, quick: bool) -> list[Row | Figure]:
    """Simulate; the last line is a time, all others are counts."""
    flat = NightSeries(seed=1)
    sides = [flat.side() for _ in range(QUICK_NIGHT_COUNT if quick else NIGHT_COUNT)]
    pooled, rolling, times = [], [], []
    for last in range(ROLLING_COUNT, len(sides)):
        before, after = pool(sides[last - ROLLING_COUNT : last]), sides[last]
        pooled.append(slower_count(before, after))
        began = time.perf_counter()
        left = settled(before, after, {}, RULES)
        times.append(time.perf_counter() - began)
        rolling.append(slower_count(left, after))
    rounds = QUICK_STEP_ROUNDS if quick else STEP_ROUNDS
    red = np.array([red_nights(seed) for seed in range(rounds)], dtype=float)
    nights = len(rolling)
    return [
        Figure(
            "false SLOWER a night, 3 processes, rolling baseline",
            float(np.mean(rolling)),
            nights,
            "count",
            None,
            MOST_FALSE,
            "all five nights pooled",
            float(np.mean(pooled)),
            f"{sum(rolling)} in {nights} unchanged nights of {len(flat.cases)} cases, upper 95 % bound "
            f"{upper_bound(sum(rolling), nights):.3f}",
        ),
        Figure(
            f"nights of five on which a lasting +{STEP:.0%} is SLOWER",
            float(red[:, 0].mean()),
            rounds,
            "count",
            4.0,
            None,
            "all five nights pooled",
            float(red[:, 1].mean()),
            "afterwards the whole pool is that slow",
        ),
        Row("finding the level of 300 cases in five nights", float(np.median(times)), nights),
    ]


class NightSeries:
    """Runs one after the other: records of `true_logs`, with a movement of the whole machine from run to run."""

    def __init__(self, seed: int, case_count: int | None = None) -> None:
        self.rng = np.random.default_rng([20261122, seed])
        count = len(true_logs(self.rng, 1)) if case_count is None else case_count
        self.cases = [Case("gemv", (("M", 1), ("N", 64), ("K", 64 + number)), (), "matmul") for number in range(count)]
        self.count = 0

    def side(self, steps: dict[int, float] | None = None) -> SuiteSide:
        """Return the next run; `steps`: index of a case → change of its logarithm."""
        logs = median_logs(self.rng, true_logs(self.rng, PROCESSES)) + RUN_SD * self.rng.standard_normal()
        for index, step in (steps or {}).items():
            logs[index] += step
        return self.side_of(logs)

    def side_of(self, logs: Floats, is_flagged: np.ndarray | None = None) -> SuiteSide:
        """Return a run of given logarithms (cases, processes), those that are flagged as stolen."""
        self.count += 1
        day = np.datetime64("2026-01-01") + self.count
        run = RunInfo(
            run_id=f"{self.count:032x}",
            started_at=f"{day}T01:00:00.000000+00:00",
            status="complete",
            environment=ENVIRONMENT,
        )
        flagged = np.zeros(logs.shape, dtype=bool) if is_flagged is None else is_flagged
        return SuiteSide((run,), tuple(self._records(run, logs, flagged)))

    def _records(self, run: RunInfo, logs: Floats, is_flagged: np.ndarray) -> list[Record]:
        records = []
        for (case, process), log in np.ndenumerate(logs):
            median_s = 1e-3 * math.exp(float(log))
            measured = Measurement(
                samples_s=(),
                calls_per_sample=1,
                median_s=median_s,
                min_s=median_s,
                max_s=median_s,
                mean_s=median_s,
                std_s=0.0,
                q1_s=median_s,
                q3_s=median_s,
                sample_count=100,
                ci_low_s=median_s * 0.999,
                ci_high_s=median_s * 1.001,
                stop_reason="converged",
                flags=("stolen",) if is_flagged[case, process] else (),
            )
            records.append(
                Record(
                    record_id=f"{self.count}-{case}-{process}",
                    run_id=run.run_id,
                    case=self.cases[case],
                    status="measured",
                    process=ProcessInfo(process, 1, "here", run.started_at),
                    method=METHOD,
                    measurement=measured,
                )
            )
        return records


def pool(sides: list[SuiteSide]) -> SuiteSide:
    """Return several nights as one side."""
    return SuiteSide(
        tuple(run for side in sides for run in side.runs), tuple(record for side in sides for record in side.records)
    )


def slower_count(before: SuiteSide, after: SuiteSide) -> int:
    """Return how many cases are called SLOWER."""
    return len(compare_suites(before, after, {}, RULES).of("SLOWER"))


def red_nights(seed: int) -> tuple[int, int]:
    """Return on how many of five nights after a step its case is SLOWER, with the level found first and with the plain
    pool.
    """
    series = NightSeries(1000 + seed)
    index = STEADY.start + seed
    sides = [series.side() for _ in range(ROLLING_COUNT)]
    counts = [0, 0]
    for _ in range(ROLLING_COUNT):
        after = series.side({index: math.log1p(STEP)})
        before = pool(sides[-ROLLING_COUNT:])
        for number, side in enumerate((settled(before, after, {}, RULES), before)):
            slow = compare_suites(side, after, {}, RULES).of("SLOWER")
            counts[number] += any(change.case == series.cases[index] for change in slow)
        sides.append(replace(after, set_aside={}))
    return counts[0], counts[1]
