"""What to do, which configuration to use for each shape, and what all stored runs recommend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from reports.advice.shape_matrix import (
    MatrixCell,
    MatrixColumn,
    ShapeEntry,
    ShapeMatrix,
    entries_and_matrices,
    reason_spans,
)
from reports.document.report import ChipPart, Report
from reports.present.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Folded,
    Heading,
    Live,
    Medium,
    Paragraph,
    Rich,
    Section,
    Span,
    TableBlock,
    meanings,
    memory_cell,
    table,
    time_cell,
)
from reports.present.cases import width_cell
from reports.present.display_text import counted, regime_words, saved_share, shown
from reports.present.shapes import shape_sentence
from reports.present.words.evidence_text import basis_text, looked_at_text, missing_texts, note_texts
from reports.present.words.ranking_text import (
    alone_text,
    excluded_texts,
    kernel_gap_text,
    shape_reason,
    shape_summary,
    stale_text,
)
from reports.present.words.sentences import ORDER_OF_MEASURED
from reports.present.words.stored_text import (
    change_sentence,
    compared_text,
    confidence_words,
    reason_text,
    short_confidence_words,
    speedup_words,
    summary_of,
)
from reports.present.words.verdict_text import origin_text
from results.cases.gain import doubts_to_mend
from results.cases.saved_bytes import saved_ratio
from results.rankings import StoredRanking, StoredRecommendations
from roofline_model.core.answer import Loss, Option, Ranking, Trust
from roofline_model.core.finding import short_text
from roofline_model.core.units import format_speedup
from roofline_model.operators.case import sizes_text
from roofline_model.recommend.loss import loss_text

MOST_MOVES = 8
"""Rankings that moved since the last run; each ranking lists its own moves."""
MOST_RANKED_ROWS = 6
"""Rows of one shape's ranking in texts."""
RANKING_NOTE = f"Measured configurations come first, {ORDER_OF_MEASURED}."
_RANKING_MARKS = (
    "Then come predictions, candidates to try: by the time expected of a good kernel here, else by the ideal time, "
    "which is no kernel's. A ! marks a time in doubt; at a speed-up, the baseline's time. ± is the ± total of the cases "
    "where it is known, else ± within."
)
_LEVEL = "the fastest, or tied with it within the intervals"


def trade_off_section(part: ChipPart) -> Section | None:
    """Return the place of the figure that holds speed against loss, memory and energy; it needs scripts."""
    if not part.live or not part.live["pareto"]:
        return None
    hint = (
        "Each mark is a configuration; the dashed line joins those that no other beats on both axes. Choose a question "
        "and two axes. Point at a mark for its numbers; press it for its case."
    )
    blocks = (Paragraph(hint, "quiet"), Live("pareto", part.index))
    return Section("Speed against quality, memory and energy", f"pareto{part.suffix}", blocks, "live-only", "page")


def advice_section(part: ChipPart) -> Section | None:
    """Return which configuration to use for each shape of a chip: speed-ups at a glance, then the rankings."""
    entries, matrices = entries_and_matrices(part.chip.shapes, part.chip.recommendations)
    if not entries:
        return None
    most_rows_count = part.report.most_rows_count
    blocks = [block for matrix in matrices for block in matrix_blocks(part, matrix, is_only=len(matrices) == 1)]
    if any(matrix.rows for matrix in matrices):
        blocks.append(_matrix_legend("simulated" if part.report.view.is_simulated else "measured"))
    ranked = [entry for entry in entries if entry.ranking is not None]
    others = [entry for entry in entries if entry.ranking is None]
    order = (Paragraph(f"{RANKING_NOTE} {_RANKING_MARKS}", "quiet"),)
    blocks += [Heading(3, "Rankings by time", medium="page"), Folded("How they are ordered", order, medium="page")]
    blocks.append(Paragraph(RANKING_NOTE, "quiet", "text"))
    rankings = [_ranking(part, entry, is_open=at == 0) for at, entry in enumerate(ranked)]
    most_open = part.report.most_open_count
    blocks += rankings[:most_open]
    if more := tuple(rankings[len(rankings) if most_open is None else most_open :]):
        blocks.append(Folded(counted(len(more), "more shape"), more, medium="page"))
    if others:
        shapes = "shapes, " if part.chip.unranked_count else ""
        folded: list[Block] = [
            Bullets(tuple(shape_sentence(entry.result) for entry in others[:most_rows_count]), look="shapes")
        ]
        if most_rows_count is not None and len(others) > most_rows_count:
            folded.append(_not_listed(f"{len(others) - most_rows_count} more"))
        title = f"{len(others)} more {shapes}cache states and modes, in a sentence each"
        blocks.append(Folded(title, tuple(folded), look="others", medium="page"))
    if part.chip.unranked_count:
        text = f"{part.chip.unranked_count} more shapes have no ranking here: `roofline recommend` gives any of them."
        blocks.append(Paragraph(text, "quiet"))
    medium: Medium = "any" if ranked else "page"
    return Section(
        part.title("How fast each format is, shape by shape"), f"advice{part.suffix}", tuple(blocks), medium=medium
    )


