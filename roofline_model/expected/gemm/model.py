"""Expected time of C(M×N) = A(M×K)·B(K×N) on a GPU: price every tile and split-K, take the cheapest. Vectorised.

    T = t0 + (T_c^p + T_d^p + T_L2^p + T_sm^p + T_k^p)^(1/p) + 20 ns·(waves − 1) + split

with the tensor pipe T_c, DRAM T_d, operand refetch from L2 T_L2, one SM's load path T_sm and the serial k loop T_k; then
the GEMV kernel where the library has one, and the activation cast. Formulas and constants: docs/theory_expected.md; source:
the expected-GEMM study of 2026-11-21 on aiconfigurator's published tables (Apache-2.0), 18,000 rows of five chips.
Everything is in seconds and bytes; one candidate array has the shape (tiles, rows).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING

from roofline_model.errors import InvalidValueError
from roofline_model.expected.batch import ExpectedBatch, binding_of, with_library
from roofline_model.expected.chip import ChipSpec, fitted_numbers
from roofline_model.expected.gemm.activation_cast import cast_seconds
from roofline_model.expected.gemm.belief import believed, trust
from roofline_model.expected.gemm.candidates import (
    K_STEP,
    SMALLEST_SLICE,
    SPLITS,
    Tiles,
    may_split,
    tiles_of,
    usable_tiles,
)
from roofline_model.expected.gemm.constants import FittedGemm, GemmConstants
from roofline_model.expected.gemm.elementwise import ceiling, larger, smaller
from roofline_model.expected.gemm.formats import GemmFormats, gemm_formats
from roofline_model.expected.gemm.gemv_kernel import gemv_seconds, uses_gemv
from roofline_model.expected.gemm.library import find_gemm
from roofline_model.expected.gemm.norm import powered, rooted
from roofline_model.expected.gemm.work import GemmWork, work_of
from roofline_model.formats import NumberFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from roofline_model.expected.gemm.columns import ChipColumns, ConstantColumns, FormatColumns

    Floats = NDArray[np.float64]

WAVE_S = 2e-8
"""Prologue and epilogue of one more wave; fitted 10 to 20 ns on every chip, hence fixed."""
FEW_ROWS = 16
CHUNK_ROWS = 1024
"""Rows priced at once: the candidate arrays of a chunk stay in a CPU's L2."""


def expected_gemm(
    chip: ChipSpec,
    M: ArrayLike,
    N: ArrayLike,
    K: ArrayLike,
    *,
    weight_format: str | NumberFormat,
    activation_format: str | NumberFormat,
    output_format: str | NumberFormat = "BF16",
    dynamic_activation_quantization: bool = False,
    weight_copies: ArrayLike = math.inf,
    constants: GemmConstants | FittedGemm | None = None,
    computes_wide: bool = False,
) -> ExpectedBatch:
    """Return the expected time of each product of the broadcast `M`, `N`, `K`.

    `chip` computes in the pair's compute format (`gemm_formats(...).compute_format`). `weight_copies`: weights touched
    between two uses of the same one, over one weight: infinite in a model (cold), 1 when calls repeat (hot).
    `dynamic_activation_quantization`: the time includes the kernels that quantise A. `constants`: a fit's own; None asks
    the library. Raises `InvalidValueError` for shapes that are not whole numbers from 1, `UnsupportedError` when no
    constants can be had for this chip and format.
    """
    formats = gemm_formats(weight_format, activation_format, output_format, computes_wide=computes_wide)
    return expected_of_formats(
        chip,
        M,
        N,
        K,
        formats=formats,
        constants=constants,
        weight_copies=weight_copies,
        dynamic_activation_quantization=dynamic_activation_quantization,
    )


