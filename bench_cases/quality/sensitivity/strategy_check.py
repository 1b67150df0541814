"""Does the search beat a named strategy: a plan that is faster, and loses no more when it is measured as a whole?

The search's losses are measured one group at a time and added up; that is an approximation, so nothing is believed that
was not measured whole. Candidates are the plans of the front that are faster than the strategy by the same time model.
Strategy and candidates run on the same windows, and a candidate wins only where the whole interval of the paired
difference is below 0, by a margin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from bench_cases.quality.sensitivity.kl import kl_estimate, kl_sums
from bench_cases.quality.texts.estimates import Estimate
from bench_cases.quality.texts.token_windows import TextWindows
from bench_cases.quality.variants import VariantScorer
from bench_cases.quality.whole_plan import plan_of_formats, whole_variant
from roofline_model.models.format_plan import FormatPlan
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.model_plan import strategy_plan
from roofline_model.recommend.search.front import FormatAssignment, pareto_front
from roofline_model.recommend.search.model_problem import ModelProblem, members_of

MARGIN_RATIO = 0.05
"""How far below the strategy's loss a choice must stay, beyond its interval, as a share of that loss. A judgement: a
choice at the very limit of one text is over it on half of all others.
"""
FAITHFUL_COUNT = 6
"""Candidates of least summed loss that are tried before the search gives up."""


@dataclass(frozen=True, slots=True)
class FoundPlan:
    """A plan of the search that was measured as a whole."""

    plan: FormatPlan
    time_s: float
    """Of one pass, kernel by kernel."""
    summed_kl_value: float
    """What the search believed: the sum of the losses of its groups, nats per token."""
    kl: Estimate
    """Measured with everything narrow at once."""
    kl_difference: Estimate
    """Its KL less the strategy's, token by token on the same windows."""


@dataclass(frozen=True, slots=True)
class StrategyCheck:
    """One strategy, and the fastest plan found that loses no more."""

    strategy: str
    time_s: float
    """Of one pass by the time model of the search."""
    kl: Estimate
    """Measured with everything narrow at once, nats per token."""
    candidates_count: int
    """Plans of the front that are faster than the strategy."""
    better_plan: FoundPlan | None
    """None: no faster plan of the front surely loses no more."""

    @property
    def is_beaten(self) -> bool:
        """Whether a strictly faster plan was found whose loss, on the windows that are reported, is equal or lower."""
        return (
            self.better_plan is not None
            and self.better_plan.time_s < self.time_s
            and self.better_plan.kl_difference.value <= 0
        )

    @property
    def speedup_ratio(self) -> float | None:
        """The strategy's time over the found plan's."""
        return None if self.better_plan is None else self.time_s / self.better_plan.time_s


def check_strategies(
    model: nn.Module,
    problem: ModelProblem,
    strategies: Sequence[MixedPrecisionConfig],
    windows: TextWindows,
    *,
    unseen: TextWindows | None = None,
) -> tuple[StrategyCheck, ...]:
    """Return for every strategy the fastest plan of the problem's front that is strictly faster and loses no more.

    The front is halved again and again between a plan that loses too much and one that does not, every plan in the
    middle measured as a whole: about seven runs of the windows for a hundred candidates. problem: of this model, with
    losses from `measured_losses`. unseen: windows on which strategy and choice are then compared, which neither losses
    nor choice have seen; None reports the windows of the choice. Errors as of `measure_strategy` and `strategy_plan`.
    """
    candidates = _fast_or_faithful([_priced(problem, point) for point in pareto_front(problem.problem).points])
    choosing = _WholePlans(model, windows)
    reporting = choosing if unseen is None else _WholePlans(model, unseen)
    checks = []
    for strategy in strategies:
        plan = strategy_plan(strategy, problem.shape)
        time_s = problem.pass_time_s(plan)
        faster = [candidate for candidate in candidates if candidate.time_s < time_s]
        best = _fastest(faster, plan, choosing)
        found_plan = None
        if best is not None:
            kl, difference = reporting.kl(best.plan), reporting.difference(best.plan, plan)
            found_plan = FoundPlan(best.plan, best.time_s, best.summed_kl_value, kl, difference)
        checks.append(StrategyCheck(strategy.name, time_s, reporting.kl(plan), len(faster), found_plan))
    return tuple(checks)


@dataclass(frozen=True, slots=True)
class _Candidate:
    plan: FormatPlan
    time_s: float
    summed_kl_value: float


def _priced(problem: ModelProblem, point: FormatAssignment) -> _Candidate:
    groups = problem.problem.groups
    chosen = {group.name: label for group, label in zip(groups, point.labels, strict=True)}
    plan = problem.plan(members_of(problem.problem, chosen))
    return _Candidate(plan, problem.pass_time_s(plan), point.loss_value)


def _fastest(faster: Sequence[_Candidate], plan: FormatPlan, measured: _WholePlans) -> _Candidate | None:
    """Return the fastest candidate that loses no more than a plan; losses are taken to fall from the first to the last.

    They do so in the sums. Measured, the last may lose more than others near it: up to `FAITHFUL_COUNT` are tried.
    """
    last = len(faster) - 1
    passed = range(last, max(-1, last - FAITHFUL_COUNT), -1)
    high = next((at for at in passed if measured.loses_less(faster[at].plan, plan)), None)
    if high is None:
        return None
    low = 0  # those before `low` lose too much, `high` does not
    while low < high:
        middle = (low + high) // 2
        if measured.loses_less(faster[middle].plan, plan):
            high = middle
        else:
            low = middle + 1
    return faster[high]


class _WholePlans:
    """Plans measured as a whole on some windows, each once."""

    def __init__(self, model: nn.Module, windows: TextWindows) -> None:
        self._model, self._windows = model, windows
        self._scorer = VariantScorer(model, windows)
        self._sums: dict[FormatPlan, list[float]] = {}

    def kl(self, plan: FormatPlan) -> Estimate:
        """Return the plan's KL."""
        return self._mean(self._kl_sums(plan))

    def difference(self, plan: FormatPlan, other: FormatPlan) -> Estimate:
        """Return the plan's KL less another's, paired."""
        return self._mean([a - b for a, b in zip(self._kl_sums(plan), self._kl_sums(other), strict=True)])

    def loses_less(self, plan: FormatPlan, other: FormatPlan) -> bool:
        """Return whether the whole interval of the difference (its value, without one) is below 0 by the margin."""
        estimate = self.difference(plan, other)
        high = estimate.value if estimate.high_value is None else estimate.high_value
        return high <= -MARGIN_RATIO * self.kl(other).value

    def _kl_sums(self, plan: FormatPlan) -> list[float]:
        """Return the KL of every window, summed over its tokens."""
        if plan not in self._sums:
            variant = whole_variant(self._model, plan_of_formats(plan, self._model))
            scores = self._scorer.scores({plan.label: variant})[plan.label]
            self._sums[plan] = kl_sums(scores)
        return self._sums[plan]

    def _mean(self, sums: Sequence[float]) -> Estimate:
        return kl_estimate(sums, self._windows)


def _fast_or_faithful(candidates: list[_Candidate]) -> list[_Candidate]:
    """Return the plans that no other beats in time and summed loss, the fastest (and worst) first; memory does not
    count here.
    """
    front: list[_Candidate] = []
    least = math.inf
    for candidate in sorted(candidates, key=lambda plan: (plan.time_s, plan.summed_kl_value)):
        if candidate.summed_kl_value < least:
            least = candidate.summed_kl_value
            front.append(candidate)
    return front
