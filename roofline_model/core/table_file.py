"""Read a table that somebody else wrote (CSV or Parquet) as text, within limits that hold before it is unpacked.

A Parquet file of 2 KB may stand for gigabytes: one long text that every row repeats, or millions of equal rows. It may
hold no more than the CSV that says the same.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline_model.core.errors import InvalidValueError, MissingDependencyError

MAX_TABLE_BYTES = 64 * 10**6
"""Half a million rows of kernels, of a file and of the text it stands for. Held in memory it is some ten times that."""
MAX_ROWS = 500_000
MAX_COLUMNS = 256
MAX_CELLS = 16_000_000
MAX_CELL_CHARS = 2**17
"""As many as Python's csv reads in one cell."""
_BATCH_ROWS = 2**15
_MAX_PARTS = 100_000
"""Columns × row groups of a Parquet file."""
_INDEX = re.compile("__index_level_[0-9]+__")
"""A column that pandas adds for an index without a name."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table as it was read: every cell as a CSV would hold it."""

    sha256: str
    """Of the file's bytes."""
    header: tuple[str, ...]
    rows: tuple[list[str], ...]
    """A row of a CSV may have more or fewer cells than the header."""
    line_numbers: tuple[int, ...]
    """Line of a CSV (the header is line 1), ordinal of a Parquet file's row."""


def read_table(path: Path, what: str) -> TextTable:
    """Return the rows of a table; the ending `.parquet` means Parquet, anything else CSV with a header line.

    `what` (kernel table, shape file) begins every message. Raises `InvalidValueError` for a file that is absent, no
    regular file, no table, without a header or beyond a limit; `MissingDependencyError` for Parquet without pyarrow.
    """
    named = f"{what} {cut(str(path))}"
    try:
        # Looked at before it is opened: a FIFO may never answer, a device never end.
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise InvalidValueError(f"{named} is {kind}; give the path of a CSV file")
        with path.open("rb") as stream:
            raw = stream.read(MAX_TABLE_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidValueError):
            raise
        why = getattr(error, "strerror", None) or error
        raise InvalidValueError(f"{named} cannot be read: {why}; give the path of a CSV file") from None
    if len(raw) > MAX_TABLE_BYTES:
        raise InvalidValueError(f"{named} is longer than {MAX_TABLE_BYTES // 10**6} MB: split it")
    read = _parquet if path.suffix.lower() == ".parquet" else _csv
    header, rows, lines = read(named, raw)
    return TextTable(hashlib.sha256(raw).hexdigest(), tuple(header), tuple(rows), tuple(lines))


def parquet_columns(path: Path, what: str) -> tuple[str, ...]:
    """Return the names of a Parquet file's columns; raises as `read_table` does."""
    pyarrow, parquet = _pyarrow()
    with _arrow_errors(pyarrow, f"{what} {cut(str(path))}"), parquet.ParquetFile(path) as file:
        return tuple(file.metadata.schema.names)


def check_extent(named: str, row_count: int, column_count: int) -> None:
    """Raise `InvalidValueError` for more rows, columns or cells than a table may have."""
    for count, most, unit in (
        (row_count, MAX_ROWS, "rows"),
        (column_count, MAX_COLUMNS, "columns"),
        (row_count * column_count, MAX_CELLS, "cells"),
    ):
        if count > most:
            raise InvalidValueError(f"{named} holds {count:,} {unit}, more than are read ({most:,}): split it")


def _csv(named: str, raw: bytes) -> tuple[list[str], list[list[str]], list[int]]:
    try:
        # A byte-order mark is what spreadsheets write first.
        reader = csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""), strict=True)
        header: list[str] | None = None
        rows: list[list[str]] = []
        lines: list[int] = []
        cell_count = 0
        for cells in reader:
            if not cells or cells == [""]:
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                check_extent(named, 0, len(header))
                continue
            cell_count += max(len(cells), len(header))
            if len(rows) == MAX_ROWS or cell_count > MAX_CELLS:
                raise InvalidValueError(
                    f"{named}, line {reader.line_num}: more than {MAX_ROWS:,} rows or {MAX_CELLS:,} cells: split it"
                )
            rows.append(cells)
            lines.append(reader.line_num)
    except UnicodeDecodeError:
        raise InvalidValueError(f"{named} is not UTF-8 text; save it as a UTF-8 CSV") from None
    except csv.Error as error:
        raise InvalidValueError(f"{named}, line {reader.line_num}: {error}; check the quotes of that line") from None
    if header is None:
        raise InvalidValueError(f"{named} is empty; the first line names the columns")
    return header, rows, lines


