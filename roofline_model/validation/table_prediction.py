"""Ideal and expected times of every row of a kernel table, with interval, provenance, and a reason where there is none.

Rows are grouped by chip and formats and priced as arrays: 27,000 rows take about a second. What a row cannot have, it
says why; the others go on. A row with an unusable measured time is predicted all the same, but not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding_of
from roofline_model.expected.attention.fitted.constants import FittedAttention
from roofline_model.expected.attention.fitted.rows import AttentionRows, attention_row_groups
from roofline_model.expected.fitting.accuracy import GroupAccuracy, accuracy
from roofline_model.expected.fitting.table import KernelTable, formats_label, phase_of
from roofline_model.expected.prediction import ExpectedBatch
from roofline_model.expected.products.fitted.constants import FittedGemm
from roofline_model.expected.products.fitted.library import find_gemm, with_measured_bandwidth
from roofline_model.expected.products.fitted.rows import GemmRows, expected_of_group, gemm_row_groups
from roofline_model.expected.products.product import constants_here
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.roofline import ProductRoof
from roofline_model.operators.product import with_group_scales
from roofline_model.validation.other_rows import copy_row_groups, model_row_times
from roofline_model.validation.table_ideal import ideal_attention_s

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class KnownConstants:
    """Constants to predict with. None: those that ship with the package."""

    gemm: tuple[FittedGemm, ...] | None = None
    attention: tuple[FittedAttention, ...] | None = None
    machines: Mapping[str, Device] = field(default_factory=dict)
    """Chip key → the same chip with what this machine measured about itself."""


@dataclass(frozen=True, slots=True, eq=False)
class TablePrediction:
    """What the model says of each row of a table; seconds, NaN where there is no time."""

    table: KernelTable
    ideal_s: Floats
    expected_s: Floats
    low_s: Floats
    high_s: Floats
    provenance: list[str]
    binding: list[str]
    reasons: list[Finding | None]
    """Why there is no expected time, or why the measured one is not scored; None otherwise."""

    @property
    def measured_s(self) -> Floats:
        """The measured times; NaN where a row has none that can be compared."""
        return self.table.numbers["time_s"]

    @property
    def is_scored(self) -> NDArray[np.bool_]:
        """Which rows have an expected and a measured time."""
        return np.isfinite(self.expected_s) & np.isfinite(self.measured_s)


class _Columns:
    """The prediction while it is built."""

    def __init__(self, table: KernelTable) -> None:
        count = len(table)
        self.table = table
        self.ideal_s, self.expected_s, self.low_s, self.high_s = (np.full(count, np.nan) for _ in range(4))
        self.provenance, self.binding = [""] * count, [""] * count
        self.problems = {i: reason for i, reason in enumerate(table.reasons) if reason}

    def refuse(self, rows: Positions, problem: Finding) -> None:
        """Give rows a reason, unless they have one."""
        for i in rows.tolist():
            self.problems.setdefault(i, problem)

    def expect(self, rows: Positions, batch: ExpectedBatch) -> None:
        """Enter the expected times of a group."""
        self.expected_s[rows], self.low_s[rows], self.high_s[rows] = batch.time_s, batch.low_s, batch.high_s
        for i, binding in zip(rows.tolist(), batch.binding, strict=True):
            self.provenance[i], self.binding[i] = batch.provenance, binding

    def finished(self) -> TablePrediction:
        """Return the prediction; a row with an unusable time is told so when nothing else was wrong with it."""
        reasons = [
            self.problems.get(i, None if late is None else replace(late, code="row-not-scored"))
            for i, late in enumerate(self.table.time_problems)
        ]
        return TablePrediction(
            self.table, self.ideal_s, self.expected_s, self.low_s, self.high_s, self.provenance, self.binding, reasons
        )


def predict_table(
    table: KernelTable, given: KnownConstants | None = None, *, progress: Callable[[int], None] | None = None
) -> TablePrediction:
    """Return ideal and expected times of each row in seconds; `progress` gets the number of rows done."""

    constants = given or KnownConstants()
    columns = _Columns(table)
    done = 0
    for gemm in gemm_row_groups(table, columns.problems, constants.machines):
        _predict_gemm(columns, gemm, constants)
        done += len(gemm.rows)
        if progress is not None:
            progress(done)
    for attention in attention_row_groups(table, columns.problems, constants.machines):
        _predict_attention(columns, attention, constants)
        done += len(attention.rows)
        if progress is not None:
            progress(done)
    for other in (copy_row_groups, model_row_times):
        for rows, ideal_s, batch, problem in other(table, columns.problems, constants.machines):
            columns.ideal_s[rows] = ideal_s
            if batch is not None:
                columns.expect(rows, batch)
            if problem is not None:
                columns.refuse(rows, problem)
    if progress is not None:
        progress(len(table))
    return columns.finished()


def _predict_gemm(columns: _Columns, group: GemmRows, constants: KnownConstants) -> None:
    try:
        roof = ProductRoof.of(
            group.device,
            activation=get_format(group.activation_format),
            weight=with_group_scales(get_format(group.weight_format)),
            output=get_format(group.output_format),
        )
        columns.ideal_s[group.rows] = roof.at(group.m, group.n, group.k).time_s
        if group.chip is None:
            assert group.problem is not None  # it says why there is no chip
            columns.refuse(group.rows, group.problem)
            return
        fitted = find_gemm(group.chip, group.formats.family, constants.gemm)
        if constants.gemm is None:
            fitted = constants_here(fitted, group.device, group.formats)
        else:
            fitted = with_measured_bandwidth(fitted, group.device)
        batch = expected_of_group(group, fitted)
    except RooflineError as error:
        columns.refuse(group.rows, finding_of(error))
        return
    columns.expect(group.rows, batch)


def _predict_attention(columns: _Columns, group: AttentionRows, constants: KnownConstants) -> None:
    try:
        columns.ideal_s[group.rows] = ideal_attention_s(
            group.device,
            group.batch,
            group.heads,
            group.kv_heads,
            group.q_len,
            group.kv_len,
            group.head_dim,
            causal=group.causal,
            window=group.window,
            activation=group.activation_format,
            kv=group.kv_format,
            output=group.output_format,
        )
        columns.expect(group.rows, group.expected(constants.attention))
    except RooflineError as error:
        columns.refuse(group.rows, finding_of(error))


def group_accuracies(prediction: TablePrediction) -> list[GroupAccuracy]:
    """Return the errors per device × op × phase × format, in the order in which the table first names them."""
    table = prediction.table
    devices = {name: _device_key(name) for name in set(table.texts["device"])}
    keys = [
        (devices[table.texts["device"][i]], table.texts["op"][i], phase_of(table, i), formats_label(table, i))
        for i in range(len(table))
    ]
    members: dict[tuple[str, str, str, str], list[int]] = {}
    for i, key in enumerate(keys):
        members.setdefault(key, []).append(i)
    return [_group(prediction, key, np.array(rows, dtype=np.intp)) for key, rows in members.items()]


def _device_key(name: str) -> str:
    """Return the key of a chip however it is named, or the name itself where nobody knows it."""
    try:
        return get_hardware(name).key
    except RooflineError:
        return name


def total_accuracy(prediction: TablePrediction, rows: Sequence[int] | None = None) -> GroupAccuracy:
    """Return the errors of all rows together, or of those at `rows`."""
    chosen = np.arange(len(prediction.table)) if rows is None else np.asarray(rows, dtype=np.intp)
    return _group(prediction, ("all", "all", "", ""), chosen)


def _group(prediction: TablePrediction, key: tuple[str, str, str, str], rows: Positions) -> GroupAccuracy:
    measured = prediction.measured_s[rows]
    origins = dict.fromkeys(prediction.provenance[i] for i in rows.tolist() if prediction.provenance[i])
    return GroupAccuracy(
        *key,
        row_count=len(rows),
        expected=accuracy(prediction.expected_s[rows], measured, prediction.low_s[rows], prediction.high_s[rows]),
        ideal=accuracy(prediction.ideal_s[rows], measured),
        provenance="+".join(origins),
    )
