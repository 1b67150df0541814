"""Measures what quantising costs in quality, each figure with its interval.

    windows = text_windows(read_text("book.txt"), tokenizer)
    compare_models(original, quantised, windows)         # KL, agreement, perplexity
    measured_losses(original, windows, ["INT8", "INT4"])  # of each group of layers alone, for the search

Where to find what: `model_quality` / `embedding_quality` the figures of a model, `part_losses` those of its parts,
`layer_formats` / `activation_codecs` / `substitution` / `mixed_cache` narrow layers and caches for a while, `variants`
one model scored against itself, `model_outputs` running models, `texts` windows, scores and intervals. Nothing here
reads a clock. Names load when they are used.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "ByteTokenizer": "texts.python_help",
    "EmbeddingQuality": "embedding_quality",
    "Estimate": "texts.estimates",
    "ModelQuality": "model_quality",
    "TextWindows": "texts.token_windows",
    "compare_embeddings": "embedding_quality",
    "compare_models": "model_quality",
    "measured_losses": "part_losses",
    "read_text": "texts.token_windows",
    "synthetic_windows": "texts.token_windows",
    "text_windows": "texts.token_windows",
    "tiny_text": "texts.python_help",
}
"""Public name → module of this package that defines it."""

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return __all__
