"""The attention constants that ship with the package (`constants/attention-*.toml`), read, written and looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from roofline_model.core.definition_text import parse_definition, shown
from roofline_model.core.errors import DefinitionError, RooflineError, UnsupportedError
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.attention.correction import GRIDS, AttentionCorrection
from roofline_model.expected.attention.fitted.constants import PHASES, WIDTHS, FittedAttention
from roofline_model.expected.attention.fitted.transfer import nearest
from roofline_model.expected.products.fitted.constants import Evidence

SCHEMA = 1
"""Layout of the file."""
FILE_PREFIX = "attention-"


@cache
def shipped_attention() -> tuple[FittedAttention, ...]:
    """Return the constants of every chip and phase that ship with the package."""
    folder = resources.files("roofline_model.expected").joinpath("constants")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.startswith(FILE_PREFIX))
    return tuple(
        one
        for name in names
        for one in read_attention(folder.joinpath(name).read_text(encoding="utf-8"), f"expected/constants/{name}")
    )


@lru_cache(maxsize=256)
def find_attention(
    chip: AttentionChip, phase: str, known: tuple[FittedAttention, ...] | None = None
) -> FittedAttention:
    """Return the constants for `chip`: its own, else those of the nearest relative, rescaled.

    `known` replaces the shipped library. Raises `UnsupportedError` when no chip of a related family was measured.
    """
    library = shipped_attention() if known is None else known
    own = [one for one in library if one.chip.key == chip.key and one.phase == phase]
    if own:
        return own[0]
    found = nearest(chip, phase, library)
    if found is None:
        measured = ", ".join(sorted({f"{one.chip.key} ({one.chip.family})" for one in library})) or "none"
        raise UnsupportedError(
            f"no expected {phase} attention for {chip.key} ({chip.family}): no chip of its family was measured. "
            f"Measured: {measured}. Fit constants with `roofline fit --from FILE`; the ideal roofline stands."
        )
    return found


def read_attention(text: str, where: str) -> list[FittedAttention]:
    """Return the phases of one constants file; `where` names it in messages.

    Raises `DefinitionError` for anything missing, unknown or out of range.
    """
    try:
        data = parse_definition(text)
    except ValueError as error:
        raise DefinitionError(f"constants file {where} cannot be read as TOML: {error}") from None
    _only(where, data, ("schema", "device", "spec", *PHASES))
    if data.get("schema") != SCHEMA:
        raise DefinitionError(f"constants file {where}: schema must be {SCHEMA}, got {shown(data.get('schema'))}")
    try:
        chip = AttentionChip(key=data["device"], **{"peak_8bit_flops_per_s": None, **data["spec"]})
    except (KeyError, TypeError, RooflineError) as error:
        raise DefinitionError(f"constants file {where}: device or [spec] is incomplete: {error}") from None
    found = [_phase(f"{where}, [{phase}]", chip, phase, data[phase]) for phase in PHASES if phase in data]
    if not found:
        raise DefinitionError(f"constants file {where}: needs [prefill] or [decode]")
    return found


def attention_text(fitted: Sequence[FittedAttention], *, comment: str = "") -> str:
    """Return the TOML text of the phases of one chip; `read_attention` reads it back to equal values."""
    chip = fitted[0].chip
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"schema = {SCHEMA}", f'device = "{chip.key}"', "", "[spec]"]
    lines += [f"{name} = {_plain(value)}" for name, value in chip.to_dict().items() if name != "key"]
    for one in fitted:
        if one.chip.key != chip.key:
            raise DefinitionError(f"one constants file is one chip: got {chip.key} and {one.chip.key}")
        lines += ["", f"[{one.phase}.constants]", *(f"{name} = {_plain(value)}" for name, value in one.values.items())]
        lines += ["", f"[{one.phase}.interval]"]
        lines += [f"{regime} = [{low!r}, {high!r}]" for regime, (low, high) in one.intervals.items()]
        named = {field.name: getattr(one.evidence, field.name) for field in fields(Evidence)}
        lines += ["", f"[{one.phase}.evidence]"]
        lines += [f"{name} = {_plain(value)}" for name, value in named.items() if value is not None]
        if one.correction is not None:
            lines += ["", f"[{one.phase}.correction]"]
            for width, values in one.correction.log_ratio.items():
                lines += [f"log_ratio_{width} = [", *_rows(values, len(GRIDS[one.phase].axes[-1])), "]"]
    return "\n".join(lines) + "\n"


def _phase(where: str, chip: AttentionChip, phase: str, table: Any) -> FittedAttention:
    if not isinstance(table, dict):
        raise DefinitionError(f"constants file {where}: must be a table")
    _only(where, table, ("constants", "interval", "evidence", "correction"))
    parts = [table.get(name) for name in ("constants", "interval", "evidence")]
    if not all(isinstance(part, dict) for part in parts):
        raise DefinitionError(f"constants file {where}: needs constants, interval and evidence")
    values, intervals, evidence = (dict(part) for part in parts if part is not None)
    try:
        # An unquoted TOML date is a date object; the record keeps text.
        told = Evidence(**{**evidence, "date": str(evidence.get("date", ""))})
        factors = {name: _pair(pair) for name, pair in intervals.items()}
        correction = _correction(f"{where}, correction", phase, table.get("correction"))
        return FittedAttention(chip, phase, values, factors, told, correction=correction)
    except (RooflineError, TypeError, ValueError) as error:
        raise DefinitionError(f"constants file {where}: {error}") from None


def _correction(where: str, phase: str, table: Any) -> AttentionCorrection | None:
    """Return the surfaces of a phase that has some; files from before they existed have none."""
    if table is None:
        return None
    if not isinstance(table, dict):
        raise DefinitionError(f"constants file {where}: must be a table")
    _only(where, table, [f"log_ratio_{width}" for width in WIDTHS])
    surfaces = {}
    for name, rows in table.items():
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise DefinitionError(f"constants file {where}: {name} must be a list of rows of numbers")
        surfaces[name.removeprefix("log_ratio_")] = tuple(float(value) for row in rows for value in row)
    return AttentionCorrection(phase, surfaces)


def _rows(values: Sequence[float], width: int) -> list[str]:
    """Return a surface as lines along its last axis."""
    return [
        f"  [{', '.join(f'{value:g}' for value in values[begin : begin + width])}],"
        for begin in range(0, len(values), width)
    ]


def _pair(value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(one, int | float) for one in value):
        raise ValueError(f"an interval is [low, high], got {shown(value)}")
    return float(value[0]), float(value[1])


def _only(where: str, table: dict[str, Any], known: Sequence[str]) -> None:
    for name in table:
        if name not in known:
            raise DefinitionError(f"constants file {where}: unknown field {shown(name)}; known: {', '.join(known)}")


def _plain(value: float | int | str) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(ch if ch.isprintable() else " " for ch in escaped) + '"'
    return repr(value)
