"""Where the time went as a figure: a row per case, or per operator and format, from the ideal roof to the measured
time.

A case with an expected time has the parts that the model knows (`roofline_model.expected.gap`). One without has its
ideal roof and the rest. A forced case, one without a prediction and an unmeasured one have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from reports.figures.drawing.palette import HATCHED_PARTS, PART_COLOURS
from reports.figures.drawing.spec import Axis, Card, LegendEntry, Part, Row, RowFact, RowFigure, RowOrder
from reports.present.cases import LABELS, NAMES, case_label, case_precision, operator_title, title_of
from reports.present.display_text import counted, regime_title, shown
from results.cases.case_result import CaseResult
from results.cases.errors import case_gap, has_parts
from roofline_model.core.units import format_time
from roofline_model.expected.gap import PASS_PART, Gap
from roofline_model.operators.case import is_model_case, pass_name, sizes_text

MOST_ROWS = 40
MOST_STAGES = 8
"""Stages of a whole model's pass that are told of a bar, the longest."""

_LEAST_RATIO = 0.0005
_AXIS = Axis(
    "Share of the measured time (printed at the end of each bar)",
    -100.0,
    200.0,
    suffix=" %",
    brief_title="Share of the measured time",
)


@dataclass(frozen=True, slots=True)
class _Split:
    """A measured time in parts: of one case, or summed over several."""

    row: Row
    measured_s: float
    expected_s: float | None
    low_s: float | None
    high_s: float | None
    parts: dict[str, float]


def gaps_figure(
    cases: Sequence[CaseResult], first_number: int = 1, *, title: str = "", subtitle: str = ""
) -> RowFigure | None:
    """Return the figure of the measured cases of one chip, a row per case; None when no time can be split.

    `first_number`: of the first case on the page, by which rows are keyed.
    """
    numbered = _split_cases(cases, first_number)
    splits = [_case_split(number, case, gap) for number, case, gap in numbered]
    cards = {str(number): card for number, case, _ in numbered if (card := _stages_card(case)) is not None}
    notes = tuple(_notes(cases, [(case, gap) for _, case, gap in numbered]))
    return _figure(splits, title, subtitle, notes, cards)


def group_gaps_figure(cases: Sequence[CaseResult], first_number: int = 1) -> RowFigure | None:
    """Return the figure of the same cases, their times summed by operator, regime and format."""
    groups: dict[tuple[str, str], list[tuple[int, Gap]]] = {}
    for number, case, gap in _split_cases(cases, first_number):
        groups.setdefault((_operator(case), case_precision(case.case)), []).append((number, gap))
    figure = _figure([_summed(name, members) for name, members in groups.items()], "", "", (), {})
    return None if figure is None else replace(figure, count_name="Cases summed")


def _split_cases(cases: Sequence[CaseResult], first_number: int) -> list[tuple[int, CaseResult, Gap]]:
    splits = ((number, case, case_gap(case)) for number, case in enumerate(cases, first_number))
    return [(number, case, gap) for number, case, gap in splits if gap is not None]


def _figure(
    splits: Sequence[_Split], title: str, subtitle: str, notes: tuple[str, ...], cards: dict[str, Card]
) -> RowFigure | None:
    if not splits:
        return None
    cut_count = sum(map(_is_cut, splits))
    if cut_count:
        ends = f"{_AXIS.low_value:.0f} and {_AXIS.high_value:.0f} %"
        notes = (*notes, f"{counted(cut_count, 'bar')} cut at {ends}: parts many times the measured time.")
    occurring = [
        name
        for name in LABELS
        if any(abs(split.parts.get(name, 0.0)) > _LEAST_RATIO * split.measured_s for split in splits)
    ]
    parts = tuple(
        Part(
            NAMES[name],
            LABELS[name],
            PART_COLOURS[name],
            tuple(split.parts.get(name) for split in splits),
            is_hatched=name in HATCHED_PARTS,
        )
        for name in occurring
    )
    expected = RowFact(
        "Expected",
        tuple(split.expected_s for split in splits),
        tuple(split.low_s for split in splits),
        tuple(split.high_s for split in splits),
    )
    return RowFigure(
        title,
        _AXIS,
        tuple(split.row for split in splits),
        parts=parts,
        totals_s=tuple(split.measured_s for split in splits),
        total_name="Measured",
        facts=(expected,) if any(expected.times_s) else (),
        orders=tuple(_orders(splits)),
        max_rows_count=MOST_ROWS,
        levels=((100.0, True),),
        legend=tuple(LegendEntry(part.name, part.colour, "swatch", is_hatched=part.is_hatched) for part in parts),
        subtitle=f"{subtitle} · share of each measured time",
        notes=notes,
        cards=cards,
    )


