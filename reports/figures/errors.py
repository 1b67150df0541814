"""The errors of predictions as a figure, per operator and precision: every case a dot, with quartiles and medians."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reports.figures.drawing.palette import MUTED, Colour, format_colours
from reports.figures.drawing.spec import MOST_DOTS, Axis, LegendEntry, Row, RowFigure, Strip
from reports.present.cases import case_precision, operator_title
from reports.present.display_text import counted, regime_title, shown
from results.cases.case_result import CaseResult
from results.cases.errors import comparable_results
from roofline_model.operators.case import pass_name

MOST_GROUPS = 60
"""Groups in one figure, those with the most cases."""

MOST_ERROR_PCT = 300.0
"""Larger errors stand at this end of the axis, and a note counts them: one of them would press all others together."""

_SHIFT = 0.2
_Members = list[tuple[int, CaseResult]]


def errors_figure(
    rows: Iterable[CaseResult], first_number: int = 1, *, title: str = "", subtitle: str = ""
) -> RowFigure | None:
    """Return the figure of the measured and predicted cases; None when there are none. Forced cases are not judged.

    `first_number`: of the first case on the page, by which dots are keyed.
    """
    every = _groups(rows, first_number)
    if not every:
        return None
    names = sorted(every, key=lambda name: -len(every[name]))[:MOST_GROUPS]
    groups = [(name, members) for name, members in every.items() if name in names]
    has_expected = any(row.error_expected_ratio is not None for _, members in groups for _, row in members)
    colours = format_colours(case_precision(row.case) for _, members in groups for _, row in members)
    strips = [
        strip
        for place, (_, members) in enumerate(groups)
        for strip in _strips(place, members, colours[case_precision(members[0][1].case)], has_expected=has_expected)
    ]
    legend = [LegendEntry("ideal time, one case", MUTED, fill="hollow")]
    if has_expected:
        legend.append(LegendEntry("expected time, one case", MUTED))
    legend.append(LegendEntry("median", MUTED, shape="bar"))
    legend.append(LegendEntry("box: the middle half", MUTED, "swatch", opacity_ratio=0.3))
    return RowFigure(
        title,
        Axis(
            "← predicted too fast      error (%)      predicted too slow →",
            has_zero=True,
            suffix=" %",
            brief_title="← too fast   error (%)   too slow →",
        ),
        tuple(_row(name, members) for name, members in groups),
        tuple(strips),
        max_rows_count=MOST_GROUPS,
        levels=((0.0, False),),
        legend=tuple(legend),
        subtitle=f"{subtitle} · error = (predicted − measured) / measured; 0 is a perfect prediction",
        notes=tuple(_notes(len(every), groups)),
    )


def _groups(rows: Iterable[CaseResult], first_number: int) -> dict[tuple[str, str, str], _Members]:
    """Return the cases, numbered, by operator, precision and regime."""
    rows = list(rows)
    numbers = {id(row): number for number, row in enumerate(rows, first_number)}
    groups: dict[tuple[str, str, str], _Members] = {}
    for row in comparable_results(rows):
        model = pass_name(row.case.op, row.case.shape)  # the phase first: long names are cut at their end
        operator = operator_title(row.case) if model is None else f"{model.phase} of {model.model_name}"
        name = (shown(operator, 40), shown(case_precision(row.case), 28), regime_title(row.case.cache, row.case.mode))
        groups.setdefault(name, []).append((numbers[id(row)], row))
    return groups


def _row(name: tuple[str, str, str], members: _Members) -> Row:
    operator, precision, regime = name
    first = f"{operator}, {regime}" if regime else operator
    keys = tuple(number for number, _ in members)
    return Row((first, f"{precision}, {counted(len(members), 'case')}"), (precision, first), keys)


def _strips(place: int, members: _Members, colour: Colour, *, has_expected: bool) -> Iterator[Strip]:
    kinds = (("ideal", -_SHIFT if has_expected else 0.0), ("expected", _SHIFT))
    for name, shift in kinds if has_expected else kinds[:1]:
        errors = [
            (number, row.error_ideal_ratio if name == "ideal" else row.error_expected_ratio) for number, row in members
        ]
        stored = [(number, min(100 * error, MOST_ERROR_PCT)) for number, error in errors if error is not None]
        if stored:
            yield Strip(
                name,
                place,
                tuple(error for _, error in stored),
                colour,
                is_filled=name == "expected",
                keys=tuple(number for number, _ in stored),
                shift_value=shift,
                height_value=0.32 if has_expected else 0.5,
            )


def _notes(count: int, groups: list[tuple[tuple[str, str, str], _Members]]) -> Iterator[str]:
    if count > len(groups):
        yield f"The {len(groups)} groups with the most cases, of {count:,}."
    cut_count = sum(
        100 * error > MOST_ERROR_PCT
        for _, members in groups
        for _, row in members
        for error in (row.error_ideal_ratio, row.error_expected_ratio)
        if error is not None
    )
    if cut_count:
        yield f"{counted(cut_count, 'error')} beyond +{MOST_ERROR_PCT:.0f} % {'is' if cut_count == 1 else 'are'} drawn there."
    if any(len(members) > MOST_DOTS for _, members in groups):
        yield f"Of groups with more than {MOST_DOTS} cases, only those outside the whiskers are dots."
