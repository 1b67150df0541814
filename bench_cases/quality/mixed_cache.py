"""A key-value cache whose layers have formats of their own, as strategies and searches give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench_cases.quantization.kv.cache import DynamicLayer, NarrowLayer, make_kv_cache
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.formats.catalog import get_format


def make_mixed_cache(model: Any, formats: Sequence[str]) -> Any:
    """Return an empty cache for a transformers model, one format per layer; 16-bit formats leave a layer as it is.

    Raises `InvalidValueError` for another number of layers, `UnsupportedError` for a narrow format on a layer whose
    cache has a layout of its own (a sliding window).
    """
    cache = make_kv_cache(model, "BF16")
    if len(formats) != len(cache.layers):
        raise InvalidValueError(f"{len(formats)} formats for a cache of {len(cache.layers)} layers: give one for each")
    for index, format_key in enumerate(formats):
        if get_format(format_key).element_bits >= 16:
            continue
        if type(cache.layers[index]) is not DynamicLayer:
            raise UnsupportedError(
                f"the cache of layer {index} is a {type(cache.layers[index]).__name__} with a layout of its own: "
                f"{format_key} is not simulated"
            )
        cache.layers[index] = NarrowLayer(get_format(format_key).key)
    return cache
