"""An operand as a kernel holds it: codes and scales, and the exact real numbers they stand for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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
