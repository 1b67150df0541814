"""The sentences of a ranking: what to take, and what is missing to say more."""

from __future__ import annotations

from collections.abc import Sequence

from reports.stored.answer import ACROSS_RUNS, StoredRanking
from reports.stored.ordering import level_with, maybe_faster_option
from reports.stored.rows.baseline_trust import doubts_to_mend, told_gain
from reports.stored.rows.levels import CaseLevel
from reports.text.display_text import shown
from results.text.verdict_text import doubtful_side, maybe_faster_text
from results.verdicts.gain import times_faster
from roofline_model.core.answer import Option, Trust
from roofline_model.core.finding import Finding, finding, first_with, has_code, short_text
from roofline_model.core.units import format_time
from roofline_model.recommend.loss import loss_doubt, loss_text

_EVIDENCE = {"measured": "measured", "expected": "not measured, expected", "ideal": "not measured, ideal only"}
_SHOWN_LEVEL = 2


def summary_of(ranking: StoredRanking) -> str:
    """Return the decision in a sentence: what, how fast against what, at what loss, how sure."""
    best = ranking.best
    if best is None:
        if ranking.refused:
            return "nothing is left to recommend: see what was refused and why"
        return "nothing could be ranked: no case was measured or predicted"
    if has_code(best.findings, "emulated"):
        return f"only emulated kernels were predicted ({best.label}), without what emulating costs"
    faster = [row for row in level_with(best, ranking.rows) if ranking.rank_of(row) > 1]
    told = ", ".join(one.label for one in faster[:_SHOWN_LEVEL])
    more = f" and {len(faster) - _SHOWN_LEVEL} more" if len(faster) > _SHOWN_LEVEL else ""
    level = f"; level with it: {told}{more}" if faster else ""
    gain = _gain_words(ranking, best)
    gap = first_with(best.findings, "kernel-gap")
    if gap is not None:
        return f"no kernel is known to run any configuration here; first by its prediction: {best.label} ({shown(short_text(gap))})"
    verb = "stay at" if ranking.is_baseline(best) else "take" if best.is_measured else "try"
    loss = "" if best.loss.source in ("reference", "unknown") else f", {loss_text(best.loss)}"
    doubt = loss_doubt(best.loss)
    loss += "" if doubt is None else f"; {short_text(doubt)}"
    unknown = ", its loss is unknown" if best.loss.source == "unknown" else ""
    return (
        f"{verb} {best.label}: {_EVIDENCE[best.estimate.source]} {format_time(best.estimate.time_s)}{gain}{loss}{unknown}{level}"
        f"{_worth_trying(ranking, best)} (confidence {best.trust.confidence}: {confidence_words(best.trust)}){rival_words(ranking) or _again_words(ranking, best)}"
    )


def _gain_words(ranking: StoredRanking, best: Option) -> str:
    """Return what the best gains over the baseline, no finer than both times bear; empty for the baseline itself."""
    if best.speedup_ratio is None or ranking.is_baseline(best) or not ranking.baseline_label:
        return ""
    gain = told_gain(best, ranking)
    name, basis = ranking.baseline_label, f" ({best.trust.speedup_basis})" if best.trust.speedup_basis else ""
    told = f"{times_faster(best.speedup_ratio)} {name}" if gain is None else gain.over(name)
    return f", {told}{basis}{_overlap_words(ranking, best)}"


def rival_words(ranking: StoredRanking) -> str:
    """Return what may be faster than the first row and waits behind it for its loss; empty where nothing does."""
    rival = maybe_faster_option(ranking.rows)
    if rival is None:
        return ""
    return maybe_faster_text(rival.label, told_gain(rival, ranking), ranking.baseline_label)


def _again_words(ranking: StoredRanking, best: Option) -> str:
    """Return which of the times behind the decision is to be measured again; empty where none is in doubt."""
    gain = told_gain(best, ranking)
    if gain is None:
        return "; measure it again" if best.is_measured and doubts_to_mend(best.trust.doubts) else ""
    return f"; measure {doubtful_side(gain)} again" if gain.is_doubtful else ""


