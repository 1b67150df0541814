"""What `roofline recommend --model` prints: the answer in a dozen lines; with `--all` every plan and why."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

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
from reports.present.screen import (
    MISSING,
    Cell,
    Column,
    Styled,
    decimal_bytes,
    show_line,
    show_more,
    show_next,
    show_notes,
    show_table,
)
from roofline_model.core.finding import by_severity, finding, findings_text, has_code, short_text
from roofline_model.core.units import counted, in_prefix, sentence, shared_prefix
from roofline_model.recommend.plan_formats import plan_name

if TYPE_CHECKING:
    from reports.answers.short_answer import ShortAnswer
    from roofline_model.core.answer import Option, Ranking
    from roofline_model.recommend.model import ModelRanking
    from roofline_model.recommend.plan_options import PlanOption

LOSS_COLUMNS = tuple(Column(head, "right", hide_empty=True) for head in LOSS_METRICS.values())
_COLUMNS = (
    Column("", "right"),
    Column("Plan"),
    Column("Ideal", "right", drop=4),
    Column("Expected", "right", hide_empty=True),
    Column("80 % from", "right", drop=5, hide_empty=True),
    Column("at most", "right", hide_empty=True),
    Column("Tokens/s", "right", drop=2, hide_empty=True),
    *(Column(phase.capitalize(), "right", hide_empty=True) for phase in PHASES),
    Column("Gain", "right"),
    Column("Weights", "right", drop=8),
    Column("KV cache", "right", drop=7),
    Column("Memory", "right", drop=1),
    Column("left", "right", drop=10, hide_empty=True),
    *LOSS_COLUMNS,
    Column("Method", drop=6),
    Column("Runs as", drop=9),
    Column("Kernels", drop=13, hide_empty=True),
    Column("From", drop=11, hide_empty=True),
    Column("Why", is_prose=True, least=30, drop=12),
)


_SHORT_COLUMNS = {
    "Tokens/s": Column("Tokens/s", "right", drop=3),
    "Ideal": Column("Ideal", "right", drop=2),
    "W saved": Column("W saved", "right", drop=1),
    "Format": Column("Format"),
}
"""Head of a short answer's column → how it is printed; every other one is a plain number."""


def print_short_answer(answer: ShortAnswer, more: str, *, show_all: bool, left_out: Sequence[str] = ()) -> None:
    """Print what to take, the options by name, up to two caveats, and what to type next: a dozen lines. `left_out`:
    a line for each option that was asked for and has no row.
    """
    has_choice = any(row.role == ROLES["take"] for row in answer.rows)
    show_line(answer.sentence, "bold" if has_choice else "bold red")
    show_line(answer.subject, "dim")
    if answer.rows:
        columns = (Column(""), *(_SHORT_COLUMNS.get(head, Column(head, "right")) for head in answer.columns))
        first_loss = next((at for at, head in enumerate(answer.columns) if head in LOSS_METRICS.values()), None)
        rows: list[list[Cell]] = []
        for row in answer.rows:
            cells: list[Cell] = [row.role, *row.cells]
            if not row.is_loss_known and first_loss is not None:
                cells[first_loss + 1] = Styled(row.cells[first_loss], "yellow")
            rows.append(cells)
        show_table(columns, rows, says_what_is_left_out=False)
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


def loss_cells(option: Option) -> list[Cell]:
    """Return the cell of each column of losses, an unknown loss in yellow."""
    texts = loss_texts(option)
    return list(texts) if is_loss_known(option) else [Styled(texts[0], "yellow"), *texts[1:]]


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
    show_line()
    show_line(limits_sentence(ranking))
    if rows := _rows(ranking):
        show_table(_COLUMNS, rows)
    if len(rows) > len(ranking.options):
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
        usable = "" if is_whole else f"{decimal_bytes(limits.memory_bytes)} usable of "
        limit_texts.append(f"{usable}{decimal_bytes(limits.memory_limit_bytes)} of memory{headroom}")
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


def _rows(ranking: ModelRanking) -> list[list[Cell]]:
    """Return a row for every ranked plan, then for every excluded one that has a time."""
    from reports.answers.model_advice import LOSS_CODES, execution_text
    from roofline_model.recommend.plan_options import PlanOption

    excluded = [each.option for each in ranking.excluded if isinstance(each.option, PlanOption)]
    options = [*ranking.options, *excluded]
    ideals_s = [None if option.times.ideal is None else option.times.ideal.time_s for option in options]
    better_s = [None if option.estimate.source == "ideal" else option.estimate.time_s for option in options]
    prefix = shared_prefix(ideals_s, better_s, [phase.time_s for option in options for phase in option.phases])
    rows: list[list[Cell]] = []
    for rank, (option, ideal_s, time_s) in enumerate(zip(options, ideals_s, better_s, strict=True), 1):
        memory = option.memory
        rows.append(
            [
                str(rank) if rank <= len(ranking.options) else MISSING,
                plan_name(option),
                in_prefix(ideal_s, prefix),
                MISSING if time_s is None else f"{least_mark(option)}{in_prefix(time_s, prefix)}",
                *_interval(option, prefix),
                tokens_text(option),
                *phase_texts(option, prefix, PHASES),
                gain_text(option, ranking.baseline),
                MISSING if memory is None else decimal_bytes(memory.weight_bytes),
                MISSING if memory is None else decimal_bytes(memory.cache_bytes),
                decimal_bytes(_bytes(option)),
                _left(ranking, option),
                *loss_cells(option),
                option.method,
                execution_text(option.execution),
                option.kernel or MISSING,
                option.estimate.provenance or MISSING,
                findings_text(with_names(item) for item in option.findings if item.code not in LOSS_CODES),
            ]
        )
    return rows


def _interval(option: Option, prefix: str | None) -> tuple[str, str]:
    """Return both ends of the 80 % interval: the later one is what plans are ranked by, and stays on narrow screens."""
    time = option.estimate
    if time.low_s is None or time.high_s is None or time.source == "ceilings":
        return MISSING, MISSING
    return in_prefix(time.low_s, prefix), in_prefix(time.high_s, prefix)


def _left(ranking: ModelRanking, option: Option) -> str:
    limit_bytes = ranking.limits.memory_bytes
    return MISSING if limit_bytes is None else decimal_bytes(limit_bytes - _bytes(option))


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
