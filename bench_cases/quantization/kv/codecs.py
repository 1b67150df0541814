"""Codecs of keys and values in a narrow cache: encode (batch, heads, tokens, D) once, decode on each read.

Every part keeps the token axis at position -2, so that a cache can append, cut and reorder parts without decoding them.
8-bit parts are held as bytes, because torch concatenates and indexes few 8-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from bench_cases.kernels.packing import pack_nibbles_low_first
from bench_cases.kernels.products.quantizers import absmax, element_values, nvfp4_within, scaled_rows
from roofline_model.core.errors import InvalidValueError, UnknownNameError, UnsupportedError
from roofline_model.formats.catalog import get_format
from roofline_model.formats.codecs.layout import float_limits, layout_of
from roofline_model.formats.codecs.scales.nvfp4 import tensor_scale_for, wanted_scales

NVFP4_BLOCK_ELEMS = 16
NVFP4_HEADROOM = 4.0
"""How much larger than anything seen so far a later key or value may be before it saturates (an assumption, not a
fit).
"""

Parts = tuple[Tensor, ...]


class ScaledKV:
    """INT8 or E4M3, symmetric, with one BF16 scale per token and head.

    A codec belongs to the keys, or the values, of one layer. `stored`: the format whose `storage_bytes` a cache of it
    should hold, D as the last axis.
    """

    def __init__(self, format_key: str, head_dim: int) -> None:
        self.stored = get_format(format_key).grouped(head_dim, scale_bits=16)
        self._format_key = format_key

    def encode(self, states: Tensor) -> Parts:
        """Return codes (…, D) as bytes and scales (…, 1) bfloat16 of new states (batch, heads, tokens, D)."""
        _need_tokens(states)
        quantized = scaled_rows(states.float().flatten(0, -2), self._format_key, "bfloat16")
        assert quantized.scales is not None
        codes = quantized.codes.view(torch.uint8).view(states.shape)
        return codes, quantized.scales.unflatten(0, states.shape[:-1])

    def decode(self, parts: Parts, dtype: torch.dtype) -> Tensor:
        """Return codes × scale."""
        codes, scales = parts
        numbers = codes.view(torch.int8 if self._format_key == "INT8" else torch.float8_e4m3fn).float()
        return (numbers * scales.float()).to(dtype)


class Nvfp4KV:
    """NVFP4 along D: E2M1 pairs, one E4M3 scale per 16, one FP32 scale for the tensor, set by the first states that are
    not all zero.

    A real cache fixes its tensor scale in calibration; here it is the first call's maximum (the prompt) times
    `NVFP4_HEADROOM`. Blocks that outgrow it saturate and are counted in `saturated_count`.
    """

    def __init__(self, head_dim: int) -> None:
        if head_dim < NVFP4_BLOCK_ELEMS or head_dim % NVFP4_BLOCK_ELEMS:
            raise UnsupportedError(f"an NVFP4 cache needs a head dimension that is a multiple of 16, got {head_dim}")
        self.stored = get_format("NVFP4")
        self.tensor_scale: Tensor | None = None
        """FP32, no dimension."""
        self.saturated_count = 0
        """Blocks whose scale exceeded E4M3's maximum."""

    def encode(self, states: Tensor) -> Parts:
        """Return packed codes (…, D/2) and block scales (…, D/16), both as bytes."""
        _need_tokens(states)
        layout, rows = layout_of(self.stored), states.float().flatten(0, -2)
        largest = absmax(rows.unflatten(1, (-1, NVFP4_BLOCK_ELEMS)))
        tensor_scale = self.tensor_scale
        if tensor_scale is None:
            tensor_scale = tensor_scale_for(largest.max() * NVFP4_HEADROOM, layout)
            if not bool(
                largest.max() == 0
            ):  # zeros say nothing of what comes, and their codes are right under any scale
                self.tensor_scale = tensor_scale
        _, largest_scale = float_limits(layout.scale_dtype)
        self.saturated_count += int((wanted_scales(largest, tensor_scale, layout) > largest_scale).sum())
        codes, scales = nvfp4_within(rows, largest, tensor_scale)
        leading = states.shape[:-1]
        return pack_nibbles_low_first(codes).unflatten(0, leading), scales.view(torch.uint8).unflatten(0, leading)

    def decode(self, parts: Parts, dtype: torch.dtype) -> Tensor:
        """Return E2M1 value × block scale × tensor scale."""
        packed, scales = parts
        tensor_scale = 0.0 if self.tensor_scale is None else self.tensor_scale  # None: only zeros were encoded
        table = element_values(self.stored)
        assert table is not None
        table = table.to(packed.device, torch.float32)
        pairs = torch.stack((packed & 0x0F, packed >> 4), dim=-1).flatten(-2)
        values = table[pairs.long()].unflatten(-1, (-1, NVFP4_BLOCK_ELEMS))
        scale = scales.view(torch.float8_e4m3fn).float().unsqueeze(-1) * tensor_scale
        return (values * scale).flatten(-2).to(dtype)


KVCodec = ScaledKV | Nvfp4KV
KV_FORMATS: dict[str, Callable[[int], KVCodec]] = {
    "INT8": partial(ScaledKV, "INT8"),
    "FP8_E4M3": partial(ScaledKV, "FP8_E4M3"),
    "NVFP4": Nvfp4KV,
}
"""Format key → a new codec, called with the head dimension."""


def kv_codec(name: str, head_dim: int) -> KVCodec:
    """Return a new codec of a cache format by key or alias (`FP8`, `NVFP4_KV`)."""
    if isinstance(head_dim, bool) or not isinstance(head_dim, int) or head_dim < 1:
        raise InvalidValueError(f"a head dimension must be a whole number of at least 1, got {str(head_dim)[:40]!r}")
    key = get_format(name).key
    if key not in KV_FORMATS:
        raise UnknownNameError(
            "format", name, [*KV_FORMATS, "BF16"], fix="These are the formats a cache can hold here."
        )
    return KV_FORMATS[key](head_dim)


def _need_tokens(states: Tensor) -> None:
    if states.ndim < 2 or states.numel() == 0:
        raise InvalidValueError(
            f"keys and values must hold at least one token, (batch, heads, tokens, D), got {tuple(states.shape)}"
        )
