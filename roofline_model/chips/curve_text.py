"""Kernel curves as plain values, and back: `[calibration.kernels]` of a chip file.

    "product int4pack BF16.INT4.BF16" = { sd_ratio = 0.06, points = { 1 = [[819200, 2.7e-05], [4177920, 0.000138, 0.000141]] } }

regime → [units, seconds of each look, the newest last] by rising units; `curve.py` says what the units are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from roofline_model.chips.curve import BLOCKS, PRODUCT, CurvePoint, KernelCurve
from roofline_model.core.definition_text import shown
from roofline_model.core.errors import DefinitionError

_SECONDS, _UNITS = (1e-12, 1e6), (1.0, 1e20)
"""Least and most that is not taken for a slip."""


def curves_to_dict(curves: Iterable[KernelCurve]) -> dict[str, Any]:
    """Return {`family kernel formats`: scatter and points}."""
    return {
        f"{curve.family} {curve.kernel} {'.'.join(curve.formats)}": {
            "sd_ratio": curve.sd_ratio,
            "points": {
                regime: [[one.unit_count, *one.looks_s] for one in points] for regime, points in curve.points.items()
            },
        }
        for curve in curves
    }


def curves_from_dict(table: Any, where: str) -> tuple[KernelCurve, ...]:
    """Return the curves that `curves_to_dict` wrote; raises `DefinitionError` naming `where` and the kernel that is wrong."""
    if not isinstance(table, Mapping):
        raise DefinitionError(f"{where}: [calibration.kernels] must be a table, got {shown(table)}")
    return tuple(_curve(str(name), one, f"{where}: [calibration.kernels] {shown(name)}") for name, one in table.items())


def _curve(name: str, table: Any, where: str) -> KernelCurve:
    words = name.split(" ")
    if len(words) != 3 or not all(words):
        raise DefinitionError(f"{where} must be named `family kernel formats`, e.g. product matmul BF16.BF16.BF16")
    if not isinstance(table, Mapping) or set(table) != {"sd_ratio", "points"}:
        raise DefinitionError(f"{where} needs exactly sd_ratio and points")
    points = table["points"]
    if not isinstance(points, Mapping) or not points:
        raise DefinitionError(f"{where} points must be a table of at least one regime, got {shown(points)}")
    for regime in points:
        _check_regime(str(regime), words[0], where)
    return KernelCurve(
        family=words[0],
        kernel=words[1],
        formats=tuple(words[2].split(".")),
        points={str(regime): _points(one, f"{where} points.{regime}") for regime, one in points.items()},
        sd_ratio=_number(table["sd_ratio"], f"{where} sd_ratio", 1e-6, 10.0),
    )


def _check_regime(regime: str, family: str, where: str) -> None:
    """Refuse a regime nobody would look up: row counts belong to products and blocks, words to everything else."""
    if family in (PRODUCT, *BLOCKS):
        is_count = regime.isascii() and regime.isdecimal() and len(regime) < 13 and not regime.startswith("0")
        if not is_count:
            raise DefinitionError(f"{where} points must be keyed by row counts, got {shown(regime)}")
    elif not (regime.isascii() and regime.isalpha()):
        raise DefinitionError(f"{where} points must be keyed by a word such as any or causal, got {shown(regime)}")


def _points(value: Any, where: str) -> tuple[CurvePoint, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise DefinitionError(f"{where} must be a list of [units, seconds, …], got {shown(value)}")
    points = []
    for one in value:
        if not isinstance(one, list | tuple) or len(one) < 2:
            raise DefinitionError(f"{where} must hold lists [units, seconds, …], got {shown(one)}")
        looks = tuple(_number(seconds, f"{where} seconds", *_SECONDS) for seconds in one[1:])
        points.append(CurvePoint(_number(one[0], f"{where} units", *_UNITS), looks))
    units = [one.unit_count for one in points]
    if any(later <= earlier for earlier, later in pairwise(units)):
        raise DefinitionError(f"{where} must go by rising units, got {', '.join(f'{one:g}' for one in units)}")
    return tuple(points)


def _number(value: Any, where: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise DefinitionError(f"{where} must be a number from {least:g} to {most:g}, got {shown(value)}")
    return float(value)
