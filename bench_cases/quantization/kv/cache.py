"""A transformers cache that holds keys and values in INT8, FP8 or NVFP4: memory measured, quality real, speed emulated.

What attention reads is decoded from what is held, for the prompt as well: a narrow cache costs the same quality here as
in an engine that stores before it attends. Decoding is a step of its own, and makes a 16-bit copy for the one layer
that runs; an engine's kernel decodes while it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bench_cases.quantization.held_bytes import held_bytes
from bench_cases.quantization.kv.codecs import KVCodec, Parts, kv_codec
from bench_cases.quantization.torchao_library import quiet_imports
from roofline_model.core.errors import MissingDependencyError, UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import get_format

try:
    with quiet_imports():
        from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
except ImportError:
    raise MissingDependencyError("transformers", "quant", "a quantised KV cache") from None


@dataclass(frozen=True, slots=True)
class KVCacheReport:
    """Contents of a cache after some tokens."""

    precision: str
    """Format key."""
    tokens_count: int
    """Tokens of one sequence in the longest layer."""
    held_bytes: int
    """Measured from the tensors of all layers."""
    format_bytes: int
    """What the formats' definitions say for the layers that are narrow, plus the held bytes of the others."""
    wide_bytes: int
    """The same cache in the model's own dtype."""
    saturated_count: int
    """NVFP4 blocks larger than the tensor scale allows; 0 for other formats, which scale every token."""
    wide_layers: tuple[Finding, ...]
    """Layers that stay in 16 bit, each with its reason."""


