"""The ranking of cases that were run: a `Ranking` with what only stored records know.

`reports.ranking.words` words it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from results.verdicts.gain import Gain, measured_gain
from roofline_model.core.answer import NO_RESULT, AlternativeRole, Option, Question, Ranking
from roofline_model.core.finding import Finding, has_code
from roofline_model.recommend.ranking import (
    POLICIES,
    Limits,
    Standing,
    Tier,
    are_level_measured,
    are_level_predictions,
    maybe_faster,
    rank,
    standing,
    tier_of,
)

_OF_THE_TIMER = frozenset({"simulated"})
"""Among the doubts of an option, what no second measurement mends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRanking(Ranking):
    """The options of one shape, or of one phase of a model, in one cache state and mode on one chip."""

    op: str
    shape_label: str
    cache: str
    mode: str
    baseline_label: str
    """What speed-ups are counted against; empty without a 16-bit or FP32 option."""
    baseline_precision: str
    """The same without its kernel; empty where no run has it."""

    @property
    def hardware_key(self) -> str:
        """Key of the chip."""
        return self.question.hardware

    @property
    def phase(self) -> str:
        """decode, prefill, or empty for operators that are no products."""
        return self.question.phase

    @property
    def first(self) -> Option | None:
        """The option that stands first; None where nothing could be ranked."""
        return self.options[0] if self.options else None

    @property
    def is_contest(self) -> bool:
        """Whether two cases at least compete; what the model proposes is no case."""
        excluded = (each.option for each in self.excluded if each.option is not None)
        return sum(option.kernel is not None for option in (*self.options, *excluded)) > 1

    @property
    def narrower(self) -> tuple[Option, ...]:
        """The cases in a format narrower than 16 bits, so that may lose quality; empty without a baseline's case."""
        if self.baseline is None or self.baseline.kernel is None:
            return ()
        excluded = (each.option for each in self.excluded if each.option is not None)
        cases = (option for option in (*self.options, *excluded) if option.kernel is not None)
        return tuple(option for option in cases if option.loss.source != "reference")

    @property
    def gap(self) -> Finding | None:
        """Why no headline may rest on the measured times; None where one may."""
        return next((item for item in self.findings if item.code in NO_RESULT), None)

    @property
    def roles(self) -> dict[str, Literal["take"] | AlternativeRole]:
        """Key of an option → what it is named for: the choice first, then the alternatives; empty without a contest."""
        if not self.is_contest:
            return {}
        chosen: dict[str, Literal["take"] | AlternativeRole] = {} if self.choice is None else {self.choice.key: "take"}
        return chosen | {each.option.key: each.role for each in self.alternatives}

    @property
    def runnable(self) -> tuple[Option, ...]:
        """The options that a kernel is known to run, or that were measured."""
        return tuple(option for option in self.options if not has_code(option.findings, "kernel-gap"))

    @property
    def barred(self) -> tuple[Option, ...]:
        """The options that no kernel is known to run."""
        return tuple(option for option in self.options if has_code(option.findings, "kernel-gap"))

    @property
    def baseline_doubts(self) -> tuple[str, ...]:
        """What puts the baseline's measured time, and so every measured speed-up, in doubt, and measuring again may
        mend.
        """
        baseline = self.baseline
        return () if baseline is None or not baseline.is_measured else doubts_to_mend(baseline.trust.doubts)

    @property
    def choice_doubts(self) -> tuple[str, ...]:
        """The flags that put the measured time of the choice, or of what it is compared with, in doubt."""
        choice = self.choice or self.first
        if choice is None or not choice.is_measured:
            return ()
        return tuple(sorted({*choice.trust.doubts, *(() if self.baseline is None else self.baseline.trust.doubts)}))

    def gain_of(self, option: Option) -> Gain | None:
        """Return the measured speed-up of an option over the baseline; None of the baseline, and where one of the two
        was not measured.
        """
        return None if self.is_baseline(option) else measured_gain(option, self.baseline)

    def rank_of(self, option: Option) -> int:
        """Return the place of an option, from 1."""
        return 1 + next(place for place, other in enumerate(self.options) if other.key == option.key)

    def is_baseline(self, option: Option) -> bool:
        """Return whether speed-ups are counted against an option."""
        return self.baseline is not None and self.baseline.key == option.key


def doubts_to_mend(doubts: Sequence[str]) -> tuple[str, ...]:
    """Return what puts a time in doubt that measuring again may mend."""
    return tuple(doubt for doubt in doubts if doubt not in _OF_THE_TIMER)


_POLICY = POLICIES["stored"]


def rank_stored(question: Question, options: Iterable[Option], baseline: Option | None, limits: Limits) -> Ranking:
    """Return the ranking of options from stored runs; the order they come in makes no difference."""
    by_time = sorted(options, key=lambda option: (option.estimate.time_s, option is not baseline, option.key))
    return rank(question, by_time, baseline, limits=limits)


def evidence_tier(option: Option) -> Tier:
    """Return what goes before any time: kernels that are known, what really runs, measured before expected before
    ideal.
    """
    return tier_of(option, None, "", _POLICY)


def level_with(option: Option, options: Iterable[Option]) -> tuple[Option, ...]:
    """Return the other options of the same kind of evidence that one is tied with, as every ranking takes it."""
    tier = evidence_tier(option)
    alike = [other for other in options if other.key != option.key and evidence_tier(other) == tier]
    return tuple(other for other in alike if _is_level(option, other))


def maybe_faster_option(options: Sequence[Option]) -> Option | None:
    """Return the measured option that stands behind the first for its loss alone and may be faster; see
    `maybe_faster`.
    """
    return maybe_faster([option for option in options if option.is_measured], stored_standing)


def _is_level(option: Option, other: Option) -> bool:
    pair = sorted(map(stored_standing, (option, other)), key=lambda item: item.time_s)
    return are_level_measured(*pair) if option.is_measured else are_level_predictions(*pair)


def stored_standing(option: Option) -> Standing:
    """Return what an option of a stored run is ordered by."""
    return standing(option, _POLICY)