def _not_listed(what: str) -> Paragraph:
    return Paragraph(f"{what} are not listed here: `roofline show RUN` lists all.", "quiet", "page")


def matrix_blocks(part: ChipPart, matrix: ShapeMatrix, *, is_only: bool) -> Iterator[Block]:
    """Yield the speed-ups of a family of operators, shapes against configurations, and what has no column."""
    if len(matrix.columns) > 1 and matrix.rows:
        yield _matrix_table(part, matrix, is_only=is_only)
        most_rows_count = part.report.most_rows_count
        if most_rows_count is not None and len(matrix.rows) > most_rows_count:
            yield _not_listed(counted(len(matrix.rows) - most_rows_count, "more shape"))
        if matrix.left_count:
            text = f"{matrix.left_count} more configurations have no column; the rankings list all."
            yield Paragraph(text, "quiet", look="of-columns")
    if matrix.barred:
        reasons: dict[str, list[str]] = {}
        for name, reason in matrix.barred:
            reasons.setdefault(reason, []).append(name)
        text = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
        columns = Span(", so they have no column", "of-columns")
        yield Paragraph(("No kernel is known to run here", columns, f": {text}."), "quiet")


def _matrix_table(part: ChipPart, matrix: ShapeMatrix, *, is_only: bool) -> TableBlock:
    def shape(row: tuple[ShapeEntry, tuple[MatrixCell, ...]]) -> Rich:
        entry = row[0]
        place = f"ranking{part.suffix}-{entry.anchor}" if entry.ranking else ""
        return (Span(entry.title, anchor=place), *((" ", Span(entry.phase, "quiet")) if entry.phase else ()))

    columns = [Column("Shape", shape, "brief", is_head=True)]
    for at, column in enumerate(matrix.columns):
        columns.append(Column(_matrix_header(column), _of_column(at), "number", drop=at))
    every = [cell for _, cells in matrix.rows for cell in cells]
    marks = (
        ["* faster than every other of its shape by more than the intervals"] if any(c.is_best for c in every) else []
    )
    marks += [f"≈ {_LEVEL}"] if any(cell.is_level for cell in every) else []
    marks += ["( ) predicted, not measured here"] if any(map(_is_predicted, every)) else []
    marks += ["! in doubt, the baseline's time or its own"] if any(cell.is_in_doubt for cell in every) else []
    has_baseline = any(entry.result.baseline is not None for entry, _ in matrix.rows)
    what = "Speed-up over the 16-bit baseline, or FP32 where none ran"
    if not has_baseline:
        what = "Times: no 16-bit or FP32 kernel to compare with"
    title = what if is_only else f"{matrix.title}. {what}"
    return table(
        f"Speed-ups by shape and configuration: {matrix.title}",
        columns,
        matrix.rows[: part.report.most_rows_count],
        title=title,
        look="matrix",
        text_note=f"{'; '.join(marks)}." if marks else "",
    )


def _of_column(at: int) -> Callable[[tuple[ShapeEntry, tuple[MatrixCell, ...]]], Cell]:
    return lambda row: _matrix_cell(row[1][at])


def _matrix_header(column: MatrixColumn) -> Rich:
    return (f"{column.precision} ", Span(column.kernel or "not tried", "quiet"))


def _is_predicted(cell: MatrixCell) -> bool:
    return cell.state in ("expected", "ideal")


def _matrix_cell(cell: MatrixCell) -> Cell:
    """Return a speed-up: coloured on a page, in texts in parentheses where nobody measured it, with marks behind it."""
    if cell.state == "none":
        return Cell("")
    look = f"gain {cell.state} {cell.tone}{' best-of' if cell.is_best else ''}"
    doubt = " !" if cell.is_in_doubt else ""
    level = " ≈" if cell.is_level and not cell.is_best else ""
    text = f"({cell.text})" if _is_predicted(cell) else cell.text
    spans = (
        Span(f"{cell.text}{doubt}{level}", look, cell.title, medium="page"),
        *((Span(" best", "unseen", medium="page"),) if cell.is_best else ()),
        Span(f"{text}{doubt}{' *' if cell.is_best else ''}{level}", medium="text"),
    )
    return Cell(spans, cell.speedup)


