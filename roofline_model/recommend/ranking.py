"""Which option comes first, and which one to take: the one policy of every answer.

**Order.** 1. Options that can be run and whose loss is known go first. Then come a model's plans of unknown loss, then
predictions of emulated kernels, which leave out what emulating costs, and last what no kernel is known to run.
2. Evidence: what was measured, then predictions that can be compared with the baseline's time, then the others (an
ideal time is always shorter than a real one).
3. Inside one kind of evidence time, and where times cannot be told apart the smaller loss, then the smaller memory:

- *Predictions* are compared by the upper end of their 80 % interval; nine in ten kernels are faster than that. The
  interval is wide where a kernel was never timed on such a chip, so an uncertain prediction must be faster to come
  first. Those whose upper ends lie within `LEVEL_RATIO` of the lowest go by time; of these, the ones within it of the
  fastest are tied.
- *Measured* options go by time; level are those whose 95 % intervals overlap, at most `LEVEL_LIMIT_RATIO` apart.
- What loses something waits for what loses nothing: a prediction that is not expected to be faster, a measurement that
  is not surely faster.
- Level predictions whose losses are within `EQUAL_LOSS_PCT` lose the same: a format that checkpoints are published in
  goes before one that is no faster.

4. A checkpoint that was published narrow has neither to be made nor measured: it goes first unless it is clearly
   slower.

**Choice.** The first that a kernel runs, whose loss is known where losses are limited, and whose time stands against
the baseline's; none where all miss a limit. Beside it stand up to two alternatives: what is faster for more loss than
the limit, unless another option beats it in both time and loss (`riskier`; without a choice what is nearest), or what
loses at most `MAX_LOSS_PCT` where the caller allowed more (`lower-loss`), and what loses least (`safest`).

**Policies.** `evidence`: measured before expected before ideal times. `ideal`: the calls of the original documents fix
ideal times. `quality`: the original documents' engine weighs quality; intervals do not count, so that times within
`LEVEL_RATIO` are level and the loss decides, and an unknown loss is refused. `stored`: of runs, where an unknown loss
is a matter of time, so that it changes no place; a limit refuses it, and only what a run holds is taken. `cache`:
nobody knows the loss of a cache without its model, so of level ones the wider counts as losing less.
docs/theory/ranking.md argues the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from operator import attrgetter
from typing import ClassVar, Generic, NamedTuple, TypeVar

from roofline_model.core.answer import (
    BOUNDS,
    Alternative,
    AlternativeRole,
    Estimate,
    Exclusion,
    Option,
    Question,
    Ranking,
    Source,
    is_comparable,
)
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, Value, finding, has_code

Item = TypeVar("Item")

LEVEL_RATIO = 0.05
"""Predictions of two options closer than this cannot be told apart: the model's own error is larger."""
LEVEL_LIMIT_RATIO = 0.10
"""Measured times further apart than this are never level, however wide their intervals are. Two processes can have
intervals of several hundred percent; calling a kernel level that took 1.7 times as long would prefer it for its loss,
against what was seen. A judgement: a gain of a tenth that noise may explain is not worth more loss, a larger one is the
likelier truth. It is not worth the step from no loss to some: what loses nothing goes before whatever is not surely
faster.
"""
UNKNOWN_LEVEL_RATIO = 0.05
"""Measured times closer than this are tied where one has too few samples for an interval: these say nothing of a
smaller difference. One sample has no range at all, and the range of two to five holds the median with 50 to 94 % only.
"""
MAX_LOSS_PCT = 3.0
"""Default limit of the loss, measured or published alike. What was published of 8-bit weights and activations with an
8-bit cache is within it; 4-bit weights of a 70B, at 12 to 15 % of perplexity, are not
(docs/development/decisions/0009-loss-limit.md).
"""
EQUAL_LOSS_PCT = 0.5
"""Losses closer than this are equal: two studies of one format and model differ by as much."""

NAMED_COUNT = 3
"""Options that look better than the choice and are named, the best first."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A named way to weigh evidence; the order is the same rule in each."""

    name: str
    is_interval_counted: bool = True
    """Whether predictions go by the end of their interval; False: by their time alone."""
    is_loss_required: bool = False
    """Whether an option whose loss nobody knows is excluded."""
    is_unknown_last: bool = True
    """Whether plans of a model whose loss nobody knows stand behind the others."""
    is_limit_strict: bool = False
    """Whether a limit excludes what nobody knows: an unknown memory, an unknown loss."""
    is_narrower_lossier: bool = False
    """Whether, of options whose loss nobody knows, the one that saves more memory counts as losing more."""
    is_kernel_required: bool = False
    """Whether only the case of a kernel may be taken; a format that the model proposes is worth trying, no more."""


