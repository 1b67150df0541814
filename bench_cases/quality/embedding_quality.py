"""Distance of a quantised encoder from its 16-bit original: embeddings of sentences, and their order of similarity.

An encoder has no next token, so no KL and no perplexity. What its users look at are pooled embeddings:

* cosine: between both models' embedding of the same sentence; 1 is no change.
* rank agreement: Spearman's correlation of the cosine similarities of all pairs of sentences. A search by similarity
  sees nothing else: embeddings may turn together without harm.
* nearest kept: share of the sentences whose most similar other sentence stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bench_cases.quality.model_outputs import BATCH_WINDOWS, device_of, evaluating, require_fitting
from bench_cases.quality.texts.estimates import CONFIDENCE_RATIO, Clusters, Estimate, ratio_estimate
from bench_cases.quality.texts.token_windows import TextWindows
from bench_cases.quantization.calibration_data import Tokenizer
from roofline_model.core.errors import InvalidValueError, UnsupportedError

MIN_SENTENCES_COUNT = 4
"""With fewer, three pairs at most are ordered."""
RESAMPLES_COUNT = 500
"""Fewer than elsewhere: each ranks all pairs anew."""
_SEED = 20261121


@dataclass(frozen=True, slots=True)
class EmbeddingQuality:
    """A quantised encoder against its original, on the same sentences."""

    cosine: Estimate
    """Mean over sentences."""
    least_cosine_ratio: float
    """Of the sentence that moved most."""
    rank_agreement: Estimate
    """Spearman's correlation of all pairwise similarities; the interval draws sentences again, not pairs."""
    nearest_kept: Estimate
    """Share of the sentences that keep their most similar one."""
    sentences_count: int
    tokens_count: int


def compare_embeddings(
    reference: nn.Module,
    quantized: nn.Module,
    sentences: Sequence[str] | TextWindows,
    tokenizer: Tokenizer | None = None,
) -> EmbeddingQuality:
    """Embed sentences with both models and compare; neither is changed.

    sentences: texts, which need the reference's tokenizer, or windows of token ids, each taken as a sentence, whose
    embedding is the mean of the last hidden states over its tokens. Raises `InvalidValueError` for fewer than four
    sentences, unknown tokens, embeddings that are zero, not finite or of different sizes, `UnsupportedError` for texts
    without a tokenizer and for a model without hidden states.
    """
    rows = _token_rows(sentences, tokenizer)
    hardest = torch.full((1, max(map(len, rows))), int(torch.cat(rows).max()))  # the longest row, of the largest token
    for model, name in ((reference, "reference"), (quantized, "quantised")):
        require_fitting(model, hardest, name)
    with evaluating(reference, quantized), torch.no_grad():
        first = _embeddings(reference, rows, "reference")
        second = _embeddings(quantized, rows, "quantised")
    if first.shape != second.shape:
        raise InvalidValueError(
            f"the embeddings have {first.shape[1]} and {second.shape[1]} numbers: compare a model with its own "
            "quantised copy"
        )
    return _summary(first.numpy(), second.numpy(), sentences, sum(map(len, rows)))


def _token_rows(sentences: Sequence[str] | TextWindows, tokenizer: Tokenizer | None) -> list[Tensor]:
    """Return the token ids of every sentence."""
    if isinstance(sentences, TextWindows):
        rows = list(sentences.ids)
    elif tokenizer is None:
        raise UnsupportedError("sentences need the model's tokenizer; give it, or windows of token ids")
    else:
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        rows = [
            torch.tensor([int(token) for token in tokenizer(text)["input_ids"]], dtype=torch.long) for text in texts
        ]
    if len(rows) < MIN_SENTENCES_COUNT:
        raise InvalidValueError(
            f"{len(rows)} sentences are too few to rank their similarities: give at least {MIN_SENTENCES_COUNT}"
        )
    if not all(len(row) for row in rows):
        raise InvalidValueError("a sentence is empty: it has no token and no embedding")
    return rows


