"""What to do, in one line per phase: the best configuration, what it rests on, and what speaks against relying on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reports.advice.headlines import LedShape, baseline_name, gains, judged_results, leads, level_words
from reports.cases.rows import option_label
from reports.ranking.case_ranking import ShapeRanking
from reports.ranking.losses import figures_loss
from reports.ranking.model_results import model_title
from reports.ranking.shape_ranking import phase_of
from reports.ranking.shape_results import ShapeResult
from reports.ranking.words import kernel_gap_text
from reports.text.display_text import counted, shown
from results.diff.rules import INVALIDATING_FLAGS
from results.text.model_text import phase_advice
from results.text.verdict_text import doubt_text
from results.verdicts.gain import measured_gain
from results.verdicts.model_results import ModelResult
from results.verdicts.shape_verdict import ShapeVerdict
from roofline_model.core.answer import Option
from roofline_model.core.finding import finding, short_text
from roofline_model.formats.catalog import is_narrow_format
from roofline_model.recommend.loss import loss_doubt, loss_text

_PHASES = {"decode": "Decode", "prefill": "Prefill"}
_MOST_OTHERS = 3
"""Other operators with a line of their own."""


@dataclass(frozen=True, slots=True)
class Action:
    """One line of advice."""

    phase: str
    """Decode, Prefill, `seeded-llama-156m, batch 1, 128 tokens: decode`, or an operator."""
    take: str
    """`take INT4 (W4A16) · int4pack`, `try …` where nobody measured it, `measure again before you take …`, `stay at …`."""
    evidence: str
    caveat: str
    """What speaks against relying on it; empty where nothing is known to."""
    record_ids: tuple[str, ...] = ()
    """The records of the configuration that it rests on."""

    @property
    def sentence(self) -> str:
        """The whole line."""
        caveat = f" But: {self.caveat}." if self.caveat else ""
        return f"{self.phase}: {self.take}, {self.evidence}.{caveat}"


def actions(
    results: Iterable[ShapeResult], models: Iterable[ModelResult], recommendations: Sequence[ShapeRanking]
) -> tuple[Action, ...]:
    """Return what to do on a chip: whole models first, decode and prefill of products, then other operators with a choice."""
    families: dict[str, list[ShapeResult]] = {}
    for result in results:
        if result.best is not None and not result.is_model:
            families.setdefault(phase_of(*result.judged.key[:2]) or result.op_title, []).append(result)
    found = [action for model in models if not model.is_untrained for action in _of_model(model)]
    phases = [name for name in _PHASES if name in families]
    others = [name for name in families if name not in _PHASES and any(one.is_contest for one in families[name])]
    found += [
        _of_shapes(_PHASES.get(name, name), judged_results(families[name]), recommendations)
        for name in (*phases, *others[:_MOST_OTHERS])
    ]
    return tuple(found)


def _of_model(model: ModelResult) -> list[Action]:
    found = []
    for phase in model.phases:
        best = phase.of(phase.judged.best)
        if best is None:
            continue
        advice = phase_advice(phase)
        caveats = [] if best.measured_s is not None else ["nobody measured it here"]
        caveats += [_model_doubt(phase.judged)] if phase.judged.doubts else []
        if best.figures.quality_source not in ("measured", "reference"):
            caveats.append("its loss was not measured")
        elif best.figures.quality_source == "measured" and not best.figures.is_language:
            caveats.append("a loss over random tokens says nothing about language")
        if best.figures.decoded_from:
            caveats.append(short_text(finding("reference-decoded", stored_format=best.figures.decoded_from)))
        loss = figures_loss(best.figures)
        if loss is not None and (doubt := loss_doubt(loss)) is not None:
            caveats.append(short_text(doubt))
        found.append(
            Action(
                shown(f"{model_title(model)}: {phase.phase}", 180),
                shown(advice.take, 200),
                shown(advice.evidence or "nothing to compare with", 500),
                shown("; ".join(caveats)),
                tuple(record.record_id for record in best.records),
            )
        )
    return found


def _model_doubt(judged: ShapeVerdict) -> str:
    """Return which times behind a phase's advice are in doubt, and what to do."""
    gain = None if judged.best is judged.baseline else measured_gain(judged.best, judged.baseline)
    if gain is not None and gain.is_doubtful:
        return doubt_text(gain)
    return f"times behind it are doubtful ({', '.join(judged.doubts)}): measure again"


