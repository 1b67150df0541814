"""What `roofline recommend --model` prints: the ranked plans, what was excluded, and the choice in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_cli.screen.tables import (
    MISSING,
    Cell,
    Column,
    Styled,
    decimal_bytes,
    in_prefix,
    shared_prefix,
    show_line,
    show_table,
    speedup,
)
from roofline_model.core.finding import by_severity, finding, findings_text, short_text
from roofline_model.core.units import format_time

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.core.answer import Option
    from roofline_model.recommend.model import ModelRanking
    from roofline_model.recommend.plan_options import PlanOption

_COLUMNS = (
    Column("", "right"),
    Column("Plan"),
    Column("Ideal", "right", drop=4),
    Column("Expected", "right", hide_empty=True),
    Column("80 % from", "right", drop=5, hide_empty=True),
    Column("at most", "right", hide_empty=True),
    Column("Tokens/s", "right", drop=2),
    Column("vs 16-bit", "right"),
    Column("Weights", "right", drop=8),
    Column("KV cache", "right", drop=7),
    Column("Memory", "right", drop=1),
    Column("left", "right", drop=10, hide_empty=True),
    Column("Loss", is_prose=True, least=14),
    Column("Method", drop=6),
    Column("Runs as", drop=9),
    Column("Kernels", drop=13, hide_empty=True),
    Column("From", drop=11, hide_empty=True),
    Column("Why", is_prose=True, least=30, drop=12),
)


def print_model_recommendation(ranking: ModelRanking, chip: Device) -> None:
    """Print the table of ranked plans, what mixed plans are made of, excluded plans, findings and the choice."""
    from roofline_model.recommend.ranking import alternative_finding

    show_line(title(ranking, chip), "bold")
    show_line(limits_sentence(ranking))
    if ranking.options:
        show_table(_COLUMNS, _rows(ranking))
    for line in filter(None, map(_made_of, ranking.options)):
        show_line(f"  {line}")
    for line in _loss_lines(ranking):
        show_line(f"  {line}")
    for exclusion in ranking.excluded:
        show_line(f"  excluded: {exclusion.key}: {findings_text(exclusion.findings)}")
    for option in ranking.options:
        for item in option.findings:
            if item.code == "kernel-gap":
                show_line(f"  {option.key} last: {short_text(item)}", "yellow")
    for item in by_severity(item for item in ranking.findings if item not in ranking.decision):
        show_line(f"  note: {short_text(item)}", "" if item.severity == "info" else "yellow")
    if ranking.options:
        show_line(basis_sentence(ranking), "dim")
    show_line(choice_sentence(ranking), "bold" if ranking.choice is not None else "bold red")
    for alternative in ranking.alternatives:
        text = short_text(alternative_finding(alternative, ranking))
        show_line(f"Alternative: {text}; --max-quality-loss {alternative.max_loss_pct:g} chooses it.")


def title(ranking: ModelRanking, chip: Device) -> str:
    """Return model, workload and chip in a line."""
    from roofline_model.recommend.search.traffic_file import traffic_text

    model = ranking.question.name
    if len(ranking.traffic) > 1:
        mix = " + ".join(traffic_text(share) for share in ranking.traffic)
        return f"{model}, mean pass of {mix} on {chip.key}: {chip.name}"
    work = ranking.traffic[0].workload
    new = f" new={work.new_count}" if work.new_count not in (1, work.context_count) else ""
    return f"{model} {work.phase} batch={work.batch_count} context={work.context_count}{new} on {chip.key}: {chip.name}"


def limits_sentence(ranking: ModelRanking) -> str:
    """Return the limits that the plans were held against."""
    limits = ranking.limits
    said = []
    if limits.memory_limit_bytes is None:
        said.append("no limit of memory (the chip's file states no capacity)")
    else:
        headroom = f", {limits.headroom_ratio * 100:g} % of it kept free" if limits.headroom_ratio else ""
        said.append(f"{decimal_bytes(limits.memory_limit_bytes)} of memory{headroom}")
    if limits.time_s is not None:
        said.append(f"{limits.time_s * 1e3:g} ms a pass")
    most = f"a loss of at most {limits.loss_pct:g} %"
    if limits.claimed_loss_pct is not None and limits.claimed_loss_pct != limits.loss_pct:
        most += f" measured, {limits.claimed_loss_pct:g} % claimed"
    default = "" if limits.is_loss_given else " (default)"
    said.append(f"{most}{default}, of perplexity where published, else of task accuracy")
    return f"Limits: {'; '.join(said)}."


def basis_sentence(ranking: ModelRanking) -> str:
    """Return which kind of time ranks, and how ties and unknown losses are treated."""

    assert ranking.baseline is not None  # 16 bit is always predicted
    has_intervals = any(option.estimate.high_s is not None for option in ranking.options)
    source = ranking.baseline.estimate.source
    rule = short_text(finding("order-of-predictions" if has_intervals else "order-of-bounds", source=source))
    published = "; a checkpoint published narrow stays unless it is clearly slower"
    return (
        f"Ranked {rule}{published if any(option.kind == 'published' for option in ranking.options) else ''}. Plans of unknown loss stand "
        "behind the others. Uniform plans and the named strategies keep head and embedding in 16 bit."
    )


def choice_sentence(ranking: ModelRanking) -> str:
    """Return the decision in one sentence, or what the nearest plan misses."""
    from roofline_model.recommend.loss import loss_text

    choice, baseline = ranking.choice, ranking.baseline
    if choice is None or baseline is None:
        text = str(ranking)
        return f"{text[:1].upper()}{text[1:]}."
    if choice is baseline:
        return f"Best: {ranking}: {ranking.reason}."
    time, reference = choice.estimate, baseline.estimate
    interval = ""
    if time.low_s is not None and time.high_s is not None and time.source != "ceilings":
        interval = f" (80 % interval {format_time(time.low_s)} to {format_time(time.high_s)})"
    kernels = f"; kernels: {choice.kernel}" if choice.kernel else ""
    return (
        f"Best: {ranking}: {_least(choice)}{format_time(time.time_s)}{interval} against {_least(baseline)}"
        f"{format_time(reference.time_s)} in {ranking.wide}, {decimal_bytes(_bytes(choice))} "
        f"({(1 - _bytes(choice) / _bytes(baseline)) * 100:.0f} % less), {loss_text(choice.loss)}; {ranking.reason}{kernels}."
    )


def _bytes(option: Option) -> float:
    assert option.memory is not None  # of a plan it is known
    return option.memory.total_bytes


def _rows(ranking: ModelRanking) -> list[list[Cell]]:
    from reports.formats.model_advice import LOSS_CODES
    from roofline_model.recommend.loss import loss_text

    options = ranking.options
    ideals_s = [None if option.times.ideal is None else option.times.ideal.time_s for option in options]
    better_s = [None if option.estimate.source == "ideal" else option.estimate.time_s for option in options]
    prefix = shared_prefix(ideals_s, better_s)
    rows: list[list[Cell]] = []
    for rank, (option, ideal_s, time_s) in enumerate(zip(options, ideals_s, better_s, strict=True), 1):
        quality: Cell = loss_text(option.loss)
        if option.loss.pct is None:
            quality = Styled(loss_text(option.loss), "yellow")
        memory = option.memory
        rows.append(
            [
                str(rank),
                option.key,
                in_prefix(ideal_s, prefix),
                MISSING if time_s is None else f"{_least(option)}{in_prefix(time_s, prefix)}",
                *_interval(option, prefix),
                _tokens(option),
                _gain(option, ranking),
                MISSING if memory is None else decimal_bytes(memory.weight_bytes),
                MISSING if memory is None else decimal_bytes(memory.cache_bytes),
                decimal_bytes(_bytes(option)),
                _left(ranking, option),
                quality,
                option.method,
                option.path,
                option.kernel or MISSING,
                option.estimate.provenance or MISSING,
                findings_text(item for item in option.findings if item.code not in LOSS_CODES),
            ]
        )
    return rows


def _least(option: Option) -> str:
    """Return the sign before a time that ceilings allow: it is no kernel's."""
    return "≥ " if option.estimate.source == "ceilings" else ""