def _matrix_legend(origin: str) -> Bullets:
    looks = (
        ("measured", "2.0×", f" {origin}"),
        ("expected", "2.0×", " predicted, not measured here"),
        ("measured best-of", "2.0×", " faster than every other of its shape, by more than the intervals"),
        ("measured", "2.0× ≈", f" {_LEVEL}"),
        ("measured", "2.0× !", " its time or the baseline's is in doubt"),
    )
    items = tuple((Span(text, f"gain {look} up-2"), meaning) for look, text, meaning in looks)
    return Bullets(items, medium="page", look="legend-line matrix-legend")


def _ranking(part: ChipPart, entry: ShapeEntry, *, is_open: bool) -> Folded:
    ranking = entry.ranking
    assert ranking is not None  # the caller keeps no others
    op = "" if ranking.question.op in ("gemv", "gemm") else f" {ranking.question.op}"
    regime = regime_words(ranking.question.cache, ranking.question.mode)
    title: Rich = (
        Span(f"{ranking.question.op} ", medium="text"),
        Span(shown(sizes_text(ranking.question.sizes), 60), "bold"),
        Span(op, medium="page"),
        Span(f", {regime}", medium="text"),
        *(
            (
                Span(f" ({ranking.question.phase})", medium="text"),
                Span(f" {ranking.question.phase}", "quiet", medium="page"),
            )
            if ranking.question.phase
            else ()
        ),
        *((Span(f" {entry.regime}", "quiet", medium="page"),) if entry.regime else ()),
    )
    return Folded(
        title,
        tuple(_ranking_blocks(part, ranking, f"Ranking for {ranking.question.op} {entry.title} {entry.regime}")),
        shape_summary(ranking),
        "ranking",
        f"ranking{part.suffix}-{entry.anchor}",
        is_open,
    )


def _ranking_blocks(part: ChipPart, ranking: Ranking, label: str) -> Iterator[Block]:
    runnable = ranking.runnable
    reasons = {option.key: shape_reason(option, ranking) for option in runnable}
    spans = dict(zip(reasons, reason_spans(list(reasons.values())), strict=True))

    def speedup(row: Option) -> Cell:
        doubt = " !" if row.trust.is_over_doubt else ""
        ratio = row.speedup_ratio
        return Cell("–" if ratio is None else f"{format_speedup(ratio)}{doubt}", ratio)

    def method(row: Option) -> Rich:
        return (f"{row.method or '–'}, ", Span(loss_text(row.loss), "quiet"))

    def evidence(row: Option) -> Rich:
        return _evidence(part.report, row, meanings(row.trust.doubts))

    columns = (
        Column("#", lambda row: str(ranking.rank_of(row)), "number"),
        Column("Configuration", lambda row: _unbroken(row.label), is_head=True),
        Column("Time", lambda row: time_cell(row.estimate.time_s), "number"),
        Column("Speed\u2011up", speedup, "number"),
        Column("Evidence", evidence, drop=2),
        Column("±", lambda row: width_cell(row.estimate.half_width_ratio), "number", drop=3),
        Column(
            "Ideal",
            lambda row: time_cell(None if row.times.ideal is None else row.times.ideal.time_s),
            "number",
            medium="page",
        ),
        Column("Weights saved", lambda row: Cell(saved_share(saved_ratio(row)), saved_ratio(row)), "number", drop=1),
        Column("Suggested method, loss", method, "brief", drop=5),
        Column("Why", lambda row: Cell(reasons[row.key], row_span_count=spans[row.key]), "prose", drop=4),
    )
    if runnable:
        yield _ranked_table(
            label, columns, runnable, ranking.baseline_label, meanings(doubts_to_mend(ranking.baseline))
        )
    yield from _excluded(ranking.barred, excluded_texts(ranking))


def _unbroken(label: str) -> Rich:
    """Return the label of a configuration; lines break between the format and the kernel."""
    precision, separator, kernel = label.partition(" · ")
    return (Span(precision, "format"), f"{separator}{kernel}")


def _ranked_table(
    label: str,
    columns: tuple[Column, ...],
    rows: Sequence[Any],
    baseline: str,
    doubts: str,
) -> TableBlock:
    mark = (" ", Span("!", "mark", f"its time is in doubt: {doubts}")) if doubts else ()
    first = rows[0]
    return table(
        label,
        columns,
        rows,
        title=(f"Against {baseline or 'no baseline'}", *mark),
        look="ranked",
        look_of=lambda row: "best" if row is first else "",
        text_rows_count=MOST_RANKED_ROWS,
    )


