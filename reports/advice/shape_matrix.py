"""Shapes against configurations: one small table that shows at a glance what wins where, before any ranking is
opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from reports.present.cases import case_precision, option_precision
from reports.present.display_text import regime_title, shown
from reports.present.shapes import shape_judgement, shape_title
from reports.present.words.ranking_text import kernel_gap_text
from results.cases.shape_verdict import ShapeVerdict
from roofline_model.core.answer import Estimate, Option, Ranking
from roofline_model.core.finding import has_code
from roofline_model.core.units import format_speedup, format_time
from roofline_model.operators.case import Case
from roofline_model.recommend.ranking import (
    LEVEL_RATIO,
    POLICIES,
    UNKNOWN_LEVEL_RATIO,
    are_level_predictions,
    standing,
)

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

    @property
    def verdict(self) -> str:
        """The sentence without the title."""
        return shape_judgement(self.result)


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


def shape_entries(results: Iterable[ShapeVerdict], recommendations: Iterable[Ranking]) -> tuple[ShapeEntry, ...]:
    """Return the shapes of a chip, models left out, each with the ranking of its own cache state."""
    rankings = {
        (each.question.op, each.question.sizes, each.question.mode, each.question.cache): each
        for each in recommendations
    }
    shapes = [result for result in results if result.model is None]
    return tuple(
        ShapeEntry(
            str(number),
            place,
            rankings.get(
                (shown(place.question.op, 60), place.question.sizes, place.question.mode, place.question.cache)
            ),
        )
        for number, place in enumerate(shapes, start=1)
    )


def shape_matrices(entries: Iterable[ShapeEntry]) -> tuple[ShapeMatrix, ...]:
    """Return one matrix for all products, and one for every other operator of which several kernels compete."""
    families: dict[str, list[ShapeEntry]] = {}
    for entry in entries:
        families.setdefault(
            "" if entry.result.question.op in _PRODUCTS else shown(entry.result.question.op, 60), []
        ).append(entry)
    made = (_matrix(name or "Products", members) for name, members in families.items())
    return tuple(matrix for matrix in made if len(matrix.columns) > 1 or matrix.title == "Products")


def entries_and_matrices(
    results: Iterable[ShapeVerdict], recommendations: Iterable[Ranking]
) -> tuple[tuple[ShapeEntry, ...], tuple[ShapeMatrix, ...]]:
    """Return a chip's shapes and their matrices; see `shape_entries` and `shape_matrices`."""
    entries = shape_entries(results, recommendations)
    return entries, shape_matrices(entries)


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
    result = entry.result
    if entry.ranking is not None:
        options, (level, is_clear) = entry.ranking.options, _leaders(entry.ranking.options, result)
    else:
        leaders = () if result.gap is not None else result.leaders
        options, is_clear = result.options, result.is_clear
        level = {at for at, option in enumerate(options) if any(option is leader for leader in leaders)}
    cells = {
        MatrixColumn(option_precision(option), shown(option.kernel or "", 60)): _cell(
            option, result, is_leading=at in level, is_clear=is_clear
        )
        for at, option in enumerate(options)
    }
    for record in result.lost:
        if record.status in ("failed", "skipped"):
            note = f"{record.status}: {record.reason or 'no reason was stored'}"
            cells.setdefault(_column(record.case), MatrixCell("missing", note=shown(note)))
    return cells


def _leaders(options: Sequence[Option], result: ShapeVerdict) -> tuple[set[int], bool]:
    """Return the places of the best option and of those tied with it on the same evidence, proposed formats among them,
    and whether the intervals tell the best from every other. The rule is that of `ShapeVerdict.leaders`.
    """
    key = None if result.best is None else result.best.key
    best = next((at for at, option in enumerate(options) if option.key == key), None)
    if best is None or result.gap is not None:
        return set(), False
    first = options[best]
    rivals = [(at, option) for at, option in enumerate(options) if at != best and _is_rival(option, first)]
    near = [(at, option) for at, option in rivals if _reaches(option.estimate, first.estimate)]
    level = (
        at
        for at, option in near
        if first.is_measured
        or are_level_predictions(standing(first, POLICIES["stored"]), standing(option, POLICIES["stored"]))
    )
    return {best, *level}, not near


def _is_rival(option: Option, best: Option) -> bool:
    is_fit = option.is_measured or not (
        has_code(option.findings, "emulated") or has_code(option.findings, "kernel-gap")
    )
    return is_fit and option.estimate.source == best.estimate.source


def _reaches(other: Estimate, best: Estimate) -> bool:
    """Whether another time may be as short: it is, or the intervals (without them, the predictions) are one."""
    if other.time_s <= best.time_s:
        return True
    has_few_samples = best.source == "measured" and None in (best.half_width_ratio, other.half_width_ratio)
    if has_few_samples and other.time_s <= best.time_s * (1 + UNKNOWN_LEVEL_RATIO):
        return True
    if best.low_s is None or best.high_s is None or other.low_s is None or other.high_s is None:
        return abs(other.time_s / best.time_s - 1) <= LEVEL_RATIO
    return best.low_s <= other.high_s and other.low_s <= best.high_s


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
