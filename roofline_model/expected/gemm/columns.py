"""Several pairs of formats on one chip, side by side: every number of theirs as an array with one entry per pair.

The formulas of `model.py`, `work.py`, `norm.py` and `gemv_kernel.py` take these in place of single numbers, so that all the
formats of one shape are priced by the same code in one pass: numpy's cost per call is what a single product pays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline_model.expected.chip import fitted_numbers
from roofline_model.expected.gemm.belief import believed
from roofline_model.expected.gemm.candidates import LARGEST_HALF_TILE, Tiles, tiles_of, usable_tiles
from roofline_model.expected.gemm.correction import KNOT_COUNT
from roofline_model.expected.gemm.gemv_kernel import gemv_element_s, has_gemv
from roofline_model.expected.gemm.product import ProductModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ChipColumns:
    """`ChipSpec` of each pair: its compute format has a peak of its own. Arrays of shape (pairs,)."""

    family: str
    sm_count: int
    clock_hz: Floats
    peak_flops_per_s: Floats
    bandwidth_bytes_per_s: Floats
    l2_bytes: Floats
    load_bytes_per_s: Floats


@dataclass(frozen=True, slots=True)
class FormatColumns:
    """`GemmFormats` of each pair."""

    weight_bytes_per_element: Floats
    activation_bytes_per_element: Floats
    output_bytes_per_element: Floats
    is_weight_only: Bools
    is_sixteen_bit: Bools
    """The family is BF16, whose library leaves long serial k loops on some chips (`may_split`)."""


@dataclass(frozen=True, slots=True)
class ConstantColumns:
    """`GemmConstants` of each pair; what a pair has not is a number that is masked where it would be used."""

    launch_s: Floats
    """Of a product whose activations come quantised already."""
    tensor_ratio: Floats
    dram_ratio: Floats
    l2_ratio: Floats
    sm_ratio: Floats
    k_step_s: Floats
    output_ratio: Floats
    persistence_ratio: Floats
    split_s: Floats
    has_split: Bools
    has_gemv: Bools
    gemv_dram_ratio: Floats
    gemv_element_s: Floats
    gemv_rows_count: Floats
    reached_dram_ratio: Floats
    l2_share_ratio: Floats
    l2_edge_factor: Floats
    output_l2_share_ratio: Floats
    clock_loss_ratio: Floats
    norm_order: int | Ints
    """A number where all pairs share it."""


@dataclass(frozen=True, slots=True)
class BeliefColumns:
    """What is known of each pair beyond its formulas: interval factors and library surface."""

    low_ratio: Floats
    """Shape (pairs, regimes)."""
    high_ratio: Floats
    surface: Floats
    """ln(measured / predicted) at the knots, shape (knots, pairs); 0 where nothing is known."""
    learnt_l2_bytes: Floats
    """L2 of the chip the surface was learnt on; `kept`: the share of it that holds read data."""
    learnt_kept_bytes: Floats
    learnt_edge_factor: Floats
    rotated_element_bytes: Floats
    """By which a benchmark counted the copies of a weight; 0: as many as it takes (always cold)."""
    provenance: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tiles that serve at least one pair at one shape; arrays of shape (tiles, 1) or (tiles, pairs)."""

    tiles: Tiles
    usable: Bools
    tensor: Floats
    load_power: Floats
    supply_s: Floats


@dataclass(frozen=True, slots=True)
class PairColumns:
    """All numbers of several pairs on one chip, and the candidates of the shapes asked for lately."""

    chip: ChipColumns
    formats: FormatColumns
    constants: ConstantColumns
    belief: BeliefColumns
    limited: tuple[tuple[int, ProductModel], ...]
    """(place, model) of the pairs that are no faster than their 16-bit product (`widened_floor.py`)."""
    kept_candidates: dict[tuple[int, int], Candidates] = field(default_factory=dict, compare=False, repr=False)

    def candidates(self, M: int, N: int, most_kept: int = 512) -> Candidates:
        """Return the tiles to price for an output of `M` × `N`."""
        key = min(M, LARGEST_HALF_TILE), min(N, LARGEST_HALF_TILE)
        found = self.kept_candidates.get(key)
        if found is None:
            found = _candidates(self, *key)
            if len(self.kept_candidates) < most_kept:
                self.kept_candidates[key] = found
        return found


