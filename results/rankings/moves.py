"""Why an option stands elsewhere than before: its own time, its evidence, its loss, or what others did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from results.diff.case_diff import CaseDiff
from results.diff.environments import Difference
from results.records.records import RunInfo
from roofline_model.core.answer import Option, Ranking
from roofline_model.core.finding import Finding, finding

UNEXPLAINED = frozenset({"times-not-compared", "level-exchanged"})
"""Causes that explain no new place by anything stored."""
SHOWN_DIFFERENCES = 6
"""Differences of the environment that are kept with a change, blocking ones first."""
_PREDICTION_MOVED_RATIO = 0.001
_QUIET = frozenset({"host", "commit", "branch", "forced"})
"""Differences that are told only where nothing of the environment class differs."""


@dataclass(frozen=True, slots=True)
class RankChange:
    """One option before and after the newest run, and why it stands where it stands."""

    before: Option | None
    after: Option | None
    before_rank: int | None
    """Place before, count; null: it was not ranked."""
    after_rank: int | None
    """Place now, count; null: it is not ranked."""
    diff: CaseDiff | None = field(compare=False)
    """What `results.diff` says of its measured time; None where it was not measured on both sides."""
    run_before: RunInfo | None
    """The newest run it rested on before; None where nothing was stored of it."""
    run_after: RunInfo
    differences: tuple[Difference, ...]
    """What differs between the machines of the two runs."""
    causes: tuple[Finding, ...] = ()
    """Why: the first says what happened, the others what lies behind it."""

    @property
    def label(self) -> str:
        """The configuration, as in the rows: what it is called now, or was called."""
        row = self.after or self.before
        assert row is not None  # a change is of some row
        return row.label

    @property
    def change_ratio(self) -> float | None:
        """Of the measured time between the nights, over that before; null where it was not measured on both."""
        return None if self.diff is None else self.diff.change_ratio

    @property
    def verdict(self) -> str | None:
        """SLOWER, FASTER, SAME, AMBIGUOUS or INVALID, as `roofline diff` calls it; null where nothing was compared."""
        return None if self.diff is None else self.diff.verdict

    @property
    def environment(self) -> tuple[Difference, ...]:
        """The differences to tell, those of the environment class first; quiet ones only where there is no other."""
        blocking = [difference for difference in self.differences if difference.is_blocking]
        quiet = [difference for difference in self.differences if difference.name.partition(".")[0] in _QUIET]
        return tuple((blocking or quiet)[:SHOWN_DIFFERENCES])

    @property
    def is_blocked(self) -> bool:
        """Whether `results.diff` calls the two runs not comparable for what differs between their machines."""
        return any(difference.is_blocking for difference in self.differences)

    @property
    def is_told(self) -> bool:
        """Whether it is worth a line: of places that only noise exchanged, the first alone is."""
        if self.before_rank == self.after_rank:
            return self.verdict in ("SLOWER", "FASTER")
        return 1 in (self.before_rank, self.after_rank) or self.causes[0].code not in UNEXPLAINED


def causes_of(move: RankChange, moves: Sequence[RankChange], now: Ranking) -> tuple[Finding, ...]:
    """Return why a row stands where it stands; `moves`: of all rows, for what passed it.

    The first says what happened; behind it what lies behind that: the cause of the row that passed it, or why a time
    that moved is no surer.
    """
    before, after = move.before, move.after
    if after is None:
        assert before is not None  # it was ranked before
        refused = next((each.findings for each in now.excluded if each.label == move.label), ())
        return refused or (_replaced_by(before, moves) or finding("prediction-gone", kind="unpredicted"),)
    if before is None:
        return (_first_evidence(move, after),)
    return (
        own_cause(move) or _cause_of_others(move, moves) or _not_compared(move, moves) or (finding("level-exchanged"),)
    )


def own_cause(move: RankChange) -> tuple[Finding, ...]:
    """Return what of the row itself moved; empty where nothing did."""
    before, after = move.before, move.after
    if before is None or after is None:
        return ()
    if after.is_measured and not before.is_measured:
        return (_first_evidence(move, after),)
    if before.is_measured and not after.is_measured:
        return (finding("measurement-gone"),)
    if moved := _time_moved(move):
        return moved
    loss, loss_before = after.loss, before.loss
    if loss_before.pct != loss.pct:
        return (
            finding(
                "evidence-changed",
                kind="loss",
                loss_pct=loss.pct,
                source=loss.source,
                before_loss_pct=loss_before.pct,
                before_source=loss_before.source,
            ),
        )
    time_s, before_s = after.estimate.time_s, before.estimate.time_s
    if not after.is_measured and abs(time_s / before_s - 1) > _PREDICTION_MOVED_RATIO:
        return (
            finding(
                "evidence-changed", kind="prediction", source=after.estimate.source, before_s=before_s, time_s=time_s
            ),
        )
    return ()


def _time_moved(move: RankChange) -> tuple[Finding, ...]:
    diff = move.diff
    if diff is None or diff.change_ratio is None or move.run_before is None:
        return ()
    ratio = diff.change_ratio
    if diff.verdict == "SAME" or abs(ratio) < 0.0005:
        return ()
    is_called = diff.verdict in ("SLOWER", "FASTER")
    has_interval = diff.low_ratio is not None and diff.high_ratio is not None
    moved = finding(
        "measured-time-rose" if ratio > 0 else "measured-time-fell",
        size_ratio=abs(ratio),
        low_change_ratio=diff.low_ratio if has_interval else None,
        high_change_ratio=diff.high_ratio if has_interval else None,
        before_run=move.run_before.run_id[:8],
        before_day=move.run_before.started_at[:10],
        run=move.run_after.run_id[:8],
        day=move.run_after.started_at[:10],
        verdict=None if is_called else diff.verdict.lower(),
    )
    return (moved,) if is_called else (moved, Finding(diff.reason))


def _not_compared(move: RankChange, moves: Sequence[RankChange]) -> tuple[Finding, ...]:
    """Return why `results.diff` compares no times here, the row's own first; empty where it compared what it had."""
    for other in (move, *moves):
        diff = other.diff
        if diff is not None and diff.verdict == "INVALID" and diff.change_ratio is None:
            return (finding("times-not-compared", other.label, detail=diff.detail or None), Finding(diff.reason))
    return ()


