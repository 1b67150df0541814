"""Score one model against itself: its logits once, then again as each of several narrow variants of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

import torch
from torch import nn

from bench_cases.quality.model_outputs import (
    CacheMaker,
    evaluating,
    logits_of,
    require_fitting,
    window_batches,
)
from bench_cases.quality.texts.token_scores import WindowScores, score_windows
from bench_cases.quality.texts.token_windows import TextWindows

REFERENCE_LIMIT_BYTES = 512 << 20
"""Logits of the original that are kept at a time; a longer text goes through in parts."""

Variant = Callable[[], AbstractContextManager[CacheMaker | None]]
"""Opens a block inside which the model is narrow; the block's value is its cache, or None for the model's own."""
Key = TypeVar("Key", bound=Hashable)


def score_variants(
    model: nn.Module, windows: TextWindows, variants: Mapping[Key, Variant]
) -> dict[Key, list[WindowScores]]:
    """Return the scores of every variant against the model as it is, in the order of the windows; one run each.

    A text below `REFERENCE_LIMIT_BYTES` runs through the model as it is only once. The model is left as it was. Errors
    as of `compare_models`.
    """
    require_fitting(model, windows.ids, "given")
    scores_by_key: dict[Key, list[WindowScores]] = {key: [] for key in variants}
    with evaluating(model), torch.no_grad():
        for part in _parts(model, windows):
            references = [(ids, logits_of(model, ids, "original")) for ids in window_batches(part)]
            for key, variant in variants.items():
                with variant() as make_cache:
                    scores_by_key[key] += [
                        score_windows(logits, logits_of(model, ids, _shown(key), make_cache=make_cache), ids)
                        for ids, logits in references
                    ]
    return scores_by_key


def _shown(key: Hashable) -> str:
    return "=".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _parts(model: nn.Module, windows: TextWindows) -> Iterator[TextWindows]:
    """Cut the windows so that the logits of each part stay below `REFERENCE_LIMIT_BYTES`."""
    row = logits_of(model, windows.ids[:1], "original")
    count = max(1, REFERENCE_LIMIT_BYTES // (row.numel() * row.element_size()))
    for start in range(0, windows.windows_count, count):
        yield TextWindows(windows.ids[start : start + count], windows.documents[start : start + count], 0)
