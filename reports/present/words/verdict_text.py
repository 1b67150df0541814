"""Verdicts in words: on a shape, which configuration wins, by how much, and what weakens that; on a phase, what to do
(`Action`): the option to take, what it rests on, and what speaks against relying on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from results.cases.gain import Gain, measured_gain
from results.cases.phase_ranking import PhaseRanking
from results.cases.shape_verdict import (
    BASELINE_TIE_RATIO,
    ShapeVerdict,
    expected_speedup,
    has_few_samples,
    is_emulation,
    precision_name,
    speedups,
    time_text,
)
from results.records.flags import FLAGS, INVALIDATING_FLAGS
from roofline_model.core.answer import NO_RESULT, AlternativeRole, Loss, Option, Ranking
from roofline_model.core.finding import Finding, by_severity, code_text, short_text
from roofline_model.core.units import counted, format_percent, format_speedup, format_time
from roofline_model.recommend.loss import loss_doubt
from roofline_model.recommend.ranking import MAX_LOSS_PCT

_ORIGIN_FLAGS = ("forced", "simulated")
"""Flags that say where a time comes from."""
_NARROWER = {"measured": "was measured", "expected": "has an expected time", "ideal": "was predicted"}
"""Source of the best time → what no narrower format has."""
SMALL_LEAD_RATIO = 1.1
"""Leads below this are told in percent."""
_ROLES = {"riskier": "Faster, riskier", "lower-loss": "Lower loss", "safest": "Safest"}


def verdict_text(judged: ShapeVerdict, lone: Option | None = None) -> str:
    """Return one plain line, e.g. `take INT8 (W8A8) · int_mm: ideal 2.0× BF16, measured 1.9×`, and what weakens it.

    `lone`: the one option of a whole model, under the model's own label for it.
    """
    if judged.gap is not None:
        return f"no result: {short_text(judged.gap)}"
    remarks = [f"doubtful: {', '.join(judged.doubts)}"] if judged.doubts else []
    remarks += [f"{flag}: {code_text(flag)}" for flag in _ORIGIN_FLAGS if flag in judged.flags]
    return (_judgement(judged) if lone is None else lone_text(lone)) + (f" ({'; '.join(remarks)})" if remarks else "")


def _judgement(judged: ShapeVerdict) -> str:
    best, baseline = judged.best, judged.baseline
    if best is None:
        if judged.options:
            return f"only emulated kernels were predicted ({judged.options[0].label}), without what emulating costs"
        reasons = list(dict.fromkeys(record.reason or record.status for record in judged.lost))
        return f"nothing measured or predicted ({counted(len(judged.lost), 'case')}: {'; '.join(reasons[:2])})"
    if len(judged.options) == 1:
        return f"{best.label} {time_text(best)}; nothing else ran on this shape"
    if judged.is_untrained:
        return f"{_fastest(judged, best)}; untrained weights: no advice"
    choice, riskier, rival = judged.choice, judged.riskier, judged.rival
    if best is baseline and rival is None:
        return f"{_fastest(judged, best)}; no narrower format {_NARROWER[best.estimate.source]}"
    if baseline is None or choice is None:
        within = "" if choice is best else f"; {within_limit_text(choice)}"
        return f"{_fastest(judged, best)}; no 16-bit or FP32 kernel to compare with{within}"
    risk = "" if riskier is None else f". Faster, riskier: {_beyond_limit(riskier, baseline)}"
    if choice is baseline:
        return f"{_staying(judged, baseline)}{risk}"
    pair = judged.level_pair
    if choice is best and pair is not None and pair[0] is best:
        return f"{best.label} is tied with {pair[1].label}: {level_text(*pair)}"
    shared = f"; tied with {_and_more(judged.equals)}" if judged.equals and choice is best else ""
    return f"{'take' if choice.is_measured else 'try'} {choice.label}: {comparison(choice, baseline)}{shared}{risk}"


def _staying(judged: ShapeVerdict, baseline: Option) -> str:
    """Return why to stay with the baseline: what is tied with it, or how far the best narrow format is behind."""
    stay, rival, pair = f"stay with {baseline.label}", judged.rival, judged.level_pair
    if rival is None:
        return f"{stay}: nothing within a loss of {MAX_LOSS_PCT:g} % is clearly faster"
    if pair is not None and pair[0] is rival:
        return f"{stay}: {rival.label} is tied with it, {level_text(*pair)}"
    if is_emulation(rival) and not rival.is_measured:
        return f"{stay}: {rival.label} is emulated, and its prediction leaves out what that costs"
    return f"{stay}, {time_text(baseline)}: {rival.label} {comparison(rival, baseline)}"


def _beyond_limit(option: Option, baseline: Option) -> str:
    """Return an option beyond the limit of the loss: its speed-up by the best evidence, and what it may lose."""
    gain, expected = measured_gain(option, baseline), expected_speedup(option, baseline)
    ideal, _ = speedups(option, baseline)
    ratio, source = (ideal, "ideal") if expected is None else (expected, "expected")
    figure = "" if ratio is None else f", {source} {format_speedup(ratio)}"
    if gain is not None:
        figure = f", {origin_text(option)} {gain.figure}"
    return f"{option.label}{figure}, {possible_loss_text(option.loss)}"


def within_limit_text(option: Option | None) -> str:
    """Return which option stays within the default limit of the loss."""
    if option is None:
        return f"no option is known to lose at most {MAX_LOSS_PCT:g} %"
    return f"first within a loss of {MAX_LOSS_PCT:g} %: {option.label}"


def possible_loss_text(loss: Loss) -> str:
    """Return `may lose 6.5 %`, or that nobody knows."""
    return "its loss is unknown" if loss.pct is None else f"may lose {loss.pct:.3g} %"


def _fastest(judged: ShapeVerdict, best: Option) -> str:
    """Return the fastest option and its lead, or that options are level, where formats cannot be compared."""
    pair = judged.level_pair
    tied = judged.equals or (pair[1:] if pair is not None and pair[0] is best else ())
    if tied:
        return f"{best.label} and {_and_more(tied)} are tied: {level_text(best, tied[0])}"
    second = judged.runner_up
    predicted, measured = speedups(best, second)
    likely = expected_speedup(best, second) if best.estimate.source == "expected" else predicted
    ratio = measured if best.is_measured else likely
    lead = "" if ratio is None or second is None else f"; {second.label} takes {_longer_text(ratio)}"
    return f"{best.label} is fastest, {time_text(best)}{lead}"


def _longer_text(ratio: float) -> str:
    """Return `1.3× as long`; of a small lead `2 % longer`, where a factor would read 1.0×."""
    if 1 < ratio < SMALL_LEAD_RATIO:
        return f"{format_percent(ratio - 1, 0)} longer"
    return f"{format_speedup(ratio)} as long"


def in_doubt_text(gain: Gain) -> str:
    """Return which time of a speed-up is in doubt; empty for none."""
    if gain.doubts and gain.baseline_doubts:
        return "both times are doubtful"
    if gain.doubts:
        return "its time is doubtful"
    return "the baseline's time is doubtful" if gain.baseline_doubts else ""


def doubtful_side(gain: Gain) -> str:
    """Return the side to measure again: `it`, `the baseline` or `both`; empty without doubts."""
    if gain.doubts and gain.baseline_doubts:
        return "both"
    return "it" if gain.doubts else "the baseline" if gain.baseline_doubts else ""


def doubt_text(gain: Gain) -> str:
    """Return the same with the reason and what to do: `the baseline's time is doubtful (noisy): measure it again`."""
    if not gain.is_doubtful:
        return ""
    doubts = {*gain.doubts, *gain.baseline_doubts}
    reasons = [*(flag for flag in FLAGS if flag in doubts), *sorted(doubts.difference(FLAGS))]
    subject = "both" if gain.doubts and gain.baseline_doubts else "it"
    return f"{in_doubt_text(gain)} ({', '.join(reasons)}): measure {subject} again"


def maybe_faster_text(label: str, gain: Gain | None, baseline_name: str) -> str:
    """Return the note on `maybe_faster` behind the chosen option: figure, range, and the deciding measurement."""
    figures = "" if gain is None else f", {gain.figure} {baseline_name}{gain.range_text}"
    return f"; {label} may be faster{figures}, but their intervals overlap: measure both again"


def comparison(option: Option, baseline: Option) -> str:
    """Return the predicted and the measured speed-up: `expected 2.6× BF16 (ideal 3.8×), measured 2.5×`; of times in
    doubt `measured about 2.5×`.
    """
    gain = measured_gain(option, baseline)
    name = precision_name(baseline)
    promised = promise(option, baseline, name)
    if gain is not None:
        # Without a promise the baseline has not been named yet.
        figure = f"{origin_text(option)} {gain.figure}"
        return f"{promised}, {figure}" if promised else f"{figure} {name}"
    first = f"{promised}, " if promised else ""
    if option.is_measured:
        return f"{first}{time_text(option)} (no 16-bit or FP32 kernel was measured)"
    return f"{first}not measured" if first else f"{time_text(option)}, not measured"


def promise(option: Option, baseline: Option, name: str = "") -> str:
    """Return the predicted speed-up: `expected 2.6× BF16 (ideal 3.8×)`, `ideal 3.8× BF16` where no expected time is
    known, empty without either. An ideal alone is never given where something likelier is known."""
    ideal, _ = speedups(option, baseline)
    expected, over = expected_speedup(option, baseline), f" {name}" if name else ""
    if expected is None:
        return "" if ideal is None else f"ideal {format_speedup(ideal)}{over}"
    return f"expected {format_speedup(expected)}{over}" + ("" if ideal is None else f" (ideal {format_speedup(ideal)})")


def level_text(option: Option, baseline: Option) -> str:
    """Return how two that are tied compare: `expected 1.1× (ideal 2.0×), measured 1.0× within the intervals`."""
    _, measured = speedups(option, baseline)
    promised = promise(option, baseline)
    parts = [promised] if promised else []
    if measured is None:
        parts.append("not measured")
    elif has_few_samples(option, baseline):
        parts.append(f"{origin_text(option)} {format_speedup(measured)}, of too few samples to tell the two apart")
    elif abs(measured - 1) < BASELINE_TIE_RATIO:
        parts.append(f"{origin_text(option)} {format_speedup(measured)} within the intervals")
    else:
        which = "faster" if measured > 1 else "slower"
        parts.append(f"{which} by the medians ({format_speedup(measured)}), but their intervals overlap")
    return ", ".join(parts)


def _and_more(options: Sequence[Option]) -> str:
    return options[0].label + (f" and {len(options) - 1} more" if len(options) > 1 else "")


@dataclass(frozen=True, slots=True)
class Action:
    """One line of advice."""

    phase: str
    """Decode, Prefill, `seeded-llama-156m, batch 1, 128 tokens: decode`, or an operator."""
    take: str
    """`take INT8 (W8A8) · int_mm`, `try …` where nobody measured it, `measure again before you take …`, `stay with …`.
    """
    evidence: str
    caveat: str
    """What speaks against relying on it; empty where nothing is known to."""
    record_ids: tuple[str, ...] = ()
    """The records of the option that it rests on."""

    @property
    def sentence(self) -> str:
        """The whole line."""
        caveat = f" But: {self.caveat}." if self.caveat else ""
        return f"{self.phase}: {self.take}, {self.evidence}.{caveat}"


def actions(rankings: Iterable[PhaseRanking]) -> tuple[Action, ...]:
    """Return a line per phase."""
    return tuple(map(action_of, rankings))


def action_of(phase: PhaseRanking) -> Action:
    """Return what to do in a phase."""
    choice, ranking = phase.choice, phase.ranking
    gap = next((item for item in ranking.findings if item.code in NO_RESULT), None)
    if gap is not None:
        return Action(phase.title, "no result", short_text(gap), "")
    nearest = ranking.nearest
    if nearest is not None and not phase.is_contest and ranking.question.subject == "model" and nearest.is_measured:
        doubts = f"its time is in doubt ({', '.join(nearest.trust.doubts)})" if nearest.trust.doubts else ""
        return Action(phase.title, *_lone_texts(nearest), doubts, nearest.record_ids)
    if choice is None:
        ids = () if nearest is None else nearest.record_ids
        return Action(phase.title, "take nothing yet", _none_text(phase), "", ids)
    if not phase.is_contest:
        return Action(
            phase.title,
            f"nothing to choose yet ({choice.label} alone)",
            f"one configuration with a time {_where(phase)}",
            "measure a second one to compare with",
            choice.record_ids,
        )
    caveats = (
        _unmeasured(choice),
        _doubts(phase),
        _token_doubt(choice),
        _finding_text(phase),
        *map(short_text, phase.caveats),
    )
    caveat = "; ".join(text for text in caveats if text)
    baseline = ranking.baseline
    if baseline is not None and choice.key == baseline.key:
        name = choice.label if _has_one_precision(phase) else choice.precision
        return Action(phase.title, f"stay with {name}", _stay_text(phase), caveat, choice.record_ids)
    return Action(phase.title, f"{_verb(phase)} {choice.label}", _gain_text(phase, choice), caveat, choice.record_ids)


def _where(phase: PhaseRanking) -> str:
    """Return `at 1x4096x4096`, `in the sum of 4 shapes`, `in the sum of 2 of 4 shapes`; nothing of a whole model."""
    if phase.ranking.question.subject == "model":
        return "with this model"
    if phase.shape_count == 1:
        return f"at {phase.places[0]}"
    count = len(phase.places)
    return (
        f"in the sum of {counted(count, 'shape')}"
        if count == phase.shape_count
        else f"in the sum of {count} of {phase.shape_count} shapes"
    )


def lone_text(option: Option) -> str:
    """Return what was measured where there is nothing to compare with: the rate, and its share of a good kernel's."""
    return ", ".join(_lone_texts(option))


