"""The cases of a stored run by letter: all of one operator and format in one cache state and mode share one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from reports.present.cases import case_precision, operator_title, regime_of
from roofline_cli.plot.figure import LetterPoint, letter_of

if TYPE_CHECKING:
    from results.cases.case_result import CaseResult


@dataclass(frozen=True, slots=True)
class Series:
    """All cases that share a letter; each has an ideal rate and an intensity."""

    letter: str
    op: str
    precision: str
    regime: str
    cases: tuple[CaseResult, ...]

    @property
    def measured_count(self) -> int:
        """Cases that were measured."""
        return sum(case.measured_s is not None for case in self.cases)

    @property
    def points(self) -> list[LetterPoint]:
        """Where its cases stand."""
        return [
            LetterPoint(
                self.letter,
                case.intensity_flop_per_byte or 0.0,
                case.ideal_flops_per_s,
                case.achieved_flops_per_s,
                case.expected_flops_per_s,
            )
            for case in self.cases
        ]

    def typical(self, name: str) -> float | None:
        """Return the median of a figure of its cases; None where none has it."""
        values = [value for case in self.cases if (value := getattr(case, name)) is not None]
        return median(values) if values else None


def run_series(cases: Iterable[CaseResult]) -> tuple[Series, ...]:
    """Return the series of the cases of one chip that have FLOPs and a prediction; where there are more than letters,
    the largest first.
    """
    groups: dict[tuple[str, str, str], list[CaseResult]] = {}
    for case in cases:
        if case.intensity_flop_per_byte and case.ideal_flops_per_s:
            key = operator_title(case.case), case_precision(case.case), regime_of(case.case)
            groups.setdefault(key, []).append(case)
    ordered: Sequence[tuple[tuple[str, str, str], list[CaseResult]]] = list(groups.items())
    if len(groups) > 26:
        ordered = sorted(ordered, key=lambda item: -len(item[1]))
    return tuple(Series(letter_of(index), *key, tuple(members)) for index, (key, members) in enumerate(ordered))
