"""The verdicts of `results.verdicts.shape_verdict` for a page, each with its shape's name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports.present.cases import option_label
from reports.present.display_text import shown
from results.cases.case_result import CaseResult
from results.cases.errors import regime_rank
from results.text.verdict_text import verdict_text
from results.verdicts.gain import Gain, measured_gain
from results.verdicts.shape_verdict import GroupKey, ShapeVerdict, are_level, groups, is_emulation, judge
from roofline_model.core.answer import Option
from roofline_model.operators.case import pass_name

VERDICT_CHARACTERS = 500
"""A verdict holds up to four names of 60 characters; what is longer came from hostile labels."""


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """All configurations of one shape, cache state and mode, and which one wins."""

    judged: ShapeVerdict
    title: str
    """`1x4096x4096`; warm cache, other modes and other operators than products are named."""
    judgement: str
    """The line on the shape that the terminal prints, too."""
    leaders: tuple[Option, ...]
    """The best and, after it, what is tied with it on the same evidence: measured intervals that overlap, predictions
    that every ranking takes for level (`are_level_predictions`). Empty without a best.
    """
    is_clear: bool
    """Whether the intervals tell `best` from every other configuration of its evidence, not only from those of 16
    bits.
    """

    @property
    def ranked(self) -> tuple[Option, ...]:
        """What competes, best evidence first."""
        return self.judged.ranked

    @property
    def baseline(self) -> Option | None:
        """What speed-ups are counted against."""
        return self.judged.baseline

    @property
    def best(self) -> Option | None:
        """What stands first; see `ShapeVerdict.best`."""
        return self.judged.best

    @property
    def level_with(self) -> Option | None:
        """What the best is tied with, so that nothing wins (see `ShapeVerdict.level_pair`); None where something
        does.
        """
        return next((each for each in self.judged.level_pair or () if each is not self.best), None)

    @property
    def verdict(self) -> str:
        """The title and the line."""
        return f"{self.title}: {self.judgement}"

    @property
    def op(self) -> str:
        """The operator of the shape."""
        return shown(self.judged.op, 60)

    @property
    def is_model(self) -> bool:
        """Whether it is a pass of a whole model."""
        return pass_name(self.judged.op, self.judged.key[1]) is not None

    @property
    def model_name(self) -> str:
        """Of a pass the model that it is of; empty for a shape."""
        name = pass_name(self.judged.op, self.judged.key[1])
        return "" if name is None else name.model_name

    @property
    def op_title(self) -> str:
        """The operator in words: `gemv`, `seeded-llama-156m decode`."""
        name = pass_name(self.judged.op, self.judged.key[1])
        return self.op if name is None or not self.ranked else shown(f"{name.model_name} {name.phase}", 80)

    @property
    def expected_speedup(self) -> float | None:
        """Of `best` over `baseline`, expected over expected."""
        return self.judged.expected_speedup

    @property
    def cache(self) -> str:
        """The cache state."""
        return self.judged.cache

    @property
    def mode(self) -> str:
        """How calls were issued."""
        return self.judged.key[3]

    @property
    def predicted_speedup(self) -> float | None:
        """Of `best` over `baseline`, ideal over ideal."""
        return self.judged.predicted_speedup

    @property
    def measured_speedup(self) -> float | None:
        """Of `best` over `baseline`, measured over measured."""
        return self.judged.measured_speedup

    @property
    def is_baseline_doubtful(self) -> bool:
        """Whether the baseline's measured time is in doubt, and so every measured speed-up."""
        return self.baseline is not None and bool(self.baseline.trust.doubts)

    @property
    def gain(self) -> Gain | None:
        """The measured speed-up with what its two times leave open; None where one was not measured."""
        return measured_gain(self.judged.best, self.judged.baseline)

    @property
    def is_contest(self) -> bool:
        """True when at least two configurations compete on equal evidence."""
        return self.judged.is_contest

    @property
    def is_win(self) -> bool:
        """True when `best` beats the baseline and every other 16-bit option by more than the intervals."""
        return self.judged.is_win and self.has_headline

    @property
    def has_headline(self) -> bool:
        """Whether the times may name a fastest option: not where the machine was busy, nor where they cannot be."""
        return self.judged.gap is None

    @property
    def standing(self) -> str:
        """The best among all: `fastest`, `fastest, tied with INT8 (W8A8) · int_mm and 2 more`; empty where nothing
        competes.
        """
        if self.best is None or not self.is_contest:
            return ""
        return ", ".join(filter(None, ("fastest", self.level_text)))

    @property
    def level_text(self) -> str:
        """What the intervals leave open: `tied with INT8 (W8A8) · int_mm and 2 more`; empty where they name a best. The
        first name is the one that the verdict gives.
        """
        if self.is_clear:
            return ""
        named = self.level_with or next(iter(self.leaders[1:]), None)
        if named is None:  # only expected: further behind than what is tied, inside the interval
            return "by less than its interval"
        more = len(self.leaders) - 2
        return f"tied with {option_label(named)}{f' and {more} more' if more > 0 else ''}"


