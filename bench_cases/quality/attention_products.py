"""Attention that multiplies in a narrow format, emulated: query, key and probabilities rounded, sums and softmax in
FP32.

Query and key are quantised per token and head along the head dimension, probabilities per query along the keys, each
with a scale of its own, as FP8 attention kernels round them (they fix the probabilities' scale by the softmax' maximum,
which is the row's own up to a power of two). Values are multiplied as the cache gives them: stored in FP8 they have
been rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from bench_cases.quality.activation_codecs import round_trip_rows
from bench_cases.quantization.torchao_library import quiet_imports
from roofline_model.core.errors import MissingDependencyError, UnsupportedError
from roofline_model.formats.catalog import get_format

_NAME = "roofline_narrow_products"
_UNKNOWN_ARGUMENTS = ("softcap", "s_aux")
"""What some attentions add to scores or softmax (Gemma 2, gpt-oss), and this one does not."""


@contextmanager
def attending(model: nn.Module, products: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Let every layer's attention multiply in the formats (query · key, scores · value) of `products`, one pair a
    layer.

    Raises `UnsupportedError` for a model whose attention cannot be replaced through transformers, at the latest at the
    end of the block: a figure that leaves the products wide in silence must not come out.
    """
    config: Any = getattr(model, "config", None)
    marked = [module for module in model.modules() if _is_attention(module)]
    if not marked or not hasattr(config, "_attn_implementation"):
        raise UnsupportedError(
            f"the attention of {type(model).__name__} cannot be replaced: narrow products are not simulated"
        )
    calls = _Calls(products)
    _register()
    before = config._attn_implementation
    try:
        config._attn_implementation = _NAME
        for module in marked:
            module.roofline_products = calls  # type: ignore[assignment]
        yield
    finally:
        config._attn_implementation = before
        for module in marked:
            del module.roofline_products
    if not calls.count:
        raise UnsupportedError(
            f"{type(model).__name__} does not compute attention through transformers' interface: narrow products are "
            "not simulated"
        )


class _Calls:
    """Formats by layer, and how often they were used."""

    def __init__(self, products: Sequence[tuple[str, str]]) -> None:
        self.products = products
        self.count = 0


def _is_attention(module: nn.Module) -> bool:
    """Whether a module is the attention of some layer, by the names that transformers gives."""
    return isinstance(getattr(module, "layer_idx", None), int) and "Attention" in type(module).__name__


def _register() -> None:
    try:
        with quiet_imports():
            from transformers import AttentionInterface, AttentionMaskInterface
            from transformers.masking_utils import eager_mask
    except ImportError:
        raise MissingDependencyError("transformers", "quant", "attention in a narrow format") from None
    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, eager_mask)


def _attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float, **more: Any
) -> tuple[Tensor, Tensor]:
    """Return (batch, queries, heads, D) and the probabilities; query (batch, heads, queries, D), key and value per KV
    head.
    """
    for name in _UNKNOWN_ARGUMENTS:
        if more.get(name) is not None:
            raise UnsupportedError(f"this model's attention has {name}: narrow products are not simulated with it")
    calls: _Calls = module.roofline_products
    calls.count += 1
    qk, sv = calls.products[module.layer_idx]
    groups = query.shape[1] // key.shape[1]
    keys = _rounded(key, qk).repeat_interleave(groups, dim=1)
    values = value.float().repeat_interleave(groups, dim=1)
    scores = _rounded(query, qk) @ keys.transpose(2, 3) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask[..., : keys.shape[2]].float()
    probabilities = _rounded(scores.softmax(-1), sv)
    output = (probabilities @ values).to(query.dtype).transpose(1, 2).contiguous()
    return output, probabilities.to(query.dtype)


def _rounded(states: Tensor, format_key: str) -> Tensor:
    """Return states (…, n) in FP32, as a format holds them along the last axis."""
    wide = states.float()
    if get_format(format_key).element_bits >= 16:
        return wide
    return round_trip_rows(wide.reshape(-1, wide.shape[-1]), format_key).view(wide.shape)
