"""The right answer: a float64 product of the very operands a kernel holds, and how far an output is from it.

An operand is held as codes and scales, and stands for exact real numbers. What a right kernel may be off is worked out
beside the product, number by number, by the law of `roofline_model.formats.rounding`; the number that uses most of it
is the verdict.

Every column is looked at until the weights are more than `MAX_WEIGHTS`, then a sample of them spread over the output
(first and last always). Up to `MAX_ROWS` rows are looked at one by one. Of more rows, as many of a sample are, and
beside them the sums of all rows in that many groups, each row with a sign of its own: whatever is wrong in a row that
was not picked is in its sum. Shape and finiteness are checked everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_cases.kernels.products.spec import KernelSpec
from roofline_model.formats.rounding import (
    Deviation,
    Rounding,
    mean_square_allowed,
    spreads_allowed,
    unit_roundoff,
    worst,
)

MAX_ROWS = 16
MAX_WEIGHTS = 1 << 25
"""Weights that are multiplied in float64 for one check; they bound its time (4 ns each on two cores)."""
PIECE_WEIGHTS = 1 << 18
"""Weights that are float64 at one time: 2 MiB, near the cache of a core."""

PIECE_ELEMS = {"cuda": 1 << 24}
"""Elements of an output that are float64 at one time where it is; on a CPU as many as weights."""

TENSOR_CORE_STEP = 16
"""Terms that a tensor core adds before it cuts the sum off (4 to 16 by generation and format). Source: M. Fasi, N.
Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7:e330, 2021.
"""
FP8_SUM_ROUNDOFF = 2.0**-13
FP8_STEP = 32
"""Products that are added at a time; attention's law is still that of a sum cut off once a step."""
FP8_PROMOTION = 128
"""FP8 tensor cores of Hopper add 32 products to a running sum at a time. Each is cut off 13 bits below the largest of
them. Source: DeepSeek-V3 Technical Report, arXiv 2412.19437, section 3.5.2, and the runs of
examples/runs/h200-sxm: such a sum, computed on a CPU, has the errors of `scaled_mm` there to the last digit shown.
Without `use_fast_accum` the sum is added to one in FP32 every 128 terms. Taken for every chip with FP8 tensor cores.
"""
TF32_CUT = 2.0**-9
"""Tensor cores read FP32 operands as TF32 by leaving out 13 bits: up to 2⁻¹⁰ of each of the two is lost."""
EXP_ROUNDOFF = 2.0**-20
"""Of an exponential in FP32: kernels take one of 20 right bits (`exp_u20` of torch's CPU kernels; CUDA's `ex2.approx`
is better).
"""
HALF_SMALLEST = {"FP16": 2.0**-25}
"""Half the smallest number of a result's format, where sums of ordinary operands can be as small as that."""


def rounding_of(kernel: KernelSpec) -> Rounding:
    """Return where a right kernel rounds: a property of its formats and of the unit it runs on, not of its speed."""
    if kernel.activation == "INT8" and kernel.weight == "INT8":
        return Rounding()  # sums in INT32
    result, sums = unit_roundoff(kernel.output), unit_roundoff("FP32")
    # The elements of MX formats times a power of two are exact in 16 bits.
    is_exact = kernel.decoded is None or kernel.weight.startswith("MX")
    operands = 0.0 if is_exact or kernel.decoded is None else unit_roundoff(kernel.decoded)
    has_tensor_cores = kernel.device == "cuda" and kernel.activation != "FP32" and kernel.name != "int8pack"
    if not has_tensor_cores:
        return Rounding(result, sums, operands_ratio=operands)
    if kernel.activation == "TF32":
        return Rounding(
            result, 2 * sums, TENSOR_CORE_STEP, sums_are_cut=True, operands_ratio=TF32_CUT / 2, cut_ratio=TF32_CUT
        )
    if kernel.activation == "FP8_E4M3":
        promotion = None if kernel.has_fast_sums else FP8_PROMOTION
        return Rounding(result, FP8_SUM_ROUNDOFF, terms_are_cut=True, terms_per_promotion=promotion)
    return Rounding(
        result,
        2 * sums,
        TENSOR_CORE_STEP,
        sums_are_cut=True,
        operands_ratio=operands,
        has_partials=kernel.activation in ("BF16", "FP16"),  # torch's default, `allow_bf16_reduced_precision_reduction`
    )