def shape_results(cases: Iterable[CaseResult], *, is_gap_ignored: bool = False) -> tuple[ShapeResult, ...]:
    """Group the cases of one chip by op, shape, cache and mode, in the order they were run, and judge each group.

    `is_gap_ignored`: disturbed times make results, too.
    """
    judged = (judge(members, is_gap_ignored=is_gap_ignored) for members in groups(cases).values())
    return tuple(map(_shape_result, judged))


def best_overall(results: Iterable[ShapeResult]) -> ShapeResult | None:
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


def fastest_by_case(results: Iterable[ShapeResult]) -> dict[str, ShapeResult]:
    """Return the shapes that something competes at by the case key of their fastest configuration; without those whose
    times make no headline.
    """
    contests = (result for result in results if result.is_contest and result.has_headline)
    return {result.best.key: result for result in contests if result.best is not None}


def first_regime(results: Iterable[ShapeResult]) -> list[ShapeResult]:
    """Return the results of one cache state and mode: of those with a measured best (else of all), the first by
    `regime_rank`.
    """
    results = list(results)
    measured = [result for result in results if result.best is not None and result.best.is_measured]
    ranks = [regime_rank(result.cache, result.mode) for result in measured or results]
    return [result for result in results if regime_rank(result.cache, result.mode) == min(ranks)]


def judged_results(results: list[ShapeResult]) -> list[ShapeResult]:
    """Narrow results with a best configuration to the best evidence there is, never to nothing: contests, measured,
    undisturbed, one regime.
    """
    for keep in (
        lambda candidate: candidate.is_contest and candidate.baseline is not None,
        lambda candidate: candidate.best.is_measured,
        lambda candidate: candidate.judged.gap is None,
    ):
        results = [result for result in results if keep(result)] or results
    return first_regime(results)


def _shape_result(judged: ShapeVerdict) -> ShapeResult:
    best, rivals = judged.best, _rivals(judged)
    return ShapeResult(
        judged,
        _title(judged.key, shown(judged.shape_label, 60)),
        shown(verdict_text(judged), VERDICT_CHARACTERS),
        () if best is None else (best, *(rival for rival in rivals if are_level(best, rival))),
        best is not None and not any(_overlap(best, rival) or are_level(best, rival) for rival in rivals),
    )


def _rivals(judged: ShapeVerdict) -> list[Option]:
    """Return what competes with the best on the same evidence."""
    best = judged.best
    fit = (each for each in judged.ranked if each.is_measured or not is_emulation(each))
    return [each for each in fit if each is not best and best and each.is_measured == best.is_measured]


def _overlap(best: Option, other: Option) -> bool:
    low_s, high_s = best.estimate.interval_s
    other_low_s, other_high_s = other.estimate.interval_s
    if low_s is None or high_s is None or other_low_s is None or other_high_s is None:
        return False
    return low_s <= other_high_s and other_low_s <= high_s


def _title(key: GroupKey, shape_label: str) -> str:
    op, shape, cache, mode = key
    model = pass_name(op, shape)
    words = [] if op in ("gemv", "gemm") else [shown(op, 60)]
    words = [*words, shape_label] if model is None else [shown(model.title, 140)]
    # Passes of a model follow each other on the same weights: warm is the only state they have.
    words += [] if cache in ("cold", "none") or (model is not None and cache == "warm") else [cache]
    words += [] if mode == "eager" else [shown(mode, 30)]
    return " ".join(words)
