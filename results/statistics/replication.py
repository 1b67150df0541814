"""The second interval of a case: how far the time moves from process to process, not only from sample to sample.

`interval_within` (`Measurement.ci_low_s`, `.ci_high_s`) knows one process; it stops the sampling. Two processes of
unchanged code differ by more (memory layout, where threads landed, what the machine does meanwhile), and no number of
samples in one process shows it. Here the process median is the unit, and the interval is of the mean over processes.

**What `interval_total` covers.** Two back-to-back runs A and B of unchanged code, with equally many processes each,
agree for 95 % of the cases, agreeing meaning |ln A − ln B| ≤ √(hA² + hB²) with h half the interval on the logarithmic
scale (`agree`). For a run alone this reads: with 95 % the mean that very many fresh processes would give on this
machine about now. In simulation without slow movement 92–98.5 % agree; 90 % in the worst case (two processes of cases
that come in two states), up to 99.5 % in runs of one or two cases. It is no statement about another day: an interval
knows the part of a slow drift that its own processes were spread over, and a stored floor knows the part that the
floor's processes were spread over.

**How.** y is the logarithm of a process median; the estimate is the mean of y over the processes. Variance of y between
processes, per case; joined with the stored A/A floor of that case, which is raised to today's noise but never lowered;
drawn towards the other cases of the run (`shrinkage`), by less when all cases move together, because they are then
fewer observations than they look. Half width = t(97.5 %, df) · s / √n · 1.1 (`LATER`), the own part of df counted 1.5
times (`OTHER_RUN`). Never narrower than the sampling error inside the processes.

**Why the mean of logarithms and not the median of the process medians.** Processes often come in two states (a case ran
18 % slower in four processes of ten on a two-core machine): the median of three then jumps between the states and runs
of unchanged code agree for 84 % of the cases only; the mean agrees for 92–98 % with normal, heavy-tailed, skewed and
two-state noise alike (tests/results/statistics/test_replication.py). The price is that one disturbed process moves it:
its interval is then wide, and the disturbed measurement carries its flag.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from results.records.state_records import NoiseFloor
from results.statistics.shared_movement import deviations_of, effective_cases, shared_ratio
from results.statistics.shrinkage import Variance, VariancePrior, fit_prior, log_ratio, t_quantile

if TYPE_CHECKING:
    from results.cases.pooling import Pooled

Basis = Literal["processes", "floor", "one process"]
FloorKey = tuple[str, str]
"""(case_key, method_hash)"""

CONFIDENCE = 0.95
OTHER_RUN = 0.5
"""Share of its own degrees of freedom that a run is credited with for the run it is compared with: those of a
difference of two runs (Welch–Satterthwaite) are (a + b)² / (a² + b²) times a run's own, a and b being the two estimated
variances. On average √2 with two processes, π/2 with three, towards 2 with many: 1.5.
"""
LATER = 1.1
"""A run differs from the next one by more than its processes differ from each other: those follow each other, and a
machine also moves more slowly, which no run can see of itself. On a two-core virtual machine (20 runs of 36 cases back
to back, 3 processes each) 10.2 % of neighbouring runs disagreed at a factor of 1 where 5 % are stated. Chosen on those
runs and then checked on 20 new ones: 4.4 %. Without slow movement it is 10 % wider than need be. One machine; a
judgement, not a law.
"""
_LEAST_REPLICATED = 3
"""Cases with several processes that a run needs before their spread is lent to a case that has one process."""


@dataclass(frozen=True, slots=True)
class TotalInterval:
    """The time of a case over processes, and the interval that knows how processes differ."""

    estimate_s: float
    """Geometric mean of the process medians."""
    low_s: float | None
    """Lower end, seconds; None with `one process`: its own samples cannot say how far the next process would be."""
    high_s: float | None
    """Upper end, seconds."""
    process_count: int
    basis: Basis
    """processes: from the spread between this run's processes (and the floor, where one is stored); floor: one process,
    the spread is the machine's stored A/A floor; one process: nothing is known."""
    between_sd_ratio: float | None
    """Standard deviation of the logarithm of one process median, as used; None with `one process`."""

    @property
    def half_width_log(self) -> float | None:
        """Half the interval on the logarithmic scale: the h of `agree`."""
        if self.low_s is None or self.high_s is None:
            return None
        return math.log(self.high_s / self.low_s) / 2

    @property
    def half_width_ratio(self) -> float | None:
        """Half the interval over the estimate: the ± of a table."""
        if self.low_s is None or self.high_s is None:
            return None
        return (self.high_s - self.low_s) / 2 / self.estimate_s


def intervals(
    pools: Sequence[tuple[FloorKey, Pooled]],
    floors: Mapping[FloorKey, NoiseFloor] | None = None,
    *,
    learnt_from: Sequence[tuple[FloorKey, Pooled]] | None = None,
) -> list[TotalInterval]:
    """Return the interval of every case, in their order.

    `pools`: the cases of one run (of one machine). `floors`: this machine's, as `store.noise_floors(class_hash)`
    returns them; one taken by another method is not looked at. `learnt_from`: the run that the spread of other cases is
    learnt from, where `pools` are some of its cases, or of several runs; None: from `pools`.
    """
    cases = [_Replicates.of(*pooled) for pooled in pools]
    run = cases if learnt_from is None else [_Replicates.of(*pooled) for pooled in learnt_from]
    usable_floors = _usable_floors([*cases, *run], floors or {})
    is_known = usable_floors or any(case.count > 1 for case in (*cases, *run))
    noise = _Noise.of(run, usable_floors) if is_known else None
    return [case.interval(noise) for case in cases]