def sample_index(count: int, most: int) -> Tensor:
    """Return up to `most` sorted indices below `count`: the first, the last and one at random in each equal stretch."""
    if count <= most:
        return torch.arange(count)
    generator = torch.Generator().manual_seed(count)
    edges = torch.linspace(0, count, most + 1, dtype=torch.float64)
    picks = edges[:-1] + torch.rand(most, generator=generator, dtype=torch.float64) * (edges[1:] - edges[:-1])
    picks = picks.floor().long().clamp_(0, count - 1)
    picks[0], picks[-1] = 0, count - 1
    return picks.unique()


@dataclass(frozen=True, slots=True)
class Expected:
    """Exact numbers and what a right kernel may be off each of them. All float64 on the CPU, of one shape."""

    exact: Tensor
    magnitude: Tensor
    """What errors are shown as a ratio of."""
    spread: Tensor
    """Of the roundings that may go either way; λ of these are allowed."""
    bound: Tensor
    """Of the last rounding, which is never more."""
    systematic: Tensor
    """Of what goes one way."""
    is_random: bool = True
    """Whether the roundings of different numbers are independent, as random operands make them; those of like ones
    agree.
    """
    shared: Tensor | None = None
    """The part of `spread` that comes of roundings which several numbers share: those of decoded operands."""
    shared_count: int = 1
    """How many numbers, at most, share one."""

    def deviation(self, output: Tensor, where: str) -> Deviation:
        """Return the number of `output` that is furthest off, or what is wrong with all of them where that is
        further.
        """
        values = output.to(torch.float64)
        error = (values - self.exact).abs_()
        allowed = self.spread * spreads_allowed(self.exact.numel())
        allowed += self.bound
        allowed += self.systematic
        share = torch.where(error == 0, 0.0, error / allowed)
        at = int(share.argmax())
        row, column = divmod(at, share.shape[-1])
        size = float(self.magnitude.flatten()[at]) or 1.0
        element = Deviation(
            float(error.flatten()[at]) / size, float(allowed.flatten()[at]) / size, f"{where} {row}, {column}"
        )
        if not self.is_random:
            return element
        return worst([element, self._whole(error), self._gain(values)])

    def _whole(self, error: Tensor) -> Deviation:
        """Return the deviation of all errors together: many that are each allowed, and that no roundings add up to."""
        excess = (error - self.systematic).clamp_min_(0).square_()
        share = torch.where(excess == 0, 0.0, excess / (self.spread.square() + self.bound.square()))
        limit = mean_square_allowed(error.numel() // (1 if self.shared is None else self.shared_count))
        size = float(self.magnitude.square().mean()) or 1.0
        rms_error, used = math.sqrt(float(excess.mean()) / size), math.sqrt(float(share.mean()) / limit)
        return Deviation(rms_error, rms_error / used if used else 0.0, "all")

    def _gain(self, values: Tensor) -> Deviation:
        """Return the deviation of the factor between output and exact numbers from 1: a wrong scale, however many hide
        it.
        """
        power = float(self.exact.square().sum())
        if power == 0:
            return Deviation(0.0, 0.0)
        gain = float(((values - self.exact) * self.exact).sum()) / power
        variance = self.bound.square() + self.spread.square()
        if self.shared is not None:
            variance += (self.shared_count - 1) * self.shared.square()
        variance *= self.exact.square()
        spread = math.sqrt(float(variance.sum())) / power
        systematic = float((self.systematic * self.exact.abs()).sum()) / power
        return Deviation(abs(gain), spreads_allowed(1) * spread + systematic, "gain")


@dataclass(frozen=True, slots=True)
class ProductReference:
    """Exact entries of C = A·Bᵀ. Holds no operand: what a kernel does to its own changes nothing."""

    shape: tuple[int, int]
    rows: Tensor
    columns: Tensor | slice
    expected: Expected
    """Of the rows and columns that are looked at one by one."""
    signs: Tensor | None
    """(groups, M) with one +1 or −1 in each column, float64; None: every row is looked at."""
    sums: Tensor
    """(groups, columns): the exact signed sums of the rows of a group."""
    sums_terms: Tensor
    """(groups, columns): sums of s² over a group."""
    sign_squares: Tensor | None
    """(1, columns): mean square of the sums of the terms' signs; None where no terms are cut off."""
    rounding: Rounding
    K: int
    floor_value: float
    """Half the smallest number that the result's format can hold."""

    @classmethod
    def of(
        cls,
        activation: HeldMatrix,
        weight: HeldMatrix,
        rounding: Rounding,
        *,
        is_random: bool = True,
        floor: float = 0.0,
    ) -> ProductReference:
        """Evaluate the reference of the operands (M, K) and (N, K) as they are now.

        floor: half the smallest number that the result's format can hold.
        """
        (M, K), (N, _) = activation.shape, weight.shape
        rows = sample_index(M, MAX_ROWS)
        most = max(2, MAX_WEIGHTS // K)
        columns: Tensor | slice = slice(0, N) if most >= N else sample_index(N, most)
        signs = None if len(rows) == M else _row_groups(M)
        left = activation.rows64(rows)
        left_signs = left.sign() if rounding.terms_are_cut else None
        left_squares = left.square()
        if signs is not None:
            sums, squares = _group_sums(signs, activation)
            left, left_squares = torch.cat((left, sums)), torch.cat((left_squares, squares))
        factors: list[Factor] = [(left, _as_it_is), (left_squares, torch.square)]
        factors += [] if left_signs is None else [(left_signs, torch.sign)]
        exact, terms, *others = _products(weight, columns, factors)
        sign_sums = others[0] if others else None
        count = len(rows)
        values = exact[:count].abs()
        variance = rounding.exact_factor(K) * values.square() + rounding.terms_factor(K) * terms[:count]
        systematic = rounding.systematic_ratio(K) * values
        if sign_sums is not None:
            # Half of the last bit is lost on average; twice that, for uneven terms.
            of_sums, of_terms = rounding.partial_sum_factors(K)
            partial_sums = (of_sums * values.square() + of_terms * terms[:count]).sqrt_()
            systematic += rounding.sums_ratio * sign_sums.abs() * partial_sums
        expected = Expected(
            exact[:count],
            terms[:count].sqrt(),
            variance.sqrt_(),
            rounding.result_ratio * values + floor,
            systematic,
            is_random,
            rounding.operands_ratio * terms[:count].sqrt() if rounding.operands_ratio else None,
            count,
        )
        sign_squares = None if sign_sums is None else sign_sums.square().mean(dim=0, keepdim=True)
        return cls(
            (M, N), rows, columns, expected, signs, exact[count:], terms[count:], sign_squares, rounding, K, floor
        )

    def deviation(self, output: object) -> Deviation:
        """Return how far an output is from right; the error is NaN for a wrong shape, NaN or Inf."""
        if (
            not isinstance(output, Tensor)
            or tuple(output.shape) != self.shape
            or not bool(torch.isfinite(output).all())
        ):
            return Deviation(math.nan, 0.0)
        columns = self.columns if isinstance(self.columns, slice) else self.columns.to(output.device)
        element_deviation = self.expected.deviation(output[self.rows.to(output.device)][:, columns].cpu(), "element")
        if self.signs is None:
            return element_deviation
        return worst([element_deviation, self._sums_deviation(output[:, columns])])

    def _sums_deviation(self, output: Tensor) -> Deviation:
        assert self.signs is not None
        sums, squares = torch.empty_like(self.sums), torch.empty_like(self.sums)
        signs = self.signs.to(output.device)
        step = max(1, PIECE_ELEMS.get(output.device.type, PIECE_WEIGHTS) // self.shape[0])
        for first in range(0, output.shape[1], step):
            piece = output[:, first : first + step].to(torch.float64)
            sums[:, first : first + step] = (signs @ piece).cpu()
            squares[:, first : first + step] = (signs.abs() @ piece.square_()).cpu()
        r, K = self.rounding, self.K
        factor = r.exact_factor(K) + r.result_ratio**2 + r.systematic_ratio(K) ** 2
        smallest = self.floor_value**2 * self.signs.abs().sum(dim=1, keepdim=True)
        variance = factor * squares + r.terms_factor(K) * self.sums_terms + smallest
        if self.sign_squares is not None:
            of_sums, of_terms = r.partial_sum_factors(K)
            variance += r.sums_ratio**2 * self.sign_squares * (of_sums * squares + of_terms * self.sums_terms)
        spread = variance.sqrt_()
        none = torch.zeros_like(spread)
        whole = Expected(self.sums, self.sums_terms.sqrt(), spread, none + 0.0, none, is_random=False)
        return whole.deviation(sums, "sum of rows")


def _row_groups(M: int) -> Tensor:
    """Return the signs (`MAX_ROWS`, M) of rows in groups; row i is in group i mod `MAX_ROWS`."""
    generator = torch.Generator().manual_seed(M)
    signs = torch.randint(0, 2, (M,), generator=generator, dtype=torch.float64) * 2 - 1
    groups = torch.zeros(MAX_ROWS, M, dtype=torch.float64)
    index = torch.arange(M)
    groups[index % MAX_ROWS, index] = signs
    return groups


def _group_sums(signs: Tensor, activation: HeldMatrix) -> tuple[Tensor, Tensor]:
    """Return the signed sums of the rows of each group and the sums of their squares, (groups, K), piece by piece."""
    M, K = activation.shape
    sums, squares = (torch.zeros(len(signs), K, dtype=torch.float64) for _ in range(2))
    step = max(1, PIECE_WEIGHTS // K)
    for first in range(0, M, step):
        part, piece = signs[:, first : first + step], activation.rows64(slice(first, first + step))
        sums += part @ piece
        squares += part.abs() @ piece.square_()
    return sums, squares


Factor = tuple[Tensor, Callable[[Tensor], Tensor]]
"""What is multiplied with each piece of the weight, and what is made of the piece before."""


def _as_it_is(piece: Tensor) -> Tensor:
    return piece


def _products(weight: HeldMatrix, columns: Tensor | slice, factors: Sequence[Factor]) -> list[Tensor]:
    """Return left·f(W)ᵀ for each (left, f) and the chosen rows of W, which are decoded piece by piece."""
    K = weight.shape[1]
    chosen: Sequence[Tensor | slice]
    step = max(1, PIECE_WEIGHTS // K)
    if isinstance(columns, slice):
        chosen = [slice(first, min(first + step, columns.stop)) for first in range(0, columns.stop, step)]
        count = columns.stop
    else:
        chosen, count = columns.split(step), len(columns)
    products = [torch.empty(len(left), count, dtype=torch.float64) for left, _ in factors]
    at = 0
    for index in chosen:
        piece = weight.rows64(index)
        end = at + len(piece)
        for product, (left, function) in zip(products, factors, strict=True):
            product[:, at:end] = left @ function(piece).T
        at = end
    return products


@dataclass(frozen=True, slots=True)
class HeldMatrix:
    """A matrix (rows × K) after quantisation. Element value = (code value − code_zero) · scale · tensor_scale + offset.

    The codes are unpacked, one per element; what a kernel gets is packed from them, so that a packing fault shows up
    as a wrong result.
    """

    codes: Tensor
    """(rows, K): numbers in their own dtype, or uint8 indices into `table`."""
    scales: Tensor | None = None
    """(rows, K / block), in the dtype the kernel reads; None: 1."""
    offsets: Tensor | None = None
    """(rows, K / block), added after scaling; None: 0."""
    table: Tensor | None = None
    """The value of each code (float64); None: the code is the value."""
    code_zero: float = 0.0
    tensor_scale: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and K."""
        return self.codes.shape[0], self.codes.shape[1]

    def rows64(self, index: Tensor | slice) -> Tensor:
        """Return the chosen rows as exact float64 values on the CPU, in memory of their own: (rows, K)."""
        codes = _pick(self.codes, index)
        if self.table is None:
            values = codes.to(torch.float64, copy=True)
        else:
            values = self.table.cpu().index_select(0, codes.int().flatten()).view(codes.shape)
        if self.code_zero:
            values -= self.code_zero
        if self.scales is not None:
            _by_block(values, self.scales).mul_(_pick(self.scales, index).to(torch.float64).unsqueeze(2))
        if self.tensor_scale != 1:
            values *= self.tensor_scale
        if self.offsets is not None:
            _by_block(values, self.offsets).add_(_pick(self.offsets, index).to(torch.float64).unsqueeze(2))
        return values

    def decoded(self) -> Tensor:
        """Return the matrix in FP32 where it is (rows, K): scales multiplied first, each product rounded once, as
        codecs do.
        """
        codes = self.codes
        values = codes.float() if self.table is None else self.table.to(codes.device).float()[codes.int()]
        if self.code_zero:
            values = values - self.code_zero
        if self.scales is None:
            return values * self.tensor_scale
        blocks = values.unflatten(1, (self.scales.shape[1], -1)) * (self.scales.float() * self.tensor_scale).unsqueeze(
            2
        )
        if self.offsets is not None:
            blocks = blocks + self.offsets.float().unsqueeze(2)
        return blocks.flatten(1)


def _by_block(values: Tensor, blocks: Tensor) -> Tensor:
    """Return a view (rows, blocks, elements of a block)."""
    return values.unflatten(1, (blocks.shape[1], -1))


def _pick(matrix: Tensor, index: Tensor | slice) -> Tensor:
    """Return rows of a matrix on the CPU. One-byte floats are indexed as bytes: torch indexes few 8-bit types."""
    if isinstance(index, slice):
        return matrix[index].cpu()
    rows = index.to(matrix.device)
    if matrix.element_size() == 1:
        return matrix.view(torch.uint8)[rows].cpu().view(matrix.dtype)
    return matrix[rows].cpu()
