"""The tables of a whole model that every surface shows: a phase's times, what the model holds, what it loses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from reports.present.blocks import (
    Cell,
    Column,
    Rich,
    Span,
    TableBlock,
    meanings,
    memory_cell,
    percent_cell,
    table,
    time_cell,
)
from reports.present.cases import width_cell
from reports.present.display_text import shown
from reports.present.words.model_text import (
    OF_DEVICE,
    embedding_text,
    energy_text,
    kl_text,
    mark,
    perplexity_text,
    text_source,
    top1_text,
)
from reports.present.words.verdict_text import tokens_text
from results.cases.model_results import ModelResult, PassResult, PhaseResult
from results.records.flags import DOUBTFUL_FLAGS
from results.records.model_figures import Interval
from roofline_model.core.answer import Times
from roofline_model.core.units import format_speedup

Member = tuple[str, Sequence[PassResult]]
"""A precision and its passes, one per phase."""


def model_title(model: ModelResult) -> str:
    """Return `seeded-llama-156m, batch 1, 128 tokens`, fit to be shown."""
    return shown(model.title, 140)


def model_tables(model: ModelResult) -> Iterator[TableBlock]:
    """Yield the tables of a model: one per phase, then memory, then quality; without those that nobody knows anything
    for.
    """
    members = list(model.by_label().items())
    tables = (*(times_table(model, phase) for phase in model.phases), memory_table(model, members))
    yield from (each for each in (*tables, quality_table(model, members)) if each.rows and len(each.columns) > 1)


def times_table(
    model: ModelResult, phase: PhaseResult, place: Callable[[PassResult], str] = lambda _: ""
) -> TableBlock:
    """Return the precisions of a phase with their times. `place`: the anchor on the page that a name leads to."""
    best = phase.of(phase.judged.best) if phase.judged.is_win else None
    has_measured = any(item.measured_s is not None for item in phase.passes)
    has_baseline = any(item.is_baseline for item in phase.passes)
    of_device = OF_DEVICE if phase.is_of_device else ""

    def name(result: PassResult) -> Rich:
        label = Span(shown(mark(result), 80), anchor=place(result))
        if not result.is_doubtful or result.option is None:
            return label
        doubts = tuple(flag for flag in sorted(result.option.flags) if flag in DOUBTFUL_FLAGS)
        return (label, " ", Span("!", "mark", meanings(doubts)))

    # Without a baseline, and of an imported run, rates are set beside rates: no speed-up says what the time is worth.
    has_rates = not has_baseline or any("imported" in item.records[0].extra for item in phase.passes)

    def tokens(result: PassResult) -> Cell:
        rate = result.tokens_per_s if has_measured else result.expected_tokens_per_s
        return Cell(tokens_text(rate), rate)

    def predicted(kind: Literal["expected", "ideal"]) -> Callable[[PassResult], Cell]:
        def cell(result: PassResult) -> Cell:
            time_s: float | None = getattr(_times(result), f"{kind}_s")
            if not has_rates:
                return time_cell(time_s)
            rate = result.figures.tokens_per_call / time_s if time_s else None
            return Cell(tokens_text(rate), rate)

        return cell

    def error(result: PassResult) -> Cell:
        expected_s, measured_s = _times(result).expected_s, result.measured_s
        if not has_rates or not expected_s or not measured_s:
            return percent_cell(None)
        return percent_cell(expected_s / measured_s - 1, signed=True)

    per_second = "generated" if phase.phase == "decode" else "prompt"
    evidence = "measured" if has_measured else "by the expected time"
    columns = (
        Column("Precision", name, is_head=True),
        Column("Measured", lambda item: time_cell(item.measured_s), "number"),
        Column("Gain", lambda item: _speedup(item.measured_speedup), "number", "measured over measured"),
        Column("Tokens/s", tokens, "number", f"{per_second} tokens per second, {evidence}{of_device}", drop=1),
        Column("±", _plus_minus, "number", drop=4),
        Column("Exp. tokens/s" if has_rates else "Expected", predicted("expected"), "number"),
        Column("Error", error, "number", "of the expected time"),
        Column("Ideal tokens/s" if has_rates else "Ideal", predicted("ideal"), "number", drop=2),
        Column("Exp. gain", lambda item: _speedup(item.expected_speedup), "number", "by expected times", drop=6),
        Column("Ideal gain", lambda item: _speedup(item.ideal_speedup), "number", "by ideal times", drop=5),
        Column("J/1k tokens", _energy, "number", "energy per thousand tokens, gross", drop=3),
        Column("Remarks", _remark, "brief", drop=7),
    )
    return table(
        f"{phase.phase} of {model_title(model)}",
        columns,
        [item for item in phase.passes if item.option is not None],
        title=f"{phase.phase.capitalize()}{of_device}: "
        f"{'one new token per sequence' if phase.phase == 'decode' else 'the whole prompt'}",
        look_of=lambda item: "best" if item is best else "",
    )


def memory_table(model: ModelResult, members: Sequence[Member]) -> TableBlock:
    """Return what the precisions of a model hold."""

    def of(name: str) -> Callable[[Member], Cell]:
        return lambda item: memory_cell(getattr(_holding(item).figures, name))

    def peak(phase: str) -> Callable[[Member], Cell]:
        return lambda item: memory_cell(
            next((each.figures.peak_bytes for each in item[1] if each.figures.phase == phase), None)
        )

    columns = (
        Column("Precision", _member_name, is_head=True),
        Column(
            "Before", of("original_bytes"), "number", "parameters and buffers before anything was quantised", drop=1
        ),
        Column("Held", of("held_bytes"), "number", "parameters and buffers now"),
        Column("Stated", of("stated_bytes"), "number", "what the formats state for them", drop=3),
        Column(
            "Share",
            lambda item: percent_cell(_holding(item).figures.held_ratio, 0),
            "number",
            "held over before",
            drop=5,
        ),
        Column("Cache", of("cache_bytes"), "number", "keys and values of the whole context", drop=2),
        Column("Peak, decode", peak("decode"), "number", "what one decode step allocates at most", drop=4),
        Column("Peak, prefill", peak("prefill"), "number", "what one prefill allocates at most", drop=6),
        Column(
            "Process",
            of("process_bytes"),
            "number",
            "resident memory, with the 16-bit original beside the quantised copy",
            drop=8,
        ),
    )
    rows = [member for member in members if _holding(member).figures.held_bytes is not None]
    return table(f"Memory of {model_title(model)}", columns, rows, title="Memory")


def quality_table(model: ModelResult, members: Sequence[Member]) -> TableBlock:
    """Return what the precisions of a model lose; why others have no quality is in `model_notes`."""

    def interval(name: str, text: Callable[[PassResult], str]) -> Callable[[Member], Cell]:
        def cell(item: Member) -> Cell:
            judged = _judged(item)
            figure: Interval | None = getattr(judged.figures, name)
            return Cell(text(judged), None if figure is None else figure.value)

        return cell

    kl = "Kullback-Leibler divergence from the 16-bit model's distribution of the next token"
    columns = (
        Column("Precision", _member_name, is_head=True),
        Column("KL, nats/token", interval("kl_nats_per_token", lambda each: kl_text(each.figures)), "number", kl),
        Column(
            "Same top-1",
            interval("top1_agreement_ratio", lambda each: top1_text(each.figures)),
            "number",
            "share of tokens with the same likeliest next token",
            drop=4,
        ),
        Column(
            "Perplexity ratio",
            interval("perplexity_ratio", lambda each: perplexity_text(each.figures)),
            "number",
            "over the perplexity of the 16-bit model",
            drop=5,
        ),
        Column("Measured on", _measured_on, "brief", drop=6, least=48),
    )
    rows = [member for member in members if _judged(member).figures.quality_source == "measured"]
    title = "Quality against the 16-bit model, with 95 % intervals"
    return table(f"Quality of {model_title(model)}", columns, rows, title=title)


def without_columns(block: TableBlock, headers: Sequence[str]) -> TableBlock:
    """Return a table without some of its columns."""
    places = [at for at, column in enumerate(block.columns) if column.header not in headers]
    return replace(
        block,
        columns=tuple(block.columns[at] for at in places),
        rows=tuple(replace(row, cells=tuple(row.cells[at] for at in places)) for row in block.rows),
    )


def _member_name(member: Member) -> str:
    return shown(mark(member[1][0]), 80)


def _holding(member: Member) -> PassResult:
    """Return the first pass that knows what the model holds: of an encoder only its prefills ran."""
    return next((each for each in member[1] if each.figures.held_bytes is not None), member[1][0])


def _judged(member: Member) -> PassResult:
    """Return the first pass whose quality was measured."""
    return next((each for each in member[1] if each.figures.quality_source == "measured"), member[1][0])


def _times(result: PassResult) -> Times:
    return Times() if result.option is None else result.option.times


def _speedup(ratio: float | None) -> Cell:
    return Cell(format_speedup(ratio), ratio)


def _plus_minus(result: PassResult) -> Cell:
    if result.measured_s is None:
        return Cell("–")
    return width_cell(result.case.plus_minus_ratio, is_total=result.case.is_interval_total)


def _energy(result: PassResult) -> Cell:
    return Cell(energy_text(result.figures.energy_j_per_token), result.figures.energy_j_per_token)


def _remark(result: PassResult) -> str:
    if result.is_baseline:
        return "the baseline"
    if result.figures.is_emulated:
        return "emulated"
    if result.records[0].status == "predicted":
        return "predicted"
    return shown(result.reason) if result.measured_s is None else "–"


def _measured_on(member: Member) -> str:
    figures = _judged(member).figures
    over = f"{embedding}, over " if (embedding := embedding_text(figures)) else ""
    language = "" if figures.is_language else ": nothing about language"
    return f"{over}{shown(text_source(figures), 80)}{language}"
