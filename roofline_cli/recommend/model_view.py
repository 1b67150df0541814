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


ROLES = {"riskier": "riskier", "lower-loss": "lower loss", "safest": "safest"}
"""Role of an alternative → its name in the first column."""
_ANSWER_COLUMNS = (
    Column(""),
    Column("Format"),
    Column("Time", "right"),
    Column("Tokens/s", "right", drop=2),
    Column("vs 16-bit", "right"),
    Column("Memory", "right", drop=1),
    Column("Loss", "right"),
)


def print_model_answer(ranking: ModelRanking, chip: Device) -> None:
    """Print the decision, the options by name, what the figures rest on, and what to type next: a dozen lines."""
    from roofline_model.recommend.plan_formats import plan_name

    show_line(answer_sentence(ranking), "bold" if ranking.choice is not None else "bold red")
    named = [("take", ranking.choice)] if ranking.choice is not None else []
    named += [(ROLES[each.role], each.option) for each in ranking.alternatives]
    rows: list[list[Cell]] = []
    for role, option in named:
        assert option is not None
        time = f"{_least(option)}{format_time(option.estimate.time_s)}"
        gain = _gain(option, ranking)
        rows.append(
            [role, plan_name(option), time, _tokens(option), gain, decimal_bytes(_bytes(option)), _most_loss(option)]
        )
    if rows:
        show_line()
        show_table(_ANSWER_COLUMNS, rows)
        show_line()
    show_line(f"{title(ranking, chip)}. {source_sentence(ranking)}", "dim")
    show_line(loss_sentence(ranking), "dim")
    for line in next_steps(ranking):
        show_line(line)
    show_line(f"More: --all lists {len(ranking.options)} plans, {len(ranking.excluded)} excluded ones and why.", "dim")


def answer_sentence(ranking: ModelRanking) -> str:
    """Return what to take in one sentence, or why nothing is."""
    from roofline_model.recommend.plan_formats import plan_name

    choice, baseline = ranking.choice, ranking.baseline
    if choice is None or baseline is None:
        riskier = next((each.option for each in ranking.alternatives), None)
        limit = ranking.limits.loss_pct
        if riskier is not None:
            return f"Nothing within a loss of {limit:g} % keeps the limits; {plan_name(riskier)} does, and loses more."
        text = str(ranking)
        return f"{text[:1].upper()}{text[1:]}."
    if choice is baseline:
        return f"Stay with {plan_name(choice)}: {ranking.reason}."
    time = choice.estimate
    kind = {"expected": "expected", "ideal": "ideal (upper bound)", "ceilings": "at best", "measured": "measured"}[
        time.source
    ]
    interval = ""
    if time.low_s is not None and time.high_s is not None and time.source != "ceilings":
        interval = f" ({format_time(time.low_s)} to {format_time(time.high_s)})"
    gain = "" if choice.speedup_ratio is None else f", {speedup(choice.speedup_ratio)} {ranking.wide}"
    return f"Take {plan_name(choice)}: {kind} {format_time(time.time_s)} a pass{interval}{gain}, {_loss_text(choice)}."


def source_sentence(ranking: ModelRanking) -> str:
    """Return what the times are, and what they leave out."""
    assert ranking.baseline is not None
    source = ranking.baseline.estimate.source
    if source == "ideal":
        return "Times are ideal, an upper bound of speed that nobody measured."
    if source == "ceilings":
        return "Times are what this machine's measured ceilings allow at best."
    if source == "measured":
        return "Times are measured."
    return "Times are expected of good kernels alone: an engine adds its own overhead and stores its own bytes."


def loss_sentence(ranking: ModelRanking) -> str:
    """Return what the loss is of, and the limit."""
    limit = ranking.limits
    asked = "" if limit.is_loss_given else " by default"
    return f"Loss: rise of perplexity, else drop of task accuracy, at most {limit.loss_pct:g} %{asked}; claims are published ones."


def next_steps(ranking: ModelRanking) -> list[str]:
    """Return what to type to get the chosen plan: a published checkpoint where one is known, else how to make it."""
    from roofline_model.kernels.checkpoints import checkpoints_of

    choice = ranking.choice
    if choice is None:
        return []
    formats = dict(choice.formats)
    published = checkpoints_of(ranking.question.name, formats.get("layers", ""))
    if published:
        cache = " --kv-cache-dtype fp8" if formats.get("cache", "").startswith("FP8") else ""
        return [f"Next: vllm serve {published[0].repository}{cache}"]
    if choice is ranking.baseline or choice.kind == "published":
        return []
    return ["Next: roofline pipeline --model FOLDER -o OUT makes and measures it; -o plan.json writes the plan"]


def _most_loss(option: Option) -> Cell:
    loss = option.loss
    if loss.source == "reference":
        return "0"
    if loss.pct is None:
        return Styled("unknown", "yellow")
    return f"{'≤ ' if loss.source == 'claimed' else ''}{loss.pct:.3g} %"


def _loss_text(option: Option) -> str:
    loss = option.loss
    if loss.source == "reference":
        return "loses nothing"
    if loss.pct is None:
        return "its loss is unknown"
    kind = {"claimed": "published", "measured": "measured", "estimated": "estimated"}.get(loss.source, loss.source)
    return f"loses at most {loss.pct:.3g} % of {loss.metric or 'perplexity'} ({kind})"


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
        show_line(f"{ROLES[alternative.role]}: {short_text(alternative_finding(alternative, ranking))}.")


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