def _excluded(barred: Sequence[Option], others: Sequence[tuple[str, str]]) -> Iterator[Block]:
    """Yield what is not ranked and why; configurations with one reason together."""
    labels: dict[str, list[str]] = {}
    for option in barred:
        labels.setdefault(kernel_gap_text(option), []).append(option.label)
    items = [f"{', '.join(names)}: {reason}" for reason, names in labels.items()]
    items += [f"{name}: {reason}" if name else reason for name, reason in others]
    if items:
        yield Bullets(tuple(items), "quiet", look="excluded")


def _evidence(report: Report, row: Option, doubts: str, stale: str = "") -> Rich:
    """Return what a time rests on, with the way to its case and marks where it is in doubt or old."""
    return (
        Span(origin_text(row), f"evidence {row.estimate.source}", anchor=report.place(row.record_ids)),
        *((" ", Span("!", "mark", doubts)) if doubts else ()),
        *((" ", Span("old", "mark", stale)) if stale else ()),
    )


# --- all stored runs


def stored_section(report: Report, stored: StoredRecommendations) -> Section:
    """Return what all stored runs recommend: an answer per question, what moved, what is missing, and each ranking."""
    basis = f"From {basis_text(stored)}: of each case the newest runs that can be compared."
    intro = (
        f"{basis} The database holds {looked_at_text(stored)} of these shapes and models, this run included. "
        "± is the ± total where that is known. High confidence needs three processes, an interval of at most ±5 %, no doubt and no change since; a "
        "measured speed-up needs this of both times. A ! at a speed-up marks a baseline in doubt. `roofline recommend "
        "--stored` gives the same, with limits on memory and loss."
    )
    several = len({ranking.question.hardware for ranking in stored.rankings}) > 1
    numbers = {id(ranking): number for number, ranking in enumerate(stored.rankings, start=1)}
    blocks: list[Block] = [Paragraph(intro, "quiet", "page"), Paragraph(basis, "quiet", "text")]
    moved = [ranking for ranking in stored.rankings if ranking.changes]
    if moved:
        more = len(moved) - MOST_MOVES
        items: list[Rich] = [_move(ranking, numbers[id(ranking)]) for ranking in moved[:MOST_MOVES]]
        items += [Span(f"{more} more rankings moved: see below", "quiet")] if more > 0 else []
        blocks += [Heading(3, "What moved since the last run"), Bullets(tuple(items), look="moves")]
    if stored.rankings:
        blocks.append(_answers(report, stored, numbers, several=several))
    notes, missing = note_texts(stored), missing_texts(stored)
    blocks += [Bullets(notes)] if notes else []
    blocks += [Bullets(missing, "quiet")] if missing else []
    if stored.rankings:
        rankings = tuple(
            _stored_ranking(report, ranking, numbers[id(ranking)], several=several) for ranking in stored.rankings
        )
        title = f"Each ranking with all its configurations ({len(rankings)})"
        blocks.append(Folded(title, rankings, look="others", medium="page"))
    return Section("What all stored runs recommend", "stored", tuple(blocks))


def _move(ranking: StoredRanking, number: int) -> Rich:
    more = len(ranking.changes) - 1
    link = (
        (Span(" (and ", "quiet"), Span(f"{more} more", anchor=f"stored-{number}"), Span(")", "quiet")) if more else ()
    )
    return (Span(ranking.question.name, "bold"), f": {change_sentence(ranking.changes[0])}", *link)


def _answers(report: Report, stored: StoredRecommendations, numbers: dict[int, int], *, several: bool) -> TableBlock:
    def question(ranking: StoredRanking) -> Rich:
        phase = ranking.question.phase if ranking.question.subject == "shape" else ""
        chip = ranking.hardware_name if several else ""
        return (Span(ranking.question.name, anchor=f"stored-{numbers[id(ranking)]}"), *_quietly(phase, chip))

    def of_best(cell: Callable[[Option], Cell | Rich]) -> Callable[[StoredRanking], Cell | Rich]:
        return lambda ranking: "–" if ranking.choice is None else cell(ranking.choice)

    def speedup(ranking: StoredRanking) -> Cell | Rich:
        return "–" if ranking.choice is None or not ranking.is_contest else _stored_speedup(ranking.choice)

    columns = (
        Column("Question", question, "brief", is_head=True),
        Column("Take", _taken, "brief"),
        Column("Evidence", of_best(lambda row: _stored_evidence(report, row)), drop=3),
        Column("Time", of_best(lambda row: time_cell(row.estimate.time_s)), "number"),
        Column("Speed\u2011up", speedup, "number"),
        Column("Loss", of_best(lambda row: _loss(row.loss)), "brief", drop=2),
        Column("Confidence", of_best(lambda row: _confidence(row.trust)), drop=1),
        Column("Moved", lambda ranking: str(len(ranking.changes) or "–"), "number", drop=4),
    )
    return table("Answers of all stored runs", columns, stored.rankings, look="answers stacked")


