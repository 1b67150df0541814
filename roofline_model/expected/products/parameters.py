"""Parameters of the product formula for a pair of formats on a chip: kernel family, bytes, copies, tiles, constants.

Kernel families: five were measured and fitted, BF16, FP8 (W8A8), NVFP4 (W4A4), INT8 and INT4 weight-only (W8A16, W4A16
in groups of 128). Any other pair runs on the nearest of them, with its own bytes and its own tensor peak, and the
prediction says so. Where another library's kernel may well be faster, `reference_kernel` names the one that an expected
time stands for.

Copies: in a model the weights of a layer come back only after all other layers, so infinitely many copies (cold). A
benchmark rotates over a few, and up to five can fit in a large L2: many published "cold" rows are L2-hot by
construction.

Tiles: the output tiles and split-K counts a library may choose from, and the rules that forbid some. bm × bn is the
tile, s the number of slices k is cut into. Source: the expected-GEMM study of 2026-11-21, section "candidates"; the
no-split rules were read off measured times that grow by exactly 3.5 to 4 ns per k (a serial k loop).

Several pairs side by side: every parameter is an array with one entry per pair, so that the same formula prices all the
formats of one shape in one pass (numpy's cost per call is what a single product pays).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from roofline_model.core.elementwise import Numbers, ceiling, larger, powered, smaller
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.chip import ChipSpec, family_rules, fitted_numbers
from roofline_model.expected.intervals import IntervalTable, across_families
from roofline_model.expected.products.fitted.constants import KNOT_COUNT, WEIGHT_ONLY, FittedGemm, GemmConstants
from roofline_model.formats.catalog import SIXTEEN_BIT, NumberFormat, get_format
from roofline_model.operators.product import WEIGHT_GROUP_ELEMS, WEIGHT_SCALE_BITS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]
    Positions = NDArray[np.intp]

CAST_READ_BYTES = {"FP8": 4.0, "NVFP4": 2.0}
"""Bytes of a 16-bit activation read per element by the quantising kernels: FP8 reads twice (amax, then convert)."""


@dataclass(frozen=True, slots=True)
class GemmFormats:
    """The kernel family of a weight and activation format, and the bytes per element its kernel moves."""

    family: str
    """One of `KERNEL_FAMILIES`: whose constants are used."""
    compute_format: str
    """Format key whose tensor peak counts."""
    weight_bytes_per_element: float
    activation_bytes_per_element: float
    output_bytes_per_element: float
    is_measured_pair: bool
    """False when the pair itself was never measured and runs on its neighbour's constants."""
    findings: tuple[Finding, ...] = ()

    @property
    def is_weight_only(self) -> bool:
        """Whether narrow weights are widened to 16 bit inside the kernel."""
        return self.family in WEIGHT_ONLY


def gemm_formats(
    weight_format: str | NumberFormat,
    activation_format: str | NumberFormat,
    output_format: str | NumberFormat = "BF16",
    *,
    computes_wide: bool = False,
) -> GemmFormats:
    """Return the kernel family of a pair of formats.

    `computes_wide`: the chip has no unit for the pair, so both operands are widened to 16 bit (as weight-only kernels
    do). Raises `UnknownNameError` for an unknown format.
    """
    return _of_formats(
        get_format(weight_format), get_format(activation_format), get_format(output_format), computes_wide
    )


@cache
def _of_formats(
    weight: NumberFormat, activation: NumberFormat, output: NumberFormat, computes_wide: bool
) -> GemmFormats:
    family, compute, is_measured, findings = _family(weight, activation, computes_wide)
    return GemmFormats(
        family,
        compute,
        kernel_bytes_per_element(weight),
        kernel_bytes_per_element(activation),
        kernel_bytes_per_element(output),
        is_measured,
        findings,
    )


def kernel_bytes_per_element(fmt: NumberFormat) -> float:
    """Return the bytes a kernel moves per element: the container, block scales, and group scales of narrow integers.

    One scale per tensor is nothing; INT4 and INT2 without scales of their own get one of 16 bit per 128 (INT4:
    0.515625).
    """
    bits = float(fmt.container_bits or fmt.element_bits)
    bits += sum(level.bits / level.block_elems for level in fmt.scales if level.block_elems)
    if fmt.kind == "int" and fmt.element_bits < 8 and not fmt.scales:
        bits += WEIGHT_SCALE_BITS / WEIGHT_GROUP_ELEMS
    return bits / 8