POLICIES = {
    "evidence": Policy("evidence"),
    "ideal": Policy("ideal"),
    "quality": Policy("quality", is_interval_counted=False, is_loss_required=True),
    "stored": Policy("stored", is_unknown_last=False, is_limit_strict=True, is_kernel_required=True),
    "cache": Policy("cache", is_narrower_lossier=True),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What an option may take; None: any amount."""

    JSON_KEYS: ClassVar = {
        "memory_limit_bytes": "memory_limit_bytes",
        "memory_usable_bytes": "memory_bytes",
        "memory_headroom_ratio": "headroom_ratio",
        "max_latency_s": "time_s",
        "max_phase_latency_s": "phase_times_s",
        "max_loss_pct": "loss_pct",
        "is_loss_given": "is_loss_given",
    }

    memory_bytes: float | None = None
    """What may be taken, bytes: headroom, and of a chip's own memory the shares of system, driver and engine, already
    off.
    """
    memory_limit_bytes: float | None = None
    """What there is, bytes: the chip's memory, or the limit as it was given; null where it is not known."""
    headroom_ratio: float = 0.0
    """Share of it that stays free."""
    time_s: float | None = None
    """Of a pass, seconds."""
    phase_times_s: tuple[tuple[str, float], ...] = ()
    """Phase → seconds of its longest pass, where the passes are a mix."""
    loss_pct: float | None = None
    """Rise of perplexity in percent, measured or published; of task accuracy where no perplexity was published."""
    is_loss_given: bool = False
    """Whether the caller set the limit of the loss; False: the default."""
    choice_loss_pct: float | None = None
    """What the choice may lose, and has to be known to; an option beyond it stays in the ranking."""

    @property
    def values(self) -> tuple[tuple[str, float], ...]:
        """The limits that there are, by name."""
        named = {
            "memory_bytes": self.memory_bytes,
            "time_s": self.time_s,
            "loss_pct": self.loss_pct,
            "choice_loss_pct": self.choice_loss_pct,
            **{f"{phase}_time_s": limit_s for phase, limit_s in self.phase_times_s},
        }
        return tuple((name, value) for name, value in named.items() if value is not None)


NO_LIMITS = Limits()


def is_positive(value: object, below: float = 1e30) -> bool:
    """Return whether a value is a number above 0 and below a bound; truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < below


def positive_limit(name: str, value: float, below: float = 1e30) -> float:
    """Return a limit as a float; raises `InvalidValueError` unless it is a number above 0."""
    if not is_positive(value, below):
        raise InvalidValueError(f"{name} must be a positive number, got {str(value)[:40]!r}")
    return float(value)


class Standing(NamedTuple):
    """What an item is ordered by."""

    time_s: float
    low_s: float | None
    """Lower end of the interval; None where none is known."""
    high_s: float | None
    loss_pct: float | None
    """Of options whose loss nobody knows what the policy puts in its place."""
    memory_bytes: float | None
    name: str = ""
    """Decides between measured items where nothing else does."""
    is_published: bool = True
    """Whether checkpoints are published in its formats."""

    @property
    def prudent_s(self) -> float:
        """Upper end of the interval; the time where it has none."""
        return self.time_s if self.high_s is None else self.high_s

    @property
    def is_lossless(self) -> bool:
        """Whether it is known to lose nothing."""
        return self.loss_pct is not None and self.loss_pct <= 0

    @property
    def place_key(self) -> tuple[float, float, float, float]:
        """Loss, memory, upper end, time; what nobody knows counts as the largest."""
        time_s, _, high_s, loss_pct, memory_bytes, *_ = self
        return (
            math.inf if loss_pct is None else loss_pct,
            math.inf if memory_bytes is None else memory_bytes,
            time_s if high_s is None else high_s,
            time_s,
        )


class _Placed(NamedTuple, Generic[Item]):
    """An item with what decides about its place, sorted by the first five fields; no two have one place."""

    loss_pct: float
    """Infinite where nobody knows it; the memory likewise."""
    memory_bytes: float
    end_s: float
    time_s: float
    place: int
    item: Item
    standing: Standing
    source: Source = "expected"
    tier: Tier = (False, False, False, 0)
    has_gap: bool = False
    """Whether no kernel is known to run it."""
    is_checkpoint: bool = False
    """Whether it is a checkpoint that was published narrow."""


def order_predictions(items: Iterable[Item], of: Callable[[Item], Standing]) -> list[Item]:
    """Return predictions of one kind of evidence, best first; equal ones stay in the order they come in.

    An option never comes after one that is no better in time, upper end, loss and memory.
    """
    standings = ((of(item), item) for item in items)
    placed = [_Placed(*standing.place_key, place, item, standing) for place, (standing, item) in enumerate(standings)]
    return [each.item for each in _order_placed(placed)]


def _order_placed(placed: Iterable[_Placed[Item]]) -> Iterator[_Placed[Item]]:
    left = sorted(placed)
    while len(left) > 1:
        level = _first_level(left)
        yield from level
        for each in level:
            left.remove(each)
    yield from left


def _first_level(left: list[_Placed[Item]]) -> list[_Placed[Item]]:
    """Return the tied predictions that go before all others, in order; `left` is sorted."""
    gaining, lossless_s = [], math.inf
    for each in left:  # what loses nothing comes first
        time_s = each.time_s
        if each.loss_pct <= 0:
            lossless_s = min(lossless_s, time_s)
            gaining.append(each)
        elif time_s < lossless_s:
            gaining.append(each)
    last_end_s = min([each.end_s for each in gaining]) * (1 + LEVEL_RATIO)
    sure = [each for each in gaining if each.end_s <= last_end_s]
    last_s = min([each.time_s for each in sure]) * (1 + LEVEL_RATIO)
    return _published_of_equal([each for each in sure if each.time_s <= last_s])


def _published_of_equal(level: list[_Placed[Item]]) -> list[_Placed[Item]]:
    """Return level predictions, sorted by loss: of equal ones, published formats go before what is no faster than
    they.
    """
    if len(level) < 2 or len({each.standing.is_published for each in level}) == 1:
        return level
    ordered: list[_Placed[Item]] = []
    while len(ordered) < len(level):
        least_pct = level[len(ordered)].loss_pct
        most_pct = least_pct + EQUAL_LOSS_PCT if least_pct > 0 else least_pct
        equal = [each for each in level[len(ordered) :] if each.loss_pct <= most_pct]
        unpublished_s = min([each.time_s for each in equal if not each.standing.is_published], default=0.0)
        ordered += sorted(equal, key=lambda each: not (each.standing.is_published and each.time_s <= unpublished_s))
    return ordered


def order_measured(items: Iterable[Item], of: Callable[[Item], Standing]) -> list[Item]:
    """Return measured items, best first; the order they come in makes no difference."""
    left = sorted(((of(item), item) for item in items), key=lambda pair: (pair[0].time_s, *_measured_key(pair[0])))
    lossless = next((each for each, _ in left if each.is_lossless), None)
    ordered: list[Item] = []
    while left:
        # Once what loses nothing has its place, those behind it are ordered among themselves.
        is_open = lossless is None or all(each is not lossless for each, _ in left)
        eligible = [pair for pair in left if is_open or _goes_before(pair[0], lossless)]
        fastest = eligible[0][0]
        level = list(takewhile(lambda pair, fastest=fastest: are_level_measured(fastest, pair[0]), eligible))  # type: ignore[misc]
        ordered += [item for _, item in sorted(level, key=lambda pair: _measured_key(pair[0]))]
        placed = {id(each) for each, _ in level}
        left = [pair for pair in left if id(pair[0]) not in placed]
    return ordered


def are_level_predictions(first: Standing | Estimate, second: Standing | Estimate) -> bool:
    """Return whether two predictions are tied: their times and the ends of their intervals within `LEVEL_RATIO`."""
    return _is_near(first.time_s, second.time_s) and _is_near(first.prudent_s, second.prudent_s)


def _is_near(first_s: float, second_s: float) -> bool:
    return max(first_s, second_s) <= min(first_s, second_s) * (1 + LEVEL_RATIO)


def are_level_measured(faster: Standing, slower: Standing) -> bool:
    """Return whether two measured times cannot be told apart.

    Intervals that overlap, with times at most `LEVEL_LIMIT_RATIO` apart, or times at most `UNKNOWN_LEVEL_RATIO` apart
    where an interval is unknown.
    """
    if slower.time_s > faster.time_s * (1 + LEVEL_LIMIT_RATIO):
        return False
    if faster.low_s is None or faster.high_s is None or slower.low_s is None or slower.high_s is None:
        return slower.time_s <= faster.time_s * (1 + UNKNOWN_LEVEL_RATIO)
    return faster.low_s <= slower.high_s and slower.low_s <= faster.high_s


def maybe_faster(ordered: Iterable[Option]) -> Option | None:
    """Return the fastest measured option that stands behind the first for its loss alone; None where there is none.

    It is faster by more than what is tied, with an interval that overlaps the first's. `ordered`: stored options in
    order.
    """
    pairs = [(standing(option, POLICIES["stored"]), option) for option in ordered if option.is_measured]
    if not pairs or not pairs[0][0].is_lossless:
        return None
    first = pairs[0][0]
    faster = [pair for pair in pairs[1:] if pair[0].time_s < first.time_s and not are_level_measured(pair[0], first)]
    return min(faster, key=lambda pair: pair[0].time_s)[1] if faster else None


def rank(
    question: Question,
    options: Sequence[Option],
    baseline: Option | None,
    *,
    limits: Limits = NO_LIMITS,
    excluded: Iterable[Exclusion] = (),
    findings: Iterable[Finding] = (),
) -> Ranking:
    """Return the ranking of the options within the limits, the choice with its findings, and its alternatives.

    `question.policy` names the policy. `excluded`: what cannot run, beside what misses a limit here. `findings`: what
    to know about the answer as a whole.
    """
    policy = POLICIES[question.policy]
    placed = _placed(options, baseline, question.subject, policy)
    within, missing = _split(placed, limits, policy)
    ordered = list(_ordered(within))
    excluded = (*missing, *excluded)
    eligible = [each for each in ordered if _may_be_taken(each.item, limits, policy)]
    choice, refusal = _choice(eligible, ordered, baseline, excluded, limits)
    ranked = [each.item for each in ordered]
    place_of = {id(exclusion.option): place for place, exclusion in enumerate(missing)}
    of_loss_alone = [each for each in placed if _misses_loss_alone(each.item, missing)] if missing else []
    of_loss_alone.sort(key=lambda each: place_of[id(each.item)])
    beyond = [each for each in ordered if not is_within_choice_limit(each.item, limits)]
    of_loss_alone += beyond
    alternatives = _alternatives(choice, eligible, of_loss_alone)
    taken: Option | None = None
    if choice is not None:
        reasons = _reasons(choice, eligible, baseline, missing)
        is_alone = has_code(reasons, "no-other", "option")
        too_lossy = [each.item.key for each in of_loss_alone if not each.has_gap]
        if is_alone and too_lossy:
            limit_pct = limits.choice_loss_pct if limits.loss_pct is None else limits.loss_pct
            others = tuple(too_lossy[:NAMED_COUNT])
            reasons = [
                finding("no-other", choice.item.key, kind="within-loss-limit", limit_pct=limit_pct, others=others)
            ]
        elif beyond:
            ahead = takewhile(lambda each: each is not choice, ordered)
            reasons += _why_not_first(choice.item, [each for each in ahead if each in beyond], limits)
        taken = choice.item
        findings = (*findings, *_may_exceed(taken, limits))
        if reasons:
            taken = replace(taken, findings=(*taken.findings, *reasons))
            ranked = [taken if each is choice else each.item for each in ordered]
            baseline = taken if choice.item is baseline else baseline
    return Ranking(
        question=question,
        options=tuple(ranked),
        baseline=baseline,
        choice=taken,
        alternatives=alternatives,
        excluded=excluded,
        findings=(*findings, *refusal),
    )


def rank_stored(question: Question, options: Iterable[Option], baseline: Option | None, limits: Limits) -> Ranking:
    """Return the ranking of options from stored runs; the order they come in makes no difference."""
    by_time = sorted(options, key=lambda option: (option.estimate.time_s, option is not baseline, option.key))
    return rank(question, by_time, baseline, limits=limits)


def tied_with(option: Option, options: Iterable[Option]) -> tuple[Option, ...]:
    """Return the other stored options of the same kind of evidence that one is tied with, as every ranking takes it."""
    placed = {each.item.key: each for each in _placed((option, *options), None, "", POLICIES["stored"])}
    ours = placed.pop(option.key)
    return tuple(each.item for each in placed.values() if each.tier == ours.tier and _are_level(each, ours))


def take_of(
    ordered: Sequence[Option], baseline: Option | None, limits: Limits, policy: str = "stored"
) -> tuple[Option | None, Option | None]:
    """Return the option to take of options that are in order, and the first that is faster and loses more than the
    limit of the choice; None for either where there is none.
    """
    placed = _placed(ordered, baseline, "shape", POLICIES[policy])
    eligible = [each for each in placed if _may_be_taken(each.item, limits, POLICIES[policy])]
    choice, _ = _choice(eligible, placed, baseline, (), limits)
    if choice is None:
        return None, None
    beyond = [each for each in placed if not is_within_choice_limit(each.item, limits)]
    riskier = next((each for each in _unbeaten(beyond, eligible) if _is_faster(each, choice)), None)
    return choice.item, None if riskier is None else riskier.item


def standing(option: Option, policy: Policy) -> Standing:
    """Return what an option is ordered by."""
    estimate, memory = option.estimate, option.memory
    has_interval = policy.is_interval_counted or estimate.source == "measured"
    low_s, high_s = estimate.interval_s if has_interval else (None, None)
    return Standing(
        estimate.time_s,
        low_s,
        high_s,
        _tie_loss(option, policy),
        None if memory is None else memory.total_bytes,
        option.key,
        not has_code(option.findings, "no-checkpoints"),
    )


def _tie_loss(option: Option, policy: Policy) -> float | None:
    """Return what counts as an option's loss between level ones; comparable where the options' losses are of one
    kind.
    """
    loss, memory = option.loss, option.memory
    if loss.pct is not None:
        return loss.pct
    if policy.is_narrower_lossier and memory is not None:
        return memory.saved_ratio
    return loss.value  # a score without data, which a model ranks apart


def _placed(options: Iterable[Option], baseline: Option | None, subject: str, policy: Policy) -> list[_Placed[Option]]:
    placed = []
    for place, option in enumerate(options):
        at, tier = standing(option, policy), tier_of(option, baseline, subject, policy)
        is_checkpoint = has_code(option.findings, "as-published")
        placed.append(_Placed(*at.place_key, place, option, at, option.estimate.source, tier, tier[0], is_checkpoint))
    return placed


def limit_misses(option: Option, limits: Limits) -> list[Finding]:
    """Return the limits that an option misses, the one that it misses most first; an unknown loss misses none.

    The default limit of the loss comes last: it is nobody's requirement.
    """
    misses = []
    memory, loss = option.memory, option.loss
    if limits.memory_bytes is not None and memory is not None and memory.total_bytes > limits.memory_bytes:
        misses.append(_miss("memory", option.key, "_bytes", memory.total_bytes, limits.memory_bytes))
    if limits.time_s is not None and (time_s := option.estimate.time_s) > limits.time_s:
        misses.append(_miss("time", option.key, "_s", time_s, limits.time_s))
    for phase in option.phases:
        limit_s = dict(limits.phase_times_s).get(phase.phase)
        if limit_s is not None and phase.longest_s > limit_s:
            misses.append(_miss("time", option.key, "_s", phase.longest_s, limit_s, phase=phase.phase))
    if limits.loss_pct is not None:
        if loss.at_least_pct is not None and loss.at_least_pct > limits.loss_pct:
            misses.append(_miss("loss", option.key, "_pct", loss.at_least_pct, limits.loss_pct))
        elif loss.pct is not None and loss.pct > limits.loss_pct:
            misses.append(_miss("loss", option.key, "_pct", loss.pct, limits.loss_pct))
    return sorted(misses, key=lambda miss: -_excess_ratio(miss, limits)) if misses else misses


def _may_exceed(option: Option, limits: Limits) -> list[Finding]:
    """Return the limits of time that the end of an option's interval is beyond: of a pass, or by phase of a mix."""
    limit_s = {"": limits.time_s, **dict(limits.phase_times_s)}
    ends_s = {"": option.estimate.prudent_s, **{phase.phase: phase.prudent_s for phase in option.phases}}
    return [
        finding("may-exceed-limit", option.key, high_s=high_s, limit_s=most_s, phase=phase or None)
        for phase, high_s in ends_s.items()
        if (most_s := limit_s.get(phase)) is not None and high_s > most_s
    ]


def excess_ratio(miss: Finding) -> float:
    """Return by how much of the limit a `misses-…-limit` finding is beyond it; infinite for a limit of 0."""
    if not miss.values:
        return math.inf
    (_, value), (_, limit), *_ = miss.values
    assert isinstance(value, float)  # as `limit_misses` writes them
    assert isinstance(limit, float)
    return value / limit - 1 if limit else math.inf


def _excess_ratio(miss: Finding, limits: Limits) -> float:
    """Return `excess_ratio`, and 0 for the default limit of the loss."""
    return 0.0 if miss.code == "misses-loss-limit" and not limits.is_loss_given else excess_ratio(miss)


def _miss(limit: str, key: str, unit: str, value: float, limit_value: float, **more: Value) -> Finding:
    values = {f"value{unit}": float(value), f"limit{unit}": float(limit_value), f"excess{unit}": value - limit_value}
    return finding(f"misses-{limit}-limit", key, **values, **more)


def _split(
    placed: Sequence[_Placed[Option]], limits: Limits, policy: Policy
) -> tuple[list[_Placed[Option]], list[Exclusion]]:
    """Return the options within the limits, and the others: the nearest to the limits first, those without a kernel
    last.
    """
    within, missing = [], []
    for each in placed:
        misses = limit_misses(each.item, limits)
        is_loss_limited = policy.is_limit_strict and limits.loss_pct is not None
        if (policy.is_loss_required or is_loss_limited) and each.item.loss.pct is None:
            misses.append(finding("loss-unknown", each.item.key))
        if policy.is_limit_strict and limits.memory_bytes is not None and each.item.memory is None:
            misses.append(finding("memory-unknown", each.item.key))
        if misses:
            missing.append(
                (
                    each.has_gap,
                    _excess_ratio(misses[0], limits),
                    # The default limit of the loss is none of the caller's: of those that miss it alone the least loss
                    # is the nearest.
                    _most_loss_pct(each.item),
                    Exclusion(each.item.key, tuple(misses), each.item),
                )
            )
        else:
            within.append(each)
    return within, [exclusion for *_, exclusion in sorted(missing, key=lambda each: each[:3])]


Tier = tuple[bool, bool, bool, int]
"""No known kernel, emulated, unknown loss, kind of evidence: the smaller goes first."""


def tier_of(option: Option, baseline: Option | None, subject: str, policy: Policy) -> Tier:
    """Return what decides before any time does; the baseline's source says which predictions can be held against it."""
    reference: Source = "expected" if baseline is None else baseline.estimate.source
    source = option.estimate.source
    is_measured = source == "measured"
    is_emulated = not is_measured and has_code(option.findings, "emulated")
    is_unknown = subject == "model" and policy.is_unknown_last and option.loss.pct is None
    evidence = 0 if is_measured else 1 if is_comparable(source, reference) else 2
    return has_code(option.findings, "kernel-gap"), is_emulated, is_unknown, evidence


def _ordered(placed: Sequence[_Placed[Option]]) -> Iterator[_Placed[Option]]:
    """Yield options, best first; see the head of this file."""
    if len(placed) < 2:
        yield from placed
        return
    tiers: dict[Tier, list[_Placed[Option]]] = {}
    for each in placed:
        tiers.setdefault(each.tier, []).append(each)
    order: Iterator[_Placed[Option]] = chain.from_iterable(_in_order(tiers[tier]) for tier in sorted(tiers))
    published = next((each for each in placed if each.is_checkpoint), None)
    first = next(order)
    if published is not None and _goes_first(published, first):
        yield published
        order = (each for each in order if each is not published)
    yield first
    yield from order


def _in_order(alike: Sequence[_Placed[Option]]) -> Iterable[_Placed[Option]]:
    """Return options of one tier, best first."""
    return order_measured(alike, attrgetter("standing")) if alike[0].source == "measured" else _order_placed(alike)


def _goes_first(published: _Placed[Option], first: _Placed[Option]) -> bool:
    """Return whether a checkpoint that was published narrow goes before the first: unless that is clearly faster.

    Clearly: more than `LEVEL_RATIO` faster, and its interval ends before that of the checkpoint begins.
    """
    if published.has_gap or published is first or first.item.loss.pct is None:
        return False
    ours = published.standing
    begins_s = ours.time_s if ours.low_s is None else ours.low_s
    is_clearly_slower = ours.time_s > first.time_s * (1 + LEVEL_RATIO) and begins_s > first.end_s
    return not is_clearly_slower and is_comparable(published.source, first.source)


def is_within_choice_limit(option: Option, limits: Limits) -> bool:
    """Return whether the limit of the choice's loss lets an option be taken; an unknown loss does not."""
    if limits.choice_loss_pct is None:
        return True
    return _most_loss_pct(option) <= limits.choice_loss_pct


def _may_be_taken(option: Option, limits: Limits, policy: Policy) -> bool:
    is_case = option.kernel is not None or not policy.is_kernel_required
    return is_case and is_within_choice_limit(option, limits)


def _choice(
    eligible: Sequence[_Placed[Option]],
    ordered: Sequence[_Placed[Option]],
    baseline: Option | None,
    excluded: Sequence[Exclusion],
    limits: Limits,
) -> tuple[_Placed[Option] | None, tuple[Finding, ...]]:
    """Return the option to take of the eligible ones, or the findings that say why there is none."""
    if not ordered:
        nearest = next((exclusion for exclusion in excluded if exclusion.option is not None), None)
        if nearest is None:
            return None, (finding("nothing-runs", excluded[0].key if excluded else "", kind="here"),)
        return None, (finding("nothing-fits", nearest.key), *nearest.findings)
    first = ordered[0]
    if first.has_gap:  # such options stand last: all others miss a limit
        return None, (finding("nothing-runs", first.item.key, kind="no-kernel", time_s=first.standing.time_s),)
    eligible = [each for each in eligible if limits.loss_pct is None or each.item.loss.pct is not None]
    eligible = [each for each in eligible if not each.has_gap]
    if not eligible:
        limit_pct = limits.choice_loss_pct if limits.loss_pct is None else limits.loss_pct
        least = min(ordered, key=lambda each: _most_loss_pct(each.item))
        least_pct = _most_loss_pct(least.item)
        if math.isfinite(least_pct):
            return None, (
                finding("nothing-within-loss", least.item.key, kind="known", limit_pct=limit_pct, loss_pct=least_pct),
            )
        return None, (finding("nothing-within-loss", first.item.key, kind="unknown", limit_pct=limit_pct),)
    reference = next((each for each in eligible if each.item is baseline), eligible[0])
    return next(each for each in eligible if each is reference or _stands_against(each, reference)), ()


def _stands_against(each: _Placed[Option], baseline: _Placed[Option]) -> bool:
    """Return whether a time can be held against the baseline's, or is surely shorter than what bounds that from
    below.
    """
    is_surely_shorter = each.source not in BOUNDS and each.standing.prudent_s < baseline.standing.time_s
    return is_surely_shorter or is_comparable(each.source, baseline.source)


def _reasons(
    choice: _Placed[Option], ordered: Sequence[_Placed[Option]], baseline: Option | None, missing: Sequence[Exclusion]
) -> list[Finding]:
    """Return why the choice is taken and nothing that looks better."""
    others = [each for each in ordered if each is not choice]
    if choice.item is baseline:
        return [_why_stay(choice, others)]
    reasons = _why_not_faster(choice, others)
    if baseline is not None and any(exclusion.option is baseline for exclusion in missing):
        reasons.append(finding("baseline-misses-limits", baseline.key, kind="speedups"))
        reference = baseline.estimate
        if is_comparable(choice.source, reference.source) and choice.standing.time_s > reference.time_s:
            reasons.append(finding("baseline-misses-limits", choice.item.key, kind="slower", baseline=baseline.key))
    return reasons


def _why_stay(baseline: _Placed[Option], others: Sequence[_Placed[Option]]) -> Finding:
    key = baseline.item.key
    if not others:
        return finding("no-other", key, kind="option")
    others = [each for each in others if not each.has_gap]
    if not others:
        return finding("no-other", key, kind="has-kernel")
    others = [each for each in others if is_comparable(each.source, baseline.source)]
    if not others:
        return finding("no-other", key, kind="comparable", source=baseline.source)
    nearest = min(others, key=lambda each: (each.item.loss.pct is None, each.standing.prudent_s))
    ratio, high_s = baseline.standing.time_s / nearest.standing.time_s, nearest.standing.high_s
    if ratio > 1 + LEVEL_RATIO and high_s is None:  # a time without an interval loses by its loss alone
        return finding("faster-loss-unknown", key, others=(nearest.item.key,))
    if ratio <= 1 + LEVEL_RATIO or high_s is None:
        return finding("no-other", key, kind="faster", nearest=nearest.item.key, speedup_ratio=ratio)
    return finding(
        "no-other",
        key,
        kind="surely-faster",
        nearest=nearest.item.key,
        speedup_ratio=ratio,
        high_s=high_s,
        baseline_high_s=baseline.standing.prudent_s,
    )


def _why_not_faster(choice: _Placed[Option], others: Sequence[_Placed[Option]]) -> list[Finding]:
    """Return what is tied or faster and stands behind the choice, and why."""
    key, ours, loss_pct = choice.item.key, choice.standing, choice.item.loss.pct
    level: list[str] = []
    unknown: list[str] = []
    faster: list[_Placed[Option]] = []
    for each in others:
        if each.has_gap or not is_comparable(each.source, choice.source):
            continue
        theirs, their_loss_pct = each.standing, each.item.loss.pct
        if _are_level(each, choice):
            if loss_pct is not None and _or_last(their_loss_pct) > loss_pct:
                level.append(each.item.key)
        elif theirs.time_s < ours.time_s:
            is_surer = theirs.prudent_s <= ours.prudent_s * (1 + LEVEL_RATIO)
            if is_surer and their_loss_pct is None and loss_pct is not None:
                unknown.append(each.item.key)
            else:
                faster.append(each)
    reasons = [finding("level-preferred-for-quality", key, others=tuple(level))] if level else []
    fastest = sorted(faster, key=lambda each: each.standing.time_s)[:NAMED_COUNT]
    reasons += [_why_behind(each, choice) for each in fastest]
    if unknown:
        reasons.append(finding("faster-loss-unknown", key, others=tuple(unknown)))
    return reasons


def _are_level(each: _Placed[Option], other: _Placed[Option]) -> bool:
    if each.source == other.source == "measured":
        return are_level_measured(*sorted((each.standing, other.standing), key=lambda standing: standing.time_s))
    return are_level_predictions(each.standing, other.standing)


def _why_behind(each: _Placed[Option], choice: _Placed[Option]) -> Finding:
    key, theirs, ours = each.item.key, each.standing, choice.standing
    if choice.is_checkpoint:
        begins_s = ours.time_s if ours.low_s is None else ours.low_s
        return finding(
            "faster-not-first",
            key,
            kind="published",
            time_s=theirs.time_s,
            high_s=theirs.prudent_s,
            choice=choice.item.key,
            choice_low_s=begins_s,
        )
    is_less_certain = theirs.prudent_s > ours.prudent_s * (1 + LEVEL_RATIO)
    return finding(
        "faster-not-first",
        key,
        kind="less-certain" if is_less_certain else "behind-surer",
        time_s=theirs.time_s,
        high_s=theirs.prudent_s,
        choice_high_s=ours.prudent_s,
    )


def _why_not_first(choice: Option, beyond: Sequence[_Placed[Option]], limits: Limits) -> list[Finding]:
    """Return why options that rank before the choice, beyond the limit of its loss, are not taken."""
    losses_pct = {each.item.key: _most_loss_pct(each.item) for each in beyond}
    too_large_pct = [(key, loss_pct) for key, loss_pct in losses_pct.items() if math.isfinite(loss_pct)]
    reasons = [
        finding("first-beyond-loss-limit", key, loss_pct=loss_pct, limit_pct=limits.choice_loss_pct)
        for key, loss_pct in too_large_pct[:NAMED_COUNT]
    ]
    if unknown := tuple(key for key, loss_pct in losses_pct.items() if math.isinf(loss_pct)):
        reasons.append(finding("faster-loss-unknown", choice.key, others=unknown))
    return reasons


def _alternatives(
    choice: _Placed[Option] | None,
    ordered: Sequence[_Placed[Option]],
    missing: Sequence[_Placed[Option]],
) -> tuple[Alternative, ...]:
    """Return the options worth naming beside the choice.

    `missing`: those that miss the limit of the loss and no other, nearest to the limits first.
    """
    if choice is None:
        nearest = next((each for each in missing if not each.has_gap), None)
        return _alternative("riskier", nearest, None)
    loss_pct = choice.item.loss.pct
    if loss_pct is not None and loss_pct > MAX_LOSS_PCT:
        within = [each for each in ordered if _most_loss_pct(each.item) <= MAX_LOSS_PCT]
        second = _alternative("lower-loss", _first_beside(choice, within), choice)
    else:
        faster = [each for each in _unbeaten(missing, ordered) if _is_faster(each, choice)]
        second = _alternative("riskier", _first_beside(choice, faster), choice)
    safest = _first_beside(choice, _losing_least(ordered, choice))
    is_named = any(each.option is safest.item for each in second) if safest is not None else True
    return (*second, *(() if is_named else _alternative("safest", safest, choice)))


def _unbeaten(lossy: Sequence[_Placed[Option]], within: Sequence[_Placed[Option]]) -> list[_Placed[Option]]:
    """Return the options beyond the limit of the loss that none of them, and none within it, beats: shorter time, no
    more loss, evidence no worse.
    """
    return [
        each
        for each in lossy
        if not any(
            other.time_s < each.time_s
            and _most_loss_pct(other.item) <= _most_loss_pct(each.item)
            and other.tier <= each.tier
            for other in (*within, *lossy)
        )
    ]


def _first_beside(choice: _Placed[Option] | None, placed: Iterable[_Placed[Option]]) -> _Placed[Option] | None:
    """Return the first of the options that a kernel runs, the choice left out; None where there is none."""
    return next(_ordered([each for each in placed if not each.has_gap and each is not choice]), None)


def _alternative(
    role: AlternativeRole, each: _Placed[Option] | None, choice: _Placed[Option] | None
) -> tuple[Alternative, ...]:
    if each is None:
        return ()
    is_alike = choice is not None and is_comparable(each.source, choice.source)
    return (Alternative(role, each.item, each.time_s / choice.time_s if choice is not None and is_alike else None),)


def _misses_loss_alone(option: Option, missing: Sequence[Exclusion]) -> bool:
    return any(
        each.option is option and {item.code for item in each.findings} == {"misses-loss-limit"} for each in missing
    )


def _is_faster(each: _Placed[Option], choice: _Placed[Option]) -> bool:
    """Return whether an option is faster than the choice by more than what is tied; over a measured choice that loses
    nothing it has to be surely faster, as in the order.
    """
    if not is_comparable(each.source, choice.source) or _are_level(each, choice):
        return False
    is_pair_measured = each.source == choice.source == "measured"
    if is_pair_measured and choice.standing.is_lossless and not _goes_before(each.standing, choice.standing):
        return False
    return each.standing.time_s * (1 + LEVEL_RATIO) < choice.standing.time_s


def _losing_least(ordered: Sequence[_Placed[Option]], choice: _Placed[Option]) -> list[_Placed[Option]]:
    """Return the options that lose least; none where the choice loses no more than they by more than what is equal."""
    loss_pct = choice.item.loss.pct
    if loss_pct is None or loss_pct <= 0:
        return []
    losses_pct = [_most_loss_pct(each.item) for each in ordered]
    least_pct = min(losses_pct)
    if least_pct > 0 and least_pct >= loss_pct - EQUAL_LOSS_PCT:
        return []
    return [each for each, most_pct in zip(ordered, losses_pct, strict=True) if most_pct == least_pct]


def _most_loss_pct(option: Option) -> float:
    """Return what an option loses at most; infinite where nobody knows."""
    loss = option.loss
    return math.inf if loss.pct is None else max(loss.pct, loss.at_least_pct or 0.0)


def alternative_finding(alternative: Alternative, ranking: Ranking) -> Finding:
    """Return an alternative as a finding: its loss, its time, and how that compares with the choice's."""
    option, choice, ratio = alternative.option, ranking.choice, alternative.slowdown_ratio
    is_alike = choice is not None and ratio is not None
    return finding(
        "alternative",
        option.key,
        kind=alternative.role,
        loss_pct=option.loss.pct,
        time_s=option.estimate.time_s,
        choice=choice.key if choice is not None and is_alike else None,
        slowdown_ratio=ratio if is_alike and alternative.role != "riskier" else None,
        speedup_ratio=1 / ratio if ratio is not None and alternative.role == "riskier" else None,
    )


def _goes_before(item: Standing, lossless: Standing | None) -> bool:
    """Return whether a measured item may stand before the fastest that loses nothing: it loses nothing, or is surely
    faster.
    """
    if lossless is None or item.is_lossless:
        return True
    if item.high_s is None or lossless.low_s is None:
        return lossless.time_s > item.time_s * (1 + UNKNOWN_LEVEL_RATIO)
    return item.high_s < lossless.low_s


def _measured_key(item: Standing) -> tuple[float, float, float, str]:
    loss_pct, memory_bytes, _, time_s = item.place_key
    return loss_pct, memory_bytes, time_s, item.name


def _or_last(value: float | None) -> float:
    return math.inf if value is None else value
