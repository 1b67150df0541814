"""Predictions over whole grids of products: ideal and expected, vectorised with numpy; a DataFrame out.

The same counts and the same models as one prediction at a time (`roofline.predict`, `expected.predict_expected`):
tested against them. numpy and pandas are imported when a sweep runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from roofline_model.chips.hardware import Device
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import unsupported
from roofline_model.expected.predict import arrays_raised_to_ideal, predict_expected
from roofline_model.expected.products.product import ProductModel
from roofline_model.formats.catalog import NumberFormat, format_pair
from roofline_model.ideal.roofline import ProductRoof, memory_roof
from roofline_model.kernels.known_kernels import computed_activation, why_no_product_kernel
from roofline_model.operators.product import MAX_DIMENSION, default_output_format, gemm, stored_weight

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

MAX_ROWS = 10_000_000
"""A larger grid is taken for a slip: the table of this one takes about 2 GB of memory, and writing it as much again."""
CHUNK_ROWS = 250_000
_MAX_AXIS = 1_000_000

Progress = Callable[[str, int, int], None]
"""What is predicted now, rows done, all rows."""


@dataclass(frozen=True, slots=True)
class GemmGrid:
    """Every combination of the sizes, chips and format pairs."""

    M: tuple[int, ...]
    N: tuple[int, ...]
    K: tuple[int, ...]
    devices: tuple[Device, ...]
    pairs: tuple[tuple[NumberFormat, NumberFormat], ...]
    """(weight, activation) of each product; the output is the activation's format where it is a float of 16 bit or
    more.
    """

    def __post_init__(self) -> None:
        for name in ("M", "N", "K", "devices", "pairs"):
            if not getattr(self, name):
                raise InvalidValueError(f"the sweep has no {name}: give at least one")
        if self.row_count > MAX_ROWS:
            raise InvalidValueError(
                f"the sweep has {self.row_count:,} predictions, more than {MAX_ROWS:,}: use coarser steps or fewer "
                "formats"
            )

    @property
    def shape_count(self) -> int:
        """Products per chip and format pair."""
        return len(self.M) * len(self.N) * len(self.K)

    @property
    def row_count(self) -> int:
        """All predictions."""
        return self.shape_count * len(self.devices) * len(self.pairs)


def parse_axis(name: str, text: str) -> tuple[int, ...]:
    """Return the sizes that `1,16,64`, `128:1024:128` or `1:4096:*2` (start, stop included, step or factor) names.

    Parts are joined by commas; the result is sorted and has no size twice. Raises `InvalidValueError` naming the form.
    """
    sizes: set[int] = set()
    for part in text.split(","):
        sizes.update(_axis_part(name, part.strip(), text))
        if len(sizes) > _MAX_AXIS:
            raise InvalidValueError(f"{name}: more than {_MAX_AXIS:,} sizes; use a larger step")
    return tuple(sorted(sizes))


def sweep_gemm(
    grid: GemmGrid, *, cache: str = "cold", with_expected: bool = True, progress: Progress | None = None
) -> pd.DataFrame:
    """Return one row per prediction: chip, sizes, formats, ideal time and bound, expected time with its 80 % interval.

    What a chip cannot compute, or has no expected model for, has empty cells and a `reason`. Seconds, bytes, FLOPs.
    """
    import pandas as pd

    tables = []
    done = 0
    for device in grid.devices:
        for weight, activation in grid.pairs:
            label = f"{device.key} {weight.key}.{activation.key}"
            for m, n, k in _chunks(grid):
                if progress is not None:
                    progress(label, done, grid.row_count)
                tables.append(_chunk(device, weight, activation, m, n, k, cache, with_expected))
                done += len(m)
    if progress is not None:
        progress("", done, grid.row_count)
    return pd.concat(tables, ignore_index=True)


def _chunk(
    device: Device,
    weight: NumberFormat,
    activation: NumberFormat,
    m: Floats,
    n: Floats,
    k: Floats,
    cache: str,
    with_expected: bool,
) -> pd.DataFrame:
    import pandas as pd

    columns: dict[str, Any] = {
        "hardware": device.key,
        "M": m.astype(np.int64),
        "N": n.astype(np.int64),
        "K": k.astype(np.int64),
        "weight_format": weight.key,
        "activation_format": activation.key,
    }
    reason, codes = "", np.full(len(m), "", dtype=object)
    try:
        roof = ProductRoof.of(
            device,
            activation=activation,
            weight=stored_weight(weight, activation),
            output=default_output_format(activation),
        )
        ideal = roof.at(m, n, k, cache=cache)
        columns |= {"flops": ideal.flops, "bytes": ideal.total_bytes, "ideal_s": ideal.time_s, "bound": ideal.bound}
        codes = _cache_codes(device, ideal.total_bytes, cache)
    except UnsupportedError as error:
        reason = str(error)
        columns |= dict.fromkeys(("flops", "bytes", "ideal_s"), math.nan) | {"bound": ""}
    if with_expected:
        try:
            if reason:
                raise UnsupportedError(reason)
            columns |= _expected(device, weight, activation, m, n, k, cache)
            if cache != "warm" and not _answers_itself(device):
                names = ("expected_s", "expected_low_s", "expected_high_s", "binding")
                limit_s = np.maximum(ideal.memory_s, ideal.compute_s / roof.beaten_ratio)
                expected_s, low_s, high_s, binding = (columns[name] for name in names)
                raised = arrays_raised_to_ideal(expected_s, low_s, high_s, binding, limit_s, ideal.memory_s)
                columns |= dict(zip(names, raised, strict=True))
        except UnsupportedError as error:
            reason = str(error)
            columns |= dict.fromkeys(("expected_s", "expected_low_s", "expected_high_s"), math.nan)
            columns |= {"binding": "", "provenance": ""}
    return pd.DataFrame({**columns, "finding": codes, "reason": reason}, index=range(len(m)))


def _cache_codes(device: Device, total_bytes: Floats, cache: str) -> NDArray[np.object_]:
    """Return the finding's code of each warm product that may be faster than its DRAM roof, else ""."""
    codes = np.full(len(total_bytes), "", dtype=object)
    last, roof = device.last_level_cache, memory_roof(device, total_bytes, cache)
    if cache != "warm" or last is None:
        return codes
    codes[roof.fits_partly] = "cached-in-part"
    if last.bandwidth is None:
        codes[roof.fits_cache] = "cache-bandwidth-unknown"
    return codes


