"""The words of a ranking from stored runs: what to take, why, how sure, against which runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reports.present.cases import for_the_next
from reports.present.display_text import change_words
from reports.present.words.ranking_text import (
    ACROSS_RUNS,
    evidence_text,
    riskier_text,
    shape_reason,
    speedup_basis_text,
    tied_text,
    undecided_text,
    verb,
    worth_trying,
)
from reports.present.words.verdict_text import doubtful_side, maybe_faster_text
from results.cases.gain import doubts_to_mend
from results.diff.environments import Difference
from results.rankings import RankChange, StoredRanking
from results.rankings.trust import stored_gain
from results.records.records import RunInfo
from roofline_model.core.answer import Option, Trust
from roofline_model.core.finding import Finding, findings_text, short_text
from roofline_model.core.units import format_speedup
from roofline_model.recommend.loss import loss_doubt, loss_text
from roofline_model.recommend.ranking import maybe_faster

_OF_THE_ROW = frozenset({"measurement-gone", "measured-time-rose", "measured-time-fell", "evidence-changed"})
"""Causes whose line is said of the row: `its` stands before it."""
_OF_OTHERS = frozenset({"order-of-others"})
"""Causes with that of another row behind them."""


def summary_of(ranking: StoredRanking) -> str:
    """Return the decision in a sentence: what, how fast against what, at what loss, how sure."""
    if ranking.first is None and ranking.excluded:
        return "nothing is left to recommend: see what was refused and why"
    choice, undecided = ranking.choice, undecided_text(ranking)
    if choice is None or undecided:
        return undecided
    loss = "" if choice.loss.source in ("reference", "unknown") else f", {loss_text(choice.loss)}"
    doubt = loss_doubt(choice.loss)
    loss += "" if doubt is None else f"; {short_text(doubt)}"
    unknown = ", its loss is unknown" if choice.loss.source == "unknown" else ""
    if ranking.gap is not None:
        loss += f"; {short_text(ranking.gap)}"
    return (
        f"{verb(choice, ranking)} {choice.label}: {evidence_text(choice)}{_gain_words(ranking, choice)}"
        f"{loss}{unknown}{tied_text(choice, ranking)}"
        f"{worth_trying(ranking)} (confidence {choice.trust.confidence}: "
        f"{confidence_words(choice.trust)}){rival_words(ranking) or _again_words(ranking, choice)}"
        f"{riskier_text(ranking)}"
    )


def reason_text(option: Option, ranking: StoredRanking) -> str:
    """Return why an option stands where it stands."""
    return _pass_reason(option, ranking) if ranking.question.subject == "model" else shape_reason(option, ranking)


def _pass_reason(option: Option, ranking: StoredRanking) -> str:
    """Return the speed-ups of a model's precision over the baseline, and what it holds."""
    if ranking.is_baseline(option):
        return "the baseline"
    words = []
    name = f" {ranking.baseline_label}" if ranking.baseline_label else ""
    kind = ACROSS_RUNS if option.trust.is_across_runs else "measured"
    ratios = (
        (kind, option.speedup_ratio if option.is_measured else None),
        ("expected", option.expected_speedup_ratio),
        ("ideal", option.ideal_speedup_ratio),
    )
    gains = [f"{source} {format_speedup(ratio)}" for source, ratio in ratios if ratio is not None]
    if gains:
        words.append(f"{gains[0]}{name}" + (f" ({', '.join(gains[1:])})" if gains[1:] else ""))
    if not option.is_measured:
        words.append("not measured")
    elif option.trust.speedup_night_count:
        words.append(f"speed-up: {speedup_basis_text(option.trust)}")
    if option.path == "emulated":
        words.append("emulated: every call decodes the weights")
    saved_ratio = None if option.memory is None else option.memory.saved_ratio
    if saved_ratio is not None:
        words.append(f"holds {(1 - saved_ratio) * 100:.0f} % of its 16-bit bytes")
    words += [short_text(item) for item in option.findings if item.code == "issue-bound"]
    return ", ".join(words) or "no baseline to compare with"


def calibration_text(ranking: StoredRanking) -> str:
    """Return why its expected times are in doubt, and what to do; empty where they are not."""
    return for_the_next(ranking.calibration_doubt)


def change_sentence(change: RankChange) -> str:
    """Return what became of a row, and why."""
    before_rank, after_rank, causes = change.before_rank, change.after_rank, change.causes
    if after_rank is None:
        return f"{change.label} is no longer ranked (was {_ordinal(before_rank)}): {findings_text(causes)}"
    if before_rank is None:
        return f"{change.label} is new, {_ordinal(after_rank)}: {_causes_text(causes)}"
    if after_rank == before_rank:
        lead = f"{change.label} stays {_ordinal(after_rank)}"
    else:
        verb = "rose" if after_rank < before_rank else "fell"
        lead = f"{change.label} {verb} from {_ordinal(before_rank)} to {_ordinal(after_rank)}"
    is_own = causes[0].code in _OF_THE_ROW
    text = f"{lead}: {'its ' if is_own else ''}{_causes_text(causes)}"
    # What differs between the machines explains a measured time and nothing else.
    if change.verdict is None or not change.environment or not (is_own or causes[0].code == "first-measured"):
        return text
    blocked = ", so roofline diff calls the runs not comparable" if change.is_blocked else ""
    return f"{text}; {_environment_text(change.environment)}{blocked}"


