"""The samples of every measured case as a figure: how wide each is around its own median, and which are flagged."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median, quantiles

from reports.cases.rows import CaseRow
from reports.cases.summary import CaseSummary
from reports.figures.palette import ACCENT, format_colours
from reports.figures.spec import Axis, LegendEntry, Row, RowFigure, Strip
from reports.text.display_text import counted, shown
from results.records.flags import DOUBTFUL_FLAGS

MOST_SERIES = 60
"""Rows in one figure, those with the widest middle half."""

_WIDEST_PCT = 150.0
_COLOUR = format_colours(["BF16"])["BF16"]


def spreads_figure(cases: Iterable[CaseSummary], *, title: str = "", subtitle: str = "") -> RowFigure | None:
    """Return the figure of the cases whose samples are stored; None when there are none (pruned, or never read)."""
    series = [(case, row) for case in cases for row in case.measured_rows if _samples(row)]
    if not series:
        return None
    if len(series) > MOST_SERIES:
        widest = {id(row) for _, row in sorted(series, key=lambda one: -_middle_half_ratio(one[1]))[:MOST_SERIES]}
        series = [one for one in series if id(one[1]) in widest]
    deviations = [_deviations_pct(row) for _, row in series]
    inside = [tuple(value for value in values if abs(value) <= _WIDEST_PCT) for values in deviations]
    left_count = sum(map(len, deviations)) - sum(map(len, inside))
    left = f"; {counted(left_count, 'sample')} beyond ±{_WIDEST_PCT:.0f} % not shown" if left_count else ""
    legend = [LegendEntry("sample (box: the middle half)", _COLOUR)]
    if any(map(_is_doubtful, (row for _, row in series))):
        legend.append(LegendEntry("flagged: the time is in doubt", ACCENT))
    strips = (
        Strip("samples", place, values, ACCENT if _is_doubtful(row) else _COLOUR, size_points=2.6, is_dense=True)
        for place, ((_, row), values) in enumerate(zip(series, inside, strict=True))
    )
    return RowFigure(
        title,
        Axis(f"deviation from the median{left}", suffix=" %"),
        tuple(_row(case, row) for case, row in series),
        tuple(strip for strip in strips if strip.values),
        max_rows_count=MOST_SERIES,
        levels=((0.0, False),),
        legend=tuple(legend),
        subtitle=f"{subtitle} · every sample against the median of its process",
    )


def _samples(row: CaseRow) -> tuple[float, ...]:
    measurement = row.record.measurement
    return measurement.samples_s if measurement is not None and len(measurement.samples_s) >= 3 else ()


def _is_doubtful(row: CaseRow) -> bool:
    return bool(DOUBTFUL_FLAGS.intersection(row.flags))


def _deviations_pct(row: CaseRow) -> tuple[float, ...]:
    """Return how far each sample lies from their median; nothing where that is zero."""
    samples_s = _samples(row)
    middle_s = median(samples_s)
    return tuple(100 * (sample_s / middle_s - 1) for sample_s in samples_s) if middle_s > 0 else ()


def _row(case: CaseSummary, row: CaseRow) -> Row:
    process = f", process {row.process}" if case.process_count > 1 else ""
    flags = f" [{', '.join(row.flags)}]" if row.flags else ""
    second = shown(f"{row.label}, {case.regime}{process}{flags}", 60)
    return Row((shown(row.title, 50), second), (shown(row.label, 40), shown(row.title, 40)))


def _middle_half_ratio(row: CaseRow) -> float:
    first_s, middle_s, third_s = quantiles(_samples(row), n=4)
    return (third_s - first_s) / middle_s if middle_s else 0.0
