"""The verdicts of `results.verdicts.shape_verdict` for a page: every contender with its table rows, every sentence with its shape's name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports.cases.rows import CaseRow, regime_rank
from reports.text.display_text import shown
from results.records.case_names import pass_name
from results.statistics.replication import total_intervals
from results.text.verdict_text import verdict_text
from results.verdicts.gain import Gain, measured_gain
from results.verdicts.shape_verdict import (
    Contender,
    GroupKey,
    ShapeVerdict,
    Totals,
    are_level,
    contenders,
    group_key,
    judge,
)
from results.verdicts.shape_verdict import baseline_of as baseline_contender
from results.verdicts.shape_verdict import speedups as contender_speedups

VERDICT_CHARACTERS = 500
"""A verdict holds up to four names of 60 characters; what is longer came from hostile labels."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One contender of a shape with the rows behind it; names are fit to be shown."""

    contender: Contender
    rows: tuple[CaseRow, ...]

    @property
    def case_key(self) -> str:
        """The identity of the case."""
        return self.rows[0].case_key

    @property
    def label(self) -> str:
        """`INT4 W4A16 (tinygemm)`."""
        return self.rows[0].label

    @property
    def precision(self) -> str:
        """`INT4 W4A16`."""
        return self.rows[0].precision

    @property
    def kernel(self) -> str:
        """The implementation."""
        return self.rows[0].kernel

    @property
    def weight_format(self) -> str:
        """Format of operand b; empty without one."""
        return self.rows[0].weight_format

    @property
    def activation_format(self) -> str:
        """Format of operand a; empty without one."""
        return self.rows[0].activation_format

    @property
    def is_sixteen_bit(self) -> bool:
        """True when every input is BF16, or every input FP16."""
        return self.contender.is_sixteen_bit

    @property
    def measured_s(self) -> float | None:
        """Median of the processes' medians."""
        return self.contender.measured_s

    @property
    def ideal_s(self) -> float | None:
        """The ideal prediction."""
        return self.contender.ideal_s

    @property
    def is_measured(self) -> bool:
        """True when at least one process timed it."""
        return self.contender.is_measured


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """All configurations of one shape, cache state and mode, and which one wins."""

    judged: ShapeVerdict
    title: str
    """`1x4096x4096`; warm cache, other modes and other operators than products are named."""
    ranked: tuple[Configuration, ...]
    """As in `judged.ranked`."""
    baseline: Configuration | None
    best: Configuration | None
    level_with: Configuration | None
    """What the best is level with, so that nothing wins (see `ShapeVerdict.level_pair`); None where something does."""
    judgement: str
    """The line on the shape that the terminal prints, too."""

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
    def op_title(self) -> str:
        """The operator in words: `gemv`, `seeded-llama-156m decode`."""
        return self.ranked[0].rows[0].op_title if self.ranked else self.op

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
        return self.baseline is not None and bool(self.baseline.contender.doubts)

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
        """True when `best` beats the baseline and every other 16-bit contender by more than the intervals."""
        return self.judged.is_win

    @property
    def leaders(self) -> tuple[Configuration, ...]:
        """The best and, after it, what is level with it on the same evidence: measured intervals that overlap, predictions
        that every ranking takes for level (`are_level_predictions`). Empty without a best."""
        best = self.best
        return () if best is None else (best, *(rival for rival in self._rivals if _is_level(best, rival)))

    @property
    def is_clear(self) -> bool:
        """True when the intervals tell `best` from every other configuration of its evidence, not only from those of 16 bits."""
        best = self.best
        return best is not None and not any(_overlap(best, rival) or _is_level(best, rival) for rival in self._rivals)

    @property
    def standing(self) -> str:
        """The best among all: `fastest`, `fastest, level with INT8 (int_mm) and 2 more`; empty where nothing competes."""
        if self.best is None or not self.is_contest:
            return ""
        return ", ".join(filter(None, ("fastest", self.level_text)))

    @property
    def level_text(self) -> str:
        """What the intervals leave open: `level with INT8 (int_mm) and 2 more`; empty where they name a best. The first name
        is the one that the verdict gives."""
        if self.is_clear:
            return ""
        named = self.level_with or next(iter(self.leaders[1:]), None)
        if named is None:  # only expected: further behind than what is level, inside the interval
            return "by less than its interval"
        more = len(self.leaders) - 2
        return f"level with {named.label}{f' and {more} more' if more > 0 else ''}"

    @property
    def _rivals(self) -> tuple[Configuration, ...]:
        fit = (one for one in self.ranked if one.is_measured or not one.contender.is_emulated)
        return tuple(
            one for one in fit if one is not self.best and self.best and one.is_measured == self.best.is_measured
        )


