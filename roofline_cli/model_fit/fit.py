"""`roofline fit`: constants of the expected-time model from a table of measured kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present import blocks
from reports.present.blocks import Block, Column, Paragraph
from reports.present.screen import present
from roofline_cli.screen.output_file import check_is_not_input, check_output, write_text
from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.shared.options import JsonOption
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import InvalidValueError, RooflineError
from roofline_model.core.finding import findings_json, subject_text
from roofline_model.core.units import counted, format_percent

if TYPE_CHECKING:
    from roofline_model.expected.fitting.fit import FitReport, TableFit
    from roofline_model.expected.fitting.table import KernelTable

COMMANDS = {
    "fit": ("fit", "Fit the expected-time model to a table of measured kernels."),
}


def fit(
    table_file: Annotated[
        Path,
        typer.Option(
            "--from", metavar="FILE", help="Table of measured kernels, CSV or Parquet (docs/theory/validation.md)."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="OUT.toml", help="Write the constants; a folder takes one file per chip."
        ),
    ] = None,
    chip: Annotated[
        str | None, typer.Option("--chip", metavar="NAME", help="Fit the rows of this chip only (default: all).")
    ] = None,
    no_folds: Annotated[
        bool, typer.Option("--no-folds", help="Skip cross-validation: faster, but no error and interval of its own.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fit the expected-time model to a table of measured kernels.

    Many rows decide the constants alone; a few dozen refine those that the chip or its relatives already have. Errors
    are of rows left out of the fit (5 folds by shape). Use the file with `roofline validate --constants OUT.toml`.
    """
    from roofline_model.expected.fitting.fit import FitPlan, fit_table
    from roofline_model.expected.fitting.table import read_kernel_table

    table = read_kernel_table(table_file)
    devices = _devices(table, chip)
    targets = _targets(output, devices, table_file)
    plan = FitPlan(
        date=datetime.now(UTC).date().isoformat(),
        source=_source(table),
        devices=devices,
        with_folds=not no_folds,
    )
    with progress_bar("fitting", is_quiet=as_json) as advance:
        fitted = fit_table(table, plan, progress=advance)
    written = _write(fitted, targets, table) if output is not None else []
    older = _older(targets, written)
    present(
        lambda: _document(fitted, table, written) | {"kept": list(map(str, older))},
        lambda: _blocks(fitted, table, written, older),
        as_json=as_json,
    )


def _devices(table: KernelTable, chip: str | None) -> tuple[str, ...]:
    """Return the chips to fit: the one that was named, or all that the table and the registry know."""

    present: dict[str, None] = {}
    for name in dict.fromkeys(table.texts["device"]):
        try:
            present[get_hardware(name).key] = None
        except RooflineError:
            continue  # its rows are listed with their reason
    if chip is None:
        return tuple(present)
    wanted = get_hardware(chip).key
    if wanted not in present:
        raise InvalidValueError(
            f"--chip {wanted}: {table.name} has no row of it. It has {', '.join(present) or 'no chip of the registry'}."
        )
    return (wanted,)


def _targets(output: Path | None, devices: tuple[str, ...], table_file: Path) -> dict[str, Path]:
    """Return the file of each chip, for its products; attention goes beside it.

    Raises `InvalidValueError` when several chips would share one, or when one of the files is not ours to replace.
    """
    from roofline_model.expected.fitting.fitted_files import fitted_paths

    if output is None:
        return {}
    if output.is_dir():
        targets = {device: output / f"{device}.toml" for device in devices}
    elif len(devices) > 1:
        raise InvalidValueError(
            f"the table has {len(devices)} chips ({', '.join(devices)}): choose one with --chip, or give -o a folder"
        )
    else:
        targets = dict.fromkeys(devices, output)
    for path in targets.values():
        products, attention = fitted_paths(path)
        if path != products:
            raise InvalidValueError(
                f"-o {path}: that name is for the attention of {products}; name that one, both are written"
            )
        _check_target(path, table_file)
        _check_target(attention, table_file, beside=path)
    return targets