def _first_evidence(move: RankChange, after: Option) -> Finding:
    estimate = after.estimate
    if not after.is_measured:
        return finding("first-predicted", source=estimate.source, time_s=estimate.time_s)
    promised = None if move.before is None or move.before.is_measured else move.before.estimate
    is_expected = promised is not None and promised.source == "expected"
    return finding(
        "first-measured",
        run=move.run_after.run_id[:8],
        day=move.run_after.started_at[:10],
        time_s=estimate.time_s,
        expected_s=promised.time_s if promised is not None and is_expected else None,
        ideal_s=promised.time_s if promised is not None and not is_expected else None,
    )


def _cause_of_others(move: RankChange, moves: Sequence[RankChange]) -> tuple[Finding, ...]:
    """Return what passed a row that did not move itself, with the cause of the first; else what came or went around it;
    empty where nothing did.
    """
    passed = [other for other in moves if other is not move and _crossed(move, other)]
    with_cause = [(other, causes) for other in passed if (causes := own_cause(other))]
    if with_cause:
        other, causes = with_cause[0]
        is_above = _is_above(other.after_rank, move.after_rank)
        return (finding("order-of-others", other.label, kind="passed" if is_above else "fell-behind"), *causes)
    came = [other.label for other in moves if other.before is None and _is_above(other.after_rank, move.after_rank)]
    went = [other.label for other in moves if other.after is None and _is_above(other.before_rank, move.before_rank)]
    return (
        *(finding("option-above", label, kind="new") for label in came[:1]),
        *(finding("option-above", label, kind="gone") for label in went[:1]),
    )


def _crossed(move: RankChange, other: RankChange) -> bool:
    mine, theirs = (move.before_rank, move.after_rank), (other.before_rank, other.after_rank)
    if None in mine or None in theirs:
        return False
    return _is_above(mine[0], theirs[0]) != _is_above(mine[1], theirs[1])


def _is_above(rank: int | None, other: int | None) -> bool:
    return rank is not None and other is not None and rank < other


def _replaced_by(before: Option, moves: Sequence[RankChange]) -> Finding | None:
    """Return the measured kernel that took the place of the model's proposal of its formats."""
    formats = (before.weight_format, before.activation_format)
    rows = (move.after for move in moves if move.after is not None and move.after.is_measured)
    kernel = next((row for row in rows if (row.weight_format, row.activation_format) == formats), None)
    return None if kernel is None else finding("prediction-gone", kernel.label, kind="measured")