def _is_cut(split: _Split) -> bool:
    """Return whether the axis is too short for a split: a model was far off, and a part takes most of it back."""
    low_s, high_s = (100 * sum(sign * max(sign * part, 0.0) for part in split.parts.values()) for sign in (-1, 1))
    return low_s < (_AXIS.low_value or 0.0) * split.measured_s or high_s > (_AXIS.high_value or 0.0) * split.measured_s


def _orders(splits: Sequence[_Split]) -> Iterator[RowOrder]:
    def order(text: str, size: Callable[[_Split], float]) -> RowOrder:
        return RowOrder(text, tuple(sorted(range(len(splits)), key=lambda at: -size(splits[at]))))

    yield order("farthest from the ideal roof", lambda split: 1 - split.parts.get("ideal", 0.0) / split.measured_s)
    yield order("most time beyond the roof", lambda split: split.measured_s - split.parts.get("ideal", 0.0))
    yield order("most unexplained", lambda split: abs(split.parts.get("unexplained", 0.0)) / split.measured_s)
    yield RowOrder("order of the table", tuple(range(len(splits))))


def _case_split(number: int, case: CaseResult, gap: Gap) -> _Split:
    expected, what = case.lead.expected, case.case
    # Passes of a model follow each other on the same weights: warm is the only state they have.
    regime = regime_title("none" if is_model_case(what) and what.cache == "warm" else what.cache, what.mode)
    model = pass_name(what.op, what.shape)
    # The phase first: names are cut at their end.
    title = title_of(what) if model is None else f"{model.phase} of {model.model_name}, {model.sizes_text}"
    first = shown(f"{title}, {regime}" if regime else title, 60)
    brief = shown(title if model is not None else sizes_text(what.shape), 40)
    return _Split(
        Row((first, shown(case_label(what), 50)), (shown(case_precision(what), 28), brief), (number,)),
        gap.measured_s,
        gap.expected_s,
        None if expected is None else expected.low_s,
        None if expected is None else expected.high_s,
        dict(gap.parts),
    )


def _operator(case: CaseResult) -> str:
    what = case.case
    model = pass_name(what.op, what.shape)
    title = operator_title(what) if model is None else f"{model.phase} of {model.model_name}"
    regime = "" if is_model_case(what) and what.cache == "warm" else regime_title(what.cache, what.mode)
    return shown(f"{title}, {regime}" if regime else title, 60)


def _summed(name: tuple[str, str], members: Sequence[tuple[int, Gap]]) -> _Split:
    operator, precision = name
    parts: dict[str, float] = {}
    for _, gap in members:
        for part, time_s in gap.parts:
            parts[part] = parts.get(part, 0.0) + time_s
    row = Row((operator, precision), (precision, operator), tuple(number for number, _ in members))
    return _Split(row, sum(gap.measured_s for _, gap in members), None, None, None, parts)


def _stages_card(case: CaseResult) -> Card | None:
    """Return the longest stages of a whole model's expected pass; they are no parts of the gap."""
    expected = case.lead.expected
    terms = {} if expected is None else expected.terms_s or {}
    stages = [(name.removeprefix(PASS_PART), time_s) for name, time_s in terms.items() if name.startswith(PASS_PART)]
    if not stages:
        return None
    longest = sorted(stages, key=lambda stage: -stage[1])[:MOST_STAGES]
    return Card(
        "Longest stages of the expected pass",
        tuple((shown(name, 40), format_time(time_s, 3)) for name, time_s in longest),
    )


def _notes(cases: Sequence[CaseResult], splits: Sequence[tuple[CaseResult, Gap]]) -> Iterator[str]:
    """Yield what is not known of the times."""
    left_count = sum(case.measured_s is not None for case in cases) - len(splits)
    if left_count > 0:
        yield f"{counted(left_count, 'measured case')} cannot be split: no ideal time of this chip is stored."
    explained_count = sum(has_parts(case) for case, _ in splits)
    plain_count = len(splits) - explained_count
    if plain_count:
        which = (
            f"Of {counted(len(splits), 'case')} {plain_count} {'has' if plain_count == 1 else 'have'} no parts of an "
            "expected time"
            if explained_count
            else "No case of this run has parts of an expected time"
        )
        yield f"{which} stored: there, all that lies beyond the ideal roof is one part, unexplained."
    if explained_count and not any("clock" in dict(gap.parts) for _, gap in splits):
        yield "No part for the clock: it never fell below its rated value, or no clock was stored."
