"""What `roofline recommend --model` prints: the ranked plans, what was refused, and the choice in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_cli.numbers import MISSING, decimal_bytes, in_prefix, shared_prefix, speedup
from roofline_cli.screen import Cell, Column, Styled, show_line, show_table

if TYPE_CHECKING:
    from roofline_model.hardware import Device
    from roofline_model.model_choice.answer import ModelCandidate, ModelRecommendation

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


def print_model_recommendation(found: ModelRecommendation, chip: Device) -> None:
    """Print the table of ranked plans, what mixed plans are made of, refused plans, notes and the choice."""
    show_line(title(found, chip), "bold")
    show_line(limits_sentence(found))
    if found.candidates:
        show_table(_COLUMNS, _rows(found))
    for line in filter(None, map(_made_of, found.candidates)):
        show_line(f"  {line}")
    for line in _claim_lines(found):
        show_line(f"  {line}")
    for refused in found.excluded:
        show_line(f"  refused: {refused.label}: {refused.reason}")
    for note in found.notes:
        show_line(f"  note: {note}", "yellow" if note.startswith(("warning", "the loss of")) else "")
    if found.candidates:
        show_line(basis_sentence(found), "dim")
    show_line(choice_sentence(found), "bold" if found.chosen is not None else "bold red")
    if found.gentler is not None:
        text, option = found.gentler.text, found.gentler.option
        show_line(f"{text[:1].upper()}{text[1:]}; {option} chooses it.")


def title(found: ModelRecommendation, chip: Device) -> str:
    """Return model, workload and chip in a line."""
    from roofline_model.pareto.traffic_file import traffic_text

    if len(found.traffic) > 1:
        mix = " + ".join(traffic_text(one) for one in found.traffic)
        return f"{found.model}, mean pass of {mix} on {chip.key}: {chip.name}"
    work = found.traffic[0].workload
    new = f" new={work.new_count}" if work.new_count not in (1, work.context_count) else ""
    return f"{found.model} {work.phase} batch={work.batch_count} context={work.context_count}{new} on {chip.key}: {chip.name}"


def limits_sentence(found: ModelRecommendation) -> str:
    """Return the limits that the plans were held against."""
    limits = found.limits
    said = []
    if limits.memory_limit_bytes is None:
        said.append("no limit of memory (the chip's file states no capacity)")
    else:
        kept = f", {limits.headroom_ratio * 100:g} % of it kept free" if limits.headroom_ratio else ""
        said.append(f"{decimal_bytes(limits.memory_limit_bytes)} of memory{kept}")
    if limits.max_latency_s is not None:
        said.append(f"{limits.max_latency_s * 1e3:g} ms a pass")
    most = f"a loss of at most {limits.max_loss_pct:g} %"
    if limits.max_claimed_pct != limits.max_loss_pct:
        most += f" measured, {limits.max_claimed_pct:g} % claimed"
    default = "" if limits.is_loss_given else " (default)"
    said.append(f"{most}{default}, of perplexity where published, else of task accuracy")
    return f"Limits: {'; '.join(said)}."


def basis_sentence(found: ModelRecommendation) -> str:
    """Say which kind of time ranks, and how ties and unknown losses are treated."""
    from roofline_model.core.finding import finding, short_text

    kind = found.time_source
    has_intervals = any(one.high_s is not None for one in found.candidates)
    rule = short_text(finding("order-of-predictions" if has_intervals else "order-of-bounds", source=kind))
    published = "; a checkpoint published narrow stays unless it is clearly slower"
    return (
        f"Ranked {rule}{published if any(one.kind == 'published' for one in found.candidates) else ''}. Plans of unknown loss stand "
        "behind the others. Uniform plans and the named strategies keep head and embedding in 16 bit."
    )


def choice_sentence(found: ModelRecommendation) -> str:
    """Return the decision in one sentence, or what the nearest plan misses."""
    from roofline_model.units import format_time

    best, base = found.chosen, found.baseline
    if best is None:
        return f"{found.misfit[:1].upper()}{found.misfit[1:]}."
    if best.kind == "baseline":
        return f"Best: {found}: {_why_stay(found)}."
    interval = ""
    if best.low_s is not None and best.high_s is not None and best.time_source != "ceilings":
        interval = f" (80 % interval {format_time(best.low_s)} to {format_time(best.high_s)})"
    saved = 1 - best.memory.total_bytes / base.memory.total_bytes
    kernels = f"; kernels: {best.kernels}" if best.kernels else ""
    unfit = "" if found.is_baseline_fitting else ", which does not fit"
    return (
        f"Best: {found}: {_least(best)}{format_time(best.time_s)}{interval} against {_least(base)}{format_time(base.time_s)} in {found.wide}{unfit}, "
        f"{decimal_bytes(best.memory.total_bytes)} ({saved * 100:.0f} % less), loss {best.quality.text}; {best.reason}{kernels}."
    )


def _why_stay(found: ModelRecommendation) -> str:
    from roofline_model.model_choice.time_kinds import is_comparable
    from roofline_model.recommend.ranking import LEVEL_RATIO
    from roofline_model.units import format_time

    others = [
        one
        for one in found.candidates
        if one.kind != "baseline"
        and one.quality.loss_pct is not None
        and is_comparable(one.time_source, found.time_source)
    ]
    if not others:
        return "no other plan is known to keep the limits, with a time that can be compared"
    nearest = min(others, key=lambda one: one.prudent_s)
    if nearest.speedup <= 1 + LEVEL_RATIO:
        return (
            f"no plan of known loss is more than 5 % faster (the nearest, {nearest.label}: {speedup(nearest.speedup)})"
        )
    return (
        f"no plan of known loss is surely more than 5 % faster (the nearest, {nearest.label}: {speedup(nearest.speedup)}, but its "
        f"80 % interval ends at {format_time(nearest.prudent_s)}, that of {found.wide} at {format_time(found.baseline.prudent_s)})"
    )


def _rows(found: ModelRecommendation) -> list[list[Cell]]:
    better_s = [None if one.time_source == "ideal" else one.time_s for one in found.candidates]
    prefix = shared_prefix([one.ideal_s for one in found.candidates], better_s)
    rows: list[list[Cell]] = []
    for rank, (one, time_s) in enumerate(zip(found.candidates, better_s, strict=True), 1):
        quality: Cell = one.quality.text
        if one.quality.loss_pct is None:
            quality = Styled(one.quality.text, "yellow")
        rows.append(
            [
                str(rank),
                one.label,
                in_prefix(one.ideal_s, prefix),
                _better(one, time_s, prefix),
                *_interval(one, prefix),
                _tokens(one),
                _gain(one),
                decimal_bytes(one.memory.weights_bytes),
                decimal_bytes(one.memory.kv_bytes),
                decimal_bytes(one.memory.total_bytes),
                _left(found, one),
                quality,
                one.method,
                one.path,
                one.kernels or MISSING,
                one.provenance or MISSING,
                one.reason,
            ]
        )
    return rows


def _better(one: ModelCandidate, time_s: float | None, prefix: str | None) -> str:
    if time_s is None:
        return MISSING
    return f"{_least(one)}{in_prefix(time_s, prefix)}"


def _least(one: ModelCandidate) -> str:
    """Return the sign before a time that ceilings allow: it is no kernel's."""
    return "≥ " if one.time_source == "ceilings" else ""