def _embeddings(model: nn.Module, rows: Sequence[Tensor], name: str) -> Tensor:
    """Return unit vectors (sentences, size) in FP64 on the CPU."""
    starts = range(0, len(rows), BATCH_WINDOWS)
    vectors = torch.cat([_pooled(model, rows[start : start + BATCH_WINDOWS], name) for start in starts])
    lengths = vectors.norm(dim=1, keepdim=True)
    if not bool(torch.isfinite(vectors).all()) or not bool((lengths > 0).all()):
        raise InvalidValueError(
            f"an embedding of the {name} model is zero, NaN or infinite: there is nothing to compare"
        )
    return vectors / lengths


def _pooled(model: Any, rows: Sequence[Tensor], name: str) -> Tensor:
    """Return the pooled hidden states (sentences, size) of some sentences, padded to the longest and masked."""
    ids = nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    mask = (torch.arange(ids.shape[1]) < lengths.unsqueeze(1)).long()
    device = device_of(model)
    output = model(input_ids=ids.to(device), attention_mask=mask.to(device))
    states = getattr(output, "last_hidden_state", None)
    if not isinstance(states, Tensor) or states.shape[:2] != ids.shape:
        raise UnsupportedError(
            f"the {name} model gives no hidden state per token: embeddings need an encoder; compare language models "
            "with `compare_models`"
        )
    wide = states.double().cpu()
    weights = mask.unsqueeze(-1).double()
    # Selected, not multiplied: what stands behind the end of a sentence may be anything, NaN included.
    return torch.where(weights > 0, wide, 0.0).sum(1) / weights.sum(1)


def _summary(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    sentences: Sequence[str] | TextWindows,
    tokens_count: int,
) -> EmbeddingQuality:
    count = len(first)
    clusters = sentences.clusters if isinstance(sentences, TextWindows) else Clusters(tuple(range(count)), "sentences")
    cosines = np.einsum("ij,ij->i", first, second)
    similar, similar_too = first @ first.T, second @ second.T
    is_same_neighbour = _nearest(similar) == _nearest(similar_too)
    ones = [1.0] * count
    return EmbeddingQuality(
        cosine=ratio_estimate(cosines.tolist(), ones, clusters, unit="cosine", tokens_count=tokens_count),
        least_cosine_ratio=float(cosines.min()),
        rank_agreement=_rank_agreement(similar, similar_too, tokens_count),
        nearest_kept=ratio_estimate(
            is_same_neighbour.astype(float).tolist(), ones, clusters, unit="share", tokens_count=tokens_count
        ),
        sentences_count=count,
        tokens_count=tokens_count,
    )


def _nearest(similar: NDArray[np.float64]) -> NDArray[np.intp]:
    off_diagonal = similar - np.diag(np.full(len(similar), np.inf))
    return np.asarray(off_diagonal.argmax(axis=1))


def _rank_agreement(first: NDArray[np.float64], second: NDArray[np.float64], tokens_count: int) -> Estimate:
    """Return the correlation over all pairs, and its spread when sentences are drawn again; pairs of one sentence drawn
    twice are left out.
    """
    count = len(first)
    rows, columns = np.triu_indices(count, 1)
    value = _rank_correlation(first[rows, columns], second[rows, columns])
    generator = np.random.default_rng(_SEED)
    shares = []
    for _ in range(RESAMPLES_COUNT):
        drawn = generator.integers(0, count, count)
        first_rows, second_rows = drawn[rows], drawn[columns]
        is_pair = first_rows != second_rows
        if len(np.unique(drawn)) >= MIN_SENTENCES_COUNT:
            shares.append(
                _rank_correlation(first[first_rows, second_rows][is_pair], second[first_rows, second_rows][is_pair])
            )
    tail = (1 - CONFIDENCE_RATIO) / 2
    low, high = np.quantile(shares, [tail, 1 - tail]) if shares else (None, None)
    method = f"bootstrap over {count} sentences, {len(shares)} resamples, percentiles"
    if low is None or high is None:
        return Estimate(value, None, None, "rank correlation", f"{count} sentences only", tokens_count)
    return Estimate(value, float(low), float(high), "rank correlation", method, tokens_count)


def _rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation, equal values at their mean rank; raises `InvalidValueError` where all values
    of a row are equal.
    """
    a, b = _ranks(first), _ranks(second)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.stats import rankdata

    if not np.isfinite(values).all() or values.min() == values.max():
        raise InvalidValueError("a ranking needs finite scores that are not all equal")
    return np.asarray(rankdata(values) - (len(values) + 1) / 2)
