"""Speed against loss, memory and energy: the configurations of a shape or of a model's phase, and which of them nothing beats.

The front is found by the search's own `undominated` (docs/theory/pareto.md), among points of one kind of evidence: a
predicted time beats no measured one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reports.cases.state import case_energy
from reports.cases.summary import CaseSummary
from reports.ranking.case_ranking import CaseRanking, ShapeRanking
from reports.ranking.losses import StoredLosses, pass_loss
from reports.ranking.model_results import model_title
from reports.stored.answer import StoredRanking, StoredRecommendations
from reports.text.display_text import shown
from reports.text.labels import regime_title
from results.records.records import RunInfo
from results.verdicts.model_results import ModelResult, PassResult, PhaseResult
from roofline_model.core.answer import Loss, Option
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.search.knapsack import undominated

Per = Literal["call", "token"]
Origin = Literal["this run", "all stored runs"]
Y_AXES = ("loss_pct", "memory_bytes", "energy_j")
"""What speed is held against."""


@dataclass(frozen=True, slots=True)
class TradePoint:
    """One configuration. Missing is None, never 0."""

    label: str
    precision: str
    time_source: str
    """measured, expected or ideal."""
    time_s: float
    speedup_ratio: float | None
    """Over the group's baseline, times of the same kind."""
    loss_pct: float | None
    """Rise of perplexity in percent; of a claim its upper end."""
    loss_low_pct: float | None
    loss_high_pct: float | None
    loss_source: str
    """reference, measured, claimed or unknown."""
    loss_text: str
    memory_bytes: float | None
    """Of a product the operands of a call; of a model its weights and cache: as the rankings from stored runs have it."""
    energy_j: float | None
    """Per call of a product, per token of a model; gross."""
    is_best: bool
    is_doubtful: bool
    record_ids: tuple[str, ...] = ()
    speedup_basis: str = ""
    """Where it and the baseline rest on different nights, what the speed-up is of: see `Trust.speedup_basis`."""
    fronts: tuple[str, ...] = ()
    """Of `Y_AXES` those that it is on the front of, with time as the other axis."""
    is_on_front: bool = False
    """Nothing is at least as fast, as close and as small, and better in one; False where loss or memory is not known."""


@dataclass(frozen=True, slots=True)
class TradeGroup:
    """The points of one question."""

    title: str
    origin: Origin
    per: Per
    """What energy is counted per."""
    baseline_label: str
    points: tuple[TradePoint, ...]
    barred: tuple[str, ...] = ()
    """Left out: no kernel is known to run them on the chip."""
    baseline_doubts: tuple[str, ...] = ()
    """What puts the baseline's measured time, and so every measured speed-up of the group, in doubt."""


def trade_groups(
    run: RunInfo,
    models: Iterable[ModelResult],
    recommendations: Iterable[ShapeRanking],
    cases: Iterable[CaseSummary],
    stored: StoredRecommendations | None = None,
    hardware_key: str = "",
) -> tuple[TradeGroup, ...]:
    """Return the groups of one chip with two points or more: a run's models, its shapes, then what all stored runs say of them.

    What stored runs say is left out where it only repeats a group of this run.
    """
    models, energies = tuple(models), _energies(cases)
    qualities = StoredLosses(
        (record for model in models for one in model.passes for record in one.records), {run.run_id: run}
    )
    found = [_of_phase(model, phase, qualities) for model in models for phase in model.phases]
    found += [_of_shape(recommendation, energies) for recommendation in recommendations]
    own = [one for one in found if len(one.points) > 1]
    rankings = () if stored is None else stored.rankings
    of_all = [_of_stored(ranking) for ranking in rankings if ranking.hardware_key == hardware_key]
    groups = [one for one in of_all if len(one.points) > 1 and not any(_is_repeat(one, other) for other in own)]
    return tuple(replace(one, points=with_fronts(one.points)) for one in (*own, *groups))


def _is_repeat(stored: TradeGroup, own: TradeGroup) -> bool:
    """Whether a stored group rests on nothing but the records of a run's own group, and has no other configuration or loss."""
    of_stored, of_own = ({key for point in group.points for key in point.record_ids} for group in (stored, own))
    if not of_stored or not of_stored <= of_own:
        return False
    # A loss may have been measured by another run.
    told, known = (
        {(point.label, point.time_source, point.loss_pct) for point in group.points} for group in (stored, own)
    )
    return told <= known


def on_front(values: Sequence[tuple[float, float, float]]) -> list[bool]:
    """Return for each row of three numbers, less is better, whether no other beats it; equal rows share their place."""
    import numpy as np

    if not values:
        return []
    kept = {values[at] for at in undominated(np.array(values, dtype=float)).tolist()}
    return [value in kept for value in values]


