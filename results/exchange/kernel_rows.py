"""A table of measured kernels (docs/theory/validation.md, "Your own table") as records: each row's time beside its
predictions.

Every row names its chip, so that nothing has to be stated; ideal and expected times are those of `roofline validate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.exchange.foreign import ForeignFile, ForeignRow, ModelAsk, PassRun
from results.exchange.measured import doubted, from_one_figure
from results.exchange.model_cases import NamedModel, kernel_name, model_case
from results.exchange.model_predictions import model_predictions
from results.records.plain_form import FormError
from results.records.records import PredictionRecord
from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import Finding, finding, reason_text
from roofline_model.expected.fitting.table import KernelTable, phase_of, read_kernel_table
from roofline_model.expected.prediction import EXPECTED_VERSION
from roofline_model.expected.products.fitted.rows import default_activation
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.limits import limit_s
from roofline_model.ideal.roofline import predict
from roofline_model.operators.attention import attention
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator, gemm, with_group_scales
from roofline_model.validation.model_rows import read_model_row
from roofline_model.validation.table_prediction import TablePrediction, predict_table

KIND = "kernel-table"
REQUIRED_COLUMNS = frozenset({"device", "op", "time_s"})
Advance = Callable[[int, int], None]


def read_kernel_rows(path: Path, advance: Advance | None = None) -> ForeignFile:
    """Return the rows of a table with their predictions; `advance` is told (rows done, rows).

    Raises `FormError` naming the first row that cannot be read (`roofline validate` would pass over it: here nothing is
    half imported), `InvalidValueError` for a file that is not a table.
    """
    table = read_kernel_table(path)
    for i in range(len(table)):
        problem = table.reasons[i] or table.time_problems[i]
        if problem:
            raise FormError(f"row {table.line_numbers[i]}: {reason_text(problem)}")
        if math.isnan(table.numbers["time_s"][i]):
            raise FormError(f"row {table.line_numbers[i]}: time_s is empty: nothing was measured")
    prediction = predict_table(table, progress=None if advance is None else lambda done: advance(done, len(table)))
    chips = {name: _chip(name) for name in dict.fromkeys(table.texts["device"])}
    rows = tuple(_row(prediction, i, chips[table.texts["device"][i]]) for i in range(len(table)))
    devices = {chip.device.key: chip.device for chip in chips.values() if chip is not None}
    facts = {"sha256": table.sha256, "devices": sorted(dict.fromkeys(table.texts["device"]))}
    return ForeignFile(
        KIND, table.name, rows, facts=facts, class_facts={"engine": KIND}, devices=tuple(devices.values())
    )


@dataclass(frozen=True, slots=True)
class _Chip:
    """A chip with its hash, which takes longer to make than a prediction."""

    device: Device
    profile_hash: str


def _chip(name: str) -> _Chip | None:
    try:
        device = get_hardware(name)
    except RooflineError:
        return None
    return _Chip(device, device.content_hash)


def _row(prediction: TablePrediction, i: int, chip: _Chip | None) -> ForeignRow:
    table = prediction.table
    where = f"row {table.line_numbers[i]}"
    measured_s = float(table.numbers["time_s"][i])
    ask: ModelAsk | None = None
    reason = prediction.reasons[i]
    predictions: tuple[PredictionRecord, ...] = ()
    tokens: int | None = None
    least_s = 0.0
    try:
        if table.texts["op"][i] == "model":
            case, ask, measured_s, tokens, reason = _model_row(table, i, measured_s)
            if ask is not None and chip is not None:
                predictions, reason, least_s = model_predictions(ask, chip.device, measured_s)
        elif table.texts["op"][i] == "copy":
            case = Case("copy", (("bytes", int(table.numbers["bytes"][i])),), (), _kernel(table, i), "none")
        else:
            case = _work(table, i).case(_kernel(table, i), cache="none")
            if chip is not None:
                predictions = _predictions(prediction, i, _work(table, i, has_scales=True), chip, measured_s)
                least_s = limit_s(predictions[0], chip.device)
    except RooflineError as error:
        raise FormError(f"{where}: {error}") from None
    content = {name: cell for name, cell in zip(table.header, table.cells[i], strict=True) if cell}
    source = table.text("source")[i]
    return ForeignRow(
        where=where,
        content=content,
        case=case,
        measurement=doubted(from_one_figure(measured_s, 1), least_s),
        settings={"source": source[:200]} if source else {},
        test_id=f"{table.name[:80]} {where}",
        facts={"statistic": "the table's time", "device": table.texts["device"][i], "row": dict(content)},
        tokens_per_call=tokens,
        predictions=predictions,
        reason=reason,
    )


def _work(table: KernelTable, i: int, *, has_scales: bool = False) -> Operator:
    """Return the call of a row; `has_scales`: narrow integer weights with the group scales that kernels read, as it is
    priced.
    """

    def size(name: str) -> int:
        return int(table.numbers[name][i])

    activation, output = table.text("activation_format")[i], table.text("output_format")[i]
    if table.texts["op"][i] == "gemm":
        weight = table.text("weight_format")[i]
        if not weight:
            raise FormError(f"row {table.line_numbers[i]}: weight_format is empty; a product needs one")
        stored = with_group_scales(get_format(weight)) if has_scales else get_format(weight)
        return gemm(
            size("m"), size("n"), size("k"), a=activation or default_activation(weight), b=stored, c=output or "BF16"
        )
    causal, window = table.numbers["causal"][i], table.numbers["window"][i]
    is_causal = phase_of(table, i) == "prefill" if math.isnan(causal) else causal == 1
    maths = activation or "BF16"
    return attention(
        size("batch"),
        size("heads"),
        size("kv_heads"),
        size("q_len"),
        size("kv_len"),
        size("head_dim"),
        q=maths,
        kv=table.text("kv_format")[i] or maths,
        o=output or None,
        causal=bool(is_causal),
        window=None if math.isnan(window) else int(window),
    )


def _kernel(table: KernelTable, i: int) -> str:
    casts = table.numbers["dynamic_activation_quantization"][i] == 1
    return kernel_name(table.text("kernel")[i] or "unnamed", "dynamic" if casts else "")


def _predictions(
    prediction: TablePrediction, i: int, work: Operator, chip: _Chip, measured_s: float
) -> tuple[PredictionRecord, ...]:
    ideal = predict(work, chip.device)
    first = PredictionRecord.from_prediction(ideal, chip.profile_hash, measured_s)
    expected_s = float(prediction.expected_s[i])
    if math.isnan(expected_s):
        return (first,)
    binding = prediction.binding[i]
    expected = first.expected(
        expected_s,
        measured_s,
        model_version=EXPECTED_VERSION,
        provenance=prediction.provenance[i],
        low_s=float(prediction.low_s[i]),
        high_s=float(prediction.high_s[i]),
        findings=(finding("mostly-bound", binding=binding),) if binding else (),
    )
    return first, expected


def _model_row(
    table: KernelTable, i: int, measured_s: float
) -> tuple[Case, ModelAsk | None, float, int, Finding | None]:
    """Return case, question, seconds and tokens of one pass, and why there is no question."""
    from results.exchange.foreign import Stated

    row = read_model_row(table, i)
    run = PassRun(row.phase, row.batch_count, row.context_count, row.new_count, 1.0)
    named_model = NamedModel(row.shape.name, row.shape, "named", "", row.formats, row.kv, row.weight_bytes)
    stated = Stated(device_count=row.device_count)
    name_parts: list[Any] = [_kernel(table, i), f"tp{row.device_count}" if row.device_count > 1 else ""]
    case, ask, reason = model_case(named_model, row.phase, (run,), kernel_name(*name_parts), stated, None)
    return case, ask, measured_s / row.steps_count, row.batch_count * row.new_count, reason
