"""What a run found, in one sentence per operator: which configuration leads decode, which prefill, and by how much.

The best leads, and what is tied with it, so that noise between two leaders decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reports.cases.rows import option_label, option_precision
from reports.ranking.shape_results import ShapeResult, first_regime
from reports.text.display_text import counted, regime_title
from results.records.flags import DOUBTFUL_FLAGS
from results.verdicts.gain import gap_of_all, roughly
from results.verdicts.shape_verdict import are_level, expected_speedup, is_sixteen_bit, speedups
from roofline_model.core.answer import Option
from roofline_model.core.finding import short_text
from roofline_model.core.units import format_speedup

_FAMILIES = {"gemv": "Decode (gemv)", "gemm": "Prefill (gemm)"}
"""The operators a reader looks for first, in the words of who serves a model."""


def operator_headlines(results: Iterable[ShapeResult]) -> list[str]:
    """Return one sentence per operator, decode and prefill first; operators without any time have none.

    Operators of which one kernel ran, with nothing to compare it with, share the last sentence when there are several.
    Measured shapes are judged where there are some, else predicted ones; of one cache state and mode, cold and eager
    where there are some, because a model's weights rarely stay in cache. Any other is named.
    """
    families: dict[str, list[ShapeResult]] = {}
    for result in results:
        if result.best is not None:
            families.setdefault(result.op, []).append(result)
    ordered = sorted(families, key=lambda op: list(_FAMILIES).index(op) if op in _FAMILIES else len(_FAMILIES))
    judged = {op: judged_results(families[op]) for op in ordered}
    alone = [op for op in ordered if op not in _FAMILIES and not any(result.is_contest for result in judged[op])]
    alone = alone if len(alone) > 1 else []
    titles = {op: families[op][0].op_title for op in alone}
    sentences = [f"{_sentence(op, results)}." for op, results in judged.items() if op not in alone]
    return sentences + (
        [f"{_listed(list(titles.values()))}: one kernel each, nothing to compare it with."] if alone else []
    )


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


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


def _sentence(op: str, results: list[ShapeResult]) -> str:
    family = _FAMILIES.get(op, results[0].op_title)
    gap = gap_of_all([result.judged.gap for result in results])
    if gap is not None:
        return f"{family}: no result, {short_text(gap)}"
    if len(results) == 1:  # titles of other operators begin with their name
        place = _alone(results[0])
        return f"{family} at {place}" if op in _FAMILIES else place
    regime = regime_title(results[0].cache, results[0].mode)
    family += f", {regime}" if regime else ""
    if not all(result.is_contest and result.baseline is not None for result in results):
        return f"{family}: nothing to compare with at {counted(len(results), 'shape')}; first {results[0].verdict}"
    ranked = leads(results)
    base = baseline_name([result.baseline for result in results if result.baseline is not None])
    if not ranked:
        return f"{family}: no format beats {base} at any of {len(results)} shapes{_level(results)}{_doubts(results)}"
    parts = [_led(ranked[0], base, f" of {len(results)} shapes")]
    parts += [_led(lead_place, base) for lead_place in ranked[1:3]]
    others = sum(len(lead_place.shapes) for lead_place in ranked[3:])
    parts += [f"{counted(len(ranked) - 3, 'other configuration')} {others}"] if others else []
    stays = sum(not result.is_win and not result.judged.is_level for result in results)
    parts += [f"{base} stays fastest at {stays}"] if stays else []
    return f"{family}: {'; '.join(parts)}{_level(results)}{_doubts(results)}"


def _alone(result: ShapeResult) -> str:
    """Return the verdict of a shape; where a narrower format is tied with the baseline, which is faster: to stay
    there.
    """
    pair, rival = result.judged.level_pair, result.judged.rival
    if result.best is None or rival is None or pair is None or pair[0] is not rival:
        return result.verdict
    return f"{result.title}: stay with {option_label(result.best)}; {result.judgement}"


def _led(lead: Lead, base: str, of: str = "") -> str:
    """`INT4 (W4A4) · int4pack leads 2 of 2 shapes (tied with INT8 (W8A8) · int_mm at 1), measured 1.7× to 1.8× BF16`;
    `wins` where it is alone.
    """
    verb = "leads" if lead.level_count else "wins"
    verb = verb if lead.shapes[0].option.is_measured else f"should {verb.removesuffix('s')}"
    level = f" ({level_words(lead)})" if lead.level_count else ""
    return f"{lead.label} {verb} {len(lead.shapes)}{of}{level}, {gains(lead.shapes, base)}"


def level_words(lead: Lead) -> str:
    """Return `tied with INT8 (W8A8) · int_mm at 1`, the two most frequent by name; empty where it is alone
    everywhere.
    """
    named = [f"{label} at {count}" for label, count in lead.level.items()]
    more = f" and {counted(len(named) - 2, 'more configuration')}" if len(named) > 2 else ""
    return f"tied with {', '.join(named[:2])}{more}" if named else ""


def gains(places: Sequence[LedShape], base: str) -> str:
    """Return `measured 1.2× to 1.9× BF16 (expected 1.1× to 2.0×, ideal 1.0× to 5.0×)`; without expected times `(ideal
    …)`; `about` where a time behind one of them is in doubt.
    """
    ideals, likely, timed = zip(*(place.speedups for place in places), strict=True)
    is_doubtful = any(place.doubts for place in places)
    measured = [ratio for ratio in timed if ratio is not None]
    predicted = [ratio for ratio in ideals if ratio is not None]
    expected = [ratio for ratio in likely if ratio is not None]
    has_expected = len(expected) == len(places)  # else the span would be of other shapes than the measured one
    if not measured:
        promised = f"expected {_span(expected)}" if has_expected else f"ideal {_span(predicted)}"
        ideal = f" (ideal {_span(predicted)})" if has_expected and predicted else ""
        return f"{promised} {base}{ideal}, not measured"
    gained = f"about {_span(measured, roughly)}" if is_doubtful else _span(measured)
    if has_expected and predicted:
        return f"measured {gained} {base} (expected {_span(expected)}, ideal {_span(predicted)})"
    return f"measured {gained} {base}" + (f" (ideal {_span(predicted)})" if predicted else "")


def _span(ratios: list[float], text: Callable[[float], str] = format_speedup) -> str:
    low, high = text(min(ratios)), text(max(ratios))
    return low if low == high else f"{low} to {high}"


def baseline_name(baselines: list[Option]) -> str:
    """Return what a sentence about several shapes calls their baselines."""
    names = dict.fromkeys(option_precision(baseline) for baseline in baselines)
    if len(names) == 1:
        return next(iter(names))
    # BF16 also where another 16-bit kernel is up to 5 % faster: this is no "best 16-bit kernel".
    return (
        f"the 16-bit baseline ({' or '.join(names)})"
        if all(is_sixteen_bit(baseline) for baseline in baselines)
        else "the baseline"
    )


def _level(results: list[ShapeResult]) -> str:
    """`; INT8 (W8A8) · int_mm only tied with BF16 at 2; FP32 · matmul only tied with FP16 · matmul at 1`."""
    precisions: dict[str, list[str]] = {}
    names = {option_precision(result.baseline) for result in results if result.baseline is not None}
    base = names.pop() if len(names) == 1 else "the baseline"
    for result in results:
        best, other = result.best, result.level_with
        if best is None or other is None:
            continue
        if best is result.baseline:
            precisions.setdefault(base, []).append(option_label(other))
        else:
            precisions.setdefault(base if other is result.baseline else option_label(other), []).append(
                option_label(best)
            )
    return "".join(
        f"; {', '.join(list(dict.fromkeys(labels))[:2])} only tied with {other} at {len(labels)}"
        for other, labels in precisions.items()
    )


def _doubts(results: list[ShapeResult]) -> str:
    doubtful = [result for result in results if result.judged.doubts]
    flags = sorted({flag for place in doubtful for flag in place.judged.doubts})
    return f" (doubtful at {len(doubtful)}: {', '.join(flags)})" if doubtful else ""


@dataclass(frozen=True, slots=True)
class LedShape:
    """One configuration at a shape where it leads."""

    result: ShapeResult
    option: Option

    @property
    def speedups(self) -> tuple[float | None, float | None, float | None]:
        """(ideal, expected, measured) over the shape's baseline; None where a time is missing."""
        baseline = self.result.baseline
        predicted, measured = speedups(self.option, baseline)
        return predicted, expected_speedup(self.option, baseline), measured

    @property
    def gain(self) -> float:
        """The best known of its speed-ups: measured, else expected, else ideal; 0 without any."""
        predicted, expected, measured = self.speedups
        return measured or expected or predicted or 0.0

    @property
    def doubts(self) -> tuple[str, ...]:
        """Flags that put its comparison with the baseline in doubt."""
        if self.option is self.result.best:
            return self.result.judged.doubts
        baseline = self.result.baseline
        flags = self.option.flags | (baseline.flags if baseline else frozenset())
        return tuple(sorted(DOUBTFUL_FLAGS & flags))


