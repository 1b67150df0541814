"""Shapes against configurations: one small table that shows at a glance what wins where, before any ranking is
opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from reports.present.cases import case_precision, option_precision
from reports.present.display_text import regime_title, shown
from reports.present.shapes import shape_title
from reports.present.words.ranking_text import kernel_gap_text
from results.cases.shape_verdict import ShapeVerdict
from roofline_model.core.answer import Option, Ranking
from roofline_model.core.units import format_speedup, format_time
from roofline_model.operators.case import Case

State = Literal["measured", "expected", "ideal", "missing", "none"]
"""missing: it failed or was skipped; none: not part of this shape."""

MOST_COLUMNS = 12
"""Configurations that have a column; the rankings have all."""
_PRODUCTS = ("gemv", "gemm")
_STRENGTHS = (1.1, 1.5, 2.2)
"""Speed-ups from which a cell is darker."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One configuration at one shape."""

    state: State
    time_s: float | None = None
    speedup: float | None = None
    """Over the shape's baseline, times of the same kind."""
    is_best: bool = False
    """Faster than every other of its shape, by more than the intervals."""
    is_level: bool = False
    """The fastest of its shape, or tied with it, where no single configuration is the best."""
    is_baseline: bool = False
    is_doubtful: bool = False
    """Whether its own time is in doubt."""
    is_over_doubt: bool = False
    """Whether its speed-up is over a baseline whose time is in doubt."""
    note: str = ""
    """Why it is missing, or why no kernel is known to run it here."""
    is_barred: bool = False
    """Whether no kernel is known to run it on the chip."""

    @property
    def is_in_doubt(self) -> bool:
        """Whether what it shows rests on a time in doubt."""
        return self.is_doubtful or self.is_over_doubt

    @property
    def text(self) -> str:
        """`1.9×`, the time where there is nothing to compare with, `failed`, or nothing."""
        if self.state == "none":
            return ""
        if self.state == "missing":
            return self.note.partition(":")[0]
        return format_time(self.time_s, 3) if self.speedup is None else format_speedup(self.speedup)

    @property
    def tone(self) -> str:
        """How a speed-up is coloured: `up-1` to `up-3`, `even`, `down-1` to `down-3`; empty without one."""
        if self.speedup is None or self.speedup <= 0:
            return ""
        ratio = max(self.speedup, 1 / self.speedup)
        strength = sum(ratio >= limit for limit in _STRENGTHS)
        if not strength:
            return "even"
        return f"{'up' if self.speedup > 1 else 'down'}-{strength}"

    @property
    def title(self) -> str:
        """What the cell says in words: time, kind of evidence, doubt."""
        if self.state in ("missing", "none"):
            return self.note or "not part of this shape"
        kind = {"measured": "measured", "expected": "expected, not measured", "ideal": "ideal only, not measured"}
        words = [f"{kind[self.state]} {format_time(self.time_s)}"]
        words += ["the baseline"] if self.is_baseline else []
        words += ["the intervals do not tell it from every other"] if self.is_level else []
        words += ["in doubt"] if self.is_doubtful else []
        words += ["the baseline's time is in doubt: measure it again"] if self.is_over_doubt else []
        words += [self.note] if self.is_barred else []
        return "; ".join(words)


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """A configuration."""

    precision: str
    kernel: str
    """Empty: the model proposes the format."""


@dataclass(frozen=True, slots=True)
class ShapeEntry:
    """A shape in one cache state and mode: its verdict, its ranking where one was made, and its row in the matrix."""

    anchor: str
    """`1`, `2`, … in the order they ran: names the place on the page."""
    result: ShapeVerdict
    ranking: Ranking | None

    @property
    def title(self) -> str:
        """`1x4096x4096`; other operators than products, cache states and modes are named."""
        return shape_title(self.result)

    @property
    def phase(self) -> str:
        """decode or prefill; empty where nothing was ranked, and for operators that are no products."""
        return "" if self.ranking is None else self.ranking.question.phase

    @property
    def regime(self) -> str:
        """Cache state and mode where they are not the usual ones."""
        return regime_title(self.result.question.cache, self.result.question.mode)


@dataclass(frozen=True, slots=True)
class ShapeMatrix:
    """Entries of one family of operators against their configurations."""

    title: str
    columns: tuple[MatrixColumn, ...]
    rows: tuple[tuple[ShapeEntry, tuple[MatrixCell, ...]], ...]
    """One cell per column."""
    left_count: int
    """Configurations without a column."""
    barred: tuple[tuple[str, str], ...] = ()
    """Formats that no kernel is known to run here, and why: they have no column."""


