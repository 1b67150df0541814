"""The rows of the CSV export as Parquet: numbers as numbers, texts exactly, written a few hundred rows at a time."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from results.exchange.exported.export import flat_lots
from results.exchange.exported.flat import COLUMNS
from roofline_model.core.errors import MissingDependencyError

if TYPE_CHECKING:
    from results.store.query import FoundRun
    from results.store.store import ResultStore

Kind = Literal["text", "float", "int", "bool"]

_WHOLE = frozenset({"M", "N", "K", "process_ordinal", "process_pid"})
_FRACTIONAL = frozenset({"effective_sample_count", "kernel_count"})
"""A count per call, and what a series is worth: no whole numbers."""
_UNITS = (
    "_s",
    "_bytes",
    "_ratio",
    "_hz",
    "_w",
    "_j",
    "_c",
    "_flop_per_byte",
    "_per_token",
    "_perplexity",
    "_low",
    "_high",
)


def write_parquet(store: ResultStore, runs: Iterable[FoundRun], path: Path) -> int:
    """Write a row per record, columns as in the CSV, null where nothing is known; return how many rows there are.

    Bytes are 64-bit floats: whole up to 2**53. Raises `MissingDependencyError` without pyarrow.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError("pyarrow", "parquet", "writing Parquet") from None
    types = {"text": pyarrow.string(), "float": pyarrow.float64(), "int": pyarrow.int64(), "bool": pyarrow.bool_()}
    schema = pyarrow.schema([(name, types[column_kind(name)]) for name in COLUMNS])
    count = 0
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in flat_lots(store, runs):
            columns = {name: [_value(row[name], column_kind(name)) for row in rows] for name in COLUMNS}
            writer.write_table(pyarrow.table(columns, schema=schema))
            count += len(rows)
    return count


def column_kind(name: str) -> Kind:
    """Return the type of a column of the flat rows, read from the unit in its name."""
    if name.startswith("is_") or "_is_" in name:
        return "bool"
    if name in _WHOLE or (name.endswith("_count") and name not in _FRACTIONAL):
        return "int"
    is_number = name == "flops" or name in _FRACTIONAL or name.endswith(_UNITS)
    return "float" if is_number else "text"


def _value(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind == "float":
        return float(value)
    # Halves of surrogate pairs come from file names that are not UTF-8 and cannot be written to a file.
    return value.encode("utf-8", "replace").decode() if kind == "text" else value