def _lone_texts(option: Option) -> tuple[str, str]:
    times = option.times
    rate = (
        format_time(times.measured_s) if option.tokens_per_s is None else f"{tokens_text(option.tokens_per_s)} tokens/s"
    )
    whose, likely_s = ("a good kernel's", times.expected_s) if times.expected_s else ("the ideal", times.ideal_s)
    if not likely_s or not times.measured_s:
        share = "with no prediction to compare with"
    elif "above-roof" in option.trust.doubts and times.ideal_s:
        share = above_roof_text(times.ideal_s / times.measured_s)
    else:
        share = f"{format_percent(likely_s / times.measured_s, 0)} of {whose} rate"
    return f"{option.label} {origin_text(option)} {rate}", share


def above_roof_text(ratio: float) -> str:
    """Return what a rate is that no kernel can reach, as a multiple of the ideal one."""
    return f"{format_speedup(ratio)} the ideal rate, more than the chip allows: check chip and format"


def tokens_text(rate: float | None) -> str:
    """Print tokens per second with three digits: `77.5`, `1,940`; missing → `–`."""
    return "–" if rate is None else three_digits(rate)


def three_digits(value: float) -> str:
    """Print a number with three digits and separated thousands."""
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 99.95 else f"{value:.3g}"


def _none_text(phase: PhaseRanking) -> str:
    """Return why there is nothing to take."""
    return f"{short_text(_named(phase.ranking.headline, phase.ranking))} {_where(phase)}"


