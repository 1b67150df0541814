"""The sections of the explorer page that are about the chosen chip, as blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from reports.api.explorer.address import MOST_FORMATS
from reports.api.explorer.questions import Advice, ChipAnswer, Question
from reports.api.explorer.words import (
    headline,
    interval_text,
    largest_part,
    number_text,
    remarks,
    traffic,
    why,
)
from reports.present.answers.batches import BatchAnswer
from reports.present.answers.caches import AttentionRecommendation, cache_reason
from reports.present.answers.models import ModelRecommendation
from reports.present.answers.options import PlacedOption
from reports.present.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Definitions,
    FigureBlock,
    Folded,
    Heading,
    Paragraph,
    Rich,
    Span,
    TableBlock,
    memory_cell,
    swatch,
    table,
    time_cell,
    with_columns,
)
from reports.present.predicted.advice import short_answer_blocks
from reports.present.predicted.details import model_details, product_details
from reports.present.predicted.row import Row
from reports.present.predicted.tiles import PART_MEANINGS, tile_facts
from roofline_model.core.finding import short_text
from roofline_model.core.units import (
    counted,
    format_bandwidth,
    format_flops,
    format_memory,
    format_percent,
    format_speedup,
    format_time,
    sentence,
)
from roofline_model.formats.catalog import attention_name, format_pair
from roofline_model.predictions.attention import AttentionPrediction
from roofline_model.predictions.model import PassPrediction
from roofline_model.predictions.product import ProductPrediction
from roofline_model.tiling.waves import Tiling

if TYPE_CHECKING:
    from results.cases.case_result import CaseResult

MOST_DROP = 3
"""Columns of a ranking with a higher one have no room on the page."""
LEAST_SHARE_RATIO = 0.005
"""Parts of a time below it share one row."""
GAPS = {"": "", "kernel": "no kernel", "engine": "no engine"}
PARTS = PART_MEANINGS | {
    "latency": "steps that wait for each other",
    "widen_kv": "widening the cache",
    "kernel": "this kernel beyond the machine's ceilings, as calibrated",
    "append": "appending to the cache",
}
"""Part of an expected time → what it is, of attention too."""


def answer_blocks(answer: ChipAnswer) -> Iterator[Block]:
    """Yield what to take, or why there is no answer, with the reason of each format where they differ."""
    if answer.short is not None and answer.rows:
        yield from short_answer_blocks(answer.short, "", show_all=True)
        return
    reasons = dict.fromkeys(reason for _, reason in answer.refused)
    if len(reasons) > 1:
        yield Paragraph("No prediction: the chip computes in none of these formats.", "verdict")
        yield Bullets(tuple(f"{name}: {reason}" for name, reason in answer.refused))
    else:
        yield Paragraph(f"No prediction. {next(iter(reasons), answer.problem or '')}", "verdict")


def prediction_blocks(row: Row, *, is_misfit: bool) -> Iterator[Block]:
    """Yield one format's prediction: in words, its figures, what to know of it."""
    yield Paragraph(headline(row, is_misfit=is_misfit), look="reading")
    yield Paragraph(why(row))
    yield Definitions(tuple(_figures(row)), look="figures")
    yield Bullets(tuple(dict.fromkeys(remarks(row))), "quiet")


def _figures(row: Row) -> Iterator[tuple[Rich, Rich]]:
    """Yield the name of each figure, its value with a note."""
    expected, memory, ridge, peak = row.expected, row.memory, row.ridge_flop_per_byte, row.peak_flops_per_s
    bound = row.ideal.bound

    def noted(value: str, note: str) -> Rich:
        return value, Span(note, "quiet")

    if expected is None:
        yield "Expected", noted("–", "no model for this")
    else:
        yield "Expected", noted(format_time(expected.time_s), interval_text(expected.low_s, expected.high_s))
    roof = {"memory": "bytes / bandwidth", "compute": "FLOPs / peak"}.get(bound, "")
    yield "Ideal", noted(format_time(row.ideal.time_s), roof)
    yield "Roof", noted(bound, largest_part(row) or row.memory_level)
    yield "Intensity", noted(number_text(row.intensity_flop_per_byte), "FLOP per byte")
    rates = f"{format_flops(peak)} over {format_bandwidth(row.bandwidth_bytes_per_s)}" if peak else "FLOP per byte"
    yield "Ridge", noted("–" if ridge is None else number_text(ridge), rates)
    if row.tokens_per_s is not None:
        yield "Tokens/s", noted(number_text(row.tokens_per_s), "ideal" if expected is None else "expected")
    if memory is not None:
        fits = {True: "fits in", False: "does not fit in", None: "unknown:"}[memory.fits]
        yield "Memory", noted(format_memory(memory.total_bytes), f"{fits} {format_memory(memory.usable_bytes)} usable")
    if isinstance(row.predicted, AttentionPrediction):
        yield "Unfused", noted(format_time(row.predicted.unfused_time_s), "ideal of three kernels")


