"""Samples as figures: of one case in the order they were taken and as a distribution, and of every case around its
median.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median, quantiles

from reports.figures.drawing.palette import ACCENT, format_colours
from reports.figures.drawing.spec import Axis, Beside, LegendEntry, Line, Marks, Plane, Row, RowFigure, Strip
from reports.present.cases import case_label, regime_of, title_of
from reports.present.display_text import counted, shown
from results.cases.case_result import CaseResult
from results.records.flags import DOUBTFUL_FLAGS
from roofline_model.core.units import DECIMAL_PREFIXES, own_prefix

MOST_SERIES = 60
"""Rows in one figure, those with the widest middle half."""

MOST_DOTS = 600
"""Samples of one case in a still figure: evenly chosen, extremes kept."""
SAMPLES_SIZE_INCHES = (4.7, 2.15)

_WIDEST_PCT = 150.0
_COLOUR = format_colours(["BF16"])["BF16"]


def spreads_figure(cases: Iterable[CaseResult], *, title: str = "", subtitle: str = "") -> RowFigure | None:
    """Return the figure of the cases whose samples are stored; None when there are none (pruned, or never read)."""
    series = [(case, row) for case in cases for row in case.by_timed_record if _samples(row)]
    if not series:
        return None
    if len(series) > MOST_SERIES:
        widest = {id(row) for _, row in sorted(series, key=lambda pair: -_middle_half_ratio(pair[1]))[:MOST_SERIES]}
        series = [pair for pair in series if id(pair[1]) in widest]
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


def _samples(row: CaseResult) -> tuple[float, ...]:
    measurement = row.lead.measurement
    return measurement.samples_s if measurement is not None and len(measurement.samples_s) >= 3 else ()


def _is_doubtful(row: CaseResult) -> bool:
    return bool(DOUBTFUL_FLAGS.intersection(row.flags))


def _deviations_pct(row: CaseResult) -> tuple[float, ...]:
    """Return how far each sample lies from their median; nothing where that is zero."""
    samples_s = _samples(row)
    middle_s = median(samples_s)
    return tuple(100 * (sample_s / middle_s - 1) for sample_s in samples_s) if middle_s > 0 else ()


def _row(case: CaseResult, row: CaseResult) -> Row:
    process = f", process {row.lead.process.ordinal}" if case.process_count > 1 else ""
    flags = f" [{', '.join(row.flags)}]" if row.flags else ""
    second = shown(f"{case_label(row.case)}, {regime_of(case.case)}{process}{flags}", 60)
    return Row(
        (shown(title_of(row.case), 50), second), (shown(case_label(row.case), 40), shown(title_of(row.case), 40))
    )


def _middle_half_ratio(row: CaseResult) -> float:
    first_s, middle_s, third_s = quantiles(_samples(row), n=4)
    return (third_s - first_s) / middle_s if middle_s else 0.0


def samples_figure(
    samples_s: Sequence[float],
    median_s: float,
    interval_s: tuple[float | None, float | None] = (None, None),
    *,
    title: str = "",
    most_dots: int | None = None,
) -> Beside:
    """Return the samples of one case in one process: left in the order they were taken, right the share of them below a
    time.

    `interval_s`: of the median; `most_dots`: draw so many (None: all). Samples are keyed by their place in the order.
    """
    unit_s, unit = time_unit(median_s)
    values, ranked = [sample_s / unit_s for sample_s in samples_s], sorted(sample_s / unit_s for sample_s in samples_s)
    count, middle = len(values), median_s / unit_s
    chosen = thinned(values, most_dots or count)
    steps = sorted({*thinned(ranked, most_dots or count), 0, count - 1})
    air = 0.06 * (ranked[-1] - ranked[0]) or 0.05 * (abs(ranked[-1]) or 1)
    dots = Marks(
        "samples",
        tuple(at + 1.0 for at in chosen),
        tuple(values[at] for at in chosen),
        _COLOUR,
        size_points=3.6,
        edge_width_points=0.0,
        keys=tuple(chosen),
    )
    shares = tuple(100 * (at + 1) / count for at in steps)
    low_s, high_s = interval_s
    return Beside(
        title,
        Axis(f"Time per call ({unit})", ranked[0] - air, ranked[-1] + air),
        (
            Plane(Axis("Sample, in order", 0.5, count + 0.5), (dots, _level(middle, count + 0.5)), 0.63),
            Plane(
                Axis("Share below (%)", 0.0, 103.0),
                (
                    Line("share below", shares, tuple(ranked[at] for at in steps), _COLOUR, 1.4, is_stepped=True),
                    _level(middle, 103.0),
                ),
                0.37,
            ),
        ),
        SAMPLES_SIZE_INCHES,
        () if low_s is None or high_s is None else ((low_s / unit_s, high_s / unit_s),),
    )


def _level(value: float, end: float) -> Line:
    return Line("median", (0.0, end), (value, value), ACCENT, 1.1)


def thinned(values: Sequence[float], most: int = MOST_DOTS) -> list[int]:
    """Return the indices to draw: all, or of each of `most` / 2 stretches its lowest and its highest, in order."""
    if len(values) <= most:
        return list(range(len(values)))
    stretches = most // 2
    chosen: set[int] = set()
    for part in range(stretches):
        window = range(part * len(values) // stretches, (part + 1) * len(values) // stretches)
        chosen |= {min(window, key=values.__getitem__), max(window, key=values.__getitem__)}
    return sorted(chosen)


def time_unit(time_s: float) -> tuple[float, str]:
    """Return scale and name of the unit in which a time has one to three digits before the point."""
    prefix = own_prefix(abs(time_s))
    return DECIMAL_PREFIXES[prefix], f"{prefix}s"
