"""Output rows against their float64 reference: the largest relative error of a row."""

from __future__ import annotations

import math

import torch
from torch import Tensor


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
