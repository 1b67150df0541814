"""A whole table predicted by constants that never saw the row's site, and whole chips by constants of other chips."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from roofline_model.core.finding import finding
from roofline_model.expected.attention.fitted.constants import FittedAttention
from roofline_model.expected.attention.fitted.fit import attention_left_out
from roofline_model.expected.fitting.accuracy import Accuracy, accuracy
from roofline_model.expected.fitting.cross_validation import FOLDS, cross_validate
from roofline_model.expected.fitting.fit import FitPlan, PlannedSet, TableFit, has_folds, planned_sets
from roofline_model.expected.fitting.table import KernelTable
from roofline_model.expected.fitting.transfer_drift import drift_without
from roofline_model.expected.products.fitted.library import transferred
from roofline_model.expected.products.fitted.rows import expected_of_group
from roofline_model.validation.table_prediction import TablePrediction

Floats = NDArray[np.float64]

CROSS_VALIDATED = "cross-validated"
"""Provenance of a time from constants fitted to the other folds."""


def cross_validated_table(
    predicted: TablePrediction, *, progress: Callable[[str, int, int], None] | None = None
) -> TablePrediction:
    """Return the prediction with every expected time replaced by one from constants that never saw the row's site.

    The fits begin at plausible values, not at shipped constants, which may have seen these very rows. Rows of a chip
    and kernel family with too few sites for folds lose their expected time and get the reason.
    """
    table = predicted.table
    plan = FitPlan(date="", source="", is_generic=True)
    sets, _ = planned_sets(table, plan)
    expected, low, high = (np.full(len(table), np.nan) for _ in range(3))
    provenance = [""] * len(table)
    reasons = list(predicted.reasons)
    steps = count(1)

    def step(what: str) -> None:
        if progress is not None:
            progress(what, next(steps), FOLDS * len(sets))

    for planned in sets:
        rows = planned.rows.rows
        if not has_folds(planned.rows, plan):
            for i in rows.tolist():
                reasons[i] = finding("fit-doubtful", planned.rows.name, kind="folds")
            continue
        crossed = cross_validate(planned.rows, progress=step)
        expected[rows], low[rows], high[rows] = crossed.predicted_s, crossed.low_s, crossed.high_s
        for i in rows.tolist():
            provenance[i] = CROSS_VALIDATED
    return replace(
        predicted,
        expected_s=expected,
        low_s=low,
        high_s=high,
        provenance=provenance,
        binding=[""] * len(table),
        reasons=reasons,
    )


@dataclass(frozen=True, slots=True)
class ChipLeftOut:
    """One chip and kernel family predicted without a single row of that chip."""

    device: str
    op: str
    part: str
    sources: tuple[str, ...]
    provenance: str
    unseen: Accuracy


def chips_left_out(table: KernelTable, fitted: TableFit) -> list[ChipLeftOut]:
    """Predict each chip of a table from the constants of all the others, as a chip without rows would be.

    `fitted` holds the constants of every chip (`fit_table`, beginning at plausible values). What the transfer adds to
    an interval is estimated without the chip, too (`transfer_drift.py`).
    """
    sets, _ = planned_sets(table, FitPlan(date="", source="", is_generic=True))
    widths = {
        device: drift_without(device, sets, fitted) for device in dict.fromkeys(planned.rows.device for planned in sets)
    }
    results = []
    for planned in sets:
        of_products, of_attention = widths[planned.rows.device]
        if planned.attention is not None:
            others = [lender for lender in fitted.attention if lender.chip.key != planned.rows.device]
            left_out = _attention_without(planned, others, of_attention)
        else:
            left_out = _without(table, planned, fitted, of_products)
        if left_out is not None:
            results.append(ChipLeftOut(planned.rows.device, planned.rows.op, planned.rows.part, *left_out))
    return results


def _attention_without(
    planned: PlannedSet, others: Sequence[FittedAttention], drift: Mapping[str, float]
) -> tuple[tuple[str, ...], str, Accuracy] | None:
    assert planned.attention is not None
    left_out = attention_left_out(planned.attention, others, drift)
    if left_out is None:
        return None
    fitted, rows, times = left_out
    return (
        fitted.sources,
        fitted.provenance,
        accuracy(times.time_s, planned.rows.measured_s[rows], times.low_s, times.high_s),
    )


def _without(
    table: KernelTable, planned: PlannedSet, fitted: TableFit, drift: Mapping[str, float]
) -> tuple[tuple[str, ...], str, Accuracy] | None:
    """Return (sources, provenance, errors) of a GEMM set whose chip is left out; None when no other chip has the
    family.
    """
    chip, family = planned.gemm[0].chip, planned.gemm[0].family
    lent = transferred(chip, family, [lender for lender in fitted.gemm if lender.chip.key != chip.key], drift)
    if lent is None:
        return None
    times = [expected_of_group(group, lent) for group in planned.gemm_groups]
    measured = table.numbers["time_s"][np.concatenate([group.rows for group in planned.gemm_groups])]
    predicted, low, high = (
        np.concatenate([getattr(batch, name) for batch in times]) for name in ("time_s", "low_s", "high_s")
    )
    return lent.sources, lent.provenance, accuracy(predicted, measured, low, high)