_Family = tuple[str, str, bool, tuple[Finding, ...]]
"""Kernel family, compute format, whether this pair was measured, and what to know of it."""


def _family(weight: NumberFormat, activation: NumberFormat, computes_wide: bool) -> _Family:
    if weight.element_bits < activation.element_bits or (computes_wide and weight.element_bits < 16):
        return _narrow_weight(weight, activation, computes_wide)
    if activation.element_bits < weight.element_bits:
        # A narrow activation is widened on load: the kernel of the weight's format.
        family, compute, _, _ = _family(weight, weight, computes_wide)
        widened = finding("format-unmeasured", kind="activation", activation=activation.key, weight=weight.key)
        return family, compute, False, (widened,)
    if activation.element_bits > 16:
        return "BF16", activation.key, False, (_unmeasured(activation.key, "products", "BF16"),)
    if activation.element_bits == 16:
        return "BF16", activation.key, True, ()
    if activation.element_bits >= 6:
        is_plain = activation.kind == "float" and not activation.scales
        findings = () if is_plain else (_unmeasured(activation.key, "products", "FP8"),)
        return "FP8", activation.key, is_plain, findings
    is_nvfp4 = activation.key == weight.key == "NVFP4"
    return "NVFP4", activation.key, is_nvfp4, () if is_nvfp4 else (_unmeasured(weight.key, "products", "NVFP4"),)


def _unmeasured(format_key: str, operand: str, family: str) -> Finding:
    return finding("format-unmeasured", kind="format", format=format_key, operand=operand, family=family)


def _narrow_weight(weight: NumberFormat, activation: NumberFormat, computes_wide: bool) -> _Family:
    if activation.element_bits >= 16 or computes_wide:
        family = "INT8" if weight.element_bits >= 6 else "INT4"
        wide = activation.key if activation.element_bits >= 16 else "BF16"
        is_measured = weight.key == family and activation.element_bits == 16
        findings = () if is_measured else (_unmeasured(weight.key, "weights", f"{family} weight-only"),)
        return family, wide, is_measured, findings
    # W4A8: computed in 8 bit after widening the weight.
    return "FP8", activation.key, False, (_unmeasured(f"{weight.key}.{activation.key}", "products", "FP8"),)


WEIGHT_ONLY_KERNEL = "TensorRT-LLM 1.0 weight-only"
"""W8A16 and W4A16 rows: 4,800 of 26,900 measured, of A100 and L40S alone; docs/theory/validation.md. Source:
aiconfigurator."""


def reference_kernel(weight: str, activation: str, provenance: str) -> str:
    """Return the kernel that an expected time of a product stands for; empty where there is nothing to say.

    Weights narrower than their 16-bit activation: at few rows the measured kernel takes a step from its GEMV to its
    GEMM, and on chips with a newer tensor unit than the measured ones (`transferred-…`) libraries have had better ones
    since.
    """
    is_weight_only = get_format(weight).element_bits < 16 <= get_format(activation).element_bits
    # What a machine measured itself is of its own kernels.
    return WEIGHT_ONLY_KERNEL if is_weight_only and provenance != "measured-here" else ""


COLD = math.inf
"""Copies of a real model: never the same weights twice before the cache has forgotten them."""
HOT = 1.0
"""Copies when calls follow each other on the same operands."""
MOST_COPIES = 5
_COLD_TABLES = ("a100-sxm-80gb", "a100-sxm-40gb")
"""Chips whose published 16-bit table behaves cold at every size (the older collector, TensorRT-LLM 1.0.0)."""
_ROTATION_BYTES = {"BF16": 2.0, "FP8": 1.0}


