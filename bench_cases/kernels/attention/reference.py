"""The right answer of attention: float64 on the operands a kernel holds, for every output row or a sample of many.

An output number is o = Σ w·v over the keys, w = softmax of the scores s = q·k/√D. A right kernel is off by the rounding
of its result, and by these, whose independent parts add up in squares (`roofline_model.formats.rounding` has the law of
the sums):

- weights that are rounded before the second product, each by up to u·w: u·√Σ(w·v)², and where they are divided by their
  sum first, so that equal weights are off by the same, u·|o|;
- scores that are off by e: a weight changes by the factor e, less what all change by, hence √Σ(w·e·(v − o))². e is the
  rounding of the score and of the running sum over D, and what the rounding of k brings;
- values that are decoded to 16 bits first: u·√Σ(w·v)²; and the running sum over the keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_cases.kernels.attention.spec import AttentionKernel, stored_keys, value_size, visible_keys
from bench_cases.kernels.reference import (
    EXP_ROUNDOFF,
    FP8_STEP,
    FP8_SUM_ROUNDOFF,
    HALF_SMALLEST,
    PIECE_WEIGHTS,
    TENSOR_CORE_STEP,
    Expected,
    HeldMatrix,
    sample_index,
)
from bench_cases.kernels.rules import Sizes
from roofline_model.formats.rounding import Deviation, Rounding, unit_roundoff, worst

MAX_PRODUCTS = 1 << 28
"""Products of queries with keys and of weights with values up to which every row is looked at (0.1 s on two cores)."""
MAX_ROWS = 64
LEAST_ROWS = 8
MAX_CACHED_ELEMENTS = 16_000_000
"""Bounds the keys and values that are converted to float64, hence the time that takes (0.1 s on two cores)."""
BEYOND_RATIO = 2.0**-3
"""How far a number may be beyond the largest value: two roundings, to E4M3 at the coarsest."""
E4M3_HALF_SMALLEST = 2.0**-10
"""Half the smallest E4M3 number: what a small weight is off when the largest is 1."""


@dataclass(frozen=True, slots=True)
class AttentionRounding:
    """Where a kernel of attention rounds. Unit roundoffs (ratio)."""

    result_ratio: float
    weights_ratio: float
    scores_ratio: float
    keys_ratio: float
    """Of keys and values that are decoded first."""
    sums: Rounding
    """Of the running sums of both products."""
    shared_ratio: float = 0.0
    """Of weights that are rounded after they were divided by their sum: equal ones are off by the same."""
    weights_floor_ratio: float = 0.0
    """What every weight may be off beside that, as a ratio of the row's largest."""
    result_floor_value: float = 0.0
    """Half the smallest number of the result's format."""


def attention_rounding(kernel: AttentionKernel) -> AttentionRounding:
    """Return where a right kernel rounds: a property of its formats and of whether its scores go through memory."""
    plain, is_cuda, is_fp8 = unit_roundoff("FP32"), kernel.device == "cuda", kernel.q == "FP8_E4M3"
    result = unit_roundoff(kernel.o)
    held = max(EXP_ROUNDOFF, unit_roundoff(kernel.q))
    if is_fp8:
        sums = Rounding(sums_ratio=FP8_SUM_ROUNDOFF, terms_per_sum=FP8_STEP, sums_are_cut=True)
    elif is_cuda:
        sums = Rounding(sums_ratio=2 * plain, terms_per_sum=TENSOR_CORE_STEP, sums_are_cut=True)
    else:
        sums = Rounding(sums_ratio=plain)
    keys = 0.0 if kernel.decoded is None else unit_roundoff(kernel.decoded)
    if is_cuda and kernel.q == "FP32":
        keys = EXP_ROUNDOFF  # the memory-efficient kernel makes an FP32 product of three TF32 ones
    return AttentionRounding(
        result,
        held,
        plain if kernel.is_fused else unit_roundoff(kernel.q),
        keys,
        sums,
        shared_ratio=held if kernel.score_bytes_per_pair else 0.0,
        weights_floor_ratio=E4M3_HALF_SMALLEST if is_fp8 else 0.0,
        result_floor_value=HALF_SMALLEST.get(kernel.o, 0.0),
    )


