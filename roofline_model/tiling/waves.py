"""How a GEMM is cut into tiles on a GPU, and what that costs: waves, tail, occupancy, L2 hits, bytes beyond compulsory.

The tile is the one the expected-time model prices lowest (`expected.gemm.formula`): what is explained here is the
choice behind that time. Resources per block: `resources.py`. numpy is imported when a tiling is asked for.

Waves, tail, padding, occupancy and requests need no fitted constant. A chip without any gets the tile that plausible
rates make cheapest (`generic_start`), and everything but times and what hangs on them; a finding says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import NOT_IN_JSON
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, unsupported
from roofline_model.expected.chip import ChipSpec, fitted_numbers
from roofline_model.expected.predict import predict_expected, why_no_expected
from roofline_model.expected.products.formula import checked_sizes, expected_batch, work_of
from roofline_model.expected.products.parameters import ProductParameters, copies_of
from roofline_model.expected.products.product import ProductModel
from roofline_model.formats.catalog import get_format
from roofline_model.operators.product import Operator, check_dimension
from roofline_model.tiling.resources import Occupancy, occupancy
from roofline_model.tiling.stand_in import StandIn, stand_in

if TYPE_CHECKING:
    from roofline_model.expected.prediction import ExpectedBatch, ExpectedPrediction
    from roofline_model.expected.products.parameters import GemmFormats

GEMV_LABEL = "gemv"


@dataclass(frozen=True, slots=True)
class Tiling:
    """One product on one chip, cut as the library is expected to cut it."""

    DERIVED: ClassVar = (
        "block_count",
        "blocks_per_sm_ratio",
        "wave_count",
        "resident_wave_count",
        "tail_ratio",
        "padding_ratio",
        "beyond_compulsory_bytes",
        "efficiency_ratio",
    )

    hardware: str = field(metadata=NOT_IN_JSON)
    M: int = field(metadata=NOT_IN_JSON)
    N: int = field(metadata=NOT_IN_JSON)
    K: int = field(metadata=NOT_IN_JSON)
    formats: str = field(metadata=NOT_IN_JSON)
    """`weight.activation`."""
    kernel_family: str
    """Family of kernels."""
    tile_m: int
    """Rows of a tile, elements."""
    tile_n: int
    """Columns of a tile, elements."""
    split_count: int
    """Slices that k is cut into, count; 1: no split."""
    grid_m_count: int
    """Tiles along M, count."""
    grid_n_count: int
    """Tiles along N, count."""
    sm_count: int
    """SMs of the chip, count."""
    occupancy: Occupancy
    """How many blocks fit on an SM, and what limits them."""
    is_cold: bool = field(metadata=NOT_IN_JSON)
    """Whether the weights come from DRAM."""
    operand_bytes: float
    """A and B, each read once: compulsory, bytes."""
    output_bytes: float
    """C, written once: compulsory, bytes."""
    dram_bytes: float | None
    """What the model moves to and from DRAM, bytes, operands and output: what hits the L2 is not in it; null where the
    cache is not known.
    """
    operand_dram_bytes: float | None
    """The operands' share of these bytes."""
    requested_bytes: float
    """Operand bytes that the blocks ask the L2 for: every tile loads its own rows and columns."""
    l2_hit_ratio: float | None
    """Share of the operand bytes asked for that the L2 serves; null where the cache is not known."""
    flops: float
    """Work, FLOP."""
    peak_flops_per_s: float
    """Dense FLOP per second (a multiply and an add are two)."""
    expected_s: float | None
    """Expected time, seconds; null, as all that hangs on it, on a chip without constants."""
    low_s: float | None
    """Lower end of the 80 % interval, seconds."""
    high_s: float | None
    """Upper end of the 80 % interval, seconds."""
    parts_s: Mapping[str, float]
    """Parts that add up to the time, as `ExpectedPrediction.parts`. Terms that overlap have their share of their joint
    time.
    """
    terms_s: Mapping[str, float]
    """The same terms in seconds, each as long as it would take alone; those that overlap do not add up."""
    bound: str
    """Part that binds; empty without a time."""
    provenance: str
    """Where the constants come from: fitted, transferred-sibling, …; empty without a time."""
    findings: tuple[Finding, ...] = ()
    """What is left out or stands in, where no constants are known."""

    @property
    def block_count(self) -> int:
        """Blocks (CTAs) of the launch, a count, split-K included."""
        return self.grid_m_count * self.grid_n_count * self.split_count

    @property
    def blocks_per_sm_ratio(self) -> float:
        """Blocks over SMs: the waves of a machine that runs one block per SM at a time."""
        return self.block_count / self.sm_count

    @property
    def wave_count(self) -> int:
        """Blocks of the SM that has most, a count: the rounds of a machine that runs one block per SM at a time, whole
        ones.
        """
        return math.ceil(self.blocks_per_sm_ratio)

    @property
    def resident_wave_count(self) -> int:
        """Rounds when each SM holds the resident blocks of the occupancy at once; blocks of one SM share its pace."""
        return math.ceil(self.block_count / (self.sm_count * self.occupancy.block_count))

    @property
    def tail_ratio(self) -> float:
        """Share of SM time that idles because blocks do not divide evenly: 1 − blocks / (SMs · most blocks of one SM).

        Residency does not change it: blocks that share an SM take turns in its units.
        """
        return 1 - self.blocks_per_sm_ratio / self.wave_count

    @property
    def padding_ratio(self) -> float:
        """Share of the tiles' area that lies outside the output and is computed for nothing."""
        return 1 - self.M * self.N / (self.grid_m_count * self.tile_m * self.grid_n_count * self.tile_n)

    @property
    def beyond_compulsory_bytes(self) -> float:
        """Operand bytes that the blocks ask the L2 for beyond reading A and B once."""
        return max(0.0, self.requested_bytes - self.operand_bytes)

    @property
    def efficiency_ratio(self) -> float | None:
        """Share of the tensor peak reached; None without a time."""
        return None if self.expected_s is None else self.flops / self.expected_s / self.peak_flops_per_s


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the model is asked with."""

    chip: ChipSpec
    formats: GemmFormats
    parameters: ProductParameters
    batch: ExpectedBatch
    stand_in: StandIn | None = None
    """What stands in on a chip without constants; None where the tile is priced."""


def gemm_tiling(
    work: Operator, device: Device, *, cache: str = "cold", quantizes_activations: bool = False
) -> Tiling | None:
    """Return the tiling of one product (`gemm` or `gemv`); None where the library runs a GEMV kernel, which has no
    tiles.

    `cache="warm"` finds the weights in the L2. Raises `UnsupportedError` for other operators and for chips without
    constants or without the limits of an SM in their file.
    """
    if work.op not in ("gemm", "gemv"):
        raise UnsupportedError(f"only products have tiles, not {work.op}; give gemm(M, N, K)")
    sizes, named = dict(work.shape), dict(work.formats)
    M, N, K = sizes["M"], sizes["N"], sizes["K"]
    question = _ask(device, [M], [N], [K], named["a"], named["b"], named["c"], cache, quantizes_activations)
    label = question.batch.kernel[0]
    if label == GEMV_LABEL:
        return None
    tile_m, tile_n, split = (int(part) for part in label.split("x"))
    formats, chip = question.formats, question.chip
    a_bytes, b_bytes = formats.activation_bytes_per_element, formats.weight_bytes_per_element
    grid_m, grid_n = math.ceil(M / tile_m), math.ceil(N / tile_n)
    length = 64 * math.ceil(K / split / 64)
    requested = grid_m * grid_n * split * length * (tile_m * a_bytes + tile_n * b_bytes)
    output = M * N * formats.output_bytes_per_element
    operands = M * K * a_bytes + N * K * b_bytes
    missed, dram = _dram_bytes(question, M, N, K, cache)
    expected = _expected(work, device, cache, quantizes_activations) if question.stand_in is None else None
    return Tiling(
        hardware=device.key,
        M=M,
        N=N,
        K=K,
        formats=f"{named['b']}.{named['a']}",
        kernel_family=formats.family,
        tile_m=tile_m,
        tile_n=tile_n,
        split_count=split,
        grid_m_count=grid_m,
        grid_n_count=grid_n,
        sm_count=chip.sm_count,
        occupancy=occupancy(
            device if question.stand_in is None else question.stand_in.limits,
            chip.family if question.stand_in is None else question.stand_in.kernels,
            tile_m,
            tile_n,
            a_bytes=a_bytes,
            b_bytes=b_bytes,
            output_bytes=formats.output_bytes_per_element,
            widest_bits=_widest_bits(named["a"], named["b"]),
        ),
        is_cold=cache != "warm",
        operand_bytes=operands,
        output_bytes=output,
        dram_bytes=dram,
        operand_dram_bytes=missed,
        requested_bytes=requested,
        l2_hit_ratio=None if missed is None else max(0.0, 1 - missed / requested),
        flops=2.0 * M * N * K,
        peak_flops_per_s=chip.peak_flops_per_s,
        expected_s=None if expected is None else expected.time_s,
        low_s=None if expected is None else expected.low_s,
        high_s=None if expected is None else expected.high_s,
        parts_s={} if expected is None else dict(expected.parts),
        terms_s={} if expected is None else dict(expected.terms),
        bound="" if expected is None else expected.binding,
        provenance="" if expected is None else expected.provenance,
        findings=() if question.stand_in is None else question.stand_in.findings,
    )


def _expected(work: Operator, device: Device, cache: str, quantizes: bool) -> ExpectedPrediction:
    """Return the expected time of a product; raises `UnsupportedError` where it has none."""
    expected = predict_expected(work, device, cache=cache, dynamic_activation_quantization=quantizes)
    if expected is None:
        why_not = why_no_expected(work, device, cache=cache)
        assert why_not is not None  # the same question has no answer
        raise unsupported(why_not)
    return expected


def _widest_bits(*formats: str) -> int:
    """Return the bits of the widest operand's element, scales not counted."""
    formats_of = [get_format(name) for name in formats]
    return max(fmt.container_bits or fmt.element_bits for fmt in formats_of)


