"""Constants from a table of measured kernels: every chip × kernel family in it, with errors under cross-validation.

A set with many rows is fitted with weak priors; with few rows the constants stay near those they start from (the chip's
own shipped ones, a sibling's, or a relative's: `products/fitted/library.py`). What is written says how many rows, from
which file, and how well rows are predicted that were not fitted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.core.finding import Finding, finding, reason_text, subject_text
from roofline_model.expected.attention.fitted.constants import FittedAttention
from roofline_model.expected.attention.fitted.fit import AttentionStart, attention_start, fitted_attention
from roofline_model.expected.attention.fitted.rows import AttentionRows, attention_row_groups
from roofline_model.expected.constants_file import Evidence
from roofline_model.expected.fitting.accuracy import Accuracy, accuracy
from roofline_model.expected.fitting.cross_validation import FOLDS, CrossValidated, cross_validate
from roofline_model.expected.fitting.fit_set import FitSet, FittedSet, fit_rows
from roofline_model.expected.fitting.robust_fit import FittedConstants
from roofline_model.expected.fitting.table import KernelTable
from roofline_model.expected.intervals import across_families
from roofline_model.expected.products.fitted.constants import FittedGemm, generic_start
from roofline_model.expected.products.fitted.fit import gemm_fit_set, gemm_intervals, with_values
from roofline_model.expected.products.fitted.library import find_gemm
from roofline_model.expected.products.fitted.rows import GemmRows, gemm_row_groups, taken

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]

LEAST_ROWS = 3
"""Fewer rows than this fix nothing."""
MOST_MEDIAN_RATIO = 0.5
"""Constants that miss the typical one of the very rows they were fitted to by more than this are not kept."""
DOUBTFUL_MEAN_RATIO = 0.3
"""A mean error of the fitted rows that a reader must know of; studies of five chips ended between 0.02 and 0.12."""
MAX_WEIGHT = 1e6
"""Of one row, in rows."""
ROWS_FOR_FOLDS = 40
"""With fewer rows the folds would be too small to say anything: the interval stays the one of the starting
constants.
"""


@dataclass(frozen=True, slots=True)
class FitReport:
    """What was fitted for one chip and kernel family, and how well."""

    device: str
    op: str
    part: str
    """Kernel family of a GEMM, phase of attention."""
    started_from: str
    """generic, or the provenance of the library's constants."""
    fitted: FittedConstants
    in_sample: Accuracy
    cross_validated: Accuracy | None
    """None with too few rows or sites for folds."""


@dataclass(frozen=True, slots=True)
class TableFit:
    """Everything fitted from one table."""

    gemm: tuple[FittedGemm, ...]
    attention: tuple[FittedAttention, ...]
    reports: tuple[FitReport, ...]
    left_out: tuple[Finding, ...]
    """One line for each kind of row that was not fitted, with the reason."""
    doubts: tuple[Finding, ...] = ()
    """One line for each set whose constants were kept but are far from its own rows."""


