"""What `roofline recommend --model` prints: the answer in a dozen lines; with `--all` every plan and why."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

from reports.answers.short_answer import (
    LOSS_METRICS,
    PHASES,
    ROLES,
    gain_text,
    is_loss_known,
    least_mark,
    loss_texts,
    phase_texts,
    shown_key,
    tokens_text,
    wider_loss_limit,
    with_names,
)
from reports.present.blocks import Cell, Column, Rich, Span, memory_cell, table
from reports.present.screen import MISSING, show, show_line, show_more, show_next, show_notes
from roofline_model.core.finding import by_severity, finding, findings_text, has_code, short_text
from roofline_model.core.units import counted, format_memory, in_prefix, sentence, shared_prefix
from roofline_model.recommend.plan_formats import plan_name

if TYPE_CHECKING:
    from reports.answers.short_answer import ShortAnswer, ShortRow
    from roofline_model.core.answer import Option, Ranking
    from roofline_model.recommend.model import ModelRanking
    from roofline_model.recommend.plan_options import PlanOption

_SHORT_DROPS = {"Tokens/s": 3, "Ideal": 2, "W saved": 1}
"""Columns of a short answer that leave a narrow screen, the highest number first."""


def print_short_answer(answer: ShortAnswer, more: str, *, show_all: bool, left_out: Sequence[str] = ()) -> None:
    """Print what to take, the options by name, up to two caveats, and what to type next: a dozen lines. `left_out`:
    a line for each option that was asked for and has no row.
    """
    has_choice = any(row.role == ROLES["take"] for row in answer.rows)
    show_line(answer.sentence, "bold" if has_choice else "bold red")
    show_line(answer.subject, "dim")
    if answer.rows:
        show(table("options", _short_columns(answer), answer.rows, says_what_is_left_out=False))
        show_line(answer.basis, "dim")
        if answer.borrowed:
            show_line(answer.borrowed, "dim")
    show_notes(answer.notes)
    for line in left_out:
        show_line(line)
    show_next(answer.next_command, answer.next_effect)
    show_more(more, is_shown=show_all)


def added_by_all(ranking: Ranking, noun: str) -> str:
    """Return what --all adds. `noun`: what an option is called, for one of them."""
    if not ranking.options:
        excluded = counted(len(ranking.excluded), noun)
        return f"says why {excluded} {'is' if len(ranking.excluded) == 1 else 'are'} excluded"
    count = len(ranking.excluded)
    excluded = f" and why {count} {'is' if count == 1 else 'are'} excluded" if count else ""
    return f"lists {counted(len(ranking.options), noun)}{excluded}"


def _short_columns(answer: ShortAnswer) -> list[Column]:
    first_loss = next((at for at, head in enumerate(answer.columns) if head in LOSS_METRICS.values()), None)

    def cell(at: int) -> Callable[[ShortRow], Rich]:
        return lambda row: (
            Span(row.cells[at], "predicted") if at == first_loss and not row.is_loss_known else row.cells[at]
        )

    return [
        Column("", lambda row: row.role),
        *(
            Column(head, cell(at), "name" if head == "Format" else "number", drop=_SHORT_DROPS.get(head, 0))
            for at, head in enumerate(answer.columns)
        ),
    ]


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


def excluded_lines(ranking: ModelRanking, shown_keys: Container[str]) -> list[str]:
    """Return a line for each excluded plan, with its reasons; `shown_keys`: plans that have a row already."""
    return [
        f"excluded: {shown_key(each.key) if each.option is None else plan_name(each.option)}: "
        f"{findings_text(map(with_names, each.findings))}"
        for each in ranking.excluded
        if each.key not in shown_keys
    ]


def print_model_details(ranking: ModelRanking) -> None:
    """Print all plans with a time, what mixed plans are made of, why plans are excluded, findings and the rule of the
    order.
    """
    from roofline_model.recommend.plan_options import PlanOption

    show_line()
    show_line(limits_sentence(ranking))
    excluded = [each.option for each in ranking.excluded if isinstance(each.option, PlanOption)]
    if options := [*ranking.options, *excluded]:
        show(table("plans", _plan_columns(ranking, options), options))
    if excluded:
        show_line(f"{MISSING} before a plan: it is excluded, for the reason below.", "dim")
    for line in filter(None, map(_made_of, ranking.options)):
        show_line(f"  {line}")
    for line in _loss_lines(ranking):
        show_line(f"  {line}")
    for line in excluded_lines(ranking, ()):
        show_line(f"  {line}")
    if text := _wider_limit(ranking):
        show_line(f"  {text}")
    for option in ranking.options:
        for item in option.findings:
            if item.code == "kernel-gap":
                show_line(f"  {plan_name(option)} last: {short_text(item)}", "yellow")
    for item in by_severity(item for item in ranking.findings if item not in ranking.decision):
        show_line(f"  note: {short_text(with_names(item))}", "" if item.severity == "info" else "yellow")
    if ranking.options:
        show_line(basis_sentence(ranking), "dim")
    show_line(reason_sentence(ranking))


def _wider_limit(ranking: ModelRanking) -> str:
    """Return which limit ranks the riskier plan, or else the first that only its loss excludes; empty where none is."""
    wider = wider_loss_limit(ranking)
    return "" if wider is None else f"--max-quality-loss {wider[0]:g} ranks {plan_name(wider[1])} too"


def limits_sentence(ranking: ModelRanking) -> str:
    """Return the limits that the plans were held against."""
    limits = ranking.limits
    limit_texts = []
    if limits.memory_limit_bytes is None:
        limit_texts.append("no limit of memory (the chip's file states no capacity)")
    else:
        headroom = f", {limits.headroom_ratio * 100:g} % of it kept free" if limits.headroom_ratio else ""
        is_whole = limits.memory_bytes == limits.memory_limit_bytes
        usable = "" if is_whole else f"{format_memory(limits.memory_bytes)} usable of "
        limit_texts.append(f"{usable}{format_memory(limits.memory_limit_bytes)} of memory{headroom}")
    if limits.time_s is not None:
        limit_texts.append(f"{limits.time_s * 1e3:g} ms a pass")
    limit_texts += [f"{limit_s * 1e3:g} ms a {phase}" for phase, limit_s in limits.phase_times_s]
    most = f"a loss of at most {limits.loss_pct:g} %"
    default = "" if limits.is_loss_given else " (default)"
    limit_texts.append(f"{most}{default}, of perplexity where published, else of task accuracy")
    return f"Limits: {'; '.join(limit_texts)}."


def basis_sentence(ranking: ModelRanking) -> str:
    """Return which kind of time ranks, and how ties and unknown losses are treated."""

    assert ranking.baseline is not None  # 16 bit is always predicted
    has_intervals = any(option.estimate.high_s is not None for option in ranking.options)
    source = ranking.baseline.estimate.source
    rule = short_text(finding("order-of-predictions" if has_intervals else "order-of-bounds", source=source))
    published = "; a checkpoint published narrow stays unless it is clearly slower"
    return (
        f"Ranked {rule}{published if any(option.kind == 'published' for option in ranking.options) else ''}. Plans of "
        "unknown loss stand "
        "behind the others. Uniform plans and the named strategies keep head and embedding in 16 bit."
    )


def reason_sentence(ranking: ModelRanking) -> str:
    """Return why the choice is taken, and the kernels that it needs."""
    choice = ranking.choice
    if choice is None:
        return sentence(findings_text(map(with_names, ranking.decision)))
    kernels = f"; kernels: {choice.kernel}" if choice.kernel else ""
    return f"Why {plan_name(choice)}: {findings_text(map(with_names, choice.findings))}{kernels}."


def _bytes(option: Option) -> float:
    assert option.memory is not None  # of a plan it is known
    return option.memory.total_bytes


def _plan_columns(ranking: ModelRanking, options: Sequence[Option]) -> list[Column]:
    """Return the columns of every ranked plan and of every excluded one that has a time."""
    from reports.answers.model_advice import LOSS_CODES, execution_text

    ranks = {option.key: str(rank) for rank, option in enumerate(ranking.options, 1)}
    ideals_s = [None if option.times.ideal is None else option.times.ideal.time_s for option in options]
    better_s = [_better_s(option) for option in options]
    prefix = shared_prefix(ideals_s, better_s, [phase.time_s for option in options for phase in option.phases])

    def expected(option: Option) -> str:
        time_s = _better_s(option)
        return MISSING if time_s is None else f"{least_mark(option)}{in_prefix(time_s, prefix)}"

    def end(name: str) -> Callable[[Option], str]:
        """Both ends of the 80 % interval: the later one is what plans are ranked by, and stays on narrow screens."""

        def text(option: Option) -> str:
            time = option.estimate
            is_missing = time.low_s is None or time.high_s is None or time.source == "ceilings"
            return MISSING if is_missing else in_prefix(getattr(time, name), prefix)

        return text

    def held(name: str) -> Callable[[Option], Cell]:
        return lambda option: memory_cell(None if option.memory is None else getattr(option.memory, name))

    def of_phase(phase: str) -> Callable[[Option], str]:
        return lambda option: phase_texts(option, prefix, [phase])[0]

    def why(option: Option) -> str:
        return findings_text(with_names(item) for item in option.findings if item.code not in LOSS_CODES)

    return [
        Column("", lambda option: ranks.get(option.key, MISSING), "number", is_head=True),
        Column("Plan", plan_name, is_head=True),
        Column("Ideal", lambda option: in_prefix(option.times.ideal_s, prefix), "number", drop=4),
        Column("Expected", expected, "number"),
        Column("80 % from", end("low_s"), "number", drop=5),
        Column("at most", end("high_s"), "number"),
        Column("Tokens/s", tokens_text, "number", drop=2),
        *(Column(phase.capitalize(), of_phase(phase), "number") for phase in PHASES),
        Column("Gain", lambda option: gain_text(option, ranking.baseline), "number"),
        Column("Weights", held("weight_bytes"), "number", drop=8),
        Column("KV cache", held("cache_bytes"), "number", drop=7),
        Column("Memory", held("total_bytes"), "number", drop=1),
        Column("left", lambda option: _left(ranking, option), "number", drop=10),
        *loss_columns(),
        Column("Method", lambda option: option.method, drop=6),
        Column("Runs as", lambda option: execution_text(option.execution), drop=9),
        Column("Kernels", lambda option: option.kernel or MISSING, drop=13),
        Column("From", lambda option: option.estimate.provenance or MISSING, drop=11),
        Column("Why", why, "prose", least=30, drop=12),
    ]


def _better_s(option: Option) -> float | None:
    """Return a time that is more than a bound by the bytes and FLOPs."""
    return None if option.estimate.source == "ideal" else option.estimate.time_s


def _left(ranking: ModelRanking, option: Option) -> str:
    limit_bytes = ranking.limits.memory_bytes
    return MISSING if limit_bytes is None else format_memory(limit_bytes - _bytes(option))


def _made_of(option: PlanOption) -> str:
    """Return what a plan is made of where its name does not say it, and its other names."""
    from reports.answers.model_advice import plan_text

    also = f" (also {', '.join(option.aliases)})" if option.aliases else ""
    if option.kind in ("baseline", "uniform"):
        return f"{plan_name(option)}{also}" if also else ""
    name = plan_name(option)
    return f"{name if name == option.key else f'{name}, {option.key}'}{also}: {plan_text(option.parts)}"


def _loss_lines(ranking: ModelRanking) -> list[str]:
    """Return how a loss was measured, where the choice's published one is from, and of others why theirs is unknown or
    that it adds two metrics.
    """
    from reports.answers.model_advice import quality_note
    from roofline_model.recommend.loss import loss_text

    lines = []
    for option in ranking.options:
        is_published_choice = option is ranking.choice and option.loss.source == "claimed"
        is_sum = has_code(option.findings, "loss-adds-metrics")
        is_of_layers = option.loss.source in ("measured", "estimated")
        texts = [loss_text(option.loss)] if is_of_layers else []
        if is_published_choice or is_sum or is_of_layers or option.loss.source == "unknown":
            texts.append(quality_note(option))
        if text := "; ".join(filter(None, texts)):
            lines.append(f"loss of {plan_name(option)}: {text}")
    return lines
