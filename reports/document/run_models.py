"""The whole models of one run: the answer's table, every table and verdict, and what one pass says beside its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reports.present.blocks import Block, Column, Heading, Paragraph, TableBlock, memory_cell, table
from reports.present.cases import width_cell
from reports.present.models import model_tables
from reports.present.words.model_text import (
    NOT_LANGUAGE,
    OF_DEVICE,
    embedding_text,
    energy_text,
    kl_text,
    layer_name,
    model_notes,
    parts_text,
    perplexity_text,
    text_source,
    top1_text,
    verdict_lines,
)
from reports.present.words.verdict_text import loss_figure, tokens_text
from results.cases.model_results import model_results, slow_issue
from roofline_model.core.finding import short_text
from roofline_model.core.units import format_memory, format_percent, format_speedup, format_time

if TYPE_CHECKING:
    from results.cases.case_result import CaseResult
    from results.cases.model_results import ModelResult, PassResult, PhaseResult


def model_answer(model: ModelResult, most_rows: int) -> TableBlock:
    """Return a row for each of the first precisions of a model: its time and gain in each phase, memory and loss."""
    several = len(model.phases) > 1
    columns = [Column("Format", lambda item: item[0], is_head=True)]
    for phase in model.phases:
        columns += _phase_columns(phase, f"{phase.phase[0].upper()}{phase.phase[1:]}" if several else "")

    def loss(item: tuple[str, Sequence[PassResult]]) -> str:
        option = next((each.option for each in item[1] if each.option is not None), None)
        return "–" if model.is_untrained or option is None else loss_figure(option.loss)

    columns += [
        Column("Held", lambda item: memory_cell(_held_bytes(item[1])), "number", drop=1),
        Column("Loss", loss, "number"),
    ]
    items = list(model.by_label().items())[:most_rows]
    return table("Precisions of a model", columns, items, says_what_is_left_out=False)


def _held_bytes(passes: Sequence[PassResult]) -> float | None:
    return next((each.figures.held_bytes for each in passes if each.figures.held_bytes is not None), None)


def _phase_columns(phase: PhaseResult, name: str) -> Iterator[Column]:
    """Yield time, ± and gain of a precision in one phase; tokens per second where it is the only one."""

    def of(item: tuple[str, Sequence[PassResult]]) -> PassResult | None:
        return next((each for each in item[1] if each in phase.passes and each.option is not None), None)

    def time(item: tuple[str, Sequence[PassResult]]) -> str:
        each = of(item)
        if each is None or each.option is None:
            return "–"
        source = "" if each.measured_s is not None else f" ({each.option.estimate.source})"
        return f"{format_time(each.option.estimate.time_s)}{source}{' !' if each.is_doubtful else ''}"

    def plus_minus(item: tuple[str, Sequence[PassResult]]) -> str:
        each = of(item)
        return "–" if each is None or each.measured_s is None else str(width_cell(each.case.plus_minus_ratio).content)

    def rate(item: tuple[str, Sequence[PassResult]]) -> str:
        each = of(item)
        return "–" if each is None or each.tokens_per_s is None else tokens_text(each.tokens_per_s)

    def gain(item: tuple[str, Sequence[PassResult]]) -> str:
        each = of(item)
        return "–" if each is None or phase.judged.gap is not None else format_speedup(each.measured_speedup)

    yield Column(name or "Time", time, "number")
    yield Column("±", plus_minus, "number", drop=3)
    if not name:
        yield Column("Tokens/s", rate, "number", drop=2)
    yield Column("Gain", gain, "number")


def model_sections(models: Sequence[ModelResult]) -> Iterator[Block]:
    """Yield the tables and verdicts of each model, then once what the tables do not say themselves."""
    for model in models:
        yield Heading(3, model.title)
        yield from model_tables(model)
        yield from (Paragraph(f"→ {line}", "verdict") for line in verdict_lines(model))
        for model_pass in model.passes:
            if model_pass.reason and model_pass.records[0].status != "predicted":
                text = f"  {model_pass.figures.phase}, {model_pass.label}: {model_pass.reason}"
                yield Paragraph(text, "warning")
    yield from (Paragraph(note, "quiet") for note in model_notes(models))


def model_facts(case: CaseResult) -> Iterator[tuple[str, str]]:
    """Yield what the run of a whole model says beside its time, by name; nothing for any other case."""
    model_pass = next((each for model in model_results([case]) for each in model.passes), None)
    if model_pass is None:
        return
    figures = model_pass.figures
    of_device = OF_DEVICE if model_pass.is_of_device else ""
    rates = [f"{tokens_text(model_pass.tokens_per_s)} tokens/s{of_device}"] if model_pass.tokens_per_s else []
    if model_pass.expected_tokens_per_s:
        rates.append(f"{tokens_text(model_pass.expected_tokens_per_s)} tokens/s expected")
    if figures.energy_j is not None:
        rates.append(f"{energy_text(figures.energy_j_per_token)} per 1k tokens")
    if rates:
        yield "tokens", f"{', '.join(rates)}; {figures.tokens_per_call} per call"
    if (item := slow_issue([model_pass])) is not None:
        yield "host", short_text(item)
    if figures.held_bytes is not None:
        before = f" of {format_memory(figures.original_bytes)} before ({format_percent(figures.held_ratio, 0)})"
        stated = figures.stated_bytes
        by_formats = "" if stated is None else f", {format_memory(stated)} stated by the formats"
        yield (
            "model holds",
            f"{format_memory(figures.held_bytes)}{before if figures.original_bytes else ''}{by_formats}",
        )
        peak = f"peak of a call {format_memory(figures.peak_bytes)}"
        peak += ", in which the largest weight is decoded" if figures.is_emulated and figures.peak_bytes else ""
        yield "", f"cache {format_memory(figures.cache_bytes)}, {peak}, process {format_memory(figures.process_bytes)}"
    if figures.quality_source == "measured":
        of_language = (
            f"KL {kl_text(figures)} nats/token, same top-1 {top1_text(figures)}, perplexity ratio "
            f"{perplexity_text(figures)}"
        )
        yield "quality", embedding_text(figures) or of_language
        yield "", f"over {text_source(figures)}" + ("" if figures.is_language else f" ({NOT_LANGUAGE})")
    elif figures.quality_source == "none":
        yield "quality", f"none: {figures.quality_reason or 'no reason was stored'}"
    if figures.kernels:
        emulated = " (emulated: a decode pass in every call)" if figures.is_emulated else ""
        became = ", ".join(f"{count} {layer_name(name)}" for name, count in figures.layer_counts)
        yield "layers", f"{became}; {'; '.join(figures.kernels)}{emulated}"
    for fallback in figures.fallbacks:
        yield "fell back", short_text(fallback)
    if parts := parts_text(model_pass):
        yield "expected in", parts