def _overlap_words(ranking: StoredRanking, best: Option) -> str:
    """Return `, though their intervals overlap` where the gain of a measured row could be chance."""
    base = next((row for row in ranking.rows if ranking.is_baseline(row) and row.is_measured), None)
    if base is None or not best.is_measured or base.estimate.low_s is None or best.estimate.high_s is None:
        return ""
    return ", though their intervals overlap" if base.estimate.low_s <= best.estimate.high_s else ""


def missing_of(ranking: StoredRanking, rows: Sequence[Option], levels: Sequence[CaseLevel]) -> tuple[Finding, ...]:
    """Return what is not known of a ranking, and what would tell. `rows`: all of it, those beyond the limits too."""
    findings = []
    measured = [row for row in rows if row.is_measured]
    if not measured:
        findings.append(finding("none-measured"))
    elif len(measured) == 1:
        findings.append(finding("one-measured", measured[0].label))
    if not ranking.baseline_label:
        findings.append(finding("baseline-missing"))
    elif measured and not any(ranking.is_baseline(row) and row.is_measured for row in rows):
        findings.append(finding("baseline-unmeasured", ranking.baseline_label))
    unknown = [row for row in rows if row.loss.source == "unknown"]
    if unknown:
        findings.append(finding("losses-unknown", options=_labels(unknown)))
    forced_count = sum(level.runs[-1].is_forced for level in levels)
    if forced_count:
        findings.append(finding("forced-unused", case_count=forced_count))
    stale = [row for row in rows if row.trust.stale_reason]
    if stale:
        findings.append(finding("stale", options=_labels(stale), reason=stale[0].trust.stale_reason))
    classes = {level.newest.environment.class_hash for level in levels if level.is_measured}
    if len(classes) > 1:
        findings.append(finding("environments-mixed"))
    return tuple(findings)


def _worth_trying(ranking: StoredRanking, best: Option) -> str:
    """Name the first prediction that promises more than the measured best gained."""
    if not best.is_measured:
        return ""
    promise = next(
        (row for row in ranking.runnable if not row.is_measured and not has_code(row.findings, "emulated")), None
    )
    if promise is None or promise.speedup_ratio is None or promise.speedup_ratio <= max(best.speedup_ratio or 1.0, 1.0):
        return ""
    gain = times_faster(promise.speedup_ratio)
    return f"; worth trying: {promise.label}, {promise.estimate.source} {gain} and not measured here"


def _labels(rows: Sequence[Option]) -> tuple[str, ...]:
    names = list(dict.fromkeys(row.label for row in rows))
    return (*names[:3], *([f"{len(names) - 3} more"] if len(names) > 3 else []))


def speedup_words(option: Option) -> str:
    """Return `2.2×`, `2.2× !`, `2.2× across runs`, `–` without one."""
    return "–" if option.speedup_ratio is None else times_faster(option.speedup_ratio) + speedup_marks(option.trust)


def speedup_marks(trust: Trust) -> str:
    """Return what belongs at a speed-up: ` !` over a baseline in doubt, ` across runs`."""
    across = f" {ACROSS_RUNS}" if trust.speedup_basis == ACROSS_RUNS else ""
    return f"{' !' if trust.is_over_doubt else ''}{across}"


def confidence_words(trust: Trust) -> str:
    """Return why the confidence is what it is, of both times: `interval ±5.1 %; the baseline: doubtful (noisy)`."""
    return f"{trust.reason}; the baseline: {trust.baseline_reason}" if trust.baseline_reason else trust.reason


def short_confidence_words(trust: Trust) -> str:
    """Return the same where the baseline's own row says why: `interval ±5.1 %; the baseline is in doubt`."""
    if not trust.baseline_reason:
        return trust.reason
    return f"{trust.reason}; the baseline is {'in doubt' if trust.is_over_doubt else 'less sure'}"
