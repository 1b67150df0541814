"""One decode step or one prefill of a real model, as a call that can be repeated: it leaves the model as it found it.

A decode step appends one token to a cache that was filled before, and takes it off again: every call reads the same
number of cached tokens. A prefill starts with an empty cache and computes the last token's logits alone where the model
lets it, as generation does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench_cases.quality.model_outputs import checked_logits
from bench_cases.quantization.apply import need_compiler
from bench_cases.quantization.kv.cache import cache_bytes, make_kv_cache
from roofline_model.core.errors import UnsupportedError
from roofline_model.formats.catalog import get_format
from roofline_model.models.decoder_step import Workload

STEP_TOLERANCE = 0.05
"""Norm-wise difference of a step's logits from those of the whole sequence at once: 16-bit attention sums in another
order.
"""
NARROW_CACHE_TOLERANCE = 0.25
"""The same with a narrow cache, whose scales may be chosen from other tokens."""


@dataclass(frozen=True, slots=True)
class ModelStep:
    """A call to time, its check, and the cache it reads."""

    fn: Callable[[], Tensor]
    """Returns the logits of each sequence's last token (batch, vocabulary); of a model without logits its last
    states.
    """
    check: Callable[[Any], float]
    """Relative error of an output against the whole sequence computed in one call."""
    tolerance: float
    cached_bytes: int
    """Keys and values after the call."""


def make_step(model: nn.Module, ids: Tensor, workload: Workload, kv: str) -> ModelStep:
    """Return the pass of `workload` over token ids (batch, context), with the cache in format `kv`.

    Raises `UnsupportedError` for a model that keeps no cache, or one that cannot be taken back by one token.
    """
    is_narrow = get_format(kv).element_bits < 16
    expected = _whole(model, ids, kv if is_narrow else "")
    tolerance = NARROW_CACHE_TOLERANCE if is_narrow else STEP_TOLERANCE

    def check(output: Any) -> float:
        difference = (output.float() - expected).norm() / expected.norm()
        return float(difference) if torch.isfinite(difference) else float("inf")

    if workload.phase == "prefill":
        return ModelStep(lambda: _call(model, ids, _cache(model, kv)), check, tolerance, _filled_bytes(model, ids, kv))
    cache = _cache(model, kv)
    if cache is None:
        raise UnsupportedError(
            f"{type(model).__name__} keeps no key-value cache: it has no decode step; an encoder has --phase prefill"
        )
    _allow_cropping(cache)
    _call(model, ids[:, :-1], cache)
    if not cache.get_seq_length():
        raise UnsupportedError(
            f"{type(model).__name__} leaves its key-value cache empty: it has no decode step; an encoder has --phase "
            "prefill"
        )
    last = ids[:, -1:].contiguous()
    _call(model, last, cache)
    filled = cache_bytes(cache)
    _take_back(cache, ids.shape[1] - 1)

    def step() -> Tensor:
        output = _call(model, last, cache)
        cache.crop(-1)
        return output

    return ModelStep(step, check, tolerance, filled)


@contextmanager
def compiled(model: nn.Module, *, backend: Any = "inductor") -> Iterator[None]:
    """Let calls of the model go through torch.compile inside the block; the model itself is left as it was.

    One graph for the sizes of this case: what earlier cases compiled is forgotten, and would have made sizes symbolic
    here. `backend` as of `torch.compile`. Raises `UnsupportedError` where there is no compiler, and for a model that it
    cannot take as one graph.
    """
    from torch._dynamo.exc import (
        FailOnRecompileLimitHit,
        TorchDynamoException,
    )  # seconds to import, for compiled cases only

    need_compiler(model)
    before = model._compiled_call_impl
    torch.compiler.reset()
    model.compile(backend=backend, dynamic=False, fullgraph=True)
    try:
        yield
    except (TorchDynamoException, FailOnRecompileLimitHit) as error:
        first = str(error).strip().partition("\n")[0]
        raise UnsupportedError(f"torch.compile cannot take {type(model).__name__} as one graph: {first}") from error
    finally:
        model._compiled_call_impl = before


def step_ids(batch: int, context: int, vocabulary: int, device: str, seed: int = 0) -> Tensor:
    """Return uniform random token ids (batch, context): the time of a dense model does not depend on them."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, vocabulary, (batch, context), generator=generator).to(device)


def vocabulary_size(model: Any) -> int:
    """Return how many token ids a model knows, from its input embedding."""
    embedding = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    weight = getattr(embedding, "weight", None)
    if weight is None:
        raise UnsupportedError(f"{type(model).__name__} has no input embedding: only language models can be run here")
    return int(weight.shape[0])


def predicts_tokens(model: Any) -> bool:
    """Whether a model has a head over its vocabulary; encoders have hidden states alone."""
    return hasattr(model, "get_output_embeddings") and model.get_output_embeddings() is not None


def _call(model: Any, ids: Tensor, cache: Any) -> Tensor:
    """Run the model; return the last token's logits, or of a model without logits its last hidden states."""
    wish: dict[str, Any] = {}
    if cache is not None:
        wish |= {"past_key_values": cache, "use_cache": True}
    if "logits_to_keep" in _parameters_of(model):
        wish["logits_to_keep"] = 1
    with torch.no_grad():
        output = model(ids, **wish)
    logits = getattr(output, "logits", None)
    return output.last_hidden_state[:, -1] if logits is None else logits[:, -1]


def _whole(model: Any, ids: Tensor, kv: str) -> Tensor:
    """Return the last token's logits of the whole sequence in one call, in FP32."""
    with torch.no_grad():
        if kv:
            return _call(model, ids, _cache(model, kv)).float()
        output = model(ids)
        if getattr(output, "logits", None) is None:
            return output.last_hidden_state[:, -1].float()
        return checked_logits(output, ids, "measured")[:, -1].float()


def _cache(model: Any, kv: str) -> Any:
    # Encoders take `past_key_values` as well, for a decoder half that was never loaded.
    return make_kv_cache(model, kv) if predicts_tokens(model) and "past_key_values" in _parameters_of(model) else None


def _filled_bytes(model: Any, ids: Tensor, kv: str) -> int:
    cache = _cache(model, kv)
    if cache is None:
        return 0
    _call(model, ids, cache)
    return int(cache_bytes(cache))


def _allow_cropping(cache: Any) -> None:
    """Let layers with a sliding window keep what a crop takes them back to; transformers asks for this before the
    fact.
    """
    for layer in cache.layers:
        if hasattr(layer, "activate_past_recording"):
            layer.activate_past_recording()


def _take_back(cache: Any, tokens: int) -> None:
    """Take one token off, and make sure that it is gone: a cache that grew from call to call would be timed at no
    size.
    """
    try:
        cache.crop(-1)
        cached_count = int(cache.get_seq_length())
    except (ValueError, NotImplementedError, AttributeError, RuntimeError) as error:
        raise UnsupportedError(f"{type(cache).__name__} cannot be taken back by a token: {error}") from None
    if cached_count != tokens:
        raise UnsupportedError(
            f"{type(cache).__name__} holds {cached_count} tokens after a step was taken back, not {tokens}"
        )


def _parameters_of(model: Any) -> frozenset[str]:
    with suppress(TypeError, ValueError):
        return frozenset(inspect.signature(model.forward).parameters)
    return frozenset()
