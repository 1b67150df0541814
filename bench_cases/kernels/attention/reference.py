"""The right answer of attention: float64 on the operands a kernel holds, for a sample of its output rows.

An output number is o = Σ w·v over the keys, w = softmax of the scores s = q·k/√D. A right kernel is off by the rounding of its
result, and by these, whose independent parts add up in squares (`roofline_model.formats.rounding` has the law of the sums):

- weights that are rounded before the second product, each by up to u·w: of any sign u·√Σ(w·v)², of one sign u·|o|;
- scores that are off by e: a weight changes by the factor e, less what all change by, hence √Σ(w·e·(v − o))². e is the rounding of
  the score and of the running sum over D, and what the rounding of k brings;
- values that are decoded to 16 bits first: u·√Σ(w·v)²; and the running sum over the keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_cases.kernels.attention.spec import AttentionKernel, Sizes, stored_keys, value_size, visible_keys
from bench_cases.kernels.reference import (
    EXP_ROUNDOFF,
    FP8_STEP,
    FP8_SUM_ROUNDOFF,
    HALF_SMALLEST,
    TENSOR_CORE_STEP,
    Expected,
    HeldMatrix,
    sample_index,
)
from roofline_model.formats.rounding import Deviation, Rounding, unit_roundoff

MAX_ROWS = 64
LEAST_ROWS = 8
MAX_CACHED_ELEMENTS = 16_000_000
"""Bounds the keys and values that are converted to float64 for the sample, hence its time (about 0.2 s on two cores)."""
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
        weights_floor_ratio=E4M3_HALF_SMALLEST if is_fp8 else 0.0,
        result_floor_value=HALF_SMALLEST.get(kernel.o, 0.0),
    )


@dataclass(frozen=True, slots=True)
class AttentionReference:
    """Sampled rows of O = softmax(Q·Kᵀ/√D)·V in float64, and what a right kernel may be off. Holds no operand.

    D is the width of the rows that are multiplied. (Absorbed MLA divides by the root of an expanded key's width instead:
    another constant, on which no time depends.)
    """

    shape: tuple[int, int, int, int]
    """B, Hq, Sq, Dv."""
    rows: Tensor
    """Indices into the B·Hq·Sq rows: first, last, and one at random in each equal stretch, so heads differ."""
    expected: Expected
    """(len(rows), Dv)."""

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
        most = min(MAX_ROWS, max(LEAST_ROWS, MAX_CACHED_ELEMENTS // (keys * (D + width))))
        rows = sample_index(sizes["B"] * Hq * Sq, most)
        queries = q.rows64(rows)
        exact = torch.empty(len(rows), width, dtype=torch.float64)
        variance, squares = torch.empty_like(exact), torch.empty_like(exact)
        for at, row in enumerate(rows.tolist()):
            sequence_head, query = divmod(row, Sq)
            sequence, head = divmod(sequence_head, Hq)
            first, last = visible_keys(sizes, query)
            start = (sequence * Hkv + head // (Hq // Hkv)) * keys
            index = slice(start + first, start + last)
            exact[at], squares[at], variance[at] = _row(queries[at], k.rows64(index), v.rows64(index), rounding)
        size = exact.abs()
        expected = Expected(
            exact,
            squares.sqrt_(),
            variance.sqrt_(),
            rounding.result_ratio * size + rounding.result_floor_value,
            (rounding.weights_ratio + rounding.sums.systematic_ratio(keys)) * size,
            is_random,
        )
        return cls((sizes["B"], Hq, Sq, width), rows, expected)

    def deviation(self, output: object) -> Deviation:
        """Return how far an output is from right; the error is NaN for a wrong shape, NaN or Inf."""
        if (
            not isinstance(output, Tensor)
            or tuple(output.shape) != self.shape
            or not bool(torch.isfinite(output).all())
        ):
            return Deviation(math.nan, 0.0)
        rows = output.reshape(-1, self.shape[-1])
        return self.expected.deviation(rows[self.rows.to(output.device)].cpu(), "element")


def _row(query: Tensor, k: Tensor, v: Tensor, rounding: AttentionRounding) -> tuple[Tensor, Tensor, Tensor]:
    """Return o, Σ(w·v)² and the variance of o's roundings of one query (D,) over its keys (keys, D) and values (keys, Dv)."""
    D, count = len(query), len(k)
    scores = k @ query / math.sqrt(D)
    weights = torch.softmax(scores, dim=0)
    exact = weights @ v
    terms = k.square_() @ query.square() / D
    # A score is rounded, then the largest is taken from it.
    size = scores.square() + scores.max().square()
    off = rounding.scores_ratio**2 * size + rounding.keys_ratio**2 * terms
    off += rounding.sums.exact_factor(D) * scores.square() + rounding.sums.terms_factor(D) * terms
    off += (rounding.sums.systematic_ratio(D) * scores).square()
    weights_squared = weights.square()
    off *= weights_squared
    moved = off @ v.square() - 2 * exact * (off @ v) + exact.square() * off.sum()
    v.square_()
    squares = weights_squared @ v
    variance = (rounding.weights_ratio**2 + rounding.keys_ratio**2 + rounding.sums.terms_factor(count)) * squares
    variance += rounding.sums.exact_factor(count) * exact.square() + moved.clamp_min_(0)
    if rounding.weights_floor_ratio:
        variance += (rounding.weights_floor_ratio * weights.max()) ** 2 * v.sum(dim=0)
    return exact, squares, variance
