"""`roofline validate`: how far ideal and expected times are from a table of measured kernels."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present.blocks import Block, Column, Paragraph, Span, more, notes, reason_blocks, table
from reports.present.screen import present
from roofline_cli.screen.output_file import check_is_not_input, check_output, write_text
from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.shared.options import AllOption, JsonOption
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, subject_text
from roofline_model.core.units import counted

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.expected.fitting.accuracy import GroupAccuracy
    from roofline_model.expected.fitting.table import KernelTable
    from roofline_model.validation.table_prediction import KnownConstants, TablePrediction

COMMANDS = {
    "validate": ("validate", "Compare predicted with measured times."),
}

ADDED_COLUMNS = ("ideal_s", "expected_s", "expected_low_s", "expected_high_s", "provenance", "reason")


_TableArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="Table of measured kernels, CSV or Parquet (docs/theory/validation.md)."),
]
_PredictionsOption = Annotated[
    Path | None,
    typer.Option("--predictions", metavar="OUT.csv", help="Write the table with the predicted columns added."),
]
_NoCalibrationOption = Annotated[
    bool,
    typer.Option("--no-local-calibration", help="Never use this machine's own calibration."),
]
_ConstantsOption = Annotated[
    Path | None,
    typer.Option("--constants", metavar="FILE.toml", help="Constants of `roofline fit` in place of the shipped ones."),
]
_CrossOption = Annotated[
    bool,
    typer.Option(
        "--cross-validate", help="Fit to this table, and score each row by constants that never saw its site."
    ),
]
_FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--model-dir",
        metavar="FOLDER",
        help="Of engine runs: config.json files of models that are not shipped (OWNER--MODEL_config.json).",
    ),
]


def validate(
    table_file: _TableArgument,
    predictions: _PredictionsOption = None,
    no_local_calibration: _NoCalibrationOption = False,
    constants: _ConstantsOption = None,
    cross_validate: _CrossOption = False,
    model_dir: _FolderOption = None,
    show_all: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare predicted with measured times.

    The table holds kernels, or runs of engines that serve whole models (`--model-dir` gives their shapes).

    Prints mean, median and 90 % |error|, the signed bias and the coverage of the 80 % interval per device, operator,
    phase and format, beside the error of the plain roofline. Error = (predicted − measured) / measured: negative is too
    fast.
    """
    from roofline_model.core.table_file import read_table
    from roofline_model.expected.fitting.table import kernel_table
    from roofline_model.validation.engine_rows import engine_table, is_engine_table

    if predictions is not None:
        check_output(predictions, None, "--predictions")
        check_is_not_input(predictions, _inputs(table_file, constants), "--predictions")
    if cross_validate and constants is not None:
        raise InvalidValueError("--cross-validate fits its own constants; leave out --constants")
    read = read_table(table_file, "table")
    if is_engine_table(read.header):
        if cross_validate or constants is not None:
            raise InvalidValueError("a table of engine runs is compared with the shipped constants alone")
        from roofline_cli.model_fit.validate_engines import validate_engines

        runs = engine_table(table_file, read)
        return validate_engines(runs, model_dir, predictions, show_all=show_all, as_json=as_json)
    table = kernel_table(table_file, read)
    constants_used = _constants(constants, with_local=not no_local_calibration and not cross_validate)
    with progress_bar("predicting", is_quiet=as_json) as advance:
        prediction = _predicted(table, constants_used, cross_validate, advance)
    if predictions is not None:
        write_text(predictions, predictions_text(prediction), "--predictions")
    method = "shipped constants" if constants is None else f"constants of {constants}, else shipped ones"
    if cross_validate:
        method = "each predicted by constants that never saw its site"
    present(
        lambda: _document(prediction, cross_validate, predictions),
        lambda: _blocks(prediction, method, cross_validate, predictions, show_all=show_all),
        as_json=as_json,
    )


def _inputs(table_file: Path, constants: Path | None) -> dict[str, Path]:
    """Return the files that are read, by what they are."""
    from roofline_model.expected.fitting.fitted_files import fitted_paths

    inputs = {"the table itself": table_file}
    if constants is not None:
        inputs |= dict(zip(("the file of constants", "a file of constants"), fitted_paths(constants), strict=True))
    return inputs


