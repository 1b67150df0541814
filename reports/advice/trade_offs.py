"""Speed against loss, memory and energy: the configurations of a shape or of a model's phase, and which of them nothing
beats.

The front is found by the search's own `undominated` (docs/theory/pareto.md), among points of one kind of evidence: a
predicted time beats no measured one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from reports.present.display_text import regime_title, shown
from reports.present.models import model_title
from reports.present.words.ranking_text import speedup_basis_text
from results.cases.case_result import CaseResult
from results.cases.gain import doubts_to_mend
from results.cases.losses import StoredLosses, pass_loss
from results.cases.model_results import ModelResult, PassResult, PhaseResult
from results.rankings import StoredRanking, StoredRecommendations
from results.records.records import RunInfo
from roofline_model.core.answer import Option, Ranking
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.search.front import undominated

Per = Literal["call", "token"]
Origin = Literal["this run", "all stored runs"]
Y_AXES = ("loss_pct", "memory_bytes", "energy_j")
"""What speed is held against."""


@dataclass(frozen=True, slots=True)
class PlottedOption:
    """An option as a point of the figure: its coordinates, and the fronts it is on. Missing is None, never 0."""

    option: Option
    """Its energy is per call of a product, per token of a model; gross."""
    is_best: bool
    fronts: tuple[str, ...] = ()
    """Of `Y_AXES` those that it is on the front of, with time as the other axis."""
    is_on_front: bool = False
    """Nothing is at least as fast, as close and as small, and better in one; False where loss or memory is not
    known.
    """

    JSON_KEYS: ClassVar = {
        "label": "label",
        "precision": "option.precision",
        "time_source": "option.estimate.source",
        "time_s": "option.estimate.time_s",
        "speedup_ratio": "option.speedup_ratio",
        "loss_pct": "option.loss.pct",
        "loss_low_pct": "loss_low_pct",
        "loss_high_pct": "loss_high_pct",
        "loss_source": "option.loss.source",
        "loss_text": "loss_text",
        "memory_bytes": "option.memory.total_bytes",
        "energy_j": "option.energy_j",
        "is_best": "is_best",
        "is_doubtful": "is_doubtful",
        "record_ids": "option.record_ids",
        "speedup_basis": "speedup_basis",
        "fronts": "fronts",
        "is_on_front": "is_on_front",
    }

    @property
    def label(self) -> str:
        """What people call it."""
        return shown(self.option.label, 120)

    @property
    def speedup_basis(self) -> str:
        """Where it and the baseline rest on different nights, what the speed-up is of: see `speedup_basis_text`."""
        return speedup_basis_text(self.option.trust)

    @property
    def loss_low_pct(self) -> float | None:
        """Lower end of the interval of a measured loss, percent."""
        return self.option.loss.low_pct if self.option.loss.source == "measured" else None

    @property
    def loss_high_pct(self) -> float | None:
        """Upper end of the interval of a measured loss, percent."""
        return self.option.loss.high_pct if self.option.loss.source == "measured" else None

    @property
    def loss_text(self) -> str:
        """Its loss in words, fit to be shown."""
        return shown(loss_text(self.option.loss), 160)

    @property
    def is_doubtful(self) -> bool:
        """Whether its time is in doubt, or of another state of the machine."""
        return bool(self.option.trust.doubts or self.option.trust.stale)


@dataclass(frozen=True, slots=True)
class TradeGroup:
    """The points of one question."""

    title: str
    origin: Origin
    per: Per
    """What energy is counted per."""
    baseline_label: str
    points: tuple[PlottedOption, ...]
    barred: tuple[str, ...] = ()
    """Left out: no kernel is known to run them on the chip."""
    baseline_doubts: tuple[str, ...] = ()
    """What puts the baseline's measured time, and so every measured speed-up of the group, in doubt."""


def trade_groups(
    run: RunInfo,
    models: Iterable[ModelResult],
    recommendations: Iterable[Ranking],
    cases: Iterable[CaseResult],
    stored: StoredRecommendations | None = None,
    hardware_key: str = "",
) -> tuple[TradeGroup, ...]:
    """Return the groups of one chip with two points or more: a run's models, its shapes, then what all stored runs say
    of them.

    What stored runs say is left out where it only repeats a group of this run.
    """
    models, energies = tuple(models), _energies(cases)
    qualities = StoredLosses(
        (record for model in models for model_pass in model.passes for record in model_pass.records), {run.run_id: run}
    )
    of_run = [_of_phase(model, phase, qualities) for model in models for phase in model.phases]
    of_run += [_of_shape(recommendation, energies) for recommendation in recommendations]
    contests = [group for group in of_run if len(group.points) > 1]
    rankings = () if stored is None else stored.rankings
    of_all = [_of_stored(ranking) for ranking in rankings if ranking.question.hardware == hardware_key]
    groups = [
        group for group in of_all if len(group.points) > 1 and not any(_is_repeat(group, other) for other in contests)
    ]
    return tuple(replace(group, points=with_fronts(group.points)) for group in (*contests, *groups))


