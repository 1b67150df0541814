"""Whole models in a report: times per phase, memory, quality, and where an expected pass spends its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
    Section,
    Span,
    table,
    time_cell,
)
from reports.present.display_text import shown
from reports.present.models import memory_table, model_title, quality_table, times_table
from reports.present.predicted.words import ideal_words
from reports.present.words.model_json import part_columns
from reports.present.words.model_text import (
    model_notes,
)
from results.cases.model_results import ModelResult, PassResult, PhaseResult


def models_section(part: ChipPart) -> Section:
    """Return the whole models that ran, at least one."""
    models = part.chip.models
    intro = (
        "Whole passes through transformers. Gains compare like with like: measured with measured; ",
        Span("expected", "bold"),
        " is the time of the kernels that run, on a CPU with the framework's own, ",
        Span("ideal", "bold"),
        f" every byte once, {ideal_words()}.",
    )
    blocks = [Paragraph(intro, "quiet"), *(block for model in models for block in _model(part, model))]
    notes = tuple(shown(note, 600) for note in model_notes(models))
    if notes:
        blocks.append(Bullets(notes, "quiet"))
    return Section(part.title("Models"), f"models{part.suffix}", tuple(blocks))


def _model(part: ChipPart, model: ModelResult) -> Iterator[Block]:
    yield Heading(3, model_title(model), "model")
    for phase in model.phases:
        yield FigureBlock(pareto_name(model, phase.phase), medium="text")
        yield times_table(model, phase, lambda result: part.report.place((result.records[0].record_id,)))
    members = list(model.by_label().items())
    yield from (each for each in (memory_table(model, members), quality_table(model, members)) if each.rows)
    if names := part_columns(model):
        passes = [(phase, result) for phase in model.phases for result in phase.passes if result.parts_s]
        columns = (
            Column("Pass", lambda item: f"{item[0].phase}, {shown(item[1].label, 80)}", is_head=True),
            Column("Expected", lambda item: time_cell(item[1].case.expected_s), "number"),
            *(Column(shown(name, 40), _part(name), "number") for name in names),
        )
        made = table(f"Expected parts of a pass of {model_title(model)}", columns, passes)
        yield Folded("Where an expected pass spends its time", (made,), medium="page")


def _part(name: str) -> Callable[[tuple[PhaseResult, PassResult]], Cell]:
    return lambda item: time_cell(dict(item[1].parts_s).get(name))
