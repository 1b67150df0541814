"""Why a row stands elsewhere than before, in a sentence: its own time, its evidence, its loss, or what others did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.ranking.words import excluded_texts
from reports.stored.answer import StoredRanking
from reports.text.display_text import shown
from reports.text.labels import change_words
from results.diff.case_diff import CaseDiff
from results.diff.environments import Difference
from results.records.records import RunInfo
from results.text.diff_text import interval_text, percent, short
from roofline_model.core.answer import Option
from roofline_model.core.finding import code_text
from roofline_model.core.units import format_time
from roofline_model.recommend.loss import loss_text

NOISE_WORDS = "small movements of times that are level decide otherwise"
_SHOWN_DETAIL = 100
SHOWN_DIFFERENCES = 6
"""Differences of the environment that are kept with a change, blocking ones first."""
_PREDICTION_MOVED_RATIO = 0.001
_QUIET = frozenset({"host", "commit", "branch", "forced"})
"""Differences that a sentence names only where nothing of the environment class differs."""


@dataclass(frozen=True, slots=True)
class Move:
    """One row before and after the newest run."""

    before: Option | None
    after: Option | None
    before_rank: int | None
    """Its place before; None: it was not ranked."""
    after_rank: int | None
    """Its place now."""
    diff: CaseDiff | None
    """What `results.diff` says of its measured time; None where it was not measured on both sides."""
    run_before: RunInfo | None
    """The newest run it rested on before; None where nothing was stored of it."""
    run_after: RunInfo
    environment: tuple[str, ...]
    is_blocked: bool = False
    """Whether `results.diff` calls the two runs not comparable for what differs between their machines."""

    @property
    def label(self) -> str:
        """What it is called now, or was called."""
        row = self.after or self.before
        assert row is not None  # a move is of some row
        return row.label


def change_sentence(move: Move, moves: Sequence[Move], now: StoredRanking) -> str:
    """Return what became of a row, and why; `moves`: of all rows, for what passed it."""
    before, after = move.before, move.after
    if after is None:
        assert before is not None  # it was ranked before
        refused = dict(reversed(excluded_texts(now))).get(move.label, "")
        instead = "" if refused else _replaced_by(before, moves)
        return f"{move.label} is no longer ranked (was {_ordinal(move.before_rank)}): {refused or instead or 'nothing predicts it any more'}"
    if before is None:
        return f"{move.label} is new, {_ordinal(move.after_rank)}: {_first_evidence(move, after)}"
    if move.after_rank == move.before_rank:
        lead = f"{move.label} stays {_ordinal(move.after_rank)}"
    else:
        verb = "rose" if _is_above(move.after_rank, move.before_rank) else "fell"
        lead = f"{move.label} {verb} from {_ordinal(move.before_rank)} to {_ordinal(move.after_rank)}"
    own = own_cause(move)
    cause = own.sentence if own else _cause_of_others(move, moves) or _not_compared(move, moves) or NOISE_WORDS
    # What differs between the machines explains a measured time and nothing else.
    is_of_time = move.diff is not None and own and move.environment
    blocked = ", so roofline diff calls the runs not comparable" if move.is_blocked else ""
    return f"{lead}: {cause}{f'; {_told(move.environment)}{blocked}' if is_of_time else ''}"


def has_cause(move: Move, moves: Sequence[Move]) -> bool:
    """Return whether anything stored explains a row's new place: it came or went, it moved itself, or another one did."""
    return move.before is None or move.after is None or bool(own_cause(move) or _cause_of_others(move, moves))


@dataclass(frozen=True, slots=True)
class Cause:
    """What moved a row."""

    text: str
    is_its: bool = True
    """Whether `its` stands before it in a sentence about the row."""

    @property
    def sentence(self) -> str:
        """As it is said of the row itself."""
        return f"its {self.text}" if self.is_its else self.text


def own_cause(move: Move) -> Cause | None:
    """Return what of the row itself moved; None where nothing did."""
    before, after = move.before, move.after
    if before is None or after is None:
        return None
    if after.is_measured and not before.is_measured:
        return Cause(_first_evidence(move, after), is_its=False)
    if before.is_measured and not after.is_measured:
        return Cause("measurement does not stand any more")
    if text := _time_text(move):
        return Cause(text)
    if before.loss.pct != after.loss.pct:
        return Cause(f"loss is {loss_text(after.loss)}, before {loss_text(before.loss)}")
    if not after.is_measured and abs(after.estimate.time_s / before.estimate.time_s - 1) > _PREDICTION_MOVED_RATIO:
        times = f"{format_time(before.estimate.time_s)} to {format_time(after.estimate.time_s)}"
        return Cause(f"{after.estimate.source} time changed from {times}")
    return None


