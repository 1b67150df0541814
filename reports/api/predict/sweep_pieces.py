"""The computing behind POST /api/sweep, in pieces: a worker does one after the other, and the server stays free between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from reports.api.catalog.chip_lookup import find_chip
from reports.api.http.problem import FieldProblem, ProblemError, naming
from reports.api.predict.analysis_models import SweepRequest
from reports.text.display_text import counted
from roofline_model.chips.hardware import Device
from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import NumberFormat
from roofline_model.operators.product import compute_format

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

PIECE_ROWS = 8_192
"""Rows of a piece: long enough for numpy, short enough to hold no lock for long and to arrive at once."""
MOST_GRIDS = 64
"""Small grids of several chips and formats that make up a piece: each takes milliseconds, however small."""

Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
Pair = tuple[NumberFormat, NumberFormat]
Chip = str | Device
"""A key of the catalog, or a chip that no worker knows by a name."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Some of the products of one series."""

    series_index: int
    chip: Chip
    pair: Pair
    sizes: Axes


@dataclass(frozen=True, slots=True)
class Columns:
    """What was predicted of a `Grid`."""

    series_index: int
    head: dict[str, Any]
    """The fields of `SweepSeries` that are no lists."""
    lists: dict[str, bytes]
    """Column → the inside of its JSON list."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep that was found possible."""

    axes: Axes
    point_count: int
    series_count: int
    pieces: tuple[tuple[Grid, ...], ...]
    """In the order of the series and of their products."""


def plan(body: SweepRequest, asked: Sequence[Chip], most: int) -> Plan:
    """Check a sweep and cut it; raises `ProblemError` that names the field of a wrong axis or format, or says it is too large."""
    from roofline_model.sweep import format_pairs

    with naming("formats"):
        pairs = tuple(dict.fromkeys(format_pairs(body.formats)))
    axes = (_axis("M", body.M, most), _axis("N", body.N, most), _axis("K", body.K, most))
    shape_count = len(axes[0]) * len(axes[1]) * len(axes[2])
    series = [(chip, pair) for chip in asked for pair in pairs]
    point_count = shape_count * len(series)
    if point_count > most:
        raise _too_many(
            "M",
            f"{point_count:,} predictions: {counted(shape_count, 'product')} × {counted(len(asked), 'chip')} × {counted(len(pairs), 'format')}",
            most,
        )
    cut = tuple(_pieces(axes))
    together = min(MOST_GRIDS, max(1, PIECE_ROWS // shape_count))
    grids = [Grid(place, chip, pair, sizes) for place, (chip, pair) in enumerate(series) for sizes in cut]
    pieces = tuple(tuple(grids[at : at + together]) for at in range(0, len(grids), together))
    return Plan(axes, point_count, len(series), pieces)


def columns(grids: Sequence[Grid], cache: str, with_expected: bool) -> list[Columns]:
    """Predict the grids of a piece."""
    return [_columns(grid, cache, with_expected) for grid in grids]


def _columns(grid: Grid, cache: str, with_expected: bool) -> Columns:
    from roofline_model.sweep import GemmGrid, sweep_gemm

    chip = grid.chip if isinstance(grid.chip, Device) else find_chip(grid.chip)
    weight, activation = grid.pair
    table = sweep_gemm(GemmGrid(*grid.sizes, (chip,), (grid.pair,)), cache=cache, with_expected=with_expected)
    provenance = str(table["provenance"].iat[0]) if with_expected else ""
    head = {
        "hardware": chip.key,
        "weight_format": weight.key,
        "activation_format": activation.key,
        "reason": str(table["reason"].iat[0]) or None,
        "provenance": provenance or None,
        "peak_flops_per_s": _peak(chip, grid.pair),
        "bandwidth_bytes_per_s": chip.bandwidth.value,
    }
    if not with_expected:
        head |= dict.fromkeys(("expected_s", "expected_low_s", "expected_high_s"))
    lists = {name: _list_items(values) for name, values in _values(table, with_expected).items()}
    return Columns(grid.series_index, head, lists)


def _axis(name: str, given: int | list[int] | str, most: int) -> tuple[int, ...]:
    """Return the sizes of one axis, sorted, each once."""
    from roofline_model.sweep import parse_axis

    if isinstance(given, int):
        return (given,)
    if isinstance(given, list):
        return tuple(sorted(set(given)))
    for part in given.split(","):
        bounds = [piece.strip() for piece in part.split(":")]
        # A range is counted before it is made: it may name a million sizes in a few characters.
        if len(bounds) == 3 and all(bound.isdecimal() and bound.isascii() and len(bound) < 12 for bound in bounds):
            start, stop, step = map(int, bounds)
            if step and (stop - start) // step >= most:
                raise _too_many(name, f"{(stop - start) // step + 1:,} sizes in {part.strip()[:40]!r}", most)
    with naming(name):
        return parse_axis(name, given)


def _too_many(field: str, what: str, most: int) -> ProblemError:
    message = f"the sweep has {what}, more than {most:,}: use coarser steps, fewer formats or fewer chips"
    return ProblemError(
        422, "sweep-too-large", message, fields=(FieldProblem(field=field, location="body", message=message),)
    )


def _values(table: pd.DataFrame, with_expected: bool) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    ideal_s = table["ideal_s"].to_numpy()
    bound = table["bound"].to_numpy(dtype=object)
    is_memory = np.full(len(bound), None, dtype=object)
    is_memory[bound == "memory"], is_memory[bound == "compute"] = True, False
    values = {
        "ideal_s": ideal_s,
        "is_memory_bound": is_memory,
        "intensity_flop_per_byte": table["flops"].to_numpy() / table["bytes"].to_numpy(),
    }
    if with_expected:
        values |= {name: table[name].to_numpy() for name in ("expected_s", "expected_low_s", "expected_high_s")}
    return values


def _peak(chip: Device, pair: Pair) -> float | None:
    weight, activation = pair
    try:
        return chip.peak_flops_per_s(compute_format(activation, weight))
    except UnsupportedError:
        return None


def shapes(axes: Axes) -> list[bytes]:
    """Return `SweepShapes` as parts of its JSON: M slowest, K fastest."""
    m, n, k = axes
    inner = len(n) * len(k)
    listed = {
        "M": [size for size in m for _ in range(inner)],
        "N": [size for size in n for _ in k] * len(m),
        "K": list(k) * (len(m) * len(n)),
    }
    parts: list[bytes] = []
    for name, values in listed.items():
        parts += [b'%s"%s":[' % (b"," if parts else b"{", name.encode()), _list_items(values), b"]"]
    return [*parts, b"}"]


def _list_items(values: Any) -> bytes:
    """Return numbers as the inside of a JSON list; NaN and infinity become null."""
    return to_json(values if isinstance(values, list) else values.tolist(), inf_nan_mode="null")[1:-1]


def _pieces(axes: Axes) -> Iterator[Axes]:
    """Cut a grid into grids of at most `PIECE_ROWS` products that follow each other in its own order."""
    m, n, k = axes
    if len(m) * len(n) * len(k) <= PIECE_ROWS:
        yield axes
        return
    # The slowest axis that has more than one size is halved, so that the order stays.
    at = next(index for index, axis in enumerate(axes) if len(axis) > 1)
    middle = len(axes[at]) // 2
    for half in (axes[at][:middle], axes[at][middle:]):
        cut = [*axes]
        cut[at] = half
        yield from _pieces((cut[0], cut[1], cut[2]))