def with_fronts(points: Sequence[TradePoint]) -> tuple[TradePoint, ...]:
    """Return the points with the fronts they are on. Where times were measured, predicted points are on none."""
    competing = [point for point in points if point.time_source == "measured"] or list(points)
    found: dict[int, list[str]] = {}
    for axis in Y_AXES:
        members = [one for one in competing if getattr(one, axis) is not None]
        for one, is_front in zip(
            members, on_front([(member.time_s, getattr(member, axis), 0.0) for member in members]), strict=True
        ):
            if is_front:
                found.setdefault(id(one), []).append(axis)
    whole = [
        (one, (one.time_s, one.loss_pct, one.memory_bytes))
        for one in competing
        if one.loss_pct is not None and one.memory_bytes is not None
    ]
    fronts = on_front([values for _, values in whole])  # type: ignore[misc]  # None was left out
    best = {id(one) for (one, _), is_front in zip(whole, fronts, strict=True) if is_front}
    return tuple(
        replace(point, fronts=tuple(found.get(id(point), ())), is_on_front=id(point) in best) for point in points
    )


def _of_phase(model: ModelResult, phase: PhaseResult, known: StoredLosses) -> TradeGroup:
    best, baseline = phase.of(phase.judged.best), phase.of(phase.judged.baseline)
    points = [
        _pass_point(one, pass_loss(one, known, ()), is_best=phase.judged.is_win and one is best)
        for one in phase.passes
        if one.contender is not None
    ]
    title = f"{model_title(model)}: {phase.phase}"
    doubts = () if baseline is None or baseline.contender is None else baseline.contender.doubts
    name = shown(baseline.label, 80) if baseline else ""
    return TradeGroup(title, "this run", "token", name, tuple(points), baseline_doubts=doubts)


def _pass_point(one: PassResult, loss: Loss, *, is_best: bool) -> TradePoint:
    contender, figures = one.contender, one.figures
    assert contender is not None  # the caller keeps no others
    known = (
        ("measured", one.measured_s, one.measured_speedup),
        ("expected", contender.expected_s, one.expected_speedup),
        ("ideal", contender.ideal_s, one.ideal_speedup),
    )
    source, time_s, speedup = next(them for them in known if them[1] is not None)
    is_measured = loss.source == "measured"
    return TradePoint(
        label=shown(one.label, 80),
        precision=shown(one.label, 80),
        time_source=source,
        time_s=time_s or math.nan,
        speedup_ratio=1.0 if one.is_baseline else speedup,
        loss_pct=loss.pct,
        loss_low_pct=loss.low_pct if is_measured else None,
        loss_high_pct=loss.high_pct if is_measured else None,
        loss_source=loss.source,
        loss_text=shown(loss_text(loss), 160),
        memory_bytes=figures.whole_bytes,
        energy_j=figures.energy_j_per_token,
        is_best=is_best,
        is_doubtful=one.is_doubtful,
        record_ids=tuple(record.record_id for record in one.records),
    )


def _of_shape(ranking: ShapeRanking, energies: Mapping[str, float]) -> TradeGroup:
    regime = regime_title(ranking.cache, ranking.mode)
    title = f"{ranking.op} {ranking.shape_label}" + (f", {regime}" if regime else "")
    title += f": {ranking.phase}" if ranking.phase else ""
    first = next((option.key for option in ranking.options if option.is_measured), "")
    points = tuple(
        _option_point(option, energies.get(option.key), is_best=option.key == first) for option in ranking.runnable
    )
    return _group(ranking, title, "this run", "call", points)


def _of_stored(ranking: StoredRanking) -> TradeGroup:
    points = tuple(_option_point(option, None, is_best=ranking.rank_of(option) == 1) for option in ranking.runnable)
    return _group(ranking, ranking.title, "all stored runs", "token" if ranking.subject == "model" else "call", points)


def _group(ranking: CaseRanking, title: str, origin: Origin, per: Per, points: tuple[TradePoint, ...]) -> TradeGroup:
    barred = tuple(option.label for option in ranking.barred)
    return TradeGroup(title, origin, per, ranking.baseline_label, points, barred, ranking.baseline_doubts)


def _option_point(option: Option, energy_j: float | None, *, is_best: bool) -> TradePoint:
    estimate, loss, trust, memory = option.estimate, option.loss, option.trust, option.memory
    return TradePoint(
        label=option.label,
        precision=option.precision,
        time_source=estimate.source,
        time_s=estimate.time_s,
        speedup_ratio=option.speedup_ratio,
        loss_pct=loss.pct,
        loss_low_pct=None,
        loss_high_pct=None,
        loss_source=loss.source,
        loss_text=loss_text(loss),
        memory_bytes=None if memory is None else memory.total_bytes,
        energy_j=energy_j,
        is_best=is_best,
        is_doubtful=bool(trust.doubts or trust.stale_reason),
        record_ids=option.record_ids,
        speedup_basis=trust.speedup_basis,
    )


def _energies(cases: Iterable[CaseSummary]) -> dict[str, float]:
    found = ((case.lead.case_key, case_energy(case)) for case in cases)
    return {key: energy.energy_j for key, energy in found if energy is not None}
