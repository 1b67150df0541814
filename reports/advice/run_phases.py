"""Which formats to take for each phase of a run: the options of a phase over all of its shapes, and whole models beside
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from reports.present.cases import option_label, option_precision
from reports.present.display_text import shown
from reports.present.shapes import shape_operator, shape_title
from results.cases.best_shapes import judged_results
from results.cases.gain import gap_of_all
from results.cases.model_results import ModelResult
from results.cases.phase_ranking import PhaseRanking, model_ranking, without_headline
from results.cases.saved_bytes import weight_saved_ratio
from results.cases.shape_verdict import ShapeVerdict, compared, is_emulation
from results.rankings.question import phase_of
from roofline_model.core.answer import Estimate, Memory, Option, Question, Times
from roofline_model.core.finding import Finding, finding
from roofline_model.recommend.ranking import MAX_LOSS_PCT, Limits, rank

PHASES = {"decode": "Decode", "prefill": "Prefill"}
TITLES = {**PHASES, "attention": "Attention"}
MOST_OTHERS = 3
"""Other operators with an answer of their own."""
BASELINE = "baseline"
"""Key of the baseline over all shapes, which may be BF16 at one and FP16 at another."""


def phase_rankings(
    results: Iterable[ShapeVerdict], models: Iterable[ModelResult], hardware: str
) -> tuple[PhaseRanking, ...]:
    """Return the rankings of a chip: whole models first, decode and prefill of products, then other operators with a
    choice.

    Shapes are judged in one cache state and mode, measured ones where there are some (`judged_results`).
    """
    families: dict[str, list[ShapeVerdict]] = {}
    for result in results:
        if result.best is not None and result.model is None:
            families.setdefault(phase_of(*result.key[:2]) or shape_operator(result), []).append(result)
    rankings = [
        model_ranking(model, phase, shown(hardware, 60)) for model in map(_displayed, models) for phase in model.phases
    ]
    phases = [name for name in PHASES if name in families]
    others = [name for name in families if name not in PHASES and any(result.is_contest for result in families[name])]
    of_shapes = (_of_shapes(name, families[name], hardware) for name in (*phases, *others[:MOST_OTHERS]))
    return tuple(ranking for ranking in (*rankings, *of_shapes) if ranking is not None)


def _displayed(model: ModelResult) -> ModelResult:
    """Return a model whose names, which come from outside, are fit to be shown."""
    name = replace(model.name, model_name=shown(model.name.model_name, 80))
    phases = (
        replace(phase, passes=tuple(replace(each, label=shown(each.label, 120)) for each in phase.passes))
        for phase in model.phases
    )
    return replace(model, name=name, phases=tuple(phases))


# --- shapes


def _of_shapes(name: str, family: list[ShapeVerdict], hardware: str) -> PhaseRanking | None:
    """Return the ranking over the shapes at which any format but the baseline's has a time; those of one such format
    the most. Shapes of the same cache state and mode whose times make no result are its caveat.
    """
    results = judged_results(family)
    shapes = _shared_shapes(results)
    baselines = [result.baseline for result in shapes]
    name_of, groups = _groups(shapes)
    baseline = None
    if all(baselines):
        members = [each for each in baselines if each is not None]
        baseline = _over_shapes(BASELINE, *_names(members), members, shapes)
        groups = {key: group for key, group in groups.items() if key not in set(map(name_of, members))}
    options = [_over_shapes(key, *_names(group), group, shapes) for key, group in groups.items()]
    options = [compared(option, baseline) for option in ([baseline] if baseline else []) + options]
    if not options:
        return None
    question = Question("shape", shown(hardware, 60), name, phase=name if name in PHASES else "")
    ranking = rank(question, options, options[0] if baseline else None, limits=Limits(loss_pct=MAX_LOSS_PCT))
    ranking = without_headline(ranking, gap_of_all([result.gap for result in shapes]))
    places = tuple(map(shape_title, shapes))
    return PhaseRanking(TITLES.get(name, name), ranking, places, len(results), _without_result(family, results))


def _without_result(family: list[ShapeVerdict], judged: list[ShapeVerdict]) -> tuple[Finding, ...]:
    """Return how many shapes have a gap and were not judged for it, and which gaps; empty where all were judged."""
    regime = [result for result in family if result.key[2:] == judged[0].key[2:]]
    codes = [result.gap.code for result in regime if result.gap is not None and result not in judged]
    if not codes:
        return ()
    disturbed_count = codes.count("disturbed-result")
    return (
        finding(
            "shapes-without-result",
            missing_count=len(codes),
            shape_count=len(regime),
            disturbed_count=disturbed_count or None,
            implausible_count=len(codes) - disturbed_count or None,
        ),
    )


def _shared_shapes(results: list[ShapeVerdict]) -> list[ShapeVerdict]:
    """Return the shapes that options are compared at: all, or those of the narrow formats that ran at most of them."""
    counts: dict[frozenset[int], int] = {}
    baselines = {option_precision(result.baseline) for result in results if result.baseline is not None}
    for key, places in _places(results).items():
        if key not in baselines:
            counts[frozenset(places)] = counts.get(frozenset(places), 0) + 1
    if not counts or frozenset(range(len(results))) in counts:
        return results
    most = max(counts, key=lambda places: (len(places), counts[places], -min(places)))
    return [results[at] for at in sorted(most)]


def _places(results: Sequence[ShapeVerdict]) -> dict[str, list[int]]:
    """Return precision → the shapes at which an option of it competes."""
    places: dict[str, list[int]] = {}
    for at, result in enumerate(results):
        for precision in dict.fromkeys(map(option_precision, _competing(result))):
            places.setdefault(precision, []).append(at)
    return places


def _competing(result: ShapeVerdict) -> list[Option]:
    """Return the options with the best evidence of a shape: measured ones where the best was measured, else all."""
    is_measured = result.best is not None and result.best.is_measured
    return [option for option in result.options if option.is_measured or not is_measured]


def _groups(results: Sequence[ShapeVerdict]) -> tuple[Callable[[Option], str], dict[str, list[Option]]]:
    """Return an option per shape for each precision that ran at all of them: one kernel where one did, else the fastest
    at each.

    Where there is one precision only, kernels compete. With them what names an option's group.
    """
    name = option_label if len(_places(results)) == 1 else option_precision
    named: dict[str, list[list[Option]]] = {}
    for at, result in enumerate(results):
        for option in _competing(result):
            named.setdefault(name(option), [[] for _ in results])[at].append(option)
    groups: dict[str, list[Option]] = {}
    for key, members in named.items():
        if not all(members):
            continue
        shared = set.intersection(*({option.kernel for option in options} for options in members))
        candidates = [
            [next(option for option in options if option.kernel == kernel) for options in members] for kernel in shared
        ]
        fastest = [min(options, key=_evidence) for options in members]
        groups[key] = min(candidates, key=_total_s, default=fastest)
    return name, groups


def _evidence(option: Option) -> tuple[bool, float]:
    """Return what the fastest is chosen by: a lower bound is no faster than a time."""
    return option.estimate.source == "ideal", option.estimate.time_s


def _total_s(options: Iterable[Option]) -> tuple[bool, float, str]:
    members = tuple(options)
    are_ideal, times_s = zip(*map(_evidence, members), strict=True)
    return any(are_ideal), sum(times_s), members[0].key


def _names(group: Sequence[Option]) -> tuple[str, str]:
    """Return the label of a group, with its kernel where it is one, and its precision: of a baseline `BF16 or FP16`."""
    labels = dict.fromkeys(map(option_label, group))
    precision = " or ".join(sorted({option_precision(option) for option in group}))
    return (next(iter(labels)) if len(labels) == 1 else precision), precision


def _over_shapes(
    key: str, label: str, precision: str, members: Sequence[Option], shapes: Sequence[ShapeVerdict]
) -> Option:
    """Return the option over all shapes: its times and bytes added up, its interval that of times which err alike."""
    first, last = members[0], max(members, key=lambda option: option.estimate.time_s)
    kernels = {option.kernel for option in members}
    evidence = tuple(
        run for option in (last, *(each for each in members if each is not last)) for run in option.evidence
    )
    doubts = tuple(dict.fromkeys(doubt for option in members for doubt in option.trust.doubts))
    is_emulated = any(is_emulation(option) and not option.is_measured for option in members)
    return Option(
        key=key,
        formats=first.formats,
        method="",
        path=first.path,
        bound=last.bound,
        times=Times(
            *(_sum([getattr(each.times, kind) for each in members]) for kind in ("ideal", "expected", "measured"))
        ),
        memory=_weights(members, shapes),
        loss=members[0].loss,
        speedup_ratio=None,
        ideal_speedup_ratio=None,
        label=shown(label, 120),
        precision=shown(precision, 60),
        kernel=first.kernel if len(kernels) == 1 else None,
        evidence=evidence,
        trust=replace(first.trust, doubts=doubts),
        findings=(finding("emulated", shown(label, 120)),) if is_emulated else (),
    )


def _sum(estimates: Sequence[Estimate | None]) -> Estimate | None:
    """Return the sum of the times of all shapes; None where one is missing."""
    existing = [each for each in estimates if each is not None]
    if not existing or len(existing) < len(estimates):
        return None
    lows = [each.low_s for each in existing if each.low_s is not None]
    highs = [each.high_s for each in existing if each.high_s is not None]
    return Estimate(
        sum(each.time_s for each in existing),
        sum(lows) if len(lows) == len(existing) else None,
        sum(highs) if len(highs) == len(existing) else None,
        existing[0].source,
        existing[0].provenance,
        is_sample_range=any(each.is_sample_range for each in existing),
    )


def _weights(members: Sequence[Option], shapes: Sequence[ShapeVerdict]) -> Memory | None:
    """Return the weight bytes of all shapes, and what they save of 16 bit; of other operators the bytes of a call."""
    if any(option.memory is None for option in members):
        return None
    total_bytes = sum(option.memory.total_bytes for option in members if option.memory is not None)
    wide_bytes = held_bytes = 0.0
    for option, result in zip(members, shapes, strict=True):
        sizes = dict(result.question.sizes)
        saved_ratio = weight_saved_ratio(result.cases[option.key].lead, option.weight_format)
        if saved_ratio is None or not {"N", "K"} <= sizes.keys():
            return Memory(total_bytes)
        wide_bytes += 2.0 * sizes["N"] * sizes["K"]
        held_bytes += 2.0 * sizes["N"] * sizes["K"] * (1 - saved_ratio)
    return Memory(total_bytes, weight_bytes=held_bytes, saved_ratio=1 - held_bytes / wide_bytes if wide_bytes else None)
