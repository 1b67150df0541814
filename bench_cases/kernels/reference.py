"""The right answer: a float64 product of the very operands a kernel holds, and the error of an output against it.

An operand is held as codes and scales, and stands for exact real numbers.
A big product is checked on a sample: whole rows and columns spread over the output (first and last always), so that a
tile computed wrongly anywhere is met. Shape and finiteness are checked everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_cases.kernels.spec import KernelSpec

MAX_ROWS = 64
MAX_OPERAND_ELEMENTS = 4_000_000
"""Bounds the float64 operands of the sample, hence its time (about 0.1 s on two cores)."""

_EXACT = 1e-12


def tolerance_for(kernel: KernelSpec, K: int) -> float:
    """Return the largest norm-wise relative error of a correct kernel: a property of its formats, not of its speed.

    Integers: exact. FP32: rounding of K additions, growing like √K. TF32: operands rounded to 10 mantissa bits.
    FP16 and BF16 results: rounding of the result, and of partial sums or decoded weights where a kernel keeps them in
    16 bits, with a margin of 4 to 10 over what correct kernels show.
    """
    if kernel.activation == "INT8" and kernel.weight == "INT8":
        return _EXACT
    if kernel.activation == "TF32":
        return 2.0**-9
    if kernel.output == "FP32":
        return 2.0**-24 * 8 * math.sqrt(K)
    return {"FP16": 2.0**-9, "BF16": 2.0**-7}[kernel.output]


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
class ProductReference:
    """Sampled entries of C = A·Bᵀ in float64. Holds no operand: what a kernel does to its own changes nothing."""

    shape: tuple[int, int]
    rows: Tensor
    columns: Tensor
    expected: Tensor
    """(len(rows), len(columns)) float64."""

    @classmethod
    def of(cls, activation: HeldMatrix, weight: HeldMatrix) -> ProductReference:
        """Evaluate the reference of the operands (M, K) and (N, K) as they are now."""
        (M, K), (N, _) = activation.shape, weight.shape
        budget = max(2, MAX_OPERAND_ELEMENTS // K)
        rows, columns = sample_index(M, min(MAX_ROWS, budget)), sample_index(N, budget)
        return cls((M, N), rows, columns, activation.rows64(rows) @ weight.rows64(columns).T)

    def error(self, output: object) -> float:
        """Return ‖output − reference‖ / ‖reference‖ (Frobenius, over the sample); NaN for a wrong shape, NaN or Inf."""
        if (
            not isinstance(output, Tensor)
            or tuple(output.shape) != self.shape
            or not bool(torch.isfinite(output).all())
        ):
            return math.nan
        sampled = output[self.rows.to(output.device)][:, self.columns.to(output.device)].cpu().to(torch.float64)
        difference = float(torch.linalg.vector_norm(sampled - self.expected))
        scale = float(torch.linalg.vector_norm(self.expected))
        if scale == 0:
            return 0.0 if difference == 0 else math.inf
        return difference / scale


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

    def rows64(self, index: Tensor) -> Tensor:
        """Return the chosen rows as exact float64 values on the CPU: (len(index), K)."""
        codes = _pick(self.codes, index)
        values = codes.to(torch.float64) if self.table is None else self.table.cpu()[codes.long()]
        if self.code_zero:
            values = values - self.code_zero
        if self.scales is not None:
            values = values * self._per_element(self.scales, index)
        values = values * self.tensor_scale
        if self.offsets is not None:
            values = values + self._per_element(self.offsets, index)
        return values

    def decoded(self) -> Tensor:
        """Return the matrix in FP32 where it is (rows, K): scales multiplied first, each product rounded once, as codecs do."""
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

    def _per_element(self, blocks: Tensor, index: Tensor) -> Tensor:
        chosen = _pick(blocks, index).to(torch.float64)
        return chosen.repeat_interleave(self.codes.shape[1] // chosen.shape[1], dim=1)


def _pick(matrix: Tensor, index: Tensor) -> Tensor:
    """Return rows of a matrix on the CPU. One-byte floats are indexed as bytes: torch indexes few 8-bit types."""
    rows = index.to(matrix.device)
    if matrix.element_size() == 1:
        return matrix.view(torch.uint8)[rows].cpu().view(matrix.dtype)
    return matrix[rows].cpu()


def largest_row_error(output: Tensor, rows: Tensor, expected: Tensor) -> float:
    """Return the largest ‖row − reference‖ / ‖reference‖; NaN where the output (rows × width) holds NaN or Inf anywhere.

    `rows` are indices into the output, `expected` their reference (len(rows), width) in float64 on the CPU.
    """
    if not bool(torch.isfinite(output).all()):
        return math.nan
    sampled = output[rows.to(output.device)].cpu().to(torch.float64)
    difference = torch.linalg.vector_norm(sampled - expected, dim=1)
    scale = torch.linalg.vector_norm(expected, dim=1)
    return float(torch.where(difference == 0, 0.0, difference / scale).max())