def rotated_copies(chip: ChipSpec, kernel_family: str, N: ArrayLike, K: ArrayLike) -> Numbers:
    """Return the copies of an N×K weight between two uses of one in this chip's published table; floats give a `float`.

    The table is aiconfigurator's. BF16 and FP8: enough copies to pass the L2 once, at most five
    (collector/trtllm/collect_gemm.py of that project), so that up to five copies can be L2-hot. NVFP4 and weight-only
    tables, and the A100's: infinite. Their collectors name five copies too, but the measured times are those of cold
    weights: with infinitely many, the cross-validated error falls from 9.6 to 7.4 % (NVFP4, RTX PRO 6000), 4.4 to 3.5 %
    (NVFP4, B200), 10.7 to 7.2 % (INT8, L40S), 10.7 to 7.7 % (INT4, L40S) and 8.3 to 8.0 % (BF16, A100). `kernel_family`
    is BF16, FP8, NVFP4, INT8 or INT4.
    """
    element_bytes = rotation_element_bytes(chip, kernel_family)
    if isinstance(N, float) and isinstance(K, float):
        return COLD if element_bytes is None else copies_to_pass(chip.l2_bytes, N * K * element_bytes)
    import numpy as np

    elements = np.asarray(N, dtype=np.float64) * np.asarray(K, dtype=np.float64)
    if element_bytes is None:
        return np.full_like(elements, COLD)
    return np.asarray(copies_to_pass(chip.l2_bytes, elements * element_bytes), dtype=np.float64)


def copies_to_pass(l2_bytes: Numbers, weight_bytes: Numbers) -> Numbers:
    """Return the copies of a weight that pass an L2 once, at most `MOST_COPIES`."""
    return smaller(larger(ceiling(l2_bytes / weight_bytes), 1.0), MOST_COPIES)


def rotation_element_bytes(chip: ChipSpec, kernel_family: str) -> float | None:
    """Return the bytes per element by which that table's collector counted copies; None: its rows are always cold."""
    return None if chip.key in _COLD_TABLES else _ROTATION_BYTES.get(kernel_family)


def copies_of(cache: str) -> float:
    """Return the copies of a weight that are touched between two uses of one, in a state of the cache."""
    return HOT if cache == "warm" else COLD


TILE_ROWS = (16, 32, 64, 128, 256)
SMALLEST_TILE_ROWS = TILE_ROWS[0]
TILE_ROWS_TMA = (16, 32, 64, 128, 192, 256)
TILE_COLUMNS = (32, 64, 128, 256)
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
WEIGHT_ONLY_SPLITS = 7
"""TensorRT-LLM's kernels of narrow weights cut k into no more slices (SPLIT_K_LIMIT in fpA_intB_gemm)."""
SMALLEST_TILE_ELEMS, LARGEST_TILE_ELEMS = 1024, 32768
SMALLEST_WEIGHT_ONLY_COLUMNS = 64
"""Kernels that widen their weights have no narrower tile."""
LARGEST_HALF_TILE = 128
"""From this many rows (columns) on, every tile may be used: no tile has more than twice as many rows (columns)."""
SMALLEST_SLICE = 128
"""A slice of split-K is at least this many k."""
K_STEP = 64
"""Elements of k that one step of the main loop takes."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of one GPU family; arrays of shape (tiles, 1), to broadcast against rows."""

    rows: Floats
    columns: Floats
    padding_ratio: Floats
    """Tensor-pipe time over that of a 128 × 128 tile: 1 % per halving."""
    resident: Floats
    """Blocks that fit on one SM together."""
    smallest_mma_elems: int
    labels: tuple[str, ...]
    """`bm x bn x s` for every (split, tile), split-major."""

    def at(self, positions: Positions) -> Tiles:
        """Return the tiles at `positions`."""
        names, count = positions.tolist(), len(self.rows)
        return Tiles(
            self.rows[positions],
            self.columns[positions],
            self.padding_ratio[positions],
            self.resident[positions],
            self.smallest_mma_elems,
            tuple(self.labels[first + name] for first in range(0, len(self.labels), count) for name in names),
        )


