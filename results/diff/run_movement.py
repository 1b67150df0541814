"""Common movement of all cases from run to run, estimated where one side holds several runs. Pure.

Processes of one run share what the machine did that night, so their spread cannot show it, and a suite of 300 cases has
300 chances to be caught by it: in simulation with a common movement of 0.25 % (a quarter of the spread between
processes) three processes a night against a pool of five raised 0.3 false SLOWER a night without this term (`python -m
benchmarks rolling_baseline`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, median, variance

from results.cases.pooling import Pooled
from roofline_model.core.grouping import grouped

LEAST_RUNS = 3
"""Runs of a side from which a movement is estimated: two would give one degree of freedom."""


def run_movement_variance(sides: Sequence[Pooled]) -> float:
    """Return the variance of the logarithm of what all cases of a run have in common; 0 where too few runs were pooled.

    `sides`: every case of one side. Per run the median over the cases of (run mean − mean of the case's run means),
    over the cases that the most common set of runs measured; variance over the runs, less what the cases' own spread
    puts into it.
    """
    of_runs = (means for means in map(_run_means, sides) if len(means) >= LEAST_RUNS)
    groups = grouped(of_runs, lambda means: tuple(sorted(means)))
    cases = max(groups.values(), key=len, default=[])
    if not cases:
        return 0.0
    centred = [{run: value - fmean(means.values()) for run, value in means.items()} for means in cases]
    moved = [median(case_means[run] for case_means in centred) for run in centred[0]]
    own_variance = fmean(variance(case_means.values()) for case_means in centred)
    # The median of n normal numbers varies by π/2 of the mean's variance, of one number by all of it.
    own_share = own_variance / len(centred) * (1.5707963 if len(centred) > 2 else 1.0)
    return max(0.0, variance(moved) - own_share)


def change_variance(run_variance: float, before: Iterable[Pooled], after: Iterable[Pooled]) -> list[float]:
    """Return per case the variance that the movement puts into the change: that of the two means over their runs."""
    return [
        run_variance * (1 / max(old.run_count, 1) + 1 / max(new.run_count, 1))
        for old, new in zip(before, after, strict=True)
    ]


def _run_means(side: Pooled) -> dict[str, float]:
    of_run = grouped(side.logs, lambda key: key[0])
    return {run_id: fmean(side.logs[key] for key in keys) for run_id, keys in of_run.items()}