def shape_results(rows: Iterable[CaseRow], totals: Totals | None = None) -> tuple[ShapeResult, ...]:
    """Group the rows of one chip by op, shape, cache and mode, in the order they were run, and judge each group.

    `totals`: the intervals over processes; None: from these rows alone.
    """
    rows = tuple(rows)
    totals = total_intervals(row.record for row in rows) if totals is None else totals
    groups: dict[GroupKey, list[CaseRow]] = {}
    for row in rows:
        groups.setdefault(group_key(row.record), []).append(row)
    return tuple(_shape_result(key, members, totals) for key, members in groups.items())


def configurations(rows: Iterable[CaseRow], totals: Totals | None = None) -> tuple[Configuration, ...]:
    """Pool rows of the same case, in the order of `results.verdicts.shape_verdict.contenders`."""
    rows = tuple(rows)
    return _with_rows(contenders((row.record for row in rows), totals), rows)


def baseline_of(ranked: Iterable[Configuration]) -> Configuration | None:
    """Return what speed-ups are counted against; see `results.verdicts.shape_verdict.baseline_of`."""
    ranked = tuple(ranked)
    return _find(ranked, baseline_contender(one.contender for one in ranked))


def speedups(one: Configuration | None, baseline: Configuration | None) -> tuple[float | None, float | None]:
    """Return (predicted, measured) speed-up over the baseline; see `results.verdicts.shape_verdict.speedups`."""
    return contender_speedups(one.contender if one else None, baseline.contender if baseline else None)


def best_overall(results: Iterable[ShapeResult]) -> ShapeResult | None:
    """Return the shape whose best configuration gains most: by measured speed-up, else predicted, else the first.

    Shapes that somebody wins go before shapes where the baseline stays or nobody competes, of these whose times are not in
    doubt before the others: a disturbed baseline makes the largest gain of all. One cache state and mode is judged: see
    `first_regime`.
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
        known = [result for result in candidates if getattr(result, attribute) is not None]
        if known:
            return max(known, key=lambda result: getattr(result, attribute))
    measured = [result for result in candidates if result.best is not None and result.best.is_measured]
    return next(iter(measured or candidates), None)


def fastest_by_case(results: Iterable[ShapeResult]) -> dict[str, ShapeResult]:
    """Return the shapes that something competes at by the case key of their fastest configuration."""
    return {result.best.case_key: result for result in results if result.best is not None and result.is_contest}


def first_regime(results: Iterable[ShapeResult]) -> list[ShapeResult]:
    """Return the results of one cache state and mode: of those with a measured best (else of all), the first by `regime_rank`."""
    results = list(results)
    measured = [result for result in results if result.best is not None and result.best.is_measured]
    ranks = [regime_rank(one.cache, one.mode) for one in measured or results]
    return [result for result in results if regime_rank(result.cache, result.mode) == min(ranks)]


def _shape_result(key: GroupKey, rows: list[CaseRow], totals: Totals) -> ShapeResult:
    judged = judge((row.record for row in rows), totals)
    ranked = _with_rows(judged.ranked, rows)
    title = _title(key, rows[0].shape_label)
    baseline, best = _find(ranked, judged.baseline), _find(ranked, judged.best)
    other = next((one for one in judged.level_pair or () if one is not judged.best), None)
    judgement = shown(verdict_text(judged), VERDICT_CHARACTERS)
    return ShapeResult(judged, title, ranked, baseline, best, _find(ranked, other), judgement)


def _is_level(best: Configuration, other: Configuration) -> bool:
    return are_level(best.contender, other.contender)


def _overlap(best: Configuration, other: Configuration) -> bool:
    low_s, high_s = best.contender.interval_s
    other_low_s, other_high_s = other.contender.interval_s
    if low_s is None or high_s is None or other_low_s is None or other_high_s is None:
        return False
    return low_s <= other_high_s and other_low_s <= high_s


def _with_rows(found: Iterable[Contender], rows: Iterable[CaseRow]) -> tuple[Configuration, ...]:
    by_record = {id(row.record): row for row in rows}
    return tuple(Configuration(one, tuple(by_record[id(record)] for record in one.records)) for one in found)


def _find(ranked: Iterable[Configuration], contender: Contender | None) -> Configuration | None:
    return next((one for one in ranked if one.contender is contender), None)


def _title(key: GroupKey, shape_label: str) -> str:
    op, shape, cache, mode = key
    model = pass_name(op, shape)
    words = [] if op in ("gemv", "gemm") else [shown(op, 60)]
    words = [*words, shape_label] if model is None else [shown(model.title, 140)]
    # Passes of a model follow each other on the same weights: warm is the only state they have.
    words += [] if cache in ("cold", "none") or (model is not None and cache == "warm") else [cache]
    words += [] if mode == "eager" else [shown(mode, 30)]
    return " ".join(words)