@cache
def tiles_of(family: str) -> Tiles:
    """Return the tiles that kernels of this GPU family have."""
    import numpy as np

    rules = family_rules(family)
    least = rules.smallest_mma_elems
    pairs = [
        (bm, bn)
        for bm in (TILE_ROWS_TMA if rules.supply_class == "tma" else TILE_ROWS)
        for bn in TILE_COLUMNS
        if SMALLEST_TILE_ELEMS <= bm * bn <= LARGEST_TILE_ELEMS and max(bm, bn) >= least
    ]
    rows = np.array([[bm] for bm, _ in pairs], dtype=np.float64)
    columns = np.array([[bn] for _, bn in pairs], dtype=np.float64)
    area = rows * columns
    return Tiles(
        rows=rows,
        columns=columns,
        padding_ratio=1 + 0.01 * np.maximum(0.0, np.log2(16384 / area)),
        resident=np.clip(LARGEST_TILE_ELEMS / area, 1, 4),
        smallest_mma_elems=least,
        labels=tuple(f"{bm}x{bn}x{s}" for s in SPLITS for bm, bn in pairs),
    )


def usable_tiles(tiles: Tiles, m: Numbers, n: Numbers, is_weight_only: bool | Bools = False) -> Bools:
    """Return which tile serves which row, shape (tiles, rows): none much larger than the output it covers.

    Every row keeps at least one tile: an output smaller than all of them runs on the smallest. `is_weight_only`: of all
    rows, or of each.
    """
    import numpy as np

    least = tiles.smallest_mma_elems
    too_tall = (tiles.rows > np.maximum(16, 2 * m)) & (tiles.rows > least)
    too_wide = (tiles.columns > np.maximum(32, 2 * n)) & (tiles.columns > least)
    too_narrow = (tiles.columns < SMALLEST_WEIGHT_ONLY_COLUMNS) & is_weight_only
    usable: Bools = ~(too_tall | too_wide | too_narrow)
    # The first of the smallest has 64 columns or more in every family: weight-only kernels have it, too.
    smallest = int((tiles.rows * tiles.columns).argmin())
    usable[smallest] |= ~usable.any(axis=0)
    return usable


SMALLEST_SPLIT_PRODUCT = 2.0**21
"""From this M·N·K on the 16-bit library of sm89 and sm120 looks for a split. Read off the measured products of two and
more rows: up to 1,835,008 all of them leave the whole k loop to one block, on both chips (3.3 to 4.1 ns per k); from
2,097,152 on they do not.
"""


def may_split(family: str, is_sixteen_bit: bool | Bools, m: Numbers, n: Numbers, k: Numbers) -> bool | Bools:
    """Return the rows that the library may cut along k at all (the slice length is checked per split).

    Only 16-bit libraries on sm89 and sm120 leave long serial k loops; elsewhere every row may be split.
    """
    if is_sixteen_bit is False or family not in ("sm89", "sm120"):
        return True
    import numpy as np

    tiny = (m >= 2) & (m * n * k < SMALLEST_SPLIT_PRODUCT)
    if family == "sm89":
        short = (k < 2048) & np.logical_not((n <= 256) & (k >= 1024))
        wide = (n >= 1024) & (m <= 128) & (k <= 4096)
        leaves_loop = tiny | short | wide
    else:
        short = (k < 2048) & np.logical_not((m <= 64) & (n <= 256) & (k >= 1536))
        leaves_loop = tiny | short
    allowed: Bools = np.logical_not(leaves_loop & is_sixteen_bit)
    return allowed


GIVEN = "given"
"""Provenance of a time from constants that the caller brought, of which nothing else is known."""
OTHER_FORMAT = "transferred-format"
"""Provenance of a pair of formats that runs on the constants of its measured neighbour, on the same chip."""
OTHER_FORMAT_SHARE = 0.7
"""Share of a change of family (in logs, in quadrature) that a change of format adds to the interval. A judgement."""


def prediction_interval(fitted: FittedGemm | None, formats: GemmFormats) -> tuple[IntervalTable, str]:
    """Return (interval factors, provenance) of predictions with these constants for these formats."""
    across = across_families(formats.family)
    if fitted is None:
        return across, GIVEN
    if formats.is_measured_pair:
        return fitted.intervals, fitted.provenance
    provenance = OTHER_FORMAT if fitted.provenance == "fitted" else fitted.provenance
    return fitted.intervals.widened(across, OTHER_FORMAT_SHARE), provenance