def _check_target(path: Path, table_file: Path, beside: Path | None = None) -> None:
    """Raise `InvalidValueError` unless `path` may be written; one that the user did not name (`beside`) only over its
    like.
    """
    from roofline_model.expected.fitting.fitted_files import is_attention_file

    check_output(path, None)
    check_is_not_input(path, {"the table that is fitted": table_file})
    if path.exists() and not path.is_file():
        raise InvalidValueError(
            f"{path} is not a regular file: constants go into a file and its neighbour for attention; name a file with "
            "-o"
        )
    if beside is not None and path.exists() and not is_attention_file(path):
        raise InvalidValueError(
            f"{path} (for the attention of {beside}) is not a file of `roofline fit` and is not overwritten; name "
            "another file with -o"
        )


def _older(targets: dict[str, Path], written: list[Path]) -> list[Path]:
    """Return files of earlier fits that are read together with those just written."""
    from roofline_model.expected.fitting.fitted_files import fitted_paths

    return [
        path for target in targets.values() for path in fitted_paths(target) if path.exists() and path not in written
    ]


def _source(table: KernelTable) -> str:
    """Return what the evidence says of the rows: the file, the start of its hash, and the origins it names."""
    origins = list(dict.fromkeys(filter(None, table.text("source"))))
    origins_text = f"; {', '.join(origins[:3])}" if origins else ""
    return f"{table.name}, SHA-256 {table.sha256[:16]}{origins_text}"


def _write(fitted: TableFit, targets: dict[str, Path], table: KernelTable) -> list[Path]:
    from roofline_model.expected.fitting.fitted_files import fitted_texts

    comment = f"Written by `roofline fit` from {table.name} (SHA-256 {table.sha256})."
    written = []
    for device, path in targets.items():
        for place, text in fitted_texts(fitted, device, path, comment):
            write_text(place, text)
            written.append(place)
    return written


def _blocks(fitted: TableFit, rows: KernelTable, written: list[Path], older: list[Path]) -> Iterator[Block]:
    yield Paragraph(f"{rows.name}: {counted(len(rows), 'row')}", "verdict")
    yield blocks.table("Fits", _FITS, fitted.reports)
    yield Paragraph(
        "Fitted: mean |error| of the rows that were fitted; Unseen: of rows left out of the fit, by shape (5 folds).",
        "quiet",
    )
    yield from (Paragraph(f"  left out: {subject_text(item)}") for item in fitted.left_out)
    yield from (Paragraph(f"  doubtful: {subject_text(item)}", "warning") for item in fitted.doubts)
    yield from (Paragraph(f"written to {path}") for path in written)
    for path in older:
        yield Paragraph(f"{path} is of an earlier fit and stays: --constants reads it, too")
    if written:
        yield Paragraph(f"compare: roofline validate FILE --constants {written[0]}")


def _unseen(report: FitReport, name: str) -> float | None:
    return getattr(report.cross_validated, name) if report.cross_validated else None


_FITS = (
    Column("Device", lambda report: report.device, is_head=True),
    Column("Operator", lambda report: report.op),
    Column("Part", lambda report: report.part),
    Column("Rows", lambda report: str(report.fitted.row_count), "number"),
    Column("Fitted", lambda report: format_percent(report.in_sample.mape_ratio), "number"),
    Column("Unseen", lambda report: format_percent(_unseen(report, "mape_ratio")), "number"),
    Column("Median", lambda report: format_percent(_unseen(report, "median_ratio")), "number"),
    Column("Bias", lambda report: format_percent(_unseen(report, "bias_ratio"), signed=True), "number", drop=1),
    Column("In 80 %", lambda report: format_percent(_unseen(report, "coverage_ratio"), 0), "number", drop=2),
    Column("Start", lambda report: report.started_from, drop=4),
    Column("At a bound", lambda report: ", ".join(report.fitted.at_bound) or "–", "prose", drop=3),
)


def _document(fitted: TableFit, table: KernelTable, written: list[Path]) -> dict[str, Any]:
    return {
        "file": table.name,
        "sha256": table.sha256,
        "row_count": len(table),
        "written": [str(path) for path in written],
        "fits": [
            {
                "device": report.device,
                "op": report.op,
                "part": report.part,
                "started_from": report.started_from,
                "row_count": report.fitted.row_count,
                "constants": dict(report.fitted.values),
                "relative_spreads": dict(report.fitted.spreads),
                "at_bound": list(report.fitted.at_bound),
                "in_sample": asdict(report.in_sample),
                "cross_validated": None if report.cross_validated is None else asdict(report.cross_validated),
            }
            for report in fitted.reports
        ],
        "left_out": findings_json(fitted.left_out),
        "doubts": findings_json(fitted.doubts),
    }
