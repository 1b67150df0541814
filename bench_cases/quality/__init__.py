"""Measures what quantising costs in quality: of tensors, of layers, of whole models, each figure with its interval.

    windows = text_windows(read_text("book.txt"), tokenizer)
    compare_models(original, quantised, windows)   # KL, agreement, perplexity
    kl_sensitivity(original, windows, ["INT8", "INT4"]).ranking("INT4")

Where to find what: `estimates` intervals, `token_windows` texts, `model_outputs` running models, `token_scores` logits,
`layer_formats` / `activation_codecs` / `substitution` narrow layers for a while, `tensor_quality` / `layer_outputs` /
`model_quality` / `generation_quality` / `embedding_quality` the figures, `sensitivity*` who can bear what, `rank_check`
whether a ranking knows anything, `whole_plan` / `mixed_cache` / `attention_products` / `strategy_quality` whole
strategies, `part_losses` / `strategy_check` the search with measured losses, `variants` one model scored against
itself, `tiny_decoder` / `python_help` a trained model without a network. Nothing here reads a clock. Names load when
they are used.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "ByteTokenizer": "texts.python_help",
    "EmbeddingQuality": "embedding_quality",
    "Estimate": "texts.estimates",
    "GenerationAgreement": "generation_quality",
    "LayerQuality": "layer_outputs",
    "LayerSensitivity": "sensitivity.methods",
    "ModelQuality": "model_quality",
    "RankCheck": "sensitivity.rank_check",
    "SensitivityTable": "sensitivity.methods",
    "StrategyCheck": "sensitivity.strategy_check",
    "StrategyQuality": "sensitivity.strategy_quality",
    "TextWindows": "texts.token_windows",
    "TrainedDecoder": "texts.tiny_decoder",
    "TrainingRun": "texts.tiny_decoder",
    "WeightQuality": "tensor_quality",
    "check_ranking": "sensitivity.rank_check",
    "check_strategies": "sensitivity.strategy_check",
    "compare_embeddings": "embedding_quality",
    "compare_generation": "generation_quality",
    "compare_layers": "layer_outputs",
    "compare_models": "model_quality",
    "compare_on_text": "model_quality",
    "fisher_sensitivity": "sensitivity.fisher",
    "kl_sensitivity": "sensitivity.kl",
    "layer_quality": "layer_outputs",
    "measure_strategy": "sensitivity.strategy_quality",
    "measured_losses": "sensitivity.part_losses",
    "perplexity": "model_quality",
    "prior_sensitivity": "sensitivity.prior",
    "read_text": "texts.token_windows",
    "simulated": "substitution",
    "synthetic_windows": "texts.token_windows",
    "text_windows": "texts.token_windows",
    "tiny_text": "texts.python_help",
    "train_tiny_decoder": "texts.tiny_decoder",
    "weight_quality": "tensor_quality",
}
"""Public name → module of this package that defines it."""

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return __all__
