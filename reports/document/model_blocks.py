"""Whole models in a report: times per phase, memory, quality, and where an expected pass spends its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from reports.answers.short_answer import ideal_words
from reports.document.report import ChipPart
from reports.formats.figure_files import pareto_name
from reports.present.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    FigureBlock,
    Folded,
    Heading,
    Paragraph,
    Rich,
    Section,
    Span,
    TableBlock,
    meanings,
    memory_cell,
    percent_cell,
    table,
    time_cell,
)
from reports.present.display_text import shown
from reports.ranking.model_results import model_title, part_columns
from results.records.flags import DOUBTFUL_FLAGS
from results.records.model_figures import Interval, ModelFigures
from results.statistics.replication import width_text
from results.text.model_text import (
    EMULATED_MARK,
    OF_DEVICE,
    embedding_text,
    energy_text,
    kl_text,
    model_notes,
    perplexity_text,
    text_source,
    top1_text,
)
from results.text.verdict_text import tokens_text
from results.verdicts.model_results import ModelResult, PassResult, PhaseResult
from roofline_model.core.units import format_speedup


def models_section(part: ChipPart) -> Section:
    """Return the whole models that ran, at least one."""
    models = part.chip.models
    intro = (
        "Whole passes through transformers. Speed-ups compare like with like: measured with measured; ",
        Span("expected", "bold"),
        " is the time of the kernels that run, on a CPU with the framework's own, ",
        Span("ideal", "bold"),
        f" every byte once, {ideal_words()}.",
    )
    blocks = [Paragraph(intro, "quiet"), *(block for model in models for block in _model(part, model))]
    # The table says `emulated` in words where others have a mark.
    notes = tuple(shown(note.removeprefix(f"{EMULATED_MARK} "), 600) for note in model_notes(models))
    if notes:
        blocks.append(Bullets(notes, "quiet"))
    return Section(part.title("Models"), f"models{part.suffix}", tuple(blocks))


def _model(part: ChipPart, model: ModelResult) -> Iterator[Block]:
    yield Heading(3, model_title(model), "model")
    for phase in model.phases:
        yield FigureBlock(pareto_name(model, phase.phase), medium="text")
        yield _times(part, model, phase)
    members = list(model.by_label().items())
    if any(passes[0].figures.held_bytes for _, passes in members):
        yield _memory(model, members)
    if any(passes[0].figures.quality_source in ("measured", "none") for _, passes in members):
        yield _quality(model, members)
    if names := part_columns(model):
        passes = [(phase, result) for phase in model.phases for result in phase.passes if result.parts_s]
        columns = (
            Column("Pass", lambda item: f"{item[0].phase}, {shown(item[1].label, 80)}", is_head=True),
            Column("Expected", lambda item: _expected(item[1]), "number"),
            *(Column(shown(name, 40), _part(name), "number") for name in names),
        )
        made = table(f"Expected parts of a pass of {model_title(model)}", columns, passes)
        yield Folded("Where an expected pass spends its time", (made,), medium="page")


def _part(name: str) -> Callable[[tuple[PhaseResult, PassResult]], Cell]:
    return lambda item: time_cell(dict(item[1].parts_s).get(name))


def _times(part: ChipPart, model: ModelResult, phase: PhaseResult) -> TableBlock:
    best = phase.of(phase.judged.best) if phase.judged.is_win else None
    is_decode = phase.phase == "decode"
    has_measured = any(item.measured_s is not None for item in phase.passes)
    of_device = OF_DEVICE if phase.is_of_device else ""

    def name(result: PassResult) -> Rich:
        label = Span(shown(result.label, 80), anchor=part.report.place((result.records[0].record_id,)))
        if not result.is_doubtful or result.option is None:
            return label
        doubts = tuple(flag for flag in sorted(result.option.flags) if flag in DOUBTFUL_FLAGS)
        return (label, " ", Span("!", "mark", meanings(doubts)))

    def tokens(result: PassResult) -> Cell:
        rate = result.tokens_per_s if has_measured else result.expected_tokens_per_s
        return Cell(tokens_text(rate), rate)

    def energy(result: PassResult) -> Cell:
        return Cell(energy_text(result.figures.energy_j_per_token), result.figures.energy_j_per_token)

    what = (
        f"{'generated' if is_decode else 'prompt'} tokens per second, "
        f"{'measured' if has_measured else 'by the expected time'}{of_device}"
    )
    columns = (
        Column("Precision", name, is_head=True),
        Column("Measured", lambda item: time_cell(item.measured_s), "number"),
        Column("Speed\u2011up", lambda item: _speedup(item.measured_speedup), "number", "measured over measured"),
        Column("Tokens/s", tokens, "number", what, drop=1),
        Column("±", lambda item: _width(item.interval_ratio), "number", drop=7),
        Column("Expected", _expected, "number"),
        Column("Ideal", lambda item: time_cell(item.option.times.ideal_s if item.option else None), "number", drop=2),
        Column(
            "Speed\u2011up expected",
            lambda item: _speedup(item.expected_speedup),
            "number",
            "expected over expected",
            drop=6,
        ),
        Column("Speed\u2011up ideal", lambda item: _speedup(item.ideal_speedup), "number", "ideal over ideal", drop=4),
        Column("J/1k tokens", energy, "number", "energy per thousand tokens, gross", drop=3),
        Column("Remarks", _remark, "brief", drop=5),
    )
    return table(
        f"{phase.phase} of {model_title(model)}",
        columns,
        phase.passes,
        title=f"{phase.phase.capitalize()}{of_device}: "
        f"{'one new token per sequence' if is_decode else 'the whole prompt'}",
        look_of=lambda item: "best" if item is best else "",
    )


def _width(ratio: float | None) -> Cell:
    return Cell("–" if ratio is None else width_text(ratio), ratio)


def _speedup(ratio: float | None) -> Cell:
    return Cell(format_speedup(ratio), ratio)


def _expected(result: PassResult) -> Cell:
    return time_cell(result.option.times.expected_s if result.option else None)


def _remark(result: PassResult) -> str:
    if result.is_baseline:
        return "the baseline"
    if result.figures.is_emulated:
        return "emulated"
    if result.records[0].status == "predicted":
        return "predicted"
    return shown(result.reason) if result.measured_s is None else "–"


Member = tuple[str, tuple[PassResult, ...]]
"""A precision and its passes."""


def _memory(model: ModelResult, members: Sequence[Member]) -> TableBlock:
    def of(name: str) -> Callable[[Member], Cell]:
        return lambda item: memory_cell(getattr(item[1][0].figures, name))

    def peak(phase: str) -> Callable[[Member], Cell]:
        return lambda item: memory_cell(
            next(
                (
                    result.figures.peak_bytes
                    for result in item[1]
                    if (result.figures.phase == "decode") is (phase == "decode")
                ),
                None,
            )
        )

    columns = (
        Column("Precision", lambda item: shown(item[0], 80), is_head=True),
        Column(
            "Before", of("original_bytes"), "number", "parameters and buffers before anything was quantised", drop=1
        ),
        Column("Held", of("held_bytes"), "number", "parameters and buffers now"),
        Column("Stated", of("stated_bytes"), "number", "what the formats state for them", drop=3),
        Column(
            "Share", lambda item: percent_cell(item[1][0].figures.held_ratio, 0), "number", "held over before", drop=5
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
    rows = [(label, passes) for label, passes in members if passes[0].figures.held_bytes is not None]
    return table(f"Memory of {model_title(model)}", columns, rows, title="Memory")


def _quality(model: ModelResult, members: Sequence[Member]) -> TableBlock:
    def interval(figure: Interval | None, text: str) -> Cell:
        return Cell(text, None if figure is None else figure.value)

    def measured_on(figures: ModelFigures) -> str:
        if figures.quality_source != "measured":
            return f"not measured: {shown(figures.quality_reason)}"
        over = f"{embedding}, over " if (embedding := embedding_text(figures)) else ""
        language = "" if figures.is_language else ": nothing about language"
        return f"{over}{shown(text_source(figures), 80)}{language}"

    kl = "Kullback-Leibler divergence from the 16-bit model's distribution of the next token"
    columns = (
        Column("Precision", lambda item: shown(item[0], 80), is_head=True),
        Column("KL, nats/token", lambda item: interval(item[1].kl_nats_per_token, kl_text(item[1])), "number", kl),
        Column(
            "Same top\u20111",
            lambda item: interval(item[1].top1_agreement_ratio, top1_text(item[1])),
            "number",
            "share of tokens with the same likeliest next token",
            drop=4,
        ),
        Column(
            "Perplexity ratio",
            lambda item: interval(item[1].perplexity_ratio, perplexity_text(item[1])),
            "number",
            "over the perplexity of the 16-bit model",
            drop=5,
        ),
        Column("Measured on", lambda item: measured_on(item[1]), "brief", drop=6),
    )
    rows = [(label, passes[0].figures) for label, passes in members]
    rows = [row for row in rows if row[1].quality_source in ("measured", "none")]
    title = "Quality against the 16-bit model, with 95 % intervals"
    return table(f"Quality of {model_title(model)}", columns, rows, title=title)