def _named(item: Finding, ranking: Ranking) -> Finding:
    """Return a finding with the labels of options in place of their keys, which of stored ones are hashes."""
    excluded = (each.option for each in ranking.excluded if each.option is not None)
    labels = {option.key: option.label for option in (*ranking.options, *excluded)}
    values = tuple((name, labels.get(value, value) if isinstance(value, str) else value) for name, value in item.values)
    return replace(item, subject=labels.get(item.subject, item.subject), values=values)


def _stay_text(phase: PhaseRanking) -> str:
    """Return why to stay: nothing within the limit is faster, and on which evidence."""
    choice = phase.choice
    source = origin_text(choice) if choice is not None and choice.is_measured else "predicted"
    if _has_one_precision(phase):
        return f"the fastest kernel {_where(phase)} ({source}); no narrower format to compare with"
    return f"because nothing within a loss of {MAX_LOSS_PCT:g} % is clearly faster {_where(phase)} ({source})"


def _has_one_precision(phase: PhaseRanking) -> bool:
    """Return whether kernels of one precision compete, and several do."""
    ranking = phase.ranking
    options = [*ranking.options, *(each.option for each in ranking.excluded if each.option is not None)]
    return len(options) > 1 and len({option.precision for option in options}) == 1


def origin_text(choice: Option) -> str:
    """Return where the time of a choice comes from: a simulated one was measured by no clock."""
    return "simulated" if "simulated" in choice.flags else choice.estimate.source


