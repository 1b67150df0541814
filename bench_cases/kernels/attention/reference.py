"""The right answer of attention: float64 on the operands a kernel holds, for a sample of its output rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_cases.kernels.attention.spec import AttentionKernel, Sizes, stored_keys, value_size, visible_keys
from bench_cases.kernels.reference import HeldMatrix, largest_row_error, sample_index

MAX_ROWS = 64
LEAST_ROWS = 8
MAX_CACHED_ELEMENTS = 16_000_000
"""Bounds the keys and values that are converted to float64 for the sample, hence its time (about 0.2 s on two cores)."""


def attention_tolerance(kernel: AttentionKernel, sizes: Sizes) -> float:
    """Return the largest relative error of an output row of a correct kernel: a property of its formats.

    FP32: rounding of D + Skv additions, growing like their root. FP16 and BF16: the weights after softmax and the
    result are rounded, in an unfused kernel the scores as well; three times what correct kernels show. FP8 queries: the
    kernel rounds the weights to E4M3, half a step of which is 2⁻⁴ of a weight, and perhaps the result; row errors average
    below that.
    """
    if kernel.q == "FP8_E4M3":
        return 2.0**-4
    if kernel.o == "FP32":
        return 2.0**-24 * 8 * math.sqrt(sizes["D"] + sizes["Skv"])
    return {"FP16": 2.0**-9, "BF16": 2.0**-6.5}[kernel.o]


@dataclass(frozen=True, slots=True)
class AttentionReference:
    """Sampled rows of O = softmax(Q·Kᵀ/√D)·V in float64. Holds no operand.

    D is the width of the rows that are multiplied. (Absorbed MLA divides by the root of an expanded key's width instead:
    another constant, on which no time depends.)
    """

    shape: tuple[int, int, int, int]
    """B, Hq, Sq, Dv."""
    rows: Tensor
    """Indices into the B·Hq·Sq rows: first, last, and one at random in each equal stretch, so heads differ."""
    expected: Tensor
    """(len(rows), Dv) float64."""

    @classmethod
    def of(cls, sizes: Sizes, q: HeldMatrix, k: HeldMatrix, v: HeldMatrix) -> AttentionReference:
        """Evaluate the reference of Q (B·Hq·Sq, D), K (B·Hkv·stored keys, D) and V (…, Dv) as they are now."""
        Hq, Hkv, Sq, D = (sizes[letter] for letter in ("Hq", "Hkv", "Sq", "D"))
        keys, width = stored_keys(sizes), value_size(sizes)
        most = min(MAX_ROWS, max(LEAST_ROWS, MAX_CACHED_ELEMENTS // (keys * (D + width))))
        rows = sample_index(sizes["B"] * Hq * Sq, most)
        queries = q.rows64(rows)
        expected = torch.empty(len(rows), width, dtype=torch.float64)
        for at, row in enumerate(rows.tolist()):
            sequence_head, query = divmod(row, Sq)
            sequence, head = divmod(sequence_head, Hq)
            first, last = visible_keys(sizes, query)
            start = (sequence * Hkv + head // (Hq // Hkv)) * keys
            index = torch.arange(start + first, start + last)
            weights = torch.softmax(k.rows64(index) @ queries[at] / math.sqrt(D), dim=0)
            expected[at] = weights @ v.rows64(index)
        return cls((sizes["B"], Hq, Sq, width), rows, expected)

    def error(self, output: object) -> float:
        """Return the largest ‖row − reference‖ / ‖reference‖ of the sample; NaN for a wrong shape, NaN or Inf.

        Row by row, because a late row averages many values and is far smaller than an early one.
        """
        if not isinstance(output, Tensor) or tuple(output.shape) != self.shape:
            return math.nan
        return largest_row_error(output.reshape(-1, self.shape[-1]), self.rows, self.expected)