def formats_blocks(
    question: Question, answer: ChipAnswer, focus: Row, measured: Mapping[tuple[str, str], CaseResult]
) -> Iterator[Block]:
    """Yield the formats side by side, and why some have no time. `measured`: (weight, activation) → case
    of the chosen run that is the very product asked for.
    """
    against = f"vs {focus.predicted.baseline_format or '16 bit'}"
    columns = [
        Column("Format", lambda row: _choice(question, row), is_head=True),
        Column("Expected", lambda row: time_cell(row.expected and row.expected.time_s), "number"),
        Column("", lambda row: _mark(row, answer), "name"),
        Column("80 % of times", _interval, "number"),
        Column("Ideal", lambda row: time_cell(row.ideal.time_s), "number"),
        Column("Measured", lambda row: _measured(row, measured), "number"),
        Column(against, _gain, "number"),
        Column("Tokens/s", lambda row: _number(row.tokens_per_s), "number"),
        Column("Memory", lambda row: memory_cell(row.memory and row.memory.total_bytes), "number"),
        Column("Bound", lambda row: row.ideal.bound),
        Column("FLOP/byte", lambda row: _number(row.intensity_flop_per_byte), "number"),
        Column("Ridge", lambda row: _number(row.ridge_flop_per_byte), "number"),
        Column("Path", _path),
    ]
    yield table(
        "Table of formats",
        columns,
        answer.rows,
        anchor=lambda row: f"format-{row.key}",
        look_of=lambda row: "chosen" if row is focus else "",
        look="stacks",
    )
    yield Bullets(tuple(_without_times(question, answer)), "quiet")


def _choice(question: Question, row: Row) -> Rich:
    return swatch(row.label), Span(row.label, anchor=question.address.link(focus=row.key))


def _mark(row: Row, answer: ChipAnswer) -> Rich:
    """Return that it is the one to take, or what is missing to run it."""
    marks = [("take", "role")] if row is answer.best else []
    if row.gap:
        marks.append((GAPS[row.gap], "bad"))
    if row.fits is False:
        marks.append(("too big", "bad"))
    return tuple(Span(text, look) for text, look in marks)


def _interval(row: Row) -> Cell:
    return Cell("–" if row.expected is None else interval_text(row.expected.low_s, row.expected.high_s))


def _measured(row: Row, measured: Mapping[tuple[str, str], CaseResult]) -> Cell:
    """Return a measured time, and whether something puts it in doubt."""
    product = row.predicted
    if not isinstance(product, ProductPrediction):
        return Cell("–")
    case = measured.get((product.weight_format, product.activation_format))
    if case is None:
        return Cell("–")
    doubts = ", ".join(case.doubts)
    return Cell(f"{format_time(case.measured_s)}{' doubtful' if doubts else ''}", case.measured_s, title=doubts)


def _number(value: float | None) -> Cell:
    return Cell("–" if value is None else number_text(value), value)


def _path(row: Row) -> str:
    compute_format, path = row.unit
    return {"": "–", "native": path, "emulated": f"emulated in {compute_format}"}.get(path, f"via {compute_format}")


def _gain(row: Row) -> Cell:
    is_ideal = row.expected is None and row.gain_ratio is not None
    return Cell(f"{format_speedup(row.gain_ratio)}{' ideal' if is_ideal else ''}", row.gain_ratio)


def _without_times(question: Question, answer: ChipAnswer) -> Iterator[Rich]:
    """Yield the formats that have no expected time or none at all, those for one reason together. Attention is usually
    computed with a 16-bit query over a narrow cache: that pair of each is offered.
    """
    for name, reason in answer.refused:
        yield f"{name}: {reason}"
    reasons: dict[str, list[Row]] = {}
    for row in answer.rows:
        if row.predicted.expected_reason is not None:
            reasons.setdefault(row.remarks[-1], []).append(row)
    for reason, rows in reasons.items():
        yield (
            Span(", ".join(row.label for row in rows), "bold"),
            f": {reason}",
            *_wide_queries(question, answer, rows),
        )


def _wide_queries(question: Question, answer: ChipAnswer, rows: Iterable[Row]) -> Iterator[str | Span]:
    if question.address.operator != "attention" or answer.chip is None:
        return
    base, chosen = question.base(answer.chip), question.formats(answer.chip)
    keys = (format_pair(row.key) for row in rows)
    pairs = [cache.key for cache, query in keys if cache == query and f"{cache.key}.{base}" not in chosen]
    if not pairs or len(chosen) + len(pairs) > MOST_FORMATS:
        return
    yield " With a 16-bit query: "
    for cache in pairs:
        formats = ",".join((*chosen, f"{cache}.{base}"))
        yield Span(f"Add {attention_name(cache, base)}", "button", anchor=question.address.link(formats=formats))