def _gain_text(phase: PhaseRanking, choice: Option) -> str:
    """Return the speed-up of the choice: `measured 1.6× BF16 in the sum of 2 shapes`."""
    baseline = phase.ranking.baseline
    source = origin_text(choice)
    if baseline is None:
        return f"{source}, no 16-bit or FP32 time to compare with, {_where(phase)}"
    return f"{source} {gain_text(choice, baseline)} {baseline.precision} {_where(phase)}"


def gain_text(option: Option, baseline: Option) -> str:
    """Return a speed-up: `1.6×`; `about 1.6×` where a measured time behind it is in doubt; a dash where there is
    none.
    """
    gain = measured_gain(option, baseline) if option.is_measured and option.key != baseline.key else None
    if gain is not None:
        return gain.figure
    return format_speedup(option.speedup_ratio)


def role_text(role: AlternativeRole) -> str:
    """Return the role of an alternative: `Faster, riskier`."""
    return _ROLES[role]


def loss_figure(loss: Loss) -> str:
    """Return a loss in percent, a published one as its bound: `0.5 %`, `≤ 6.5 %`, `0`, `unknown`."""
    if loss.pct is None:
        return "unknown"
    if loss.source == "reference":
        return "0"
    return f"{'≤ ' if loss.source == 'claimed' else ''}{loss.pct:.2g} %"


