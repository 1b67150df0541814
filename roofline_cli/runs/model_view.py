"""Whole models in `roofline show`: the tables and verdicts of a run, and what one case says beside its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reports.present.screen import MISSING, Cell, Column, plus_minus, show_line, show_table
from roofline_model.core.finding import short_text
from roofline_model.core.units import format_memory, format_percent, format_speedup, format_time

if TYPE_CHECKING:
    from results.cases.case_result import CaseResult
    from results.verdicts.model_results import ModelResult, PassResult

ANSWER_ROW_COUNT = 5
"""Rows of an answer's table."""
_COLUMN_DROPS = {
    "process": 8, "±": 7, "peak prefill": 6, "share": 5, "perplexity ratio": 5, "same top-1": 4, "J/1k tokens": 3, "ideal": 2, "ideal tokens/s": 2,
    "tokens/s": 1, "exp. tokens/s": 1,
}  # fmt: skip
"""Columns of a model's tables that leave a narrow screen, the highest number first."""


def print_model_answer(model: ModelResult) -> None:
    """Print a row for each of the first precisions of a model: its time and gain in each phase, memory and loss."""
    from results.text.verdict_text import loss_figure

    several = len(model.phases) > 1
    columns = [Column("Format")]
    for phase in model.phases:
        name = f"{phase.phase[0].upper()}{phase.phase[1:]}"
        columns += [Column(name if several else "Time", "right"), Column("±", "right", drop=3, hide_empty=True)]
        columns += [] if several else [Column("Tokens/s", "right", drop=2, hide_empty=True)]
        columns += [Column("Gain", "right", hide_empty=True)]
    columns += [Column("Held", "right", drop=1, hide_empty=True), Column("Loss", "right", hide_empty=True)]
    rows: list[list[Cell]] = []
    for label, passes in list(model.by_label().items())[:ANSWER_ROW_COUNT]:
        row: list[Cell] = [label]
        for phase in model.phases:
            model_pass = next((each for each in passes if each in phase.passes), None)
            row += _phase_cells(model_pass, has_gain=phase.judged.gap is None, has_rate=not several)
        held_bytes = next((each.figures.held_bytes for each in passes if each.figures.held_bytes is not None), None)
        option = next((each.option for each in passes if each.option is not None), None)
        loss = MISSING if model.is_untrained or option is None else loss_figure(option.loss)
        rows.append([*row, format_memory(held_bytes), loss])
    show_table(columns, rows, says_what_is_left_out=False)


def _phase_cells(model_pass: PassResult | None, *, has_gain: bool, has_rate: bool) -> list[Cell]:
    """Return time, ±, tokens per second (where wanted) and gain of a precision in one phase."""
    from results.text.verdict_text import tokens_text

    if model_pass is None or model_pass.option is None:
        return [MISSING] * (3 + has_rate)
    time = format_time(model_pass.option.estimate.time_s)
    source = "" if model_pass.measured_s is not None else f" ({model_pass.option.estimate.source})"
    rate = model_pass.tokens_per_s
    return [
        f"{time}{source}{' !' if model_pass.is_doubtful else ''}",
        plus_minus(model_pass.interval_ratio) if model_pass.measured_s is not None else MISSING,
        *([MISSING if rate is None else tokens_text(rate)] if has_rate else []),
        format_speedup(model_pass.measured_speedup) if has_gain else MISSING,
    ]


def print_models(models: Sequence[ModelResult]) -> None:
    """Print the tables and verdicts of each model, then once what the tables do not say themselves."""
    from results.text.model_text import model_notes, model_tables, verdict_lines

    for model in models:
        show_line()
        show_line(model.title, "bold")
        for table in model_tables(model):
            show_line()
            columns = [
                Column(
                    "Precision" if not i else name[0].upper() + name[1:] if name.isascii() else name,
                    "right" if i else "left",
                    drop=_COLUMN_DROPS.get(name, 0),
                )
                for i, name in enumerate(table.headers)
            ]
            rows: list[list[Cell]] = [list(row) for row in table.rows]
            show_table(columns, rows, title=table.title)
        show_line()
        for sentence in verdict_lines(model):
            show_line(f"→ {sentence}", "bold")
        for model_pass in model.passes:
            if model_pass.reason and model_pass.records[0].status != "predicted":
                show_line(f"  {model_pass.figures.phase}, {model_pass.label}: {model_pass.reason}", "yellow")
    if notes := model_notes(models):
        show_line()
        for note in notes:
            show_line(note, "dim")


def print_model_facts(case: CaseResult, fact: Callable[[str, str], None]) -> None:
    """Print what the run of a whole model says beside its time, by `fact(name, text)`; nothing for any other."""
    from results.text.model_text import (
        NOT_LANGUAGE,
        OF_DEVICE,
        embedding_text,
        energy_text,
        kl_text,
        layer_name,
        parts_text,
        perplexity_text,
        text_source,
        top1_text,
    )
    from results.text.verdict_text import tokens_text
    from results.verdicts.model_results import model_results, slow_issue

    model_pass = next((model_pass for model in model_results([case]) for model_pass in model.passes), None)
    if model_pass is None:
        return
    figures = model_pass.figures
    of_device = OF_DEVICE if model_pass.is_of_device else ""
    rates = [f"{tokens_text(model_pass.tokens_per_s)} tokens/s{of_device}"] if model_pass.tokens_per_s else []
    rates += (
        [f"{tokens_text(model_pass.expected_tokens_per_s)} tokens/s expected"]
        if model_pass.expected_tokens_per_s
        else []
    )
    rates += [f"{energy_text(figures.energy_j_per_token)} per 1k tokens"] if figures.energy_j is not None else []
    if rates:
        fact("tokens", f"{', '.join(rates)}; {figures.tokens_per_call} per call")
    if (item := slow_issue([model_pass])) is not None:
        fact("host", short_text(item))
    if figures.held_bytes is not None:
        before = f" of {format_memory(figures.original_bytes)} before ({format_percent(figures.held_ratio, 0)})"
        stated = (
            f", {format_memory(figures.stated_bytes)} stated by the formats" if figures.stated_bytes is not None else ""
        )
        fact("model holds", f"{format_memory(figures.held_bytes)}{before if figures.original_bytes else ''}{stated}")
        peak = f"peak of a call {format_memory(figures.peak_bytes)}"
        peak += ", in which the largest weight is decoded" if figures.is_emulated and figures.peak_bytes else ""
        fact("", f"cache {format_memory(figures.cache_bytes)}, {peak}, process {format_memory(figures.process_bytes)}")
    if figures.quality_source == "measured":
        fact(
            "quality",
            embedding_text(figures)
            or (
                f"KL {kl_text(figures)} nats/token, same top-1 {top1_text(figures)}, perplexity ratio "
                f"{perplexity_text(figures)}"
            ),
        )
        fact("", f"over {text_source(figures)}" + ("" if figures.is_language else f" ({NOT_LANGUAGE})"))
    elif figures.quality_source == "none":
        fact("quality", f"none: {figures.quality_reason or 'no reason was stored'}")
    if figures.kernels:
        emulated = " (emulated: a decode pass in every call)" if figures.is_emulated else ""
        became = ", ".join(f"{count} {layer_name(name)}" for name, count in figures.layer_counts)
        fact("layers", f"{became}; {'; '.join(figures.kernels)}{emulated}")
    for fallback in figures.fallbacks:
        fact("fell back", short_text(fallback))
    if parts := parts_text(model_pass):
        fact("expected in", parts)
