"""The first screen of a report: up to three options by name for each phase, how good the predictions were, what got
worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reports.document.report import Report
from reports.present.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Folded,
    Heading,
    Paragraph,
    Rich,
    Section,
    Span,
    Split,
    TableBlock,
    table,
    time_cell,
)
from reports.present.cases import name_of
from reports.present.display_text import counted, saved_share, shown
from reports.present.predicted.words import IDEAL_TIMES
from reports.present.words.sentences import GOOD_KERNELS
from reports.present.words.verdict_text import action_of, gain_text, loss_figure, role_text
from reports.view.views import ChipView
from results.cases.errors import ErrorSummary
from results.cases.phase_ranking import PhaseRanking
from roofline_model.core.answer import Loss, Option
from roofline_model.core.units import format_memory, format_percent, sentence
from roofline_model.recommend.loss import loss_text

if TYPE_CHECKING:
    from reports.view.comparison import Comparison

MOST_OPEN = 3
"""Phases whose options are on the first screen; the others are folded."""
_SOURCES = {
    "measured": "Times are measured.",
    "simulated": "Times are simulated: no kernel ran.",
    "expected": GOOD_KERNELS,
    "ceilings": "Times are the best that this machine's ceilings allow.",
    "ideal": IDEAL_TIMES,
}


def answer_section(report: Report, beside: tuple[Block, ...]) -> Section:
    """Return the first section; `beside`: what stands next to the answer where there is room, the roofline."""
    return Section(
        "Answer", "verdict", (Split((tuple(_answer(report)), beside, tuple(_details(report)))),), look="verdict"
    )


def _answer(report: Report) -> Iterator[Block]:
    """Yield what to take, phase by phase, then how good the predictions were, and what got worse."""
    view = report.view
    phases = [(chip, phase) for chip in view.chips for phase in chip.answers]
    blocks = [tuple(_phase(report, chip, phase)) for chip, phase in phases]
    yield from (block for shown_blocks in blocks[:MOST_OPEN] for block in shown_blocks)
    if more := [block for hidden in blocks[MOST_OPEN:] for block in hidden]:
        yield Folded(f"{len(blocks) - MOST_OPEN} more answers", tuple(more))
    if not phases:
        if any(
            model_pass.figures.is_untrained
            for chip in view.chips
            for model in chip.models
            for model_pass in model.passes
        ):
            text = "No format is recommended: the model is untrained."
            yield Paragraph((Span(text, "bold"),), "verdict", look="answer")
        yield from (Paragraph(line, "verdict", look="answer") for line in view.headlines)
    predictions = tuple(_predictions(report))
    if report.comparison is None:
        yield Bullets((*predictions, _NO_BASELINE), medium="page", look="checks")
        yield Bullets(predictions, medium="text")
    else:
        yield Bullets((*predictions, _worse(report.comparison)), look="checks")


def _phase(report: Report, chip: ChipView, phase: PhaseRanking) -> Iterator[Block]:
    action = action_of(phase)
    where = f"{chip.hardware_name}, {phase.title}" if len(report.view.chips) > 1 else phase.title
    place = report.place(action.record_ids[:1])
    evidence = (Span(" (", medium="page"), Span("evidence", anchor=place, medium="page"), Span(")", medium="page"))
    yield Paragraph(
        (
            Span(f"{where}: ", "phase"),
            Span(f"{action.take}", "bold"),
            f", {action.evidence}",
            *(evidence if place else ()),
            ".",
        ),
        "verdict",
        look="answer",
    )
    if phase.is_contest and (rows := named_options(phase)):
        yield _options(phase, rows)
    if action.caveat:
        yield Paragraph((Span(sentence(action.caveat), "but"),), "plain", look="caveat")


def named_options(phase: PhaseRanking) -> list[tuple[str, Option]]:
    """Return the options by role, the choice first."""
    choice, baseline = phase.choice, phase.ranking.baseline
    chosen = []
    if choice is not None:
        is_stay = baseline is not None and choice.key == baseline.key
        chosen = [("Stay" if is_stay else "Take" if choice.is_measured else "Try", choice)]
    return [*chosen, *((role_text(each.role), each.option) for each in phase.ranking.alternatives)]


def _options(phase: PhaseRanking, rows: list[tuple[str, Option]]) -> TableBlock:
    columns = (
        Column(
            "Option",
            lambda row: Cell(
                (Span(row[0], "role"), " ", *_unbroken(row[1].precision)),
                title=row[1].label,
            ),
            is_head=True,
        ),
        Column("Time", lambda row: time_cell(row[1].estimate.time_s), "number"),
        Column("Speed\u2011up", lambda row: gain_cell(row[1], phase.ranking.baseline), "number"),
        Column("Memory", lambda row: _memory(row[1]), "number", drop=1),
        Column("Loss", lambda row: loss_cell(row[1].loss), "number"),
    )
    return table(f"Options by role: {phase.title}", columns, rows, look="options")


def _unbroken(precision: str) -> Iterator[str | Span]:
    """Yield the names of formats, of which no line breaks one."""
    for at, name in enumerate(precision.split(" or ")):
        yield from (" or ",) if at else ()
        yield Span(name, "format")


def gain_cell(option: Option, baseline: Option | None) -> Cell:
    """Return a speed-up with a tilde where a time behind it is in doubt."""
    if baseline is None:
        return Cell("–")
    text = gain_text(option, baseline)
    doubt = "a time behind it is in doubt" if text.startswith("about ") else ""
    return Cell(text.replace("about ", "~"), option.speedup_ratio, doubt)


def _memory(option: Option) -> Cell:
    """Return the weight bytes of a product, what a model holds; of other operators the bytes of a call."""
    memory = option.memory
    if memory is None:
        return Cell("–")
    size_bytes = memory.total_bytes if memory.weight_bytes is None else memory.weight_bytes
    saved_ratio = memory.saved_ratio or 0.0
    saved = f"{saved_share(saved_ratio)}{' of 16 bit saved' if saved_ratio > 0 else ''}" if saved_ratio else ""
    return Cell(format_memory(size_bytes, 3), size_bytes, saved)


def loss_cell(loss: Loss) -> Cell:
    """Return a loss in percent, a published one as its bound."""
    if loss.pct is None or loss.source == "reference":
        return Cell(loss_figure(loss), None if loss.pct is None else 0.0, loss_text(loss) if loss.pct is None else "")
    return Cell(loss_figure(loss), loss.pct / 100, loss_text(loss))


def _sources(report: Report) -> Iterator[Block]:
    """Yield what the figures of the tables are."""
    phases = [phase for chip in report.view.chips for phase in chip.answers]
    options = [option for phase in phases for _, option in named_options(phase)]
    if not options:
        return
    sources = dict.fromkeys(option.estimate.source for option in options)
    texts = [
        _SOURCES["simulated" if source == "measured" and report.view.is_simulated else source] for source in sources
    ]
    if any(len(phase.places) > 1 for phase in phases):
        texts.append(
            "Times and memory are sums over the shapes: one call of each, of 16 bit the faster kernel of each."
        )
    if any(option.loss.source == "claimed" for option in options):
        texts.append("≤ marks a published loss, not measured here.")
    yield Paragraph(" ".join(texts), "quiet")


# --- how good the predictions were, and what got worse


def _predictions(report: Report) -> Iterator[Rich]:
    """Yield a line per chip: median errors, and the share of measured times inside the interval."""
    for chip in report.view.chips:
        where = f" on {chip.hardware_name}" if len(report.view.chips) > 1 else ""
        title = Span(f"Predictions{where}", "bold")
        if chip.overall is None:
            yield title, ": nothing was measured to compare them with."
        else:
            place = f"errors{chip_suffix(report, chip)}"
            yield (
                title,
                f": {errors_text(chip.overall)}",
                *(Span(", ", medium="page"), Span("by format", anchor=place, medium="page")),
                ".",
            )


def chip_suffix(report: Report, chip: ChipView) -> str:
    """Return what tells a chip's places on the page from another's."""
    return next(part.suffix for part in report.chip_parts() if part.chip is chip)


def errors_text(overall: ErrorSummary) -> str:
    """Return the median errors in a sentence: the expected time's where there is one, and the ideal's."""
    if overall.median_abs_expected_ratio is None:
        ideal = format_percent(overall.median_abs_error_ratio, 0)
        return f"ideal {ideal} off (median of {counted(overall.case_count, 'case')})"
    expected = f"expected {format_percent(overall.median_abs_expected_ratio, 0)} off"
    inside = ""
    if overall.interval_count:
        inside = f", {overall.inside_count} of {overall.interval_count} inside their 80 % interval"
    ideal = f"ideal {format_percent(overall.paired_abs_error_ratio, 0)} off"
    return f"{expected}{inside}, {ideal} (medians of {counted(overall.expected_count, 'case')})"


_NO_BASELINE = (Span("What got worse", "bold"), ": no baseline (", Span("--baseline latest", "code"), ").")


def _worse(comparison: Comparison) -> Rich:
    """Return what became slower since the baseline run, without the names of cases: they stand below."""
    from reports.view.comparison import brief_against_text  # it brings the diff and the database along

    diff, result = comparison.diff, comparison.result
    is_bad = result is not None and result.exit_code != 0
    look = "" if diff is None or not diff.is_judged else "bad" if is_bad else "good"
    text = brief_against_text(comparison)
    link = (Span(" (", medium="page"), Span("cases", anchor="baseline", medium="page"), Span(")", medium="page"))
    return (Span("What got worse", "bold"), ": ", Span(text, look), *link, ".")


# --- details on demand


def _details(report: Report) -> Iterator[Block]:
    """Yield what weakens the run, what was not measured and what cannot be said: counted, and listed on demand."""
    yield from _sources(report)
    view = report.view
    counts = [counted(len(view.warnings), "warning")] if view.warnings else []
    unmeasured = ("predicted", "skipped", "failed")
    counts += [f"{view.counts[status]:,} {status}" for status in unmeasured if view.counts.get(status)]
    counts += [f"{counted(len(view.missing), 'thing')} that this report cannot say"] if view.missing else []
    blocks: list[Block] = [Bullets(view.warnings, "warning")] if view.warnings else []
    blocks += [Bullets(view.findings, look="findings")] if view.findings else []
    if view.reasons:
        blocks += [Heading(3, "Not measured, and why"), _reasons(report)]
    if view.missing:
        blocks += [Heading(3, "What this report cannot say"), Bullets(view.missing, look="missing")]
    if not blocks:
        return
    total = counted(len(view.cases), "case")
    title = f"{total}: {', '.join(counts)}" if counts else f"{total}, no warning"
    yield Folded((Span("⚠ ", "but", medium="page") if view.warnings else "", title), tuple(blocks), look="details")


def _reasons(report: Report) -> Bullets:
    items: tuple[Rich, ...] = tuple(
        (
            Span(reason.status, f"status {reason.status}"),
            f" {shown(reason.reason) or 'no reason was stored'} ",
            Span(f"({len(reason.cases)}: {_first([name_of(case.case) for case in reason.cases])})", "quiet"),
        )
        for reason in report.view.reasons
    )
    return Bullets(items, look="reasons")


def _first(names: Sequence[str], most: int = 3) -> str:
    return ", ".join((*names[:most], *(["…"] if len(names) > most else [])))