@dataclass(frozen=True, slots=True)
class Lead:
    """A configuration and the shapes it leads."""

    label: str
    shapes: tuple[LedShape, ...]

    @property
    def level(self) -> dict[str, int]:
        """Label of another leader → at how many of these shapes; the most frequent first."""
        counts: dict[str, int] = {}
        for place in self.shapes:
            for other in _winners(place.result):
                if other is not place.option:
                    label = option_label(other)
                    counts[label] = counts.get(label, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    @property
    def level_count(self) -> int:
        """At how many of these shapes it is not alone."""
        return sum(len(_winners(place.result)) > 1 for place in self.shapes)


def leads(results: Iterable[ShapeResult]) -> list[Lead]:
    """Return who leads most of the shapes that something wins, then who leads most of the others, and so on.

    Only what is the best at one shape at least can lead. As many shapes: the one that is the best at more of them, then
    the one that gains most.
    """
    left = [result for result in results if result.is_win and result.best is not None]
    lead_list: list[Lead] = []
    while left:
        lead = min(_candidates(left), key=_place)
        lead_list.append(lead)
        led = {id(place.result) for place in lead.shapes}
        left = [place for place in left if id(place) not in led]
    return lead_list


def _candidates(results: list[ShapeResult]) -> list[Lead]:
    labels = dict.fromkeys(option_label(result.best) for result in results if result.best is not None)
    places: dict[str, list[LedShape]] = {label: [] for label in labels}
    for result in results:
        for label, winning_option in {option_label(winner): winner for winner in reversed(_winners(result))}.items():
            if label in places:
                places[label].append(LedShape(result, winning_option))
    return [Lead(label, tuple(members)) for label, members in places.items()]


def _place(lead: Lead) -> tuple[int, int, float, str]:
    first_count = sum(place.option is place.result.best for place in lead.shapes)
    return -len(lead.shapes), -first_count, -max(place.gain for place in lead.shapes), lead.label


def _winners(result: ShapeResult) -> tuple[Option, ...]:
    """Return the leaders that win, too: what is tied with the baseline is no winner, however wide its interval is."""
    baseline = result.baseline
    return tuple(
        leader
        for leader in result.leaders
        if leader is result.best
        or (baseline is not None and leader is not baseline and not are_level(leader, baseline))
    )