class NarrowLayer(DynamicLayer):
    """The cache of one layer: parts of keys and of values, appended as they come. See `codecs` for the parts."""

    def __init__(self, precision: str) -> None:
        super().__init__()
        self.precision = precision
        self._codecs: tuple[KVCodec, KVCodec] | None = None
        self._parts: list[Parts] = []
        """Keys' parts and values' parts; empty before the first update."""

    def lazy_initialization(self, key_states: Tensor, *more: Any) -> None:
        """Make the codecs for the head dimensions that arrive."""
        self.dtype, self.device = key_states.dtype, key_states.device
        values = more[0] if more else key_states
        self._codecs = (kv_codec(self.precision, key_states.shape[-1]), kv_codec(self.precision, values.shape[-1]))
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append new states (batch, heads, tokens, D); return all keys and values, decoded."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self._codecs is not None
        new = [codec.encode(states) for codec, states in zip(self._codecs, (key_states, value_states), strict=True)]
        if self._parts:
            new = [_joined(old, more) for old, more in zip(self._parts, new, strict=True)]
        self._parts = new
        keys, values = (codec.decode(parts, self.dtype) for codec, parts in zip(self._codecs, self._parts, strict=True))
        return keys, values

    def get_seq_length(self, *args: Any) -> int:
        """Tokens held."""
        return self._parts[0][0].shape[-2] if self._parts else 0

    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor held, tensor scales included."""
        part_tensors = [tensor for parts in self._parts for tensor in parts]
        scales = [getattr(codec, "tensor_scale", None) for codec in self._codecs or ()]
        return (*part_tensors, *(scale for scale in scales if scale is not None))

    def format_bytes(self) -> int:
        """Return the bytes that the format says for what is held."""
        if self._codecs is None or not self._parts:
            return 0
        return sum(
            codec.stored.storage_bytes(_states_shape(parts, codec))
            for codec, parts in zip(self._codecs, self._parts, strict=True)
        )

    def wide_bytes(self) -> int:
        """Return the bytes of the same states in the model's dtype."""
        if self._codecs is None or not self._parts:
            return 0
        width = torch.empty(0, dtype=self.dtype).element_size()
        shapes = (_states_shape(parts, codec) for codec, parts in zip(self._codecs, self._parts, strict=True))
        return sum(torch.Size(shape).numel() * width for shape in shapes)

    @property
    def saturated_count(self) -> int:
        """NVFP4 blocks that did not fit under the tensor scale."""
        return sum(int(getattr(codec, "saturated_count", 0)) for codec in self._codecs or ())

    def reset(self) -> None:
        """Forget everything, scales included."""
        self._parts, self._codecs, self.is_initialized = [], None, False

    def crop(self, max_length: int) -> None:
        """Keep the first `max_length` tokens, or drop the last `-max_length`."""
        length = max_length if max_length >= 0 else self.get_seq_length() + max_length
        if length < self.get_seq_length():
            self._parts = [tuple(part[..., :length, :].contiguous() for part in parts) for parts in self._parts]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Reorder the sequences (beam search)."""
        self._map(lambda part: part.index_select(0, beam_idx.to(part.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every sequence."""
        self._map(lambda part: part.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some sequences."""
        self._map(lambda part: part[indices, ...])

    def offload(self) -> None:
        """Move what is held to the CPU."""
        self._map(lambda part: part.to("cpu", non_blocking=True))

    def prefetch(self) -> None:
        """Move what is held back to the layer's device."""
        self._map(lambda part: part.to(self.device, non_blocking=True))

    def _map(self, change: Any) -> None:
        self._parts = [tuple(change(part) for part in parts) for parts in self._parts]


class NarrowCache(Cache):
    """A growing cache for `model(past_key_values=…)` and `model.generate(past_key_values=…)`.

    Layers with a sliding window or another layout of their own keep the cache transformers gives them; `report` says
    so.
    """

    def __init__(self, config: Any, precision: str) -> None:
        self.precision = get_format(precision).key
        kv_codec(self.precision, _head_dim(config))  # an unknown format or an impossible head dimension fails here
        layers = list(DynamicCache(config=config).layers)
        self.wide_layers: tuple[Finding, ...] = tuple(
            finding("cache-layout-own", f"layer {index}", layout=type(layer).__name__)
            for index, layer in enumerate(layers)
            if type(layer) is not DynamicLayer
        )
        super().__init__(
            layers=[NarrowLayer(self.precision) if type(layer) is DynamicLayer else layer for layer in layers]
        )

    def report(self) -> KVCacheReport:
        """Measure what the cache holds now."""
        narrow = [layer for layer in self.layers if isinstance(layer, NarrowLayer)]
        full_layers = [layer for layer in self.layers if not isinstance(layer, NarrowLayer)]
        other_bytes = held_bytes(tensor for layer in full_layers for tensor in _wide_tensors(layer))
        return KVCacheReport(
            precision=self.precision,
            tokens_count=max((length for layer in self.layers if (length := _tokens_of(layer)) is not None), default=0),
            held_bytes=held_bytes(tensor for layer in narrow for tensor in layer.tensors()) + other_bytes,
            format_bytes=sum(layer.format_bytes() for layer in narrow) + other_bytes,
            wide_bytes=sum(layer.wide_bytes() for layer in narrow) + other_bytes,
            saturated_count=sum(layer.saturated_count for layer in narrow),
            wide_layers=self.wide_layers,
        )


def make_kv_cache(model: Any, precision: str) -> Cache:
    """Return an empty cache for a transformers model: INT8, FP8, NVFP4, or a 16-bit format for transformers' own.

    A narrow cache is a `NarrowCache` with a `report()`; `cache_bytes` measures any cache.
    """
    config = getattr(model, "config", model)
    _head_dim(config)
    if get_format(precision).element_bits >= 16:
        return DynamicCache(config=config)
    return NarrowCache(config, precision)


def cache_bytes(cache: Cache) -> int:
    """Return the bytes that the keys and values of any cache occupy, from its tensors."""
    tensors: list[Tensor] = []
    for layer in cache.layers:
        tensors += layer.tensors() if isinstance(layer, NarrowLayer) else _wide_tensors(layer)
    return held_bytes(tensors)


def _tokens_of(layer: Any) -> int | None:
    """Return the tokens a layer holds, or None for a layer that is no cache of tokens (linear attention)."""
    return int(layer.get_seq_length()) if hasattr(layer, "get_seq_length") else None


def _wide_tensors(layer: Any) -> list[Tensor]:
    return [tensor for name in ("keys", "values") if isinstance(tensor := getattr(layer, name, None), Tensor)]


def _joined(old: Parts, new: Parts) -> Parts:
    return tuple(torch.cat([a, b], dim=-2) for a, b in zip(old, new, strict=True))


def _states_shape(parts: Parts, codec: KVCodec) -> Sequence[int]:
    """Return (batch, heads, tokens, D) of the states that parts stand for; the codes of a 4-bit format are pairs."""
    codes = parts[0]
    return (*codes.shape[:-1], codes.shape[-1] * (2 if codec.stored.element_bits == 4 else 1))


def _head_dim(config: Any) -> int:
    decoder = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
    try:
        return int(getattr(decoder, "head_dim", None) or decoder.hidden_size // decoder.num_attention_heads)
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):
        raise UnsupportedError(
            f"{type(config).__name__} has no attention heads to make a KV cache for: give a transformers language model"
        ) from None