GEMV_FAMILIES = ("BF16", "INT8", "INT4")
"""Kernel families whose libraries may have a kernel for few rows."""
UNPADDED = ("FP32", "FP64")
"""Formats of the CUDA cores on most chips: a product of few rows does not fill a matrix instruction's tile."""
UNPADDED_SLICE = 8
"""`SMALLEST_SLICE` of kernels in those formats: CUTLASS's for CUDA cores walk k in eights. Their slices count as they
are, not in whole steps.
"""
GEMV_ELEMENT_S = 2e-11
"""Serial time per element of k of the 16-bit kernel for few rows."""
MAX_STORED_OUTPUTS = 512
"""Output sizes whose candidates are stored; outputs from 128 × 128 on share one."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tiles that may serve some outputs, with what each takes; arrays of shape (tiles, 1), or (tiles, pairs)."""

    tiles: Tiles
    usable: Bools | None
    """Which tile serves which output, shape (tiles, outputs); None: each serves all."""
    tensor_s: Floats
    """Seconds of the tensor pipe at its full rate, per wave and element of k."""
    load_s: Floats
    """Seconds of one SM's loads, per wave and element of k."""
    load_power: Floats
    """`load_s` to the power of the norm."""
    supply_s: Floats
    """Seconds of the L2, per block and element of k."""
    operand_bytes: Floats
    """Operand bytes, per block and element of k."""