@dataclass(frozen=True, slots=True)
class EfficiencyCurve:
    """Share of the tensor peak over N at fixed M and K: expected, and what one fixed tile's waves would allow."""

    N: tuple[int, ...]
    expected_ratio: tuple[float, ...]
    tiles: tuple[str, ...]
    """The tile chosen at each N, `gemv` where there is none."""
    fixed_tile: str
    fixed_tile_ratio: tuple[float, ...]
    """Useful share of SM time with `fixed_tile`: last wave and edge tiles taken off. The saw-tooth."""


def efficiency_curve(
    M: int, K: int, columns: Sequence[int], device: Device, *, a: str, b: str, c: str = "BF16", cache: str = "cold"
) -> EfficiencyCurve:
    """Return the efficiency of C(M×N) for every N of `columns` (increasing); the fixed tile is that of the largest
    N.
    """
    for size in columns:
        check_dimension("N", size)
    question = _ask(
        device, [M] * len(columns), list(columns), [K] * len(columns), a, b, c, cache, False, is_priced=True
    )
    labels = question.batch.kernel
    fixed = next((label for label in reversed(labels) if label != GEMV_LABEL), "")
    shares = []
    if fixed:
        tile_m, tile_n, split = (int(part) for part in fixed.split("x"))
        for size in columns:
            blocks = math.ceil(M / tile_m) * math.ceil(size / tile_n) * split
            used = math.ceil(blocks / question.chip.sm_count) * question.chip.sm_count
            shares.append(M * size * split / (used * tile_m * tile_n))
    peak = question.chip.peak_flops_per_s
    reached = [
        2.0 * M * size * K / time_s / peak for size, time_s in zip(columns, question.batch.time_s.tolist(), strict=True)
    ]
    return EfficiencyCurve(tuple(columns), tuple(reached), tuple(labels), fixed, tuple(shares))