def entries_and_matrices(
    results: Iterable[ShapeVerdict], recommendations: Iterable[Ranking]
) -> tuple[tuple[ShapeEntry, ...], tuple[ShapeMatrix, ...]]:
    """Return the shapes of a chip, models left out, each with the ranking of its own cache state; and their matrices:
    one for all products, and one for every other operator of which several kernels compete.
    """
    rankings = {
        (each.question.op, each.question.sizes, each.question.mode, each.question.cache): each
        for each in recommendations
    }
    entries: list[ShapeEntry] = []
    families: dict[str, list[ShapeEntry]] = {}
    for number, result in enumerate((result for result in results if result.model is None), start=1):
        asked, op = result.question, shown(result.question.op, 60)
        entries.append(ShapeEntry(str(number), result, rankings.get((op, asked.sizes, asked.mode, asked.cache))))
        families.setdefault("Products" if asked.op in _PRODUCTS else op, []).append(entries[-1])
    matrices = (_matrix(name, members) for name, members in families.items())
    return tuple(entries), tuple(each for each in matrices if len(each.columns) > 1 or each.title == "Products")


def reason_spans(reasons: Sequence[str]) -> list[int]:
    """Return for each row how many rows, itself the first, its reason speaks for; 0 where the row before says the
    same.
    """
    spans: list[int] = []
    for at, reason in enumerate(reasons):
        if at and reasons[at - 1] == reason:
            start = max(place for place, span in enumerate(spans) if span)
            spans[start] += 1
            spans.append(0)
        else:
            spans.append(1)
    return spans


def _matrix(title: str, entries: Sequence[ShapeEntry]) -> ShapeMatrix:
    cells = [_cells(entry) for entry in entries]
    columns: dict[MatrixColumn, list[MatrixCell]] = {}
    for row in cells:
        for column, cell in row.items():
            columns.setdefault(column, []).append(cell)
    barred = {
        column.precision: them[0].note for column, them in columns.items() if all(cell.is_barred for cell in them)
    }
    ordered = sorted(
        (column for column in columns if column.precision not in barred),
        key=lambda candidate: _place(columns[candidate]),
    )
    shown_columns = tuple(ordered[:MOST_COLUMNS])
    none = MatrixCell("none")
    rows = tuple(
        (entry, tuple(row.get(column, none) for column in shown_columns))
        for entry, row in zip(entries, cells, strict=True)
    )
    return ShapeMatrix(title, shown_columns, rows, len(ordered) - len(shown_columns), tuple(barred.items()))


def _place(cells: Sequence[MatrixCell]) -> tuple[int, float]:
    """Order columns: measured, predicted, without any time; each by its mean speed-up."""
    gains = [math.log(cell.speedup) for cell in cells if cell.speedup is not None and cell.speedup > 0]
    is_measured = any(cell.state == "measured" for cell in cells)
    has_time = any(cell.state in ("measured", "expected", "ideal") for cell in cells)
    tier = 0 if is_measured else 1 if has_time else 2
    return tier, -fmean(gains) if gains else 0.0


def _cells(entry: ShapeEntry) -> dict[MatrixColumn, MatrixCell]:
    result, ranking = entry.result, entry.ranking
    # Formats that the model proposes compete, too: those that some kernel is known to run.
    judged = result if ranking is None else replace(result, options=ranking.runnable)
    leaders = () if result.gap is not None else judged.leaders
    cells = {
        MatrixColumn(option_precision(option), shown(option.kernel or "", 60)): _cell(
            option, result, is_leading=any(option is leader for leader in leaders), is_clear=judged.is_clear
        )
        for option in (result if ranking is None else ranking).options
    }
    for record in result.lost:
        if record.status in ("failed", "skipped"):
            note = f"{record.status}: {record.reason or 'no reason was stored'}"
            cells.setdefault(_column(record.case), MatrixCell("missing", note=shown(note)))
    return cells


def _cell(option: Option, result: ShapeVerdict, *, is_leading: bool, is_clear: bool) -> MatrixCell:
    baseline, source = result.baseline, option.estimate.source
    gap = kernel_gap_text(option)
    return MatrixCell(
        state="expected" if source == "ceilings" else source,
        time_s=option.estimate.time_s,
        speedup=option.speedup_ratio,
        is_best=is_leading and is_clear and result.is_win,
        is_level=is_leading and not is_clear,
        is_baseline=baseline is not None and option.key == baseline.key,
        is_doubtful=bool(option.trust.doubts),
        is_over_doubt=option.trust.is_over_doubt,
        note=gap,
        is_barred=bool(gap),
    )


def _column(case: Case) -> MatrixColumn:
    return MatrixColumn(case_precision(case), shown(case.kernel, 60))
