"""`roofline sweep`: predictions over a grid of products, to a table on screen or a CSV or Parquet file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.present import blocks
from reports.present.blocks import Column
from reports.present.screen import present
from roofline_cli.screen.output_file import check_output, written_file
from roofline_cli.screen.progress_bar import progress_bar
from roofline_cli.shared.options import (
    FormatsFileOption,
    FormatsOption,
    JsonOption,
    find_chip,
    register_formats,
    split_list,
)
from roofline_model.core.errors import InvalidValueError, MissingDependencyError
from roofline_model.core.units import counted, format_time
from roofline_model.formats.catalog import format_pair

if TYPE_CHECKING:
    import pandas as pd

COMMANDS = {
    "sweep": ("sweep", "Predict a whole grid of products, to CSV or Parquet."),
}

SHOWN_ROWS = 20
MAX_JSON_ROWS = 100_000

_AXIS = "1,16,64 or 128:1024:128 or 1:4096:*2"


def sweep(
    M: Annotated[str, typer.Option("-M", metavar="SIZES", help=f"Rows of A and C: {_AXIS}.")],
    N: Annotated[str, typer.Option("-N", metavar="SIZES", help="Columns of B and C, written like -M.")],
    K: Annotated[str, typer.Option("-K", metavar="SIZES", help="Columns of A, rows of B, written like -M.")],
    hw: Annotated[str, typer.Option("--hw", metavar="LIST", help="Chips, comma-separated.")] = "auto",
    formats: FormatsOption = None,
    cache: Annotated[
        str, typer.Option("--cache", metavar="cold|warm", help="Weights from memory, or still in the cache.")
    ] = "cold",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write all rows: .csv or .parquet.")
    ] = None,
    formats_file: FormatsFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict a whole grid of products, to CSV or Parquet."""
    from roofline_model.sweep import GemmGrid, parse_axis, sweep_gemm

    if cache not in ("cold", "warm"):
        raise InvalidValueError(f"--cache must be cold or warm, got {cache[:40]!r}")
    _check_output(output)
    user_formats = register_formats(formats_file)
    chips = tuple(find_chip(name.strip()) for name in dict.fromkeys(hw.split(",")))
    wide = "BF16" if any(chip.declares("BF16") for chip in chips) else "FP16"
    names = split_list(formats) or [wide, *(fmt.key for fmt in user_formats)]
    axes = [parse_axis(f"-{letter}", text) for letter, text in (("M", M), ("N", N), ("K", K))]
    grid = GemmGrid(axes[0], axes[1], axes[2], chips, tuple(format_pair(name) for name in names))
    if as_json and output is None and grid.row_count > MAX_JSON_ROWS:
        raise InvalidValueError(
            f"--json prints at most {MAX_JSON_ROWS:,} rows, the sweep has {grid.row_count:,}; write a file with -o"
        )
    began = time.perf_counter()
    with progress_bar("sweep", is_quiet=as_json) as progress:
        table = sweep_gemm(grid, cache=cache, progress=progress)
    seconds = time.perf_counter() - began
    if output is not None:
        _write(table, output)
    rows = _plain_rows(table) if as_json and output is None else None
    present(
        lambda: {
            "row_count": len(table),
            "seconds": seconds,
            "file": None if output is None else str(output),
            "rows": rows,
        },
        lambda: _blocks(table, seconds, output),
        as_json=as_json,
    )


def _check_output(output: Path | None) -> None:
    if output is None:
        return
    if output.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidValueError(f"-o {output}: name a .csv or .parquet file")
    check_output(output, None)
    if output.suffix.lower() == ".parquet":
        from importlib.util import find_spec

        if find_spec("pyarrow") is None:
            raise MissingDependencyError("pyarrow", "parquet", "writing Parquet")


def _write(table: pd.DataFrame, output: Path) -> None:
    with written_file(output) as place:
        if output.suffix.lower() == ".parquet":
            table.to_parquet(place, index=False)
        else:
            table.to_csv(place, index=False)


def _plain_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as JSON values: what is not known is null."""
    plain = table.astype(object)
    rows: list[dict[str, Any]] = plain.where(table.notna(), None).to_dict("records")  # type: ignore[assignment]
    return rows


def _blocks(table: pd.DataFrame, seconds: float, output: Path | None) -> Iterator[blocks.Block]:
    columns = _SWEEP if "expected_s" in table else _SWEEP[:_IDEAL_COUNT]
    yield blocks.table("Sweep", columns, list(table.head(SHOWN_ROWS).itertuples()))
    if len(table) > SHOWN_ROWS:
        yield blocks.Paragraph(f"… and {counted(len(table) - SHOWN_ROWS, 'more row')}")
    for column in ("finding", "reason"):
        for text, count in table[column].value_counts(sort=False).items():
            if text:
                yield blocks.Paragraph(f"{count:,} row{'s' if count > 1 else ''}: {text}")
    rate = f"{len(table):,} prediction{'s' if len(table) > 1 else ''} in {seconds:.2g} s"
    yield blocks.Paragraph(f"{rate} → {output}" if output is not None else rate)


def _pair(row: Any) -> str:
    weight, activation = str(row.weight_format), str(row.activation_format)
    return weight if weight == activation else f"{weight}.{activation}"


def _seconds(value: Any) -> blocks.Cell:
    return blocks.time_cell(None if value != value else float(value))


def _interval(row: Any) -> str:
    low, high = _time(row.expected_low_s), _time(row.expected_high_s)
    return "–" if low == "–" else f"{low} to {high}"


def _time(seconds: Any) -> str:
    return "–" if seconds != seconds else format_time(float(seconds))


_SWEEP = (
    Column("Chip", lambda row: row.hardware, drop=3),
    Column("M", lambda row: f"{row.M}", "number"),
    Column("N", lambda row: f"{row.N}", "number"),
    Column("K", lambda row: f"{row.K}", "number"),
    Column("Format", _pair),
    Column("Ideal", lambda row: _seconds(row.ideal_s), "number"),
    Column("Bound", lambda row: row.bound or "–"),
    Column("Expected", lambda row: _seconds(row.expected_s), "number"),
    Column("80 %", _interval, "number", drop=4),
    Column("Binding", lambda row: row.binding or "–", drop=2),
)
_IDEAL_COUNT = 7
"""Columns of a sweep that asks for no expected time."""
