"""The expected time of one product in one pair of formats: what a prediction asks for.

The formulas of `model.py` on numbers in place of arrays of one row; only the candidates (tiles, splits) are arrays, and what
does not depend on the shape is worked out once for each model. The same numbers as `expected_of_formats`, to the bit (tested).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, cast

from roofline_model.core.finding import Finding
from roofline_model.expected.batch import ExpectedCall, binding_part, with_library
from roofline_model.expected.chip import ChipSpec, fitted_numbers
from roofline_model.expected.gemm.activation_cast import cast_seconds
from roofline_model.expected.gemm.belief import believed, trust
from roofline_model.expected.gemm.candidates import (
    LARGEST_HALF_TILE,
    SMALLEST_SLICE,
    SPLITS,
    Tiles,
    may_split,
    tiles_of,
    usable_tiles,
)
from roofline_model.expected.gemm.constants import FittedGemm, GemmConstants
from roofline_model.expected.gemm.formats import GemmFormats
from roofline_model.expected.gemm.gemv_kernel import gemv_seconds, uses_gemv
from roofline_model.expected.gemm.model import (
    candidate_seconds,
    check_size,
    corrected_seconds,
    launch_floor_s,
    parts_of,
    tile_bytes,
    tile_rates,
    unit_roofs,
)
from roofline_model.expected.gemm.norm import powered
from roofline_model.expected.gemm.work import GemmWork, work_of
from roofline_model.expected.intervals import FLOOR_RATIO, IntervalTable, row_regime
from roofline_model.kept import Kept

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The tiles that serve an output, with their rates (`tile_rates`); arrays of shape (tiles,)."""

    places: tuple[int, ...]
    """Of each in `tiles_of`."""
    rows: Floats
    columns: Floats
    resident: Floats
    tensor: Floats
    load: Floats
    load_power: Floats
    supply_s: Floats
    moved_bytes: Floats
    """Operand bytes per block and element of k."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """What products of one pair of formats on one chip share, whatever their shape."""

    chip: ChipSpec
    formats: GemmFormats
    constants: GemmConstants
    tiles: Tiles
    intervals: IntervalTable
    provenance: str
    findings: tuple[Finding, ...]
    kept: dict[tuple[int, int], _Candidates] = field(default_factory=dict, compare=False, repr=False)

    def candidates(self, M: int, N: int, most_kept: int = 512) -> _Candidates:
        """Return the tiles to price for an output of `M` × `N`."""
        key = min(M, LARGEST_HALF_TILE), min(N, LARGEST_HALF_TILE)
        found = self.kept.get(key)
        if found is None:
            found = _candidates(self, *key)
            if len(self.kept) < most_kept:
                self.kept[key] = found
        return found


_KEPT: Kept[_Pair] = Kept(512)


def expected_of_product(
    chip: ChipSpec,
    M: int,
    N: int,
    K: int,
    *,
    formats: GemmFormats,
    fitted: FittedGemm,
    weight_copies: float,
    dynamic_activation_quantization: bool = False,
) -> ExpectedCall:
    """Return the expected time of C(M×N) = A(M×K)·B(K×N); `expected_gemm` says what is what and what is raised."""
    import numpy as np

    for name, size in (("M", M), ("N", N), ("K", K)):
        check_size(name, size)
    pair, c = _KEPT.of((chip, formats, fitted), lambda: _pair(chip, formats, fitted)), fitted.constants
    launch_s = launch_floor_s(c, dynamic_activation_quantization)
    m, n, k = (_number(size) for size in (M, N, K))
    rows = work_of(pair.chip, formats, c, m, n, k, _number(weight_copies))
    body_s, parts, kernel = _chosen(pair, rows, M, N, K)
    parts = {"launch": launch_s, **parts}
    time_s = launch_s + body_s
    if dynamic_activation_quantization and c.cast_ratio is not None:
        parts["cast"] = float(cast_seconds(pair.chip, formats, c, rows))
        time_s += parts["cast"]
    if fitted.correction is not None:
        log = trust(fitted, formats, n, k, _number(weight_copies)) * fitted.correction.log_at(M, N, K)
        least_s = unit_roofs(pair.chip, c, m, n, k, _number(parts["dram"]))
        formula_s, time_s = time_s, float(corrected_seconds(_number(time_s), _number(float(np.exp(log))), least_s))
        parts = with_library(parts, formula_s, time_s, least_s)
    regime = 2 * row_regime(M) + (time_s > FLOOR_RATIO * launch_s)
    return ExpectedCall(
        time_s,
        time_s * pair.intervals.low[regime],
        time_s * pair.intervals.high[regime],
        parts,
        binding_part(parts, time_s),
        pair.provenance,
        pair.findings,
        kernel,
        c.norm_order,
    )


def _pair(chip: ChipSpec, formats: GemmFormats, fitted: FittedGemm) -> _Pair:
    spec, (intervals, provenance) = fitted_numbers(chip, fitted.chip), believed(fitted, formats)
    tiles, findings = tiles_of(spec.family, formats.is_weight_only), (*fitted.findings, *formats.findings)
    return _Pair(spec, formats, fitted.constants, tiles, intervals, provenance, findings)


def _candidates(pair: _Pair, M: int, N: int) -> _Candidates:
    import numpy as np

    tiles, c = pair.tiles, pair.constants
    places = np.flatnonzero(usable_tiles(tiles, np.array([float(M)]), np.array([float(N)])))
    tensor, load, supply_s = tile_rates(pair.chip, pair.formats, c, tiles)
    columns = (
        tiles.rows,
        tiles.columns,
        tiles.resident,
        tensor,
        load,
        powered(load, c.norm_order),
        supply_s,
        tile_bytes(pair.formats, tiles),
    )
    return _Candidates(tuple(places.tolist()), *(column[places, 0] for column in columns))


def _chosen(pair: _Pair, rows: GemmWork, M: int, N: int, K: int) -> tuple[float, dict[str, float], str]:
    """Return (seconds without launch, parts, kernel label) of the kernel that the library would take."""
    found, c = pair.candidates(M, N), pair.constants
    body_s, tile, split = _cheapest(pair, found, rows, M, N, K)
    parts = parts_of(
        pair.chip,
        c,
        rows,
        _number(SPLITS[split]),
        (_number(found.rows[tile]), _number(found.columns[tile])),
        _number(found.resident[tile]),
        _number(found.tensor[tile]),
        _number(found.load[tile]),
        _number(found.moved_bytes[tile]),
    )
    seconds = {name: float(value) for name, value in parts.items()}
    kernel = pair.tiles.labels[split * len(pair.tiles.rows) + found.places[tile]]
    gemv = gemv_seconds(pair.chip, pair.formats, c, rows)
    if gemv is None:
        return body_s, seconds, kernel
    dram_s, l2_s, gemv_s, serial_s = map(float, gemv)
    if not uses_gemv(pair.formats, c, rows.m, _number(body_s), _number(gemv_s)):
        return body_s, {**seconds, "serial": 0.0}, kernel
    return gemv_s, {**dict.fromkeys(seconds, 0.0), "dram": dram_s, "l2": l2_s, "serial": serial_s}, "gemv"


def _cheapest(pair: _Pair, found: _Candidates, rows: GemmWork, M: int, N: int, K: int) -> tuple[float, int, int]:
    """Return (seconds without launch, place among the candidates, place among `SPLITS`) of the cheapest kernel."""
    import numpy as np

    chip, c = pair.chip, pair.constants
    blocks = np.ceil(M / found.rows) * np.ceil(N / found.columns)
    power = powered(found.tensor / rows.tensor_ratio, c.norm_order) + found.load_power
    count = bisect_right(SPLITS, K // SMALLEST_SLICE)
    if count > 1 and c.split_s is not None and may_split(chip.family, pair.formats.family, rows.m, rows.n, rows.k):
        narrow = blocks < chip.sm_count
        if narrow.any():
            split, ones = _splits(count)
            time_s = candidate_seconds(chip, c, rows, found.resident, split, blocks * ones, power, found.supply_s)
            time_s[1:, ~narrow] = math.inf
            best = int(time_s.argmin())
            return float(time_s.flat[best]), best % len(blocks), best // len(blocks)
    time_s = candidate_seconds(chip, c, rows, found.resident, 1.0, blocks, power, found.supply_s)
    best = int(time_s.argmin())
    return float(time_s[best]), best, 0


@cache
def _splits(count: int) -> tuple[Floats, Floats]:
    """Return the first of `SPLITS`, and as many ones, of shape (splits, 1)."""
    import numpy as np

    return np.array(SPLITS[:count], dtype=np.float64)[:, None], np.ones((count, 1))


def _number(value: float) -> Floats:
    """Return a number where the formulas say arrays: `elementwise.py` tells why they take it."""
    return cast("Floats", float(value))
