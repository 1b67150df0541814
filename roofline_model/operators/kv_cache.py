"""The key/value cache: its size, appending to it, and gathering it into a plain tensor; paged or in one piece.

Scales are part of a format's bytes: an NVFP4 cache takes 4.53125 bits per element. A paged cache keeps whole pages of
`page_tokens` tokens per sequence and a table of their numbers.
"""

from __future__ import annotations

from roofline_model.core.cost import OpCost
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.operators.attention import PAGE_NUMBER_BYTES
from roofline_model.operators.attention_shape import pages_read
from roofline_model.operators.operand_formats import activation_format, is_wide_float, vector_format
from roofline_model.operators.product import FormatLike, Operator, check_dimension, default_output_format
from roofline_model.operators.quantize import cast_flops_per_element

SLOT_NUMBER_BYTES = 8
"""Where a new token goes in a paged cache: one int64 per token, as vLLM's slot mapping."""


def kv_cache_bytes(
    B: int,
    Hkv: int,
    S: int,
    D: int,
    *,
    kv: FormatLike = "BF16",
    layers: int = 1,
    Dv: int | None = None,
    shared_kv: bool = False,
    page_tokens: int | None = None,
) -> float:
    """Return the bytes that K and V of `S` tokens take in `layers` layers, scales included in nominal width.

    A paged cache holds whole pages; its block table is shared by the layers. `shared_kv`: one latent row per token
    serves as both (MLA), of size D.
    """
    elements_per_token = _row_elements(Hkv, D, Dv, shared_kv)
    for name, size in (("B", B), ("S", S), ("layers", layers)):
        check_dimension(name, size)
    per_token = elements_per_token * get_format(kv).traffic_bytes_per_element
    if page_tokens is None:
        return layers * B * S * per_token
    pages = pages_read(S, S, page_tokens)
    return layers * B * pages * page_tokens * per_token + B * pages * PAGE_NUMBER_BYTES


def kv_write(
    B: int,
    Hkv: int,
    Sq: int,
    D: int,
    *,
    source: FormatLike = "BF16",
    kv: FormatLike | None = None,
    Dv: int | None = None,
    shared_kv: bool = False,
    page_tokens: int | None = None,
) -> Operator:
    """Return the kernel that appends K and V of `Sq` new tokens to the cache, casting them to its format.

    Counts: the new rows read in `source`, written in `kv` with their scales; one slot number per token when paged.
    A narrower cache costs the FLOPs of `quantize` with a scale per block or, for plain formats, a known one.
    """
    elements = _checked(B, Sq, "Sq") * _row_elements(Hkv, D, Dv, shared_kv)
    fs = activation_format("source", source)
    fkv = fs if kv is None else get_format(kv)
    if fkv.element_bits > fs.element_bits:
        raise InvalidValueError(f"kv={fkv.key} is wider than source={fs.key}: a cache does not widen what it stores")
    reads = {"new_kv": elements * fs.traffic_bytes_per_element}
    if page_tokens is not None:
        check_dimension("page_tokens", page_tokens)
        reads["slots"] = B * Sq * SLOT_NUMBER_BYTES
    flops_per_element = cast_flops_per_element("block" if fkv.scales else "static") if _is_cast(fs, fkv) else 0
    cost = OpCost(
        flops={vector_format(fs): elements * flops_per_element},
        read_bytes=reads,
        write_bytes={"cache": elements * fkv.traffic_bytes_per_element},
    )
    shape = _shape(B, Hkv, ("Sq", Sq), D, Dv, page_tokens)
    return Operator("kv_write", shape, (("source", fs.key), ("kv", fkv.key)), cost)


def kv_read(
    B: int,
    Hkv: int,
    Skv: int,
    D: int,
    *,
    kv: FormatLike = "BF16",
    target: FormatLike | None = None,
    Dv: int | None = None,
    shared_kv: bool = False,
    page_tokens: int | None = None,
) -> Operator:
    """Return the kernel that gathers the cache of `Skv` tokens into plain tensors, widening it to `target`.

    Only attention that cannot read the cache itself needs it; a fused kernel reads it once as it is (`attention`).
    `target` defaults to the cache's format when that is a plain float of 16 bits or more, else FP16.
    """
    elements = _checked(B, Skv, "Skv") * _row_elements(Hkv, D, Dv, shared_kv)
    fkv = get_format(kv)
    ft = default_output_format(fkv) if target is None else activation_format("target", target)
    if ft.element_bits < fkv.element_bits:
        raise InvalidValueError(f"target={ft.key} is narrower than kv={fkv.key}: reading a cache does not quantise it")
    reads = {"cache": elements * fkv.traffic_bytes_per_element}
    if page_tokens is not None:
        reads["block_table"] = B * pages_read(Skv, Skv, page_tokens) * PAGE_NUMBER_BYTES
    cost = OpCost(
        flops={vector_format(ft): elements if _is_cast(ft, fkv) else 0},
        read_bytes=reads,
        write_bytes={"KV": elements * ft.traffic_bytes_per_element},
    )
    shape = _shape(B, Hkv, ("Skv", Skv), D, Dv, page_tokens)
    return Operator("kv_read", shape, (("kv", fkv.key), ("o", ft.key)), cost)


def _checked(B: int, tokens: int, name: str) -> int:
    check_dimension("B", B)
    check_dimension(name, tokens)
    return B * tokens


def _row_elements(Hkv: int, D: int, Dv: int | None, shared_kv: bool) -> int:
    """Return the elements of K and V that one token has in one layer."""
    check_dimension("Hkv", Hkv)
    check_dimension("D", D)
    if Dv is not None:
        check_dimension("Dv", Dv)
    if shared_kv:
        return Hkv * D
    return Hkv * (D + (D if Dv is None else Dv))


def _is_cast(wide: NumberFormat, narrow: NumberFormat) -> bool:
    """Return True when going from one to the other takes a scale: plain 16-bit floats are copied or rounded."""
    return wide.key != narrow.key and not is_wide_float(narrow)


def _shape(
    B: int, Hkv: int, tokens: tuple[str, int], D: int, Dv: int | None, page_tokens: int | None
) -> tuple[tuple[str, int], ...]:
    shape = [("B", B), ("Hkv", Hkv), tokens, ("D", D)]
    shape += [("Dv", Dv)] if Dv is not None and Dv != D else []
    shape += [("page", page_tokens)] if page_tokens is not None else []
    return tuple(shape)
