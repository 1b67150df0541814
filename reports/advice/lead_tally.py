"""Which configuration leads most shapes: the best, or level with the best, so that noise between two leaders decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports.cases.rows import case_label
from reports.ranking.shape_results import ShapeResult
from results.records.flags import DOUBTFUL_FLAGS
from results.verdicts.shape_verdict import Contender, are_level, expected_speedup, speedups


@dataclass(frozen=True, slots=True)
class LedShape:
    """One configuration at a shape where it leads."""

    result: ShapeResult
    one: Contender

    @property
    def speedups(self) -> tuple[float | None, float | None, float | None]:
        """(ideal, expected, measured) over the shape's baseline; None where a time is missing."""
        baseline = self.result.baseline
        predicted, measured = speedups(self.one, baseline)
        return predicted, expected_speedup(self.one, baseline), measured

    @property
    def gain(self) -> float:
        """The best known of its speed-ups: measured, else expected, else ideal; 0 without any."""
        predicted, expected, measured = self.speedups
        return measured or expected or predicted or 0.0

    @property
    def doubts(self) -> tuple[str, ...]:
        """Flags that put its comparison with the baseline in doubt."""
        if self.one is self.result.best:
            return self.result.judged.doubts
        baseline = self.result.baseline
        flags = self.one.flags | (baseline.flags if baseline else frozenset())
        return tuple(sorted(DOUBTFUL_FLAGS & flags))


@dataclass(frozen=True, slots=True)
class Lead:
    """A configuration and the shapes it leads."""

    label: str
    shapes: tuple[LedShape, ...]

    @property
    def level(self) -> dict[str, int]:
        """Label of another leader → at how many of these shapes; the most frequent first."""
        found: dict[str, int] = {}
        for place in self.shapes:
            for other in _winners(place.result):
                if other is not place.one:
                    label = case_label(other.case)
                    found[label] = found.get(label, 0) + 1
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def level_count(self) -> int:
        """At how many of these shapes it is not alone."""
        return sum(len(_winners(place.result)) > 1 for place in self.shapes)


def leads(results: Iterable[ShapeResult]) -> list[Lead]:
    """Return who leads most of the shapes that something wins, then who leads most of the others, and so on.

    Only what is the best at one shape at least can lead. As many shapes: the one that is the best at more of them, then the
    one that gains most.
    """
    left = [result for result in results if result.is_win and result.best is not None]
    found: list[Lead] = []
    while left:
        lead = min(_candidates(left), key=_place)
        found.append(lead)
        led = {id(place.result) for place in lead.shapes}
        left = [one for one in left if id(one) not in led]
    return found


def _candidates(results: list[ShapeResult]) -> list[Lead]:
    labels = dict.fromkeys(case_label(one.best.case) for one in results if one.best is not None)
    places: dict[str, list[LedShape]] = {label: [] for label in labels}
    for result in results:
        for label, one in {case_label(winner.case): winner for winner in reversed(_winners(result))}.items():
            if label in places:
                places[label].append(LedShape(result, one))
    return [Lead(label, tuple(members)) for label, members in places.items()]


def _place(lead: Lead) -> tuple[int, int, float, str]:
    first_count = sum(place.one is place.result.best for place in lead.shapes)
    return -len(lead.shapes), -first_count, -max(place.gain for place in lead.shapes), lead.label


def _winners(result: ShapeResult) -> tuple[Contender, ...]:
    """Return the leaders that win, too: what is level with the baseline is no winner, however wide its interval is."""
    baseline = result.baseline
    return tuple(
        leader
        for leader in result.leaders
        if leader is result.best
        or (baseline is not None and leader is not baseline and not are_level(leader, baseline))
    )