@dataclass(frozen=True, slots=True, eq=False)
class ProductParameters:
    """Chip, bytes per element, constants, interval and residual correction of one pair of formats; or of several.

    Numbers are a `float` of one pair, an array of shape (pairs,) of several; flags likewise. Fields of the chip and the
    formats are those of `ChipSpec` and `GemmFormats`, constants those of `GemmConstants`.
    """

    gpu_family: str
    sm_count: int
    clock_hz: Numbers
    peak_flops_per_s: Numbers
    bandwidth_bytes_per_s: Numbers
    l2_bytes: Numbers
    load_bytes_per_s: Numbers
    weight_bytes_per_element: Numbers
    activation_bytes_per_element: Numbers
    output_bytes_per_element: Numbers
    is_weight_only: bool | Bools
    is_sixteen_bit: bool | Bools
    """Computed in BF16 or FP16, whose library leaves long serial k loops on some chips (`may_split`). Kernels of wider
    formats have choices of their own, which nobody measured.
    """
    is_tile_padded: bool | Bools
    """The tensor unit computes whole tiles. False in FP32 and FP64, whose kernels for few rows compute no others."""
    launch_s: Numbers
    """t0, of the product alone where its activations come quantised already."""
    tensor_ratio: Numbers
    dram_ratio: Numbers
    l2_ratio: Numbers
    sm_ratio: Numbers
    k_step_s: Numbers
    output_ratio: Numbers
    persistence_ratio: Numbers
    has_split: bool | Bools
    split_s: Numbers
    """0 where the library never splits."""
    most_split_count: Numbers
    """Slices that the library cuts k into at most."""
    slice_step_elems: Numbers
    """Elements of k that one step of the main loop takes: a slice is a multiple of it."""
    least_slice_elems: Numbers
    """Elements of k that a slice has at least."""
    has_gemv: bool | Bools
    gemv_dram_ratio: Numbers
    gemv_element_s: Numbers
    gemv_rows_count: Numbers
    max_gemv_rows_count: float
    """The most rows that any of the kernels for few rows takes; 0 without one."""
    reached_dram_ratio: Numbers
    l2_share_ratio: Numbers
    l2_edge_factor: Numbers
    output_l2_share_ratio: Numbers
    clock_loss_ratio: Numbers
    norm_order: Any
    """A number where all pairs share it, else an array."""
    has_cast: bool
    """The time includes the kernels that quantise the activation."""
    cast_ratio: Numbers
    cast_element_s: Numbers
    cast_touched_bytes: Numbers
    """Bytes that these kernels read and write on the chip per element."""
    low_ratios: Any
    """Interval factors by regime: a tuple, or an array of shape (pairs, regimes)."""
    high_ratios: Any
    surface: Any
    """ln(measured / predicted) at the knots: a tuple, an array of shape (knots, pairs), or None: nothing is known."""
    is_surface_rotated: bool | Bools
    """The surface was learnt where a benchmark rotated over copies of the weight that may fit the L2."""
    rotated_bytes_per_element: Numbers
    """By which that benchmark counted its copies; 1 where it did not."""
    surface_l2_bytes: Numbers
    """L2 of the chip that the surface was learnt on."""
    surface_kept_bytes: Numbers
    """Part of it that keeps read data."""
    surface_edge_factor: Numbers
    kept_bytes: Numbers
    """Part of the chip's own L2 that keeps read data, as its GPU family has it."""
    edge_factor: Numbers
    provenance: Any
    """Of a prediction; a tuple of several pairs."""
    findings: Any
    """On where the constants come from; a tuple of several pairs."""
    stored_candidates: dict[tuple[float, float], Candidates] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        chip: ChipSpec,
        formats: GemmFormats,
        constants: FittedGemm | GemmConstants,
        *,
        quantizes_activations: bool = False,
    ) -> ProductParameters:
        """Return the parameters of one pair; bare constants have no residual correction and the widest interval.

        `quantizes_activations`: the call runs the kernels that quantise its activations, where constants know any.
        """
        fitted = constants if isinstance(constants, FittedGemm) else None
        c = constants if isinstance(constants, GemmConstants) else constants.constants
        spec = chip if fitted is None else fitted_numbers(chip, fitted.chip)
        own_spec = spec if fitted is None else fitted.chip
        learnt_on = own_spec if fitted is None else fitted.correction_chip or fitted.chip
        rotated_bytes = rotation_element_bytes(learnt_on, formats.family)
        intervals, provenance = prediction_interval(fitted, formats)
        has_gemv = c.gemv_dram_ratio is not None and formats.family in GEMV_FAMILIES
        # The surface is what libraries choose for 16 bit; kernels of wider formats are others.
        is_unpadded = formats.compute_format in UNPADDED
        is_odd = formats.family == "BF16" and formats.compute_format not in SIXTEEN_BIT
        has_own_launch = quantizes_activations or c.static_launch_s is None
        return cls(
            gpu_family=spec.family,
            sm_count=spec.sm_count,
            clock_hz=spec.clock_hz,
            peak_flops_per_s=spec.peak_flops_per_s,
            bandwidth_bytes_per_s=spec.bandwidth_bytes_per_s,
            l2_bytes=spec.l2_bytes,
            load_bytes_per_s=spec.load_bytes_per_s,
            weight_bytes_per_element=formats.weight_bytes_per_element,
            activation_bytes_per_element=formats.activation_bytes_per_element,
            output_bytes_per_element=formats.output_bytes_per_element,
            is_weight_only=formats.is_weight_only,
            is_sixteen_bit=formats.family == "BF16" and formats.compute_format in SIXTEEN_BIT,
            is_tile_padded=not is_unpadded,
            launch_s=c.launch_s if has_own_launch else c.static_launch_s,
            tensor_ratio=c.tensor_ratio,
            dram_ratio=c.dram_ratio,
            l2_ratio=c.l2_ratio,
            sm_ratio=c.sm_ratio,
            k_step_s=c.k_step_s,
            output_ratio=c.output_ratio,
            persistence_ratio=c.persistence_ratio,
            has_split=c.split_s is not None,
            split_s=c.split_s or 0.0,
            most_split_count=float(WEIGHT_ONLY_SPLITS if formats.is_weight_only else SPLITS[-1]),
            slice_step_elems=float(1 if is_unpadded else K_STEP),
            least_slice_elems=float(UNPADDED_SLICE if is_unpadded else SMALLEST_SLICE),
            has_gemv=has_gemv,
            gemv_dram_ratio=1.0 if c.gemv_dram_ratio is None else c.gemv_dram_ratio,
            gemv_element_s=GEMV_ELEMENT_S if c.gemv_element_s is None else c.gemv_element_s,
            gemv_rows_count=c.gemv_rows_count or 0.0,
            max_gemv_rows_count=max(1.0, c.gemv_rows_count or 0.0) if has_gemv else 0.0,
            reached_dram_ratio=c.reached_dram_ratio,
            l2_share_ratio=c.l2_share_ratio,
            l2_edge_factor=c.l2_edge_factor,
            output_l2_share_ratio=c.output_l2_share_ratio,
            clock_loss_ratio=c.clock_loss_ratio,
            norm_order=c.norm_order,
            has_cast=quantizes_activations and c.cast_ratio is not None,
            cast_ratio=c.cast_ratio or 1.0,
            cast_element_s=c.cast_element_s or 0.0,
            cast_touched_bytes=CAST_READ_BYTES.get(formats.family, 0.0) + formats.activation_bytes_per_element,
            low_ratios=intervals.low,
            high_ratios=intervals.high,
            surface=None if fitted is None or fitted.correction is None or is_odd else fitted.correction.log_ratio,
            is_surface_rotated=rotated_bytes is not None,
            rotated_bytes_per_element=rotated_bytes or 1.0,
            surface_l2_bytes=learnt_on.l2_bytes,
            surface_kept_bytes=learnt_on.rules.l2_share_ratio * learnt_on.l2_bytes,
            surface_edge_factor=learnt_on.rules.l2_edge_factor,
            kept_bytes=own_spec.rules.l2_share_ratio * own_spec.l2_bytes,
            edge_factor=own_spec.rules.l2_edge_factor,
            provenance=provenance,
            findings=(*(fitted.findings if fitted else ()), *formats.findings),
        )

    def candidates(self, m: Numbers, n: Numbers) -> Candidates:
        """Return the tiles to price for outputs of `m` × `n`; those of a single size are stored."""
        if not isinstance(m, float):
            return _candidates(self, m, n)
        # Larger outputs use every tile alike.
        size = min(m, LARGEST_HALF_TILE), min(n, LARGEST_HALF_TILE)
        stored = self.stored_candidates.get(size)
        if stored is None:
            stored = _candidates(self, *size)
            if len(self.stored_candidates) < MAX_STORED_OUTPUTS:
                self.stored_candidates[size] = stored
        return stored


