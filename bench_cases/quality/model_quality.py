"""Distance of a quantised model from its 16-bit original on a text: KL, agreement, perplexity, each with an
interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bench_cases.quality.model_outputs import (
    BATCH_WINDOWS,
    CacheMaker,
    concatenated,
    evaluating,
    logits_of,
    require_fitting,
    require_same_vocabulary,
    window_batches,
)
from bench_cases.quality.texts.estimates import Estimate, ratio_estimate
from bench_cases.quality.texts.token_scores import WindowScores, score_windows
from bench_cases.quality.texts.token_windows import TextWindows


@dataclass(frozen=True, slots=True)
class ModelQuality:
    """A quantised model against its original, on the same tokens: the interval of their difference is paired."""

    kl: Estimate
    """KL(original ‖ quantised) of the next token, nats per token."""
    top1_agreement: Estimate
    """Share of the tokens for which both models put the same token first."""
    reference_perplexity: Estimate
    quantized_perplexity: Estimate
    perplexity_ratio: Estimate
    """Quantised over original: exp of the mean difference of the losses, token by token."""
    tokens_count: int
    """Predictions scored."""
    windows_count: int
    window_elems: int
    """Tokens of a window: a perplexity holds for its window only, as the first tokens of each have little context."""


def compare_models(
    reference: nn.Module,
    quantized: nn.Module,
    windows: TextWindows,
    *,
    quantized_cache: CacheMaker | None = None,
    reference_logits: Sequence[Tensor] | None = None,
    batch_windows: int = BATCH_WINDOWS,
) -> ModelQuality:
    """Score both models on the windows; neither is changed. They may be one model with two caches.

    quantized_cache: a key-value cache for the quantised side, one per batch (see `make_kv_cache`). reference_logits:
    what `window_logits` returned for the same reference, windows and batches; None computes them. Raises
    `InvalidValueError` for vocabularies that differ, unknown tokens, and logits that are not finite.
    """
    require_fitting(reference, windows.ids, "reference")
    require_fitting(quantized, windows.ids, "quantised")
    scores: list[WindowScores] = []
    with evaluating(reference, quantized), torch.no_grad():
        for index, ids in enumerate(window_batches(windows, batch_windows)):
            first = logits_of(reference, ids, "reference") if reference_logits is None else reference_logits[index]
            second = logits_of(quantized, ids, "quantised", make_cache=quantized_cache)
            require_same_vocabulary(first, second)
            scores.append(score_windows(first, second, ids))
    return _summary(scores, windows)


def window_logits(
    reference: nn.Module, windows: TextWindows, *, batch_windows: int = BATCH_WINDOWS
) -> tuple[Tensor, ...]:
    """Return the logits (windows, tokens, vocabulary) of each batch, to compare several models with one reference."""
    require_fitting(reference, windows.ids, "reference")
    with evaluating(reference), torch.no_grad():
        return tuple(logits_of(reference, ids, "reference") for ids in window_batches(windows, batch_windows))


def _summary(scores: list[WindowScores], windows: TextWindows) -> ModelQuality:
    """Return the figures of scores that cover the windows in order."""
    tokens = [float(windows.window_elems - 1)] * windows.windows_count
    reference = concatenated([part.reference_loss_nats for part in scores])
    quantized = concatenated([part.quantized_loss_nats for part in scores])
    differences = [b - a for a, b in zip(reference, quantized, strict=True)]
    count = windows.scored_count
    return ModelQuality(
        kl=ratio_estimate(
            concatenated([part.kl_nats for part in scores]),
            tokens,
            windows.clusters,
            unit="nats/token",
            tokens_count=count,
        ),
        top1_agreement=ratio_estimate(
            concatenated([part.agreeing for part in scores]), tokens, windows.clusters, unit="share", tokens_count=count
        ),
        reference_perplexity=_perplexity(reference, windows),
        quantized_perplexity=_perplexity(quantized, windows),
        perplexity_ratio=ratio_estimate(
            differences, tokens, windows.clusters, unit="ratio", tokens_count=count, transform=np.exp
        ),
        tokens_count=count,
        windows_count=windows.windows_count,
        window_elems=windows.window_elems,
    )


def _perplexity(losses: list[float], windows: TextWindows) -> Estimate:
    tokens = [float(windows.window_elems - 1)] * windows.windows_count
    return ratio_estimate(
        losses, tokens, windows.clusters, unit="perplexity", tokens_count=windows.scored_count, transform=np.exp
    )