def _gain(option: PlanOption, ranking: ModelRanking) -> str:
    """Return the speed-up, marked where only the ideals can be compared: a ceiling is no kernel's time."""
    from reports.formats.model_advice import is_speedup_ideal

    return f"{'ideal ' if is_speedup_ideal(option, ranking) else ''}{speedup(option.speedup_ratio)}"


def _tokens(option: Option) -> str:
    if option.tokens_per_s is None:
        return MISSING
    return f"{'≤ ' if option.estimate.source == 'ceilings' else ''}{rate(option.tokens_per_s)}"


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
    from roofline_model.recommend.plan_formats import formats_text

    also = f" (also {', '.join(option.aliases)})" if option.aliases else ""
    if option.kind in ("baseline", "uniform"):
        return f"{option.key}{also}" if also else ""
    return f"{option.key}{also}: {formats_text(option.formats)}"


def _loss_lines(ranking: ModelRanking) -> list[str]:
    """Return where the choice's claim is from and what is known beside it, and why the loss of others is unknown."""
    from reports.formats.model_advice import quality_note

    lines = []
    for option in ranking.options:
        is_claimed_choice = option is ranking.choice and option.loss.source == "claimed"
        if (is_claimed_choice or option.loss.source == "unknown") and (note := quality_note(option)):
            lines.append(f"loss of {option.key}: {note}")
    return lines


def rate(tokens_per_s: float) -> str:
    """Print tokens per second with one decimal below a thousand, two below ten."""
    if tokens_per_s >= 999.95:
        return f"{tokens_per_s:,.0f}"
    return f"{tokens_per_s:.1f}" if tokens_per_s >= 9.995 else f"{tokens_per_s:.2f}"