def agree(interval: TotalInterval, other: TotalInterval) -> bool | None:
    """Return whether two runs of a case differ by no more than their intervals; None where one has no interval."""
    if interval.half_width_log is None or other.half_width_log is None:
        return None
    return abs(math.log(interval.estimate_s / other.estimate_s)) <= math.hypot(
        interval.half_width_log, other.half_width_log
    )


def width_text(half_width_ratio: float) -> str:
    """Print half an interval as the ± of a table does: `1.2 %`, `140 %`, `>999 %`; beyond that only its size is
    known.
    """
    if half_width_ratio >= 9.995:
        return ">999 %"
    return f"{half_width_ratio * 100:.{1 if half_width_ratio < 0.995 else 0}f} %"


@dataclass(frozen=True, slots=True)
class _Replicates:
    """One case: what its processes found."""

    key: FloorKey
    pooled: Pooled
    own_variance: Variance | None
    """The variance between these processes; None with one."""

    @classmethod
    def of(cls, key: FloorKey, pooled: Pooled) -> _Replicates:
        df = len(pooled.logs) - 1
        return cls(key, pooled, Variance(pooled.squares / df, df) if df else None)

    @property
    def count(self) -> int:
        return len(self.pooled.logs)

    def interval(self, noise: _Noise | None) -> TotalInterval:
        between = noise.of_case(self) if noise is not None else None
        if between is None or noise is None:
            return TotalInterval(self.pooled.value, None, None, self.count, "one process", None)
        sd = math.sqrt(max(between.value, self.pooled.sampling_variance))
        half = (
            t_quantile((1 + CONFIDENCE) / 2, between.df + OTHER_RUN * (self.count - 1))
            * sd
            / math.sqrt(self.count)
            * LATER
        )
        factor = math.exp(min(half, 300.0))  # exp() of more is not a number
        value = self.pooled.value
        return TotalInterval(value, value / factor, value * factor, self.count, noise.basis_of(self), sd)


@dataclass(frozen=True, slots=True)
class _Noise:
    """Spread between processes: per case, and pooled."""

    floors: Mapping[FloorKey, Variance]
    """Stored A/A variances, raised to the noise of this run."""
    prior: VariancePrior | None
    population_df: float
    """Mean degrees of freedom of the variances that the prior was fitted to."""
    effective_count: float
    """How many independent cases the population is worth."""
    is_replicated: bool
    """Whether enough cases of the run itself have several processes to lend their spread."""

    @classmethod
    def of(cls, cases: Sequence[_Replicates], floors: Mapping[FloorKey, Variance]) -> _Noise:
        raised = _raised_to_today(cases, floors)
        variances = {case.key: case.own_variance for case in cases}
        joined = [_joined(variances.get(key), raised.get(key)) for key in {**variances, **raised}]
        population = [variance for variance in joined if variance is not None]
        count = len(population)
        # Cases that move together are fewer than they look.
        shared = shared_ratio(deviations_of(case.pooled) for case in cases)
        return cls(
            floors=raised,
            prior=fit_prior(population) if count > 1 else None,
            population_df=fmean(variance.df for variance in population) if population else 0.0,
            effective_count=effective_cases(count, shared),
            is_replicated=sum(variance is not None for variance in variances.values()) >= _LEAST_REPLICATED,
        )

    def of_case(self, case: _Replicates) -> Variance | None:
        """Return the variance between processes of a case, own knowledge and common knowledge joined; None for
        neither.
        """
        variance = _joined(case.own_variance, self.floors.get(case.key))
        if variance is not None:
            # The prior is worth no more than the other cases it comes from.
            prior = self.prior.capped(self.population_df * (self.effective_count - 1)) if self.prior else None
            return variance.drawn_to(prior)
        if self.prior is None or not (self.floors or self.is_replicated):
            return None
        from_prior = self.prior.capped(self.population_df * self.effective_count)
        return Variance(from_prior.scale, from_prior.df) if from_prior.df > 0 else None

    def basis_of(self, case: _Replicates) -> Basis:
        return "processes" if case.count > 1 or self.is_replicated else "floor"


def _usable_floors(cases: Sequence[_Replicates], floors: Mapping[FloorKey, NoiseFloor]) -> dict[FloorKey, Variance]:
    """Return the floors taken by a method of this run: those of its cases, and of others for what cases have in
    common.
    """
    methods = {case.key[1] for case in cases}
    return {
        key: Variance(floor.between_sd_ratio**2, floor.process_count - 1)
        for key, floor in floors.items()
        if key[1] in methods and floor.process_count > 1 and math.isfinite(floor.between_sd_ratio)
    }


def _raised_to_today(cases: Sequence[_Replicates], floors: Mapping[FloorKey, Variance]) -> dict[FloorKey, Variance]:
    """Return the floors times how much noisier the run is than they say, over the cases that have both.

    Never lowered: a floor saw more of a slow drift than a short run does.
    """
    pairs = [
        (case.own_variance, floors[case.key]) for case in cases if case.own_variance is not None and case.key in floors
    ]
    factor = math.exp(max(0.0, log_ratio(pairs) or 0.0))
    return {key: Variance(floor.value * factor, floor.df) for key, floor in floors.items()}


def _joined(variance: Variance | None, floor: Variance | None) -> Variance | None:
    if variance is None or floor is None:
        return variance or floor
    df = variance.df + floor.df
    return Variance((variance.df * variance.value + floor.df * floor.value) / df, df)
