"""The words of a ranking of cases: why an option stands where it stands, what is first, and why others are not
ranked.
"""

from __future__ import annotations

from reports.present.words.verdict_text import (
    doubt_text,
    maybe_faster_text,
    origin_text,
    possible_loss_text,
    within_limit_text,
)
from results.cases.gain import doubts_to_mend, gain_over_baseline, roughly
from roofline_model.core.answer import Option, Ranking, Trust
from roofline_model.core.finding import findings_text, first_with, has_code, optional_text, short_text
from roofline_model.core.units import counted, format_percent, format_speedup, format_time
from roofline_model.recommend.ranking import MAX_LOSS_PCT, Limits, is_within_choice_limit, maybe_faster, tied_with

_NAMED_LEVEL = 2
"""Options by name that the choice is tied with."""
ACROSS_RUNS = "across runs"
"""The basis of a speed-up that no night measured: the ratio of two levels of different nights."""


def speedup_basis_text(trust: Trust) -> str:
    """Return what to write at a speed-up: `median of 3 runs, all disturbed`, `1 run`, `across runs`; empty where option
    and baseline rest on the same runs.
    """
    count = trust.speedup_night_count
    if not count:
        return "" if count is None else ACROSS_RUNS
    many = "median of " if count > 1 else ""
    doubt = "" if not trust.is_speedup_disturbed else ", all disturbed" if count > 1 else ", disturbed"
    return f"{many}{counted(count, 'run')}{doubt}"


def stale_text(trust: Trust) -> str:
    """Return why a measurement may no longer hold; empty where it does."""
    return findings_text(trust.stale)


def kernel_gap_text(option: Option) -> str:
    """Return why no kernel is known to run an option on the chip; empty for the others."""
    return optional_text(first_with(option.findings, "kernel-gap")) or ""


def excluded_texts(ranking: Ranking) -> tuple[tuple[str, str], ...]:
    """Return (configuration or format, why it is not ranked), each once."""
    pairs = ((each.label, findings_text(each.findings)) for each in ranking.excluded)
    return tuple(dict.fromkeys(pairs))


def baseline_name(ranking: Ranking) -> str:
    """Return the formats of the baseline; empty where no run has one."""
    return "" if ranking.baseline is None or ranking.baseline.kernel is None else ranking.baseline.precision


def shape_reason(option: Option, ranking: Ranking) -> str:
    """Return why an option of a shape stands where it stands: its speed-ups, its share of the roof, what bounds it."""
    if option.kernel is None:  # the model proposes the format, and says why
        return findings_text(item for item in option.findings if item.code != "emulated")
    measured, ideal = option.times.measured, option.times.ideal
    words = [_speedup_words(option, ranking)]
    if measured is not None and ideal is not None:
        words.append(f"{format_percent(ideal.time_s / measured.time_s, 0)} of its roof")
    if option.bound:
        words.append(f"{option.bound}-bound")
    widened = first_with(option.findings, "operands-widened")
    if option.path == "emulated":
        words.append("emulated, not native")
    elif widened is not None:
        words.append(f"widened to {widened.value('compute_format')} first")
    if has_code(option.findings, "emulated"):
        words.append("the prediction leaves out what emulating costs")
    if option.trust.speedup_night_count:
        words.append(f"speed-up: {speedup_basis_text(option.trust)}")
    return ", ".join(words)


def _speedup_words(option: Option, ranking: Ranking) -> str:
    """Return the speed-ups of what was run, the one of the best evidence first."""
    if ranking.is_baseline(option):
        return "the baseline"
    name = baseline_name(ranking)
    ideal, expected = option.ideal_speedup_ratio, option.expected_speedup_ratio
    if option.is_measured:
        if option.speedup_ratio is None or not name:
            return f"{origin_text(option)}; no measured 16-bit or FP32 kernel to compare with"
        promises = [f"expected {format_speedup(expected)}"] if expected is not None else []
        promises += [f"ideal {format_speedup(ideal)}"] if ideal is not None else []
        promised = f" ({', '.join(promises)})" if promises else ""
        kind = ACROSS_RUNS if option.trust.is_across_runs else origin_text(option)
        return f"{kind} {format_speedup(option.speedup_ratio)} {name}{promised}"
    if ideal is None:
        return "predicted, not measured"
    if expected is None:
        return f"ideal {format_speedup(ideal)} {name}, not measured"
    return f"expected {format_speedup(expected)} {name} (ideal {format_speedup(ideal)}), not measured"


def shape_summary(ranking: Ranking) -> str:
    """Return what to take, how much it gains, what it is tied with, which time is in doubt, and what is riskier."""
    choice, undecided = ranking.choice, undecided_text(ranking)
    if choice is None or undecided:
        return undecided
    gain, name = gain_over_baseline(choice, ranking), baseline_name(ranking) or "16 bit"
    gain_text = f", {gain.over(name)}" if gain else ""
    if gain is None and choice.speedup_ratio is not None and not ranking.is_baseline(choice):
        gain_text = f", {format_speedup(choice.speedup_ratio)} {name}"
    text = f"{verb(choice, ranking)} {choice.label}: {evidence_text(choice)}{gain_text}"
    text += f"{tied_text(choice, ranking)}{worth_trying(ranking)}"
    doubts = doubts_to_mend(choice)
    rival = maybe_faster(ranking.options)
    if rival is not None:
        text += maybe_faster_text(rival.label, gain_over_baseline(rival, ranking), name)
    elif gain is not None and gain.is_doubtful:
        text += f"; {doubt_text(gain)}"
    elif choice.is_measured and doubts:
        text += f"; its time is doubtful ({', '.join(doubts)}): measure it again"
    return text + riskier_text(ranking)


