"""Expected time of C(M×N) = A(M×K)·B(K×N) on a GPU: price every tile and split-K, take the cheapest.

    T = t0 + (T_c^p + T_d^p + T_L2^p + T_sm^p + T_k^p)^(1/p) + 20 ns·(waves − 1) + split

with the tensor pipe T_c, DRAM T_d, operand refetch from L2 T_L2, one SM's load path T_sm and the serial k loop T_k;
then the GEMV kernel where the library has one, the activation cast, and the residual correction of the chip's library.
Formulas and constants: docs/theory/expected.md; source: the expected-GEMM study of 2026-11-21 on aiconfigurator's
published tables (Apache-2.0), 18,000 rows of five chips. Everything is in seconds and bytes.

The formula is written once and priced in three ways: many shapes of one pair of formats (arrays, one entry per shape),
one shape in many pairs (arrays, one entry per pair: `parameters.side_by_side`), one product (numbers). Candidate arrays
have the shape (tiles, rows), with a leading axis for the counts of split-K where all are priced at once.

In order of the file: what a GEMM moves and computes before any kernel is chosen (bytes that miss the L2, DRAM time,
clock loss, latency of a k step); the kernel for few rows, one pass over the weights that DRAM, the L2 or its own serial
loop limits; the kernels that quantise a 16-bit activation on the fly, a time of their own after the product they feed;
then `product_times`, which prices the tiles and takes the fastest.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from roofline_model.core.elementwise import (
    Numbers,
    ceiling,
    choose,
    exponential,
    larger,
    log2,
    powered,
    rooted,
    smaller,
    to_power,
)
from roofline_model.core.errors import InvalidValueError
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.intervals import interval_bounds
from roofline_model.expected.prediction import ExpectedBatch, binding_of, with_library
from roofline_model.expected.products.fitted.constants import GRID, FittedGemm, GemmConstants
from roofline_model.expected.products.fitted.library import find_gemm
from roofline_model.expected.products.parameters import (
    K_STEP,
    SPLITS,
    Candidates,
    GemmFormats,
    ProductParameters,
    copies_to_pass,
    gemm_formats,
    may_split,
)
from roofline_model.formats.catalog import NumberFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

CLOCK_LOSS_ONSET_S = 5e-5
"""Ideal length of a kernel from which power and clock limits begin to show."""
COLD_LATENCY_RATIO = 0.3
"""A k step takes this much longer when its weights come from DRAM."""


@dataclass(frozen=True, slots=True)
class GemmWork:
    """What a GEMM moves and computes before any kernel is chosen; arrays of shape (rows,) or (pairs,), or numbers."""

    m: Numbers
    n: Numbers
    k: Numbers
    weight_bytes: Numbers
    cold_weight_bytes: Numbers
    """Weight bytes that come from DRAM."""
    output_bytes: Numbers
    activation_miss: Numbers
    """Share of the activation that comes from DRAM."""
    dram_s: Numbers
    tensor_ratio: Numbers
    """e_c after the clock loss of long kernels."""
    k_element_s: Numbers
    """T_k per wave and element of k."""

    def at(self, index: NDArray[np.intp]) -> GemmWork:
        """Return the rows at `index`."""
        return GemmWork(*(getattr(self, name)[index] for name in self.__slots__))


def hit_share(touched: Numbers, capacity_bytes: Numbers, edge: Numbers) -> Numbers:
    """Return the share that the L2 serves when `touched` bytes pass between two uses of a line; 0 for infinitely
    many.
    """
    share = 1.0 / (1.0 + to_power(smaller(touched / capacity_bytes, 4.0), edge))
    if isinstance(touched, float):
        return share * (touched < math.inf)
    import numpy as np

    return np.where(np.isinf(touched), 0.0, share)


def are_cold(copies: Numbers) -> bool:
    """Return whether no weight is ever touched again before the cache has forgotten it."""
    if isinstance(copies, float):
        return copies == math.inf
    import numpy as np

    return bool(np.isinf(copies).all())


def work_of(p: ProductParameters, m: Numbers, n: Numbers, k: Numbers, copies: Numbers) -> GemmWork:
    """Return the work of each row; `copies` weights are touched between two uses of one (infinite: always cold).

    Weights are kept in L2 if all copies, A and C fit into its usable share; A if one W, A and C do; C if A and C do.
    """
    weight = n * k * p.weight_bytes_per_element
    activation = m * k * p.activation_bytes_per_element
    output = m * n * p.output_bytes_per_element
    l2_kept_bytes = p.l2_share_ratio * p.l2_bytes
    moved = activation + output
    # Cold weights hit nothing: an infinity that is known beforehand need not be worked out.
    weight_hit = (
        weight * 0.0 if are_cold(copies) else hit_share(copies * weight + moved, l2_kept_bytes, p.l2_edge_factor)
    )
    weight_miss = 1.0 - weight_hit
    activation_miss = 1.0 - hit_share(weight + moved, l2_kept_bytes, p.l2_edge_factor)
    output_miss = 1.0 - hit_share(moved, p.output_l2_share_ratio * p.l2_bytes, p.l2_edge_factor)
    traffic = weight * weight_miss + activation * activation_miss + output * output_miss
    doublings = log2(larger(2.0 * m * n * k / (p.peak_flops_per_s * CLOCK_LOSS_ONSET_S), 1.0))
    # The loss is a fit over kernels of up to a second; a quarter is where it ends for products beyond any of them.
    clock = larger(1.0 - p.clock_loss_ratio * doublings, 0.25)
    return GemmWork(
        m,
        n,
        k,
        weight,
        weight * weight_miss,
        output,
        activation_miss,
        dram_s=traffic / (p.dram_ratio * p.bandwidth_bytes_per_s),
        tensor_ratio=p.tensor_ratio * clock,
        k_element_s=p.k_step_s / K_STEP * (1.0 + COLD_LATENCY_RATIO * weight_miss),
    )


@dataclass(frozen=True, slots=True)
class GemvTimes:
    """Seconds of the kernel for few rows, without its launch."""

    time_s: Numbers
    dram_s: Numbers
    l2_s: Numbers
    serial_s: Numbers


def gemv_times(p: ProductParameters, rows: GemmWork) -> GemvTimes:
    """Return the times of that kernel, which each pair must have."""
    dram_s = rows.cold_weight_bytes / (p.gemv_dram_ratio * p.bandwidth_bytes_per_s)
    l2_s = rows.weight_bytes / (p.l2_ratio * p.load_bytes_per_s)
    joint_s = rooted(powered(dram_s, p.norm_order) + powered(l2_s, p.norm_order), p.norm_order)
    serial_s = p.gemv_element_s * rows.k
    return GemvTimes(joint_s + serial_s, dram_s, l2_s, serial_s)


def uses_gemv(p: ProductParameters, m: Numbers, gemm_s: Numbers, gemv_s: Numbers) -> Numbers:
    """Return where that kernel runs: a weight-only library switches by m, a 16-bit one where it is faster."""
    is_faster = (m == 1) & (gemv_s < gemm_s)
    return choose(p.is_weight_only, m <= p.gemv_rows_count, is_faster) & p.has_gemv


def cast_seconds(p: ProductParameters, rows: GemmWork) -> Numbers:
    """Return the seconds of the kernels that quantise a 16-bit activation (their launch is inside `launch_s`)."""
    elements = rows.m * rows.k
    on_chip = elements * p.cast_touched_bytes / (p.cast_ratio * p.load_bytes_per_s)
    moved_bytes = elements * (2.0 + p.activation_bytes_per_element) * rows.activation_miss
    dram = moved_bytes / (p.dram_ratio * p.bandwidth_bytes_per_s)
    return (
        rooted(powered(on_chip, p.norm_order) + powered(dram, p.norm_order), p.norm_order) + p.cast_element_s * rows.k
    )


WAVE_S = 2e-8
"""Prologue and epilogue of one more wave; fitted 10 to 20 ns on every chip, hence fixed."""
FEW_ROWS = 16
"""Up to this many rows every split is priced in one array: numpy's cost per call is what they pay."""
CHUNK_ROWS = 1024
"""Rows priced at once: the candidate arrays of a chunk stay in a CPU's L2."""


