"""Scores of two sets of logits for the same tokens, summed per window, in FP64.

* KL: Σ_v p·(log p − log q) of the next-token distributions, reference ‖ quantised, in nats; never negative.
  Source: Kullback and Leibler (1951).
* loss: −log p(next token), in nats; perplexity is the exponential of its mean.
* agreement: both models put the same token first; the lowest id wins a tie in both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_PIECE_ELEMS = 1 << 22
"""Logits widened to FP64 at a time: 32 MiB per temporary."""


@dataclass(frozen=True, slots=True)
class WindowScores:
    """Sums over the scored tokens of each window, one element per window, FP64 on the CPU."""

    kl_nats: Tensor
    agreeing: Tensor
    reference_loss_nats: Tensor
    quantized_loss_nats: Tensor


def score_windows(reference: Tensor, quantized: Tensor, ids: Tensor) -> WindowScores:
    """Compare logits (rows, tokens, vocabulary) of the same ids (rows, tokens); the last position has no successor."""
    rows, tokens = ids.shape
    targets = ids[:, 1:].to(reference.device)
    sums = torch.zeros(4, rows, dtype=torch.float64)
    step = max(1, _PIECE_ELEMS // max(1, rows * reference.shape[-1]))
    for start in range(0, tokens - 1, step):
        part = slice(start, min(start + step, tokens - 1))
        first, second = reference[:, part], quantized[:, part].to(reference.device)
        p, q = first.double().log_softmax(-1), second.double().log_softmax(-1)
        target_ids = targets[:, part, None]
        # A divergence is never negative; rounding may leave −1e-17.
        divergence = (p.exp() * (p - q)).sum(-1).clamp_min(0.0)
        agreeing = first.argmax(-1) == second.argmax(-1)
        sums[0] += divergence.sum(-1).cpu()
        sums[1] += agreeing.double().sum(-1).cpu()
        sums[2] -= p.gather(-1, target_ids).sum((-2, -1)).cpu()
        sums[3] -= q.gather(-1, target_ids).sum((-2, -1)).cpu()
    return WindowScores(*sums)