def _answers_itself(device: Device) -> bool:
    """Return whether expected times come from the chip's own calibration: a CPU that was measured."""
    return device.calibration is not None and device.calibration.kind == "cpu"


def _expected(
    device: Device, weight: NumberFormat, activation: NumberFormat, m: Floats, n: Floats, k: Floats, cache: str
) -> dict[str, Any]:
    """Return the expected columns; raises `UnsupportedError` where there is no model for chip and formats."""
    if _answers_itself(device):
        return _calibrated(device, weight, activation, m, n, k, cache)

    if (why_not := why_no_product_kernel(gemm(1, 1, 1, a=activation, b=weight), device)) is not None:
        raise unsupported(why_not)
    output = default_output_format(activation).key
    slowest: dict[str, Any] = {}
    for key in dict.fromkeys((activation.key, computed_activation(device, weight, activation))):
        model = ProductModel.of(device, weight=weight.key, activation=key, output=output)
        batch = model.expected(m, n, k, cache=cache)
        columns = {
            "expected_s": batch.time_s,
            "expected_low_s": batch.low_s,
            "expected_high_s": batch.high_s,
            "binding": batch.binding,
            "provenance": batch.provenance,
        }
        slowest = _slower(slowest, columns) if slowest else columns
    return slowest


def _slower(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return of each product the longer of two expected times, with its interval and what binds it."""
    is_second = second["expected_s"] > first["expected_s"]
    names = ("expected_s", "expected_low_s", "expected_high_s")
    pairs = zip(first["binding"], second["binding"], is_second, strict=True)
    return {
        **{name: np.where(is_second, second[name], first[name]) for name in names},
        "binding": [theirs if later else ours for ours, theirs, later in pairs],
        "provenance": first["provenance"],
    }


def _calibrated(
    device: Device, weight: NumberFormat, activation: NumberFormat, m: Floats, n: Floats, k: Floats, cache: str
) -> dict[str, Any]:
    """Return the expected columns of a calibrated CPU, product by product: its model is no array formula."""
    sizes = zip(m.astype(np.int64).tolist(), n.astype(np.int64).tolist(), k.astype(np.int64).tolist(), strict=True)
    predictions = [
        predict_expected(
            gemm(rows, columns, inner, a=activation, b=stored_weight(weight, activation)), device, cache=cache
        )
        for rows, columns, inner in sizes
    ]
    priced = [prediction for prediction in predictions if prediction is not None]
    if len(priced) < len(predictions):
        raise UnsupportedError(
            f"no expected time for {weight.key}.{activation.key} on {device.key}; the ideal time is used"
        )
    return {
        "expected_s": np.array([fitted.time_s for fitted in priced]),
        "expected_low_s": np.array([fitted.low_s for fitted in priced]),
        "expected_high_s": np.array([fitted.high_s for fitted in priced]),
        "binding": [fitted.binding for fitted in priced],
        "provenance": [fitted.provenance for fitted in priced],
    }


def _chunks(grid: GemmGrid) -> Iterable[tuple[Floats, Floats, Floats]]:
    """Give the shapes in pieces, M slowest, K fastest."""
    axes = [np.asarray(axis, dtype=np.float64) for axis in (grid.M, grid.N, grid.K)]
    for begin in range(0, grid.shape_count, CHUNK_ROWS):
        index = np.arange(begin, min(begin + CHUNK_ROWS, grid.shape_count))
        m, rest = np.divmod(index, len(grid.N) * len(grid.K))
        n, k = np.divmod(rest, len(grid.K))
        yield axes[0][m], axes[1][n], axes[2][k]


def _axis_part(name: str, part: str, text: str) -> Sequence[int]:
    pieces = [piece.strip() for piece in part.split(":")]
    step = pieces[2] if len(pieces) == 3 else ""
    numbers = [*pieces[:2], step.removeprefix("*")] if len(pieces) == 3 else pieces
    is_known = len(pieces) in (1, 3) and all(
        number.isdecimal() and number.isascii() and len(number) < 12 for number in numbers
    )
    values = [int(number) for number in numbers] if is_known else []
    if not is_known or min(values[:2]) < 1 or max(values[:2]) > MAX_DIMENSION:
        raise InvalidValueError(
            f"{name}: {text[:60]!r} is not a list of sizes from 1 to {MAX_DIMENSION:,}; write 1,16,64 or 128:1024:128 "
            "or 1:4096:*2"
        )
    if len(values) == 1:
        return values
    start, stop, by = values
    if by < (2 if step.startswith("*") else 1) or stop < start:
        raise InvalidValueError(
            f"{name}: {part!r} names no size: start ≤ stop, a step of at least 1, a factor of at least 2"
        )
    if step.startswith("*"):
        sizes = [start]
        while sizes[-1] * by <= stop:
            sizes.append(sizes[-1] * by)
        return sizes
    if (stop - start) // by >= _MAX_AXIS:
        raise InvalidValueError(f"{name}: {part!r} has more than {_MAX_AXIS:,} sizes; use a larger step")
    return range(start, stop + 1, by)


def format_pairs(labels: Iterable[str]) -> tuple[tuple[NumberFormat, NumberFormat], ...]:
    """Return (weight, activation) of labels as `format_pair` reads them."""
    return tuple(format_pair(label) for label in labels)