@dataclass(frozen=True, slots=True)
class ProductTimes:
    """Expected times of products with their 80 % interval, in seconds; numbers of one product, arrays of several."""

    time_s: Numbers
    low_s: Numbers
    high_s: Numbers
    parts: dict[str, Numbers]
    """As in `ExpectedBatch`; empty where nobody asked for them."""
    kernel: list[str]
    """Likewise."""


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
    """Return the expected time of each product of the broadcast `M`, `N`, `K`, as arrays.

    `chip` computes in the pair's compute format (`gemm_formats(...).compute_format`). `weight_copies`: weights touched
    between two uses of the same one, over one weight: infinite in a model (cold), 1 when calls repeat (hot).
    `dynamic_activation_quantization`: the time includes the kernels that quantise A. `constants`: a fit's own; None
    asks the library. Raises `InvalidValueError` for shapes that are not whole numbers from 1, `UnsupportedError` when
    no constants can be had for this chip and format.
    """
    import numpy as np

    formats = gemm_formats(weight_format, activation_format, output_format, computes_wide=computes_wide)
    parameters = ProductParameters.of(
        chip,
        formats,
        find_gemm(chip, formats.family) if constants is None else constants,
        quantizes_activations=dynamic_activation_quantization,
    )
    return expected_batch(parameters, *checked_sizes(np.atleast_1d(M), N, K, weight_copies))