def expected_of_formats(
    chip: ChipSpec,
    M: ArrayLike,
    N: ArrayLike,
    K: ArrayLike,
    *,
    formats: GemmFormats,
    constants: GemmConstants | FittedGemm | None = None,
    weight_copies: ArrayLike = math.inf,
    dynamic_activation_quantization: bool = False,
) -> ExpectedBatch:
    """Return the same where kernel family and bytes are known already; `expected_gemm` says what is what."""
    import numpy as np

    fitted = constants if isinstance(constants, FittedGemm) else None
    if constants is None:
        fitted = find_gemm(chip, formats.family)
    values = constants if isinstance(constants, GemmConstants) else fitted.constants if fitted else None
    assert values is not None  # one of the two is given
    launch_s = launch_floor_s(values, dynamic_activation_quantization)
    m, n, k, copies = _checked(M, N, K, weight_copies)
    spec = chip if fitted is None else fitted_numbers(chip, fitted.chip)
    pieces = [
        _priced(spec, formats, values, dynamic_activation_quantization, m[s], n[s], k[s], copies[s])
        for s in (slice(begin, begin + CHUNK_ROWS) for begin in range(0, max(len(m), 1), CHUNK_ROWS))
    ]
    if len(pieces) == 1:
        time_s, parts, kernel = pieces[0]
    else:
        time_s = np.concatenate([piece[0] for piece in pieces])
        parts = {name: np.concatenate([piece[1][name] for piece in pieces]) for name in pieces[0][1]}
        kernel = [label for piece in pieces for label in piece[2]]
    if fitted is not None and fitted.correction is not None:
        factor = np.exp(trust(fitted, formats, n, k, copies) * fitted.correction.logs(m, n, k))
        # A surface is a mean over shapes: it must not carry one of them past the tensor peak or the DRAM's bandwidth.
        least_s = unit_roofs(spec, values, m, n, k, parts["dram"])
        formula_s, time_s = time_s, corrected_seconds(time_s, factor, least_s)
        parts = with_library(parts, formula_s, time_s, least_s)
    intervals, provenance = believed(fitted, formats)
    low_s, high_s = intervals.bounds(m, time_s, launch_s)
    return ExpectedBatch(
        time_s=time_s,
        low_s=low_s,
        high_s=high_s,
        parts=parts,
        binding=binding_of(parts, time_s),
        provenance=provenance,
        findings=(*(fitted.findings if fitted else ()), *formats.findings),
        kernel=kernel,
        norm_order=values.norm_order,
    )


def gemm_times(
    chip: ChipSpec,
    formats: GemmFormats,
    constants: GemmConstants,
    M: Floats,
    N: Floats,
    K: Floats,
    weight_copies: Floats,
    *,
    dynamic_activation_quantization: bool,
) -> Floats:
    """Return the times alone, in seconds: what a fit calls thousands of times. Arrays of equal length, unchecked."""
    import numpy as np

    pieces = []
    for begin in range(0, len(M), CHUNK_ROWS):
        s = slice(begin, begin + CHUNK_ROWS)
        rows = work_of(chip, formats, constants, M[s], N[s], K[s], weight_copies[s])
        _, best, _, _ = _cheapest(chip, formats, constants, rows)
        time_s = best + launch_floor_s(constants, dynamic_activation_quantization)
        gemv = gemv_seconds(chip, formats, constants, rows)
        if gemv is not None:
            uses = uses_gemv(formats, constants, rows.m, best, gemv[2])
            time_s = np.where(uses, gemv[2] + launch_floor_s(constants, dynamic_activation_quantization), time_s)
        if dynamic_activation_quantization and constants.cast_ratio is not None:
            time_s = time_s + cast_seconds(chip, formats, constants, rows)
        pieces.append(time_s)
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _checked(M: ArrayLike, N: ArrayLike, K: ArrayLike, copies: ArrayLike) -> tuple[Floats, Floats, Floats, Floats]:
    import numpy as np

    given = (M, N, K, copies)
    if all(isinstance(value, int | float) for value in given):  # one product: no array of shapes to agree on
        m, n, k, r = (np.array([value], dtype=np.float64) for value in given)
    else:
        arrays = [np.asarray(value, dtype=np.float64) for value in given]
        m, n, k, r = (np.atleast_1d(array).ravel() for array in np.broadcast_arrays(*arrays))
    for name, sizes in (("M", m), ("N", n), ("K", k)):
        is_right = (sizes >= 1) & (sizes <= 1e9) & (sizes == np.floor(sizes))
        if not is_right.all():
            check_size(name, sizes[~is_right][0])
    if not (r >= 1).all():
        raise InvalidValueError("weight_copies must be at least 1 (hot); infinite is cold")
    return m, n, k, r


