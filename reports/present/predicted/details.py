"""What `--all` adds to an answer of predicted options: every one of them, what was excluded and why, and the rule of
the order; and what to take on each of several chips.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reports.present.blocks import Block, Cell, Column, Command, Paragraph, Rich, Span, memory_cell, table
from reports.present.cases import option_memory_cell
from reports.present.predicted.advice import limits_sentence, wider_loss_limit
from reports.present.predicted.kernels import gap_blocks, reference_kernel_sentence
from reports.present.predicted.words import (
    LOSS_METRICS,
    PHASES,
    SOURCES,
    better_s,
    borrowed_sentence,
    execution_text,
    gain_text,
    is_carried_over,
    is_loss_known,
    least_mark,
    loss_texts,
    phase_text,
    place_reason,
    plan_text,
    quality_note,
    saved_text,
    shown_key,
    tokens_text,
    with_names,
)
from reports.present.screen import MISSING, has_room_for
from reports.present.words.sentences import order_of_predictions
from roofline_model.core.answer import BOUNDS, is_comparable
from roofline_model.core.finding import by_severity, findings_text, first_with, has_code, short_text
from roofline_model.core.units import (
    format_memory,
    format_speedup,
    in_prefix,
    interval_in_prefix,
    sentence,
    shared_prefix,
)
from roofline_model.recommend.loss import loss_text
from roofline_model.recommend.options import product_name
from roofline_model.recommend.plan_formats import plan_name
from roofline_model.recommend.plan_options import PlanOption
from roofline_model.recommend.ranking import are_level_predictions

if TYPE_CHECKING:
    from roofline_model.core.answer import Option, Ranking
    from roofline_model.recommend.model import ModelRanking

    OfOption = Callable[[Option], Cell | Rich]


def loss_columns(
    option_of: Callable[[Any], Option | None] = lambda option: option, drops: Sequence[int] = (0, 0, 0)
) -> list[Column]:
    """Return a column for each metric of losses, an unknown loss in yellow."""

    def cell(at: int) -> Callable[[Any], Rich]:
        def text(row: Any) -> Rich:
            option = option_of(row)
            if option is None:
                return MISSING
            words = loss_texts(option)[at]
            return words if at or is_loss_known(option) else Span(words, "predicted")

        return text

    return [Column(head, cell(at), "number", drop=drops[at]) for at, head in enumerate(LOSS_METRICS.values())]


def _interval(prefix: str | None) -> Callable[[Option], str]:
    def text(option: Option) -> str:
        low_s, high_s = option.estimate.interval_s
        if low_s is None or high_s is None:
            return MISSING
        return interval_in_prefix(low_s, high_s, prefix, in_prefix(better_s(option), prefix))

    return text


def product_details(
    ranking: Ranking,
    name: Callable[[Option], str] = product_name,
    reason: Callable[[Option], str] = lambda option: findings_text(option.findings),
) -> Iterator[Block]:
    """Yield all ranked options, what was excluded and why, the rule of the order, and why the choice is taken.

    `name`: of an option; `reason`: why it stands where it stands, for a page.
    """
    options = ranking.options
    prefix = shared_prefix([option.times.ideal_s for option in options], list(map(better_s, options)))
    # Only where the ranking is by better times than the ideals has the ideal speed-up a column of its own.
    has_better = any(better_s(option) is not None for option in options)
    columns = (
        Column("", lambda option: str(options.index(option) + 1), "number"),
        Column("Format", name, is_head=True),
        Column("Method", lambda option: option.method, drop=5),
        Column("Path", lambda option: option.path, drop=6),
        Column("Expected", lambda option: Cell(in_prefix(better_s(option), prefix), better_s(option)), "number"),
        Column("80 %", _interval(prefix), "number", drop=3),
        Column("Ideal", lambda option: in_prefix(option.times.ideal_s, prefix), "number"),
        Column("Gain", lambda option: gain_text(option, ranking.baseline), "number"),
        Column(
            "Ideal gain",
            lambda option: format_speedup(option.ideal_speedup_ratio) if has_better else MISSING,
            "number",
            drop=2,
        ),
        Column("From", lambda option: option.estimate.provenance or MISSING, drop=8),
        Column("Memory", option_memory_cell, "number", drop=3),
        Column("W saved", saved_text, "number", drop=1),
        Column("Bound", lambda option: option.bound, drop=4),
        Column("Quality", lambda option: loss_text(option.loss), "prose", drop=7),
        Column("Why", reason, "prose", medium="page"),
    )
    yield Paragraph("", medium="text")
    yield table("options", columns, options, look="stacks ranked")
    yield from (Paragraph(f"  excluded: {each.key}: {findings_text(each.findings)}") for each in ranking.excluded)
    yield from gap_blocks(
        (
            (name(each), first_with(each.findings, "kernel-gap") or first_with(each.findings, "engine-gap"))
            for each in options
        ),
        rank=" last",
    )
    yield from (Paragraph(f"  note: {short_text(item)}") for item in ranking.findings)
    yield Paragraph(_product_basis(ranking), "quiet")
    timed = [(dict(option.formats), option.estimate) for option in options]
    expected = [
        (each["b"], each["a"], time.provenance) for each, time in timed if time.source == "expected" and "b" in each
    ]
    if text := reference_kernel_sentence(expected):
        yield Paragraph(text, "quiet")
    if ranking.choice is not None:
        yield Paragraph(f"Why {name(ranking.choice)}: {ranking.reason}.")


def _product_basis(ranking: Ranking) -> str:
    """Return which kind of time the ranking goes by, and what decides between tied ones."""
    if all(option.estimate.source == "ideal" for option in ranking.options):
        rule = order_of_predictions("ideal", has_intervals=False)
        return f"Ranked {rule}. No expected times are known for {ranking.question.hardware}."
    rule = order_of_predictions("expected", has_intervals=True)
    return f"Ranked {rule}. Ideal gain: ideal time against that of 16 bit."


def model_details(ranking: ModelRanking) -> Iterator[Block]:
    """Yield all plans with a time, what mixed plans are made of, why plans are excluded, findings and the rule of the
    order.
    """
    yield Paragraph("", medium="text")
    yield Paragraph(limits_sentence(ranking))
    excluded = [each.option for each in ranking.excluded if isinstance(each.option, PlanOption)]
    if options := [*ranking.options, *excluded]:
        yield table("plans", _plan_columns(ranking, options), options, look="stacks ranked")
    if excluded:
        yield Paragraph(f"{MISSING} before a plan: it is excluded, for the reason below.", "quiet")
    wider = wider_loss_limit(ranking)
    lines = [
        *map(_made_of, ranking.options),
        *(_loss_line(option, option is ranking.choice) for option in ranking.options),
        *excluded_lines(ranking),
        "" if wider is None else f"--max-quality-loss {wider[0]:g} ranks {plan_name(wider[1])} too",
    ]
    yield from (Paragraph(f"  {line}") for line in lines if line)
    for option in ranking.options:
        for item in option.findings:
            if item.code == "kernel-gap":
                yield Paragraph(f"  {plan_name(option)} last: {short_text(item)}", "warning")
    for item in by_severity(item for item in ranking.findings if item not in ranking.decision):
        tone = "plain" if item.severity == "info" else "warning"
        yield Paragraph(f"  note: {short_text(with_names(item))}", tone)  # type: ignore[arg-type]
    if ranking.options:
        yield Paragraph(_plan_basis(ranking), "quiet")
    choice = ranking.choice
    if choice is None:
        yield Paragraph(sentence(findings_text(map(with_names, ranking.decision))))
    else:
        kernels = f"; kernels: {choice.kernel}" if choice.kernel else ""
        yield Paragraph(f"Why {plan_name(choice)}: {findings_text(map(with_names, choice.findings))}{kernels}.")


def excluded_lines(ranking: ModelRanking, shown_keys: Container[str] = ()) -> Iterator[str]:
    """Yield a line for each excluded plan, with its reasons; `shown_keys`: plans that have a row already."""
    for each in ranking.excluded:
        if each.key not in shown_keys:
            name = shown_key(each.key) if each.option is None else plan_name(each.option)
            yield f"excluded: {name}: {findings_text(map(with_names, each.findings))}"


def _plan_basis(ranking: ModelRanking) -> str:
    """Return which kind of time ranks, and how ties and unknown losses are treated."""
    assert ranking.baseline is not None  # 16 bit is always predicted
    has_intervals = any(option.estimate.high_s is not None for option in ranking.options)
    rule = order_of_predictions(ranking.baseline.estimate.source, has_intervals=has_intervals)
    published = "; a checkpoint published narrow stays unless it is clearly slower"
    return (
        f"Ranked {rule}{published if any(option.kind == 'published' for option in ranking.options) else ''}. Plans of "
        "unknown loss stand behind the others. Uniform plans and the named strategies keep head and embedding in "
        "16 bit."
    )


def _plan_columns(ranking: ModelRanking, options: Sequence[Option]) -> list[Column]:
    """Return the columns of every ranked plan and of every excluded one that has a time."""
    ranks = {option.key: str(rank) for rank, option in enumerate(ranking.options, 1)}
    limit_bytes = ranking.limits.memory_bytes
    prefix = shared_prefix(
        [option.times.ideal_s for option in options],
        list(map(better_s, options)),
        [phase.time_s for option in options for phase in option.phases],
    )

    def expected(option: Option) -> Cell:
        time_s = better_s(option)
        return Cell(MISSING if time_s is None else f"{least_mark(option)}{in_prefix(time_s, prefix)}", time_s)

    def end(name: str) -> OfOption:
        """Both ends of the 80 % interval: the later one is what plans are ranked by, and stays on narrow screens."""

        def text(option: Option) -> str:
            time = option.estimate
            is_missing = time.low_s is None or time.high_s is None or time.source == "ceilings"
            return MISSING if is_missing else in_prefix(getattr(time, name), prefix)

        return text

    def held(name: str) -> OfOption:
        return lambda option: memory_cell(None if option.memory is None else getattr(option.memory, name))

    def left(option: Option) -> str:
        assert option.memory is not None  # of a plan it is known
        return MISSING if limit_bytes is None else format_memory(limit_bytes - option.memory.total_bytes)

    return [
        Column("", lambda option: ranks.get(option.key, MISSING), "number", is_head=True),
        Column("Plan", plan_name, is_head=True),
        Column("Ideal", lambda option: in_prefix(option.times.ideal_s, prefix), "number", drop=4),
        Column("Expected", expected, "number"),
        Column("80 % from", end("low_s"), "number", drop=5),
        Column("at most", end("high_s"), "number"),
        Column("Tokens/s", tokens_text, "number", drop=2),
        *_phase_columns(prefix),
        Column("Gain", lambda option: gain_text(option, ranking.baseline), "number"),
        Column("Weights", held("weight_bytes"), "number", drop=8),
        Column("KV cache", held("cache_bytes"), "number", drop=7),
        Column("Memory", held("total_bytes"), "number", drop=1),
        Column("left", left, "number", drop=10),
        *loss_columns(),
        Column("Method", lambda option: option.method, drop=6),
        Column("Runs as", lambda option: execution_text(option.execution), drop=9),
        Column("Kernels", lambda option: option.kernel or MISSING, drop=13),
        Column("From", lambda option: option.estimate.provenance or MISSING, drop=11),
        Column("Why", place_reason, "prose", least=30, drop=12),
    ]


def _phase_columns(
    prefix: str | None, of_row: Callable[[OfOption], Callable[[Any], Cell | Rich]] = lambda text: text
) -> Iterator[Column]:
    """Yield a column of the times of each phase of a mix; `of_row`: the option of a row."""

    def of_phase(phase: str) -> OfOption:
        return lambda option: phase_text(option, prefix, phase)

    return (Column(phase.capitalize(), of_row(of_phase(phase)), "number") for phase in PHASES)


def _made_of(option: PlanOption) -> str:
    """Return what a plan is made of where its name does not say it, and its other names."""
    name, also = plan_name(option), f" (also {', '.join(option.aliases)})" if option.aliases else ""
    if option.kind in ("baseline", "uniform"):
        return f"{name}{also}" if also else ""
    return f"{name if name == option.key else f'{name}, {option.key}'}{also}: {plan_text(option.parts)}"


def _loss_line(option: PlanOption, is_choice: bool) -> str:
    """Return how a loss was measured, where the choice's published one is from, and of others why theirs is unknown or
    that it adds two metrics; else nothing.
    """
    source = option.loss.source
    is_of_layers = source in ("measured", "estimated")
    is_noted = is_of_layers or source == "unknown" or (is_choice and source == "claimed")
    texts = (
        loss_text(option.loss) if is_of_layers else "",
        quality_note(option) if is_noted or has_code(option.findings, "loss-adds-metrics") else "",
    )
    text = "; ".join(filter(None, texts))
    return f"loss of {plan_name(option)}: {text}" if text else ""


# Several chips -------------------------------------------------------------------------------------------------


def chip_blocks(
    subject: str,
    rankings: Mapping[str, Ranking],
    option_name: Callable[[Option], str],
    next_command: Callable[[str], str],
) -> Iterator[Block]:
    """Yield the choice on each chip, the fastest first; ideal times come after others, chips without a choice last.

    `next_command`: what to type to see why, by the key of a chip.
    """
    ordered = sorted(rankings.items(), key=lambda item: _chip_place(item[1]))
    chosen = [(chip, ranking.choice) for chip, ranking in ordered if ranking.choice is not None]
    prefix = shared_prefix([choice.estimate.time_s for _, choice in chosen])
    yield Paragraph(_fastest_chip(chosen, option_name, prefix), "verdict" if chosen else "failed")
    yield Paragraph(f"{subject}. Gain: over 16 bit on the same chip.", "quiet")
    chips = table("chips", _chip_columns(option_name, prefix), ordered, says_what_is_left_out=False)
    yield chips
    if len({choice.estimate.source for _, choice in chosen}) > 1:
        yield Paragraph("(ideal) is no kernel's time: it is not compared with an expected one.", "warning")
    lent = [chip for chip, choice in chosen if is_carried_over(choice.estimate.provenance)]
    if lent:
        yield Paragraph(f"Carried over from other chips: the times of {', '.join(lent)}.", "quiet")
    borrowed = borrowed_sentence(choice for _, choice in chosen)
    if borrowed and has_room_for(chips, "PPL"):
        yield Paragraph(borrowed, "quiet")
    yield Command(next_command((chosen or ordered)[0][0]), "says why")


def _chip_place(ranking: Ranking) -> tuple[bool, float]:
    """Return what chips are ordered by: a bound of a time comes after every time of a kernel."""
    if ranking.choice is None:
        return True, math.inf
    time = ranking.choice.estimate
    return time.source in BOUNDS, time.time_s


def _fastest_chip(
    chosen: Sequence[tuple[str, Option]], option_name: Callable[[Option], str], prefix: str | None
) -> str:
    """Return the fastest chip in a sentence, with its lead over the next that it can be compared with."""
    if not chosen:
        return "Nothing keeps the limits on any of these chips."
    chip, choice = chosen[0]
    time = choice.estimate
    took = f"{option_name(choice)}, {SOURCES[time.source]} {in_prefix(time.time_s, prefix)}"
    others = [(other, each.estimate) for other, each in chosen[1:] if is_comparable(time.source, each.estimate.source)]
    tied = [(other, theirs) for other, theirs in others if are_level_predictions(time, theirs)]
    if tied:
        names = [chip, *(other for other, _ in tied)]
        times = ", ".join(in_prefix(theirs.time_s, prefix) for _, theirs in tied)
        return f"{', '.join(names[:-1])} and {names[-1]} are tied: {took}; the others {times}."
    if others:
        other, theirs = others[0]
        return f"{chip} is fastest: {took}, {format_speedup(theirs.time_s / time.time_s)} as fast as {other}."
    return f"{chip}: {took}."


def _chip_columns(option_name: Callable[[Option], str], prefix: str | None) -> list[Column]:
    """Return the columns of chips with their rankings, of which the choice is shown."""

    def of_choice(text: OfOption) -> Callable[[tuple[str, Ranking]], Cell | Rich]:
        return lambda row: MISSING if row[1].choice is None else text(row[1].choice)

    def time(choice: Option) -> str:
        text = in_prefix(choice.estimate.time_s, prefix)
        return text if choice.estimate.source == "expected" else f"{text} ({choice.estimate.source})"

    return [
        Column("Chip", lambda row: row[0], is_head=True),
        Column("Take", lambda row: "nothing fits" if row[1].choice is None else option_name(row[1].choice)),
        Column("Time", of_choice(time), "number"),
        Column("80 %", of_choice(_interval(prefix)), "number", drop=3),
        Column("Tokens/s", of_choice(tokens_text), "number"),
        *_phase_columns(prefix, of_choice),
        Column("Gain", of_choice(lambda choice: format_speedup(choice.speedup_ratio)), "number", drop=1),
        Column("Memory", of_choice(option_memory_cell), "number"),
        *loss_columns(lambda row: row[1].choice, (2, 4, 6)),
    ]
