"""A table of measured kernels (docs/theory/validation.md, "Your own table") as records: each row's time beside its
predictions.

Every row names its chip, so that nothing has to be stated; ideal and expected times are those of `roofline validate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from results.exchange.foreign import ForeignFile, ForeignRow, ModelAsk, PassRun, Stated
from results.exchange.measured import doubted, from_one_figure
from results.exchange.model_cases import kernel_name, model_case
from results.exchange.model_names import NamedModel
from results.exchange.model_predictions import model_predictions
from results.records.plain_form import FormError
from results.records.records import PredictionRecord
from roofline_model.chips.hardware import Device, get_hardware
from roofline_model.core.errors import RooflineError
from roofline_model.core.finding import finding, reason_text
from roofline_model.expected.fitting.table import KernelTable, phase_of, read_kernel_table
from roofline_model.expected.prediction import EXPECTED_VERSION
from roofline_model.expected.products.fitted.rows import default_activation
from roofline_model.formats.catalog import get_format
from roofline_model.ideal.limits import limit_s
from roofline_model.ideal.roofline import Prediction, predict
from roofline_model.operators.attention import attention
from roofline_model.operators.case import Case
from roofline_model.operators.product import Operator, gemm, with_group_scales
from roofline_model.validation.model_rows import read_model_row
from roofline_model.validation.table_prediction import TablePrediction, predict_table

KIND = "kernel-table"
REQUIRED_COLUMNS = frozenset({"device", "op", "time_s"})
Advance = Callable[[int, int], None]


def read_kernel_rows(path: Path, advance: Advance) -> ForeignFile:
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
    prediction = predict_table(table, progress=lambda done: advance(done, len(table)))
    devices: dict[str, Device | None] = dict.fromkeys(table.texts["device"])
    for name in devices:
        with suppress(RooflineError):
            devices[name] = get_hardware(name)
    # A chip's hash takes longer to make than a prediction.
    hashes = {name: device.content_hash for name, device in devices.items() if device is not None}
    rows = tuple(
        _row(prediction, i, devices[name], hashes.get(name, "")) for i, name in enumerate(table.texts["device"])
    )
    devices_by_key = {device.key: device for device in devices.values() if device is not None}
    facts = {"sha256": table.sha256, "devices": sorted(devices)}
    return ForeignFile(
        KIND, table.name, rows, facts=facts, class_facts={"engine": KIND}, devices=tuple(devices_by_key.values())
    )


def _row(prediction: TablePrediction, i: int, device: Device | None, profile_hash: str) -> ForeignRow:
    table = prediction.table
    where, op, measured_s = f"row {table.line_numbers[i]}", table.texts["op"][i], float(table.numbers["time_s"][i])
    kernel = kernel_name(
        table.text("kernel")[i] or "unnamed",
        "dynamic" if table.numbers["dynamic_activation_quantization"][i] == 1 else "",
    )
    reason, tokens, least_s = prediction.reasons[i], None, 0.0
    predictions: tuple[PredictionRecord, ...] = ()
    ask: ModelAsk | None = None
    try:
        if op == "model":
            row = read_model_row(table, i)
            run = PassRun(row.phase, row.batch_count, row.context_count, row.new_count, 1.0)
            model = NamedModel(
                row.shape.name, row.shape, "named", formats=row.formats, kv_format=row.kv, weight_bytes=row.weight_bytes
            )
            stated = Stated(device_count=row.device_count)
            kernel = kernel_name(kernel, stated.parallel_word)
            case, ask, reason = model_case(model, row.phase, (run,), kernel, stated)
            measured_s, tokens = measured_s / row.steps_count, row.batch_count * row.new_count
            if ask is not None and device is not None:
                predictions, reason, least_s = model_predictions(ask, device, measured_s)
        elif op == "copy":
            case = Case("copy", (("bytes", int(table.numbers["bytes"][i])),), (), kernel, "none")
        else:
            case = _work(table, i).case(kernel, cache="none")
            if device is not None:
                work = _work(table, i, has_scales=True)
                predictions = _predictions(prediction, i, predict(work, device), profile_hash, measured_s)
                least_s = limit_s(predictions[0], device)
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


def _predictions(
    prediction: TablePrediction, i: int, ideal: Prediction, profile_hash: str, measured_s: float
) -> tuple[PredictionRecord, ...]:
    first = PredictionRecord.from_prediction(ideal, profile_hash, measured_s)
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