def _dram_bytes(question: _Asked, M: int, N: int, K: int, cache: str) -> tuple[float | None, float | None]:
    """Return the bytes that miss the L2: of A and B, and of C, too; what misses of C is not the operands' doing.

    None where the cache is not the chip's own.
    """
    if question.stand_in is not None and not question.stand_in.has_cache:
        return None, None
    work = work_of(question.parameters, float(M), float(N), float(K), copies_of(cache))
    activation = M * K * question.formats.activation_bytes_per_element
    moved = work.dram_s * question.parameters.dram_ratio * question.chip.bandwidth_bytes_per_s
    operands = activation + N * K * question.formats.weight_bytes_per_element
    return min(float(work.cold_weight_bytes + activation * work.activation_miss), moved, operands), moved


def _ask(
    device: Device,
    M: Sequence[int],
    N: Sequence[int],
    K: Sequence[int],
    a: str,
    b: str,
    c: str,
    cache: str,
    quantizes: bool,
    *,
    is_priced: bool = False,
) -> _Asked:
    """Ask the expected-time model for products of one pair of formats on one chip.

    `is_priced`: a chip without constants is refused.
    """
    if device.kind == "cpu":
        raise UnsupportedError(
            f"{device.key} is a CPU: tiles, waves and occupancy are of GPU kernels. `roofline predict gemm` gives its "
            "ideal and expected times"
        )
    try:
        model = ProductModel.of(device, weight=b, activation=a, output=c)
    except UnsupportedError:
        plain = None if is_priced else stand_in(device, a, b, c)
        if plain is None:
            raise
        parameters = plain.parameters
        batch = expected_batch(parameters, *checked_sizes(M, N, K, copies_of(cache)))
        return _Asked(plain.chip, plain.formats, parameters, batch, plain)
    batch = model.expected(M, N, K, cache=cache, quantizes_activations=quantizes)
    return _Asked(fitted_numbers(model.chip, model.fitted.chip), model.formats, model.parameters, batch)