def coordinate(point: PlottedOption, axis: str) -> float | None:
    """Return the number of a point on an axis, named by its key in JSON; of a product memory is the operands of a call,
    of a model its weights and cache.
    """
    option = point.option
    match axis:
        case "time_s":
            return option.estimate.time_s
        case "loss_pct":
            return option.loss.pct
        case "memory_bytes":
            return None if option.memory is None else option.memory.total_bytes
        case "energy_j":
            return option.energy_j
        case _:
            return option.speedup_ratio


def _is_repeat(stored: TradeGroup, run_group: TradeGroup) -> bool:
    """Whether a stored group rests on nothing but the records of a run's own group, and has no other configuration or
    loss.
    """
    of_stored, of_own = (
        {key for point in group.points for key in point.option.record_ids} for group in (stored, run_group)
    )
    if not of_stored or not of_stored <= of_own:
        return False
    # A loss may have been measured by another run.
    stored_figures, own_figures = (
        {(point.label, point.option.estimate.source, point.option.loss.pct) for point in group.points}
        for group in (stored, run_group)
    )
    return stored_figures <= own_figures


def on_front(values: Sequence[tuple[float, float, float]]) -> list[bool]:
    """Return for each row of three numbers, less is better, whether no other beats it; equal rows share their place."""
    import numpy as np

    if not values:
        return []
    front_values = {values[at] for at in undominated(np.array(values, dtype=float)).tolist()}
    return [value in front_values for value in values]


def with_fronts(points: Sequence[PlottedOption]) -> tuple[PlottedOption, ...]:
    """Return the points with the fronts they are on. Where times were measured, predicted points are on none."""
    competing = [point for point in points if point.option.is_measured] or list(points)
    axes_by_point: dict[int, list[str]] = {}
    for axis in Y_AXES:
        members = [point for point in competing if coordinate(point, axis) is not None]
        for plotted, is_front in zip(
            members,
            on_front([(each.option.estimate.time_s, coordinate(each, axis) or 0.0, 0.0) for each in members]),
            strict=True,
        ):
            if is_front:
                axes_by_point.setdefault(id(plotted), []).append(axis)
    whole = [
        (point, (point.option.estimate.time_s, loss_pct, memory_bytes))
        for point in competing
        if (loss_pct := coordinate(point, "loss_pct")) is not None
        and (memory_bytes := coordinate(point, "memory_bytes")) is not None
    ]
    fronts = on_front([values for _, values in whole])
    best = {id(point) for (point, _), is_front in zip(whole, fronts, strict=True) if is_front}
    return tuple(
        replace(point, fronts=tuple(axes_by_point.get(id(point), ())), is_on_front=id(point) in best)
        for point in points
    )


def _of_phase(model: ModelResult, phase: PhaseResult, losses: StoredLosses) -> TradeGroup:
    best, baseline = phase.of(phase.judged.best), phase.of(phase.judged.baseline)
    points = tuple(
        PlottedOption(_pass_option(each, each.option, losses), is_best=phase.judged.is_win and each is best)
        for each in phase.passes
        if each.option is not None
    )
    title = f"{model_title(model)}: {phase.phase}"
    doubts = () if phase.judged.baseline is None else phase.judged.baseline.trust.doubts
    name = shown(baseline.label, 80) if baseline else ""
    return TradeGroup(title, "this run", "token", name, points, baseline_doubts=doubts)


def _pass_option(result: PassResult, pooled: Option, losses: StoredLosses) -> Option:
    """Return the option of a pass with its name, loss and energy per token, fit to be shown."""
    label = shown(result.label, 80)
    return replace(
        pooled,
        label=label,
        precision=label,
        loss=pass_loss(result, losses, ()),
        energy_j=result.figures.energy_j_per_token,
    )


def _of_shape(ranking: Ranking, energies: Mapping[str, float]) -> TradeGroup:
    regime = regime_title(ranking.question.cache, ranking.question.mode)
    title = ranking.question.name + (f", {regime}" if regime else "")
    title += f": {ranking.question.phase}" if ranking.question.phase else ""
    first = next((option.key for option in ranking.options if option.is_measured), "")
    points = tuple(
        PlottedOption(replace(option, energy_j=energies.get(option.key)), is_best=option.key == first)
        for option in ranking.runnable
    )
    return _group(ranking, title, "this run", "call", points)


def _of_stored(ranking: StoredRanking) -> TradeGroup:
    points = tuple(PlottedOption(option, is_best=ranking.rank_of(option) == 1) for option in ranking.runnable)
    return _group(
        ranking,
        ranking.question.name,
        "all stored runs",
        "token" if ranking.question.subject == "model" else "call",
        points,
    )


def _group(ranking: Ranking, title: str, origin: Origin, per: Per, points: tuple[PlottedOption, ...]) -> TradeGroup:
    barred = tuple(option.label for option in ranking.barred)
    return TradeGroup(title, origin, per, ranking.baseline_label, points, barred, doubts_to_mend(ranking.baseline))


def _energies(cases: Iterable[CaseResult]) -> dict[str, float]:
    energies = ((case.case_key, case.energy) for case in cases)
    return {key: energy.energy_j for key, energy in energies if energy is not None}
