"""What to do, the matrix of speed-ups, and what all stored runs recommend, as blocks for terminal, Markdown and paper."""

from __future__ import annotations

from collections.abc import Iterator

from reports.advice.shape_matrix import MatrixCell, ShapeMatrix, entries_and_matrices
from reports.document.blocks import Block, Bullets, Heading, Paragraph, TableColumn, table
from reports.stored.answer import StoredRanking, StoredRecommendations
from reports.stored.words import speedup_words
from reports.text.display_text import counted, shown
from reports.view.views import ChipView, ReportView
from roofline_model.core.units import format_time
from roofline_model.recommend.loss import loss_text

MOST_MOVES = 12
"""Changes of rank that are told; `roofline recommend --stored` tells all."""


def action_blocks(view: ReportView) -> Iterator[Block]:
    """Yield what to do, a line per phase."""
    several = len(view.chips) > 1
    lines = [
        f"{chip.hardware_name}: {action.sentence}" if several else action.sentence
        for chip in view.chips
        for action in chip.actions
    ]
    if lines:
        yield Heading(2, "What to do")
        yield Bullets(tuple(lines))


def matrix_blocks(chip: ChipView) -> Iterator[Block]:
    """Yield the speed-ups of a chip's shapes and configurations as tables."""
    for matrix in entries_and_matrices(chip.shapes, chip.recommendations)[1]:
        if len(matrix.columns) > 1:
            yield _matrix(matrix)
        if matrix.barred:
            names = ", ".join(name for name, _ in matrix.barred)
            reasons = "; ".join(dict.fromkeys(reason for _, reason in matrix.barred))
            yield Paragraph(f"No kernel is known to run here, so they have no column: {names} ({reasons}).", "quiet")


def _matrix(matrix: ShapeMatrix) -> Block:
    columns = [
        TableColumn("shape", is_prose=True),
        *(
            TableColumn(f"{one.precision} {one.kernel or 'not tried'}", True, drop=at)
            for at, one in enumerate(matrix.columns)
        ),
    ]
    rows = [[f"{entry.title} {entry.phase}".strip(), *map(_cell, cells)] for entry, cells in matrix.rows]
    every = [cell for _, cells in matrix.rows for cell in cells]
    marks = (
        ["* faster than every other of its shape by more than the intervals"]
        if any(cell.is_best for cell in every)
        else []
    )
    if any(cell.is_level for cell in every):
        marks.append("≈ the fastest or level with it: the intervals name no best")
    if any(cell.state in ("expected", "ideal") for cell in every):
        marks.append("( ) predicted, nobody measured it here")
    if any(cell.is_in_doubt for cell in every):
        marks.append("! in doubt, the baseline's time or its own")
    left = f" {counted(matrix.left_count, 'more configuration')} left out." if matrix.left_count else ""
    return table(
        "", columns, rows, note=f"Speed-ups over the 16-bit baseline{': ' if marks else ''}{'; '.join(marks)}.{left}"
    )


def _cell(cell: MatrixCell) -> str:
    text = cell.text or "–"
    text = f"({text})" if cell.state in ("expected", "ideal") else text
    return f"{text}{' !' if cell.is_in_doubt else ''}{' *' if cell.is_best else ' ≈' if cell.is_level else ''}"


def stored_blocks(stored: StoredRecommendations) -> Iterator[Block]:
    """Yield what all stored runs recommend: an answer per question, what moved, what is missing."""
    yield Heading(2, "What all stored runs recommend")
    several = len({ranking.hardware_key for ranking in stored.rankings}) > 1
    columns = (
        TableColumn("question", is_prose=True),
        TableColumn("take", is_prose=True),
        TableColumn("known by", drop=3),
        TableColumn("time", True),
        TableColumn("speed-up", True),
        TableColumn("loss", drop=2),
        TableColumn("confidence", drop=1),
        TableColumn("run", drop=4),
    )
    rows = [_answer(ranking, several) for ranking in stored.rankings]
    if rows:
        yield table("", columns, rows, note=f"From {stored.basis_words}: the newest comparable nights of each case.")
    moves = [f"{ranking.title}: {change.sentence}" for ranking in stored.rankings for change in ranking.changes]
    if moves:
        left = len(moves) - MOST_MOVES
        more = [f"{counted(left, 'more change')}: roofline recommend --stored"] if left > 0 else []
        yield Paragraph("What moved since the last run:")
        yield Bullets((*moves[:MOST_MOVES], *more))
    if stored.notes:
        yield Bullets(stored.notes)
    if stored.missing:
        yield Bullets(stored.missing, "quiet")


def _answer(one: StoredRanking, with_chip: bool) -> tuple[str, ...]:
    title = f"{one.hardware_name}: {one.title}" if with_chip else one.title
    best = one.best
    if best is None:
        return (title, "nothing", "–", "–", "–", "–", "–", "–")
    doubt = f"{' !' if best.trust.doubts else ''}{' old' if best.trust.stale_reason else ''}"
    return (
        title,
        best.label,
        f"{best.estimate.source}{doubt}",
        format_time(best.estimate.time_s),
        speedup_words(best),
        loss_text(best.loss),
        best.trust.confidence,
        shown(best.evidence[-1].run_id[:8], 8) if best.evidence else "–",
    )