def _of_shapes(phase: str, results: list[ShapeResult], recommendations: Sequence[ShapeRanking]) -> Action:
    ranked = leads(results)
    base = baseline_name([result.baseline for result in results if result.baseline is not None])
    where = f"at {len(results)} shapes" if len(results) > 1 else f"at {results[0].title}"
    if not ranked:
        return _stay(phase, results, base, where)
    won = ranked[0].shapes
    best = won[0].one
    part = f"at {len(won)} of {len(results)} shapes" if len(results) > 1 else where
    caveats = [
        _unmeasured(best, recommendations),
        level_words(ranked[0]),
        _elsewhere(results, won),
        _doubts([(place.doubts, place.result) for place in won]),
        _loss(best, recommendations),
    ]
    return Action(
        phase,
        f"{_verb(best, won)} {option_label(best)}",
        f"{gains(won, base)} {part}",
        "; ".join(caveat for caveat in caveats if caveat),
        best.record_ids,
    )


def _stay(phase: str, results: list[ShapeResult], base: str, where: str) -> Action:
    first = results[0].best
    assert first is not None  # only such results are judged
    ids = first.record_ids
    if not any(result.is_contest and result.baseline is not None for result in results):
        return Action(
            phase,
            f"nothing to choose yet ({option_label(first)} alone)",
            f"one configuration with a time {where}",
            "measure a second one to compare with",
            ids,
        )
    level = [result for result in results if result.judged.is_level]
    named = dict.fromkeys(
        option_label(one.level_with if one.best is one.baseline else one.best)
        for one in level
        if one.level_with is not None and one.best is not None
    )
    kind = "measured" if first.is_measured else "predicted"
    caveat = f"{', '.join(list(named)[:2])} only level with it at {counted(len(level), 'shape')}" if named else ""
    return Action(
        phase,
        f"stay at {base}",
        f"no other configuration is {kind} faster by more than the intervals {where}",
        "; ".join(one for one in (caveat, _doubts([(result.judged.doubts, result) for result in results])) if one),
        ids,
    )


def _verb(best: Option, won: Sequence[LedShape]) -> str:
    """Return what to do with the winner: nobody should take what was timed while something else had the machine."""
    if not best.is_measured:
        return "try"
    is_disturbed = all(set(place.doubts).intersection(INVALIDATING_FLAGS) for place in won)
    return "measure again before you take" if is_disturbed else "take"


def _unmeasured(best: Option, recommendations: Sequence[ShapeRanking]) -> str:
    if best.is_measured:
        return ""
    gaps = map(kernel_gap_text, _options(best, recommendations))
    return next(filter(None, gaps), "nobody measured it here")


def _elsewhere(results: list[ShapeResult], won: Sequence[LedShape]) -> str:
    """Name what is best where the winner is not."""
    others: dict[str, int] = {}
    undecided_count = 0
    winners = {id(place.result) for place in won}
    for result in results:
        if id(result) not in winners and result.best is not None:
            if result.is_win:
                label = option_label(result.best)
                others[label] = others.get(label, 0) + 1
            else:
                undecided_count += 1
    named = sorted(others.items(), key=lambda item: -item[1])[:2]
    parts = [f"at {counted(count, 'other shape')} {label} is faster" for label, count in named]
    parts += [f"at {counted(undecided_count, 'other shape')} nothing is clearly faster"] if undecided_count else []
    return ", ".join(parts)


def _doubts(places: Sequence[tuple[tuple[str, ...], ShapeResult]]) -> str:
    """Return where times behind an advice are in doubt, whether the baseline's are, and what to do; empty where none is."""
    doubtful = [place for place in places if place[0]]
    if not doubtful:
        return ""
    flags = sorted({flag for found, _ in doubtful for flag in found})
    where = f"{len(doubtful)} of these {len(places)}"
    if len(doubtful) == len(places):
        where = "this shape" if len(places) == 1 else f"all {len(places)}"
    based = sum(one.is_baseline_doubtful for _, one in doubtful)
    baseline = ""
    if based:
        baseline = ", the baseline's among them" if based == len(doubtful) else f", the baseline's at {based}"
    return f"times behind it are doubtful at {where}{baseline} ({', '.join(flags)}): measure again"


def _loss(best: Option, recommendations: Sequence[ShapeRanking]) -> str:
    if not any(is_narrow_format(one) for one in (best.weight_format, best.activation_format) if one):
        return ""
    losses = (option.loss for option in _options(best, recommendations))
    claim = next((loss for loss in losses if loss.source == "claimed"), None)
    return "nobody measured what it loses" if claim is None else f"its loss is only {loss_text(claim)}"


def _options(best: Option, recommendations: Sequence[ShapeRanking]) -> Iterator[Option]:
    """Yield the options of a configuration's case."""
    return (option for ranking in recommendations for option in ranking.options if option.key == best.key)