def check_size(name: str, size: float) -> None:
    """Raise `InvalidValueError` unless `size` is one of a product."""
    if not 1 <= size <= 1e9 or size != math.floor(size):
        raise InvalidValueError(f"{name} must hold whole numbers from 1 to 1,000,000,000, got {size:g}")


def _priced(
    chip: ChipSpec,
    formats: GemmFormats,
    c: GemmConstants,
    quantizes: bool,
    m: Floats,
    n: Floats,
    k: Floats,
    copies: Floats,
) -> tuple[Floats, dict[str, Floats], list[str]]:
    """Return (seconds, parts, kernel labels) of one chunk."""
    import numpy as np

    rows = work_of(chip, formats, c, m, n, k, copies)
    tiles, best, tile, split = _cheapest(chip, formats, c, rows)
    parts = _parts(chip, formats, c, rows, tiles, tile, split)
    kernel = [tiles.labels[place] for place in (split * len(tiles.rows) + tile).tolist()]
    gemv = gemv_seconds(chip, formats, c, rows)
    body = best
    if gemv is not None:
        dram_s, l2_s, gemv_s, serial_s = gemv
        uses = uses_gemv(formats, c, m, best, gemv_s)
        body = np.where(uses, gemv_s, best)
        parts["serial"] = np.where(uses, serial_s, 0.0)
        if uses.any():
            alone = {"dram": dram_s, "l2": l2_s, "serial": serial_s}
            parts = {name: np.where(uses, alone.get(name, 0.0), value) for name, value in parts.items()}
            kernel = ["gemv" if is_gemv else name for is_gemv, name in zip(uses.tolist(), kernel, strict=True)]
    launch = np.full_like(body, launch_floor_s(c, quantizes))
    time_s = launch + body
    parts = {"launch": launch, **parts}
    if quantizes and c.cast_ratio is not None:
        parts["cast"] = cast_seconds(chip, formats, c, rows)
        time_s = time_s + parts["cast"]
    return time_s, parts, kernel


def unit_roofs(
    chip: ChipSpec | ChipColumns, c: GemmConstants | ConstantColumns, m: Floats, n: Floats, k: Floats, dram_s: Floats
) -> dict[str, Floats]:
    """Return what the tensor peak and the specified bandwidth allow at best; no library undercuts it."""
    return {"tensor": 2.0 * m * n * k / chip.peak_flops_per_s, "dram": dram_s * c.reached_dram_ratio}


def corrected_seconds(formula_s: Floats, factor: Floats, least_s: Mapping[str, Floats]) -> Floats:
    """Return the time with the surface's `factor`, which must not carry it past a roof that the formulas keep."""
    result: Floats = larger(formula_s * factor, smaller(formula_s, larger(least_s["tensor"], least_s["dram"])))
    return result


def launch_floor_s(c: GemmConstants, quantizes: bool) -> float:
    """Return the floor: that of the product alone when its activations come quantised already."""
    return c.launch_s if quantizes or c.static_launch_s is None else c.static_launch_s