def _constants(constants: Path | None, *, with_local: bool) -> KnownConstants:
    from roofline_model.expected.fitting.fitted_files import read_fitted
    from roofline_model.validation.table_prediction import KnownConstants

    machines = {}
    if with_local:
        machines = calibrated_machines()
    if constants is None:
        return KnownConstants(machines=machines)
    gemm, attention = read_fitted(constants)
    return KnownConstants(gemm=gemm, attention=attention, machines=machines)


def _predicted(table: KernelTable, constants: KnownConstants, is_crossed: bool, advance: Any) -> TablePrediction:
    from roofline_model.validation.table_prediction import predict_table

    count = len(table)
    prediction = predict_table(table, constants, progress=lambda done: advance("predicting", done, count))
    if not is_crossed:
        return prediction
    from roofline_model.validation.crossed_table import cross_validated_table

    return cross_validated_table(prediction, progress=advance)


def predictions_text(prediction: TablePrediction) -> str:
    """Return the table as CSV with `ADDED_COLUMNS` behind its own; an empty cell where there is no number."""
    table = prediction.table
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    positions = [i for i, name in enumerate(table.header) if name not in ADDED_COLUMNS]
    writer.writerow([*(table.header[i] for i in positions), *ADDED_COLUMNS])
    times = zip(
        prediction.ideal_s.tolist(),
        prediction.expected_s.tolist(),
        prediction.low_s.tolist(),
        prediction.high_s.tolist(),
        strict=True,
    )
    reasons = [row_reason_text(prediction, i) for i in range(len(table))]
    for cells, seconds, origin, reason in zip(table.cells, times, prediction.provenance, reasons, strict=True):
        writer.writerow([*(cells[i] for i in positions), *(_number(value) for value in seconds), origin, reason])
    return out.getvalue()


def row_reason_text(prediction: TablePrediction, row: int) -> str:
    """Return why a row has no expected time, or is not scored, behind its line number; empty where neither holds."""
    reason = prediction.reasons[row]
    return "" if reason is None else f"row {prediction.table.line_numbers[row]}: {subject_text(reason)}"


def _number(value: float) -> str:
    return "" if value != value else f"{value:.9g}"


ANSWER_ROW_COUNT = 5
"""Rows of the answer's table."""


def _blocks(
    prediction: TablePrediction, method: str, is_crossed: bool, predictions: Path | None, *, show_all: bool
) -> Iterator[Block]:
    """Yield how far the predictions are off and five groups; `show_all`: every group and device."""
    from roofline_model.expected.fitting.accuracy import mean_over_groups
    from roofline_model.validation.table_prediction import group_accuracies, total_accuracy

    groups = sorted(group_accuracies(prediction), key=lambda row: (row.op, row.phase, row.device, row.formats))
    total, means = total_accuracy(prediction), mean_over_groups(groups)
    yield Paragraph(f"{_summary(total)}.", "verdict")
    yield Paragraph(f"{prediction.table.name}: {counted(len(prediction.table), 'row')}, {method}.", "quiet")
    if means:
        yield table("Errors by operator", _MEANS, means if show_all else means[:ANSWER_ROW_COUNT])
    if not is_crossed and total.expected.row_count and "fitted" in prediction.provenance:
        yield from notes(["the constants may have seen these very rows; --cross-validate scores unseen ones"])
    yield from more(f"shows {counted(len(groups), 'group')} of device, operator, phase and format", is_shown=show_all)
    if show_all:
        yield Paragraph(f"SHA-256 {prediction.table.sha256}", "quiet")
        for op, phase in dict.fromkeys((group.op, group.phase) for group in groups):
            members = [group for group in groups if (group.op, group.phase) == (op, phase)]
            title = f"{op} {phase}".strip()
            yield table(title, _GROUPS, members, title=title)
        yield Paragraph("")
    texts = [f"{text}{f' ({count} rows like it)' if count > 1 else ''}" for text, count in _reasons(prediction)]
    yield from reason_blocks(texts, "--predictions OUT.csv holds the reason of every row")
    if predictions is not None:
        yield Paragraph(f"predictions of {counted(len(prediction.table), 'row')} written to {predictions}")


def _row_count(group: GroupAccuracy) -> str:
    count = group.expected.row_count
    return f"{count}" if count == group.row_count else f"{count} of {group.row_count}"


def _coverage(group: GroupAccuracy) -> Span:
    accuracy = group.expected
    if accuracy.coverage_ratio is None:
        return Span("–")
    is_usual = 0.7 <= accuracy.coverage_ratio <= 0.92 or accuracy.row_count < 30
    return Span(f"{accuracy.coverage_ratio * 100:.0f} %", "" if is_usual else "warning")