@dataclass(frozen=True, slots=True)
class FitPlan:
    """Settings of a fit: date, source, chips, starting values, cross-validation."""

    date: str
    """ISO date that the evidence carries."""
    source: str
    """What the rows are, for the evidence."""
    devices: tuple[str, ...] | None = None
    """Chips to fit; None: all of the table."""
    is_generic: bool = False
    """Begin at physically plausible values and not at the library's constants (which may have seen these rows)."""
    with_folds: bool = True
    gemm_library: tuple[FittedGemm, ...] | None = None
    """Constants to begin at in place of the shipped ones; the same for attention below."""
    attention_library: tuple[FittedAttention, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PlannedSet:
    """A set of rows to fit, and what its constants are turned into."""

    rows: FitSet
    started_from: str
    gemm: tuple[FittedGemm, ...] = ()
    """One starting value, for a GEMM set."""
    gemm_groups: tuple[GemmRows, ...] = ()
    attention: AttentionStart | None = None


def fit_table(
    table: KernelTable, plan: FitPlan, *, progress: Callable[[str, int, int], None] | None = None
) -> TableFit:
    """Fit constants to every chip and kernel family of a table.

    `progress` gets (what, steps done, all steps). Raises `InvalidValueError` when no row can be fitted.
    """
    sets, left_out = planned_sets(table, plan)
    total = sum(1 + (FOLDS if has_folds(planned.rows, plan) else 0) for planned in sets)
    steps = count(1)

    def step(what: str) -> None:
        if progress is not None:
            progress(what, next(steps), total)

    gemm, attention, reports, doubts = [], [], [], []
    for planned in sets:
        fitted = fit_rows(planned.rows)
        step(planned.rows.name)
        if (useless := _useless(planned.rows, fitted)) is not None:
            left_out.append(useless)
            continue
        folds = cross_validate(planned.rows, progress=step) if has_folds(planned.rows, plan) else None
        report = _report(planned, fitted, folds)
        reports.append(report)
        doubts += _doubts(planned.rows, report)
        if planned.gemm:
            gemm.append(_fitted_gemm(planned, fitted, folds, _evidence(report, plan)))
        if planned.attention is not None:
            attention.append(fitted_attention(planned.attention, fitted, folds, _evidence(report, plan)))
    if not reports:
        raise InvalidValueError(
            f"{table.name}: no row can be fitted. "
            f"{'; '.join(map(subject_text, left_out[:3])) or 'It holds no measured gemm or attention.'}"
        )
    return TableFit(tuple(gemm), tuple(attention), tuple(reports), tuple(left_out), tuple(doubts))


def _useless(rows: FitSet, fitted: FittedSet) -> Finding | None:
    """Return why the constants of a set are not kept, None where they are: a wrong unit or label cannot be fitted
    away.
    """
    ratios = rows.times(fitted, np.arange(len(rows))) / rows.measured_s
    error = float(np.median(np.abs(ratios - 1)))
    if error <= MOST_MEDIAN_RATIO:
        return None
    return finding("fit-useless", rows.name, row_count=len(rows), median_factor=float(np.median(ratios)))


def _doubts(rows: FitSet, report: FitReport) -> list[Finding]:
    """Return what a reader must know of constants that were kept."""
    doubts = []
    mean = report.in_sample.mape_ratio
    if mean is not None and mean > DOUBTFUL_MEAN_RATIO:
        doubts.append(finding("fit-doubtful", rows.name, kind="own-rows", mean_error_ratio=mean))
    if len(set(rows.sites)) == 1:
        doubts.append(finding("fit-doubtful", rows.name, kind="one-shape", row_count=len(rows)))
    return doubts


def planned_sets(table: KernelTable, plan: FitPlan) -> tuple[list[PlannedSet], list[Finding]]:
    """Return the sets of a table in its order, and a finding for each kind of row that is left out."""
    problems = {i: reason for i, reason in enumerate(table.reasons) if reason}
    sets: list[PlannedSet] = []
    left_out: list[Finding] = []
    gemm: dict[tuple[str, str], list[GemmRows]] = defaultdict(list)
    for group in gemm_row_groups(table, problems):
        if _is_wanted(group.device.key, plan):
            counted = _counted(table, group.rows)
            if group.chip is None:
                left_out.append(_unusable("gemm", group.device.key, len(group.rows), group.problem))
            elif len(counted):
                gemm[group.device.key, group.formats.family].append(taken(group, counted))
    attention: dict[tuple[str, str], list[AttentionRows]] = defaultdict(list)
    for rows in attention_row_groups(table, problems):
        if _is_wanted(rows.device.key, plan):
            counted = _counted(table, rows.rows)
            if (problem := rows.problem or rows.fit_problem) is not None:
                left_out.append(_unusable("attention", rows.device.key, len(rows.rows), problem))
            elif len(counted):
                attention[rows.device.key, rows.phase].append(taken(rows, counted))
    for (device, family), groups in gemm.items():
        _add(sets, left_out, _gemm_set(table, device, family, groups, plan))
    for parts in attention.values():
        _add(sets, left_out, _attention_set(table, parts, plan))
    if problems:
        first = min(problems)
        left_out.append(
            finding(
                "rows-left-out",
                kind="unpredictable",
                row_count=len(problems),
                first_row=str(table.line_numbers[first]),
                error=reason_text(problems[first]),
            )
        )
    idle = int((table.numbers["weight"] == 0).sum())
    if idle:
        left_out.append(finding("rows-of-no-weight", row_count=idle))
    late = sum(1 for problem in table.time_problems if problem)
    if late:
        left_out.append(finding("rows-left-out", kind="without-time", row_count=late))
    return sets, left_out


def _unusable(op: str, hardware: str, row_count: int, reason: Finding | None) -> Finding:
    return finding("rows-left-out", hardware, kind="unusable", op=op, row_count=row_count, error=reason_text(reason))


def _add(sets: list[PlannedSet], left_out: list[Finding], planned: PlannedSet) -> None:
    if len(planned.rows) >= LEAST_ROWS:
        sets.append(planned)
    else:
        left_out.append(
            finding(
                "rows-left-out", planned.rows.name, kind="too-few", row_count=len(planned.rows), least_count=LEAST_ROWS
            )
        )


def _is_wanted(device: str, plan: FitPlan) -> bool:
    return plan.devices is None or device in plan.devices


def _counted(table: KernelTable, rows: Positions) -> Positions:
    """Return which of the rows have a measured time and count for something."""
    return np.flatnonzero(np.isfinite(table.numbers["time_s"][rows]) & (table.numbers["weight"][rows] != 0))


def _weights(table: KernelTable) -> Floats | None:
    """Return the column `weight`, 1 where it is empty; None when the table has none."""
    weights = table.numbers["weight"]
    for i in np.flatnonzero(weights > MAX_WEIGHT).tolist():
        raise InvalidValueError(
            f"{table.name}, row {table.line_numbers[i]}: weight {weights[i]:g} is more than {MAX_WEIGHT:g}; it says "
            "for how many rows one counts"
        )
    return None if np.isnan(weights).all() else np.where(np.isnan(weights), 1.0, weights)


def _gemm_set(table: KernelTable, device: str, family: str, groups: Sequence[GemmRows], plan: FitPlan) -> PlannedSet:
    chip = groups[0].chip
    assert chip is not None  # groups without a chip are left out before
    started_from = "generic"
    start = FittedGemm(
        family, chip, generic_start(chip, family), across_families(family), Evidence("", 0, ""), "generic"
    )
    if not plan.is_generic:
        try:
            start = find_gemm(chip, family, plan.gemm_library)
            started_from = start.provenance
        except RooflineError:
            pass  # nobody ever measured this family: plausible values are all there is
    start = replace(start, chip=chip)
    rows = gemm_fit_set(
        device, family, groups, table.numbers["time_s"], _weights(table), start, is_generic=started_from == "generic"
    )
    return PlannedSet(rows, started_from, (start,), tuple(groups))


def _attention_set(table: KernelTable, parts: Sequence[AttentionRows], plan: FitPlan) -> PlannedSet:
    start = attention_start(table, parts, _weights(table), is_generic=plan.is_generic, lenders=plan.attention_library)
    return PlannedSet(start.rows, start.provenance, attention=start)


def has_folds(rows: FitSet, plan: FitPlan) -> bool:
    """Return whether a set is large and varied enough to be cross-validated, and the plan asks for it."""
    return plan.with_folds and len(rows) >= ROWS_FOR_FOLDS and len(set(rows.sites)) >= 2 * FOLDS


def _report(planned: PlannedSet, fitted: FittedSet, folds: CrossValidated | None) -> FitReport:
    rows = planned.rows
    inside = rows.times(fitted, np.arange(len(rows)))
    outside = None
    if folds is not None:
        outside = accuracy(folds.predicted_s, rows.measured_s, folds.low_s, folds.high_s)
    return FitReport(
        rows.device,
        rows.op,
        rows.part,
        planned.started_from,
        fitted.constants,
        accuracy(inside, rows.measured_s),
        outside,
    )


def _evidence(report: FitReport, plan: FitPlan) -> Evidence:
    """Return the evidence that goes into the file; ratios with four digits."""
    cv = report.cross_validated

    def short(value: float | None) -> float | None:
        return None if value is None else round(value, 4)

    return Evidence(
        source=plan.source,
        row_count=report.fitted.row_count,
        date=plan.date,
        in_sample_mape_ratio=short(report.in_sample.mape_ratio),
        cv_mape_ratio=None if cv is None else short(cv.mape_ratio),
        cv_median_ratio=None if cv is None else short(cv.median_ratio),
        cv_p90_ratio=None if cv is None else short(cv.p90_ratio),
        cv_bias_ratio=None if cv is None else short(cv.bias_ratio),
        coverage_ratio=None if cv is None else short(cv.coverage_ratio),
    )


def _fitted_gemm(
    planned: PlannedSet, fitted: FittedSet, folds: CrossValidated | None, evidence: Evidence
) -> FittedGemm:
    """Return the constants as the library keeps them: five digits, the interval of the folds or of the start."""
    start = planned.gemm[0]
    values = {name: float(f"{value:.5g}") for name, value in fitted.values.items()}
    intervals = start.intervals if folds is None else gemm_intervals(folds.factors)
    return replace(
        start,
        constants=with_values(start.constants, values),
        intervals=intervals,
        evidence=evidence,
        provenance="fitted",
        sources=(),
        findings=(),
        correction=fitted.learnt or start.correction,
        correction_chip=None if fitted.learnt is not None else start.correction_chip,
    )