def _verb(phase: PhaseRanking) -> str:
    """Return what to do with the choice: nobody should take what was timed while something else had the machine."""
    if phase.choice is not None and not phase.choice.is_measured:
        return "try"
    return "measure again before you take" if set(phase.doubts).intersection(INVALIDATING_FLAGS) else "take"


def _unmeasured(choice: Option) -> str:
    return "" if choice.is_measured else "not measured here"


def _doubts(phase: PhaseRanking) -> str:
    """Return which times are in doubt, why, and what to do; empty where none is."""
    choice, baseline = phase.choice, phase.ranking.baseline
    own_doubts = () if choice is None else choice.trust.doubts
    based = () if baseline is None or baseline is choice else baseline.trust.doubts
    if not own_doubts and not based:
        return ""
    which = "both times are" if own_doubts and based else "its time is" if own_doubts else "the baseline's time is"
    return f"{which} in doubt ({', '.join(dict.fromkeys((*own_doubts, *based)))}): measure again"


def _finding_text(phase: PhaseRanking) -> str:
    """Return the gravest finding of the ranking as a whole; empty where there is nothing but remarks."""
    decision = {item.code for item in phase.ranking.decision}
    grave = [item for item in phase.ranking.findings if item.severity != "info" and item.code not in decision]
    return short_text(_named(by_severity(grave)[0], phase.ranking)) if grave else ""


def _token_doubt(choice: Option) -> str:
    doubt = loss_doubt(choice.loss)
    return "" if doubt is None else short_text(doubt)
