"""Run a model over windows for its logits, and leave no trace: modes restored, hooks gone, no gradient kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bench_cases.quality.texts.token_windows import TextWindows
from roofline_model.core.errors import InvalidValueError, UnsupportedError

CacheMaker = Callable[[], Any]
"""Returns a fresh key-value cache for `past_key_values`, such as `lambda: make_kv_cache(model, "INT8")`."""
BATCH_WINDOWS = 8


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Put models into evaluation mode; every module gets its own mode back, whatever happens inside."""
    training_modes = [(module, module.training) for model in models for module in model.modules()]
    try:
        for model in models:
            model.eval()
        yield
    finally:
        for module, was_training in training_modes:
            module.training = was_training


def device_of(model: nn.Module) -> torch.device:
    """Return where the model's inputs must be."""
    tensor = next(model.parameters(), None)
    return torch.device("cpu") if tensor is None else tensor.device


def require_fitting(model: nn.Module, ids: Tensor, name: str) -> None:
    """Raise `InvalidValueError` for token ids the model does not know, or windows longer than its positions."""
    config: Any = getattr(model, "config", None)
    decoder = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    vocab_size = getattr(decoder, "vocab_size", None)
    largest = int(ids.max())
    if vocab_size is not None and largest >= vocab_size:
        raise InvalidValueError(
            f"the text holds token {largest}, and the {name} model knows {vocab_size}: it was tokenised for another "
            "model"
        )
    positions = getattr(decoder, "max_position_embeddings", None)
    if positions is not None and ids.shape[-1] > positions:
        raise InvalidValueError(
            f"a sequence of {ids.shape[-1]} tokens, and the {name} model has {positions} positions: give shorter "
            "windows"
        )


def logits_of(model: nn.Module, ids: Tensor, name: str, *, make_cache: CacheMaker | None = None) -> Tensor:
    """Return the logits (rows, tokens, vocabulary) of token ids (rows, tokens), in the model's dtype.

    Raises `UnsupportedError` for a model that gives none, `InvalidValueError` naming the model when one is NaN or
    infinite.
    """
    more = {} if make_cache is None else {"past_key_values": make_cache(), "use_cache": True}
    return checked_logits(model(ids.to(device_of(model)), **more), ids, name)


def checked_logits(output: Any, ids: Tensor, name: str) -> Tensor:
    """Return the logits in what a model returned for `ids`; errors as of `logits_of`."""
    logits = output if isinstance(output, Tensor) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.dim() != 3 or logits.shape[:2] != ids.shape:
        raise UnsupportedError(
            f"the {name} model gives no logits per token: figures of a whole model need a language model; an encoder "
            "has `compare_embeddings`"
        )
    if not bool(torch.isfinite(logits).all()):
        raise InvalidValueError(
            f"the logits of the {name} model hold NaN or infinity on this text: there is nothing to compare"
        )
    return logits


def require_same_vocabulary(reference: Tensor, quantized: Tensor) -> None:
    """Raise `InvalidValueError` when two models' logits speak of different vocabularies."""
    if reference.shape[-1] != quantized.shape[-1]:
        raise InvalidValueError(
            f"the models' vocabularies differ: {reference.shape[-1]} and {quantized.shape[-1]} logits per token; "
            "compare a "
            "model with its own quantised copy"
        )


def window_batches(windows: TextWindows, batch_windows: int = BATCH_WINDOWS) -> Iterator[Tensor]:
    """Yield token ids of some windows at a time, in order."""
    if batch_windows < 1:
        raise InvalidValueError(f"batch_windows must be at least 1, got {batch_windows}")
    yield from windows.ids.split(batch_windows)


def concatenated(parts: Sequence[Tensor]) -> list[float]:
    """Return the numbers of some vectors in one list."""
    return [float(value) for part in parts for value in part.tolist()]