def _taken(ranking: StoredRanking) -> str:
    """Return what to take, or why that is nothing."""
    if ranking.choice is None:
        return summary_of(ranking)
    return ranking.choice.label if ranking.is_contest else alone_text(ranking.choice.label)


def _quietly(*texts: str) -> tuple[str | Span, ...]:
    return tuple(piece for text in texts if text for piece in (" ", Span(text, "quiet")))


def _stored_evidence(report: Report, row: Option) -> Rich:
    return _evidence(report, row, ", ".join(row.trust.doubts), stale_text(row.trust))


def _stored_speedup(row: Option) -> Cell:
    return Cell(speedup_words(row), row.speedup_ratio)


def _loss(loss: Loss) -> Span:
    return Span(loss_text(loss), "" if loss.source in ("measured", "reference") else "quiet")


def _confidence(trust: Trust) -> Span:
    return Span(trust.confidence, f"sure {trust.confidence}", confidence_words(trust))


def _nights(row: Option) -> Rich:
    spans: list[str | Span] = []
    for run in row.evidence[:-4:-1]:
        label = f", {run.label}" if run.label else ""
        title = f"{shown(run.started_at[:10], 12)}{label}, {counted(run.process_count, 'process', 'processes')}"
        spans += [Span(shown(run.run_id[:8], 8), "code", title), " "]
    more = [Span(f"and {len(row.evidence) - 3} more", "quiet")] if len(row.evidence) > 3 else []
    return (*(spans if more else spans[:-1]), *more) or "–"


def _stored_ranking(report: Report, ranking: StoredRanking, number: int, *, several: bool) -> Folded:
    moved = f", {len(ranking.changes)} moved" if ranking.changes else ""
    title = (
        ranking.question.name,
        *_quietly(ranking.hardware_name if several else "", f"{len(ranking.options)} configurations{moved}"),
    )
    return Folded(title, tuple(_stored_blocks(report, ranking)), look="ranking", anchor=f"stored-{number}")


def _stored_blocks(report: Report, ranking: StoredRanking) -> Iterator[Block]:
    summary = summary_of(ranking)
    yield Paragraph(Span(f"{summary[:1].upper()}{summary[1:]}", "bold"))
    if ranking.changes:
        yield Paragraph(f"{compared_text(ranking)}:", "quiet")
        yield Bullets(tuple(map(change_sentence, ranking.changes)), look="moves")
    runnable = ranking.runnable
    reasons = {option.key: reason_text(option, ranking) for option in runnable}
    spans = dict(zip(reasons, reason_spans(list(reasons.values())), strict=True))
    columns = (
        Column("#", lambda row: str(ranking.rank_of(row)), "number"),
        Column("Configuration", lambda row: row.label, is_head=True),
        Column("Evidence", lambda row: _stored_evidence(report, row)),
        Column("Time", lambda row: time_cell(row.estimate.time_s), "number"),
        Column("±", lambda row: width_cell(row.estimate.half_width_ratio), "number"),
        Column("Speed\u2011up", _stored_speedup, "number"),
        Column(
            "Memory",
            lambda row: memory_cell(None if row.memory is None else row.memory.total_bytes),
            "number",
            "of a model weights and cache, of a product the operands of a call",
        ),
        Column("Loss", lambda row: _loss(row.loss)),
        Column(
            "Confidence",
            lambda row: (_confidence(row.trust), " ", Span(short_confidence_words(row.trust), "quiet")),
            "brief",
        ),
        Column("Runs", _nights),
        Column("Why", lambda row: Cell(reasons[row.key], row_span_count=spans[row.key]), "prose"),
    )
    if runnable:
        label = f"All runs: ranking for {ranking.question.name} on {ranking.hardware_name}"
        yield _ranked_table(
            label, columns, runnable, ranking.baseline_label, ", ".join(doubts_to_mend(ranking.baseline))
        )
    others = (
        *excluded_texts(ranking),
        *(("", short_text(item)) for item in ranking.missing),
    )
    yield from _excluded(ranking.barred, others)