def _cheapest(
    chip: ChipSpec, formats: GemmFormats, c: GemmConstants, rows: GemmWork
) -> tuple[Tiles, Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Return (tiles, seconds without launch, index of the best tile, index of the best split) of each row."""
    import numpy as np

    tiles = tiles_of(chip.family, formats.is_weight_only)
    usable = usable_tiles(tiles, rows.m, rows.n)
    blocks = np.ceil(rows.m / tiles.rows) * np.ceil(rows.n / tiles.columns)
    narrow = usable & (blocks < chip.sm_count) & may_split(chip.family, formats.family, rows.m, rows.n, rows.k)
    tensor, load, supply_s = tile_rates(chip, formats, c, tiles)
    power = powered(tensor / rows.tensor_ratio, c.norm_order) + powered(load, c.norm_order)
    if len(rows.m) <= FEW_ROWS and c.split_s is not None and narrow.any():
        return tiles, *_all_at_once(chip, c, rows, tiles, blocks, power, supply_s, usable, narrow)
    best, tile = _best_of_split(chip, c, rows, tiles, 1.0, blocks, power, supply_s, usable)
    split = np.zeros(len(best), dtype=np.intp)
    open_rows = narrow.any(axis=0) & (c.split_s is not None)
    for position, count in enumerate(SPLITS[1:], start=1):
        index = np.flatnonzero(open_rows & (rows.k >= SMALLEST_SLICE * count))
        if not len(index):
            break  # a larger split needs an even longer k
        at = (slice(None), index)
        found, which = _best_of_split(
            chip, c, rows.at(index), tiles, float(count), blocks[at], power[at], supply_s, narrow[at]
        )
        better = found < best[index]
        chosen = index[better]
        best[chosen], tile[chosen], split[chosen] = found[better], which[better], position
    return tiles, best, tile, split


def _all_at_once(
    chip: ChipSpec,
    c: GemmConstants,
    rows: GemmWork,
    tiles: Tiles,
    blocks: Floats,
    power: Floats,
    supply_s: Floats,
    usable: NDArray[np.bool_],
    narrow: NDArray[np.bool_],
) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Return the same for a few rows, every split in one array: numpy's cost per call is what a single row pays."""
    import numpy as np

    counts = SPLITS[: max(bisect_right(SPLITS, rows.k.max() // SMALLEST_SLICE), 1)]
    split = np.array(counts, dtype=np.float64)[:, None, None]
    allowed = narrow & (rows.k >= SMALLEST_SLICE * split)
    allowed[0] = usable
    time_s = candidate_seconds(
        chip, c, rows, tiles.resident, split, np.broadcast_to(blocks, (len(counts), *blocks.shape)), power, supply_s
    )
    time_s[~allowed] = np.inf
    every = time_s.reshape(-1, len(rows.k))
    which = every.argmin(axis=0)
    return every[which, np.arange(len(which))], which % len(usable), which // len(usable)


def tile_rates(
    chip: ChipSpec | ChipColumns, formats: GemmFormats | FormatColumns, c: GemmConstants | ConstantColumns, tiles: Tiles
) -> tuple[Floats, Floats, Floats]:
    """Return seconds tile by tile: per wave and element of k of the tensor pipe at its full rate and of one SM's loads, and
    per block and element of k of the L2."""
    area = tiles.rows * tiles.columns
    tensor = 2.0 * area * tiles.padding_ratio * chip.sm_count / chip.peak_flops_per_s
    moved = tile_bytes(formats, tiles)
    return tensor, moved / (c.sm_ratio * 64.0 * chip.clock_hz), moved / (c.l2_ratio * chip.load_bytes_per_s)


def tile_bytes(formats: GemmFormats | FormatColumns, tiles: Tiles) -> Floats:
    """Return operand bytes per block and element of k."""
    return tiles.rows * formats.activation_bytes_per_element + tiles.columns * formats.weight_bytes_per_element


def _slice_length(k: Floats, split: float | Floats) -> Floats:
    """Return the k that one slice walks, in whole steps of the main loop."""
    result: Floats = K_STEP * ceiling(k / split / K_STEP)
    return result


def _waves(x: Floats, omega: float | Floats) -> Floats:
    """Return waves of `x` blocks per SM, softened for persistent scheduling; at least one."""
    result: Floats = (1.0 - omega) * ceiling(x) + omega * larger(x, 1.0)
    return result


def _resident_waves(x: Floats, omega: float | Floats) -> Floats:
    """Return waves when several blocks share an SM; at least one."""
    result: Floats = larger((1.0 - omega) * ceiling(x) + omega * x, 1.0)
    return result


def _best_of_split(
    chip: ChipSpec,
    c: GemmConstants,
    rows: GemmWork,
    tiles: Tiles,
    split: float | Floats,
    blocks: Floats,
    power: Floats,
    supply_s: Floats,
    usable: NDArray[np.bool_],
) -> tuple[Floats, NDArray[np.intp]]:
    """Return the cheapest usable candidate of each row: (seconds without launch, candidate index).

    `split` is one count for all tiles, or one for each candidate, of shape (candidates, 1).
    """
    import numpy as np

    time_s = candidate_seconds(chip, c, rows, tiles.resident, split, blocks, power, supply_s)
    time_s[~usable] = np.inf
    tile = time_s.argmin(axis=0)
    return time_s[tile, np.arange(len(tile))], tile


def candidate_seconds(
    chip: ChipSpec | ChipColumns,
    c: GemmConstants | ConstantColumns,
    rows: GemmWork,
    resident_count: Floats,
    split: float | Floats,
    blocks: Floats,
    power: Floats,
    supply_s: Floats,
) -> Floats:
    """Return the seconds of every candidate without launch; all arguments broadcast, `blocks` has the candidates' shape.

    `power`: terms of tensor pipe and load path, per wave and element of k, to the norm's power; `supply_s`: seconds of the
    L2 per block and element of k.
    """
    order, omega = c.norm_order, c.persistence_ratio
    length = _slice_length(rows.k, split)
    x = blocks * (split / chip.sm_count)
    total = powered(_waves(x, omega) * length, order)
    total *= power
    x /= resident_count
    resident = _resident_waves(x, omega)
    total += powered(resident * (length * rows.k_element_s), order)
    refetch = blocks * supply_s
    refetch *= length * split
    refetch += c.output_ratio / (c.l2_ratio * chip.load_bytes_per_s) * rows.output_bytes
    total += powered(refetch, order)
    total += powered(rows.dram_s, order)
    time_s = rooted(total, order)
    resident -= 1.0
    resident *= WAVE_S
    time_s += resident
    if c.split_s is not None and not (isinstance(split, float) and split <= 1.0):
        time_s += _split_s(chip, c, rows, split)
    return time_s


def _split_s(
    chip: ChipSpec | ChipColumns, c: GemmConstants | ConstantColumns, rows: GemmWork, split: float | Floats
) -> Floats:
    """Return the cost of splitting k: a fixed one, and FP32 partial sums written and read (8 bytes each) through L2."""
    traffic = 8.0 * split * rows.m * rows.n / (c.l2_ratio * chip.load_bytes_per_s)
    if isinstance(traffic, float):
        return (0.0 if c.split_s is None else c.split_s) + traffic if split > 1 else 0.0
    import numpy as np

    return np.where(np.asarray(split) > 1, (0.0 if c.split_s is None else c.split_s) + traffic, 0.0)


def _parts(
    chip: ChipSpec,
    formats: GemmFormats,
    c: GemmConstants,
    rows: GemmWork,
    tiles: Tiles,
    tile: NDArray[np.intp],
    split: NDArray[np.intp],
) -> dict[str, Floats]:
    """Return the terms of the chosen candidates, each alone, and the additive costs; seconds."""
    import numpy as np

    size = tiles.rows[tile, 0], tiles.columns[tile, 0]
    tensor, load, _ = (rate[tile, 0] for rate in tile_rates(chip, formats, c, tiles))
    moved = tile_bytes(formats, tiles)[tile, 0]
    count = np.array(SPLITS, dtype=np.float64)[split]
    return parts_of(chip, c, rows, count, size, tiles.resident[tile, 0], tensor, load, moved)


def parts_of(
    chip: ChipSpec,
    c: GemmConstants,
    rows: GemmWork,
    count: Floats,
    size: tuple[Floats, Floats],
    resident_count: Floats,
    tensor: Floats,
    load: Floats,
    moved: Floats,
) -> dict[str, Floats]:
    """Return the same of `count` slices of the tile of `size`; `tensor` and `load` as of `tile_rates`, `moved` bytes a k."""
    bm, bn = size
    length = _slice_length(rows.k, count)
    blocks = ceiling(rows.m / bm) * ceiling(rows.n / bn) * count
    x = blocks / chip.sm_count
    waves = _waves(x, c.persistence_ratio) * length
    resident = _resident_waves(x / resident_count, c.persistence_ratio)
    l2_rate = c.l2_ratio * chip.load_bytes_per_s
    refetch = blocks * length * moved + c.output_ratio * rows.output_bytes
    return {
        "tensor": waves * tensor / rows.tensor_ratio,
        "dram": rows.dram_s,
        "l2": refetch / l2_rate,
        "sm": waves * load,
        "latency": resident * length * rows.k_element_s,
        "waves": WAVE_S * (resident - 1.0),
        "split": _split_s(chip, c, rows, count),
    }