def _gain(one: ModelCandidate) -> str:
    """Return the speed-up, marked where only the ideals can be compared: a ceiling is no kernel's time."""
    return f"ideal {speedup(one.speedup)}" if one.is_speedup_ideal else speedup(one.speedup)


def _tokens(one: ModelCandidate) -> str:
    return f"{'≤ ' if one.time_source == 'ceilings' else ''}{rate(one.tokens_per_s)}"


def _interval(one: ModelCandidate, prefix: str | None) -> tuple[str, str]:
    """Return both ends of the 80 % interval: the later one is what plans are ranked by, and stays on narrow screens."""
    if one.low_s is None or one.high_s is None or one.time_source == "ceilings":
        return MISSING, MISSING
    return in_prefix(one.low_s, prefix), in_prefix(one.high_s, prefix)


def _left(found: ModelRecommendation, one: ModelCandidate) -> str:
    limit = found.limits.memory_bytes
    return MISSING if limit is None else decimal_bytes(limit - one.memory.total_bytes)


def _made_of(one: ModelCandidate) -> str:
    """Return what a plan is made of where its name does not say it, and its other names."""
    also = f" (also {', '.join(one.aliases)})" if one.aliases else ""
    if one.kind in ("baseline", "uniform"):
        return f"{one.label}{also}" if also else ""
    return f"{one.label}{also}: {one.formats}"


def _claim_lines(found: ModelRecommendation) -> list[str]:
    """Return where the choice's claim is from, what the claims of others lack, and where the other sources stand."""
    best = found.chosen
    lines = []
    if best is not None and best.quality.source == "claimed" and best.quality.note:
        lines.append(f"claim of {best.label}: {best.quality.note}")
    lines += [
        f"{one.label}: {one.quality.note}"
        for one in found.candidates
        if one.quality.source == "unknown" and one.quality.note
    ]
    return lines


def rate(tokens_per_s: float) -> str:
    """Print tokens per second with one decimal below a thousand, two below ten."""
    if tokens_per_s >= 999.95:
        return f"{tokens_per_s:,.0f}"
    return f"{tokens_per_s:.1f}" if tokens_per_s >= 9.995 else f"{tokens_per_s:.2f}"
