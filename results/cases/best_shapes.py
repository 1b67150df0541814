"""Which of the shapes of a run speak for it: the one that gains most, those of one cache state and mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from results.cases.errors import regime_rank
from results.cases.shape_verdict import ShapeVerdict


def best_overall(results: Iterable[ShapeVerdict]) -> ShapeVerdict | None:
    """Return the shape whose best configuration gains most: by measured speed-up, else predicted, else the first.

    Shapes that somebody wins go before shapes where the baseline stays or nobody competes, of these whose times are not
    in doubt before the others: a disturbed baseline makes the largest gain of all. One cache state and mode is judged:
    see `first_regime`.
    """
    results = first_regime(result for result in results if result.best is not None)
    candidates = (
        [result for result in results if result.is_win]
        or [result for result in results if result.is_contest]
        or results
    )
    candidates = [
        candidate for candidate in candidates if candidate.gain is None or not candidate.gain.is_doubtful
    ] or candidates
    for attribute in ("measured_speedup", "predicted_speedup"):
        with_value = [result for result in candidates if getattr(result, attribute) is not None]
        if with_value:
            return max(with_value, key=lambda result: getattr(result, attribute))
    measured = [result for result in candidates if result.best is not None and result.best.is_measured]
    return next(iter(measured or candidates), None)


def fastest_by_case(results: Iterable[ShapeVerdict]) -> dict[str, ShapeVerdict]:
    """Return the shapes that something competes at by the case key of their fastest configuration; without those whose
    times make no headline.
    """
    contests = (result for result in results if result.is_contest and result.gap is None)
    return {result.best.key: result for result in contests if result.best is not None}


def first_regime(results: Iterable[ShapeVerdict]) -> list[ShapeVerdict]:
    """Return the results of one cache state and mode: of those with a measured best (else of all), the first by
    `regime_rank`.
    """
    results = list(results)
    measured = [result for result in results if result.best is not None and result.best.is_measured]
    ranks = [regime_rank(result.question.cache, result.question.mode) for result in measured or results]
    return [result for result in results if regime_rank(result.question.cache, result.question.mode) == min(ranks)]


_BETTER: tuple[Callable[[ShapeVerdict], bool], ...] = (
    lambda shape: shape.is_contest and shape.baseline is not None,
    lambda shape: shape.best is not None and shape.best.is_measured,
    lambda shape: shape.gap is None,
)
"""What the shapes that are judged have, if any has it."""


def judged_results(results: list[ShapeVerdict]) -> list[ShapeVerdict]:
    """Narrow results with a best configuration to the best evidence there is, never to nothing: contests, measured,
    undisturbed, one regime.
    """
    for is_better in _BETTER:
        results = [result for result in results if is_better(result)] or results
    return first_regime(results)