def environment_texts(differences: Sequence[Difference]) -> tuple[str, ...]:
    """Return differences in words, those of the environment class first; quiet ones only where there is no other."""
    blocking = [one for one in differences if one.is_blocking]
    others = [one for one in differences if not one.is_blocking]
    kept = blocking or [other for other in others if other.name.partition(".")[0] in _QUIET]
    return tuple(shown(change_words(one.name, one.before, one.after)) for one in kept[:SHOWN_DIFFERENCES])


def run_words(run: RunInfo) -> str:
    """Return a run as a change names it: `run 3f2a91c0 (2026-11-21)`."""
    return f"run {run.run_id[:8]} ({shown(run.started_at[:10], 10)})"


def _time_text(move: Move) -> str:
    diff = move.diff
    if diff is None or diff.change_ratio is None or move.run_before is None:
        return ""
    ratio = diff.change_ratio
    if diff.verdict == "SAME" or abs(ratio) < 0.0005:
        return ""
    verb = "rose" if ratio > 0 else "fell"
    interval = f" (95 %: {interval_text(diff)})" if diff.low_ratio is not None else ""
    between = f"between {run_words(move.run_before)} and {run_words(move.run_after)}"
    weak = "" if diff.verdict in ("SLOWER", "FASTER") else f", {diff.verdict.lower()}: {code_text(diff.reason)}"
    return f"measured time {verb} {percent(abs(ratio))}{interval} {between}{weak}"


def _not_compared(move: Move, moves: Sequence[Move]) -> str:
    """Return why `results.diff` compares no times here, the row's own first; empty where it compared what it had."""
    for one in (move, *moves):
        if one.diff is not None and one.diff.verdict == "INVALID" and one.diff.change_ratio is None:
            detail = f" ({short(shown(one.diff.detail), _SHOWN_DETAIL)})" if one.diff.detail else ""
            whose = "its times" if one is move else f"the times of {one.label}"
            return f"{whose} are not comparable: {code_text(one.diff.reason)}{detail}"
    return ""


def _first_evidence(move: Move, after: Option) -> str:
    if not after.is_measured:
        return f"{after.estimate.source} {format_time(after.estimate.time_s)}"
    before = move.before
    promised = ""
    if before is not None and not before.is_measured:
        promised = f", where {format_time(before.estimate.time_s)} was {'expected' if before.estimate.source == 'expected' else 'the ideal'}"
    return f"measured for the first time in {run_words(move.run_after)}: {format_time(after.estimate.time_s)}{promised}"


def _cause_of_others(move: Move, moves: Sequence[Move]) -> str:
    """Name what passed a row that did not move itself, with the cause of the first; else what came or went around it; empty
    where nothing did."""
    assert move.before is not None
    assert move.after is not None
    passed = [other for other in moves if other is not move and _crossed(move, other)]
    with_cause = [(other, cause) for other in passed if (cause := own_cause(other))]
    if with_cause:
        other, cause = with_cause[0]
        side = "passed it" if _is_above(other.after_rank, move.after_rank) else "fell behind it"
        return f"{other.label} {side} ({cause.text})"
    came = [other.label for other in moves if other.before is None and _is_above(other.after_rank, move.after_rank)]
    went = [other.label for other in moves if other.after is None and _is_above(other.before_rank, move.before_rank)]
    if came or went:
        return "; ".join(
            [*([f"{came[0]} is new above it"] if came else []), *([f"{went[0]} above it is gone"] if went else [])]
        )
    return ""


def _crossed(move: Move, other: Move) -> bool:
    mine, theirs = (move.before_rank, move.after_rank), (other.before_rank, other.after_rank)
    if None in mine or None in theirs:
        return False
    return _is_above(mine[0], theirs[0]) != _is_above(mine[1], theirs[1])


def _is_above(rank: int | None, other: int | None) -> bool:
    return rank is not None and other is not None and rank < other


def _replaced_by(before: Option, moves: Sequence[Move]) -> str:
    """Name the measured kernel that took the place of the model's proposal of its formats."""
    formats = (before.weight_format, before.activation_format)
    kernel = next(
        (
            move.after
            for move in moves
            if move.after
            and move.after.is_measured
            and (move.after.weight_format, move.after.activation_format) == formats
        ),
        None,
    )
    return "" if kernel is None else f"{kernel.label} was measured in its place"


def _told(environment: Sequence[str]) -> str:
    return f"{', '.join(environment[:2])}{f' and {len(environment) - 2} more' if len(environment) > 2 else ''} differs"


def _ordinal(rank: int | None) -> str:
    assert rank is not None  # of a row that is or was ranked
    if rank % 100 in (11, 12, 13):
        return f"{rank}th"
    return f"{rank}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(rank % 10, 'th') }"