def columns_of(models: Sequence[ProductModel]) -> PairColumns:
    """Return the columns of models of one chip, in their order; none may widen both operands (`computes_wide`)."""
    import numpy as np

    specs = [fitted_numbers(one.chip, one.fitted.chip) for one in models]
    values = [one.fitted.constants for one in models]
    layouts = [one.formats for one in models]

    def column(of: Sequence[Any], get: Callable[[Any], float]) -> Floats:
        return np.array([get(one) for one in of], dtype=np.float64)

    def flags(of: Sequence[bool]) -> Bools:
        return np.array(of, dtype=np.bool_)

    def named(of: Sequence[Any], *names: str) -> dict[str, Floats]:
        return {name: np.array([getattr(one, name) for one in of], dtype=np.float64) for name in names}

    orders = [one.norm_order for one in values]
    chip = ChipColumns(
        specs[0].family,
        specs[0].sm_count,
        **named(specs, "clock_hz", "peak_flops_per_s", "bandwidth_bytes_per_s", "l2_bytes", "load_bytes_per_s"),
    )
    formats = FormatColumns(
        **named(layouts, "weight_bytes_per_element", "activation_bytes_per_element", "output_bytes_per_element"),
        is_weight_only=flags([one.is_weight_only for one in layouts]),
        is_sixteen_bit=flags([one.family == "BF16" for one in layouts]),
    )
    constants = ConstantColumns(
        launch_s=column(values, lambda c: c.launch_s if c.static_launch_s is None else c.static_launch_s),
        split_s=column(values, lambda c: c.split_s or 0.0),
        has_split=flags([c.split_s is not None for c in values]),
        has_gemv=flags([has_gemv(layout, c) for layout, c in zip(layouts, values, strict=True)]),
        gemv_dram_ratio=column(values, lambda c: 1.0 if c.gemv_dram_ratio is None else c.gemv_dram_ratio),
        gemv_element_s=column(values, gemv_element_s),
        gemv_rows_count=column(values, lambda c: c.gemv_rows_count or 0.0),
        norm_order=orders[0] if len(set(orders)) == 1 else np.array(orders, dtype=np.int64),
        **named(
            values,
            "tensor_ratio",
            "dram_ratio",
            "l2_ratio",
            "sm_ratio",
            "k_step_s",
            "output_ratio",
            "persistence_ratio",
            "reached_dram_ratio",
            "l2_share_ratio",
            "l2_edge_factor",
            "output_l2_share_ratio",
            "clock_loss_ratio",
        ),
    )
    limited = tuple((place, one) for place, one in enumerate(models) if one.wide is not None)
    return PairColumns(chip, formats, constants, _belief(models), limited)


def _belief(models: Sequence[ProductModel]) -> BeliefColumns:
    import numpy as np

    from roofline_model.expected.gemm.rotation import rotation_element_bytes

    tables = [believed(one.fitted, one.formats) for one in models]
    learnt = [one.fitted.correction_chip or one.fitted.chip for one in models]
    surfaces = [
        (0.0,) * KNOT_COUNT if one.fitted.correction is None else one.fitted.correction.log_ratio for one in models
    ]
    return BeliefColumns(
        low_ratio=np.array([table.low for table, _ in tables]),
        high_ratio=np.array([table.high for table, _ in tables]),
        surface=np.ascontiguousarray(np.array(surfaces).T),
        learnt_l2_bytes=np.array([chip.l2_bytes for chip in learnt], dtype=np.float64),
        learnt_kept_bytes=np.array([chip.rules.l2_share_ratio * chip.l2_bytes for chip in learnt]),
        learnt_edge_factor=np.array([chip.rules.l2_edge_factor for chip in learnt]),
        rotated_element_bytes=np.array(
            [rotation_element_bytes(chip, one.formats.family) or 0.0 for chip, one in zip(learnt, models, strict=True)]
        ),
        provenance=tuple(provenance for _, provenance in tables),
    )


def _candidates(pairs: PairColumns, M: int, N: int) -> Candidates:
    """Return the tiles of all kernels; those of weight-only kernels are some of the others'."""
    import numpy as np

    from roofline_model.expected.gemm.model import tile_rates
    from roofline_model.expected.gemm.norm import powered

    m, n = np.array([float(M)]), np.array([float(N)])
    every = tiles_of(pairs.chip.family, False)
    usable = np.repeat(usable_tiles(every, m, n), len(pairs.formats.is_weight_only), axis=1)
    few = tiles_of(pairs.chip.family, True)
    sizes = set(zip(few.rows[:, 0].tolist(), few.columns[:, 0].tolist(), strict=True))
    among = [pair in sizes for pair in zip(every.rows[:, 0].tolist(), every.columns[:, 0].tolist(), strict=True)]
    of_few = np.zeros(len(among), dtype=np.bool_)
    of_few[among] = usable_tiles(few, m, n)[:, 0]
    usable[:, pairs.formats.is_weight_only] = of_few[:, None]
    index = np.flatnonzero(usable.any(axis=1))
    tiles = Tiles(
        every.rows[index],
        every.columns[index],
        every.padding_ratio[index],
        every.resident[index],
        every.smallest_mma_elems,
        (),
    )
    tensor, load, supply_s = tile_rates(pairs.chip, pairs.formats, pairs.constants, tiles)
    return Candidates(tiles, usable[index], tensor, powered(load, pairs.constants.norm_order), supply_s)
