"""Fitted GEMM constants as TOML: one file per chip, the chip's numbers once, one `[[gemm]]` table per kernel family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from roofline_model.core.definition_text import parse_definition, shown
from roofline_model.core.errors import DefinitionError, RooflineError
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.intervals import IntervalTable
from roofline_model.expected.products.correction import KNOTS_K, Correction
from roofline_model.expected.products.fitted.constants import Evidence, FittedGemm, GemmConstants, from_values
from roofline_model.expected.products.formats import KERNEL_FAMILIES

SCHEMA = 1
"""Layout of the file."""

_CHIP_FIELDS = ("family", "sm_count", "clock_hz", "bandwidth_bytes_per_s", "l2_bytes")
_TABLE_FIELDS = ("format", "peak_flops_per_s", "constants", "interval", "evidence")


def read_constants(text: str, where: str) -> list[FittedGemm]:
    """Return the fitted kernel families of one constants file.

    `where` names the file in messages. Raises `DefinitionError` for anything missing, unknown or out of range.
    """
    try:
        data = parse_definition(text)
    except ValueError as error:
        raise DefinitionError(f"constants file {where} cannot be read as TOML: {error}") from None
    _only(where, data, ("schema", "device", "spec", "gemm"))
    if data.get("schema") != SCHEMA:
        raise DefinitionError(f"constants file {where}: schema must be {SCHEMA}, got {shown(data.get('schema'))}")
    device = data.get("device")
    if not isinstance(device, str) or not device:
        raise DefinitionError(f"constants file {where}: device must name the chip")
    spec = _table(f"{where}, [spec]", data.get("spec"))
    _only(f"{where}, [spec]", spec, _CHIP_FIELDS, all_needed=True)
    tables = data.get("gemm")
    if not isinstance(tables, list) or not tables:
        raise DefinitionError(f"constants file {where}: needs at least one [[gemm]] table")
    found = [_fitted(f"{where}, [[gemm]] {number}", device, spec, table) for number, table in enumerate(tables, 1)]
    names = [one.family for one in found]
    if len(set(names)) < len(names):
        raise DefinitionError(f"constants file {where}: a format has two [[gemm]] tables; keep one of each")
    return found


def constants_text(fitted: Sequence[FittedGemm], *, comment: str = "") -> str:
    """Return the TOML text of the kernel families of one chip; `read_constants` reads it back to equal values."""
    chip = fitted[0].chip
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"schema = {SCHEMA}", f"device = {_text(chip.key)}", "", "[spec]"]
    lines += [f"{name} = {_value(getattr(chip, name))}" for name in _CHIP_FIELDS]
    for one in fitted:
        if one.chip.key != chip.key:
            raise DefinitionError(f"one constants file is one chip: got {chip.key} and {one.chip.key}")
        lines += [
            "",
            "[[gemm]]",
            f"format = {_text(one.family)}",
            f"peak_flops_per_s = {_value(one.chip.peak_flops_per_s)}",
        ]
        lines += ["", "[gemm.constants]", *_pairs(one.constants)]
        lines += ["", "[gemm.interval]"]
        lines += [f"{name} = [{low!r}, {high!r}]" for name, (low, high) in one.intervals.pairs().items()]
        lines += ["", "[gemm.evidence]", *_pairs(one.evidence)]
        if one.correction is not None:
            lines += ["", "[gemm.correction]", "log_ratio = [", *_grid(one.correction), "]"]
    return "\n".join(lines) + "\n"


def _fitted(where: str, device: str, spec: dict[str, Any], table: Any) -> FittedGemm:
    table = _table(where, table)
    _only(where, table, (*_TABLE_FIELDS, "correction"))
    _needs(where, table, _TABLE_FIELDS)
    family = table["format"]
    if family not in KERNEL_FAMILIES:
        raise DefinitionError(f"{where}: format must be one of {', '.join(KERNEL_FAMILIES)}, got {shown(family)}")
    constants, interval, evidence = (_table(f"{where}, {name}", table[name]) for name in _TABLE_FIELDS[2:])
    try:
        chip = ChipSpec(key=device, peak_flops_per_s=table["peak_flops_per_s"], **spec)
        values = from_values(constants, chip.family, family)
        pairs = {name: (pair[0], pair[1]) for name, pair in interval.items() if len(pair) == 2}
        correction = _correction(f"{where}, correction", table.get("correction"))
        return FittedGemm(
            family, chip, values, IntervalTable.from_pairs(pairs), _evidence(evidence), correction=correction
        )
    except (RooflineError, TypeError, KeyError) as error:
        raise DefinitionError(f"constants file {where}: {error}") from None


def _correction(where: str, table: Any) -> Correction | None:
    """Return the surface of a table that has one; TOML keeps it as rows of one (m, n) each."""
    if table is None:
        return None
    _only(where, _table(where, table), ("log_ratio",), all_needed=True)
    rows = table["log_ratio"]
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise DefinitionError(f"{where}: log_ratio must be a list of rows of numbers")
    return Correction(tuple(float(value) for row in rows for value in row))


def _evidence(table: dict[str, Any]) -> Evidence:
    known = [field.name for field in fields(Evidence)]
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise DefinitionError(f"unknown field {shown(unknown[0])} in evidence; known: {', '.join(known)}")
    # An unquoted TOML date is a date object; the record keeps text.
    return Evidence(**{**table, "date": str(table.get("date", ""))})


def _table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DefinitionError(f"constants file {where}: must be a table")
    return value


def _only(where: str, table: dict[str, Any], known: Sequence[str], *, all_needed: bool = False) -> None:
    for name in table:
        if name not in known:
            raise DefinitionError(f"constants file {where}: unknown field {shown(name)}; known: {', '.join(known)}")
    _needs(where, table, known if all_needed else ())


def _needs(where: str, table: dict[str, Any], names: Sequence[str]) -> None:
    for name in names:
        if name not in table:
            raise DefinitionError(f"constants file {where}: field {name!r} is missing")


def _pairs(value: GemmConstants | Evidence) -> list[str]:
    named = {field.name: getattr(value, field.name) for field in fields(value)}
    return [f"{name} = {_value(one)}" for name, one in named.items() if one is not None]


def _grid(correction: Correction) -> list[str]:
    """Return the surface as rows along k, one per (m, n)."""
    values, width = correction.log_ratio, len(KNOTS_K)
    return [
        f"  [{', '.join(f'{value:g}' for value in values[begin : begin + width])}],"
        for begin in range(0, len(values), width)
    ]


def _value(value: float | int | str) -> str:
    if isinstance(value, str):
        return _text(value)
    return repr(int(value)) if float(value).is_integer() and abs(value) < 1e6 else f"{float(value)!r}"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(ch if ch.isprintable() else " " for ch in escaped) + '"'