_MEANS = (
    Column("Operator", lambda mean: mean[0], is_head=True),
    Column("Phase", lambda mean: mean[1]),
    Column("Formats", lambda mean: mean[2]),
    Column("Chips", lambda mean: str(mean[3]), "number"),
    Column("MAPE", lambda mean: _percent(mean[4]), "number"),
    Column("Ideal MAPE", lambda mean: _percent(mean[5]), "number"),
)
_GROUPS = (
    Column("Device", lambda group: group.device, is_head=True),
    Column("Formats", lambda group: group.formats or "–"),
    Column("Rows", _row_count, "number"),
    Column("MAPE", lambda group: _percent(group.expected.mape_ratio), "number"),
    Column("Median", lambda group: _percent(group.expected.median_ratio), "number", drop=1),
    Column("P90", lambda group: _percent(group.expected.p90_ratio), "number"),
    Column("Bias", lambda group: _percent(group.expected.bias_ratio, signed=True), "number"),
    Column("In 80 %", _coverage, "number"),
    Column("Ideal MAPE", lambda group: _percent(group.ideal.mape_ratio), "number", drop=2),
    Column("Provenance", lambda group: group.provenance or "–", drop=3),
)


def _summary(total: GroupAccuracy) -> str:
    expected = total.expected
    if expected.row_count == 0:
        whole = "the one row has not" if total.row_count == 1 else f"none of {counted(total.row_count, 'row')} has"
        return f"{whole} both a predicted and a measured time"
    text = (
        f"{expected.row_count:,} of {counted(total.row_count, 'row')} scored: mean |error| "
        f"{_percent(expected.mape_ratio)}, median "
        f"{_percent(expected.median_ratio)}, bias {_percent(expected.bias_ratio, signed=True)}"
    )
    if expected.coverage_ratio is not None:
        text += f", {expected.coverage_ratio * 100:.0f} % inside the 80 % interval"
    return f"{text}; the ideal roofline's mean |error| is {_percent(total.ideal.mape_ratio)}"


def _reasons(prediction: TablePrediction) -> list[tuple[str, int]]:
    """Return (first reason, rows) of rows that differ in their line number only, most rows first."""
    kinds: dict[Finding, tuple[str, int]] = {}
    for row, reason in enumerate(prediction.reasons):
        if reason is not None:
            first, count = kinds.get(reason, (row_reason_text(prediction, row), 0))
            kinds[reason] = first, count + 1
    return sorted(kinds.values(), key=lambda row: -row[1])


def _percent(ratio: float | None, *, signed: bool = False) -> str:
    if ratio is None:
        return "–"
    if abs(ratio) >= 10:
        return f"{'-' if ratio < 0 else '+' if signed else ''}>999 %"
    return f"{ratio * 100:{'+' if signed else ''}.1f} %"


def _document(prediction: TablePrediction, is_crossed: bool, predictions: Path | None) -> dict[str, Any]:
    from roofline_model.expected.fitting.accuracy import mean_over_groups
    from roofline_model.validation.table_prediction import group_accuracies, total_accuracy

    groups = group_accuracies(prediction)
    return {
        "file": prediction.table.name,
        "sha256": prediction.table.sha256,
        "row_count": len(prediction.table),
        "is_cross_validated": is_crossed,
        "predictions": None if predictions is None else str(predictions),
        "total": asdict(total_accuracy(prediction)),
        "groups": list(map(asdict, groups)),
        "mean_over_devices": [
            {
                "op": op,
                "phase": phase,
                "formats": formats,
                "device_count": count,
                "mape_ratio": mape,
                "ideal_mape_ratio": ideal,
            }
            for op, phase, formats, count, mape, ideal in mean_over_groups(groups)
        ],
        "reasons": [{"reason": text, "row_count": count} for text, count in _reasons(prediction)],
    }


def calibrated_machines() -> dict[str, Device]:
    """Return {chip key: chip with its calibration} of this machine; empty without a calibrated GPU. Never measures."""
    from plugin.calibrate.gpu_calibration import calibrated_gpu
    from plugin.machine.facts import find_machine

    here = find_machine()
    if here.kind != "cuda":
        return {}
    chip, _ = here.match()
    if chip is None:
        return {}
    chip = calibrated_gpu(here, chip)
    return {} if chip.calibration is None else {chip.key: chip}
