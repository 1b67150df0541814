"""What to do, in one line per phase: the option to take, what it rests on, and what speaks against relying on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from results.diff.rules import INVALIDATING_FLAGS
from results.verdicts.gain import measured_gain
from results.verdicts.phase_ranking import PhaseRanking
from roofline_model.core.answer import NO_RESULT, AlternativeRole, Loss, Option
from roofline_model.core.finding import by_severity, short_text
from roofline_model.core.units import counted, format_speedup
from roofline_model.recommend.loss import loss_doubt
from roofline_model.recommend.ranking import MAX_LOSS_PCT

_ROLES = {"riskier": "Faster, riskier", "lower-loss": "Lower loss", "safest": "Safest"}


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
    if choice is None:
        nearest = ranking.nearest
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


def _none_text(phase: PhaseRanking) -> str:
    """Return why there is nothing to take."""
    return f"{short_text(phase.ranking.headline)} {_where(phase)}"


def _stay_text(phase: PhaseRanking) -> str:
    """Return why to stay: nothing within the limit is faster, and on which evidence."""
    choice = phase.choice
    source = _source(choice) if choice is not None and choice.is_measured else "predicted"
    if _has_one_precision(phase):
        return f"the fastest kernel {_where(phase)} ({source}); no narrower format to compare with"
    return f"because nothing within a loss of {MAX_LOSS_PCT:g} % is clearly faster {_where(phase)} ({source})"


def _has_one_precision(phase: PhaseRanking) -> bool:
    """Return whether kernels of one precision compete, and several do."""
    ranking = phase.ranking
    options = [*ranking.options, *(each.option for each in ranking.excluded if each.option is not None)]
    return len(options) > 1 and len({option.precision for option in options}) == 1


def _source(choice: Option) -> str:
    """Return where the time of a choice comes from: a simulated one was measured by no clock."""
    return "simulated" if "simulated" in choice.flags else choice.estimate.source


def _gain_text(phase: PhaseRanking, choice: Option) -> str:
    """Return the speed-up of the choice: `measured 1.6× BF16 in the sum of 2 shapes`."""
    baseline = phase.ranking.baseline
    source = _source(choice)
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
    return short_text(by_severity(grave)[0]) if grave else ""


def _token_doubt(choice: Option) -> str:
    doubt = loss_doubt(choice.loss)
    return "" if doubt is None else short_text(doubt)