def expected_batch(p: ProductParameters, m: Numbers, n: Numbers, k: Numbers, copies: Numbers) -> ExpectedBatch:
    """Return times, terms and kernels of products of one pair of formats; sizes are those of `checked_sizes`."""
    if isinstance(m, float):
        times = product_times(p, m, n, k, copies, with_parts=True)
    else:
        chunks = [slice(begin, begin + CHUNK_ROWS) for begin in range(0, max(len(m), 1), CHUNK_ROWS)]
        times = _joined([product_times(p, m[s], n[s], k[s], copies[s], with_parts=True) for s in chunks])
    return ExpectedBatch(
        time_s=times.time_s,
        low_s=times.low_s,
        high_s=times.high_s,
        parts=times.parts,
        binding=binding_of(times.parts, times.time_s),
        provenance=p.provenance,
        findings=p.findings,
        kernel=times.kernel,
        norm_order=p.norm_order,
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

    p = ProductParameters.of(chip, formats, constants, quantizes_activations=dynamic_activation_quantization)
    chunks = [slice(begin, begin + CHUNK_ROWS) for begin in range(0, len(M), CHUNK_ROWS)]
    times = [product_times(p, M[s], N[s], K[s], weight_copies[s]).time_s for s in chunks]
    return np.concatenate(times) if times else np.zeros(0)


def product_times(
    p: ProductParameters, m: Numbers, n: Numbers, k: Numbers, copies: Numbers, *, with_parts: bool = False
) -> ProductTimes:
    """Return the times of products of one pair of formats, or of one product in several pairs; unchecked.

    Sizes are a `float` each, or arrays of equal length for one pair. `with_parts`: with terms and kernels, of one pair.
    """
    rows, candidates = work_of(p, m, n, k, copies), p.candidates(m, n)
    body_s, tile, split = _cheapest(p, candidates, rows)
    dram_s, parts, kernel = rows.dram_s, {}, []
    if with_parts:
        parts, kernel = _terms(p, candidates, rows, tile, split), _labels(candidates, tile, split)
    if p.max_gemv_rows_count >= (m if isinstance(m, float) else m.min(initial=math.inf)):
        gemv = gemv_times(p, rows)
        uses = uses_gemv(p, m, body_s, gemv.time_s)
        body_s, dram_s = choose(uses, gemv.time_s, body_s), choose(uses, gemv.dram_s, dram_s)
        if with_parts:
            parts, kernel = _with_gemv(parts, kernel, uses, gemv)
    elif with_parts and p.has_gemv:
        parts["serial"] = body_s * 0.0
    time_s = p.launch_s + body_s
    if with_parts:
        parts = {"launch": p.launch_s + body_s * 0.0, **parts}
    if p.has_cast:
        cast_s = cast_seconds(p, rows)
        time_s = time_s + cast_s
        if with_parts:
            parts["cast"] = cast_s
    if p.surface is not None:
        factor = exponential(surface_share(p, n, k, copies) * GRID.logs(p.surface, (m, n, k)))
        # A surface is a mean over shapes: it must not carry one of them past the tensor peak or the DRAM's bandwidth.
        least_s = _unit_roofs(p, m, n, k, dram_s)
        formula_s, time_s = time_s, _corrected(time_s, factor, least_s)
        if with_parts:
            parts = with_library(parts, formula_s, time_s, least_s)
    low_s, high_s = interval_bounds(p.low_ratios, p.high_ratios, m, time_s, p.launch_s)
    return ProductTimes(time_s, low_s, high_s, parts, kernel)


def surface_share(p: ProductParameters, n: Numbers, k: Numbers, copies: Numbers) -> Numbers:
    """Return from 0 to 1 how much of the residual correction holds for each row.

    The surface was learnt where a benchmark's rotation kept small weights in the L2 of the chip it was measured on.
    Cold, the same shape is another case (DRAM hides a slow kernel), so it fades with the difference of the hit shares.
    """
    elements = n * k
    weight_bytes = elements * p.weight_bytes_per_element
    rotated_bytes = copies_to_pass(p.surface_l2_bytes, elements * p.rotated_bytes_per_element) * weight_bytes
    learnt = hit_share(rotated_bytes, p.surface_kept_bytes, p.surface_edge_factor) * p.is_surface_rotated
    here = weight_bytes * 0.0 if are_cold(copies) else hit_share(copies * weight_bytes, p.kept_bytes, p.edge_factor)
    share = 1.0 - abs(learnt - here)
    return share * share


def _unit_roofs(p: ProductParameters, m: Numbers, n: Numbers, k: Numbers, dram_s: Numbers) -> dict[str, Numbers]:
    """Return what the tensor peak and the specified bandwidth allow at best; no library undercuts it."""
    return {"tensor": 2.0 * m * n * k / p.peak_flops_per_s, "dram": dram_s * p.reached_dram_ratio}


def _corrected(formula_s: Numbers, factor: Numbers, least_s: Mapping[str, Numbers]) -> Numbers:
    """Return the time with the surface's `factor`, which must not carry it past a roof that the formulas keep."""
    return larger(formula_s * factor, smaller(formula_s, larger(least_s["tensor"], least_s["dram"])))


def _cheapest(p: ProductParameters, candidates: Candidates, rows: GemmWork) -> tuple[Numbers, Any, Any]:
    """Return (seconds without launch, place of the best tile, place of the best split) of each row."""
    tiles = candidates.tiles
    blocks = ceiling(rows.m / tiles.rows) * ceiling(rows.n / tiles.columns)
    power = powered(candidates.tensor_s / rows.tensor_ratio, p.norm_order) + candidates.load_power
    is_single = isinstance(rows.k, float)
    longest_k = rows.k if is_single else rows.k.max(initial=0.0)
    slices = smaller(longest_k / p.least_slice_elems, p.most_split_count)
    split_count = bisect_right(SPLITS, slices if isinstance(slices, float) else slices.max(initial=0.0))
    if split_count > 1:
        may = may_split(p.gpu_family, p.is_sixteen_bit, rows.m, rows.n, rows.k)
        narrow = (blocks < p.sm_count) & (p.has_split & may)
        if candidates.usable is not None:
            narrow = narrow & candidates.usable
        if narrow.any():
            is_few = is_single or len(rows.k) <= FEW_ROWS
            price = _splits_at_once if is_few else _splits_in_turn
            return price(p, candidates, rows, blocks, power, narrow, split_count)
    time_s = _candidate_seconds(p, rows, tiles.resident, 1.0, blocks, power, candidates.supply_s)
    if candidates.usable is not None:
        time_s[~candidates.usable] = math.inf
    best_s, tile = _least(time_s, rows)
    return best_s, tile, tile * 0


def _least(time_s: Floats, rows: GemmWork) -> tuple[Numbers, Any]:
    """Return (seconds, place) of the cheapest candidate of each row; numbers of one product."""
    import numpy as np

    if isinstance(rows.dram_s, float):
        place = int(time_s.argmin())
        return float(time_s[place, 0]), place
    places = time_s.argmin(axis=0)
    return time_s[places, np.arange(len(places))], places


def _splits_at_once(
    p: ProductParameters,
    candidates: Candidates,
    rows: GemmWork,
    blocks: Floats,
    power: Floats,
    narrow: NDArray[np.bool_],
    split_count: int,
) -> tuple[Numbers, Any, Any]:
    """Return what `_cheapest` does where every split of few rows is priced in one array.

    `narrow`: candidates that leave SMs without a block, which alone are split; `split_count`: of `SPLITS`, the longest
    k.
    """
    import numpy as np

    split, ones = _split_counts(split_count)
    time_s = _candidate_seconds(p, rows, candidates.tiles.resident, split, blocks * ones, power, candidates.supply_s)
    allowed = narrow & (rows.k >= p.least_slice_elems * split) & (split <= p.most_split_count)
    allowed[0] = True if candidates.usable is None else candidates.usable
    np.putmask(time_s, ~allowed, math.inf)
    best_s, place = _least(time_s.reshape(-1, time_s.shape[-1]), rows)
    tile_count = len(candidates.tiles.rows)
    return best_s, place % tile_count, place // tile_count


def _splits_in_turn(
    p: ProductParameters,
    candidates: Candidates,
    rows: GemmWork,
    blocks: Floats,
    power: Floats,
    narrow: NDArray[np.bool_],
    split_count: int,
) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Return the same of many rows, split by split: fewer and fewer of them are narrow and long enough."""
    import numpy as np

    resident, supply_s = candidates.tiles.resident, candidates.supply_s
    time_s = _candidate_seconds(p, rows, resident, 1.0, blocks, power, supply_s)
    if candidates.usable is not None:
        time_s[~candidates.usable] = math.inf
    best_s, tile = _least(time_s, rows)
    split = np.zeros(len(tile), dtype=np.intp)
    open_rows = narrow.any(axis=0)
    for place, count in enumerate(SPLITS[1:split_count], start=1):
        index = np.flatnonzero(open_rows & (rows.k >= p.least_slice_elems * count))
        if not len(index):
            break  # a larger split needs an even longer k
        some = rows.at(index)
        time_s = _candidate_seconds(p, some, resident, float(count), blocks[:, index], power[:, index], supply_s)
        time_s[~narrow[:, index]] = math.inf
        split_s, split_tile = _least(time_s, some)
        is_better = split_s < best_s[index]
        better = index[is_better]
        best_s[better], tile[better], split[better] = split_s[is_better], split_tile[is_better], place
    return best_s, tile, split


@cache
def _split_counts(count: int) -> tuple[Floats, Floats]:
    """Return the first of `SPLITS`, and as many ones, of shape (splits, 1, 1)."""
    import numpy as np

    return np.array(SPLITS[:count], dtype=np.float64)[:, None, None], np.ones((count, 1, 1))


def _candidate_seconds(
    p: ProductParameters,
    rows: GemmWork,
    resident_count: Floats,
    split: Numbers,
    blocks: Floats,
    power: Floats,
    supply_s: Floats,
) -> Floats:
    """Return the seconds of every candidate without launch; all arguments broadcast, `blocks` has every axis.

    `power`: terms of tensor pipe and load path, per wave and element of k, to the norm's power; `supply_s`: seconds of
    the L2 per block and element of k.
    """
    order, omega = p.norm_order, p.persistence_ratio
    length = _slice_length(p, rows.k, split)
    x = blocks * (split / p.sm_count)
    total = powered(_waves(x, omega) * length, order)
    total *= power
    x /= resident_count
    resident = _resident_waves(x, omega)
    total += powered(resident * (length * rows.k_element_s), order)
    refetch = blocks * supply_s
    refetch *= length * split
    refetch += p.output_ratio / (p.l2_ratio * p.load_bytes_per_s) * rows.output_bytes
    total += powered(refetch, order)
    total += powered(rows.dram_s, order)
    time_s: Floats = rooted(total, order)
    resident -= 1.0
    resident *= WAVE_S
    time_s += resident
    if not isinstance(split, float):
        time_s += choose(split > 1, _split_seconds(p, rows, split), 0.0)
    elif split > 1.0:
        time_s += _split_seconds(p, rows, split)
    return time_s


def _slice_length(p: ProductParameters, k: Numbers, split: Numbers) -> Numbers:
    """Return the k that one slice walks, in whole steps of the main loop."""
    return p.slice_step_elems * ceiling(k / split / p.slice_step_elems)


def _waves(x: Numbers, omega: Numbers) -> Numbers:
    """Return waves of `x` blocks per SM, softened for persistent scheduling; at least one."""
    return (1.0 - omega) * ceiling(x) + omega * larger(x, 1.0)


def _resident_waves(x: Numbers, omega: Numbers) -> Numbers:
    """Return waves when several blocks share an SM; at least one."""
    return larger((1.0 - omega) * ceiling(x) + omega * x, 1.0)


def _split_seconds(p: ProductParameters, rows: GemmWork, split: Numbers) -> Numbers:
    """Return the cost of splitting k: a fixed one, and FP32 partial sums written and read (8 bytes each) through L2."""
    return p.split_s + 8.0 * split * rows.m * rows.n / (p.l2_ratio * p.load_bytes_per_s)


def _terms(p: ProductParameters, candidates: Candidates, rows: GemmWork, tile: Any, split: Any) -> dict[str, Numbers]:
    """Return the terms of the chosen candidates, each alone, and the additive costs; seconds."""
    tiles = candidates.tiles
    bm, bn, resident_count, tensor_s, load_s, operand_bytes = (
        _at(column, tile)
        for column in (
            tiles.rows,
            tiles.columns,
            tiles.resident,
            candidates.tensor_s,
            candidates.load_s,
            candidates.operand_bytes,
        )
    )
    count = _at(_split_counts(len(SPLITS))[0][:, 0], split)
    length = _slice_length(p, rows.k, count)
    blocks = ceiling(rows.m / bm) * ceiling(rows.n / bn) * count
    x = blocks / p.sm_count
    waves = _waves(x, p.persistence_ratio) * length
    resident = _resident_waves(x / resident_count, p.persistence_ratio)
    refetch_bytes = blocks * length * operand_bytes + p.output_ratio * rows.output_bytes
    return {
        "tensor": waves * tensor_s / rows.tensor_ratio,
        "dram": rows.dram_s,
        "l2": refetch_bytes / (p.l2_ratio * p.load_bytes_per_s),
        "sm": waves * load_s,
        "latency": resident * length * rows.k_element_s,
        "waves": WAVE_S * (resident - 1.0),
        "split": choose(count > 1, _split_seconds(p, rows, count), 0.0),
    }


def _at(column: Floats, place: Any) -> Numbers:
    """Return the entries of a column of shape (count, 1), or (count, rows), at one place, as a number, or at each."""
    if isinstance(place, int):
        return float(column[place, 0])
    return column[place, 0] if column.shape[1] == 1 else column[place, range(len(place))]


def _labels(candidates: Candidates, tile: Any, split: Any) -> list[str]:
    """Return the name of each chosen candidate."""
    places = split * len(candidates.tiles.rows) + tile
    labels = candidates.tiles.labels
    return [labels[places]] if isinstance(places, int) else [labels[place] for place in places.tolist()]


def _with_gemv(
    parts: Mapping[str, Numbers], kernel: list[str], uses: Any, gemv: GemvTimes
) -> tuple[dict[str, Numbers], list[str]]:
    """Return terms and kernels with those of the kernel for few rows where it runs."""
    own_times = {"dram": gemv.dram_s, "l2": gemv.l2_s, "serial": gemv.serial_s}
    joined = {**parts, "serial": gemv.serial_s * 0.0}
    chosen = {name: choose(uses, own_times.get(name, 0.0), value) for name, value in joined.items()}
    each = [uses] if isinstance(uses, bool) else uses.tolist()
    return chosen, ["gemv" if is_gemv else label for is_gemv, label in zip(each, kernel, strict=True)]


def _joined(pieces: list[ProductTimes]) -> ProductTimes:
    """Return the times of several chunks as one."""
    import numpy as np

    if len(pieces) == 1:
        return pieces[0]
    return ProductTimes(
        np.concatenate([piece.time_s for piece in pieces]),
        np.concatenate([piece.low_s for piece in pieces]),
        np.concatenate([piece.high_s for piece in pieces]),
        {name: np.concatenate([piece.parts[name] for piece in pieces]) for name in pieces[0].parts},
        [label for piece in pieces for label in piece.kernel],
    )


def checked_sizes(M: Any, N: Any, K: Any, copies: Any) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return sizes and copies: four floats of numbers, else arrays of one length, broadcast.

    Raises `InvalidValueError` for sizes that are not whole numbers from 1 and for less than one copy.
    """
    if all(isinstance(size, int | float) for size in (M, N, K, copies)):
        for name, size in (("M", M), ("N", N), ("K", K)):
            _check_size(name, size)
        if not copies >= 1:
            raise InvalidValueError(_COPIES_PROBLEM)
        return float(M), float(N), float(K), float(copies)
    import numpy as np

    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in (M, N, K, copies)))
    m, n, k, r = (np.atleast_1d(array).ravel() for array in arrays)
    for name, sizes in (("M", m), ("N", n), ("K", k)):
        is_right = (sizes >= 1) & (sizes <= 1e9) & (sizes == np.floor(sizes))
        if not is_right.all():
            _check_size(name, sizes[~is_right][0])
    if not (r >= 1).all():
        raise InvalidValueError(_COPIES_PROBLEM)
    return m, n, k, r


_COPIES_PROBLEM = "weight_copies must be at least 1 (hot); infinite is cold"


def _check_size(name: str, size: Any) -> None:
    """Raise `InvalidValueError` unless `size` is one of a product."""
    if not 1 <= size <= 1e9 or size != math.floor(size):
        raise InvalidValueError(f"{name} must hold whole numbers from 1 to 1,000,000,000, got {size:g}")