def side_by_side(pairs: Sequence[ProductParameters]) -> ProductParameters:
    """Return the parameters of several pairs on one chip as arrays, in their order; none quantises its activations."""
    joined = {name.name: [getattr(pair, name.name) for pair in pairs] for name in fields(ProductParameters)}
    del joined["stored_candidates"]
    return ProductParameters(**{name: _JOINS.get(name, _array)(values) for name, values in joined.items()})


def _array(values: list[Any]) -> Any:
    import numpy as np

    return np.array(values, dtype=np.bool_ if isinstance(values[0], bool) else np.float64)


def _first(values: list[Any]) -> Any:
    return values[0]


def _orders(values: list[Any]) -> Any:
    import numpy as np

    return values[0] if len(set(values)) == 1 else np.array(values)


def _surfaces(values: list[Any]) -> Any:
    import numpy as np

    if all(surface is None for surface in values):
        return None
    return np.ascontiguousarray(np.array([(0.0,) * KNOT_COUNT if value is None else value for value in values]).T)


_JOINS: dict[str, Callable[[list[Any]], Any]] = {
    "gpu_family": _first,
    "sm_count": _first,
    "max_gemv_rows_count": max,
    "norm_order": _orders,
    "has_cast": any,
    "surface": _surfaces,
    "provenance": tuple,
    "findings": tuple,
}


def _candidates(p: ProductParameters, m: Numbers, n: Numbers) -> Candidates:
    import numpy as np

    every = tiles_of(p.gpu_family)
    usable = usable_tiles(every, m, n, p.is_weight_only)
    positions = np.flatnonzero(usable.any(axis=1)) if usable.size else np.arange(len(usable))
    tiles, usable = every.at(positions), usable[positions]
    rows: Numbers = tiles.rows
    if not np.all(p.is_tile_padded):
        few = np.minimum(rows, np.where(m < SMALLEST_TILE_ROWS, m, math.inf))
        rows = np.where(p.is_tile_padded, rows, few)
    tensor_s = 2.0 * (rows * tiles.columns) * tiles.padding_ratio * p.sm_count / p.peak_flops_per_s
    operand_bytes = tiles.rows * p.activation_bytes_per_element + tiles.columns * p.weight_bytes_per_element
    load_s = operand_bytes / (p.sm_ratio * 64.0 * p.clock_hz)
    return Candidates(
        tiles,
        None if usable.all() else usable,
        tensor_s,
        load_s,
        powered(load_s, p.norm_order),
        operand_bytes / (p.l2_ratio * p.load_bytes_per_s),
        operand_bytes,
    )