def time_blocks(row: Row) -> Iterator[Block]:
    """Yield where the time of one format goes, and what a model takes of the memory."""
    yield Paragraph(f"{row.label}. {traffic(row)}", "quiet")
    parts_s = row.parts_s
    if isinstance(row.predicted, PassPrediction):
        parts_s = {
            f"{each.name}{f' ×{each.calls_count:g}' if each.calls_count > 1 else ''}": (
                each.time_s if row.expected is None else each.expected_s or 0.0
            )
            for each in row.predicted.kernels
        }
    if parts_s:
        yield _parts(parts_s)
    else:
        yield Paragraph("No expected time, so no parts of it.")
    if row.memory is not None:
        names = {"Weights": "weights_bytes", "KV cache": "kv_bytes", "Activations": "activation_bytes",
                 "Together": "total_bytes", "The chip has": "capacity_bytes"}  # fmt: skip
        yield Heading(3, "Memory")
        facts = {name: getattr(row.memory, key) for name, key in names.items()}
        yield Definitions(
            tuple((name, "unknown" if size is None else format_memory(size)) for name, size in facts.items()),
            look="facts",
        )


def _parts(parts_s: Mapping[str, float]) -> TableBlock:
    total_s = sum(parts_s.values())
    large = {name: time_s for name, time_s in parts_s.items() if abs(time_s) >= LEAST_SHARE_RATIO * total_s}
    rows = sorted(large.items(), key=lambda part: -part[1])
    small = [time_s for name, time_s in parts_s.items() if name not in large]
    if any(small):
        rows.append((f"{len(small)} more", sum(small)))
    columns = [
        Column("Part", lambda part: (part[0], Span(f" {PARTS.get(part[0], '')}", "quiet")), is_head=True),
        Column("Time", lambda part: Cell(format_time(part[1]), part[1]), "number"),
        Column("Share", lambda part: _bar(part[1] / total_s), "number"),
    ]
    return table("Time by part", columns, rows, look="parts")


def _bar(ratio: float) -> Cell:
    return Cell(format_percent(ratio), ratio, look="bar", bar_ratio=max(0.0, min(1.0, ratio)))


def tiling_blocks(tiling: Tiling | None, reason: str) -> Iterator[Block]:
    """Yield the tile that a product gets, and the figure of its efficiency over N; or why there is none."""
    yield Heading(3, "Tiling")
    if tiling is None:
        yield Paragraph(sentence(reason))
        return
    units = counted(tiling.sm_count, "SM")
    waves = counted(tiling.wave_count, "wave")
    each = number_text(tiling.blocks_per_sm_ratio, 3)
    yield Paragraph(f"{counted(tiling.block_count, 'block')} on {units}: {each} each on average, so {waves}.")
    yield from (Paragraph(sentence(short_text(item)), "quiet") for item in tiling.findings)
    facts = ((name, (Span(value, "bold"), f" {meaning}")) for name, value, meaning in tile_facts(tiling))
    yield Definitions(tuple(facts), look="facts")
    yield Heading(3, "Efficiency over N")
    yield FigureBlock("tiling", "Share of the tensor peak over N; the table above has the numbers at the N asked for.")


def batches_blocks(answer: BatchAnswer, *, has_figure: bool) -> Iterator[Block]:
    """Yield the best batch in a sentence, the curves, and the best batch of each format within the limits."""
    yield Paragraph(answer.sentence, look="reading")
    if has_figure:
        yield FigureBlock("batches", answer.sentence)
    columns = [
        Column(head, lambda row, at=at: row.cells[at], "number" if at else "name", is_head=not at)  # type: ignore[misc]
        for at, head in enumerate(answer.columns)
    ]
    if answer.rows:
        yield table(
            "Best batch of each format within the limits",
            columns,
            answer.rows,
            look_of=lambda row: "chosen" if row.is_choice else "",
            look="stacks",
        )
    yield Paragraph(answer.basis, "quiet")


def ranking_blocks(advice: Advice) -> Iterator[Block]:
    """Yield the full ranking: what `roofline recommend --all` says behind its first lines, without the columns that a
    narrow screen drops first; what stands beside the table opens under it.
    """
    if isinstance(advice, AttentionRecommendation):
        blocks = product_details(
            advice.ranking,
            lambda option: attention_name(option.key, advice.activation_format),
            lambda option: cache_reason(PlacedOption(option, advice.ranking)),
        )
    elif isinstance(advice, ModelRecommendation):
        blocks = model_details(advice.ranking)
    else:
        blocks = product_details(advice.ranking)
    others = []
    for block in blocks:
        if isinstance(block, TableBlock):
            yield with_columns(block, lambda column: column.drop <= MOST_DROP or column.header == "Why")
        else:
            others.append(block)
    yield Folded("What is excluded, and what the times rest on", tuple(others))
