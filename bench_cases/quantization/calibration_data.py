"""Calibration data of activation-aware methods: token batches, and the inputs of every Linear on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from bench_cases.quantization.failures import cause_of, is_memory_short
from bench_cases.quantization.plans.layer_plan import LayerDecision
from roofline_model.core.errors import InvalidValueError, RooflineError

Batch = Tensor | Mapping[str, Tensor]
"""Token ids (batch, tokens), or the model's keyword arguments."""


class Tokenizer(Protocol):
    """Tokenizer interface of `token_batches`: a call that returns `input_ids`."""

    def __call__(self, text: str, **options: Any) -> Any:
        """Return a mapping with `input_ids`."""


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """The activations each layer multiplied: site name → list of (tokens, K)."""

    by_site: Mapping[str, list[Tensor]]
    tokens_count: int
    """Tokens that went through the model."""


def token_batches(
    text: str | Sequence[str], tokenizer: Tokenizer, *, tokens_per_batch: int = 512, max_tokens: int = 8192
) -> list[Tensor]:
    """Return token ids in rows of `tokens_per_batch` (batch 1 each) from a text; the last, shorter row is kept."""
    pieces = [text] if isinstance(text, str) else list(text)
    ids = [int(token) for piece in pieces for token in tokenizer(piece)["input_ids"]][:max_tokens]
    if not ids:
        raise InvalidValueError("the calibration text holds no token: give a longer text")
    rows = [ids[start : start + tokens_per_batch] for start in range(0, len(ids), tokens_per_batch)]
    return [torch.tensor([row], dtype=torch.long) for row in rows]


def collect_inputs(model: nn.Module, decisions: Sequence[LayerDecision], batches: Iterable[Batch]) -> LayerInputs:
    """Run the batches through the model and return what every chosen layer received. The model is left as it was.

    Layers that read the same tensor (query, key and value) share one copy. Memory: tokens × K per distinct input, in
    the model's dtype. Raises `InvalidValueError` when there is no batch, when the model cannot run one, and when a
    layer receives NaN or infinity: scales searched on those would mean nothing.
    """
    collector = _Collector()
    handles = [
        module.register_forward_pre_hook(collector.hook(decision.site.name))
        for decision in decisions
        for module in decision.site.modules
    ]
    was_training = model.training
    tokens_count = batches_count = 0
    try:
        model.eval()
        with torch.no_grad():
            for batch in _each(batches):
                batches_count += 1
                tokens_count += _run(model, batch, batches_count)
                collector.forget_originals()
    finally:
        for handle in handles:
            handle.remove()
        model.train(was_training)
    if not batches_count:
        raise InvalidValueError(
            "no calibration batch: give token ids, (batch, tokens) each; an iterator is used up by one run"
        )
    return LayerInputs(collector.by_site, tokens_count)


class _Collector:
    def __init__(self) -> None:
        self.by_site: dict[str, list[Tensor]] = {}
        # Original and copy, by the original's identity: kept for one batch, so that no identity is used twice.
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}

    def hook(self, name: str) -> Any:
        def remember(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            activation = arguments[0] if arguments else None
            if not isinstance(activation, Tensor) or activation.numel() == 0:
                return
            if id(activation) not in self._copies:
                if not bool(torch.isfinite(activation).all()):
                    raise InvalidValueError(
                        f"the calibration data gives NaN or infinity at the input of {name or 'the layer'}: look at "
                        "the data, the model is unchanged"
                    )
                copy = activation.detach().reshape(-1, activation.shape[-1]).clone()
                self._copies[id(activation)] = (activation, copy)
            self.by_site.setdefault(name, []).append(self._copies[id(activation)][1])

        return remember

    def forget_originals(self) -> None:
        self._copies.clear()


def _each(batches: Iterable[Batch]) -> Iterator[Batch]:
    if isinstance(batches, str | Mapping) or not isinstance(batches, Iterable):
        raise InvalidValueError(f"calibration must be a list of token batches, got {type(batches).__name__}")
    yield from batches


def _run(model: nn.Module, batch: Batch, number: int) -> int:
    """Call the model with one batch on its own device; return its tokens (rows of the first argument's last axis)."""
    device = next(model.parameters()).device
    if not isinstance(batch, Tensor | Mapping):
        raise InvalidValueError(f"calibration batch {number} must hold token ids, got {type(batch).__name__}")
    try:
        if isinstance(batch, Tensor):
            model(batch.to(device))
            return _tokens(batch)
        model(**{name: value.to(device) if isinstance(value, Tensor) else value for name, value in batch.items()})
        return _tokens(next(_tensors(batch)))
    except RooflineError:
        raise
    except Exception as error:
        if is_memory_short(error):
            raise
        raise InvalidValueError(
            f"the model cannot run calibration batch {number}: {cause_of(error)}; it is unchanged"
        ) from None


def _tensors(batch: Mapping[str, Tensor]) -> Iterator[Tensor]:
    if "input_ids" in batch:
        yield batch["input_ids"]
    yield from (value for value in batch.values() if isinstance(value, Tensor))


def _tokens(tensor: Tensor) -> int:
    """Token ids: every element; features (…, tokens, K): every row."""
    return tensor.numel() if not tensor.is_floating_point() else tensor.numel() // max(1, tensor.shape[-1])
