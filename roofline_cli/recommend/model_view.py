"""What `roofline recommend --model` prints: the answer in a dozen lines; with `--all` every plan and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_cli.screen.tables import CAVEAT_COUNT, MISSING, Cell, Column, Styled, decimal_bytes, show_line, show_table
from roofline_model.core.finding import by_severity, finding, findings_text, first_with, short_text
from roofline_model.core.units import format_speedup, format_time, in_prefix, shared_prefix
from roofline_model.recommend.plan_formats import plan_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofline_model.chips.hardware import Device
    from roofline_model.core.answer import Option, Ranking
    from roofline_model.core.finding import Finding
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
LOSS_COLUMNS = (
    Column("PPL", "right", hide_empty=True),
    Column("Tasks", "right", hide_empty=True),
    Column("Loss", "right", hide_empty=True),
)
_LOSS_METRICS = ("perplexity", "task accuracy", "")
"""Metric of each of these columns; the last takes every other one."""
_ANSWER_COLUMNS = (
    Column(""),
    Column("Format"),
    Column("Time", "right"),
    Column("Tokens/s", "right", drop=1),
    Column("Gain", "right"),
    Column("Memory", "right", drop=2),
    *LOSS_COLUMNS,
)


def print_model_answer(ranking: ModelRanking, chip: Device) -> None:
    """Print what to take, the options by name, up to two caveats, and what to type next: a dozen lines."""
    choice = ranking.choice
    show_line(answer_sentence(ranking), "bold" if choice is not None else "bold red")
    show_line(f"{title(ranking, chip)}.", "dim")
    named: list[tuple[str, Option]] = [("take", choice)] if choice is not None else []
    named += [(ROLES[each.role], each.option) for each in ranking.alternatives]
    if named:
        show_table(_ANSWER_COLUMNS, _answer_rows(named, ranking), says_what_is_left_out=False)
        show_line(source_sentence(ranking), "dim")
    for item in caveats(ranking)[:CAVEAT_COUNT]:
        show_line(f"Note: {short_text(item)}", "yellow")
    if next_step := next_command(ranking):
        show_line(f"Next: {next_step}")
    show_line(more_sentence(ranking, "plans"), "dim")


def _answer_rows(named: Sequence[tuple[str, Option]], ranking: ModelRanking) -> list[list[Cell]]:
    prefix = shared_prefix([option.estimate.time_s for _, option in named], [])
    return [
        [
            role,
            plan_name(option),
            f"{_least(option)}{in_prefix(option.estimate.time_s, prefix)}",
            tokens_cell(option),
            _gain(option, ranking),
            decimal_bytes(_bytes(option)),
            *loss_cells(option),
        ]
        for role, option in named
    ]


def answer_sentence(ranking: ModelRanking) -> str:
    """Return what to take in one sentence, or why nothing is."""
    choice, baseline = ranking.choice, ranking.baseline
    if choice is None or baseline is None:
        riskier = next((each.option for each in ranking.alternatives), None)
        limit_pct = ranking.limits.loss_pct
        if riskier is not None and limit_pct is not None:
            name, most_pct = plan_name(riskier), riskier.loss.pct
            loses = "its loss is unknown" if most_pct is None else f"it loses up to {most_pct:.3g} %"
            return f"Nothing fits within a loss of {limit_pct:g} %. {name} fits, but {loses}."
        text = str(ranking)
        return f"{text[:1].upper()}{text[1:]}."
    if choice is baseline:
        return f"Stay with {plan_name(choice)}: {ranking.reason}."
    time = choice.estimate
    gain = "" if choice.speedup_ratio is None else f", {_gain(choice, ranking)} {ranking.wide}"
    interval = ""
    if time.low_s is not None and time.high_s is not None and time.source != "ceilings":
        interval = f" ({format_time(time.low_s)} to {format_time(time.high_s)})"
    took = f"{SOURCES[time.source]} {format_time(time.time_s)} a pass{interval}"
    return f"Take {plan_name(choice)}: {took}{gain}; {_loss_words(choice)}."


def caveats(ranking: Ranking) -> list[Finding]:
    """Return what puts an answer in doubt, the gravest first, but for what the decision and the line on its times say."""
    said = {"ranked-by-ideals", "ranked-by-ceilings", *(item.code for item in ranking.decision)}
    return by_severity(item for item in ranking.findings if item.severity != "info" and item.code not in said)


def more_sentence(ranking: Ranking, noun: str) -> str:
    """Return what `--all` adds."""
    excluded = f" and why {len(ranking.excluded)} are excluded" if ranking.excluded else ""
    return f"More: --all lists {len(ranking.options)} {noun}{excluded}."


SOURCES = {"measured": "measured", "expected": "expected", "ideal": "ideal (upper bound)", "ceilings": "at best"}
"""Source of a time → what stands before it."""


def source_sentence(ranking: Ranking) -> str:
    """Return what the times are, and what they leave out."""
    assert ranking.baseline is not None
    source = ranking.baseline.estimate.source
    if source == "ideal":
        return "Times are ideal: an upper bound of speed, measured by nobody."
    if source == "ceilings":
        return "Times are the best that this machine's measured ceilings allow."
    if source == "measured":
        return "Times are measured."
    return good_kernels_sentence()


def good_kernels_sentence() -> str:
    """Return whose kernels an expected time of a whole model is of, and what it leaves out."""
    from reports.text.answer_words import sentence

    return sentence(short_text(finding("good-kernels")))


def next_command(ranking: ModelRanking) -> str:
    """Return what to type to get the chosen plan: a published checkpoint where one is known, else how to make it."""
    from roofline_model.kernels.checkpoints import checkpoints_of

    choice = ranking.choice
    if choice is None or choice.kind == "published":
        return ""
    formats = dict(choice.formats)
    published = checkpoints_of(ranking.question.name, formats.get("layers", ""))
    if published:
        cache = " --kv-cache-dtype fp8" if formats.get("cache", "").startswith("FP8") else ""
        return f"vllm serve {published[0].repository}{cache}"
    if choice is ranking.baseline:
        return ""
    return "roofline pipeline --model FOLDER -o OUT makes and measures it"


def loss_cells(option: Option) -> list[Cell]:
    """Return the cell of each column of losses: what decides, and what was published in the other metric."""
    loss = option.loss
    cells: list[Cell] = [MISSING] * len(_LOSS_METRICS)
    if loss.source == "reference":
        return ["0", *cells[1:]]
    if loss.pct is None:
        return [Styled("unknown", "yellow"), *cells[1:]]
    column = _LOSS_METRICS.index(loss.metric) if loss.metric in _LOSS_METRICS else len(_LOSS_METRICS) - 1
    cells[column] = f"{'≤ ' if loss.source == 'claimed' else ''}{loss.pct:.3g} %"
    other = first_with(option.findings, "loss-in-other-metric")
    if other is not None:
        values = dict(other.values)
        if values["metric"] in _LOSS_METRICS:
            cells[_LOSS_METRICS.index(str(values["metric"]))] = f"≤ {values['high_pct']:.3g} %"
    return cells


def _loss_words(option: Option) -> str:
    loss = option.loss
    if loss.source == "reference":
        return "it loses nothing"
    if loss.pct is None:
        return "its loss is unknown"
    kind = "published" if loss.source == "claimed" else loss.source
    moves = "falls" if "accuracy" in loss.metric else "rises"
    return f"{loss.metric or 'perplexity'} {moves} by at most {loss.pct:.3g} % ({kind})"


def print_model_details(ranking: ModelRanking) -> None:
    """Print all ranked plans, what mixed plans are made of, excluded plans, findings and the rule of the order."""
    show_line()
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
    show_line(reason_sentence(ranking))


def title(ranking: ModelRanking, chip: Device) -> str:
    """Return model, workload and chip in a line."""
    return f"{workload(ranking)} on {chip.key}: {chip.name}"


def workload(ranking: ModelRanking) -> str:
    """Return model and workload in a line."""
    from roofline_model.recommend.search.traffic_file import traffic_text

    model = ranking.question.name
    if len(ranking.traffic) > 1:
        mix = " + ".join(traffic_text(share) for share in ranking.traffic)
        return f"{model}, mean pass of {mix}"
    work = ranking.traffic[0].workload
    new = f" new={work.new_count}" if work.new_count not in (1, work.context_count) else ""
    return f"{model} {work.phase} batch={work.batch_count} context={work.context_count}{new}"


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


def reason_sentence(ranking: ModelRanking) -> str:
    """Return why the choice is taken, and the kernels that it needs."""
    choice = ranking.choice
    if choice is None:
        text = str(ranking)
        return f"{text[:1].upper()}{text[1:]}."
    kernels = f"; kernels: {choice.kernel}" if choice.kernel else ""
    return f"Why {plan_name(choice)}: {ranking.reason}{kernels}."


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
                tokens_cell(option),
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


def _gain(option: Option, ranking: ModelRanking) -> str:
    """Return the speed-up, marked where only the ideals can be compared: a ceiling is no kernel's time."""
    from reports.formats.model_advice import is_speedup_ideal

    return f"{'ideal ' if is_speedup_ideal(option, ranking) else ''}{format_speedup(option.speedup_ratio)}"


def tokens_cell(option: Option) -> str:
    """Return the tokens per second at the time that the option is ranked by, marked where that is no kernel's."""
    if option.tokens_per_s is None:
        return MISSING
    source = option.estimate.source
    return f"{'≤ ' if source == 'ceilings' else ''}{rate(option.tokens_per_s)}{' (ideal)' if source == 'ideal' else ''}"


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