@dataclass(frozen=True, slots=True)
class AttentionReference:
    """Rows of O = softmax(Q·Kᵀ/√D)·V in float64, and what a right kernel may be off. Holds no operand.

    D is the width of the rows that are multiplied. (Absorbed MLA divides by the root of an expanded key's width
    instead: another constant, on which no time depends.)
    """

    shape: tuple[int, int, int, int]
    """B, Hq, Sq, Dv."""
    rows: Tensor
    """Indices into the B·Hq·Sq rows: all of them, or first, last, and one at random in each equal stretch, so heads
    differ.
    """
    expected: Expected
    """(len(rows), Dv)."""
    largest_value: float
    """Of all values: an output is a mean of values, so no row has a larger number, looked at or not."""

    @classmethod
    def of(
        cls,
        sizes: Sizes,
        q: HeldMatrix,
        k: HeldMatrix,
        v: HeldMatrix,
        rounding: AttentionRounding,
        *,
        is_random: bool = True,
    ) -> AttentionReference:
        """Evaluate the reference of Q (B·Hq·Sq, D), K (B·Hkv·stored keys, D) and V (…, Dv) as they are now."""
        Hq, Hkv, Sq, D = (sizes[letter] for letter in ("Hq", "Hkv", "Sq", "D"))
        keys, width = stored_keys(sizes), value_size(sizes)
        count, cached = sizes["B"] * Hq * Sq, sizes["B"] * Hkv * keys * (D + width)
        if count * keys * (D + width) <= MAX_PRODUCTS and cached <= MAX_CACHED_ELEMENTS:
            rows = torch.arange(count)
        else:
            rows = sample_index(count, min(MAX_ROWS, max(LEAST_ROWS, MAX_CACHED_ELEMENTS // (keys * (D + width)))))
        queries = q.rows64(rows)
        exact = torch.empty(len(rows), width, dtype=torch.float64)
        variance, squares, shared = (torch.empty_like(exact) for _ in range(3))
        cache = rows // (Hq * Sq) * Hkv + rows // Sq % Hq // (Hq // Hkv)
        ranges = torch.tensor([visible_keys(sizes, query) for query in range(Sq)])
        for which in cache.unique().tolist():
            at = (cache == which).nonzero().flatten()
            index = slice(which * keys, (which + 1) * keys)
            first, last = ranges[rows[at] % Sq].unsqueeze(1).unbind(dim=2)
            key = torch.arange(keys)
            hidden = (key < first) | (key >= last)
            exact[at], squares[at], variance[at], shared[at] = _rows(
                queries[at], k.rows64(index), v.rows64(index), hidden, rounding
            )
        size = exact.abs()
        expected = Expected(
            exact,
            squares.sqrt_(),
            variance.sqrt_(),
            rounding.result_ratio * size + rounding.result_floor_value,
            (rounding.shared_ratio + rounding.sums.systematic_ratio(keys)) * size,
            is_random,
            shared.sqrt_() if rounding.keys_ratio else None,
            Hq // Hkv * Sq,
        )
        return cls((sizes["B"], Hq, Sq, width), rows, expected, _largest(v))

    def deviation(self, output: object) -> Deviation:
        """Return how far an output is from right; the error is NaN for a wrong shape, NaN or Inf."""
        if (
            not isinstance(output, Tensor)
            or tuple(output.shape) != self.shape
            or not bool(torch.isfinite(output).all())
        ):
            return Deviation(math.nan, 0.0)
        rows = output.reshape(-1, self.shape[-1])
        element_deviation = self.expected.deviation(rows[self.rows.to(output.device)].cpu(), "element")
        if len(self.rows) == len(rows):
            return element_deviation
        beyond = float(rows.abs().max()) / self.largest_value - 1 if self.largest_value else 0.0
        return worst([element_deviation, Deviation(max(0.0, beyond), BEYOND_RATIO, "range")])


def _largest(v: HeldMatrix) -> float:
    step = max(1, PIECE_WEIGHTS // v.shape[1])
    return max(float(v.rows64(slice(at, at + step)).abs().max()) for at in range(0, v.shape[0], step))


def _rows(
    queries: Tensor, k: Tensor, v: Tensor, hidden: Tensor, rounding: AttentionRounding
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return o, Σ(w·v)², the variance of o's roundings and the part of it that all rows share, each (rows, Dv).

    queries: (rows, D); keys (keys, D) and values (keys, Dv) of their head; hidden: which keys a row does not see.
    """
    D = queries.shape[1]
    scores = (queries @ k.T).div_(math.sqrt(D)).masked_fill_(hidden, -math.inf)
    weights = torch.softmax(scores, dim=1)
    exact = weights @ v
    largest = scores.amax(dim=1, keepdim=True)
    scores.masked_fill_(hidden, 0)
    terms = queries.square() @ k.square_().T / D
    scores.square_()
    # A score is rounded, then the largest is taken from it.
    off = rounding.scores_ratio**2 * (scores + largest.square()) + rounding.keys_ratio**2 * terms
    own_factor = rounding.sums.exact_factor(D) + rounding.sums.systematic_ratio(D) ** 2
    off += own_factor * scores + rounding.sums.terms_factor(D) * terms
    seen = (~hidden).sum(dim=1, keepdim=True)
    heaviest = weights.amax(dim=1, keepdim=True)
    weights.square_()
    off *= weights
    moved = exact.square() * off.sum(dim=1, keepdim=True) - 2 * exact * (off @ v)
    v.square_()
    moved += off @ v
    squares = weights @ v
    shared = rounding.keys_ratio**2 * squares + moved.clamp_min_(0)
    variance = rounding.weights_ratio**2 * squares + shared
    # The running sum over the keys that a row sees; the law is linear in their number.
    sums_exact, sums_terms = (factor(1) * seen for factor in (rounding.sums.exact_factor, rounding.sums.terms_factor))
    variance += sums_exact * exact.square() + sums_terms * squares
    if rounding.weights_floor_ratio:
        variance += (rounding.weights_floor_ratio * heaviest).square() * ((~hidden).double() @ v)
    return exact, squares, variance, shared
