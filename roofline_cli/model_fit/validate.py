"""`roofline validate`: how far ideal and expected times are from a table of measured kernels."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline_cli.screen.tables import Cell, Column, Styled, show_json, show_line, show_table
from roofline_cli.shared.options import JsonOption
from roofline_model.core.units import counted

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device
    from roofline_model.expected.fitting.accuracy import Accuracy, GroupAccuracy
    from roofline_model.expected.fitting.table import KernelTable
    from roofline_model.validation.table_prediction import KnownConstants, TablePrediction


ADDED_COLUMNS = ("ideal_s", "expected_s", "expected_low_s", "expected_high_s", "provenance", "reason")
SHOWN_REASONS = 8


def validate(
    table_file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Table of measured kernels, CSV or Parquet (docs/validation.md).")
    ],
    predictions: Annotated[
        Path | None,
        typer.Option("--predictions", metavar="OUT.csv", help="Write the table with the predicted columns added."),
    ] = None,
    no_local_calibration: Annotated[
        bool,
        typer.Option("--no-local-calibration", help="Never use what this machine measured about itself."),
    ] = False,
    constants: Annotated[
        Path | None,
        typer.Option(
            "--constants", metavar="FILE.toml", help="Constants of `roofline fit` in place of the shipped ones."
        ),
    ] = None,
    cross_validate: Annotated[
        bool,
        typer.Option(
            "--cross-validate", help="Fit to this table, and score each row by constants that never saw its site."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare predicted with measured times.

    Prints mean, median and 90 % |error|, the signed bias and the coverage of the 80 % interval per device, operator, phase
    and format, beside the error of the plain roofline. Error = (predicted − measured) / measured: negative is too fast.
    """
    from roofline_cli.screen.output_file import check_is_not_input, check_output, write_text
    from roofline_cli.screen.progress_bar import progress_bar
    from roofline_model.core.errors import InvalidValueError
    from roofline_model.expected.fitting.table import read_kernel_table

    if predictions is not None:
        check_output(predictions, None, "--predictions")
        check_is_not_input(predictions, _inputs(table_file, constants), "--predictions")
    if cross_validate and constants is not None:
        raise InvalidValueError("--cross-validate fits its own constants; leave out --constants")
    table = read_kernel_table(table_file)
    known = _known(constants, with_local=not no_local_calibration and not cross_validate)
    with progress_bar("predicting", is_quiet=as_json) as advance:
        found = _predicted(table, known, cross_validate, advance)
    if predictions is not None:
        write_text(predictions, predictions_text(found), "--predictions")
    if as_json:
        show_json(_document(found, cross_validate, predictions))
        return
    _show(found, _method(constants, cross_validate), cross_validate)
    if predictions is not None:
        show_line(f"predictions of {counted(len(table), 'row')} written to {predictions}")


def _inputs(table_file: Path, constants: Path | None) -> dict[str, Path]:
    """Return the files that are read, by what they are."""
    from roofline_model.expected.fitting.fitted_files import fitted_paths

    found = {"the table itself": table_file}
    if constants is not None:
        found |= dict(zip(("the file of constants", "a file of constants"), fitted_paths(constants), strict=True))
    return found


def _known(constants: Path | None, *, with_local: bool) -> KnownConstants:
    from roofline_model.expected.fitting.fitted_files import read_fitted
    from roofline_model.validation.table_prediction import KnownConstants

    machines = {}
    if with_local:
        machines = calibrated_machines()
    if constants is None:
        return KnownConstants(machines=machines)
    gemm, attention = read_fitted(constants)
    return KnownConstants(gemm=gemm, attention=attention, machines=machines)


def _predicted(table: KernelTable, known: KnownConstants, is_crossed: bool, advance: Any) -> TablePrediction:
    from roofline_model.validation.table_prediction import predict_table

    count = len(table)
    found = predict_table(table, known, progress=lambda done: advance("predicting", done, count))
    if not is_crossed:
        return found
    from roofline_model.validation.crossed_table import cross_validated_table

    return cross_validated_table(found, progress=advance)


def predictions_text(found: TablePrediction) -> str:
    """Return the table as CSV with `ADDED_COLUMNS` behind its own; an empty cell where there is no number."""
    table = found.table
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    kept = [i for i, name in enumerate(table.header) if name not in ADDED_COLUMNS]
    writer.writerow([*(table.header[i] for i in kept), *ADDED_COLUMNS])
    times = zip(
        found.ideal_s.tolist(), found.expected_s.tolist(), found.low_s.tolist(), found.high_s.tolist(), strict=True
    )
    for cells, seconds, origin, reason in zip(table.cells, times, found.provenance, found.reasons, strict=True):
        writer.writerow([*(cells[i] for i in kept), *(_number(value) for value in seconds), origin, reason])
    return out.getvalue()


def _number(value: float) -> str:
    return "" if value != value else f"{value:.9g}"


def _method(constants: Path | None, is_crossed: bool) -> str:
    if is_crossed:
        return "each predicted by constants that never saw its site"
    return "shipped constants" if constants is None else f"constants of {constants}, else shipped ones"


