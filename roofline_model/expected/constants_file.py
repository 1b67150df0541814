"""What files of fitted constants share, of products and attention: header, evidence, surfaces, strict fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from roofline_model.core.definition_text import parse_definition, shown
from roofline_model.core.errors import DefinitionError

SCHEMA = 1
"""Layout of the files."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where constants come from and how well they predict rows that they were not fitted on."""

    source: str
    row_count: int
    date: str
    """ISO date of the fit."""
    in_sample_mape_ratio: float | None = None
    cv_mape_ratio: float | None = None
    """Mean |error| over 5 folds grouped by (n, k)."""
    cv_median_ratio: float | None = None
    cv_p90_ratio: float | None = None
    cv_bias_ratio: float | None = None
    """Mean signed error, (predicted − measured) / measured."""
    coverage_ratio: float | None = None
    """Share of the folds' rows inside the 80 % interval."""


def read_header(text: str, where: str, allowed: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a constants file; raises `DefinitionError` for an unknown one or another schema."""
    try:
        data = parse_definition(text)
    except ValueError as error:
        raise DefinitionError(f"constants file {where} cannot be read as TOML: {error}") from None
    only(where, data, allowed)
    if data.get("schema") != SCHEMA:
        raise DefinitionError(f"constants file {where}: schema must be {SCHEMA}, got {shown(data.get('schema'))}")
    return data


def table_at(where: str, value: Any) -> dict[str, Any]:
    """Return a value that must be a table."""
    if not isinstance(value, dict):
        raise DefinitionError(f"constants file {where}: must be a table")
    return value


def only(where: str, table: dict[str, Any], allowed: Sequence[str], needed: Sequence[str] = ()) -> None:
    """Raise `DefinitionError` for a field that is not allowed, or one that is needed and missing."""
    for name in table:
        if name not in allowed:
            raise DefinitionError(f"constants file {where}: unknown field {shown(name)}; known: {', '.join(allowed)}")
    for name in needed:
        if name not in table:
            raise DefinitionError(f"constants file {where}: field {name!r} is missing")


def read_evidence(table: dict[str, Any]) -> Evidence:
    """Return the evidence of a table; an unquoted TOML date is a date object, the record keeps text."""
    names = [field.name for field in fields(Evidence)]
    unknown = sorted(set(table) - set(names))
    if unknown:
        raise DefinitionError(f"unknown field {shown(unknown[0])} in evidence; known: {', '.join(names)}")
    return Evidence(**{**table, "date": str(table.get("date", ""))})


def read_surface(where: str, name: str, rows: Any) -> tuple[float, ...]:
    """Return a surface, which TOML keeps as rows along its last axis."""
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise DefinitionError(f"constants file {where}: {name} must be a list of rows of numbers")
    return tuple(float(value) for row in rows for value in row)


def surface_rows(values: Sequence[float], width: int) -> list[list[float]]:
    """Return a surface as a file keeps it: six digits, in rows along its last axis."""
    short = [float(f"{value:g}") for value in values]
    return [short[begin : begin + width] for begin in range(0, len(short), width)]


def check_one_chip(keys: Iterable[str]) -> None:
    """Raise `DefinitionError` where constants that go into one file are of several chips."""
    if len(names := list(dict.fromkeys(keys))) > 1:
        raise DefinitionError(f"one constants file is one chip: got {' and '.join(names)}")