def _parquet(named: str, raw: bytes) -> tuple[list[str], list[list[str]], list[int]]:
    pyarrow, parquet = _pyarrow()
    with _arrow_errors(pyarrow, named):
        file = parquet.ParquetFile(io.BytesIO(raw))
        schema, metadata = file.schema_arrow, file.metadata
        check_extent(named, metadata.num_rows, len(schema))
        _check_columns(named, pyarrow, schema)
        _check_parts(named, metadata)
        names = [name for name in schema.names if not _INDEX.fullmatch(name)]
        texts = [name for name in names if _is_text(pyarrow, schema.field(name).type)]
        file = parquet.ParquetFile(io.BytesIO(raw), read_dictionary=texts)
        rows: list[list[str]] = []
        char_count = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            columns = []
            for name in names:
                column, count = _cells(named, pyarrow, name, batch.column(name), MAX_TABLE_BYTES - char_count)
                columns.append(column)
                char_count += count
            rows.extend(list(cells) for cells in zip(*columns, strict=True))
    return names, rows, list(range(1, len(rows) + 1))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError("pyarrow", "parquet", "reading a Parquet table") from None
    return pyarrow, pyarrow.parquet


@contextmanager
def _arrow_errors(pyarrow: Any, named: str) -> Iterator[None]:
    """Turn what pyarrow raises for a damaged file into one line."""
    try:
        yield
    except InvalidValueError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, KeyError) as error:
        raise InvalidValueError(
            f"{named} is not a readable Parquet file: {cut(str(error))}; or save it as CSV"
        ) from None


def _is_text(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _check_columns(named: str, pyarrow: Any, schema: Any) -> None:
    """Refuse columns that no CSV has: lists, structures and bytes may be of any size in a single cell."""
    types = pyarrow.types
    plain_kinds = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_decimal,
        types.is_temporal,
        types.is_null,
    )
    for field in schema:
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        if not (_is_text(pyarrow, kind) or any(is_kind(kind) for is_kind in plain_kinds)):
            raise InvalidValueError(
                f"{named}: column {cut(field.name, 40)} is of type {cut(str(kind), 40)}, not text, numbers, flags or "
                "dates: leave it out"
            )


def _check_parts(named: str, metadata: Any) -> None:
    """Refuse a file whose pages unpack to more than a table may hold, or repeat a part of the cell before."""
    if metadata.num_row_groups * metadata.num_columns > _MAX_PARTS:
        raise InvalidValueError(f"{named} has {metadata.num_row_groups:,} row groups: write fewer, or save it as CSV")
    unpacked_bytes = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for part in map(group.column, range(metadata.num_columns)):
            unpacked_bytes += part.total_uncompressed_size
            if "DELTA_BYTE_ARRAY" in part.encodings:  # a cell of megabytes may cost a byte
                raise InvalidValueError(
                    f"{named}: column {cut(part.path_in_schema, 40)} is stored as DELTA_BYTE_ARRAY, which is not read "
                    "here: save it as CSV"
                )
    if unpacked_bytes > 2 * MAX_TABLE_BYTES:
        raise _too_much(named)


def _too_much(named: str) -> InvalidValueError:
    return InvalidValueError(f"{named} unpacks to more than {MAX_TABLE_BYTES // 10**6} MB of text: split it")


def _cells(named: str, pyarrow: Any, name: str, column: Any, most_chars: int) -> tuple[list[str], int]:
    """Return a column's cells and how many characters they have; each distinct text is one object."""
    if not pyarrow.types.is_dictionary(column.type):
        cells = [_plain_cell(value) for value in column.to_pylist()]
        return cells, sum(map(len, cells))
    import pyarrow.compute as compute

    if _is_text(pyarrow, column.type) and len(column.dictionary):
        lengths = compute.binary_length(column.dictionary)
        longest, total = compute.max(lengths).as_py() or 0, compute.sum(lengths.take(column.indices)).as_py() or 0
        if longest > MAX_CELL_CHARS:
            raise InvalidValueError(
                f"{named}: a cell of column {cut(name, 40)} has {longest:,} bytes, more than {MAX_CELL_CHARS:,}"
            )
        if total > most_chars:
            raise _too_much(named)
    distinct = [_plain_cell(value) for value in column.dictionary.to_pylist()]
    cells = ["" if index is None else distinct[index] for index in column.indices.to_pylist()]
    return cells, sum(map(len, cells))


def _plain_cell(value: Any) -> str:
    """Return a Parquet value as a CSV would hold it: nothing for a missing one, whole numbers without a point."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return "" if str(value) == "<NA>" else str(value)


def cut(text: str, limit: int = 160) -> str:
    """Return the start of somebody's text, fit to be printed."""
    printable = "".join(ch if ch.isprintable() else "?" for ch in text[: limit + 1])
    return f"{printable[:limit]}…" if len(printable) > limit else printable