def _show(found: TablePrediction, method: str, is_crossed: bool) -> None:
    from roofline_model.expected.fitting.accuracy import mean_over_groups
    from roofline_model.validation.table_prediction import group_accuracies, total_accuracy

    groups = sorted(group_accuracies(found), key=lambda one: (one.op, one.phase, one.device, one.formats))
    total = total_accuracy(found)
    show_line(f"{found.table.name}: {counted(len(found.table), 'row')}, {method}", "bold")
    show_line(f"SHA-256 {found.table.sha256}", "dim")
    for op, phase in dict.fromkeys((one.op, one.phase) for one in groups):
        members = [one for one in groups if (one.op, one.phase) == (op, phase)]
        show_line()
        show_table(_COLUMNS, [_row(one) for one in members], title=f"{op} {phase}".strip())
    means = mean_over_groups(groups)
    if len(groups) > 1 and means:
        show_line()
        columns = (
            Column("Operator"),
            Column("Phase"),
            Column("Formats"),
            Column("Chips", "right"),
            Column("MAPE", "right"),
            Column("Ideal MAPE", "right"),
        )
        rows: list[list[Cell]] = [
            [op, phase, formats, str(count), _percent(mape), _percent(ideal)]
            for op, phase, formats, count, mape, ideal in means
        ]
        show_table(columns, rows, title="mean over chips")
    show_line()
    show_line(_summary(total), "bold")
    if not is_crossed and total.expected.row_count and "fitted" in found.provenance:
        show_line("fitted: the constants may have seen these very rows; --cross-validate scores unseen ones", "dim")
    _show_reasons(found)


_COLUMNS = (
    Column("Device"),
    Column("Formats"),
    Column("Rows", "right"),
    Column("MAPE", "right"),
    Column("Median", "right", drop=1),
    Column("P90", "right"),
    Column("Bias", "right"),
    Column("In 80 %", "right"),
    Column("Ideal MAPE", "right", drop=2),
    Column("Provenance", drop=3),
)


def _row(one: GroupAccuracy) -> list[Cell]:
    told = one.expected
    count = f"{told.row_count}" if told.row_count == one.row_count else f"{told.row_count} of {one.row_count}"
    return [
        one.device,
        one.formats or "–",
        count,
        _percent(told.mape_ratio),
        _percent(told.median_ratio),
        _percent(told.p90_ratio),
        _percent(told.bias_ratio, signed=True),
        _coverage(told),
        _percent(one.ideal.mape_ratio),
        one.provenance or "–",
    ]


def _coverage(told: Accuracy) -> Cell:
    if told.coverage_ratio is None:
        return "–"
    text = f"{told.coverage_ratio * 100:.0f} %"
    return text if 0.7 <= told.coverage_ratio <= 0.92 or told.row_count < 30 else Styled(text, "yellow")


def _summary(total: GroupAccuracy) -> str:
    told = total.expected
    if told.row_count == 0:
        whole = "the one row has not" if total.row_count == 1 else f"none of {counted(total.row_count, 'row')} has"
        return f"{whole} both a predicted and a measured time"
    text = (
        f"{told.row_count:,} of {counted(total.row_count, 'row')} scored: mean |error| {_percent(told.mape_ratio)}, median "
        f"{_percent(told.median_ratio)}, bias {_percent(told.bias_ratio, signed=True)}"
    )
    if told.coverage_ratio is not None:
        text += f", {told.coverage_ratio * 100:.0f} % inside the 80 % interval"
    return f"{text}; the ideal roofline's mean |error| is {_percent(total.ideal.mape_ratio)}"


def _show_reasons(found: TablePrediction) -> None:
    """Print why rows were not predicted or not scored: the first row of each kind, and how many."""
    for text, count in _reasons(found)[:SHOWN_REASONS]:
        show_line(f"  {text}" + (f" ({count} rows like it)" if count > 1 else ""))
    left = len(_reasons(found)) - SHOWN_REASONS
    if left > 0:
        show_line(f"  … and {left} more reasons; --predictions OUT.csv holds the reason of every row")


def _reasons(found: TablePrediction) -> list[tuple[str, int]]:
    """Return (first reason, rows) of rows that differ in their line number only, most rows first."""
    kinds: dict[str, tuple[str, int]] = {}
    for reason in found.reasons:
        if reason:
            kind = reason.partition(": ")[2] or reason
            first, count = kinds.get(kind, (reason, 0))
            kinds[kind] = first, count + 1
    return sorted(kinds.values(), key=lambda one: -one[1])


def _percent(ratio: float | None, *, signed: bool = False) -> str:
    if ratio is None:
        return "–"
    if abs(ratio) >= 10:
        return f"{'-' if ratio < 0 else '+' if signed else ''}>999 %"
    return f"{ratio * 100:{'+' if signed else ''}.1f} %"


def _document(found: TablePrediction, is_crossed: bool, predictions: Path | None) -> dict[str, Any]:
    from roofline_model.expected.fitting.accuracy import mean_over_groups
    from roofline_model.validation.table_prediction import group_accuracies, total_accuracy

    groups = group_accuracies(found)
    return {
        "file": found.table.name,
        "sha256": found.table.sha256,
        "row_count": len(found.table),
        "is_cross_validated": is_crossed,
        "predictions": None if predictions is None else str(predictions),
        "total": _group_json(total_accuracy(found)),
        "groups": [_group_json(one) for one in groups],
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
        "reasons": [{"reason": text, "row_count": count} for text, count in _reasons(found)],
    }


def _group_json(one: GroupAccuracy) -> dict[str, Any]:
    return {
        "device": one.device,
        "op": one.op,
        "phase": one.phase,
        "formats": one.formats,
        "row_count": one.row_count,
        "provenance": one.provenance,
        "expected": accuracy_json(one.expected),
        "ideal": accuracy_json(one.ideal),
    }


def accuracy_json(told: Accuracy) -> dict[str, Any]:
    """Return the errors of one set of rows as JSON."""
    return {
        "row_count": told.row_count,
        "mape_ratio": told.mape_ratio,
        "median_ratio": told.median_ratio,
        "p90_ratio": told.p90_ratio,
        "bias_ratio": told.bias_ratio,
        "coverage_ratio": told.coverage_ratio,
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