def _causes_text(causes: Sequence[Finding]) -> str:
    first, *rest = causes
    if first.code in _OF_OTHERS:
        return f"{short_text(first)} ({_causes_text(rest)})"
    joint = "; " if first.code == "option-above" else ": "
    return joint.join(map(short_text, causes))


def difference_text(difference: Difference) -> str:
    """Return a fact that differs between two machines, fit to be shown: `driver 580.95 → 590.12`."""
    return change_words(difference.name, difference.before, difference.after)


def _environment_text(differences: Sequence[Difference]) -> str:
    more = f" and {len(differences) - 2} more" if len(differences) > 2 else ""
    return f"{', '.join(map(difference_text, differences[:2]))}{more} differs"


def _ordinal(rank: int | None) -> str:
    assert rank is not None  # of a row that is or was ranked
    if rank % 100 in (11, 12, 13):
        return f"{rank}th"
    return f"{rank}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(rank % 10, 'th') }"


def run_words(run: RunInfo) -> str:
    """Return a run as a change names it: `run 3f2a91c0 (2026-11-21)`."""
    return f"run {run.run_id[:8]} ({run.started_at[:10]})"


def compared_text(ranking: StoredRanking) -> str:
    """Return the runs that its changes are about; empty without an earlier one."""
    if ranking.compared is None:
        return ""
    newest, earlier = ranking.compared
    return f"{run_words(newest)} against what {run_words(earlier)} and earlier ones said"


def _gain_words(ranking: StoredRanking, best: Option) -> str:
    """Return what the best gains over the baseline, no finer than both times bear; empty for the baseline itself."""
    if best.speedup_ratio is None or ranking.is_baseline(best) or not ranking.baseline_label:
        return ""
    gain = stored_gain(best, ranking)
    name, basis_text = ranking.baseline_label, speedup_basis_text(best.trust)
    basis = f" ({basis_text})" if basis_text else ""
    gain_text = f"{format_speedup(best.speedup_ratio)} {name}" if gain is None else gain.over(name)
    return f", {gain_text}{basis}{_overlap_words(ranking, best)}"


def rival_words(ranking: StoredRanking) -> str:
    """Return what may be faster than the first row and waits behind it for its loss; empty where nothing does."""
    rival = maybe_faster(ranking.options)
    if rival is None:
        return ""
    return maybe_faster_text(rival.label, stored_gain(rival, ranking), ranking.baseline_label)


def _again_words(ranking: StoredRanking, best: Option) -> str:
    """Return which of the times behind the decision is to be measured again; empty where none is in doubt."""
    gain = stored_gain(best, ranking)
    if gain is None:
        return "; measure it again" if best.is_measured and doubts_to_mend(best) else ""
    return f"; measure {doubtful_side(gain)} again" if gain.is_doubtful else ""


def _overlap_words(ranking: StoredRanking, best: Option) -> str:
    """Return `, though their intervals overlap` where the gain of a measured row could be chance."""
    base = next((row for row in ranking.options if ranking.is_baseline(row) and row.is_measured), None)
    if base is None or not best.is_measured or base.estimate.low_s is None or best.estimate.high_s is None:
        return ""
    return ", though their intervals overlap" if base.estimate.low_s <= best.estimate.high_s else ""


def speedup_words(option: Option) -> str:
    """Return `2.2×`, `2.2× !`, `2.2× across runs`, `–` without one."""
    return "–" if option.speedup_ratio is None else format_speedup(option.speedup_ratio) + speedup_marks(option.trust)


def speedup_marks(trust: Trust) -> str:
    """Return what belongs at a speed-up: ` !` over a baseline in doubt, ` across runs`."""
    across = f" {ACROSS_RUNS}" if trust.is_across_runs else ""
    return f"{' !' if trust.is_over_doubt else ''}{across}"


def confidence_words(trust: Trust) -> str:
    """Return why the confidence is what it is, of both times: `interval ±5.1 %; the baseline: doubtful (noisy)`."""
    reason, baseline_reason = _reasons_text(trust.reasons), _reasons_text(trust.baseline_reasons)
    return f"{reason}; the baseline: {baseline_reason}" if baseline_reason else reason


def short_confidence_words(trust: Trust) -> str:
    """Return the same where the baseline's own row says why: `interval ±5.1 %; the baseline is in doubt`."""
    reason = _reasons_text(trust.reasons)
    if not trust.baseline_reasons:
        return reason
    return f"{reason}; the baseline is {'in doubt' if trust.is_over_doubt else 'less sure'}"


def _reasons_text(reasons: Iterable[Finding]) -> str:
    return ", ".join(map(short_text, reasons))