def undecided_text(ranking: Ranking) -> str:
    """Return why nothing is decided: nothing to rank, no result, nothing to take or to compare; empty where an option
    is taken of several.
    """
    best, choice = ranking.first, ranking.choice
    if best is None:
        return "nothing could be ranked: no case was measured or predicted"
    if ranking.gap is not None and choice is None:
        return f"no result: {short_text(ranking.gap)}"
    if has_code(best.findings, "emulated"):
        return f"only emulated kernels were predicted ({best.label}), without what emulating costs"
    if choice is None:
        return nothing_to_take(ranking)
    return "" if ranking.is_contest else nothing_to_compare(choice, ranking)


def nothing_to_take(ranking: Ranking) -> str:
    """Return why there is nothing to take of options in order: no kernel runs the first, or its loss is too large."""
    # A format that the model proposes was not asked for: what the run holds comes first.
    best = next((option for option in ranking.options if option.kernel is not None), ranking.options[0])
    gap = kernel_gap_text(best)
    if best.kernel is None and not gap:
        return f"no case has a time; first by its prediction: {best.label}, {evidence_text(best)}"
    if gap:
        return f"no kernel is known to run any configuration here; first by its prediction: {best.label} ({gap})"
    if ranking.baseline is None and best.loss.pct is None:
        fastest = f"{best.label} is fastest, {evidence_text(best)}"
        return f"{fastest}; no 16-bit or FP32 kernel to compare with, and no loss is known{worth_trying(ranking)}"
    reason = f"{best.label}: {possible_loss_text(best.loss)}, and {within_limit_text(None)}"
    return f"nothing to take: {reason}{worth_trying(ranking)}"


def nothing_to_compare(choice: Option, ranking: Ranking) -> str:
    """Return what is known of the only case of a ranking."""
    return f"{alone_text(choice.label)}: {evidence_text(choice)}{worth_trying(ranking)}"


def alone_text(label: str) -> str:
    """Return what to take of the only case of a ranking."""
    return f"nothing to choose yet, {label} alone"


def verb(choice: Option, ranking: Ranking) -> str:
    """Return what to do with the choice."""
    return "stay with" if ranking.is_baseline(choice) else "take" if choice.is_measured else "try"


def evidence_text(option: Option) -> str:
    """Return `measured 432 µs`, `not measured, expected 432 µs`."""
    estimate = option.estimate
    return f"{'' if option.is_measured else 'not measured, '}{origin_text(option)} {format_time(estimate.time_s)}"


def tied_text(choice: Option, ranking: Ranking) -> str:
    """Return `; tied with INT8 (W8A8) · int_mm and 2 more`; empty where the choice is tied with nothing."""
    level = tied_with(choice, ranking.options)
    more = f" and {len(level) - _NAMED_LEVEL} more" if len(level) > _NAMED_LEVEL else ""
    return f"; tied with {', '.join(each.label for each in level[:_NAMED_LEVEL])}{more}" if level else ""


def riskier_text(ranking: Ranking) -> str:
    """Return `. Faster, riskier: INT4 (W4A16), 1.8×, may lose 6.5 %`; empty where nothing is."""
    riskier = next((each.option for each in ranking.alternatives if each.role == "riskier"), None)
    if riskier is None:
        return ""
    ratio, trust = riskier.speedup_ratio, riskier.trust
    is_doubtful = riskier.is_measured and (trust.is_over_doubt or bool(doubts_to_mend(riskier)))
    gain = "" if ratio is None else f", about {roughly(ratio)}" if is_doubtful else f", {format_speedup(ratio)}"
    return f". Faster, riskier: {riskier.label}{gain}, {possible_loss_text(riskier.loss)}"


def worth_trying(ranking: Ranking) -> str:
    """Return the first prediction within the limit of the loss that promises more than the measured choice gained;
    empty where none does.
    """
    best = ranking.choice or ranking.first
    if best is None or not best.is_measured:
        return ""
    gained = best.speedup_ratio if ranking.choice is not None else None
    limits = Limits(choice_loss_pct=MAX_LOSS_PCT)
    candidates = (
        option for option in ranking.runnable if not option.is_measured and is_within_choice_limit(option, limits)
    )
    promise = next((option for option in candidates if not has_code(option.findings, "emulated")), None)
    if promise is None or promise.speedup_ratio is None or promise.speedup_ratio <= max(gained or 1.0, 1.0):
        return ""
    gain = format_speedup(promise.speedup_ratio)
    return f"; worth trying: {promise.label}, {promise.estimate.source} {gain} and not measured here"
